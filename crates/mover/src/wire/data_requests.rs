//! The data that a sink requests.

use super::error::{WireError, MAX_REQUESTS};
use super::extents::check_extents;
use crate::entry::FileNumber;
use crate::extent::Extent;

/// The data that the sink needs, in any order. Every regular file is answered once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataRequests(pub(super) Vec<DataRequest>);

/// The data that the sink needs of files with consecutive numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataRequest {
    /// The first file.
    pub first: FileNumber,
    /// The number of files, at least 1.
    pub count: u64,
    /// The data needed of each file.
    pub what: NeededData,
}

/// The data that the sink needs of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeededData {
    /// No data: the sink has it, or cannot store it.
    Nothing,
    /// All data.
    All,
    /// These ranges; at least one.
    Some(Vec<Extent>),
    /// The content hash; another request for the file follows.
    Hash,
}

impl DataRequests {
    /// Creates a list of requests.
    ///
    /// # Errors
    /// [`WireError::TooLong`] for more than [`MAX_REQUESTS`] requests or too many extents,
    /// [`WireError::InvalidValue`] for none or if extents are out of order.
    pub fn new(wants: Vec<DataRequest>) -> Result<Self, WireError> {
        if wants.is_empty() {
            return Err(WireError::InvalidValue("a frame without requests"));
        }
        if wants.len() > MAX_REQUESTS {
            return Err(WireError::TooLong {
                what: "a list of requests",
                length: wants.len() as u64,
                limit: MAX_REQUESTS as u64,
            });
        }
        for want in &wants {
            let last = want.first.get().checked_add(want.count);
            if want.count == 0 || last.and_then(|last| FileNumber::new(last - 1).ok()).is_none() {
                return Err(WireError::InvalidValue("a file count"));
            }
            if let NeededData::Some(extents) = &want.what {
                check_extents(extents)?;
            }
        }
        Ok(Self(wants))
    }

    /// Returns the requests.
    pub fn into_inner(self) -> Vec<DataRequest> {
        self.0
    }
}
