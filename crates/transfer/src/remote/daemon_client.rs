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
use numaio_mover_linux::port::net::control::{self, ChannelError, ControlChannel};
use numaio_mover_linux::port::net::{KeyPair, OutgoingConnections, PublicKey, Ticket};
use numaio_mover_linux::port::streams_needed;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

/// How long connecting to an address, and then opening the channel, may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

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
    let own = keys::read(&keys::path(net.key.as_deref())?)?.keys().map_err(TransferError::Io)?;
    let mut trusted = TrustedKeys::read(address, net.trust)?;
    let target = ConnectTarget {
        address: address.clone(),
        others: with_port(others, address.port),
        streams: (!net.tunnel).then(|| (net.streams(), net.may_use_fewer_streams())),
    };
    let keys = trusted.accepted();
    let mut wait = PeerWait { reporter: &mut *reporter, host: &trusted.host_port, limit: net.timeout };
    let opened = match wait.run(move |_| target.open(&own, keys)) {
        Ok(opened) => opened,
        Err(failure) => return failure.attempt_error(&trusted.host_port),
    };
    let (mut channel, calls) = match opened {
        Ok(Ok(opened)) => opened,
        Err(error) => return Ok(Err(unreachable(&trusted.host_port, error))),
        Ok(Err(ChannelError::WrongKey(key))) => return Err(trusted.rejection(key)),
        Ok(Err(ChannelError::Net(error))) => {
            let (host, why) = (trusted.host_port, error.to_string());
            return Ok(Err(TransferError::NoDaemonChannel { host, why }));
        }
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
    let hello = DaemonHello::new(address.user.clone(), &address.root, side, capacity);
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
