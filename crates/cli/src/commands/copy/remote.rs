//! One side on another host.

use super::again::{wait, Again, Watched};
use super::channel::{directed, Choice, Ours};
use super::ends::Host;
use super::far::{From, Reached, To, Via, Way};
use super::first::cut_short;
use super::how;
use super::net::DataSecurity;
use super::order::{Order, Takes};
use super::peer::{Answer, Ask, Call};
use super::place::Site;
use super::show::Show;
use super::{end, CopyArgs};
use crate::args::Common;
use crate::failure::Failure;
use crate::output::harmless;
use numaio_linux::interrupt::interrupted;
use numaio_linux::port::net::{has_kernel_tls, DataStream};
use numaio_linux::port::{StreamPair, FilePort, StreamSet, Slab};
use numaio_mover::drive::{drive, TransferCore};
use numaio_mover::compression::CompressMode;
use numaio_mover::report::Totals;
use numaio_mover::sink::Sink;
use numaio_mover::source::Source;
use numaio_mover::wire::Side;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Instant;

/// A transfer with one side on another host.
pub struct Remote<'a> {
    pub common: &'a Common,
    pub args: &'a CopyArgs,
    pub order: &'a Order,
    pub host: &'a Host,
    /// Whether the source is on this host.
    pub is_source: bool,
}

/// How one try went.
enum Tried {
    /// Another one would end no otherwise.
    Over(Totals),
    /// The connection was lost, when so much had been done and was there.
    Lost(Totals, u64),
    /// The other host was not reached.
    Unreachable(Failure),
}

/// The other side, which waits for the first packet.
struct Far {
    /// Before what leads there, which ends when nothing holds its streams.
    link: Link,
    via: Via,
    /// Whether its source is a single file.
    one_file: bool,
    /// Whether it can pack and unpack data.
    packs: bool,
    /// What it takes as a sink.
    takes: Takes,
}

/// How data gets there. The control channel stays open beside data connections: its end would be that of the transfer.
enum Link {
    Tunnel(StreamPair),
    Lanes(StreamSet, To, From),
}

