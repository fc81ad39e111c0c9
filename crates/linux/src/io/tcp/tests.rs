//! Both ends in one process, over the loopback; strangers and hostile clients too.

use super::line_connection::LineConnection;
use super::protocol::{line, Answer, Opening, Request, PROTOCOL};
use super::{Peer, PeerError, Server, ServerEvent};
use crate::Kernel;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{IoOutcome, ProbeError, ProbeExt, ToolEnd};
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

/// A server in a thread of its own, ended when dropped.
struct Served {
    address: String,
    token: String,
    stop: Arc<AtomicBool>,
    events: Arc<Mutex<Vec<ServerEvent>>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn start() -> Self {
        let mut server = Server::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let (address, token) = (server.address().expect("an address").to_string(), server.token().to_owned());
        let (stop, events) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (stopping, telling) = (stop.clone(), events.clone());
        let serve = move || {
            let kernel = Kernel::new().expect("a kernel");
            let stop = || stopping.load(Ordering::Relaxed);
            let mut tell = |events| telling.lock().expect("nobody panicked").push(events);
            server.serve_session(&kernel, &stop, &mut tell).expect("threads");
        };
        Self { address, token, stop, events, thread: Some(thread::spawn(serve)) }
    }

    fn connect(&self) -> Peer {
        Peer::connect(&self.address, &self.token).expect("a session")
    }

    /// A connection that may say anything.
    fn raw(&self) -> TcpStream {
        let socket = TcpStream::connect(&self.address).expect("a connection");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        socket
    }

    /// A client that has the token, and from there on may say anything.
    fn hostile(&self) -> LineConnection {
        let connection = LineConnection::new(self.raw(), 1 << 20).expect("a connection");
        let opening = Opening { protocol: PROTOCOL, secret: self.token.clone(), stream: None };
        connection.send(&opening).expect("an opening");
        assert!(matches!(connection.receive(Duration::from_secs(20)), Ok(Some(Answer::Welcome(_)))));
        connection
    }

