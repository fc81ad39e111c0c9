//! A directory while it is listed.

use crate::port::DirectoryIdentity;
use std::sync::Arc;

/// Identifies a directory that several origins have.
pub(super) type MergeNumber = u64;

/// A directory that is listed.
#[derive(Debug)]
pub(super) struct ListedDirectory {
    /// Its identity.
    pub identity: DirectoryIdentity,
    /// The merged directory that it is part of.
    pub merged: Option<MergeNumber>,
    /// The directory that contains it; only known if links are followed.
    pub parent: Option<Arc<Self>>,
}

impl ListedDirectory {
    /// Returns whether an object is this directory, or a known one that contains it.
    pub fn is_or_is_within(&self, other: &DirectoryIdentity) -> bool {
        let mut above = std::iter::successors(Some(self), |directory| directory.parent.as_deref());
        above.any(|directory| directory.identity.is_same(other))
    }
}
