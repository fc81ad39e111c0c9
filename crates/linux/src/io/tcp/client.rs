//! The near end: a session with the numaio at the other host, and streams through it.

use super::interface;
use super::outcome::{self, Ran};
use super::protocol::{line, About, Answer, Group, Opening, Request, Run, Tool, LONGEST_LINE, PROTOCOL};
use super::slices::{self, Early, Plan};
use super::streams::{self, Lot, Messages};
use super::talk::{Talk, ANSWER_LIMIT};
use super::wire::{words, Lost, Wire};
use crate::interrupt::interrupted;
use crate::memory::Room;
use crate::Kernel;
use numaio_machine::probe::{IoOutcome, ProbeError, ToolOutcome};
use numaio_machine::workload::{Direction, IoWorkload, Sampling, TcpPath, ToolPeer, ToolWorkload};
use std::io::Write;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the other host may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// What stands for the port in the arguments of a tool.
const PORT: &str = "{port}";

/// A session with a peer.
#[derive(Debug)]
pub struct Peer {
    name: String,
    at: SocketAddr,
    about: About,
    interface: Option<String>,
    talk: Mutex<Talk>,
}

/// Why there is no session with a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Nobody answers there.
    #[error("cannot reach {peer}: {why}")]
    Unreachable {
        /// The address.
        peer: String,
        /// Why.
        why: String,
    },
    /// It said no.
    #[error("{peer} refuses: {why}")]
    Refused {
        /// The address.
        peer: String,
        /// Its words.
        why: String,
    },
    /// It is no numaio that serves.
    #[error("{peer} is no numaio that serves: {why}")]
    Stranger {
        /// The address.
        peer: String,
        /// What it did.
        why: String,
    },
}

