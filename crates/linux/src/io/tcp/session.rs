//! One session of a server: runs and tools, one after another, as the client requests.

use super::connections::{set_congestion_control, ControlStreams, StreamListener};
use super::interface;
use super::line_connection::{describe_error, ConnectionError, LineConnection, CLOSED};
use super::outcome;
use super::ping::{self, PingEnd};
use super::protocol::{
    Answer, Hello, HostInfo, HostNode, PingRequest, Request, RunRequest, RunResult, ToolRequest,
    MAX_REQUEST_BYTES, MAX_RUN_MS, PROTOCOL,
};
use super::slices::{self, EarlyEnd, RunEnd, SlicePlan};
use super::streams::{self, MessageLayout, PlacedGroup, StreamSet};
use super::tools::ToolServers;
use crate::clock::cpu_ns;
use crate::locate::LiveLocate;
use crate::memory::FreeMemory;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::near::ResolveContext;
use numaio_machine::network::default_congestion_control;
use numaio_machine::probe::ProbeError;
use numaio_machine::sysfs::Sysfs;
use numaio_machine::topology::memory_left_bytes;
use numaio_machine::workload::Direction;
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

/// Idle time after which a session ends; the client may measure other things between two runs.
const IDLE_LIMIT: Duration = Duration::from_secs(900);
/// Time limit of the client for connecting streams and for sending go or stop.
const STEP_LIMIT: Duration = Duration::from_secs(30);
/// Time by which the reason of a stream failure may arrive after the failure.
const REASON_LIMIT: Duration = Duration::from_millis(500);
/// Interval between checks while waiting for the client.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A session with one client.
struct ServerSession<'a> {
    connection: LineConnection,
    root: &'a (dyn Sysfs + Sync),
    listener: &'a dyn StreamListener,
    stop: &'a (dyn Fn() -> bool + Sync),
    host: HostInfo,
    /// As [`STEP_LIMIT`].
    step_limit: Duration,
}

/// Error of a run.
enum RunError {
    /// The error is reported to the client, and the session continues.
    Refused(String),
    /// The connection to the client failed.
    Disconnected(ConnectionError),
}

