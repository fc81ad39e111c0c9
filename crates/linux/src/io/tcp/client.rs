//! Client side: a session with the numaio server on another host, and the streams of its runs.

use super::connections::{set_congestion_control, ControlStreams, StreamConnector, StreamEndpoint};
use super::control_channel::{ControlChannel, ANSWER_LIMIT};
use super::interface;
use super::line_connection::{describe_error, ConnectionError, LineConnection};
use super::outcome::{self, ClientRun};
use super::ping::{self, PingEnd};
use super::protocol::{
    Answer, Hello, HostInfo, PingRequest, Request, RunGroup, RunRequest, ToolRequest, MAX_ANSWER_BYTES,
    PROTOCOL,
};
use super::slices::{self, EarlyEnd, SlicePlan};
use super::streams::{self, MessageLayout, StreamSet};
use crate::clock::nanoseconds;
use crate::interrupt::interrupted;
use crate::memory::FreeMemory;
use crate::probe::window::{check_window, SlicePlan as RoundTripSlices};
use crate::Root;
use numaio_machine::probe::{IoOutcome, PeerOutcome, PingOutcome, ProbeError, ToolOutcome};
use numaio_machine::workload::{
    Direction, IoWorkload, PingWorkload, Rail, Sampling, TcpPath, ToolPeer, ToolWorkload,
};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between checks of a ping-pong for an early end, rare enough not to disturb it.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Placeholder for the port in the arguments of a tool.
const PORT: &str = "{port}";

/// A session with a peer.
#[derive(Debug)]
pub struct Peer {
    name: String,
    host: HostInfo,
    interface: Option<String>,
    connector: Box<dyn StreamConnector>,
    channel: Mutex<ControlChannel>,
}

/// Error of opening a session with a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// A connection failed.
    #[error("cannot reach {peer}: {why}")]
    Unreachable {
        /// The peer.
        peer: String,
        /// The cause.
        why: String,
    },
    /// The peer rejected the session.
    #[error("{peer} rejected the session: {why}")]
    Refused {
        /// The peer.
        peer: String,
        /// The peer's message.
        why: String,
    },
    /// The peer does not speak the protocol.
    #[error("{peer} is not a numaio server: {why}")]
    NotNumaio {
        /// The peer.
        peer: String,
        /// The violation of the protocol.
        why: String,
    },
    /// The peer does not send its first line.
    #[error("no reply from {peer} for {seconds} s")]
    Silent {
        /// The peer.
        peer: String,
        /// The time limit.
        seconds: u64,
    },
    /// The peer has another version of the protocol.
    #[error("numaio on {peer} has protocol version {theirs}, this numaio {PROTOCOL}: install one version on both hosts")]
    OtherVersion {
        /// The peer.
        peer: String,
        /// The peer's version.
        theirs: u32,
    },
}

