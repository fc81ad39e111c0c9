//! Partially listed directories.

use crate::files::directory_reader::DirectoryReader;
use numaio_mover::port::NameMatching;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Partially listed directories.
#[derive(Debug, Default)]
pub struct OpenListings(Mutex<ListingTable>);

#[derive(Debug, Default)]
struct ListingTable {
    last: u64,
    /// Each with its root.
    open: HashMap<u64, (u32, OpenListing)>,
}

/// An open directory and how it matches names.
pub type OpenListing = (DirectoryReader, NameMatching);

impl OpenListings {
    /// Keeps a directory below a root until it is listed further, and returns its number.
    pub fn keep(&self, root: u32, directory: OpenListing) -> u64 {
        let mut listings = self.listings();
        listings.last += 1;
        let number = listings.last;
        listings.open.insert(number, (root, directory));
        number
    }

    /// Returns the root and the directory of a number once.
    pub fn take(&self, number: u64) -> Option<(u32, OpenListing)> {
        self.listings().open.remove(&number)
    }

    /// Returns the root of a number.
    pub fn root(&self, number: u64) -> Option<u32> {
        self.listings().open.get(&number).map(|(root, _)| *root)
    }

    fn listings(&self) -> MutexGuard<'_, ListingTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
