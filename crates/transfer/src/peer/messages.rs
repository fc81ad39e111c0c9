//! Messages on the control channel before a transfer: the request, and the peer's reply.

use super::data_connections::{DataEndpoint, Offer};
use crate::request::{Capabilities, TransferRequest};
use numaio_mover::wire::Side;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

/// Reads from the other side.
pub type PeerReader = BufReader<Box<dyn Read + Send>>;
/// Writes to the other side.
pub type PeerWriter = Box<dyn Write + Send>;

/// Maximum length of a request and of its reply.
pub const MAX_LINE_BYTES: u64 = 16 << 20;

/// Request to a peer: its role, and the offered data connections.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeerRequest {
    /// The peer's role.
    pub role: PeerRole,
    /// Offered data connections; without an offer, data uses the control channel.
    pub offer: Option<Offer>,
    /// Seconds without a sign of life after which a side counts as lost, if both sides are to send
    /// keep-alives.
    pub timeout: Option<u32>,
}

/// The role of a peer.
#[derive(Debug, Serialize, Deserialize)]
pub enum PeerRole {
    /// The source of the files.
    Source(TransferRequest),
    /// The destination of the files, and whether the source is a single file.
    Sink(TransferRequest, bool),
}

/// The reply of a peer, in one line.
#[derive(Debug, Serialize, Deserialize)]
pub enum PeerReply {
    /// The peer is ready.
    Ready(ReadyReply),
    /// The peer refuses, with the reason.
    Refused(String),
}

/// The reply of a peer that is ready.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadyReply {
    /// Whether the peer's source is a single file.
    pub is_one_file: bool,
    /// Where it accepts offered data connections, or why it cannot. A
    /// [`DataRoute`](super::data_connections::DataRoute) follows an offer.
    pub endpoint: Option<Result<DataEndpoint, String>>,
    /// Remarks for the user about what was typed.
    pub remarks: Vec<String>,
    /// Its capabilities as a sink.
    #[serde(flatten)]
    pub capabilities: Capabilities,
}

impl PeerRequest {
    /// Returns how long the other side may be silent; `None` without a limit.
    pub fn silence_limit(&self) -> Option<Duration> {
        self.timeout.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()))
    }
}

impl PeerRole {
    /// Returns the request of the transfer.
    pub fn transfer(&self) -> &TransferRequest {
        match self {
            Self::Source(transfer) | Self::Sink(transfer, _) => transfer,
        }
    }

    /// Returns the side of the transfer.
    pub fn side(&self) -> Side {
        match self {
            Self::Source(_) => Side::Source,
            Self::Sink(..) => Side::Sink,
        }
    }
}

/// Receives a line of JSON.
pub fn receive<T: DeserializeOwned>(from: &mut PeerReader) -> io::Result<T> {
    Ok(serde_json::from_str(&receive_line(from)?)?)
}

/// Receives a line.
pub fn receive_line(from: &mut PeerReader) -> io::Result<String> {
    let mut line = String::new();
    from.by_ref().take(MAX_LINE_BYTES).read_line(&mut line)?;
    Ok(line)
}

/// Returns the version of a request that has other fields; `None` if it is not a request.
pub fn request_version(line: &str) -> Option<u32> {
    let request: serde_json::Value = serde_json::from_str(line).ok()?;
    let transfer = request["role"].get("Source").unwrap_or(&request["role"]["Sink"][0]);
    transfer["numaio_copy"].as_u64()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_other_versions_state_their_version() {
        for line in [r#"{"role":{"Source":{"numaio_copy":7}}}"#, r#"{"role":{"Sink":[{"numaio_copy":7},9]}}"#]
        {
            assert_eq!(request_version(line), Some(7));
        }
        for line in ["", "{}", "[]", r#"{"role":7}"#, r#"{"role":{"Source":{"numaio_copy":-1}}}"#] {
            assert_eq!(request_version(line), None, "{line}");
        }
    }
}
