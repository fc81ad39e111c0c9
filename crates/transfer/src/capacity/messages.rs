//! Messages between a transfer and the daemon that lends capacity to it: newline-delimited JSON.

use crate::line::sanitize;
use numaio_schema::{LentCapacity, QueuedTransfer, TransferDirection};
use serde::{Deserialize, Serialize};

/// Maximum length of a line of a transfer.
pub const MAX_REQUEST_BYTES: usize = 8 << 10;
/// Maximum length of a line of the daemon.
pub const MAX_REPLY_BYTES: usize = 16 << 20;

/// A message of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CapacityRequest {
    /// Request of a program on the daemon's host for capacity; first message.
    Submit(LocalTransfer),
    /// Bytes of data so far.
    Progress(u64),
    /// Request for the list of transfers; only message.
    List,
}

/// A transfer of a program on the daemon's host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalTransfer {
    /// File systems that it uses: `st_dev` of stat(2), and the direction.
    pub file_systems: Vec<(u64, TransferDirection)>,
    /// Address of this host in its connection to the other host, and the direction.
    pub network: Option<(std::net::IpAddr, TransferDirection)>,
    /// Limit of its own in bytes/s.
    pub rate_limit: Option<u64>,
}

/// A message of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CapacityReply {
    /// What the transfer has or waits for; repeated when it changes.
    Lent(LentCapacity),
    /// The request is refused for this reason.
    Refused(String),
    /// Reply to [`CapacityRequest::List`].
    Transfers(Vec<QueuedTransfer>),
}

impl CapacityReply {
    /// Returns the reply with texts that are safe to display.
    #[must_use]
    pub fn sanitized(self) -> Self {
        match self {
            Self::Lent(lent) => Self::Lent(LentCapacity { why: sanitize(&lent.why), ..lent }),
            Self::Refused(why) => Self::Refused(sanitize(&why)),
            Self::Transfers(transfers) => Self::Transfers(transfers.into_iter().map(sanitized).collect()),
        }
    }
}

fn sanitized(transfer: QueuedTransfer) -> QueuedTransfer {
    let QueuedTransfer { user, what, devices, bytes, capacity } = transfer;
    let devices = devices.iter().map(|device| sanitize(device)).collect();
    let capacity = LentCapacity { why: sanitize(&capacity.why), ..capacity };
    QueuedTransfer { user: sanitize(&user), what: sanitize(&what), devices, bytes, capacity }
}