impl Peer {
    /// Opens a session over the control channel to a server, which has to send its first line
    /// within `hello_limit`. One stream tests the path and shows which interfaces it uses.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn open(
        name: &str,
        control: ControlStreams,
        connector: Box<dyn StreamConnector>,
        hello_limit: Duration,
    ) -> Result<Self, PeerError> {
        let peer = name.to_owned();
        let unreachable = |why: String| PeerError::Unreachable { peer: peer.clone(), why };
        let connection =
            LineConnection::new(control, MAX_ANSWER_BYTES).map_err(|error| unreachable(error.to_string()))?;
        check_version(name, &connection, hello_limit)?;
        let Answer::Ready(endpoint) = receive_opening(name, &connection)? else {
            return Err(unexpected_opening(name));
        };
        let test_streams = connector.connect(&endpoint, 1).map_err(unreachable)?;
        let Answer::Welcome(host) = receive_opening(name, &connection)? else {
            return Err(unexpected_opening(name));
        };
        let local = test_streams.first().and_then(|socket| socket.local_addr().ok());
        let interface = local.and_then(|address| interface::by_address(address.ip()));
        let channel = Mutex::new(ControlChannel::new(peer.clone(), connection));
        Ok(Self { name: peer, host, interface, connector, channel })
    }

    /// Returns the name of the peer, as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the peer's description of its host.
    pub fn host(&self) -> &HostInfo {
        &self.host
    }

    /// Returns the local interface of the session, or `None` if unknown.
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// Runs TCP streams on the path of each group's device. `limit_bytes` are the bytes that the
    /// control group still allows.
    ///
    /// # Errors
    /// As [`Probe::run`](numaio_machine::probe::Probe::run).
    pub(crate) fn run(
        &self,
        root: &Root,
        limit_bytes: Option<u64>,
        io: &IoWorkload,
        paths: &[&TcpPath],
    ) -> Result<IoOutcome, ProbeError> {
        let began = Instant::now();
        let (path, rails) = one_session(io, paths)?;
        let Sampling::Window { milliseconds, slices } = io.sampling else {
            return Err(refused("TCP streams", "they are measured in a time window, not in repetitions"));
        };
        let slice_ns = u64::from(milliseconds) * 1_000_000 / u64::from(slices.max(1));
        let group = |group: &numaio_machine::workload::StreamGroup| RunGroup {
            streams: group.streams,
            direction: group.direction,
        };
        let run = RunRequest {
            groups: io.groups.iter().map(group).collect(),
            block_bytes: io.block_bytes,
            depth: io.depth,
            slice_ns,
            slices,
            placement: path.peer_placement.clone(),
            congestion: path.congestion.clone(),
        };
        run.check_limits().map_err(|why| refused("TCP streams", &why))?;
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let endpoint = channel.start_run(&Request::Run(run.clone()))?;
        let streams = match rails.is_empty() {
            true => self.connector.connect(&endpoint, run.streams()),
            false => self.connector.connect_rails(&endpoint, &rails),
        };
        let streams = streams.map_err(|why| refused(&format!("connect streams to {}", self.name), &why));
        let ran = streams.and_then(|streams| {
            self.drive_run(&FreeMemory::new(root, limit_bytes), io, &run, streams, &mut channel)
        });
        // In every case the peer has to finish this run before the next one.
        let ended = channel.finish_run();
        outcome::combine(io, ran?, channel.slices(), ended, began)
    }

    fn drive_run(
        &self,
        free_memory: &FreeMemory,
        io: &IoWorkload,
        run: &RunRequest,
        sockets: Vec<TcpStream>,
        channel: &mut ControlChannel,
    ) -> Result<ClientRun, ProbeError> {
        set_congestion_control(&sockets, run.congestion.as_deref())
            .map_err(|why| refused("congestion control", &why))?;
        let mut sockets = sockets.into_iter();
        let groups = io.groups.iter().map(|group| streams::PlacedGroup {
            cpus: group.cpus.clone(),
            memory: group.memory,
            receives: group.direction == Direction::Read,
            sockets: sockets.by_ref().take(group.streams as usize).collect(),
        });
        let groups = groups.collect();
        let plan = SlicePlan { slice: Duration::from_nanos(run.slice_ns), slices: run.slices };
        let messages = MessageLayout { bytes: io.block_bytes, per_buffer: io.depth };
        let drive_run = |set: &StreamSet| {
            channel.expect_prepared()?;
            channel.send(&Request::Go)?;
            let mut slices = Vec::new();
            let each = |slice| {
                slices.push(slice);
                Ok(())
            };
            let mut run_end = slices::measure(set, plan, each, |set| watch(set, channel, io.max_bytes));
            // The peer's slices may end a little later.
            let sends = io.groups.iter().any(|group| group.direction == Direction::Write);
            let patience = Instant::now() + plan.slice + ANSWER_LIMIT;
            while sends && run_end.early.is_none() && channel.slices().len() < plan.slices as usize {
                run_end.early = watch(set, channel, io.max_bytes);
                if Instant::now() > patience {
                    run_end.early =
                        Some(EarlyEnd::Failed("the peer did not report received bytes".to_owned()));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            channel.stop();
            Ok((run_end, slices, set.start_skew_ns()))
        };
        let ((run_end, slices, start_skew_ns), residency) =
            streams::run(free_memory, messages, groups, drive_run)?;
        Ok(ClientRun { run_end, slices, residency, start_skew_ns })
    }

    /// Exchanges messages with the peer. `limit_bytes` are the bytes that the control group still
    /// allows.
    ///
    /// # Errors
    /// As [`Probe::run`](numaio_machine::probe::Probe::run).
    pub(crate) fn ping(
        &self,
        root: &Root,
        limit_bytes: Option<u64>,
        ping: &PingWorkload,
    ) -> Result<PingOutcome, ProbeError> {
        let began = Instant::now();
        let what = || format!("ping-pong with {}", self.name);
        check_window(ping.milliseconds, ping.slices)?;
        let parts: Vec<u64> = ping.parts.iter().map(|part| part.bytes).collect();
        let request = PingRequest { parts, placement: ping.peer_placement.clone() };
        request.check_limits().map_err(|why| refused(&what(), &why))?;
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let endpoint = channel.start_run(&Request::Ping(request))?;
        let ran = self.drive_ping(&FreeMemory::new(root, limit_bytes), ping, &endpoint, &mut channel);
        // In every case the peer has to finish before the next run.
        let ended = channel.finish_run();
        let mut outcome = ran?;
        let theirs = ended.as_ref().and_then(|ended| ended.interrupted.clone());
        outcome.interrupted = outcome.interrupted.map(|why| theirs.unwrap_or(why));
        if let Some(why) = outcome.interrupted.as_ref().filter(|_| outcome.round_trips == 0) {
            return Err(refused(&what(), why));
        }
        outcome.elapsed_ns = nanoseconds(began);
        outcome.peer = ended.map(PeerOutcome::from);
        Ok(outcome)
    }

    fn drive_ping(
        &self,
        free_memory: &FreeMemory,
        ping: &PingWorkload,
        endpoint: &StreamEndpoint,
        channel: &mut ControlChannel,
    ) -> Result<PingOutcome, ProbeError> {
        let rails: Option<Vec<Rail>> = ping.parts.iter().map(|part| part.rail).collect();
        let connected = match rails {
            Some(rails) => self.connector.connect_rails(endpoint, &rails),
            None => self.connector.connect(endpoint, ping.parts.len() as u32),
        };
        let sockets = connected.map_err(|why| refused(&format!("connect to {}", self.name), &why))?;
        channel.expect_prepared()?;
        let parts = ping.parts.iter().map(|part| part.bytes).collect();
        let end = PingEnd { cpus: ping.cpus.clone(), memory: ping.memory, sockets, parts };
        let plan = RoundTripSlices::new(ping.milliseconds, ping.slices);
        let wait = |is_finished: &dyn Fn() -> bool| {
            let mut why = None;
            while !is_finished() && why.is_none() {
                if interrupted() {
                    return Err(ProbeError::Interrupted);
                }
                why = channel.poll_run();
                std::thread::sleep(POLL_INTERVAL);
            }
            channel.stop();
            Ok(why)
        };
        let ran = ping::run(free_memory, &end, |message| message.ping(plan), wait)?;
        let closed = ran.work.as_ref().err().map(|error| format!("{}: {}", self.name, describe_error(error)));
        let mut outcome = PingOutcome::of_slices(&ran.work.unwrap_or_default());
        (outcome.residency, outcome.interrupted) = (ran.residency, ran.conducted.or(closed));
        Ok(outcome)
    }

    /// Starts a tool's server processes on the peer, runs the tool here and stops the processes.
    ///
    /// # Errors
    /// As [`Probe::run`](numaio_machine::probe::Probe::run).
    pub(crate) fn tool(
        &self,
        tool: &ToolWorkload,
        peer: &ToolPeer,
        run: impl FnOnce(&ToolWorkload) -> Result<ToolOutcome, ProbeError>,
    ) -> Result<ToolOutcome, ProbeError> {
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = ToolRequest {
            program: tool.program.clone(),
            args: peer.args.clone(),
            processes: u32::try_from(tool.processes.len()).unwrap_or(u32::MAX),
            placement: peer.peer_placement.clone(),
            time_limit_ms: tool.time_limit_ms.saturating_add(ANSWER_LIMIT.as_millis() as u32),
        };
        channel.send(&Request::Tool(wanted))?;
        let ports = match channel.receive_answer()? {
            Answer::Listening { ports } if ports.len() == tool.processes.len() => ports,
            Answer::Refused { reason: why } => {
                return Err(refused(&format!("{} on {}", tool.program, self.name), &why))
            }
            _ => return Err(channel.unexpected_answer()),
        };
        let mut here = tool.clone();
        for (process, port) in here.processes.iter_mut().zip(ports) {
            process.args.iter_mut().for_each(|arg| *arg = arg.replace(PORT, &port.to_string()));
        }
        let ran = run(&here);
        channel.send(&Request::Stop)?;
        let there = match channel.receive_answer()? {
            Answer::ToolsEnded { outputs } => outputs,
            _ => return Err(channel.unexpected_answer()),
        };
        Ok(ToolOutcome { peer_processes: there, ..ran? })
    }
}

/// Returns the common path of all devices, and the rail of each stream; no rails for the path of
/// the session.
fn one_session<'a>(io: &IoWorkload, paths: &[&'a TcpPath]) -> Result<(&'a TcpPath, Vec<Rail>), ProbeError> {
    let Some(first) = paths.first() else { return Err(refused("TCP streams", "they have no path")) };
    let is_alike = |path: &&TcpPath| TcpPath { rail: first.rail, ..(*path).clone() } == **first;
    if !paths.iter().all(is_alike) {
        return Err(refused("TCP streams", "the paths of the devices differ in more than their rails"));
    }
    if paths.iter().all(|path| path.rail.is_none()) {
        return Ok((first, Vec::new()));
    }
    let rails = io
        .groups
        .iter()
        .flat_map(|group| std::iter::repeat_n(paths[group.device].rail, group.streams as usize));
    let rails: Option<Vec<Rail>> = rails.collect();
    let rails = rails.ok_or_else(|| refused("TCP streams", "a device has no rail"))?;
    Ok((first, rails))
}

