//! TCP connections for data, beside a control channel through which both sides got to know each other.
//!
//! One side opens a [`DataListener`], the other one makes [`Calls`]. What lets a connection in is a [`Credentials`]: with TLS the
//! key of each side, of which the other one heard through the control channel, or a secret that both know. Data goes
//! one way on every connection, so that none is shared between a thread that sends and one that receives. The bytes
//! are in `docs/protocol.md`.

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

/// Most connections of a transfer; fewer than a [`super::Pool`] has buffers.
pub const MAX_STREAMS: usize = 33;

/// A connection that says nothing for so long is asked whether it is alive...
const IDLE: Duration = Duration::from_secs(10);
/// ...and again each so long...
const PROBE_EACH: Duration = Duration::from_secs(5);
/// ...until so many questions in a row have no answer: 30 s in all.
const PROBES: u32 = 4;
/// As long is who does not answer what was sent taken to be there.
const SILENCE: Duration = Duration::from_secs(30);

/// One connection: written to by one side, and read by the other.
pub trait DataStream: Read + Write + Send {
    /// Ends it in order: what was written arrives, and the other side knows that there is no more.
    ///
    /// # Errors
    /// The kernel's.
    fn close(&mut self) -> io::Result<()>;

    /// What it runs on.
    fn socket(&self) -> &TcpStream;

    /// The same, of which from now on only one way is used: the kernel takes that over, if it was asked to and can.
    ///
    /// # Errors
    /// The kernel's, and those of the connection.
    fn into_one_way(self: Box<Self>, way: StreamDirection) -> io::Result<Box<dyn DataStream>>;
}

/// A way of a connection, as this side sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamDirection {
    /// What is sent.
    Outgoing,
    /// What comes.
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

/// What lets connections in; each side has its own.
pub enum Credentials {
    /// TLS 1.3, where each side has the private key to the public key that the other one was told.
    Tls {
        /// Of this side.
        own: KeyPair,
        /// The public key of the other side.
        peer: Vec<u8>,
        /// Whether the kernel is to make and open records, if it can.
        by_kernel: bool,
    },
    /// No encryption: both know a secret, and prove it when they connect.
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

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// Nobody is there, or somebody in between does not let us through.
    #[error("{0}: {1}")]
    Unreachable(SocketAddr, io::Error),
    /// It took too long.
    #[error("no answer within the time limit")]
    TimedOut,
    /// Somebody else is there.
    #[error("whoever is there does not have the key that came through the control channel")]
    WrongKey,
    /// The other side closed the connection, as it does if our key is not the one that it knows.
    #[error("the other side closed the connection before it let us in")]
    Refused,
    /// It does not speak as it should.
    #[error("what came is no opening of a data connection: {0}")]
    Protocol(String),
    /// The kernel's.
    #[error(transparent)]
    Failed(#[from] io::Error),
    /// Connections that should be there are not.
    #[error("{0} of {1} connections came")]
    MissingConnections(usize, usize),
}

impl Credentials {
    /// Opens a connection of ours, as the one with some number. What the other side needs to let it in is under way when this
    /// returns: data may follow at once, and whoever is not let in finds the connection closed.
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

    /// Looks who opens a connection to us, and gives its number.
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

/// From now on nobody waits for a deadline. A connection that is half open, as after the other machine lost its power, is
/// noticed by who reads from it: within [`IDLE`] and [`PROBES`] times [`PROBE_EACH`] (tcp(7), `SO_KEEPALIVE`). The kernel does not ask
/// while something is on its way there, so who also writes to it looks by itself ([`tcp_tuning::is_silent`]). There is no
/// `TCP_USER_TIMEOUT`, since that also ends a connection whose reader waits for its disk for so long.
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
