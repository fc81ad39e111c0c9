//! The side of a transfer on another host: `numaio peer`, which ssh starts, or a session of a daemon. It hears on its control
//! channel (its standard streams, or the connection to the daemon) what to do, and data goes over connections of its own, or
//! over the same channel.

use super::channel::{directed, open, Choice, Offer, Opened, Street};
use super::far::{From, To};
use super::guarded::Guarded;
use super::order::{Order, Takes, VERSION};
use super::place::Site;
use crate::commands::json_line;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use numaio_linux::files::Base;
use numaio_linux::port::net::DataListener;
use numaio_linux::port::{StreamPair, FilePort};
use numaio_mover::drive::{drive, TransferCore};
use numaio_mover::report::TransferOutcome;
use numaio_mover::sink::Sink;
use numaio_mover::source::Source;
use numaio_mover::wire::{Reason, Side};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Longest order, and longest answer to one.
pub const LONGEST_LINE: u64 = 16 << 20;

/// How long a transfer may go on when the one who asked for it has closed the control channel: at the end of a transfer
/// that overtakes the last packets.
const GRACE: Duration = Duration::from_secs(3);

/// How long the last message that opens a data connection may be under way: the other side has sent all when it chooses them.
const LAST_STEP: Duration = Duration::from_secs(5);

#[derive(Debug, ClapArgs)]
pub struct PeerArgs {
    /// A side of numaio copy
    #[arg(long, required = true)]
    pub copy: bool,
}

/// What a peer is asked to be, and how data is to get to it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Call {
    pub ask: Ask,
    /// Data connections; without it data goes over the standard streams.
    pub offer: Option<Offer>,
}

/// What a peer is asked to be.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// The side with the files.
    Source(Order),
    /// The side where they go; whether the source is a single file.
    Sink(Order, bool),
}

/// What a peer answers, in one line.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It is ready.
    Ready {
        /// Whether its source is a single file.
        one_file: bool,
        /// Where it waits for data connections, if it was offered some; or why it cannot. Then it waits for a [`Choice`].
        door: Option<Result<Opened, String>>,
        /// Whether it can pack and unpack data; an older one does not say so, nor what follows.
        #[serde(default)]
        packs: bool,
        /// What it takes as a sink.
        #[serde(flatten)]
        takes: Takes,
    },
    /// It is not, and why.
    Refused(String),
}

impl Ask {
    fn order(&self) -> &Order {
        match self {
            Self::Source(order) | Self::Sink(order, _) => order,
        }
    }

    /// The side that a peer is to be.
    pub fn side(&self) -> Side {
        match self {
            Self::Source(_) => Side::Source,
            Self::Sink(..) => Side::Sink,
        }
    }
}

/// What one of its users may ask a daemon for.
#[derive(Debug)]
pub struct Terms {
    /// Where paths begin.
    pub base: Base,
    pub side: Side,
    pub streams: u16,
    pub bytes_per_second: Option<u64>,
    /// Whether files may be made that run with the rights of their owner.
    pub set_id: bool,
}

/// A daemon, for one of its users.
#[derive(Debug)]
pub struct Service {
    pub terms: Terms,
    /// Where data connections come.
    pub street: Street,
}

impl Terms {
    fn apply(&self, call: &mut Call) -> Result<(), Failure> {
        if call.ask.side() != self.side {
            return Err(Failure::new("another direction was asked for than at first"));
        }
        let (Ask::Source(order) | Ask::Sink(order, _)) = &mut call.ask;
        order.confine(self.base.clone(), self.bytes_per_second, self.set_id);
        // Else its users would learn whose each number is: they may give files any ACL, and take them back.
        order.takes.acls &= self.set_id;
        if let Some(offer) = &mut call.offer {
            offer.limit(self.streams);
        }
        Ok(())
    }
}

/// What the one who calls says, and what it hears.
struct Streams {
    from: From,
    to: To,
}

/// The side that ssh starts.
pub fn run() -> Result<ExitCode, Failure> {
    numaio_linux::interrupt::install().map_err(Failure::new)?;
    let ends = StreamPair { from: Box::new(io::stdin()), to: Box::new(io::stdout()) };
    // The other side was told why not, and tells its user.
    Ok(match attend(ends, None) {
        Ok((TransferOutcome::Done, _)) => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::FAILURE,
    })
}

/// Hears what to do, and does it; for a daemon, if there is one. Tells how it ended, and how many problems there were.
///
/// # Errors
/// Why it was not begun; the other side was told.
pub fn attend(ends: StreamPair, service: Option<&Service>) -> Result<(TransferOutcome, u64), Failure> {
    let (terms, street) = service.map(|service| (&service.terms, &service.street)).unzip();
    let mut streams = Streams { from: BufReader::new(ends.from), to: ends.to };
    let call = called(&mut streams.from, terms);
    let mut call = streams.told(call)?;
    match &mut call.ask {
        Ask::Source(order) => {
            let (site, options) = streams.told(order.source())?;
            let source = streams.told(Source::new(options).map_err(Failure::new))?;
            let way = Way::agree(call.offer.as_ref(), street, (order.is_one_file(), order.takes), streams)?;
            through(source, way.port(site, true)?, terms)
        }
        Ask::Sink(order, one_file) => {
            order.look_there();
            let (site, options) = streams.told(order.sink(*one_file))?;
            let way = Way::agree(call.offer.as_ref(), street, (*one_file, order.takes), streams)?;
            through(Sink::new(options), way.port(site, false)?, terms)
        }
    }
}

