//! Ping-pong with a peer: a message and its return, over one or several connections.

use crate::ids::NodeId;
use crate::set::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// A message that a peer returns when it has arrived completely, repeatedly, as in NetPIPE.
///
/// Several connections carry the message in parts, each on its own rail (Moreaud and Goglin, 2007,
/// section 5).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PingWorkload {
    /// Name of the session with the peer, as in [`TcpPath`](super::TcpPath).
    pub peer: String,
    /// CPUs on which the thread may run.
    pub cpus: CpuSet,
    /// Node of the buffer.
    pub memory: NodeId,
    /// CPUs and memory node of the peer's thread; `None` lets the peer choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_placement: Option<(CpuSet, NodeId)>,
    /// The parts of the message; a connection for each.
    pub parts: Vec<PingPart>,
    /// Duration of the run after a warm-up of one slice, in milliseconds.
    pub milliseconds: u32,
    /// Number of equal slices of the run; each is a sample.
    pub slices: u32,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PingPart {
    /// Size in bytes; 0 leaves the connection idle.
    pub bytes: u64,
    /// The rail of its connection; `None` for the path of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rail: Option<Rail>,
}

/// One of several paths to a peer, which usually is a network interface at each end.
///
/// The local address does not select the interface by itself: the route to the remote address does
/// (ip-route(8)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Rail {
    /// Local address.
    pub local: IpAddr,
    /// Address of the peer.
    pub remote: IpAddr,
}

impl PingWorkload {
    /// Returns the size of a message in bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add)
    }
}

impl fmt::Display for Rail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.local, self.remote)
    }
}

impl fmt::Display for PingWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, cpus, memory, parts, .. } = self;
        write!(f, "ping-pong of {} bytes with {peer} on CPUs {cpus}, buffer on node {memory}", self.bytes())?;
        match parts.len() {
            0 | 1 => Ok(()),
            rails => write!(f, ", over {rails} rails"),
        }
    }
}
