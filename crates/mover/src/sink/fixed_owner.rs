//! Owners that all entries get instead of those of the source.

use crate::entry::{Inode, Owner};

/// Owners that all entries get instead of those of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FixedOwner {
    /// The owning user; `None` for that of the source.
    pub user: Option<u32>,
    /// The owning group; `None` for that of the source.
    pub group: Option<u32>,
}

impl FixedOwner {
    /// Replaces the owners of an inode.
    pub(super) fn apply(self, inode: &mut Inode) {
        let owner = |id: Option<u32>| id.and_then(|id| Owner::new(id, None).ok());
        if let Some(user) = owner(self.user) {
            inode.user = user;
        }
        if let Some(group) = owner(self.group) {
            inode.group = group;
        }
    }
}
