//! Announcement of entries: they are numbered and sent in batches.

use crate::entry::{Entry, FileNumber};
use crate::wire::{BatchEncoder, WireError};

/// Entries of a batch that is sent although more would fit.
const BATCH_TARGET: usize = 256;

/// The numbers of the announced entries, and the entries that are not sent yet.
///
/// Invariant: entries are numbered consecutively up to `next`, and the last `unsent` of them are
/// those in the encoder.
#[derive(Debug)]
pub(super) struct Announcements {
    encoder: BatchEncoder,
    unsent: usize,
    next: FileNumber,
}

impl Announcements {
    /// Creates the state before the first entry.
    pub fn new() -> Self {
        let next = FileNumber::FIRST;
        Self { encoder: BatchEncoder::new(next), unsent: 0, next }
    }

    /// Returns the number of the next entry.
    pub fn next(&self) -> FileNumber {
        self.next
    }

    /// Returns the number of entries, including those that are not sent yet.
    pub fn count(&self) -> u64 {
        self.next.get()
    }

    /// Returns the number of sent entries.
    pub fn sent(&self) -> u64 {
        self.next.get() - self.unsent as u64
    }

    /// Returns whether all entries are sent.
    pub fn is_flushed(&self) -> bool {
        self.unsent == 0
    }

    /// Returns whether the batch should be sent although more entries would fit.
    pub fn is_large(&self) -> bool {
        self.unsent >= BATCH_TARGET
    }

    /// Adds an entry; returns `false` if the batch must be taken before.
    ///
    /// # Errors
    /// A [`WireError`] if the entry cannot be announced, or the numbers are exhausted; then nothing
    /// is added.
    pub fn push(&mut self, entry: &Entry) -> Result<bool, WireError> {
        let next = FileNumber::new(self.next.get() + 1)?;
        let is_added = self.encoder.push(entry)?;
        if is_added {
            (self.next, self.unsent) = (next, self.unsent + 1);
        }
        Ok(is_added)
    }

    /// Takes the frame of the batch, empty without entries, and the numbers of its entries.
    ///
    /// # Errors
    /// A [`WireError`] if the numbers are exhausted.
    pub fn take_batch(&mut self) -> Result<(Vec<u8>, impl Iterator<Item = FileNumber>), WireError> {
        let mut frames = Vec::new();
        self.encoder.take(&mut frames)?;
        let numbers = self.sent()..self.count();
        self.unsent = 0;
        Ok((frames, numbers.filter_map(|number| FileNumber::new(number).ok())))
    }
}
