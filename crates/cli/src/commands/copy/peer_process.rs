//! A numaio on another host: how it is reached, how it hears and answers.

use super::bootstrap;
use super::daemon_address::DaemonAddress;
use super::daemon_hello::{self, DaemonGreeting};
use super::data_connections::{self, DataEndpoint, LocalOffer, Offer};
use super::endpoint::Host;
use super::first_reply::{self, interrupted_before_reply, receive, run_interruptible, FirstReply};
use super::peer::{PeerReply, MAX_LINE_BYTES};
use super::ssh_hostname::HostnameLookup;
use super::transfer_output::TransferOutput;
use super::{daemon_client, CopyArgs};
use crate::commands::json_line;
use crate::failure::Failure;
use crate::ssh::{self, ManagedProcess};
use numaio_linux::interrupt::interrupted;
use numaio_linux::port::net::control::ChannelRelay;
use numaio_linux::port::net::DataStream;
use numaio_mover::wire::Side;
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::io::{self, BufReader, Read, Write};
use std::mem;
use std::net::SocketAddr;
use std::time::Duration;

/// How long the other side may take to end when we are done.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// What to do about one that answers something else.
const STRAY_OUTPUT_HINT: &str = "has to print nothing: a script that a login there runs may be what prints; or the numaio there is of another \
                         version: use the same one at both ends";

/// What it says.
pub type PeerReader = BufReader<Box<dyn Read + Send>>;
/// What it hears.
pub type PeerWriter = Box<dyn Write + Send>;

/// One that was reached, which waits to be asked for a transfer.
pub struct PeerProcess {
    pub to: PeerWriter,
    pub from: PeerReader,
    pub connection: PeerConnection,
    /// What it begins with if that is no answer.
    unexpected: Option<String>,
}

/// What it was reached by. It is ended when this is dropped.
pub enum PeerConnection {
    Ssh {
        started: ManagedProcess,
        /// The address that ssh goes to; none if data is to go through ssh.
        lookup: Option<HostnameLookup>,
    },
    Daemon {
        /// What people call it.
        host_port: String,
        /// None if data is to go through the control channel, or does so.
        data: Option<daemon_client::PendingDataConnections>,
        carrier: ChannelRelay,
    },
}

/// Who is to be reached, and by what.
pub enum PeerTarget<'a> {
    /// The numaio of that name on a host of ssh.
    Ssh { host: &'a str, numaio: String },
    /// A daemon.
    Daemon(&'a DaemonAddress),
}

impl<'a> PeerTarget<'a> {
    /// Finds what is to be started; it may be brought there first.
    pub fn find(host: &'a Host, args: &CopyArgs) -> Result<Self, Failure> {
        match host {
            Host::Ssh(host) => {
                Ok(Self::Ssh { host, numaio: bootstrap::ensure_numaio(args, &ssh::program(), host)? })
            }
            Host::Daemon(address) => Ok(Self::Daemon(address)),
        }
    }

    /// Reaches it, to be that side; or tells why it was not reached.
    ///
    /// # Errors
    /// Another try would end no otherwise.
    pub fn connect(
        &self,
        show: &TransferOutput,
        args: &CopyArgs,
        others: &[SocketAddr],
        side: Side,
    ) -> Result<Result<PeerProcess, Failure>, Failure> {
        let (host, numaio) = match self {
            Self::Ssh { host, numaio } => (host, numaio),
            Self::Daemon(address) => {
                return daemon_client::connect_session(show, address, &args.net, others, side)
            }
        };
        let program = ssh::program();
        let lookup = (!args.net.tunnel).then(|| HostnameLookup::start(&program, host));
        let command = ssh::numaio_command(program, host, numaio, &["peer", "--copy"]);
        let mut started = ManagedProcess::start(command, EXIT_TIMEOUT, ssh::missing_program_hint())?;
        let (Some(to), Some(from)) = (started.stdin.take(), started.stdout.take()) else {
            return Err(Failure::new("the other side has no streams"));
        };
        let (to, from): (PeerWriter, Box<dyn Read + Send>) = (Box::new(to), Box::new(from));
        Ok(Ok(PeerProcess::new(to, from, PeerConnection::Ssh { started, lookup })))
    }

    /// What data goes through if it has no connections of its own.
    pub fn channel_name(&self) -> &'static str {
        match self {
            Self::Ssh { .. } => "ssh",
            Self::Daemon(_) => "the daemon's control connection",
        }
    }
}

