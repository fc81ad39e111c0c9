//! Client of a daemon: authenticates it by its known key, and this user by the user's key, over
//! TLS.

use crate::daemon::hello::{DaemonHello, HelloCapacity};
use crate::daemon_address::DaemonAddress;
use crate::keys::{self, KnownDaemons};
use crate::line::json_line;
use crate::network_options::{with_port, NetworkOptions};
use crate::peer::data_connections::connection_count;
use crate::remote::greeting::unreachable;
use crate::remote::peer_process::{PeerConnection, PeerProcess, PendingDataConnections};
use crate::remote::peer_wait::PeerWait;
use crate::reporter::{Notice, Reporter};
use crate::TransferError;
use numaio_mover::wire::Side;
use numaio_mover_linux::port::net::control::{ChannelError, ChannelReply, ControlChannel, OpeningChannel};
use numaio_mover_linux::port::net::{KeyPair, OutgoingConnections, PublicKey, Ticket};
use numaio_mover_linux::port::streams_needed;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long connecting to an address, and then opening the channel, may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a notice of a full daemon: notices are not authenticated, and must not flood a
/// terminal. A daemon sends one in 3 s.
const NOTICE_PAUSE: Duration = Duration::from_millis(200);

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
    (net, capacity): (&NetworkOptions, HelloCapacity),
    others: &[SocketAddr],
    side: Side,
) -> Result<Result<PeerProcess, TransferError>, TransferError> {
    let (own, has_no_key) = own_keys(net.key.as_deref(), side)?;
    let mut trusted = TrustedKeys::read(address, net.trust)?;
    let target = ConnectTarget {
        address: address.clone(),
        others: with_port(others, address.port),
        streams: (!net.tunnel).then(|| (net.streams(), net.may_use_fewer_streams())),
    };
    let mut wait = PeerWait { reporter: &mut *reporter, host: &trusted.host_port, limit: net.timeout };
    let (mut channel, calls) = match open_channel(&mut wait, target, (own, &trusted), net.retry)? {
        Ok(opened) => opened,
        Err(failure) => return Ok(Err(failure)),
    };
    // The user still has the key that was passed with --trust.
    match trusted.remember(channel.peer()) {
        Ok(None) => {}
        Ok(Some(list)) => reporter.notice(Notice::KeyRemembered { list: list.to_owned() }),
        Err(error) => {
            let host_port = trusted.host_port.clone();
            reporter.notice(Notice::KeyNotRemembered { host_port, why: error.to_string() });
        }
    }
    let hello = DaemonHello::new((address.user.clone(), has_no_key), &address.root, side, capacity);
    if let Err(error) = channel.write_line(json_line(&hello).map_err(TransferError::Io)?.trim_end()) {
        return Ok(Err(unreachable(&trusted.host_port, error)));
    }
    let key = channel.peer().der();
    let (ends, carrier) = channel.into_streams().map_err(TransferError::Io)?;
    let data = match calls {
        Some((calls, streams)) => Some(PendingDataConnections {
            calls,
            streams,
            ticket: Ticket::generate().map_err(TransferError::Io)?,
            key,
        }),
        None => None,
    };
    let via = PeerConnection::Daemon { host_port: trusted.host_port, data, carrier };
    Ok(Ok(PeerProcess::new(ends.to, ends.from, via)))
}

/// Returns the keys of the user, and whether they were made for this connection: a user without a
/// key may read roots that are open to anyone.
fn own_keys(named: Option<&Path>, daemon: Side) -> Result<(KeyPair, bool), TransferError> {
    match keys::path(named).and_then(|path| keys::read(&path)) {
        Err(TransferError::KeyNotFound { .. } | TransferError::NoKeyDirectory)
            if named.is_none() && daemon == Side::Source =>
        {
            Ok((KeyPair::generate().map_err(TransferError::Io)?, true))
        }
        key => Ok((key?.keys().map_err(TransferError::Io)?, false)),
    }
}