/// Receives the first line of a server.
fn check_version(name: &str, connection: &LineConnection, limit: Duration) -> Result<(), PeerError> {
    let peer = name.to_owned();
    match connection.receive(limit) {
        Ok(Some(Hello { numaio_net: PROTOCOL })) => Ok(()),
        Ok(Some(Hello { numaio_net: theirs })) => Err(PeerError::OtherVersion { peer, theirs }),
        Ok(None) => Err(PeerError::Silent { peer, seconds: limit.as_secs() }),
        Err(ConnectionError(why)) => Err(PeerError::NotNumaio { peer, why }),
    }
}

/// Receives an answer of a server that opens a session.
fn receive_opening(name: &str, connection: &LineConnection) -> Result<Answer, PeerError> {
    let peer = name.to_owned();
    match connection.receive(ANSWER_LIMIT) {
        Ok(Some(Answer::Refused { reason: why })) => Err(PeerError::Refused { peer, why }),
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(PeerError::Silent { peer, seconds: ANSWER_LIMIT.as_secs() }),
        Err(ConnectionError(why)) => Err(PeerError::NotNumaio { peer, why }),
    }
}

fn unexpected_opening(name: &str) -> PeerError {
    PeerError::NotNumaio { peer: name.to_owned(), why: "unexpected answer".to_owned() }
}

/// Returns the reason to end a run early.
fn watch(set: &StreamSet, channel: &mut ControlChannel, most_bytes: Option<u64>) -> Option<EarlyEnd> {
    if interrupted() {
        return Some(EarlyEnd::Interrupted);
    }
    if most_bytes.is_some_and(|most| set.moved() >= most) {
        return Some(EarlyEnd::Requested);
    }
    // The peer's message is more specific than a closed stream.
    channel.poll_run().or_else(|| set.first_error()).map(EarlyEnd::Failed)
}

fn refused(what: &str, why: &str) -> ProbeError {
    ProbeError::Refused { call: what.to_owned(), reason: why.to_owned() }
}