impl Peer {
    /// Begins a session with the server at an address, as `192.0.2.7:5201`. The token is the one it printed.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn connect(address: &str, token: &str) -> Result<Self, PeerError> {
        let peer = address.to_owned();
        let unreachable = |why: String| PeerError::Unreachable { peer: peer.clone(), why };
        let (socket, at) = reach(address).map_err(unreachable)?;
        let local = socket.local_addr().map_err(|error| unreachable(error.to_string()))?;
        let stranger = |lost: Lost| PeerError::Stranger { peer: peer.clone(), why: lost.0 };
        let wire = Wire::new(socket, LONGEST_LINE).map_err(|error| unreachable(error.to_string()))?;
        let opening = Opening { protocol: PROTOCOL, secret: token.to_owned(), stream: None };
        wire.say(&opening).map_err(stranger)?;
        let about = match wire.next(CONNECT_LIMIT).map_err(stranger)? {
            Some(Answer::Welcome(about)) => about,
            Some(Answer::Refused { why }) => return Err(PeerError::Refused { peer, why }),
            _ => return Err(stranger(Lost("it does not welcome us".to_owned()))),
        };
        let talk = Mutex::new(Talk::new(peer.clone(), wire));
        Ok(Self { name: peer, at, about, interface: interface::of(local.ip()), talk })
    }

    /// The address that it was reached by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it tells of itself.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Our interface through which the session goes; none if it is not known.
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// Runs streams of TCP.
    ///
    /// # Errors
    /// As [`Probe::run`](numaio_machine::probe::Probe::run).
    pub(crate) fn run(
        &self,
        kernel: &Kernel,
        io: &IoWorkload,
        path: &TcpPath,
    ) -> Result<IoOutcome, ProbeError> {
        let began = Instant::now();
        let Sampling::Window { milliseconds, slices } = io.sampling else {
            return Err(refused("TCP streams", "they are measured in a window of time, not in repetitions"));
        };
        let slice_ns = u64::from(milliseconds) * 1_000_000 / u64::from(slices.max(1));
        let group = |group: &numaio_machine::workload::StreamGroup| Group {
            streams: group.streams,
            direction: group.direction,
        };
        let run = Run {
            groups: io.groups.iter().map(group).collect(),
            block_bytes: io.block_bytes,
            depth: io.depth,
            slice_ns,
            slices,
            there: path.there.clone(),
        };
        run.within_limits().map_err(|why| refused("TCP streams", &why))?;
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let key = talk.begin(&run)?;
        let ran = self.conduct(kernel, io, &run, &key, &mut talk);
        // Whatever happened here, the peer is done with this run before the next one.
        let ended = talk.conclude();
        outcome::of(io, ran?, talk.slices(), ended, began)
    }

    fn conduct(
        &self,
        kernel: &Kernel,
        io: &IoWorkload,
        run: &Run,
        key: &str,
        talk: &mut Talk,
    ) -> Result<Ran, ProbeError> {
        let mut sockets = Vec::new();
        for index in 0..run.streams() {
            sockets.push(self.stream(key, index)?);
        }
        let mut sockets = sockets.into_iter();
        let groups = io.groups.iter().map(|group| streams::Group {
            cpus: group.cpus.clone(),
            memory: group.memory,
            receives: group.direction == Direction::Read,
            sockets: sockets.by_ref().take(group.streams as usize).collect(),
        });
        let groups = groups.collect();
        let plan = Plan { slice: Duration::from_nanos(run.slice_ns), slices: run.slices };
        let room = Room::new(kernel, kernel.limit_bytes());
        let messages = Messages { bytes: io.block_bytes, held: io.depth };
        let conduct = |lot: &Lot| {
            talk.expect_prepared()?;
            talk.say(&Request::Go)?;
            let mut slices = Vec::new();
            let each = |slice| {
                slices.push(slice);
                Ok(())
            };
            let mut over = slices::take(lot, plan, each, |lot| watch(lot, talk, io.most_bytes));
            // The peer's slices may end a little later.
            let sends = io.groups.iter().any(|group| group.direction == Direction::Write);
            let patience = Instant::now() + plan.slice + ANSWER_LIMIT;
            while sends && over.early.is_none() && talk.slices().len() < plan.slices as usize {
                over.early = watch(lot, talk, io.most_bytes);
                if Instant::now() > patience {
                    over.early = Some(Early::Broken("the peer tells nothing of what it received".to_owned()));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            talk.stop();
            Ok((over, slices, lot.start_skew_ns()))
        };
        let ((over, slices, start_skew_ns), residency) = streams::run(&room, messages, groups, conduct)?;
        Ok(Ran { over, slices, residency, start_skew_ns })
    }

    fn stream(&self, key: &str, index: u32) -> Result<TcpStream, ProbeError> {
        let opening = Opening { protocol: PROTOCOL, secret: key.to_owned(), stream: Some(index) };
        let connected = TcpStream::connect_timeout(&self.at, CONNECT_LIMIT)
            .and_then(|mut socket| socket.write_all(&line(&opening)).map(|()| socket));
        connected.map_err(|error| {
            refused(&format!("connect stream {} with {}", index + 1, self.name), &words(&error))
        })
    }

    /// Has the other end of a tool started, runs the tool, and has the other end ended.
    ///
    /// # Errors
    /// As [`Probe::run`](numaio_machine::probe::Probe::run).
    pub(crate) fn tool(
        &self,
        tool: &ToolWorkload,
        peer: &ToolPeer,
        run: impl FnOnce(&ToolWorkload) -> Result<ToolOutcome, ProbeError>,
    ) -> Result<ToolOutcome, ProbeError> {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = Tool {
            program: tool.program.clone(),
            args: peer.args.clone(),
            processes: u32::try_from(tool.processes.len()).unwrap_or(u32::MAX),
            there: peer.there.clone(),
            time_limit_ms: tool.time_limit_ms.saturating_add(ANSWER_LIMIT.as_millis() as u32),
        };
        talk.say(&Request::Tool(wanted))?;
        let ports = match talk.answer()? {
            Answer::Listening { ports } if ports.len() == tool.processes.len() => ports,
            Answer::Refused { why } => {
                return Err(refused(&format!("{} at {}", tool.program, self.name), &why))
            }
            _ => return Err(talk.confused()),
        };
        let mut here = tool.clone();
        for (process, port) in here.processes.iter_mut().zip(ports) {
            process.args.iter_mut().for_each(|arg| *arg = arg.replace(PORT, &port.to_string()));
        }
        let ran = run(&here);
        talk.say(&Request::Stop)?;
        let there = match talk.answer()? {
            Answer::ToolsEnded { said } => said,
            _ => return Err(talk.confused()),
        };
        Ok(ToolOutcome { there, ..ran? })
    }
}

/// What ends a run early.
fn watch(lot: &Lot, talk: &mut Talk, most_bytes: Option<u64>) -> Option<Early> {
    if interrupted() {
        return Some(Early::Interrupted);
    }
    if most_bytes.is_some_and(|most| lot.moved() >= most) {
        return Some(Early::Asked);
    }
    // What the peer says tells more than that its streams end.
    talk.listen().or_else(|| lot.broken()).map(Early::Broken)
}

fn refused(what: &str, why: &str) -> ProbeError {
    ProbeError::Refused { what: what.to_owned(), why: why.to_owned() }
}

/// Connects with the first of an address's hosts that answers.
fn reach(address: &str) -> Result<(TcpStream, SocketAddr), String> {
    let all = address.to_socket_addrs().map_err(|error| error.to_string())?;
    let mut why = "the name has no address".to_owned();
    for at in all {
        match TcpStream::connect_timeout(&at, CONNECT_LIMIT) {
            Ok(socket) => return Ok((socket, at)),
            Err(error) => why = words(&error),
        }
    }
    Err(why)
}
