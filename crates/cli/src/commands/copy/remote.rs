//! One side on another host, reached by the system's ssh.

use super::again::{wait, Again, Watched};
use super::bootstrap;
use super::channel::{directed, Choice, Lookup, Ours};
use super::how;
use super::order::Order;
use super::peer::{Answer, Ask, Call, LONGEST_LINE};
use super::place::Site;
use super::show::Show;
use super::{exit, CopyArgs};
use crate::args::Common;
use crate::failure::{Failure, INTERRUPTED};
use crate::ssh::{self, Started};
use numaio_linux::interrupt::interrupted;
use numaio_linux::port::net::Lane;
use numaio_linux::port::{Ends, FilePort, Lanes, Slab};
use numaio_mover::drive::{drive, Core};
use numaio_mover::packing::Compress;
use numaio_mover::report::Totals;
use numaio_mover::sink::Sink;
use numaio_mover::source::Source;
use numaio_mover::wire::Side;
use serde::Serialize;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, ExitCode};
use std::time::{Duration, Instant};

/// How long the other side may take to end when we are done.
const LAST: Duration = Duration::from_secs(10);

/// A transfer with one side on another host.
pub struct Remote<'a> {
    pub common: &'a Common,
    pub args: &'a CopyArgs,
    pub order: &'a Order,
    pub host: &'a str,
    /// Whether the source is on this host.
    pub is_source: bool,
}

/// How one try went.
enum Tried {
    /// Another one would end no otherwise.
    Over(Totals),
    /// The connection was lost.
    Lost(Totals),
    /// The other host was not reached.
    Unreachable(Failure),
}

/// The other side, which waits for the first packet.
struct Far {
    started: Started,
    link: Link,
    /// Whether its source is a single file.
    one_file: bool,
    /// Whether it can pack and unpack data.
    packs: bool,
}

/// How data gets there. The streams of ssh stay open beside data connections: their end would be that of the transfer.
enum Link {
    Tunnel(Ends),
    Lanes(Lanes, ChildStdin, BufReader<ChildStdout>),
}

