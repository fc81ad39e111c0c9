//! One session of a server: runs and tools, one after another, as the client requests.

use super::admission::Admission;
use super::interface;
use super::line_connection::{ConnectionError, LineConnection};
use super::outcome;
use super::protocol::{Answer, HostInfo, HostNode, Request, RunRequest, RunResult, ToolRequest, MAX_RUN_MS};
use super::slices::{self, EarlyEnd, RunEnd, SlicePlan};
use super::streams::{self, MessageLayout, PlacedGroup, StreamSet};
use super::tools::ToolServers;
use crate::locate::LiveLocate;
use crate::memory::FreeMemory;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::near::ResolveContext;
use numaio_machine::probe::ProbeError;
use numaio_machine::sysfs::Sysfs;
use numaio_machine::topology::memory_left_bytes;
use numaio_machine::workload::Direction;
use std::net::{IpAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Maximum length of a client's line.
const MAX_REQUEST: usize = 64 << 10;
/// Idle time after which a session ends; the client may measure other things between two runs.
const IDLE_LIMIT: Duration = Duration::from_secs(900);
/// Time limit of the client for connecting streams and for sending go or stop.
const STEP_LIMIT: Duration = Duration::from_secs(30);
/// Time by which the reason of a stream failure may arrive after the failure.
const REASON_LIMIT: Duration = Duration::from_millis(500);
/// Interval between checks while waiting for the client.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A session with one client.
pub struct ServerSession<'a> {
    connection: LineConnection,
    root: &'a (dyn Sysfs + Sync),
    admission: &'a Admission,
    stop: &'a (dyn Fn() -> bool + Sync),
    host: HostInfo,
}

/// Error of a run.
enum RunError {
    /// The error is reported to the client, and the session continues.
    Refused(String),
    /// The connection to the client failed.
    Disconnected(ConnectionError),
}

impl From<ConnectionError> for RunError {
    fn from(error: ConnectionError) -> Self {
        Self::Disconnected(error)
    }
}

impl<'a> ServerSession<'a> {
    /// Creates the session of an authenticated client.
    pub fn new(
        socket: TcpStream,
        root: &'a (dyn Sysfs + Sync),
        admission: &'a Admission,
        stop: &'a (dyn Fn() -> bool + Sync),
    ) -> Result<Self, ConnectionError> {
        let failed = |error: std::io::Error| ConnectionError(error.to_string());
        let address = socket.local_addr().map_err(failed)?.ip();
        let host = host_info(root, address);
        Ok(Self {
            connection: LineConnection::new(socket, MAX_REQUEST).map_err(failed)?,
            root,
            admission,
            stop,
            host,
        })
    }

    /// Serves requests until the client disconnects.
    pub fn serve(&mut self) -> Result<(), ConnectionError> {
        self.connection.send(&Answer::Welcome(self.host.clone()))?;
        let mut last_request = Instant::now();
        while !(self.stop)() {
            match self.connection.receive(POLL_INTERVAL) {
                // A client that is done closes the connection.
                Err(error) if error.is_closed() => return Ok(()),
                Err(error) => return Err(error),
                Ok(Some(request)) => {
                    self.answer(request)?;
                    last_request = Instant::now();
                }
                Ok(None) if last_request.elapsed() > IDLE_LIMIT => {
                    return Err(ConnectionError(format!(
                        "no request from the client within {} s",
                        IDLE_LIMIT.as_secs()
                    )));
                }
                Ok(None) => {}
            }
        }
        Err(ConnectionError("the server was stopped".to_owned()))
    }

    fn answer(&mut self, request: Request) -> Result<(), ConnectionError> {
        let failed = match request {
            Request::Run(run) => {
                let ended = self.run(&run);
                self.admission.reject_streams();
                ended.map(Answer::Ended)
            }
            Request::Tool(tool) => self.tool(&tool),
            // The run has already ended, and its result was sent.
            Request::Go | Request::Stop => return Ok(()),
        };
        match failed {
            Ok(answer) => self.connection.send(&answer),
            Err(RunError::Refused(why)) => self.connection.send(&Answer::Refused { why }),
            Err(RunError::Disconnected(error)) => Err(error),
        }
    }

    fn run(&self, run: &RunRequest) -> Result<RunResult, RunError> {
        run.check_limits().map_err(RunError::Refused)?;
        let (key, incoming) =
            self.admission.expect_streams().map_err(|error| RunError::Refused(error.to_string()))?;
        self.connection.send(&Answer::Ready { key })?;
        let mut sockets = self.collect_streams(&incoming, run.streams())?.into_iter();
        let placed = run.placement.clone().unwrap_or_else(|| self.host.default_placement());
        let groups = run.groups.iter().map(|group| PlacedGroup {
            cpus: placed.0.clone(),
            memory: placed.1,
            receives: group.direction == Direction::Write,
            sockets: sockets.by_ref().take(group.streams as usize).collect(),
        });
        let groups = groups.collect();
        let free_memory = FreeMemory::new(self.root, memory_left_bytes(self.root));
        let messages = MessageLayout { bytes: run.block_bytes, per_buffer: run.depth };
        let conducted = streams::run(&free_memory, messages, groups, |set| Ok(self.drive_run(set, run)));
        let (conducted, residency) = conducted.map_err(|error| RunError::Refused(error.to_string()))?;
        let run_end = conducted?;
        let cut = match run_end.early {
            Some(EarlyEnd::Failed(why)) => Some(why),
            Some(EarlyEnd::Interrupted) => Some("the server was stopped".to_owned()),
            Some(EarlyEnd::Requested) | None => None,
        };
        Ok(RunResult { cpu_ns: run_end.cpu_ns, residency: outcome::merge_residency(&residency), placed, cut })
    }