    /// Waits until the session is over, and gives all that was told.
    fn over(mut self) -> Vec<ServerEvent> {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
        std::mem::take(&mut *self.events.lock().expect("nobody panicked"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Where we may run.
fn place() -> (CpuSet, NodeId) {
    let topology = numaio_machine::see::see(&Kernel::new().expect("a kernel"));
    let node = topology.memory_nodes().first().expect("a node with memory");
    let cpus = topology.nodes.iter().map(|node| topology.usable_cpus(node.id));
    (cpus.fold(CpuSet::new(), |all, cpus| all.union(&cpus)), node)
}

fn workload(peer: &str, groups: &[(u32, Direction)]) -> IoWorkload {
    let (cpus, memory) = place();
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

fn joined(served: &Served) -> Kernel {
    let kernel = Kernel::new().expect("a kernel");
    kernel.add_peer(served.connect());
    kernel
}

fn moved(outcome: &IoOutcome, group: usize) -> u64 {
    outcome.groups[group].samples.iter().map(|sample| sample.bytes).sum()
}

#[test]
fn bytes_go_both_ways_and_are_counted_where_they_arrive() {
    let served = Served::start();
    let kernel = joined(&served);
    for groups in [
        &[(1, Direction::Write)][..],
        &[(2, Direction::Read)],
        &[(1, Direction::Write), (2, Direction::Read)],
    ] {
        let outcome = kernel.io(&workload(&served.address, groups)).expect("an outcome");
        assert_eq!(outcome.groups.len(), groups.len());
        for (index, group) in outcome.groups.iter().enumerate() {
            assert_eq!(group.samples.len(), 5, "{groups:?}");
            assert!(moved(&outcome, index) > 0, "{groups:?}: {outcome:?}");
            assert!(group.samples.iter().all(|sample| sample.ns >= 20_000_000), "{group:?}");
            assert_eq!(group.residency.pages_misplaced, 0);
        }
        let there = outcome.there.expect("the peer's part");
        assert!((there.cpus, there.memory) == place() && there.residency.pages_misplaced == 0);
        assert!(outcome.cpu_ns > 0 && there.cpu_ns > 0);
        assert_eq!((outcome.cut, outcome.notes), (None, Vec::new()));
    }
    drop(kernel);
    assert_eq!(served.over().last(), Some(&ServerEvent::SessionEnded { why: None }));
}

#[test]
fn small_messages_are_counted_in_bytes_and_requests() {
    let served = Served::start();
    let kernel = joined(&served);
    let small =
        IoWorkload { block_bytes: 1000, depth: 3, ..workload(&served.address, &[(1, Direction::Write)]) };
    let outcome = kernel.io(&small).expect("an outcome");
    assert!(outcome.groups[0].requests > 0);
    assert_eq!(outcome.groups[0].requests, moved(&outcome, 0) / 1000);
}

#[test]
fn the_peer_places_its_streams_where_it_is_told_and_refuses_what_it_has_not() {
    let served = Served::start();
    let kernel = joined(&served);
    let there = |cpus, node| IoWorkload {
        through: IoPath::Tcp(TcpPath { peer: served.address.clone(), there: Some((cpus, node)) }),
        ..workload("", &[(1, Direction::Write)])
    };
    let (cpus, node) = place();
    let one = CpuSet::one(cpus.iter().next_back().expect("a CPU"));
    let outcome = kernel.io(&there(one.clone(), node)).expect("an outcome").there.expect("the peer's part");
    assert_eq!((outcome.cpus, outcome.memory), (one.clone(), node));
    for absent in [there(one, NodeId(60_000)), there(CpuSet::one(numaio_machine::ids::CpuId(60_000)), node)] {
        let error = kernel.io(&absent).expect_err("there is no such place");
        assert!(error.to_string().contains(&served.address), "{error}");
    }
    // After a refusal the session goes on.
    let (cpus, node) = place();
    kernel.io(&there(cpus, node)).expect("an outcome");
}

#[test]
fn a_limit_of_bytes_ends_a_run_and_is_said() {
    let served = Served::start();
    let kernel = joined(&served);
    for direction in [Direction::Write, Direction::Read] {
        let mut long = workload(&served.address, &[(1, direction)]);
        long.sampling = Sampling::Window { milliseconds: 60_000, slices: 5 };
        // More than sockets hold: less may be sent before a byte of it is received.
        long.most_bytes = Some(64 << 20);
        let began = Instant::now();
        let outcome = kernel.io(&long).expect("an outcome");
        assert!(began.elapsed() < Duration::from_secs(60));
        assert_eq!(outcome.notes, ["ended at the limit of 64 MiB"]);
        assert!(moved(&outcome, 0) > 0 && outcome.cut.is_none(), "{outcome:?}");
    }
}

#[test]
fn what_cannot_be_is_refused_and_the_session_goes_on() {
    let served = Served::start();
    let kernel = joined(&served);
    let good = workload(&served.address, &[(1, Direction::Write)]);
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
    let nobody = kernel.io(&workload("192.0.2.1:1", &[(1, Direction::Write)])).expect_err("nobody");
    assert_eq!(nobody.to_string(), "streams to 192.0.2.1:1: there is no session with a numaio there");
}

#[test]
fn strangers_are_told_why_and_the_one_with_the_token_comes_in() {
    let served = Served::start();
    let said = |bytes: &[u8]| {
        let mut socket = served.raw();
        socket.write_all(bytes).expect("written");
        let mut answer = String::new();
        drop(socket.read_to_string(&mut answer));
        answer
    };
    let opening =
        |protocol, secret: &str, stream| line(&Opening { protocol, secret: secret.to_owned(), stream });
    let why = "not the one that this server printed";
    assert!(said(&opening(PROTOCOL, "0123", None)).contains(why));
    assert!(said(&opening(PROTOCOL, "", None)).contains(why));
    assert!(said(&opening(99, &served.token, None)).contains("version 99"));
    assert!(said(&opening(PROTOCOL, &served.token, Some(0))).contains("no such stream"));
    assert!(said(b"GET / HTTP/1.1\r\n\r\n").contains("not said here"));
    assert!(said(b"\xff\xfe\n").contains("no text"));
    // Closed with bytes unread, which may take the answer with it.
    said(&[b'x'; 100_000]);
    let silent = served.raw();
    let peer = served.connect();
    drop(silent);
    let second = Peer::connect(&served.address, &served.token).expect_err("one session at a time");
    assert!(second.to_string().contains("good for one session"), "{second}");
    drop(peer);
    let events = served.over();
    assert!(
        events.iter().filter(|events| matches!(events, ServerEvent::Rejected { .. })).count() >= 6,
        "{events:?}"
    );
}

#[test]
fn a_peer_that_is_not_there_or_no_numaio_is_named() {
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it").to_string();
    assert!(
        matches!(Peer::connect(&port, "x"), Err(PeerError::Unreachable { .. })),
        "nobody listens any more"
    );
    assert!(matches!(Peer::connect("no such host", "x"), Err(PeerError::Unreachable { .. })));
    let answers: [&[u8]; 4] = [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"{}\n", &[b'x'; 100]];
    for answer in answers {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let stranger = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a client");
            socket.write_all(answer).expect("written");
        });
        let error = Peer::connect(&address, "x").expect_err("no numaio");
        assert!(matches!(error, PeerError::NotNumaio { .. }), "{error}");
        stranger.join().expect("no panic");
    }
}

/// Whatever a client says that has the token, the server ends its session or refuses, and does not panic or wait.
#[test]
fn a_hostile_client_ends_its_own_session_alone() {
    let garbage = |served: &Served| drop(served.hostile().send(&"garbage"));
    let flood = |served: &Served| {
        let connection = served.hostile();
        while connection.send(&Request::Go).is_ok() && connection.send(&"flood").is_ok() {}
    };
    let long = |served: &Served| drop(served.hostile().send(&"x".repeat(10 << 20)));
    let run = super::protocol::RunRequest {
        groups: vec![super::protocol::RunGroup { streams: 2, direction: Direction::Write }],
        block_bytes: 4096,
        depth: 1,
        slice_ns: 1_000_000,
        slices: 2,
        placement: None,
    };
    let ready = |served: &Served| {
        let connection = served.hostile();
        connection.send(&Request::Run(run.clone())).expect("said");
        match connection.receive(Duration::from_secs(20)) {
            Ok(Some(Answer::Ready { key })) => (connection, key),
            other => panic!("{other:?}"),
        }
    };
    let early = |served: &Served| drop(ready(served));
    let twice = |served: &Served| {
        let (connection, key) = ready(served);
        for _ in 0..2 {
            let opening = Opening { protocol: PROTOCOL, secret: key.clone(), stream: Some(0) };
            served.raw().write_all(&line(&opening)).expect("said");
        }
        assert!(matches!(connection.receive(Duration::from_secs(20)), Ok(Some(Answer::Refused { .. }))));
    };
    let out_of_place = |served: &Served| {
        let (connection, _) = ready(served);
        connection.send(&Request::Run(run.clone())).expect("said");
        assert!(connection.receive::<Answer>(Duration::from_secs(20)).is_err(), "it hangs up");
    };
    type Hostile<'a> = &'a dyn Fn(&Served);
    let hostile: [(&str, Hostile); 6] = [
        ("garbage", &garbage),
        ("flood", &flood),
        ("a line too long", &long),
        ("gone before streams came", &early),
        ("a stream twice", &twice),
        ("a run within a run", &out_of_place),
    ];
    for (what, client) in hostile {
        let served = Served::start();
        client(&served);
        let events = served.over();
        assert!(matches!(events.last(), Some(ServerEvent::SessionEnded { .. })), "{what}: {events:?}");
    }
}

#[test]
fn a_server_that_stops_leaves_what_was_measured() {
    let served = Served::start();
    let kernel = joined(&served);
    let mut long = workload(&served.address, &[(1, Direction::Write)]);
    long.sampling = Sampling::Window { milliseconds: 20_000, slices: 200 };
    let stop = served.stop.clone();
    let stopping = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1500));
        stop.store(true, Ordering::Relaxed);
    });
    let outcome = kernel.io(&long).expect("what was measured until then");
    stopping.join().expect("no panic");
    assert!(
        outcome.cut.as_ref().is_some_and(|cut| cut.contains("the server was stopped")),
        "{:?}",
        outcome.cut
    );
    let samples = outcome.groups[0].samples.len();
    assert!((1..200).contains(&samples), "{samples}");
    let again = kernel.io(&workload(&served.address, &[(1, Direction::Write)]));
    assert!(again.is_err(), "the session is over");
}

