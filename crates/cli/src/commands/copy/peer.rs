//! `numaio peer`: the side of a transfer on another host, started over ssh. It hears on its standard input what to do, and
//! data goes over connections of its own, or over its standard streams.

use super::channel::{directed, open, Choice, Offer, Opened};
use super::order::{Order, VERSION};
use crate::failure::Failure;
use clap::Args as ClapArgs;
use numaio_linux::port::net::Door;
use numaio_linux::port::{Ends, FilePort, Setting};
use numaio_mover::drive::{drive, Core};
use numaio_mover::report::Ended;
use numaio_mover::sink::Sink;
use numaio_mover::source::Source;
use numaio_mover::wire::Reason;
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
        /// Whether it can pack and unpack data; an older one does not say so.
        #[serde(default)]
        packs: bool,
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
}

pub fn run() -> Result<ExitCode, Failure> {
    numaio_linux::interrupt::install().map_err(Failure::new)?;
    let mut from = BufReader::new(io::stdin());
    let call: Call = match hear(&mut from) {
        Ok(call) => call,
        Err(error) => {
            return refuse(&Failure::new(format!("this is not what numaio copy asks for: {error}")))
        }
    };
    let theirs = call.ask.order().numaio_copy;
    if theirs != VERSION {
        return refuse(&Failure::new(format!(
            "the other numaio speaks version {theirs}, and this one {VERSION}"
        )));
    }
    match serve(&call, from) {
        Ok(ended) => Ok(if ended == Ended::Done { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        Err(failure) => refuse(&failure),
    }
}

/// One line of the other side.
fn hear<T: DeserializeOwned>(from: &mut BufReader<io::Stdin>) -> io::Result<T> {
    let mut line = String::new();
    from.by_ref().take(LONGEST_LINE).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// The other side tells its user.
fn refuse(failure: &Failure) -> Result<ExitCode, Failure> {
    answer(&Answer::Refused(failure.message.clone()))?;
    Ok(ExitCode::FAILURE)
}

fn answer(answer: &Answer) -> Result<(), Failure> {
    let mut line = serde_json::to_string(answer).map_err(Failure::new)?;
    line.push('\n');
    let mut out = io::stdout();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(Failure::new)
}

fn serve(call: &Call, from: BufReader<io::Stdin>) -> Result<Ended, Failure> {
    match &call.ask {
        Ask::Source(order) => {
            let (site, options) = order.source()?;
            let source = Source::new(options).map_err(Failure::new)?;
            let way = Way::agree(call.offer.as_ref(), order.is_one_file(), from)?;
            through(source, way.port(site.setting(), true)?)
        }
        Ask::Sink(order, one_file) => {
            let (site, options) = order.sink(*one_file)?;
            let way = Way::agree(call.offer.as_ref(), *one_file, from)?;
            through(Sink::new(options), way.port(site.setting(), false)?)
        }
    }
}

/// How data gets to the other side.
enum Way {
    Streams(BufReader<io::Stdin>),
    Lanes(Door, BufReader<io::Stdin>),
}

impl Way {
    /// Says that all is ready, and hears which way was chosen.
    fn agree(offer: Option<&Offer>, one_file: bool, mut from: BufReader<io::Stdin>) -> Result<Self, Failure> {
        let (door, opened) = match offer.map(open) {
            None => (None, None),
            Some(Ok((door, opened))) => (Some(door), Some(Ok(opened))),
            Some(Err(why)) => (None, Some(Err(why))),
        };
        answer(&Answer::Ready { one_file, door: opened, packs: true })?;
        if offer.is_none() {
            return Ok(Self::Streams(from));
        }
        match (hear(&mut from), door) {
            (Ok(Choice::Tunnel), _) => Ok(Self::Streams(from)),
            (Ok(Choice::Lanes), Some(door)) => Ok(Self::Lanes(door, from)),
            (Ok(Choice::Lanes), None) => Err(Failure::new("there is no door for data connections")),
            (Err(_), _) => Err(Failure::new("the other side left before the transfer began")),
        }
    }

    /// A port whose link is this way, and since when the control channel is closed, if it is another one.
    fn port(self, setting: Setting, is_source: bool) -> Result<(FilePort, Arc<OnceLock<Instant>>), Failure> {
        let left = Arc::new(OnceLock::new());
        let port = match self {
            Self::Streams(from) => {
                FilePort::over(setting, Ends { from: Box::new(from), to: Box::new(io::stdout()) })
            }
            Self::Lanes(door, mut from) => {
                let lanes = door.lanes().map_err(Failure::new)?;
                let left = left.clone();
                // Nothing is said there any more; its end means that nobody waits for us.
                thread::spawn(move || {
                    drop(io::copy(&mut from, &mut io::sink()));
                    left.get_or_init(Instant::now);
                });
                FilePort::over_lanes(setting, directed(lanes, is_source))
            }
        };
        Ok((port.map_err(Failure::new)?, left))
    }
}

fn through<C: Core<numaio_linux::port::Slab>>(
    mut core: C,
    (mut port, left): (FilePort, Arc<OnceLock<Instant>>),
) -> Result<Ended, Failure> {
    let began = Instant::now();
    drive(
        &mut core,
        &mut port,
        || began.elapsed(),
        |core| {
            // What happens here is told over the link too.
            drop(core.reports());
            if numaio_linux::interrupt::interrupted() {
                core.stop(Reason::Cancelled, "it was interrupted");
            }
            if left.get().is_some_and(|left| left.elapsed() > GRACE) {
                core.stop(Reason::Cancelled, "ssh was closed");
            }
        },
    );
    Ok(core.ended().cloned().unwrap_or(Ended::Failed))
}