    /// Waits for the streams of a run and returns them in order.
    fn collect_streams(
        &self,
        incoming: &Receiver<(u32, TcpStream)>,
        count: u32,
    ) -> Result<Vec<TcpStream>, RunError> {
        let mut sockets: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
        let deadline = Instant::now() + STEP_LIMIT;
        while sockets.iter().any(Option::is_none) {
            match incoming.recv_timeout(POLL_INTERVAL) {
                Ok((index, socket)) => match sockets.get_mut(index as usize) {
                    Some(place @ None) => *place = Some(socket),
                    _ => return Err(RunError::Refused(format!("duplicate or unknown stream {index}"))),
                },
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RunError::Refused("unexpected stream".to_owned()))
                }
            }
            self.received(None)?;
            if Instant::now() > deadline {
                return Err(RunError::Refused(format!("not all of {count} streams connected in time")));
            }
        }
        Ok(sockets.into_iter().flatten().collect())
    }

    /// Checks for a message of the client; returns true if it is `wanted`, an error for any other.
    fn received(&self, wanted: Option<&Request>) -> Result<bool, RunError> {
        match self.connection.receive::<Request>(Duration::ZERO)? {
            None => Ok(false),
            request if request.as_ref() == wanted => Ok(true),
            Some(Request::Stop) => Err(RunError::Refused("stopped before the start".to_owned())),
            Some(_) => {
                Err(RunError::Disconnected(ConnectionError("unexpected request from the client".to_owned())))
            }
        }
    }

    /// Waits for the go request and moves bytes until the run ends.
    fn drive_run(&self, set: &StreamSet, run: &RunRequest) -> Result<RunEnd, RunError> {
        self.connection.send(&Answer::Prepared)?;
        let deadline = Instant::now() + STEP_LIMIT;
        while !self.received(Some(&Request::Go))? {
            if Instant::now() > deadline {
                return Err(RunError::Refused("the client did not start the run".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let plan = SlicePlan { slice: Duration::from_nanos(run.slice_ns), slices: run.slices };
        let mut disconnected = None;
        let mut watch = |set: &StreamSet| {
            self.watch(set).unwrap_or_else(|error| {
                let why = error.0.clone();
                disconnected = Some(error);
                Some(EarlyEnd::Failed(why))
            })
        };
        let each =
            |slice| self.connection.send(&Answer::Slice(slice)).map_err(|error| EarlyEnd::Failed(error.0));
        let mut run_end = slices::measure(set, plan, each, &mut watch);
        // The client's slices may end a little later: until then the streams continue.
        let patience = Instant::now() + Duration::from_millis(MAX_RUN_MS.into()).min(plan.slice + STEP_LIMIT);
        while run_end.early.is_none() {
            run_end.early = watch(set);
            if Instant::now() > patience {
                run_end.early = Some(EarlyEnd::Failed("the client did not end the run".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        disconnected.map_or(Ok(run_end), |error| Err(RunError::Disconnected(error)))
    }

    /// Returns the reason to end a run early.
    fn watch(&self, set: &StreamSet) -> Result<Option<EarlyEnd>, ConnectionError> {
        let first_error = set.first_error().map(EarlyEnd::Failed);
        // The reason of a stream failure arrives on the other connection, possibly a little later.
        let patience = if first_error.is_some() { REASON_LIMIT } else { Duration::ZERO };
        match self.connection.receive::<Request>(patience)? {
            Some(Request::Stop) => return Ok(Some(EarlyEnd::Requested)),
            Some(_) => return Err(ConnectionError("unexpected request from the client".to_owned())),
            None => {}
        }
        Ok(first_error.or_else(|| (self.stop)().then_some(EarlyEnd::Interrupted)))
    }

    /// Runs the server processes of a tool until the client sends stop.
    fn tool(&self, tool: &ToolRequest) -> Result<Answer, RunError> {
        let known = |node: NodeId| self.host.nodes.iter().any(|host| host.node == node);
        if tool.placement.as_ref().is_some_and(|(_, node)| !known(*node)) {
            return Err(RunError::Refused("unknown or unusable memory node".to_owned()));
        }
        let refused = |error: ProbeError| RunError::Refused(error.to_string());
        let mut servers = ToolServers::start(self.root, tool).map_err(refused)?;
        self.connection.send(&Answer::Listening { ports: servers.ports() })?;
        let deadline = Instant::now() + Duration::from_millis(tool.time_limit_ms.into());
        while Instant::now() < deadline && !(self.stop)() {
            match self.connection.receive(POLL_INTERVAL)? {
                None => {}
                Some(Request::Stop) => break,
                Some(_) => {
                    return Err(RunError::Disconnected(ConnectionError(
                        "unexpected request from the client".to_owned(),
                    )))
                }
            }
        }
        Ok(Answer::ToolsEnded { outputs: servers.end() })
    }
}

/// Describes this host for a client; `address` is the local address of the session.
fn host_info(root: &(dyn Sysfs + Sync), address: IpAddr) -> HostInfo {
    let topology = &discover(root);
    let ground = ResolveContext { root, locate: &LiveLocate, topology };
    let memory = topology.memory_nodes();
    let nodes = topology.nodes.iter().map(|node| HostNode {
        node: node.id,
        cpus: topology.usable_cpus(node.id),
        memory: memory.contains(node.id) && node.memory_allowed,
    });
    HostInfo {
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        nodes: nodes.filter(|node| node.memory || !node.cpus.is_empty()).collect(),
        interface: interface::by_address(address).map(|name| interface::describe(ground, name)),
    }
}
