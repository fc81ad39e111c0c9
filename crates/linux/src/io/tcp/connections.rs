//! The connections of a session, which callers open and authenticate: a control channel, and
//! streams for each run.

use numaio_machine::workload::Rail;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Debug};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// The two directions of an authenticated control channel.
pub struct ControlStreams {
    /// From the other side.
    pub from: Box<dyn Read + Send>,
    /// To the other side.
    pub to: Box<dyn Write + Send>,
    /// The socket of both, or `None` for pipes, which close with their processes.
    pub socket: Option<TcpStream>,
}

/// Where the streams of a run connect.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamEndpoint {
    /// Port of the server.
    pub port: u16,
    /// Secret that authenticates both ends of the streams of this run.
    pub key: [u8; 32],
}

/// Opens a port of the server for the streams of a run.
pub trait StreamListener {
    /// Starts to accept `count` authenticated streams.
    ///
    /// # Errors
    /// The kernel's error, such as a port in use.
    fn listen(&self, count: u32) -> io::Result<(StreamEndpoint, Box<dyn IncomingStreams>)>;
}

/// Streams that connect to a server. Dropping this closes the port.
pub trait IncomingStreams {
    /// Waits for at most `limit`, and returns whether all streams have connected.
    fn wait(&self, limit: Duration) -> bool;

    /// Returns the streams in the order of their numbers.
    ///
    /// # Errors
    /// A message, if streams are missing.
    fn into_sockets(self: Box<Self>) -> Result<Vec<TcpStream>, String>;
}

/// Connects streams to a server.
pub trait StreamConnector: Debug + Send + Sync {
    /// Opens `count` authenticated streams, and returns them in the order of their numbers.
    ///
    /// # Errors
    /// A message about the first stream that failed.
    fn connect(&self, endpoint: &StreamEndpoint, count: u32) -> Result<Vec<TcpStream>, String>;

    /// Opens an authenticated stream on each rail, and returns them in the order of the rails.
    ///
    /// # Errors
    /// A message about the first stream that failed.
    fn connect_rails(&self, endpoint: &StreamEndpoint, rails: &[Rail]) -> Result<Vec<TcpStream>, String>;
}

impl ControlStreams {
    /// Uses a connected socket.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn over(socket: TcpStream) -> io::Result<Self> {
        Ok(Self {
            from: Box::new(socket.try_clone()?),
            to: Box::new(socket.try_clone()?),
            socket: Some(socket),
        })
    }
}

impl Debug for ControlStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlStreams").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Debug for StreamEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A log must not show the key.
        f.debug_struct("StreamEndpoint").field("port", &self.port).finish_non_exhaustive()
    }
}

/// Shuts a socket down when dropped, which ends the threads that use it.
#[derive(Debug)]
pub(super) struct ShutdownOnDrop(pub Option<TcpStream>);

impl Drop for ShutdownOnDrop {
    fn drop(&mut self) {
        // An error means that the connection is closed already.
        self.0.as_ref().map(|socket| socket.shutdown(Shutdown::Both));
    }
}

/// Sets the congestion control of streams; `None` leaves them as they are.
///
/// # Errors
/// The kernel lacks it, or it is restricted to root (`tcp_allowed_congestion_control` in
/// Documentation/networking/ip-sysctl.rst).
pub(super) fn set_congestion_control(sockets: &[TcpStream], name: Option<&str>) -> Result<(), String> {
    let Some(name) = name else { return Ok(()) };
    let set = |socket: &TcpStream| rustix::net::sockopt::set_tcp_congestion(socket, name);
    sockets.iter().try_for_each(set).map_err(|error| format!("cannot set '{name}': {error}"))
}
