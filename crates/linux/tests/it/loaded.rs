//! Workloads with load beside them on the test machine.

use crate::allowed::{cpus, node};
use numaio_linux::Kernel;
use numaio_machine::probe::{LoadedOutcome, Outcome, ProbeError, ProbeExt};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{
    CopyLoop, CopyWorkload, Direction, Flow, IoPath, IoWorkload, LoadedWorkload, NeighborLoad, Pages,
    Placement, Sampling, StreamGroup, StreamLoad, Workload,
};
use std::fs;

const WINDOW: Sampling = Sampling::Window { milliseconds: 60, slices: 3 };

fn copy() -> Workload {
    Workload::Copy(CopyWorkload {
        flow: Flow { source: node(), sink: node() },
        placement: Placement { cpus: cpus() },
        copy_loop: CopyLoop::Memcpy,
        bytes_per_thread: 1 << 20,
        pages: Pages::Base,
        sampling: WINDOW,
    })
}

fn stream(threads: u32) -> NeighborLoad {
    let placement = Placement { cpus: cpus() };
    NeighborLoad::Stream(StreamLoad { placement, threads, memory: node(), bytes_per_array: 4 << 20 })
}

fn shell(command: &str) -> NeighborLoad {
    NeighborLoad::Command { command: command.to_owned() }
}

fn run(workload: Workload, loads: Vec<NeighborLoad>) -> Result<LoadedOutcome, ProbeError> {
    let kernel = Kernel::new().expect("a kernel");
    kernel.loaded(&LoadedWorkload { loads, workload: Box::new(workload) })
}

#[test]
fn command_runs_beside_the_workload_and_ends_with_it() {
    let file = std::env::temp_dir().join(format!("numaio-load-{}", std::process::id()));
    let command = format!("echo $$ > '{}'; sleep 1000", file.display());
    let outcome = run(copy(), vec![shell(&command), stream(1)]).expect("it runs");
    let [of_command, of_stream] = outcome.loads.as_slice() else { panic!("{outcome:?}") };
    assert_eq!(of_command.bytes, None);
    assert!(of_stream.bytes.is_some_and(|bytes| bytes > 0), "{outcome:?}");
    let pid = fs::read_to_string(&file).expect("the command has started");
    let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
    drop(fs::remove_file(file));
}

#[test]
fn load_that_dies_or_never_starts_fails_the_run() {
    let why = |loads: Vec<NeighborLoad>| match run(copy(), loads) {
        Err(ProbeError::Refused { call: what, reason: why }) => format!("{what}: {why}"),
        other => panic!("{other:?}"),
    };
    let died = why(vec![shell("echo no such device >&2; exit 3"), stream(1)]);
    let expected = "exited with status 3 before the workload ended: no such device";
    assert_eq!(died, format!("load 'echo no such device >&2; exit 3': {expected}"));
    // It outlives the check after its start, and not the workload.
    let late = Sampling::Window { milliseconds: 700, slices: 1 };
    let Workload::Copy(copied) = copy() else { return };
    let killed =
        run(Workload::Copy(CopyWorkload { sampling: late, ..copied }), vec![shell("sleep 0.5; kill -9 $$")]);
    assert!(
        matches!(&killed, Err(ProbeError::Refused { reason: why, .. }) if why.contains("killed by signal 9")),
        "{killed:?}"
    );
    assert!(why(vec![shell("/no/such/program")]).contains("status 127"));
}

/// The CPU time of loading threads does not belong to the streams.
#[test]
fn processor_time_of_the_load_is_not_that_of_streams() {
    let group =
        StreamGroup { cpus: cpus(), memory: node(), streams: 1, direction: Direction::Write, device: 0 };
    let io = Workload::Io(IoWorkload {
        path: IoPath::Null,
        others: Vec::new(),
        groups: vec![group],
        block_bytes: 1 << 20,
        depth: 1,
        sampling: Sampling::Window { milliseconds: 200, slices: 2 },
        max_bytes: None,
    });
    let threads = cpus().len() as u32;
    let outcome = run(io, vec![stream(threads), stream(threads)]).expect("it runs");
    let Outcome::Io(io) = *outcome.outcome else { panic!("the outcome of the workload") };
    let sampled: u64 = io.groups[0].samples.iter().map(|sample| sample.ns).sum();
    // One stream uses at most one CPU; a part of a pass of each loading thread may be added.
    let most = sampled + sampled / 2;
    assert!(io.cpu_ns <= most, "{} ns of CPU time in {sampled} ns", io.cpu_ns);
}

#[test]
fn load_on_another_cpu_leaves_one_to_the_workload() {
    let Some(first) = cpus().first() else { return };
    let load = StreamLoad {
        placement: Placement { cpus: CpuSet::one(first) },
        threads: 2,
        memory: node(),
        bytes_per_array: 4 << 20,
    };
    let outcome = run(copy(), vec![NeighborLoad::Stream(load)]).expect("two threads share a CPU");
    assert!(outcome.overhead_ns > 0 && outcome.loads[0].ns > 0, "{outcome:?}");
}
