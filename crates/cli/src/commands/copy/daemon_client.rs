//! A daemon on another host, reached by TLS: its key is one that was trusted before, and ours tells it who we are.

use super::daemon_address::DaemonAddress;
use super::daemon_hello::{DaemonGreeting, DaemonHello};
use super::data_connections::connection_count;
use super::first_reply::{interrupted_before_reply, run_interruptible, FirstReply};
use super::net_options::{with_port, NetArgs};
use super::peer_process::{PeerConnection, PeerProcess};
use super::transfer_output::TransferOutput;
use crate::failure::Failure;
use crate::keys::{self, KnownDaemons};
use crate::output::harmless;
use numaio_linux::port::streams_needed;
use numaio_linux::port::net::control::{self, ControlChannel, ChannelError};
use numaio_linux::port::net::{OutgoingConnections, KeyPair, PublicKey, Ticket};
use numaio_mover::wire::Side;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long it may take to reach an address, and then to open the channel.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the daemon may take to greet: it starts a process.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(30);

/// A session of a daemon, which is to be that side; or why it was not reached. It was told who we are, and has not said yet
/// whether we are welcome: what it is to do can be said meanwhile, so that no round trip is lost.
///
/// # Errors
/// It was reached, and another try would end no otherwise.
pub fn connect_session(
    show: &TransferOutput,
    address: &DaemonAddress,
    net: &NetArgs,
    others: &[SocketAddr],
    side: Side,
) -> Result<Result<PeerProcess, Failure>, Failure> {
    let own = keys::read(&keys::path(net.key.as_deref())?)?.keys().map_err(Failure::new)?;
    let mut trusted = TrustedKeys::read(address, net.trust)?;
    let target = ConnectTarget {
        address: address.clone(),
        others: with_port(others, address.port),
        streams: (!net.tunnel).then(|| (net.streams(), net.may_use_fewer_streams())),
    };
    let keys = trusted.accepted();
    let opened = run_interruptible(Duration::MAX, move || target.open(&own, keys));
    let (mut channel, calls) = match opened.ok_or_else(|| interrupted_before_reply(&trusted.host_port))? {
        Ok(Ok(opened)) => opened,
        Err(error) => return Ok(Err(unreachable(&trusted.host_port, &error))),
        Ok(Err(ChannelError::WrongKey(key))) => return Err(trusted.rejection(key)),
        Ok(Err(ChannelError::Net(error))) => {
            let failure = Failure::new(format!("no numaio daemon answers at {}: {error}", trusted.host_port));
            return Ok(Err(
                failure.hint("something else may be there, or the daemon have no place: its log says so")
            ));
        }
    };
    // Who typed the key has it.
    if let Err(failure) = trusted.remember(channel.peer()) {
        show.notice(&format!("the key of {} is not kept: {}", trusted.host_port, failure.message));
    }
    let hello = DaemonHello::new(address.user.clone(), &address.root, side);
    if let Err(error) = channel.write_line(&serde_json::to_string(&hello).map_err(Failure::new)?) {
        return Ok(Err(unreachable(&trusted.host_port, &error)));
    }
    let key = channel.peer().der();
    let (ends, carrier) = channel.into_streams().map_err(Failure::new)?;
    let data = match calls {
        Some((calls, streams)) => Some(PendingDataConnections {
            calls,
            streams,
            ticket: Ticket::generate().map_err(Failure::new)?,
            key,
        }),
        None => None,
    };
    let via = PeerConnection::Daemon { host_port: trusted.host_port, data, carrier };
    Ok(Ok(PeerProcess::new(ends.to, ends.from, via)))
}

/// How many data connections the daemon allows from the source to the sink, by what it said; or why it does not serve us now.
///
/// # Errors
/// Why it does not serve us at all.
pub fn check_greeting(
    host_port: &str,
    received: Option<FirstReply<DaemonGreeting>>,
) -> Result<Result<u16, Failure>, Failure> {
    let why = match received {
        Some(FirstReply::Reply(DaemonGreeting::Welcome { streams })) => return Ok(Ok(streams)),
        Some(FirstReply::Reply(DaemonGreeting::Refused(why))) => return Err(daemon_failure(host_port, &why)),
        Some(FirstReply::Reply(DaemonGreeting::Busy(why))) => {
            return Ok(Err(daemon_failure(host_port, &why)))
        }
        Some(FirstReply::Unexpected(beginning)) => {
            return Err(daemon_failure(host_port, &format!("this is no greeting: {beginning}")))
        }
        Some(FirstReply::Closed) => io::ErrorKind::UnexpectedEof,
        None => io::ErrorKind::TimedOut,
    };
    Ok(Err(unreachable(host_port, &why.into())))
}

/// Connections for data to a daemon, which are being made.
pub struct PendingDataConnections {
    pub calls: OutgoingConnections,
    /// How many of them go from the source to the sink.
    pub streams: u16,
    /// What they begin with.
    pub ticket: Ticket,
    /// The key of the daemon.
    pub key: Vec<u8>,
}