impl From<ProbeError> for RunError {
    fn from(error: ProbeError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<ConnectionError> for RunError {
    fn from(error: ConnectionError) -> Self {
        Self::Disconnected(error)
    }
}

/// Serves an authenticated client until it disconnects or `stop` returns true. `root` has the files
/// of this machine.
///
/// # Errors
/// Why the session ended early.
pub fn serve_session(
    control: ControlStreams,
    listener: &dyn StreamListener,
    root: &(dyn Sysfs + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), ConnectionError> {
    serve_within(STEP_LIMIT, control, listener, root, stop)
}

fn serve_within(
    step_limit: Duration,
    control: ControlStreams,
    listener: &dyn StreamListener,
    root: &(dyn Sysfs + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), ConnectionError> {
    let connection = LineConnection::new(control, MAX_REQUEST_BYTES)
        .map_err(|error| ConnectionError(error.to_string()))?;
    let host = HostInfo::default();
    let mut session = ServerSession { connection, root, listener, stop, host, step_limit };
    session.open()?;
    session.serve()
}

impl ServerSession<'_> {
    /// Tests the path to the client, which shows the interface, and describes this host.
    fn open(&mut self) -> Result<(), ConnectionError> {
        self.connection.send(&Hello { numaio_net: PROTOCOL })?;
        let accepted = self.accept_streams(1).and_then(|sockets| {
            let address = sockets.first().map(TcpStream::local_addr);
            address.transpose().map_err(|error| RunError::Refused(error.to_string()))
        });
        let address = match accepted {
            Ok(address) => address,
            Err(RunError::Disconnected(error)) => return Err(error),
            Err(RunError::Refused(why)) => {
                self.connection.send(&Answer::Refused { reason: why.clone() })?;
                return Err(ConnectionError(why));
            }
        };
        self.host = host_info(self.root, address.map(|address| address.ip()));
        self.connection.send(&Answer::Welcome(self.host.clone()))
    }

    /// Serves requests until the client disconnects.
    fn serve(&self) -> Result<(), ConnectionError> {
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

    fn answer(&self, request: Request) -> Result<(), ConnectionError> {
        let failed = match request {
            Request::Run(run) => self.run(&run).map(Answer::Ended),
            Request::Ping(ping) => self.ping(&ping).map(Answer::Ended),
            Request::Tool(tool) => self.tool(&tool),
            // The run has already ended, and its result was sent.
            Request::Go | Request::Stop => return Ok(()),
        };
        match failed {
            Ok(answer) => self.connection.send(&answer),
            Err(RunError::Refused(why)) => self.connection.send(&Answer::Refused { reason: why }),
            Err(RunError::Disconnected(error)) => Err(error),
        }
    }

    fn run(&self, run: &RunRequest) -> Result<RunResult, RunError> {
        run.check_limits().map_err(RunError::Refused)?;
        let sockets = self.accept_streams(run.streams())?;
        set_congestion_control(&sockets, run.congestion.as_deref()).map_err(RunError::Refused)?;
        let mut sockets = sockets.into_iter();
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
        Ok(RunResult {
            cpu_ns: run_end.cpu_ns,
            residency: outcome::merge_residency(&residency),
            placed,
            interrupted: cut,
        })
    }

    /// Opens a port for the streams of a run, waits for them and returns them in order.
    fn accept_streams(&self, count: u32) -> Result<Vec<TcpStream>, RunError> {
        let (endpoint, incoming) = self
            .listener
            .listen(count)
            .map_err(|error| RunError::Refused(format!("cannot listen for streams: {error}")))?;
        self.connection.send(&Answer::Ready(endpoint))?;
        let deadline = Instant::now() + self.step_limit;
        while !incoming.wait(POLL_INTERVAL) {
            self.received(None)?;
            if (self.stop)() {
                return Err(RunError::Refused("the server was stopped".to_owned()));
            }
            if Instant::now() > deadline {
                return Err(RunError::Refused(format!("not all of {count} streams connected in time")));
            }
        }
        incoming.into_sockets().map_err(RunError::Refused)
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
        let deadline = Instant::now() + self.step_limit;
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
        let patience =
            Instant::now() + Duration::from_millis(MAX_RUN_MS.into()).min(plan.slice + self.step_limit);
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

    /// Returns messages until the client sends stop.
    fn ping(&self, request: &PingRequest) -> Result<RunResult, RunError> {
        request.check_limits().map_err(RunError::Refused)?;
        let sockets = self.accept_streams(request.parts.len() as u32)?;
        let placed = request.placement.clone().unwrap_or_else(|| self.host.default_placement());
        let (cpus, memory) = placed.clone();
        let end = PingEnd { cpus, memory, sockets, parts: request.parts.clone() };
        let free_memory = FreeMemory::new(self.root, memory_left_bytes(self.root));
        let cpu_before = cpu_ns();
        let wait = |is_finished: &dyn Fn() -> bool| self.wait_for_stop(is_finished);
        let ran = ping::run(&free_memory, &end, |message| message.echo(), wait)?;
        let closed = ran.work.err().map(|error| describe_error(&error));
        let cpu_ns = cpu_ns().saturating_sub(cpu_before);
        Ok(RunResult {
            cpu_ns,
            residency: ran.residency,
            placed,
            interrupted: ran.conducted.map(|why| closed.unwrap_or(why)),
        })
    }

    /// Waits for the stop request; returns why the ping-pong ended before, if it did.
    fn wait_for_stop(&self, is_finished: &dyn Fn() -> bool) -> Result<Option<String>, RunError> {
        self.connection.send(&Answer::Prepared)?;
        let deadline = Instant::now() + Duration::from_millis(MAX_RUN_MS.into()) + self.step_limit;
        let mut finished_at = None;
        loop {
            match self.connection.receive::<Request>(POLL_INTERVAL)? {
                Some(Request::Stop) => return Ok(None),
                Some(_) => {
                    return Err(RunError::Disconnected(ConnectionError(
                        "unexpected request from the client".to_owned(),
                    )))
                }
                None => {}
            }
            if is_finished() && finished_at.get_or_insert_with(Instant::now).elapsed() > REASON_LIMIT {
                return Ok(Some(CLOSED.to_owned()));
            }
            if (self.stop)() {
                return Ok(Some("the server was stopped".to_owned()));
            }
            if Instant::now() > deadline {
                return Ok(Some("the client did not end the ping-pong".to_owned()));
            }
        }
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

/// Describes this host for a client; `address` is the local address of its streams.
fn host_info(root: &(dyn Sysfs + Sync), address: Option<IpAddr>) -> HostInfo {
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
        interface: address.and_then(interface::by_address).map(|name| interface::describe(ground, name)),
        congestion: default_congestion_control(root),
    }
}

#[cfg(test)]
mod tests {
    use super::super::connections::{IncomingStreams, StreamEndpoint};
    use super::*;
    use std::io::{self, BufRead, BufReader, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    /// A port to which no client connects.
    struct UnusedPort;

    impl StreamListener for UnusedPort {
        fn listen(&self, _: u32) -> io::Result<(StreamEndpoint, Box<dyn IncomingStreams>)> {
            Ok((StreamEndpoint { port: 7, key: [9; 32] }, Box::new(Self)))
        }
    }

    impl IncomingStreams for UnusedPort {
        fn wait(&self, _: Duration) -> bool {
            false
        }

        fn into_sockets(self: Box<Self>) -> Result<Vec<TcpStream>, String> {
            Err("no stream".to_owned())
        }
    }

    /// Serves a client that sends some bytes, and returns the received lines and the error.
    fn serve_client(step_limit: Duration, sent: &[u8]) -> (Vec<String>, ConnectionError) {
        let (mut client, server) = UnixStream::pair().expect("a pair");
        client.write_all(sent).expect("sent");
        let from = Box::new(server.try_clone().expect("a socket"));
        let control = ControlStreams { from, to: Box::new(server), socket: None };
        let root = crate::Root::live().expect("a root");
        let ended = serve_within(step_limit, control, &UnusedPort, &root, &|| false);
        // The reader of the server ends with the client.
        client.shutdown(Shutdown::Write).expect("closed");
        let lines = BufReader::new(client).lines().map_while(Result::ok).collect();
        (lines, ended.expect_err("no session"))
    }

    #[test]
    fn silent_client_is_rejected_after_the_limit() {
        let (lines, error) = serve_client(Duration::from_millis(50), b"");
        let why = "not all of 1 streams connected in time";
        assert_eq!(error.to_string(), why);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[0], r#"{"numaio_net":1}"#);
        assert!(lines[1].starts_with(r#"{"kind":"ready","port":7,"key":[9,9,"#), "{}", lines[1]);
        assert_eq!(lines[2], format!(r#"{{"kind":"refused","reason":"{why}"}}"#));
    }

    #[test]
    fn garbage_on_the_control_channel_ends_the_session() {
        let long = vec![b'x'; MAX_REQUEST_BYTES + 1];
        let garbage: [(&[u8], &str); 4] = [
            (b"GET / HTTP/1.1\r\n", "invalid message"),
            (b"\xff\n", "invalid UTF-8"),
            (&long, "line longer than 65536 bytes"),
            (b"{\"kind\":\"go\"}\n", "unexpected request"),
        ];
        for (sent, why) in garbage {
            let (lines, error) = serve_client(STEP_LIMIT, sent);
            assert!(error.to_string().contains(why), "{error}");
            assert!(lines.len() <= 2, "{lines:?}");
        }
    }
}