/// What is asked for, and may be.
pub fn called(from: &mut From, terms: Option<&Terms>) -> Result<Call, Failure> {
    let mut call: Call = hear(from)
        .map_err(|error| Failure::new(format!("this is not what numaio copy asks for: {error}")))?;
    let theirs = call.ask.order().numaio_copy;
    if theirs != VERSION {
        return Err(Failure::new(format!(
            "the other numaio speaks version {theirs}, and this one {VERSION}"
        )));
    }
    terms.map_or(Ok(()), |terms| terms.apply(&mut call))?;
    Ok(call)
}

/// One line of the other side.
pub fn hear<T: DeserializeOwned>(from: &mut From) -> io::Result<T> {
    let mut line = String::new();
    from.by_ref().take(LONGEST_LINE).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

impl Streams {
    fn answer(&mut self, answer: &Answer) -> Result<(), Failure> {
        let line = json_line(answer).map_err(Failure::new)?;
        self.to.write_all(line.as_bytes()).and_then(|()| self.to.flush()).map_err(Failure::new)
    }

    /// The other side tells its user what failed.
    fn told<T>(&mut self, done: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(failure) = &done {
            self.answer(&Answer::Refused(failure.message.clone()))?;
        }
        done
    }
}

/// How data gets to the other side.
enum Way {
    Streams(Streams),
    Lanes(DataListener, Streams),
}

impl Way {
    /// Says that all is ready, and hears which way was chosen.
    fn agree(
        offer: Option<&Offer>,
        street: Option<&Street>,
        (one_file, takes): (bool, Takes),
        mut streams: Streams,
    ) -> Result<Self, Failure> {
        let (door, opened) = match offer.map(|offer| open(offer, street)) {
            None => (None, None),
            Some(Ok((door, opened))) => (Some(door), Some(Ok(opened))),
            Some(Err(why)) => (None, Some(Err(why))),
        };
        streams.answer(&Answer::Ready { one_file, door: opened, packs: true, takes })?;
        if offer.is_none() {
            return Ok(Self::Streams(streams));
        }
        match (hear(&mut streams.from), door) {
            (Ok(Choice::Tunnel), _) => Ok(Self::Streams(streams)),
            (Ok(Choice::Lanes), Some(door)) => Ok(Self::Lanes(door, streams)),
            (Ok(Choice::Lanes), None) => Err(Failure::new("there is no door for data connections")),
            (Err(_), _) => Err(Failure::new("the other side left before the transfer began")),
        }
    }

    /// A port whose link is this way.
    fn port(self, site: Site<'_>, is_source: bool) -> Result<Linked, Failure> {
        let left = Arc::new(OnceLock::new());
        let (port, to) = match self {
            Self::Streams(Streams { from, to }) => {
                (FilePort::over(site.setting(None)?, StreamPair { from: Box::new(from), to }), None)
            }
            Self::Lanes(door, Streams { mut from, to }) => {
                let lanes = directed(door.into_streams(LAST_STEP).map_err(Failure::new)?, is_source);
                let left = left.clone();
                // Nothing is said there any more; its end means that nobody waits for us.
                thread::spawn(move || {
                    drop(io::copy(&mut from, &mut io::sink()));
                    left.get_or_init(Instant::now);
                });
                (FilePort::over_streams(site.setting(Some(&lanes))?, lanes), Some(to))
            }
        };
        Ok(Linked { port: port.map_err(Failure::new)?, left, to })
    }
}

/// A port with a link to the other side.
struct Linked {
    port: FilePort,
    /// Since when the control channel is closed, if it is another one.
    left: Arc<OnceLock<Instant>>,
    /// That channel: when we are done it is ended, and the other side needs not ask for that.
    to: Option<To>,
}

fn through<C: TransferCore<numaio_linux::port::Slab>>(
    mut core: C,
    Linked { port, left, to }: Linked,
    terms: Option<&Terms>,
) -> Result<(TransferOutcome, u64), Failure> {
    let (limit, set_id) = terms.map_or((None, true), |terms| (terms.bytes_per_second, terms.set_id));
    let mut port = Guarded::new(port, limit, set_id);
    let began = Instant::now();
    let clock = || began.elapsed();
    drive(&mut core, &mut port, clock, |core| {
        // What happens here is told over the link too.
        drop(core.reports());
        if numaio_linux::interrupt::interrupted() {
            core.stop(Reason::Cancelled, "it was interrupted");
        }
        if left.get().is_some_and(|left| left.elapsed() > GRACE) {
            core.stop(Reason::Cancelled, "the control channel was closed");
        }
    });
    drop(port);
    drop(to);
    Ok((core.outcome().cloned().unwrap_or(TransferOutcome::Failed), core.totals().failed))
}
