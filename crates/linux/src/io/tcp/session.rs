//! One session of a server: runs and tools, one after the other, as the client asks.

use super::desk::Desk;
use super::interface;
use super::outcome;
use super::protocol::{About, AboutNode, Answer, Ended, Request, Run, Tool, LONGEST_RUN_MS};
use super::slices::{self, Early, Over, Plan};
use super::streams::{self, Group, Lot, Messages};
use super::tools::Servers;
use super::wire::{Lost, Wire};
use crate::memory::Room;
use crate::Kernel;
use numaio_machine::ids::NodeId;
use numaio_machine::near::Ground;
use numaio_machine::probe::ProbeError;
use numaio_machine::see::see;
use numaio_machine::workload::Direction;
use std::net::{IpAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Bytes of a client's line, at most.
const LONGEST_REQUEST: usize = 64 << 10;
/// After this time without a word a session ends: the client's campaign may do something else between two runs.
const IDLE_LIMIT: Duration = Duration::from_secs(900);
/// How long the client may take for what it does by itself: to connect streams, to say go, or stop.
const STEP_LIMIT: Duration = Duration::from_secs(30);
/// How long the word why streams ended may come after their end.
const WORD_LIMIT: Duration = Duration::from_millis(500);
/// How often one who waits for the client looks for other things.
const LOOK_EACH: Duration = Duration::from_millis(20);

/// A session with one client.
pub struct Session<'a> {
    wire: Wire,
    kernel: &'a Kernel,
    desk: &'a Desk,
    stop: &'a (dyn Fn() -> bool + Sync),
    about: About,
}

/// Why a run did not come to its end.
enum Failed {
    /// The client is told, and the session goes on.
    Refused(String),
    /// The client is gone.
    Lost(Lost),
}

impl From<Lost> for Failed {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl<'a> Session<'a> {
    /// With a client that had the token.
    pub fn new(
        socket: TcpStream,
        kernel: &'a Kernel,
        desk: &'a Desk,
        stop: &'a (dyn Fn() -> bool + Sync),
    ) -> Result<Self, Lost> {
        let lost = |error: std::io::Error| Lost(error.to_string());
        let address = socket.local_addr().map_err(lost)?.ip();
        let about = about(kernel, address);
        Ok(Self { wire: Wire::new(socket, LONGEST_REQUEST).map_err(lost)?, kernel, desk, stop, about })
    }

    /// Does what the client asks, until it goes.
    pub fn serve(&mut self) -> Result<(), Lost> {
        self.wire.say(&Answer::Welcome(self.about.clone()))?;
        let mut heard = Instant::now();
        while !(self.stop)() {
            match self.wire.next(LOOK_EACH) {
                // A client that is done closes the connection.
                Err(lost) if lost.is_end() => return Ok(()),
                Err(lost) => return Err(lost),
                Ok(Some(request)) => {
                    self.answer(request)?;
                    heard = Instant::now();
                }
                Ok(None) if heard.elapsed() > IDLE_LIMIT => {
                    return Err(Lost(format!("the client said nothing for {} s", IDLE_LIMIT.as_secs())));
                }
                Ok(None) => {}
            }
        }
        Err(Lost("the server was stopped".to_owned()))
    }

    fn answer(&mut self, request: Request) -> Result<(), Lost> {
        let failed = match request {
            Request::Run(run) => {
                let ended = self.run(&run);
                self.desk.expect_none();
                ended.map(Answer::Ended)
            }
            Request::Tool(tool) => self.tool(&tool),
            // What was to be stopped has ended by itself; its end is told.
            Request::Go | Request::Stop => return Ok(()),
        };
        match failed {
            Ok(answer) => self.wire.say(&answer),
            Err(Failed::Refused(why)) => self.wire.say(&Answer::Refused { why }),
            Err(Failed::Lost(lost)) => Err(lost),
        }
    }

    fn run(&self, run: &Run) -> Result<Ended, Failed> {
        run.within_limits().map_err(Failed::Refused)?;
        let (key, incoming) = self.desk.expect().map_err(|error| Failed::Refused(error.to_string()))?;
        self.wire.say(&Answer::Ready { key })?;
        let mut sockets = self.collect(&incoming, run.streams())?.into_iter();
        let placed = run.there.clone().unwrap_or_else(|| self.about.own_place());
        let groups = run.groups.iter().map(|group| Group {
            cpus: placed.0.clone(),
            memory: placed.1,
            receives: group.direction == Direction::Write,
            sockets: sockets.by_ref().take(group.streams as usize).collect(),
        });
        let groups = groups.collect();
        let room = Room::new(self.kernel, self.kernel.limit_bytes());
        let messages = Messages { bytes: run.block_bytes, held: run.depth };
        let conducted = streams::run(&room, messages, groups, |lot| Ok(self.conduct(lot, run)));
        let (conducted, residency) = conducted.map_err(|error| Failed::Refused(error.to_string()))?;
        let over = conducted?;
        let cut = match over.early {
            Some(Early::Broken(why)) => Some(why),
            Some(Early::Interrupted) => Some("the server was stopped".to_owned()),
            Some(Early::Asked) | None => None,
        };
        Ok(Ended { cpu_ns: over.cpu_ns, residency: outcome::together(&residency), placed, cut })
    }