impl Remote<'_> {
    /// The side of this host.
    fn near(&self) -> Side {
        if self.is_source {
            Side::Source
        } else {
            Side::Sink
        }
    }

    /// Moves all, and tries again where the connection is lost.
    pub fn run(&self) -> Result<ExitCode, Failure> {
        // Before anything is started.
        self.args.net.others()?;
        let way = Way::find(self.host, self.args)?;
        let mut show = Show::new(self.common, self.args);
        let mut again = Again::new(self.args.net.retry());
        loop {
            let tried = match self.attempt(&mut show, &way, again.so_far()) {
                // It is over, and what came before it was moved all the same.
                Err(failure) if !again.is_first() => {
                    show.give_up(self.near().other(), &failure.message);
                    return end(show, &again.total());
                }
                tried => tried?,
            };
            let why = match tried {
                Tried::Over(totals) => return end(show, &again.sum(totals)),
                Tried::Lost(totals, reached) => {
                    again.lost(totals, reached);
                    show.why()
                }
                Tried::Unreachable(failure) if again.is_first() => return Err(failure),
                Tried::Unreachable(failure) => {
                    // It counts more than how the last one was lost that began.
                    show.give_up(self.near().other(), &failure.message);
                    failure.message
                }
            };
            let pause = again.pause().filter(|_| !interrupted());
            let Some(pause) = pause else {
                if show.given_up.is_none() {
                    show.give_up(self.near().other(), &why);
                }
                return end(show, &again.total());
            };
            let seconds = pause.as_secs_f64();
            show.notice(&format!("{}: {why}; trying again in {seconds:.1} s", self.host.shown()));
            wait(pause);
        }
    }

    /// Tries once. Of what was interrupted before it began just that is told, whatever else came of it.
    fn attempt(&self, show: &mut Show, way: &Way<'_>, earlier: Option<Totals>) -> Result<Tried, Failure> {
        match self.begin(show, way, earlier) {
            Err(_) | Ok(Tried::Unreachable(_)) if interrupted() => {
                Ok(Tried::Unreachable(cut_short(&self.host.shown())))
            }
            tried => tried,
        }
    }

    /// Reaches the other side, and moves all if that is ready.
    fn begin(&self, show: &mut Show, way: &Way<'_>, earlier: Option<Totals>) -> Result<Tried, Failure> {
        let mut order = self.order.of_another_try(earlier.is_some())?;
        if !self.is_source {
            order.look_there();
            let far = match self.start(show, way, Ask::Source(order.clone()))? {
                Ok(far) => far,
                Err(failure) => return Ok(Tried::Unreachable(failure)),
            };
            let (site, options) = order.sink(far.one_file && order.may_be_one_file())?;
            show.begin(earlier);
            return self.through(show, Sink::new(options), site, far);
        }
        let (site, mut options) = order.source()?;
        let far = match self.start(show, way, Ask::Sink(order.clone(), order.is_one_file()))? {
            Ok(far) => far,
            Err(failure) => return Ok(Tried::Unreachable(failure)),
        };
        if !far.packs {
            options.compress = CompressMode::None;
        }
        let Takes { unasked, holes, links, acls, changed } = far.takes;
        (options.eager, options.holes, options.links) = (unasked, holes, links);
        (options.acls, options.changed) = (acls, changed);
        show.begin(earlier);
        self.through(show, Source::new(options).map_err(Failure::new)?, site, far)
    }

    fn through<C: TransferCore<Slab>>(
        &self,
        show: &mut Show,
        mut core: C,
        site: Site<'_>,
        far: Far,
    ) -> Result<Tried, Failure> {
        let (port, streams) = match far.link {
            Link::Tunnel(ends) => (FilePort::over(site.setting(None)?, ends), None),
            Link::Lanes(lanes, to, from) => {
                (FilePort::over_streams(site.setting(Some(&lanes))?, lanes), Some((to, from)))
            }
        };
        let mut port = Watched { port: port.map_err(Failure::new)?, closed: false };
        let began = Instant::now();
        drive(&mut core, &mut port, || began.elapsed(), |core| show.look(core));
        show.look(&mut core);
        let closed = port.closed;
        let ours = self.near();
        drop(port);
        drop(streams);
        far.via.end();
        Ok(match show.is_lost(ours, closed) {
            true => Tried::Lost(core.totals(), core.progress()),
            false => Tried::Over(core.totals()),
        })
    }

    /// The numaio on the other host, ready to begin; or why it was not reached.
    fn start(&self, show: &Show, way: &Way<'_>, ask: Ask) -> Result<Result<Far, Failure>, Failure> {
        let (args, host) = (self.args, self.host.shown());
        let others = match args.net.others() {
            Ok(others) => others,
            // They had addresses at first, and will again.
            Err(failure) => return Ok(Err(failure)),
        };
        let mut reached = match way.reach(show, args, &others, ask.side())? {
            Ok(reached) => reached,
            Err(failure) => return Ok(Err(failure)),
        };
        let streams = reached.streams().unwrap_or(args.net.streams());
        let ours = (!args.net.tunnel).then(|| Ours::new(&args.net, streams));
        let ours = ours.transpose().map_err(Failure::new)?;
        let offer = ours.as_ref().map(|ours| reached.offer(ours, args.net.data_port));
        reached.say(&Call { ask, offer })?;
        let most_streams = match reached.welcome()? {
            Ok(streams) => streams,
            Err(failure) => return Ok(Err(failure)),
        };
        let (one_file, door, packs, takes) = match reached.answer() {
            Some(Answer::Ready { one_file, door, packs, takes }) => (one_file, door, packs, takes),
            Some(Answer::Refused(why)) => return Err(Failure::new(format!("{host}: {}", harmless(&why)))),
            None => return Ok(Err(reached.silent(&host))),
        };
        let lanes = ours.map(|ours| {
            let opened = door.unwrap_or_else(|| Err("it opened no port".to_owned()));
            let opened = opened.map_err(|why| harmless(&why))?;
            self.tell_of_kernels(show, opened.by_kernel);
            let lanes = reached.lanes(ours, most_streams, opened, &others)?;
            missed(show, &others, &lanes);
            Ok(lanes)
        });
        let (via, link) = match self.agree(show, way, lanes, reached)? {
            Ok(agreed) => agreed,
            Err(failure) => return Ok(Err(failure)),
        };
        if !packs && self.order.compress != how::Compress::None {
            show.notice(&format!("the numaio on {host} is older and cannot unpack data: it goes as it is"));
        }
        Ok(Ok(Far { via, link, one_file, packs, takes }))
    }

    /// Says where numaio has to encrypt and decrypt by itself although the kernel was to, which it is `there` or not.
    fn tell_of_kernels(&self, show: &Show, there: bool) {
        if self.args.net.data_security != DataSecurity::KernelTls {
            return;
        }
        if !has_kernel_tls() {
            show.notice(
                "no kernel TLS here, as the module tls is not loaded: numaio encrypts and decrypts by itself",
            );
        }
        if !there {
            let host = self.host.shown();
            show.notice(&format!("no kernel TLS on {host}: numaio encrypts and decrypts there by itself"));
        }
    }

    /// Says which way data goes, if there was a choice; or why there is none.
    fn agree(
        &self,
        show: &Show,
        way: &Way<'_>,
        lanes: Option<Result<Vec<Box<dyn DataStream>>, String>>,
        mut reached: Reached,
    ) -> Result<Result<(Via, Link), Failure>, Failure> {
        match lanes {
            None => {}
            Some(Ok(lanes)) => {
                reached.say(&Choice::Lanes)?;
                let link = Link::Lanes(directed(lanes, self.is_source), reached.to, reached.from);
                return Ok(Ok((reached.via, link)));
            }
            Some(Err(why)) => match self.fall_back(show, way, &why) {
                None => reached.say(&Choice::Tunnel)?,
                Some(failure) => return Ok(Err(failure)),
            },
        }
        let ends = StreamPair { from: Box::new(reached.from), to: reached.to };
        Ok(Ok((reached.via, Link::Tunnel(ends))))
    }

    /// Data goes through the control channel, unless a port was asked for: then that is a failure.
    fn fall_back(&self, show: &Show, way: &Way<'_>, why: &str) -> Option<Failure> {
        let (host, channel) = (self.host.shown(), way.channel());
        if self.args.net.data_port.is_some() {
            let failure = Failure::new(format!("no data connection to {host}: {why}"));
            return Some(failure.hint(format!(
                "let the port through the firewall, give a range if it is taken, or send data through {channel} by --tunnel"
            )));
        }
        show.remark(&format!("no data connection to {host} ({why}): data goes through {channel}"));
        None
    }
}

/// Says which of the further addresses no data goes by.
fn missed(show: &Show, others: &[SocketAddr], lanes: &[Box<dyn DataStream>]) {
    let peers: Vec<IpAddr> =
        lanes.iter().filter_map(|lane| Some(lane.socket().peer_addr().ok()?.ip())).collect();
    for other in others.iter().map(SocketAddr::ip).filter(|other| !peers.contains(other)) {
        show.notice(&format!("no data connection to {other}: others take its part"));
    }
}
