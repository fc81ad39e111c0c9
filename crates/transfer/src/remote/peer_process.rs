//! A numaio on another host: how to start or connect to it, and its messages before a transfer.

use super::bootstrap;
use super::daemon_address::DaemonAddress;
use super::daemon_client;
use super::daemon_hello::{self, DaemonGreeting};
use super::data_connections::{self, DataEndpoint, LocalOffer, Offer};
use super::endpoint::Host;
use super::first_reply::{self, interrupted_before_reply, receive, run_interruptible, FirstReply};
use super::network_options::NetworkOptions;
use super::peer::{PeerReply, MAX_LINE_BYTES};
use super::reporter::Reporter;
use super::ssh_hostname::HostnameLookup;
use super::transfer::RemoteOptions;
use crate::failure::Failure;
use crate::output::{json_line, stderr_sink};
use numaio_linux::interrupt::interrupted;
use numaio_mover::wire::Side;
use numaio_mover_linux::port::net::control::ChannelRelay;
use numaio_mover_linux::port::net::DataStream;
use numaio_transfer::ssh::{self, ManagedProcess};
use numaio_transfer::TransferError;
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::io::{self, BufReader, Read, Write};
use std::mem;
use std::net::SocketAddr;
use std::time::Duration;

/// How long the remote process may take to exit after the transfer.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Rest of the hint about unexpected output, after the command to try.
const STRAY_OUTPUT_HINT: &str = "must print nothing: a login script may print something; or the remote numaio has another version: use the \
                         same version on both hosts";

/// Reads from the peer.
pub type PeerReader = BufReader<Box<dyn Read + Send>>;
/// Writes to the peer.
pub type PeerWriter = Box<dyn Write + Send>;

/// A connected peer that waits for a request.
pub struct PeerProcess {
    pub to: PeerWriter,
    pub from: PeerReader,
    pub connection: PeerConnection,
    /// Beginning of an unexpected reply.
    unexpected: Option<String>,
}

/// The connection to a peer, which closes when this is dropped.
pub enum PeerConnection {
    Ssh {
        started: ManagedProcess,
        /// Lookup of the address that ssh uses; `None` without data connections.
        lookup: Option<HostnameLookup>,
    },
    Daemon {
        /// Name for messages.
        host_port: String,
        /// `None` without data connections, or once they are in use.
        data: Option<daemon_client::PendingDataConnections>,
        carrier: ChannelRelay,
    },
}

/// A peer to connect to.
pub enum PeerTarget<'a> {
    /// The path of numaio on a host behind ssh.
    Ssh { host: &'a str, numaio: String },
    /// The address of a daemon.
    Daemon(&'a DaemonAddress),
}

impl<'a> PeerTarget<'a> {
    /// Determines the peer of a host, and installs numaio there with `--bootstrap`.
    pub fn find(host: &'a Host, options: &RemoteOptions) -> Result<Self, Failure> {
        match host {
            Host::Ssh(host) => {
                Ok(Self::Ssh { host, numaio: bootstrap::ensure_numaio(options, &ssh::program(), host)? })
            }
            Host::Daemon(address) => Ok(Self::Daemon(address)),
        }
    }

    /// Connects to the peer, which gets the given side. The inner error allows a retry.
    ///
    /// # Errors
    /// Another attempt would fail the same way.
    pub fn connect(
        &self,
        reporter: &mut Reporter<'_>,
        network: &NetworkOptions,
        others: &[SocketAddr],
        side: Side,
    ) -> Result<Result<PeerProcess, Failure>, Failure> {
        let (host, numaio) = match self {
            Self::Ssh { host, numaio } => (host, numaio),
            Self::Daemon(address) => {
                return daemon_client::connect_session(reporter, address, network, others, side)
            }
        };
        let program = ssh::program();
        let lookup = (!network.tunnel).then(|| HostnameLookup::start(&program, host));
        let command = ssh::numaio_command(program, host, numaio, &["peer", "--copy"]);
        let mut started = ManagedProcess::start(command, EXIT_TIMEOUT, stderr_sink())?;
        let (Some(to), Some(from)) = (started.stdin.take(), started.stdout.take()) else {
            return Err(Failure::new("the ssh process has no streams"));
        };
        let (to, from): (PeerWriter, Box<dyn Read + Send>) = (Box::new(to), Box::new(from));
        Ok(Ok(PeerProcess::new(to, from, PeerConnection::Ssh { started, lookup })))
    }

    /// Returns the name of the channel that carries data without data connections.
    pub fn channel_name(&self) -> &'static str {
        match self {
            Self::Ssh { .. } => "ssh",
            Self::Daemon(_) => "the daemon's control connection",
        }
    }
}

impl PeerProcess {
    /// A connected peer.
    pub fn new(to: PeerWriter, from: Box<dyn Read + Send>, connection: PeerConnection) -> Self {
        Self { to, from: BufReader::new(from), connection, unexpected: None }
    }

    /// Sends a line to the peer. A peer that cannot receive it reports the reason by its exit
    /// status.
    pub fn send(&mut self, what: &impl Serialize) -> Result<(), Failure> {
        let line = json_line(what).map_err(Failure::new)?;
        if line.len() as u64 > MAX_LINE_BYTES {
            return Err(Failure::new("the name and rule lists are too long for a remote transfer")
                .hint("run numaio copy there, or copy in parts"));
        }
        let mut to = mem::replace(&mut self.to, Box::new(io::sink()));
        let received = run_interruptible(Duration::MAX, move || {
            let _ = to.write_all(line.as_bytes());
            to
        });
        self.to = received.unwrap_or_else(|| Box::new(io::sink()));
        Ok(())
    }

