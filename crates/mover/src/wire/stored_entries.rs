//! Entries that the sink has stored, so that the source may remove them.

use super::bytes::{put_number, Reader};
use super::error::WireError;
use crate::entry::FileNumber;

/// Maximum entries in one frame.
pub const MAX_STORED: usize = 1_024;
/// Maximum length of a payload.
pub(super) const MAX_STORED_PAYLOAD: usize = 1 + MAX_STORED * 10;

/// Entries that exist completely at the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntries {
    /// The numbers, ascending.
    entries: Vec<FileNumber>,
    /// Whether no others follow.
    is_last: bool,
}

impl StoredEntries {
    /// Creates a list of entries.
    ///
    /// # Errors
    /// [`WireError::InvalidValue`] unless the numbers are ascending, [`WireError::TooLong`] for
    /// more than [`MAX_STORED`].
    pub fn new(entries: Vec<FileNumber>, is_last: bool) -> Result<Self, WireError> {
        if entries.len() > MAX_STORED {
            let (what, length, limit) = ("a list of entries", entries.len() as u64, MAX_STORED as u64);
            return Err(WireError::TooLong { what, length, limit });
        }
        if entries.windows(2).any(|two| two[0] >= two[1]) {
            return Err(WireError::InvalidValue("the order of stored entries"));
        }
        Ok(Self { entries, is_last })
    }

    /// Returns the numbers.
    pub fn entries(&self) -> &[FileNumber] {
        &self.entries
    }

    /// Returns whether no others follow.
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.push(self.is_last.into());
        self.entries.iter().for_each(|number| put_number(out, number.get()));
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let is_last = match reader.byte("stored entries")? {
            0 => false,
            1 => true,
            _ => return Err(WireError::InvalidValue("stored entries")),
        };
        let mut entries = Vec::new();
        while !reader.is_empty() && entries.len() <= MAX_STORED {
            entries.push(FileNumber::new(reader.number("the number of a file")?)?);
        }
        Self::new(entries, is_last)
    }
}
