//! TCP data connections, authenticated through a control channel.
//!
//! One side opens a [`DataListener`], the other one starts [`OutgoingConnections`]. [`Credentials`]
//! authenticate a connection: with TLS the public keys that both sides exchanged through the
//! control channel, otherwise a shared secret. Each connection carries data in one direction, so
//! that no connection is shared between a sending and a receiving thread.
//! `docs/internals/protocol.md` specifies the bytes.

mod connect;
pub mod control;
mod data_listener;
mod deadline;
mod kernel_tls;
mod key;
mod records;
mod shared_secret;
mod tcp_tuning;
#[cfg(test)]
mod tests;
mod ticket;
mod tls;

pub use connect::{connect, OutgoingConnections};
pub use data_listener::DataListener;
pub use kernel_tls::has_kernel_tls;
pub use key::{InvalidPrivateKey, InvalidPublicKey, PrivateKey, PublicKey};
pub use shared_secret::Secret;
use tcp_tuning::is_silent;
pub use tcp_tuning::listen;
pub(super) use tcp_tuning::{limit_unsent, min_round_trip, UnpacedPhase};
pub use ticket::{hand_over, Ticket};
pub use tls::KeyPair;

use deadline::DeadlineSocket;
use rustix::net::sockopt;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Maximum number of connections of a transfer; fewer than the buffers of a [`super::Pool`].
pub const MAX_STREAMS: usize = 33;

/// Idle time before the first keepalive probe.
const IDLE: Duration = Duration::from_secs(10);
/// Interval of keepalive probes.
const PROBE_EACH: Duration = Duration::from_secs(5);
/// Unanswered probes before the connection is lost: 30 s in total.
const PROBES: u32 = 4;
/// Time without acknowledgment after which a peer that owes one is considered lost.
const SILENCE: Duration = Duration::from_secs(30);

/// A data connection: one side writes, the other reads.
pub trait DataStream: Read + Write + Send {
    /// Closes the stream in order: written data is delivered and the peer sees the end of the
    /// stream.
    ///
    /// # Errors
    /// I/O errors.
    fn close(&mut self) -> io::Result<()>;

    /// Returns the socket of the connection.
    fn socket(&self) -> &TcpStream;

    /// Restricts the stream to one direction, and moves its encryption to the kernel if configured
    /// and supported.
    ///
    /// # Errors
    /// I/O errors, and those of the connection.
    fn into_one_way(self: Box<Self>, way: StreamDirection) -> io::Result<Box<dyn DataStream>>;
}

/// Direction of a data stream as seen from this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamDirection {
    /// This side sends.
    Outgoing,
    /// This side receives.
    Incoming,
}

impl fmt::Debug for dyn DataStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lane").field(self.socket()).finish()
    }
}

impl DataStream for TcpStream {
    fn close(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn socket(&self) -> &TcpStream {
        self
    }

    fn into_one_way(self: Box<Self>, _: StreamDirection) -> io::Result<Box<dyn DataStream>> {
        Ok(self)
    }
}

/// Credentials for data connections; each side has its own.
pub enum Credentials {
    /// TLS 1.3; each side knows the public key of the other one through the control channel.
    Tls {
        /// Key pair of this side.
        own: KeyPair,
        /// Public key of the peer.
        peer: Vec<u8>,
        /// Whether the kernel encrypts and decrypts records, if supported.
        by_kernel: bool,
    },
    /// No encryption: both sides know a secret and prove it when connecting.
    Plain(Secret),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls { .. } => "Tls",
            Self::Plain(_) => "Plain",
        })
    }
}

/// Failure to open data connections.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The address cannot be reached, or a firewall blocks it.
    #[error("cannot connect to {0}: {1}")]
    Unreachable(SocketAddr, io::Error),
    /// The time limit expired.
    #[error("no answer within the time limit")]
    TimedOut,
    /// The peer has another key.
    #[error("the peer does not have the key received through the control channel")]
    WrongKey,
    /// The peer closed the connection, for example since it rejected our key.
    #[error("the peer closed the connection during authentication")]
    Refused,
    /// The peer violates the protocol.
    #[error("invalid handshake of a data connection: {0}")]
    Protocol(String),
    /// I/O error.
    #[error(transparent)]
    Failed(#[from] io::Error),
    /// Some connections were not established.
    #[error("only {0} of {1} connections were established")]
    MissingConnections(usize, usize),
}

impl Credentials {
    /// Authenticates an outgoing connection with a number. When this returns, our proof has been
    /// sent: data may follow immediately, and a listener that rejects it closes the connection.
    fn authenticate_outgoing(
        &self,
        socket: TcpStream,
        index: u16,
        limit: Duration,
    ) -> Result<Box<dyn DataStream>, NetError> {
        let timed = DeadlineSocket::new(&socket, limit);
        match self {
            Self::Tls { own, peer, by_kernel } => {
                let mut stream = tls::connect((own, *by_kernel), peer, timed)?;
                stream.write_all(&index.to_be_bytes()).map_err(deadline::opening_error)?;
                ready(stream)
            }
            Self::Plain(secret) => {
                secret.authenticate_outgoing(index, timed)?;
                ready(Box::new(socket.try_clone()?))
            }
        }
    }

    /// Authenticates an incoming connection and returns its number.
    fn authenticate_incoming(
        &self,
        socket: &TcpStream,
        limit: Duration,
    ) -> Result<(u16, Box<dyn DataStream>), NetError> {
        let timed = DeadlineSocket::new(socket, limit);
        match self {
            Self::Tls { own, peer, by_kernel } => {
                let mut stream = tls::accept((own, *by_kernel), peer, timed)?;
                let mut index = [0; 2];
                stream.read_exact(&mut index).map_err(deadline::opening_error)?;
                Ok((u16::from_be_bytes(index), ready(stream)?))
            }
            Self::Plain(secret) => {
                let index = secret.authenticate_incoming(timed)?;
                Ok((index, ready(Box::new(socket.try_clone()?))?))
            }
        }
    }
}

/// Prepares an authenticated connection for data, without deadlines. Readers detect a half-open
/// connection, as after a power failure of the peer, within [`IDLE`] and [`PROBES`] times
/// [`PROBE_EACH`] (tcp(7), `SO_KEEPALIVE`). The kernel sends no probes while data is
/// unacknowledged, so writers check [`tcp_tuning::is_silent`] themselves. `TCP_USER_TIMEOUT` is not
/// set, since it would also end a connection whose reader waits for its disk.
fn ready(stream: Box<dyn DataStream>) -> Result<Box<dyn DataStream>, NetError> {
    settle(stream.socket())?;
    Ok(stream)
}

fn settle(socket: &TcpStream) -> io::Result<()> {
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)?;
    socket.set_nodelay(true)?;
    let set = || -> rustix::io::Result<()> {
        sockopt::set_tcp_keepidle(socket, IDLE)?;
        sockopt::set_tcp_keepintvl(socket, PROBE_EACH)?;
        sockopt::set_tcp_keepcnt(socket, PROBES)?;
        sockopt::set_socket_keepalive(socket, true)
    };
    Ok(set()?)
}
