//! Counts of the requests of the sink.

use crate::entry::FileNumber;
use crate::wire::{DataRequest, NeededData, WireError};

/// How many entries the sink answered.
///
/// Invariant: each file is requested and hashed at most once, so neither count exceeds the number
/// of sent entries; this bounds the work for requests.
#[derive(Debug, Default)]
pub(super) struct RequestCounts {
    answered: u64,
    /// Number of files whose hash the sink requested.
    hashes: u64,
    /// Bytes of files that the sink did not need.
    unneeded_bytes: u64,
}

impl RequestCounts {
    /// Returns the number of answered entries.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Returns the number of bytes that the sink did not need.
    pub fn unneeded_bytes(&self) -> u64 {
        self.unneeded_bytes
    }

    /// Counts bytes that the sink did not need.
    pub fn add_unneeded(&mut self, bytes: u64) {
        self.unneeded_bytes = self.unneeded_bytes.saturating_add(bytes);
    }

    /// Counts a request, if all of its entries are among the first `sent` ones; returns their
    /// numbers.
    ///
    /// # Errors
    /// [`WireError::InvalidValue`] if the sink requests more entries than were sent.
    pub fn add(
        &mut self,
        request: &DataRequest,
        sent: u64,
    ) -> Result<impl Iterator<Item = FileNumber>, WireError> {
        let last = request.first.get().saturating_add(request.count);
        let count = if request.what == NeededData::Hash { &mut self.hashes } else { &mut self.answered };
        let sum = count.saturating_add(request.count);
        if last.max(sum) > sent {
            return Err(WireError::InvalidValue("a request for an unknown entry"));
        }
        *count = sum;
        Ok((request.first.get()..last).filter_map(|number| FileNumber::new(number).ok()))
    }
}