impl PeerProcess {
    pub fn new(to: PeerWriter, from: Box<dyn Read + Send>, connection: PeerConnection) -> Self {
        Self { to, from: BufReader::new(from), connection, unexpected: None }
    }

    /// A line for the other side. Who cannot take it says why by its exit status, and who does not before we are interrupted
    /// gives no answer.
    pub fn send(&mut self, what: &impl Serialize) -> Result<(), Failure> {
        let line = json_line(what).map_err(Failure::new)?;
        if line.len() as u64 > MAX_LINE_BYTES {
            return Err(Failure::new("the lists of names and rules are too long for another host")
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

    /// Most data connections from the source to the sink, when it has said that we are welcome; or why we are not now.
    ///
    /// # Errors
    /// It does not serve us at all; or we were interrupted.
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

    /// What it answers to being asked for a transfer; none if it is no numaio, or gone, or we were interrupted.
    pub fn receive_reply(&mut self) -> Option<PeerReply> {
        match self.receive(first_reply::MAX_REPLY_BYTES, Duration::MAX)? {
            FirstReply::Reply(answer) => return Some(answer),
            FirstReply::Unexpected(beginning) => self.unexpected = Some(beginning),
            FirstReply::Closed => {}
        }
        None
    }

    /// A line of it, of so many bytes at the most; none if it took too long, or we were interrupted.
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

    /// Why there was no answer.
    pub fn missing_reply(self, host: &str) -> Failure {
        let Self { to, from, mut connection, unexpected } = self;
        // Who is in the midst of saying something ends, too.
        drop((to, from));
        if interrupted() || unexpected.is_some() {
            connection.terminate_on_drop();
        }
        if interrupted() {
            return interrupted_before_reply(host);
        }
        if let Some(beginning) = unexpected {
            return Failure::new(format!("what answers on {host} is not numaio: {beginning}"))
                .hint(format!("ssh {host} true {STRAY_OUTPUT_HINT}"));
        }
        let failure = Failure::new(format!("no numaio answers on {host}"));
        match connection {
            PeerConnection::Ssh { mut started, .. } => bootstrap::with_hint(failure, host, started.status()),
            PeerConnection::Daemon { .. } => {
                failure.hint("the daemon there ended the session; its log tells why")
            }
        }
    }

    /// How many connections there are from the source to the sink, if that is decided.
    pub fn streams(&self) -> Option<u16> {
        match &self.connection {
            PeerConnection::Daemon { data: Some(data), .. } => Some(data.streams),
            _ => None,
        }
    }

    /// What we offer it, and are about to tell it. Connections to a daemon are opened meanwhile.
    pub fn offer(&self, ours: &LocalOffer, ports: Option<(u16, u16)>) -> Offer {
        match &self.connection {
            PeerConnection::Daemon { data: Some(data), .. } => {
                ours.start_handshakes(&data.calls, data.ticket, data.key.clone());
                ours.offer(None, Some(data.ticket))
            }
            _ => ours.offer(ports, None),
        }
    }

    /// Data connections to its door, as many as it allows; or why there are none. A daemon may be anybody's, so nothing that it
    /// says leads elsewhere.
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
                let data = data.take().ok_or("there are none")?;
                data.calls
                    .lanes(ours.connection_count(most_streams), data_connections::CONNECT_TIMEOUT)
                    .map_err(|error| error.to_string())
            }
        }
    }
}

/// A side that says nothing.
fn empty_reader() -> PeerReader {
    BufReader::new(Box::new(io::empty()))
}

impl PeerConnection {
    /// It is ended as soon as this is dropped, whatever the other side does.
    fn terminate_on_drop(&mut self) {
        match self {
            Self::Ssh { started, .. } => started.terminate_on_drop(),
            Self::Daemon { carrier, .. } => carrier.abort(),
        }
    }

    /// Ends what it was reached by, when all was said.
    pub fn end(self) {
        match self {
            Self::Ssh { started, .. } => drop(started),
            Self::Daemon { carrier, .. } => drop(carrier),
        }
    }
}