    /// Waits for the streams of a run; gives them in their order.
    fn collect(&self, incoming: &Receiver<(u32, TcpStream)>, count: u32) -> Result<Vec<TcpStream>, Failed> {
        let mut sockets: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
        let deadline = Instant::now() + STEP_LIMIT;
        while sockets.iter().any(Option::is_none) {
            match incoming.recv_timeout(LOOK_EACH) {
                Ok((index, socket)) => match sockets.get_mut(index as usize) {
                    Some(place @ None) => *place = Some(socket),
                    _ => {
                        return Err(Failed::Refused(format!(
                            "stream {index} came twice, or is none of the run"
                        )))
                    }
                },
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failed::Refused("no stream is expected".to_owned()))
                }
            }
            self.none_but(None)?;
            if Instant::now() > deadline {
                return Err(Failed::Refused(format!("not all of {count} streams came")));
            }
        }
        Ok(sockets.into_iter().flatten().collect())
    }

    /// Looks whether the client says something before what it is to do next: true if it is what is `wanted`.
    fn none_but(&self, wanted: Option<&Request>) -> Result<bool, Failed> {
        match self.wire.next::<Request>(Duration::ZERO)? {
            None => Ok(false),
            said if said.as_ref() == wanted => Ok(true),
            Some(Request::Stop) => Err(Failed::Refused("stopped before it began".to_owned())),
            Some(_) => Err(Failed::Lost(Lost("the client says what has no place here".to_owned()))),
        }
    }

    /// Moves bytes when the client says so, for as long as it wants.
    fn conduct(&self, lot: &Lot, run: &Run) -> Result<Over, Failed> {
        self.wire.say(&Answer::Prepared)?;
        let deadline = Instant::now() + STEP_LIMIT;
        while !self.none_but(Some(&Request::Go))? {
            if Instant::now() > deadline {
                return Err(Failed::Refused("the client did not begin".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let plan = Plan { slice: Duration::from_nanos(run.slice_ns), slices: run.slices };
        let mut gone = None;
        let mut watch = |lot: &Lot| {
            self.watch(lot).unwrap_or_else(|lost| {
                let why = lost.0.clone();
                gone = Some(lost);
                Some(Early::Broken(why))
            })
        };
        let each = |slice| self.wire.say(&Answer::Slice(slice)).map_err(|lost| Early::Broken(lost.0));
        let mut over = slices::take(lot, plan, each, &mut watch);
        // The client's own slices may end a little later: until then bytes go on.
        let patience =
            Instant::now() + Duration::from_millis(LONGEST_RUN_MS.into()).min(plan.slice + STEP_LIMIT);
        while over.early.is_none() {
            over.early = watch(lot);
            if Instant::now() > patience {
                over.early = Some(Early::Broken("the client did not end the run".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        gone.map_or(Ok(over), |lost| Err(Failed::Lost(lost)))
    }

    /// What ends a run early.
    fn watch(&self, lot: &Lot) -> Result<Option<Early>, Lost> {
        let broken = lot.broken().map(Early::Broken);
        // Why streams end is told elsewhere than they end, and may come a little later.
        let patience = if broken.is_some() { WORD_LIMIT } else { Duration::ZERO };
        match self.wire.next::<Request>(patience)? {
            Some(Request::Stop) => return Ok(Some(Early::Asked)),
            Some(_) => return Err(Lost("the client says what has no place here".to_owned())),
            None => {}
        }
        Ok(broken.or_else(|| (self.stop)().then_some(Early::Interrupted)))
    }

    /// Runs the other end of a tool until the client says stop.
    fn tool(&self, tool: &Tool) -> Result<Answer, Failed> {
        let known = |node: NodeId| self.about.nodes.iter().any(|about| about.node == node);
        if tool.there.as_ref().is_some_and(|(_, node)| !known(*node)) {
            return Err(Failed::Refused("there is no such node".to_owned()));
        }
        let refused = |error: ProbeError| Failed::Refused(error.to_string());
        let mut servers = Servers::start(self.kernel, tool).map_err(refused)?;
        self.wire.say(&Answer::Listening { ports: servers.ports() })?;
        let deadline = Instant::now() + Duration::from_millis(tool.time_limit_ms.into());
        while Instant::now() < deadline && !(self.stop)() {
            match self.wire.next(LOOK_EACH)? {
                None => {}
                Some(Request::Stop) => break,
                Some(_) => {
                    return Err(Failed::Lost(Lost("the client says what has no place here".to_owned())))
                }
            }
        }
        Ok(Answer::ToolsEnded { said: servers.end() })
    }
}

/// What a client needs to know of this machine. `address` is the one by which it came.
fn about(kernel: &Kernel, address: IpAddr) -> About {
    let topology = &see(kernel);
    let ground = Ground { root: kernel, locate: kernel, topology };
    let memory = topology.memory_nodes();
    let nodes = topology.nodes.iter().map(|node| AboutNode {
        node: node.id,
        cpus: topology.usable_cpus(node.id),
        memory: memory.contains(node.id) && node.memory_allowed,
    });
    About {
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        nodes: nodes.filter(|node| node.memory || !node.cpus.is_empty()).collect(),
        interface: interface::of(address).map(|name| interface::known(ground, name)),
    }
}
