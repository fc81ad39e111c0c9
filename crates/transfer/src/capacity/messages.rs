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
    /// Bytes of data so far. A local transfer also sends it while it waits.
    Progress(u64),
    /// A message of the other host.
    FromPeer(PeerMessage),
    /// The other host lends nothing.
    NoPeer,
    /// The connection to the other host was lost, and is opened again.
    PeerRestarted,
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
    /// Name of the other host's daemon, if that may lend capacity, too: its public key.
    #[serde(default)]
    pub peer: Option<String>,
    /// Whether another host started it by ssh. It shares devices, but never waits: the other host
    /// may hold devices already, and two transfers in opposite directions would wait for each
    /// other.
    #[serde(default)]
    pub is_far_side: bool,
}

/// A message between the daemons of two hosts about a transfer, which passes it on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerMessage {
    /// The sender's loan if the other host limits nothing.
    Offer(CapacityOffer),
    /// The sender suspended the transfer in a turn.
    Suspended {
        /// Number of the turn.
        turn: u64,
    },
    /// The slot or place of the sender's transfer, for the user.
    Lent(LentCapacity),
}

/// A host's loan to a transfer if the other one limited nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityOffer {
    /// Number of the turn that the first host began.
    pub turn: u64,
    /// Rate in bytes/s; `None` if nothing limits it.
    pub rate: Option<u64>,
}

/// A message of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CapacityReply {
    /// The slot or place of the transfer; repeated when it changes.
    Lent(LentCapacity),
    /// A message for the other host.
    ForPeer(PeerMessage),
    /// Reply to a transfer with a peer: the name of this host's daemon, and whether it reserves its
    /// devices before the other host.
    Order {
        /// Its public key.
        host: String,
        /// Whether this host is first.
        is_first: bool,
    },
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
            Self::Lent(lent) => Self::Lent(sanitized_lent(lent)),
            Self::ForPeer(message) => Self::ForPeer(message.sanitized()),
            Self::Order { host, is_first } => Self::Order { host: sanitize(&host), is_first },
            Self::Refused(why) => Self::Refused(sanitize(&why)),
            Self::Transfers(transfers) => Self::Transfers(transfers.into_iter().map(sanitized).collect()),
        }
    }
}

impl PeerMessage {
    /// Returns the message with texts that are safe to display.
    #[must_use]
    pub fn sanitized(self) -> Self {
        match self {
            Self::Lent(lent) => Self::Lent(sanitized_lent(lent)),
            other => other,
        }
    }
}

fn sanitized(transfer: QueuedTransfer) -> QueuedTransfer {
    let QueuedTransfer { user, subject: what, devices, bytes, capacity } = transfer;
    let devices = devices.iter().map(|device| sanitize(device)).collect();
    let (user, what, capacity) = (sanitize(&user), sanitize(&what), sanitized_lent(capacity));
    QueuedTransfer { user, subject: what, devices, bytes, capacity }
}

fn sanitized_lent(lent: LentCapacity) -> LentCapacity {
    LentCapacity { reason: sanitize(&lent.reason), ..lent }
}