/// Opens the control channel to a daemon, and starts the data connections. Waits up to `patience`
/// for a slot of a full daemon. The inner error allows a retry.
fn open_channel(
    wait: &mut PeerWait<'_, '_>,
    target: ConnectTarget,
    (own, trusted): (KeyPair, &TrustedKeys),
    patience: Option<Duration>,
) -> Result<Result<(ControlChannel, StartedCalls), TransferError>, TransferError> {
    let host = || trusted.host_port.clone();
    let (began, keys) = (Instant::now(), trusted.accepted());
    let target = Arc::new(target);
    let connecting = target.clone();
    let mut replied = wait.run(move |_| connecting.open(&own, keys));
    loop {
        let (reply, at, calls) = match replied {
            Ok(Ok(replied)) => replied,
            Ok(Err(error)) => return Ok(Err(unreachable(&host(), error))),
            Err(failure) => return failure.attempt_error(&host()),
        };
        let (notice, opening) = match reply {
            Ok(ChannelReply::Open(channel)) => return Ok(Ok((channel, calls))),
            Ok(ChannelReply::Full(notice, opening)) => (notice, *opening),
            Err(ChannelError::WrongKey(key)) => return Err(trusted.rejection(key)),
            Err(ChannelError::Net(error)) => {
                return Ok(Err(TransferError::NoDaemonChannel { host: host(), why: error.to_string() }));
            }
        };
        // Until there is a slot, they would only occupy places of the daemon.
        drop(calls);
        let (why, is_over) =
            (notice.reason.to_string(), patience.is_some_and(|most| began.elapsed() >= most));
        let Some(position) = notice.position.filter(|_| !is_over) else {
            return Ok(Err(TransferError::DaemonFull { host: host(), why }));
        };
        let position = position.into();
        wait.reporter.notice_once(Notice::Queued { host: host(), position, why, starts_in: None });
        let target = target.clone();
        replied = wait.run(move |_| target.next_reply(opening, at));
    }
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

/// A reply of a daemon with its address and the data connections.
type DaemonReply = (Result<ChannelReply, ChannelError>, SocketAddr, StartedCalls);

impl ConnectTarget {
    /// Begins to open the control channel to a daemon with one of the keys. Data connections start
    /// together with it.
    fn open(&self, own: &KeyPair, keys: Vec<PublicKey>) -> io::Result<DaemonReply> {
        let (socket, at) = self.connect()?;
        let calls = self.start_calls(&socket, at);
        let opening = OpeningChannel::begin(&socket, own, move |key| keys.contains(&key), CONNECT_TIMEOUT);
        Ok((opening.and_then(|opening| opening.reply(CONNECT_TIMEOUT)), at, calls))
    }

    /// Waits for the next reply of a full daemon at an address.
    fn next_reply(&self, opening: OpeningChannel, at: SocketAddr) -> io::Result<DaemonReply> {
        thread::sleep(NOTICE_PAUSE);
        let reply = opening.reply(CONNECT_TIMEOUT);
        let calls = match &reply {
            Ok(ChannelReply::Open(channel)) => self.start_calls(channel.socket(), at),
            _ => None,
        };
        Ok((reply, at, calls))
    }

    /// Connects to the first reachable address.
    fn connect(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let mut why = io::Error::from(io::ErrorKind::NotFound);
        for at in (self.address.host.as_str(), self.address.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&at, CONNECT_TIMEOUT) {
                Ok(socket) => return Ok((socket, at)),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Starts the data connections to the address of a connection.
    fn start_calls(&self, socket: &TcpStream, at: SocketAddr) -> StartedCalls {
        self.streams.map(|(most, is_sparing)| {
            let streams = if is_sparing { streams_needed(socket, most.into()) as u16 } else { most };
            let count = connection_count(streams);
            (OutgoingConnections::start(at, &self.others, count, CONNECT_TIMEOUT), streams)
        })
    }
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
    fn read(address: &DaemonAddress, typed: Option<PublicKey>) -> Result<Self, TransferError> {
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

    /// Adds the daemon's authenticated key to the list; returns the path of a changed list.
    fn remember(&mut self, key: PublicKey) -> Result<Option<&Path>, TransferError> {
        match &mut self.known {
            Some(known) if self.keys.is_empty() => {
                known.add(&self.host_port, key)?;
                Ok(Some(&known.path))
            }
            Some(_) => Ok(None),
            None => keys::folder().map(|_| None),
        }
    }

    /// Explains that the daemon has another key.
    fn rejection(&self, key: PublicKey) -> TransferError {
        let Self { host_port, known, keys, typed } = self;
        let host = host_port.clone();
        match (*typed, keys.first()) {
            (Some(expected), first) if first.is_none() || keys.contains(&key) => {
                TransferError::OtherDaemonKey { host, key, expected }
            }
            (_, None) => TransferError::UnknownDaemon { host, key },
            (_, Some(first)) => {
                let list = known.as_ref().map(|known| known.path.clone()).unwrap_or_default();
                TransferError::DaemonKeyChanged { host, key, known: *first, list }
            }
        }
    }
}