#[test]
fn the_other_end_of_a_tool_is_started_and_ended() {
    let served = Served::start();
    let kernel = joined(&served);
    let (cpus, node) = place();
    let tool = |program: &str, args: &[&str]| ToolWorkload {
        program: program.to_owned(),
        processes: vec![ToolProcess {
            args: ["-c", "127.0.0.1", "-p", "{port}", "-t", "1", "-J"].map(str::to_owned).to_vec(),
            cpus: cpus.clone(),
            memory: Some(node),
        }],
        time_limit_ms: 20_000,
        peer: Some(ToolPeer {
            peer: served.address.clone(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            there: Some((cpus.clone(), node)),
        }),
    };
    let error = kernel.tool(&tool("sh", &[])).expect_err("not let through");
    assert!(error.to_string().contains("it is none of iperf3"), "{error}");
    match kernel.tool(&tool("iperf3", &["-s", "-1"])) {
        Err(ProbeError::Refused { why, .. }) if why.contains("has no iperf3") => {
            let _ = writeln!(std::io::stderr(), "skipped: there is no iperf3 here");
        }
        outcome => {
            let outcome = outcome.expect("an outcome");
            assert_eq!(outcome.processes[0].ended, ToolEnd::Status(0), "{outcome:?}");
            assert_eq!(outcome.there[0].ended, ToolEnd::Status(0), "{outcome:?}");
            assert!(outcome.there[0].stdout.contains("Server listening"), "{outcome:?}");
        }
    }
}
