//! A daemon on another host, reached by TLS: its key is one that was trusted before, and ours tells it who we are.

use super::address::Address;
use super::channel::lanes;
use super::far::{Reached, Via};
use super::first::{cut_short, patiently, First};
use super::hello::{Greeting, Hello};
use super::net::{at_port, NetArgs};
use super::show::Show;
use crate::failure::Failure;
use crate::keys::{self, Known};
use crate::output::harmless;
use numaio_linux::port::streams_needed;
use numaio_linux::port::net::control::{self, ControlChannel, ChannelError};
use numaio_linux::port::net::{OutgoingConnections, KeyPair, PublicKey, Ticket};
use numaio_mover::wire::Side;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long it may take to reach an address, and then to open the channel.
const REACH: Duration = Duration::from_secs(10);
/// How long the daemon may take to greet: it starts a process.
pub const GREETING: Duration = Duration::from_secs(30);

/// A session of a daemon, which is to be that side; or why it was not reached. It was told who we are, and has not said yet
/// whether we are welcome: what it is to do can be said meanwhile, so that no round trip is lost.
///
/// # Errors
/// It was reached, and another try would end no otherwise.
pub fn reach(
    show: &Show,
    address: &Address,
    net: &NetArgs,
    others: &[SocketAddr],
    side: Side,
) -> Result<Result<Reached, Failure>, Failure> {
    let own = keys::read(&keys::file(net.key.as_deref())?)?.keys().map_err(Failure::new)?;
    let mut trusted = Trusted::read(address, net.trust)?;
    let wanted = Wanted {
        address: address.clone(),
        others: at_port(others, address.port),
        streams: (!net.tunnel).then(|| (net.streams(), net.is_sparing())),
    };
    let keys = trusted.taken();
    let opened = patiently(Duration::MAX, move || wanted.open(&own, keys));
    let (mut channel, calls) = match opened.ok_or_else(|| cut_short(&trusted.place))? {
        Ok(Ok(opened)) => opened,
        Err(error) => return Ok(Err(unreachable(&trusted.place, &error))),
        Ok(Err(ChannelError::WrongKey(key))) => return Err(trusted.refused(key)),
        Ok(Err(ChannelError::Net(error))) => {
            let failure = Failure::new(format!("no numaio daemon answers at {}: {error}", trusted.place));
            return Ok(Err(
                failure.hint("something else may be there, or the daemon have no place: its log says so")
            ));
        }
    };
    // Who typed the key has it.
    if let Err(failure) = trusted.remember(channel.peer()) {
        show.notice(&format!("the key of {} is not kept: {}", trusted.place, failure.message));
    }
    let hello = Hello::new(address.user.clone(), &address.root, side);
    if let Err(error) = channel.write_line(&serde_json::to_string(&hello).map_err(Failure::new)?) {
        return Ok(Err(unreachable(&trusted.place, &error)));
    }
    let key = channel.peer().der();
    let (ends, carrier) = channel.into_streams().map_err(Failure::new)?;
    let data = match calls {
        Some((calls, streams)) => {
            Some(Data { calls, streams, ticket: Ticket::generate().map_err(Failure::new)?, key })
        }
        None => None,
    };
    let via = Via::Daemon { place: trusted.place, data, carrier };
    Ok(Ok(Reached::new(ends.to, ends.from, via)))
}

/// How many data connections the daemon allows from the source to the sink, by what it said; or why it does not serve us now.
///
/// # Errors
/// Why it does not serve us at all.
pub fn welcome(place: &str, said: Option<First<Greeting>>) -> Result<Result<u16, Failure>, Failure> {
    let why = match said {
        Some(First::Answer(Greeting::Welcome { streams })) => return Ok(Ok(streams)),
        Some(First::Answer(Greeting::Refused(why))) => return Err(told(place, &why)),
        Some(First::Answer(Greeting::Busy(why))) => return Ok(Err(told(place, &why))),
        Some(First::Other(beginning)) => {
            return Err(told(place, &format!("this is no greeting: {beginning}")))
        }
        Some(First::End) => io::ErrorKind::UnexpectedEof,
        None => io::ErrorKind::TimedOut,
    };
    Ok(Err(unreachable(place, &why.into())))
}

/// Connections for data to a daemon, which are being made.
pub struct Data {
    pub calls: OutgoingConnections,
    /// How many of them go from the source to the sink.
    pub streams: u16,
    /// What they begin with.
    pub ticket: Ticket,
    /// The key of the daemon.
    pub key: Vec<u8>,
}

