//! TCP connections for data, beside a control channel through which both sides got to know each other.
//!
//! One side opens a [`Door`], the other one makes [`Calls`]. What lets a connection in is a [`Lock`]: with TLS the
//! key of each side, of which the other one heard through the control channel, or a secret that both know. Data goes
//! one way on every connection, so that none is shared between a thread that sends and one that receives. The bytes
//! are in `docs/protocol.md`.

mod connect;
pub mod control;
mod door;
mod kernel;
mod key;
mod plain;
mod records;
#[cfg(test)]
mod tests;
mod ticket;
mod timed;
mod tls;
mod way;

pub use connect::{connect, Calls};
pub use door::Door;
pub use kernel::has_kernel_tls;
pub use key::{NoKey, NoPrivateKey, PrivateKey, PublicKey};
pub use plain::Secret;
pub use ticket::{hand_over, Ticket};
pub use tls::Keys;
use way::is_silent;
pub use way::listen;
pub(super) use way::{keep_little_unsent, least_round_trip, Beginning};

use rustix::net::sockopt;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;
use timed::Timed;

/// Most connections of a transfer; fewer than a [`super::Pool`] has buffers.
pub const MOST_LANES: usize = 33;

/// A connection that says nothing for so long is asked whether it is alive...
const IDLE: Duration = Duration::from_secs(10);
/// ...and again each so long...
const PROBE_EACH: Duration = Duration::from_secs(5);
/// ...until so many questions in a row have no answer: 30 s in all.
const PROBES: u32 = 4;
/// As long is who does not answer what was sent taken to be there.
const SILENCE: Duration = Duration::from_secs(30);

/// One connection: written to by one side, and read by the other.
pub trait Lane: Read + Write + Send {
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
    fn only(self: Box<Self>, way: Way) -> io::Result<Box<dyn Lane>>;
}

/// A way of a connection, as this side sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// What is sent.
    Out,
    /// What comes.
    In,
}

impl fmt::Debug for dyn Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lane").field(self.socket()).finish()
    }
}

impl Lane for TcpStream {
    fn close(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn socket(&self) -> &TcpStream {
        self
    }

    fn only(self: Box<Self>, _: Way) -> io::Result<Box<dyn Lane>> {
        Ok(self)
    }
}

/// What lets connections in; each side has its own.
pub enum Lock {
    /// TLS 1.3, where each side has the private key to the public key that the other one was told.
    Tls {
        /// Of this side.
        own: Keys,
        /// The public key of the other side.
        peer: Vec<u8>,
        /// Whether the kernel is to make and open records, if it can.
        by_kernel: bool,
    },
    /// No encryption: both know a secret, and prove it when they connect.
    Plain(Secret),
}

impl fmt::Debug for Lock {
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
    Late,
    /// Somebody else is there.
    #[error("whoever is there does not have the key that came through the control channel")]
    Stranger,
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
    Few(usize, usize),
}

impl Lock {
    /// Opens a connection of ours, as the one with some number. What the other side needs to let it in is under way when this
    /// returns: data may follow at once, and whoever is not let in finds the connection closed.
    fn call(&self, socket: TcpStream, index: u16, limit: Duration) -> Result<Box<dyn Lane>, NetError> {
        let timed = Timed::new(&socket, limit);
        match self {
            Self::Tls { own, peer, by_kernel } => {
                let mut lane = tls::call((own, *by_kernel), peer, timed)?;
                lane.write_all(&index.to_be_bytes()).map_err(timed::why)?;
                ready(lane)
            }
            Self::Plain(secret) => {
                secret.call(index, timed)?;
                ready(Box::new(socket.try_clone()?))
            }
        }
    }

    /// Looks who opens a connection to us, and gives its number.
    fn answer(&self, socket: &TcpStream, limit: Duration) -> Result<(u16, Box<dyn Lane>), NetError> {
        let timed = Timed::new(socket, limit);
        match self {
            Self::Tls { own, peer, by_kernel } => {
                let mut lane = tls::answer((own, *by_kernel), peer, timed)?;
                let mut index = [0; 2];
                lane.read_exact(&mut index).map_err(timed::why)?;
                Ok((u16::from_be_bytes(index), ready(lane)?))
            }
            Self::Plain(secret) => {
                let index = secret.answer(timed)?;
                Ok((index, ready(Box::new(socket.try_clone()?))?))
            }
        }
    }
}

/// From now on nobody waits for a deadline. A connection that is half open, as after the other machine lost its power, is
/// noticed by who reads from it: within [`IDLE`] and [`PROBES`] times [`PROBE_EACH`] (tcp(7), `SO_KEEPALIVE`). The kernel does not ask
/// while something is on its way there, so who also writes to it looks by itself ([`way::is_silent`]). There is no
/// `TCP_USER_TIMEOUT`, since that also ends a connection whose reader waits for its disk for so long.
fn ready(lane: Box<dyn Lane>) -> Result<Box<dyn Lane>, NetError> {
    settle(lane.socket())?;
    Ok(lane)
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
