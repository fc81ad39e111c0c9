//! The notice of a daemon without a free slot, sent before the TLS handshake. It is not
//! authenticated, so it holds no text, and a client only waits because of it.

use super::deadline::DeadlineSocket;
use super::net_error::{opening_error, NetError};
use rustix::io::retry_on_intr;
use rustix::net::{send, SendFlags};
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;

/// Prefix of a notice, which no TLS record begins with.
const HEAD: &[u8; 8] = b"\x93numaio!";
/// Prefix, reason and position.
const BYTES: usize = HEAD.len() + 5;

/// Why a daemon has no slot for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullReason {
    /// All connections are in use.
    Connections = 1,
    /// All connections of the client's address are in use.
    PerAddress = 2,
    /// It is shutting down.
    ShuttingDown = 3,
}

impl FullReason {
    const ALL: [Self; 3] = [Self::Connections, Self::PerAddress, Self::ShuttingDown];
}

impl fmt::Display for FullReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connections => "limits.connections reached",
            Self::PerAddress => "limits.per_address reached",
            Self::ShuttingDown => "the daemon is shutting down",
        })
    }
}

/// A daemon has no slot for a connection yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullNotice {
    /// Why.
    pub reason: FullReason,
    /// Place among the waiting connections, from 1; `None` if the daemon closes the connection.
    pub position: Option<u32>,
}

impl FullNotice {
    fn bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..HEAD.len()].copy_from_slice(HEAD);
        bytes[HEAD.len()] = self.reason as u8;
        bytes[HEAD.len() + 1..].copy_from_slice(&self.position.unwrap_or(0).to_be_bytes());
        bytes
    }

    fn parse(bytes: [u8; BYTES]) -> Option<Self> {
        let (&code, position) = bytes.strip_prefix(HEAD)?.split_first()?;
        let reason = FullReason::ALL.into_iter().find(|reason| *reason as u8 == code)?;
        let position = u32::from_be_bytes(position.try_into().ok()?);
        Some(Self { reason, position: (position > 0).then_some(position) })
    }

    /// Sends the notice. It does not wait: a client that reads nothing is lost.
    ///
    /// # Errors
    /// I/O errors: the client has disconnected.
    pub fn send(self, socket: &TcpStream) -> io::Result<()> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match retry_on_intr(|| send(socket, &self.bytes(), flags))? {
            BYTES => Ok(()),
            _ => Err(ErrorKind::WriteZero.into()),
        }
    }

    /// Waits for the first byte of the daemon, and reads a notice; `None`, with nothing read, if it
    /// begins the handshake.
    ///
    /// # Errors
    /// [`NetError`] if the connection was closed, or the notice is invalid.
    pub(super) fn receive(mut timed: DeadlineSocket<'_>) -> Result<Option<Self>, NetError> {
        let mut first = [0];
        match timed.peek(&mut first).map_err(opening_error)? {
            0 => return Err(NetError::Refused),
            _ if first[0] != HEAD[0] => return Ok(None),
            _ => {}
        }
        let mut bytes = [0; BYTES];
        timed.read_exact(&mut bytes).map_err(opening_error)?;
        let invalid = || NetError::Protocol("unknown notice of a daemon".to_owned());
        Self::parse(bytes).ok_or_else(invalid).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_round_trip_and_others_are_rejected() {
        for reason in FullReason::ALL {
            for position in [None, Some(1), Some(u32::MAX)] {
                let notice = FullNotice { reason, position };
                assert_eq!(FullNotice::parse(notice.bytes()), Some(notice));
            }
        }
        let valid = FullNotice { reason: FullReason::Connections, position: Some(7) }.bytes();
        for (at, byte) in [(0, 22), (7, b':'), (8, 0), (8, 4), (8, 255)] {
            let mut other = valid;
            other[at] = byte;
            assert_eq!(FullNotice::parse(other), None, "byte {at}: {byte}");
        }
    }
}
