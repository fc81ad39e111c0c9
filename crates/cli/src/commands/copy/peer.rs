//! `numaio peer`: the side of a transfer on another host, started over ssh. It speaks on its standard streams.

use super::order::{Order, VERSION};
use crate::failure::Failure;
use clap::Args as ClapArgs;
use numaio_linux::port::{Ends, FilePort};
use numaio_mover::drive::{drive, Core};
use numaio_mover::report::Ended;
use numaio_mover::sink::Sink;
use numaio_mover::source::Source;
use numaio_mover::wire::Reason;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::ExitCode;
use std::time::Instant;

/// Longest order, and longest answer to one.
pub const LONGEST_LINE: u64 = 16 << 20;

#[derive(Debug, ClapArgs)]
pub struct PeerArgs {
    /// A side of numaio copy
    #[arg(long, required = true)]
    pub copy: bool,
}

/// What a peer is asked to be.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// The side with the files.
    Source(Order),
    /// The side where they go; whether the source is a single file.
    Sink(Order, bool),
}

/// What a peer answers, in one line, before packets go to and fro.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It is ready; whether its source is a single file.
    Ready(bool),
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
    let mut line = String::new();
    from.by_ref().take(LONGEST_LINE).read_line(&mut line).map_err(Failure::new)?;
    let ask: Ask = match serde_json::from_str(&line) {
        Ok(ask) => ask,
        Err(error) => {
            return refuse(&Failure::new(format!("this is not what numaio copy asks for: {error}")))
        }
    };
    if ask.order().numaio_copy != VERSION {
        let (theirs, own) = (ask.order().numaio_copy, VERSION);
        return refuse(&Failure::new(format!(
            "the other numaio speaks version {theirs}, and this one {own}"
        )));
    }
    match serve(&ask, from) {
        Ok(ended) => Ok(if ended == Ended::Done { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        Err(failure) => refuse(&failure),
    }
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

fn serve(ask: &Ask, from: BufReader<io::Stdin>) -> Result<Ended, Failure> {
    let ends = Ends { from: Box::new(from), to: Box::new(io::stdout()) };
    match ask {
        Ask::Source(order) => {
            let (site, options) = order.source()?;
            let source = Source::new(options).map_err(Failure::new)?;
            answer(&Answer::Ready(order.is_one_file()))?;
            through(source, FilePort::over(site.setting(), ends).map_err(Failure::new)?)
        }
        Ask::Sink(order, one_file) => {
            let (site, options) = order.sink(*one_file)?;
            answer(&Answer::Ready(*one_file))?;
            through(Sink::new(options), FilePort::over(site.setting(), ends).map_err(Failure::new)?)
        }
    }
}

fn through<C: Core<numaio_linux::port::Slab>>(mut core: C, mut port: FilePort) -> Result<Ended, Failure> {
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
        },
    );
    Ok(core.ended().cloned().unwrap_or(Ended::Failed))
}
