//! Client and server in one process over the loopback, with unauthenticated and hostile clients.

use super::line_connection::LineConnection;
use super::protocol::{line, Answer, Opening, Request, PROTOCOL};
use super::{Peer, PeerError, Server, ServerEvent};
use crate::Kernel;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{IoOutcome, ProbeError, ProbeExt, ToolExit};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{
    Direction, IoPath, IoWorkload, Sampling, StreamGroup, TcpPath, ToolPeer, ToolProcess, ToolWorkload,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A server on its own thread, stopped when dropped.
struct TestServer {
    address: String,
    token: String,
    stop: Arc<AtomicBool>,
    events: Arc<Mutex<Vec<ServerEvent>>>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    fn start() -> Self {
        let mut server = Server::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let (address, token) = (server.address().expect("an address").to_string(), server.token().to_owned());
        let (stop, events) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (stopping, sender) = (stop.clone(), events.clone());
        let serve = move || {
            let kernel = Kernel::new().expect("a kernel");
            let stop = || stopping.load(Ordering::Relaxed);
            let mut report = |event| sender.lock().expect("no panic").push(event);
            server.serve_session(&kernel, &stop, &mut report).expect("threads");
        };
        Self { address, token, stop, events, thread: Some(thread::spawn(serve)) }
    }

    fn connect(&self) -> Peer {
        Peer::connect(&self.address, &self.token).expect("a session")
    }

    /// Opens a connection without an opening line.
    fn raw(&self) -> TcpStream {
        let socket = TcpStream::connect(&self.address).expect("a connection");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        socket
    }

    /// Opens an authenticated session that can send arbitrary messages.
    fn authenticated(&self) -> LineConnection {
        let connection = LineConnection::new(self.raw(), 1 << 20).expect("a connection");
        let opening = Opening { protocol: PROTOCOL, secret: self.token.clone(), stream: None };
        connection.send(&opening).expect("an opening");
        assert!(matches!(connection.receive(Duration::from_secs(20)), Ok(Some(Answer::Welcome(_)))));
        connection
    }

    /// Waits for the end of the session and returns all events.
    fn finish(mut self) -> Vec<ServerEvent> {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
        std::mem::take(&mut *self.events.lock().expect("no panic"))
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Returns CPUs and a memory node that this process may use.
fn placement() -> (CpuSet, NodeId) {
    let topology = numaio_machine::discover::discover(&Kernel::new().expect("a kernel"));
    let node = topology.memory_nodes().first().expect("a node with memory");
    let cpus = topology.nodes.iter().map(|node| topology.usable_cpus(node.id));
    (cpus.fold(CpuSet::new(), |all, cpus| all.union(&cpus)), node)
}

fn workload(peer: &str, groups: &[(u32, Direction)]) -> IoWorkload {
    let (cpus, memory) = placement();
    let group = |(streams, direction): &(u32, Direction)| StreamGroup {
        cpus: cpus.clone(),
        memory,
        streams: *streams,
        direction: *direction,
    };
    IoWorkload {
        through: IoPath::Tcp(TcpPath { peer: peer.to_owned(), there: None }),
        groups: groups.iter().map(group).collect(),
        block_bytes: 64 << 10,
        depth: 1,
        sampling: Sampling::Window { milliseconds: 100, slices: 5 },
        most_bytes: None,
    }
}

fn kernel_with_peer(server: &TestServer) -> Kernel {
    let kernel = Kernel::new().expect("a kernel");
    kernel.add_peer(server.connect());
    kernel
}

fn moved(outcome: &IoOutcome, group: usize) -> u64 {
    outcome.groups[group].samples.iter().map(|sample| sample.bytes).sum()
}

#[test]
fn receiving_end_counts_bytes_in_both_directions() {
    let server = TestServer::start();
    let kernel = kernel_with_peer(&server);
    for groups in [
        &[(1, Direction::Write)][..],
        &[(2, Direction::Read)],
        &[(1, Direction::Write), (2, Direction::Read)],
    ] {
        let outcome = kernel.io(&workload(&server.address, groups)).expect("an outcome");
        assert_eq!(outcome.groups.len(), groups.len());
        for (index, group) in outcome.groups.iter().enumerate() {
            assert_eq!(group.samples.len(), 5, "{groups:?}");
            assert!(moved(&outcome, index) > 0, "{groups:?}: {outcome:?}");
            assert!(group.samples.iter().all(|sample| sample.ns >= 20_000_000), "{group:?}");
            assert_eq!(group.residency.pages_misplaced, 0);
        }
        let there = outcome.there.expect("the peer's part");
        assert!((there.cpus, there.memory) == placement() && there.residency.pages_misplaced == 0);
        assert!(outcome.cpu_ns > 0 && there.cpu_ns > 0);
        assert_eq!((outcome.cut, outcome.notes), (None, Vec::new()));
    }
    drop(kernel);
    assert_eq!(server.finish().last(), Some(&ServerEvent::SessionEnded { why: None }));
}

#[test]
fn small_messages_are_counted_in_bytes_and_requests() {
    let server = TestServer::start();
    let kernel = kernel_with_peer(&server);
    let small =
        IoWorkload { block_bytes: 1000, depth: 3, ..workload(&server.address, &[(1, Direction::Write)]) };
    let outcome = kernel.io(&small).expect("an outcome");
    assert!(outcome.groups[0].requests > 0);
    assert_eq!(outcome.groups[0].requests, moved(&outcome, 0) / 1000);
}

#[test]
fn peer_honors_the_placement_and_rejects_a_missing_one() {
    let server = TestServer::start();
    let kernel = kernel_with_peer(&server);
    let there = |cpus, node| IoWorkload {
        through: IoPath::Tcp(TcpPath { peer: server.address.clone(), there: Some((cpus, node)) }),
        ..workload("", &[(1, Direction::Write)])
    };
    let (cpus, node) = placement();
    let one = CpuSet::one(cpus.iter().next_back().expect("a CPU"));
    let outcome = kernel.io(&there(one.clone(), node)).expect("an outcome").there.expect("the peer's part");
    assert_eq!((outcome.cpus, outcome.memory), (one.clone(), node));
    for absent in [there(one, NodeId(60_000)), there(CpuSet::one(numaio_machine::ids::CpuId(60_000)), node)] {
        let error = kernel.io(&absent).expect_err("missing node or CPU");
        assert!(error.to_string().contains(&server.address), "{error}");
    }
    // The session continues after a rejected run.
    let (cpus, node) = placement();
    kernel.io(&there(cpus, node)).expect("an outcome");
}

#[test]
fn byte_limit_ends_a_run_with_a_note() {
    let server = TestServer::start();
    let kernel = kernel_with_peer(&server);
    for direction in [Direction::Write, Direction::Read] {
        let mut long = workload(&server.address, &[(1, direction)]);
        long.sampling = Sampling::Window { milliseconds: 60_000, slices: 5 };
        // More than socket buffers hold: less could be sent before any of it is received.
        long.most_bytes = Some(64 << 20);
        let began = Instant::now();
        let outcome = kernel.io(&long).expect("an outcome");
        assert!(began.elapsed() < Duration::from_secs(60));
        assert_eq!(outcome.notes, ["ended at the byte limit of 64 MiB"]);
        assert!(moved(&outcome, 0) > 0 && outcome.cut.is_none(), "{outcome:?}");
    }
}

#[test]
fn rejects_invalid_runs_and_continues_the_session() {
    let server = TestServer::start();
    let kernel = kernel_with_peer(&server);
    let good = workload(&server.address, &[(1, Direction::Write)]);
    let bad: [fn(&mut IoWorkload); 5] = [
        |io| io.groups.clear(),
        |io| io.block_bytes = 0,
        |io| io.groups[0].streams = 100_000,
        |io| io.sampling = Sampling::Repetitions { count: 3 },
        |io| io.groups[0].memory = NodeId(1000),
    ];
    for (index, bad) in bad.iter().enumerate() {
        let mut io = good.clone();
        bad(&mut io);
        assert!(matches!(kernel.io(&io), Err(ProbeError::Refused { .. })), "{index}");
        assert!(kernel.io(&good).is_ok(), "{index}");
    }
    let error = kernel.io(&workload("192.0.2.1:1", &[(1, Direction::Write)])).expect_err("no session");
    assert_eq!(error.to_string(), "streams to 192.0.2.1:1: no numaio session with this peer");
}

#[test]
fn rejects_unauthenticated_peers_with_a_reason() {
    let server = TestServer::start();
    let reply_to = |bytes: &[u8]| {
        let mut socket = server.raw();
        socket.write_all(bytes).expect("written");
        let mut answer = String::new();
        drop(socket.read_to_string(&mut answer));
        answer
    };
    let opening =
        |protocol, secret: &str, stream| line(&Opening { protocol, secret: secret.to_owned(), stream });
    let why = "not the one that this server printed";
    assert!(reply_to(&opening(PROTOCOL, "0123", None)).contains(why));
    assert!(reply_to(&opening(PROTOCOL, "", None)).contains(why));
    assert!(reply_to(&opening(99, &server.token, None)).contains("version 99"));
    assert!(reply_to(&opening(PROTOCOL, &server.token, Some(0))).contains("unexpected stream"));
    assert!(reply_to(b"GET / HTTP/1.1\r\n\r\n").contains("invalid message"));
    assert!(reply_to(b"\xff\xfe\n").contains("invalid UTF-8"));
    // The connection is closed with unread bytes, which can discard the answer.
    reply_to(&[b'x'; 100_000]);
    let silent = server.raw();
    let peer = server.connect();
    drop(silent);
    let second = Peer::connect(&server.address, &server.token).expect_err("one session per token");
    assert!(second.to_string().contains("valid for one session"), "{second}");
    drop(peer);
    let events = server.finish();
    assert!(
        events.iter().filter(|events| matches!(events, ServerEvent::Rejected { .. })).count() >= 6,
        "{events:?}"
    );
}

#[test]
fn connect_reports_unreachable_and_foreign_servers() {
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it").to_string();
    assert!(matches!(Peer::connect(&port, "x"), Err(PeerError::Unreachable { .. })), "no listener");
    assert!(matches!(Peer::connect("no such host", "x"), Err(PeerError::Unreachable { .. })));
    let answers: [&[u8]; 4] = [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"{}\n", &[b'x'; 100]];
    for answer in answers {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let foreign = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a client");
            socket.write_all(answer).expect("written");
        });
        let error = Peer::connect(&address, "x").expect_err("not numaio");
        assert!(matches!(error, PeerError::NotNumaio { .. }), "{error}");
        foreign.join().expect("no panic");
    }
}

/// An authenticated client that violates the protocol must not make the server panic or hang.
#[test]
fn hostile_client_only_ends_its_own_session() {
    let garbage = |server: &TestServer| drop(server.authenticated().send(&"garbage"));
    let flood = |server: &TestServer| {
        let connection = server.authenticated();
        while connection.send(&Request::Go).is_ok() && connection.send(&"flood").is_ok() {}
    };
    let long = |server: &TestServer| drop(server.authenticated().send(&"x".repeat(10 << 20)));
    let run = super::protocol::RunRequest {
        groups: vec![super::protocol::RunGroup { streams: 2, direction: Direction::Write }],
        block_bytes: 4096,
        depth: 1,
        slice_ns: 1_000_000,
        slices: 2,
        placement: None,
    };
    let ready = |server: &TestServer| {
        let connection = server.authenticated();
        connection.send(&Request::Run(run.clone())).expect("sent");
        match connection.receive(Duration::from_secs(20)) {
            Ok(Some(Answer::Ready { key })) => (connection, key),
            other => panic!("{other:?}"),
        }
    };
    let early = |server: &TestServer| drop(ready(server));
    let twice = |server: &TestServer| {
        let (connection, key) = ready(server);
        for _ in 0..2 {
            let opening = Opening { protocol: PROTOCOL, secret: key.clone(), stream: Some(0) };
            server.raw().write_all(&line(&opening)).expect("sent");
        }
        assert!(matches!(connection.receive(Duration::from_secs(20)), Ok(Some(Answer::Refused { .. }))));
    };
    let out_of_place = |server: &TestServer| {
        let (connection, _) = ready(server);
        connection.send(&Request::Run(run.clone())).expect("sent");
        assert!(connection.receive::<Answer>(Duration::from_secs(20)).is_err(), "the server disconnects");
    };
    type Hostile<'a> = &'a dyn Fn(&TestServer);
    let hostile: [(&str, Hostile); 6] = [
        ("garbage", &garbage),
        ("flood", &flood),
        ("oversized line", &long),
        ("disconnect before the streams", &early),
        ("duplicate stream", &twice),
        ("run within a run", &out_of_place),
    ];
    for (what, client) in hostile {
        let server = TestServer::start();
        client(&server);
        let events = server.finish();
        assert!(matches!(events.last(), Some(ServerEvent::SessionEnded { .. })), "{what}: {events:?}");
    }
}

#[test]
fn stopped_server_leaves_a_partial_measurement() {
    let server = TestServer::start();
    let kernel = kernel_with_peer(&server);
    let mut long = workload(&server.address, &[(1, Direction::Write)]);
    long.sampling = Sampling::Window { milliseconds: 20_000, slices: 200 };
    let stop = server.stop.clone();
    let stopping = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1500));
        stop.store(true, Ordering::Relaxed);
    });
    let outcome = kernel.io(&long).expect("a partial measurement");
    stopping.join().expect("no panic");
    assert!(
        outcome.cut.as_ref().is_some_and(|cut| cut.contains("the server was stopped")),
        "{:?}",
        outcome.cut
    );
    let samples = outcome.groups[0].samples.len();
    assert!((1..200).contains(&samples), "{samples}");
    let again = kernel.io(&workload(&server.address, &[(1, Direction::Write)]));
    assert!(again.is_err(), "the session has ended");
}

