//! Client of a daemon: authenticates it by its known key, and this user by the user's key, over
//! TLS.

use super::daemon_address::DaemonAddress;
use super::daemon_hello::{DaemonGreeting, DaemonHello};
use super::data_connections::connection_count;
use super::first_reply::{interrupted_before_reply, run_interruptible, FirstReply};
use super::network_options::{with_port, NetworkOptions};
use super::peer_process::{PeerConnection, PeerProcess};
use super::reporter::{Notice, Reporter};
use crate::failure::Failure;
use crate::output::{self, sanitize};
use numaio_mover::wire::Side;
use numaio_mover_linux::port::net::control::{self, ChannelError, ControlChannel};
use numaio_mover_linux::port::net::{KeyPair, OutgoingConnections, PublicKey, Ticket};
use numaio_mover_linux::port::streams_needed;
use numaio_transfer::keys::{self, KnownDaemons};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long connecting to an address, and then opening the channel, may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the daemon may take to greet, which includes starting a session process.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens a session of a daemon for the given side, and sends the hello.
///
/// The request can follow before the greeting arrives, which saves a round trip. The inner error
/// allows a retry.
///
/// # Errors
/// Another attempt would fail the same way.
pub fn connect_session(
    reporter: &mut Reporter<'_>,
    address: &DaemonAddress,
    net: &NetworkOptions,
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
            return Ok(Err(failure
                .hint("the port may belong to another program, or the daemon be at a limit: see its log")));
        }
    };
    // The user still has the key that was passed with --trust.
    if let Err(failure) = trusted.remember(channel.peer()) {
        reporter
            .notice(Notice::KeyNotRemembered { host_port: trusted.host_port.clone(), why: failure.message });
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

/// Returns the number of data connections to the sink that the daemon allows. The inner error
/// allows a retry.
///
/// # Errors
/// The daemon refuses the session permanently.
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
            return Err(daemon_failure(host_port, &format!("expected a greeting, got {beginning}")))
        }
        Some(FirstReply::Closed) => io::ErrorKind::UnexpectedEof,
        None => io::ErrorKind::TimedOut,
    };
    Ok(Err(unreachable(host_port, &why.into())))
}

/// Data connections to a daemon that are being opened.
pub struct PendingDataConnections {
    pub calls: OutgoingConnections,
    /// Number of connections to the sink.
    pub streams: u16,
    /// Ticket at their start.
    pub ticket: Ticket,
    /// Key of the daemon.
    pub key: Vec<u8>,
}

/// A daemon to connect to.
struct ConnectTarget {
    address: DaemonAddress,
    /// Additional addresses of the host, for data.
    others: Vec<SocketAddr>,
    /// Number of data connections to the sink, and whether fewer may be opened; `None` without data
    /// connections.
    streams: Option<(u16, bool)>,
}

/// Data connections and their number to the sink; `None` without data connections.
type StartedCalls = Option<(OutgoingConnections, u16)>;

impl ConnectTarget {
    /// Opens the control channel to a daemon with one of the keys, and starts the data connections.
    fn open(
        &self,
        own: &KeyPair,
        keys: Vec<PublicKey>,
    ) -> io::Result<Result<(ControlChannel, StartedCalls), ChannelError>> {
        let (socket, started_calls) = self.connect()?;
        let channel = control::connect(&socket, own, move |key| keys.contains(&key), CONNECT_TIMEOUT);
        Ok(channel.map(|channel| (channel, started_calls)))
    }

    /// Connects to the first reachable address; data connections start together with the control
    /// channel.
    fn connect(&self) -> io::Result<(TcpStream, StartedCalls)> {
        let Self { address, others, streams } = self;
        let mut why = io::Error::from(io::ErrorKind::NotFound);
        for at in (address.host.as_str(), address.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&at, CONNECT_TIMEOUT) {
                Ok(socket) => {
                    let started_calls = streams.map(|(most, is_sparing)| {
                        let streams =
                            if is_sparing { streams_needed(&socket, most.into()) as u16 } else { most };
                        (
                            OutgoingConnections::start(
                                at,
                                others,
                                connection_count(streams),
                                CONNECT_TIMEOUT,
                            ),
                            streams,
                        )
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
        .hint("start numaio serve there, or use HOST:PATH for ssh")
}

/// A failure with the daemon's message.
fn daemon_failure(host_port: &str, why: &str) -> Failure {
    Failure::new(format!("{host_port}: {}", sanitize(why)))
}

/// Keys that are accepted from the daemon.
struct TrustedKeys {
    host_port: String,
    /// `None` if there is no directory for keys, but a key was passed.
    known: Option<KnownDaemons>,
    /// Keys in the list of known daemons.
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

    /// Returns the accepted keys: only the passed one, unless another key is known.
    fn accepted(&self) -> Vec<PublicKey> {
        match self.typed {
            Some(typed) if self.keys.is_empty() || self.keys.contains(&typed) => vec![typed],
            Some(_) => Vec::new(),
            None => self.keys.clone(),
        }
    }

    /// Adds the daemon's authenticated key to the list.
    fn remember(&mut self, key: PublicKey) -> Result<(), Failure> {
        match &mut self.known {
            Some(known) if self.keys.is_empty() => {
                known.add(&self.host_port, key)?;
                output::detail(format_args!("wrote {}", known.path.display()));
            }
            Some(_) => {}
            None => drop(keys::folder()?),
        }
        Ok(())
    }

    /// Explains that the daemon has another key.
    fn rejection(&self, key: PublicKey) -> Failure {
        let Self { host_port, known, keys, typed } = self;
        let path = known.as_ref().map(|known| known.path.display().to_string()).unwrap_or_default();
        match (typed, keys.first()) {
            (Some(typed), first) if first.is_none() || keys.contains(&key) => {
                Failure::new(format!("the daemon at {host_port} has the key {key}, not {typed} of --trust"))
                    .hint("ask its administrator for the key; nothing was sent")
            }
            (_, None) => Failure::new(format!("the daemon at {host_port} is not known; it has the key {key}"))
                .hint(format!("if its administrator confirms the key, add --trust {key} once")),
            (_, Some(known)) => Failure::new(format!(
                "THE KEY OF {host_port} HAS CHANGED: it is {key}, and was {known}. Either the connection is \
                 intercepted, or the daemon has a new key"
            ))
            .hint(format!(
                "ask its administrator; if the key is new, remove the line of {host_port} from {path}, and add \
                 --trust {key} once"
            )),
        }
    }
}
