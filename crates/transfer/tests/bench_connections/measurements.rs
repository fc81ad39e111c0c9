//! Measurements between a client and a server.

use crate::support::{kernel_with_peer, moved, placement, workload, TestServer};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, ProbeExt, ToolExit};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{
    Direction, IoPath, IoWorkload, Sampling, TcpPath, ToolPeer, ToolProcess, ToolWorkload,
};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

#[test]
fn receiving_end_counts_bytes_in_both_directions() {
    let server = TestServer::start();
    let kernel = kernel_with_peer(&server);
    for groups in [
        &[(1, Direction::Write)][..],
        &[(2, Direction::Read)],
        &[(1, Direction::Write), (2, Direction::Read)],
    ] {
        let outcome = kernel.io(&workload(&server.name(), groups)).expect("an outcome");
        assert_eq!(outcome.groups.len(), groups.len());
        for (index, group) in outcome.groups.iter().enumerate() {
            assert_eq!(group.samples.len(), 5, "{groups:?}");
            assert!(moved(&outcome, index) > 0, "{groups:?}: {outcome:?}");
            assert!(group.samples.iter().all(|sample| sample.ns >= 20_000_000), "{group:?}");
            assert_eq!(group.residency.pages_misplaced, 0);
        }
        let there = outcome.peer.expect("the peer's part");
        assert!((there.cpus, there.memory) == placement() && there.residency.pages_misplaced == 0);
        assert!(outcome.cpu_ns > 0 && there.cpu_ns > 0);
        assert_eq!((outcome.interrupted, outcome.notes), (None, Vec::new()));
    }
    drop(kernel);
    assert_eq!(server.finish(), Ok(()));
}

#[test]
fn small_messages_are_counted_in_bytes_and_requests() {
    let server = TestServer::start();
    let kernel = kernel_with_peer(&server);
    let small =
        IoWorkload { block_bytes: 1000, depth: 3, ..workload(&server.name(), &[(1, Direction::Write)]) };
    let outcome = kernel.io(&small).expect("an outcome");
    assert!(outcome.groups[0].requests > 0);
    assert_eq!(outcome.groups[0].requests, moved(&outcome, 0) / 1000);
}

#[test]
fn peer_honors_the_placement_and_rejects_a_missing_one() {
    let server = TestServer::start();
    let kernel = kernel_with_peer(&server);
    let there = |cpus, node| IoWorkload {
        path: IoPath::Tcp(TcpPath {
            peer: server.name(),
            peer_placement: Some((cpus, node)),
            congestion: None,
            rail: None,
        }),
        ..workload("", &[(1, Direction::Write)])
    };
    let (cpus, node) = placement();
    let one = CpuSet::one(cpus.iter().next_back().expect("a CPU"));
    let outcome = kernel.io(&there(one.clone(), node)).expect("an outcome").peer.expect("the peer's part");
    assert_eq!((outcome.cpus, outcome.memory), (one.clone(), node));
    for absent in [there(one, NodeId(60_000)), there(CpuSet::one(numaio_machine::ids::CpuId(60_000)), node)] {
        let error = kernel.io(&absent).expect_err("missing node or CPU");
        assert!(error.to_string().contains(&server.name()), "{error}");
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
        let mut long = workload(&server.name(), &[(1, direction)]);
        long.sampling = Sampling::Window { milliseconds: 60_000, slices: 5 };
        // More than socket buffers hold: less could be sent before any of it is received.
        long.max_bytes = Some(64 << 20);
        let outcome = kernel.io(&long).expect("an outcome");
        assert_eq!(outcome.notes, ["ended at the byte limit of 64 MiB"]);
        assert!(moved(&outcome, 0) > 0 && outcome.interrupted.is_none(), "{outcome:?}");
    }
}

#[test]
fn rejects_invalid_runs_and_continues_the_session() {
    let server = TestServer::start();
    let kernel = kernel_with_peer(&server);
    let good = workload(&server.name(), &[(1, Direction::Write)]);
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
fn stopped_server_leaves_a_partial_measurement() {
    let server = TestServer::start();
    let kernel = kernel_with_peer(&server);
    let mut long = workload(&server.name(), &[(1, Direction::Write)]);
    long.sampling = Sampling::Window { milliseconds: 20_000, slices: 200 };
    let stop = server.stop.clone();
    let stopping = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1500));
        stop.store(true, Ordering::Relaxed);
    });
    let outcome = kernel.io(&long).expect("a partial measurement");
    stopping.join().expect("no panic");
    assert!(
        outcome.interrupted.as_ref().is_some_and(|cut| cut.contains("the server was stopped")),
        "{:?}",
        outcome.interrupted
    );
    let samples = outcome.groups[0].samples.len();
    assert!((1..200).contains(&samples), "{samples}");
    let again = kernel.io(&workload(&server.name(), &[(1, Direction::Write)]));
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
            peer: server.name(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            peer_placement: Some((cpus.clone(), node)),
        }),
    };
    let error = kernel.tool(&tool("sh", &[])).expect_err("not allowed");
    assert!(error.to_string().contains("expected one of iperf3"), "{error}");
    match kernel.tool(&tool("iperf3", &["-s", "-1"])) {
        Err(ProbeError::Refused { reason: why, .. }) if why.contains("has no iperf3") => {
            let _ = writeln!(std::io::stderr(), "skipped: iperf3 is not installed");
        }
        outcome => {
            let outcome = outcome.expect("an outcome");
            assert_eq!(outcome.processes[0].exit, ToolExit::Status(0), "{outcome:?}");
            assert_eq!(outcome.peer_processes[0].exit, ToolExit::Status(0), "{outcome:?}");
            assert!(outcome.peer_processes[0].stdout.contains("Server listening"), "{outcome:?}");
        }
    }
}