/// What is to be reached.
struct Wanted {
    address: Address,
    /// Further ones of the host, for data.
    others: Vec<SocketAddr>,
    /// How many connections for data go from the source to the sink, and whether fewer will do; none if there are to be none.
    streams: Option<(u16, bool)>,
}

/// Connections for data, and how many of them go from the source to the sink; none if there are to be none.
type Begun = Option<(OutgoingConnections, u16)>;

impl Wanted {
    /// The control channel, to whoever has one of the keys, and what was begun beside it.
    fn open(&self, own: &KeyPair, keys: Vec<PublicKey>) -> io::Result<Result<(ControlChannel, Begun), ChannelError>> {
        let (socket, begun) = self.connect()?;
        let channel = control::connect(&socket, own, move |key| keys.contains(&key), REACH);
        Ok(channel.map(|channel| (channel, begun)))
    }

    /// Any of the addresses of the host. Connections for data are made while the control channel is opened, and so cost no round trip.
    fn connect(&self) -> io::Result<(TcpStream, Begun)> {
        let Self { address, others, streams } = self;
        let mut why = io::Error::from(io::ErrorKind::NotFound);
        for at in (address.host.as_str(), address.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&at, REACH) {
                Ok(socket) => {
                    let begun = streams.map(|(most, is_sparing)| {
                        let streams = if is_sparing { streams_needed(&socket, most.into()) as u16 } else { most };
                        (OutgoingConnections::start(at, others, lanes(streams), REACH), streams)
                    });
                    return Ok((socket, begun));
                }
                Err(error) => why = error,
            }
        }
        Err(why)
    }
}

fn unreachable(place: &str, error: &io::Error) -> Failure {
    Failure::new(format!("no numaio daemon answers at {place}: {error}"))
        .hint("numaio serve runs one; without it HOST:PATH goes through ssh")
}

/// What the daemon says to people.
fn told(place: &str, why: &str) -> Failure {
    Failure::new(format!("{place}: {}", harmless(why)))
}

/// Keys that the daemon may have.
struct Trusted {
    place: String,
    /// None where there is no folder for them, and one was typed.
    known: Option<Known>,
    /// Those that are known.
    keys: Vec<PublicKey>,
    typed: Option<PublicKey>,
}

impl Trusted {
    fn read(address: &Address, typed: Option<PublicKey>) -> Result<Self, Failure> {
        let place = address.place();
        let known = match keys::folder() {
            Err(_) if typed.is_some() => None,
            _ => Some(Known::read()?),
        };
        let keys = known.as_ref().map_or(Ok(Vec::new()), |known| known.keys(&place))?;
        Ok(Self { place, known, keys, typed })
    }

    /// Those that are taken: the one that was typed alone, and none if another one is known.
    fn taken(&self) -> Vec<PublicKey> {
        match self.typed {
            Some(typed) if self.keys.is_empty() || self.keys.contains(&typed) => vec![typed],
            Some(_) => Vec::new(),
            None => self.keys.clone(),
        }
    }

    /// It has one that is taken, and showed that it has it.
    fn remember(&mut self, key: PublicKey) -> Result<(), Failure> {
        match &mut self.known {
            Some(known) if self.keys.is_empty() => known.add(&self.place, key),
            Some(_) => Ok(()),
            None => keys::folder().map(drop),
        }
    }

    /// Whoever is there has another key.
    fn refused(&self, key: PublicKey) -> Failure {
        let Self { place, known, keys, typed } = self;
        let path = known.as_ref().map(|known| known.path.display().to_string()).unwrap_or_default();
        match (typed, keys.first()) {
            (Some(typed), first) if first.is_none() || keys.contains(&key) => {
                Failure::new(format!("whoever answers at {place} has the key {key}, and not {typed} of --trust"))
                    .hint("ask who runs it for its key; nothing was sent")
            }
            (_, None) => Failure::new(format!("the daemon at {place} is not known; whoever answers there has the key {key}"))
                .hint(format!("if who runs it says that this is its key, add --trust {key} this once")),
            (_, Some(known)) => Failure::new(format!(
                "THE KEY OF {place} IS ANOTHER ONE: it is {key}, and was {known}. Somebody may be between, or the \
                 daemon got a new key"
            ))
            .hint(format!(
                "ask who runs it; if it has a new one, take the line of {place} out of {path}, and add --trust {key} \
                 this once"
            )),
        }
    }
}