    /// Receives a daemon's greeting, and returns the allowed data connections. The inner error
    /// allows a retry.
    ///
    /// # Errors
    /// The daemon refuses permanently; or the process was interrupted.
    pub fn receive_greeting(&mut self) -> Result<Result<u16, Failure>, Failure> {
        let PeerConnection::Daemon { host_port, .. } = &self.connection else { return Ok(Ok(u16::MAX)) };
        let host_port = host_port.clone();
        let received: Option<FirstReply<DaemonGreeting>> =
            self.receive(daemon_hello::MAX_LINE_BYTES, daemon_client::GREETING_TIMEOUT);
        if received.is_none() {
            self.connection.terminate_on_drop();
        }
        match interrupted() {
            true => Err(interrupted_before_reply(&host_port)),
            false => daemon_client::check_greeting(&host_port, received),
        }
    }

    /// Receives the reply to a request; `None` if the peer is not numaio or has exited, or after an
    /// interrupt.
    pub fn receive_reply(&mut self) -> Option<PeerReply> {
        match self.receive(first_reply::MAX_REPLY_BYTES, Duration::MAX)? {
            FirstReply::Reply(answer) => return Some(answer),
            FirstReply::Unexpected(beginning) => self.unexpected = Some(beginning),
            FirstReply::Closed => {}
        }
        None
    }

    /// Receives a line of at most `longest` bytes; `None` after `most`, or after an interrupt.
    fn receive<T: DeserializeOwned + Send + 'static>(
        &mut self,
        longest: usize,
        most: Duration,
    ) -> Option<FirstReply<T>> {
        let mut from = mem::replace(&mut self.from, empty_reader());
        let (from, first) = run_interruptible(most, move || {
            let first = receive(&mut from, longest);
            (from, first)
        })?;
        self.from = from;
        Some(first)
    }

    /// The failure for a missing reply.
    pub fn missing_reply(self, host: &str) -> Failure {
        let Self { to, from, mut connection, unexpected } = self;
        // Closing the streams also stops a peer that is still writing.
        drop((to, from));
        if interrupted() || unexpected.is_some() {
            connection.terminate_on_drop();
        }
        if interrupted() {
            return interrupted_before_reply(host);
        }
        if let Some(beginning) = unexpected {
            return Failure::new(format!("the program on {host} is not numaio: {beginning}"))
                .hint(format!("ssh {host} true {STRAY_OUTPUT_HINT}"));
        }
        match connection {
            PeerConnection::Ssh { mut started, .. } => {
                TransferError::NoAnswer { host: host.to_owned(), status: started.status() }.into()
            }
            PeerConnection::Daemon { .. } => Failure::new(format!("no numaio answers on {host}"))
                .hint("the daemon closed the session; see its log"),
        }
    }

    /// Returns the number of data connections to the sink, if it is already known.
    pub fn streams(&self) -> Option<u16> {
        match &self.connection {
            PeerConnection::Daemon { data: Some(data), .. } => Some(data.streams),
            _ => None,
        }
    }

    /// Returns the offer for the request. The handshakes with a daemon start now.
    pub fn offer(&self, ours: &LocalOffer, ports: Option<(u16, u16)>) -> Offer {
        match &self.connection {
            PeerConnection::Daemon { data: Some(data), .. } => {
                ours.start_handshakes(&data.calls, data.ticket, data.key.clone());
                ours.offer(None, Some(data.ticket))
            }
            _ => ours.offer(ports, None),
        }
    }

    /// Opens the data connections that the peer allows. A daemon is not trusted, so its reply
    /// cannot redirect them.
    pub fn connect_data(
        &mut self,
        ours: LocalOffer,
        most_streams: u16,
        opened: DataEndpoint,
        others: &[SocketAddr],
    ) -> Result<Vec<Box<dyn DataStream>>, String> {
        match &mut self.connection {
            PeerConnection::Ssh { lookup, .. } => {
                ours.connect(opened, lookup.take().and_then(HostnameLookup::name), others)
            }
            PeerConnection::Daemon { data, .. } => {
                let data = data.take().ok_or("no data connections were started")?;
                let (calls, count) = (data.calls, ours.connection_count(most_streams));
                calls
                    .into_streams(count, data_connections::CONNECT_TIMEOUT)
                    .map_err(|error| error.to_string())
            }
        }
    }
}

/// A reader at its end.
fn empty_reader() -> PeerReader {
    BufReader::new(Box::new(io::empty()))
}

impl PeerConnection {
    /// Makes dropping this close the connection immediately.
    fn terminate_on_drop(&mut self) {
        match self {
            Self::Ssh { started, .. } => started.terminate_on_drop(),
            Self::Daemon { carrier, .. } => carrier.abort(),
        }
    }

    /// Closes the connection after the last message.
    pub fn end(self) {
        match self {
            Self::Ssh { started, .. } => drop(started),
            Self::Daemon { carrier, .. } => drop(carrier),
        }
    }
}