impl Remote<'_> {
    /// Moves all, and tries again where the connection is lost.
    pub fn run(&self) -> Result<ExitCode, Failure> {
        let numaio = bootstrap::numaio(self.args, &ssh::program(), self.host)?;
        let mut show = Show::new(self.common, self.args);
        let mut again = Again::new(self.args.net.retry());
        loop {
            let why = match self.attempt(&mut show, &numaio)? {
                Tried::Over(totals) => return end(show, &again.sum(totals)),
                Tried::Lost(totals) => {
                    again.lost(totals);
                    show.why()
                }
                Tried::Unreachable(failure) if again.is_first() => return Err(failure),
                Tried::Unreachable(failure) => failure.message,
            };
            let pause = again.pause().filter(|_| !interrupted());
            let Some(pause) = pause else { return end(show, &again.total()) };
            let seconds = pause.as_secs_f64();
            show.notice(&format!("{}: {why}; trying again in {seconds:.1} s", self.host));
            wait(pause);
        }
    }

    /// Tries once, with the numaio of the other host that is named.
    fn attempt(&self, show: &mut Show, numaio: &str) -> Result<Tried, Failure> {
        if !self.is_source {
            let far = match self.start(show, numaio, Ask::Source(self.order.clone()))? {
                Ok(far) => far,
                Err(failure) => return Ok(Tried::Unreachable(failure)),
            };
            let (site, options) = self.order.sink(far.one_file)?;
            return self.through(show, Sink::new(options), site, far);
        }
        let (site, mut options) = self.order.source()?;
        let far = match self.start(show, numaio, Ask::Sink(self.order.clone(), self.order.is_one_file()))? {
            Ok(far) => far,
            Err(failure) => return Ok(Tried::Unreachable(failure)),
        };
        if !far.packs {
            options.compress = Compress::None;
        }
        self.through(show, Source::new(options).map_err(Failure::new)?, site, far)
    }

    fn through<C: Core<Slab>>(
        &self,
        show: &mut Show,
        mut core: C,
        site: Site,
        far: Far,
    ) -> Result<Tried, Failure> {
        show.begin();
        let (port, streams) = match far.link {
            Link::Tunnel(ends) => (FilePort::over(site.setting(), ends), None),
            Link::Lanes(lanes, to, from) => (FilePort::over_lanes(site.setting(), lanes), Some((to, from))),
        };
        let mut port = Watched { port: port.map_err(Failure::new)?, closed: false };
        let began = Instant::now();
        drive(&mut core, &mut port, || began.elapsed(), |core| show.look(core));
        show.look(&mut core);
        let closed = port.closed;
        let ours = if self.is_source { Side::Source } else { Side::Sink };
        drop(port);
        drop(streams);
        drop(far.started);
        Ok(match show.is_lost(ours, closed) {
            true => Tried::Lost(core.totals()),
            false => Tried::Over(core.totals()),
        })
    }

    /// The numaio on the other host, ready to begin; or why it was not reached.
    fn start(&self, show: &Show, numaio: &str, ask: Ask) -> Result<Result<Far, Failure>, Failure> {
        let (args, host) = (self.args, self.host);
        let program = ssh::program();
        let ours = (!args.net.tunnel).then(|| Ours::new(&args.net)).transpose().map_err(Failure::new)?;
        let lookup = ours.as_ref().map(|_| Lookup::begin(&program, host));
        let command = ssh::command(program, host, numaio, &["peer", "--copy"]);
        let mut started = Started::begin(command, LAST, ssh::INSTALL)?;
        let (Some(mut to), Some(from)) = (started.stdin.take(), started.stdout.take()) else {
            return Err(Failure::new("the other side has no streams"));
        };
        let offer = ours.as_ref().map(|ours| ours.offer(args.net.data_port));
        say(&mut to, &Call { ask, offer })?;
        let mut from = BufReader::new(from);
        let mut line = String::new();
        let _ = from.by_ref().take(LONGEST_LINE).read_line(&mut line);
        let (one_file, door, packs) = match serde_json::from_str(&line) {
            Ok(Answer::Ready { one_file, door, packs }) => (one_file, door, packs),
            Ok(Answer::Refused(why)) => return Err(Failure::new(format!("{host}: {why}"))),
            Err(_) => {
                drop(to);
                let failure = Failure::new(format!("no numaio answers on {host}"));
                return Ok(Err(bootstrap::hinted(failure, host, started.status())));
            }
        };
        let lanes = ours.zip(lookup).map(|(ours, lookup)| {
            let opened = door.unwrap_or_else(|| Err("it opened no port".to_owned()))?;
            ours.reach(&opened, lookup.name())
        });
        let link = self.agree(show, lanes, to, from)?;
        if !packs && self.order.compress != how::Compress::None {
            show.notice(&format!("the numaio on {host} is older and cannot unpack data: it goes as it is"));
        }
        Ok(Ok(Far { started, link, one_file, packs }))
    }

    /// Says which way data goes, if there was a choice.
    fn agree(
        &self,
        show: &Show,
        lanes: Option<Result<Vec<Box<dyn Lane>>, String>>,
        mut to: ChildStdin,
        from: BufReader<ChildStdout>,
    ) -> Result<Link, Failure> {
        match lanes {
            None => {}
            Some(Ok(lanes)) => {
                say(&mut to, &Choice::Lanes)?;
                return Ok(Link::Lanes(directed(lanes, self.is_source), to, from));
            }
            Some(Err(why)) => {
                self.fall_back(show, &why)?;
                say(&mut to, &Choice::Tunnel)?;
            }
        }
        Ok(Link::Tunnel(Ends { from: Box::new(from), to: Box::new(to) }))
    }

    /// Data goes through ssh, unless a port was asked for.
    fn fall_back(&self, show: &Show, why: &str) -> Result<(), Failure> {
        let host = self.host;
        if self.args.net.data_port.is_some() {
            let failure = Failure::new(format!("no data connection to {host}: {why}"));
            return Err(
                failure.hint("let the port through the firewall, or send data through ssh by --tunnel")
            );
        }
        show.remark(&format!("no data connection to {host} ({why}): data goes through ssh"));
        Ok(())
    }
}

/// A line for the other side. Who cannot take it says why by its exit status.
fn say(to: &mut ChildStdin, what: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_string(what).map_err(Failure::new)?;
    line.push('\n');
    let _ = to.write_all(line.as_bytes());
    Ok(())
}

fn end(show: Show, totals: &Totals) -> Result<ExitCode, Failure> {
    let ended = show.end(totals);
    if interrupted() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let (failed, given_up) = ended?;
    Ok(exit(failed, given_up))
}
