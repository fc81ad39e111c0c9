//! Partially listed directories.

use numaio_mover::port::NameMatching;
use rustix::fs::Dir;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Partially listed directories.
#[derive(Debug, Default)]
pub struct OpenListings(Mutex<(u64, HashMap<u64, (u32, OpenListing)>)>);

/// An open directory and how it matches names.
pub type OpenListing = (Dir, NameMatching);

impl OpenListings {
    /// Keeps a directory below a root until it is listed further, and returns its number.
    pub fn keep(&self, root: u32, directory: OpenListing) -> u64 {
        let mut listings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listings.0 += 1;
        let number = listings.0;
        listings.1.insert(number, (root, directory));
        number
    }

    /// Returns the root and the directory of a number once.
    pub fn take(&self, number: u64) -> Option<(u32, OpenListing)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number)
    }

    /// Returns the root of a number.
    pub fn root(&self, number: u64) -> Option<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.get(&number).map(|(root, _)| *root)
    }
}