#[test]
fn starts_and_stops_the_server_process_of_a_tool() {
    let server = TestServer::start();
    let kernel = kernel_with_peer(&server);
    let (cpus, node) = placement();
    let tool = |program: &str, args: &[&str]| ToolWorkload {
        program: program.to_owned(),
        processes: vec![ToolProcess {
            args: ["-c", "127.0.0.1", "-p", "{port}", "-t", "1", "-J"].map(str::to_owned).to_vec(),
            cpus: cpus.clone(),
            memory: Some(node),
        }],
        time_limit_ms: 20_000,
        peer: Some(ToolPeer {
            peer: server.address.clone(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            there: Some((cpus.clone(), node)),
        }),
    };
    let error = kernel.tool(&tool("sh", &[])).expect_err("not allowed");
    assert!(error.to_string().contains("expected one of iperf3"), "{error}");
    match kernel.tool(&tool("iperf3", &["-s", "-1"])) {
        Err(ProbeError::Refused { why, .. }) if why.contains("has no iperf3") => {
            let _ = writeln!(std::io::stderr(), "skipped: iperf3 is not installed");
        }
        outcome => {
            let outcome = outcome.expect("an outcome");
            assert_eq!(outcome.processes[0].ended, ToolExit::Status(0), "{outcome:?}");
            assert_eq!(outcome.there[0].ended, ToolExit::Status(0), "{outcome:?}");
            assert!(outcome.there[0].stdout.contains("Server listening"), "{outcome:?}");
        }
    }
}
