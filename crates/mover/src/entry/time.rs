//! Times of entries.

use super::error::EntryError;

/// A time since 1970 in UTC. Earlier times have negative seconds; nanoseconds count forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    seconds: i64,
    nanoseconds: u32,
}

impl Time {
    /// Creates a time.
    ///
    /// # Errors
    /// [`EntryError::Nanoseconds`] for a second or more.
    pub fn new(seconds: i64, nanoseconds: u32) -> Result<Self, EntryError> {
        if nanoseconds < 1_000_000_000 {
            Ok(Self { seconds, nanoseconds })
        } else {
            Err(EntryError::Nanoseconds(nanoseconds))
        }
    }

    /// Returns the whole seconds, rounded down.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Returns the nanoseconds within the second.
    pub fn nanoseconds(self) -> u32 {
        self.nanoseconds
    }
}