/// What is to be reached.
struct ConnectTarget {
    address: DaemonAddress,
    /// Further ones of the host, for data.
    others: Vec<SocketAddr>,
    /// How many connections for data go from the source to the sink, and whether fewer will do; none if there are to be none.
    streams: Option<(u16, bool)>,
}

/// Connections for data, and how many of them go from the source to the sink; none if there are to be none.
type StartedCalls = Option<(OutgoingConnections, u16)>;

impl ConnectTarget {
    /// The control channel, to whoever has one of the keys, and what was begun beside it.
    fn open(
        &self,
        own: &KeyPair,
        keys: Vec<PublicKey>,
    ) -> io::Result<Result<(ControlChannel, StartedCalls), ChannelError>> {
        let (socket, started_calls) = self.connect()?;
        let channel = control::connect(&socket, own, move |key| keys.contains(&key), CONNECT_TIMEOUT);
        Ok(channel.map(|channel| (channel, started_calls)))
    }

    /// Any of the addresses of the host. Connections for data are made while the control channel is opened, and so cost no round trip.
    fn connect(&self) -> io::Result<(TcpStream, StartedCalls)> {
        let Self { address, others, streams } = self;
        let mut why = io::Error::from(io::ErrorKind::NotFound);
        for at in (address.host.as_str(), address.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&at, CONNECT_TIMEOUT) {
                Ok(socket) => {
                    let started_calls = streams.map(|(most, is_sparing)| {
                        let streams = if is_sparing { streams_needed(&socket, most.into()) as u16 } else { most };
                        (OutgoingConnections::start(at, others, connection_count(streams), CONNECT_TIMEOUT), streams)
                    });
                    return Ok((socket, started_calls));
                }
                Err(error) => why = error,
            }
        }
        Err(why)
    }
}

fn unreachable(host_port: &str, error: &io::Error) -> Failure {
    Failure::new(format!("no numaio daemon answers at {host_port}: {error}"))
        .hint("numaio serve runs one; without it HOST:PATH goes through ssh")
}

/// What the daemon says to people.
fn daemon_failure(host_port: &str, why: &str) -> Failure {
    Failure::new(format!("{host_port}: {}", harmless(why)))
}

/// Keys that the daemon may have.
struct TrustedKeys {
    host_port: String,
    /// None where there is no folder for them, and one was typed.
    known: Option<KnownDaemons>,
    /// Those that are known.
    keys: Vec<PublicKey>,
    typed: Option<PublicKey>,
}

impl TrustedKeys {
    fn read(address: &DaemonAddress, typed: Option<PublicKey>) -> Result<Self, Failure> {
        let host_port = address.host_port();
        let known = match keys::folder() {
            Err(_) if typed.is_some() => None,
            _ => Some(KnownDaemons::read()?),
        };
        let keys = known.as_ref().map_or(Ok(Vec::new()), |known| known.keys(&host_port))?;
        Ok(Self { host_port, known, keys, typed })
    }

    /// Those that are taken: the one that was typed alone, and none if another one is known.
    fn accepted(&self) -> Vec<PublicKey> {
        match self.typed {
            Some(typed) if self.keys.is_empty() || self.keys.contains(&typed) => vec![typed],
            Some(_) => Vec::new(),
            None => self.keys.clone(),
        }
    }

    /// It has one that is taken, and showed that it has it.
    fn remember(&mut self, key: PublicKey) -> Result<(), Failure> {
        match &mut self.known {
            Some(known) if self.keys.is_empty() => known.add(&self.host_port, key),
            Some(_) => Ok(()),
            None => keys::folder().map(drop),
        }
    }

    /// Whoever is there has another key.
    fn rejection(&self, key: PublicKey) -> Failure {
        let Self { host_port, known, keys, typed } = self;
        let path = known.as_ref().map(|known| known.path.display().to_string()).unwrap_or_default();
        match (typed, keys.first()) {
            (Some(typed), first) if first.is_none() || keys.contains(&key) => {
                Failure::new(format!("whoever answers at {host_port} has the key {key}, and not {typed} of --trust"))
                    .hint("ask who runs it for its key; nothing was sent")
            }
            (_, None) => Failure::new(format!("the daemon at {host_port} is not known; whoever answers there has the key {key}"))
                .hint(format!("if who runs it says that this is its key, add --trust {key} this once")),
            (_, Some(known)) => Failure::new(format!(
                "THE KEY OF {host_port} IS ANOTHER ONE: it is {key}, and was {known}. Somebody may be between, or the \
                 daemon got a new key"
            ))
            .hint(format!(
                "ask who runs it; if it has a new one, take the line of {host_port} out of {path}, and add --trust {key} \
                 this once"
            )),
        }
    }
}
