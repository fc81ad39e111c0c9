//! `numaio bench rdma` and `bench net` between two emulated hosts with soft-RoCE (`lab/rdma`).
//!
//! The test checks function, not speed. It needs QEMU, perftest and the static binary, whose path
//! `tools/test` sets in `NUMAIO_STATIC`.

use numaio_lab::{output_of, repeatable, root, skip};
use numaio_machine::workload::Direction;
use numaio_schema::{IoEngine, IoRecord, PingRecord};
use std::process::Command;

const TEST: &str = "bench_measures_every_operation_between_two_hosts_with_soft_roce";
/// The first visit of one size is always made; a visit takes longer than the limit on a busy host.
const PING: &str = "--precision 90 --seconds 5 --no-save --quiet --json";
const COMMON: &str = "--streams 1 --precision 90 --seconds 5 --no-save --quiet --json";

#[test]
#[ignore = "make test-all: soft-RoCE"]
fn bench_measures_every_operation_between_two_hosts_with_soft_roce() {
    repeatable(TEST, check_hosts);
}

fn check_hosts() {
    let lab = root().join("lab/rdma");
    let Ok(binary) = std::env::var("NUMAIO_STATIC") else {
        return skip(TEST, "NUMAIO_STATIC names no static binary; make test sets it");
    };
    let check = Command::new(&lab).arg("--check").output().expect("lab/rdma");
    if !check.status.success() {
        return skip(TEST, String::from_utf8_lossy(&check.stderr).trim());
    }
    let rdma_of = |op: &str| format!("bench rdma PEER --device rxe0 --gid 1 --op {op}");
    let rdma = |op: &str| format!("{} --window 1000 {COMMON}", rdma_of(op));
    let net = format!("bench net PEER --window 500 {COMMON}");
    let ping = |op: &str| format!("{} --ping --sizes 64 {PING}", rdma_of(op));
    let net_ping = format!("bench net PEER --ping --sizes 64 --window 500 {PING}");
    let lines =
        [rdma("write"), rdma("read"), rdma("send"), net, ping("write"), ping("read"), ping("send"), net_ping];
    let mut command = Command::new(&lab);
    command.arg(binary);
    for line in &lines {
        command.arg("--").args(line.split(' '));
    }
    let output = output_of(command);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}");
    let runs: Vec<&str> = out.split("@status ").skip(1).collect();
    assert_eq!(runs.len(), lines.len(), "{out}{err}");
    for (run, line) in runs.iter().zip(&lines) {
        let (status, json) = run.split_once('\n').expect("a status");
        assert_eq!(status, "0", "{line}: {err}");
        if line.contains("--ping") {
            check_latency(&PingRecord::from_json(json).expect("a record"), line);
            continue;
        }
        let record = IoRecord::from_json(json).expect("a record");
        let remote = record.remote.as_ref().expect("the other host's interface");
        assert_eq!(remote.name, "eth0", "{line}");
        for cell in &record.cells {
            assert!(cell.bytes_per_s.median().is_some_and(|rate| rate > 0.0), "{line}: {cell:?}");
        }
        match line.split_once("--op ").and_then(|(_, rest)| rest.split(' ').next()) {
            Some(op) => check_rdma_record(&record, op),
            None => {
                assert_eq!((record.method.engine, record.device.name.as_str()), (IoEngine::Tcp, "eth0"));
                assert_eq!(record.cells.len(), 2, "both directions");
                assert!(!record.device.irqs.is_empty() && !remote.irqs.is_empty(), "{:?}", record.device);
            }
        }
    }
}

/// Checks a record of `--ping`.
fn check_latency(record: &PingRecord, line: &str) {
    let engine = if line.contains("rdma") { IoEngine::Perftest } else { IoEngine::Tcp };
    assert_eq!(record.method.engine, engine, "{line}");
    for cell in &record.cells {
        let median = cell.latency_ns.median().expect("a median");
        let (p99, min) = (cell.p99_ns.as_ref().expect("a percentile"), cell.min_ns.expect("a minimum"));
        assert!(0.0 < min && min <= median && median <= p99.max, "{line}: {cell:?}");
        let operation = cell.operation.as_deref();
        assert!(operation.is_none_or(|operation| line.contains(&format!("--op {operation}"))), "{cell:?}");
    }
}

/// Checks a record of `bench rdma`.
fn check_rdma_record(record: &IoRecord, op: &str) {
    assert_eq!((record.method.engine, record.device.name.as_str()), (IoEngine::Perftest, "rxe0"));
    assert!(
        record.method.version.starts_with(|first: char| first.is_ascii_digit()),
        "{}",
        record.method.version
    );
    let [cell] = record.cells.as_slice() else { panic!("{:?}", record.cells) };
    assert_eq!(cell.operation.as_deref(), Some(op));
    let direction = if op == "read" { Direction::Read } else { Direction::Write };
    assert_eq!(cell.groups[0].direction, direction);
}
