//! Programs of the user that run once, bound to CPUs and a memory node, with a check of their
//! pages.

use crate::clock::nanoseconds;
use crate::group_guard::GroupGuard;
use crate::interrupt;
use crate::launch::{BindingError, ProgramBinding};
use crate::refusal::refused;
use crate::tool::RunningTool;
use crate::Root;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, ProgramOutcome, Residency};
use numaio_machine::process::{pages, process_tree_of, Pages};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::workload::{MemoryBinding, MemoryPolicy, ProgramWorkload, ToolProcess};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Time from the start to the first check of pages. The pause doubles after each check.
const FIRST_CHECK: Duration = Duration::from_millis(20);
/// Least ratio of the pause to the duration of the check before it: the kernel walks the page
/// tables of the program, which must not change its figure.
const PAUSE_RATIO: u32 = 100;
/// Longest wait for the exit of a program between checks for an interrupt.
const WAIT_STEP: Duration = Duration::from_millis(50);
/// Unit of checked pages in bytes.
const PAGE_BYTES: u64 = 4096;

/// Runs a program until it exits or its time limit expires.
///
/// # Errors
/// [`ProbeError::Unsupported`] with the name of a program that does not exist,
/// [`ProbeError::Refused`] if it cannot be started or bound, and [`ProbeError::Interrupted`]. The
/// program and its children are terminated in these cases.
pub fn run(root: &Root, workload: &ProgramWorkload) -> Result<ProgramOutcome, ProbeError> {
    let ProgramWorkload { command, placement, memory, time_limit_ms } = workload;
    let Some((program, args)) = command.split_first() else {
        return refused("run a program", "no command");
    };
    if placement.cpus.is_empty() {
        return refused(&format!("run {program}"), "no CPUs to run on");
    }
    let process = ToolProcess { args: args.to_vec(), cpus: placement.cpus.clone(), memory: Some(*memory) };
    run_process(root, program, &process, *time_limit_ms, |error| binding_error(workload).unwrap_or(error))
}

/// Runs a program without a binding until it exits or its time limit expires. Its pages are not
/// checked.
///
/// # Errors
/// As [`run`].
pub fn run_unbound(
    root: &Root,
    command: &[String],
    time_limit_ms: u32,
) -> Result<ProgramOutcome, ProbeError> {
    let Some((program, args)) = command.split_first() else {
        return refused("run a program", "no command");
    };
    let process = ToolProcess { args: args.to_vec(), cpus: CpuSet::new(), memory: None };
    run_process(root, program, &process, time_limit_ms, |error| error)
}

/// Runs a process; `start_error` explains why it cannot be started.
fn run_process(
    root: &Root,
    program: &str,
    process: &ToolProcess,
    time_limit_ms: u32,
    start_error: impl FnOnce(ProbeError) -> ProbeError,
) -> Result<ProgramOutcome, ProbeError> {
    let began = Instant::now();
    let mut running = RunningTool::start(program, process).map_err(start_error)?;
    let guard = GroupGuard::start(running.id()).map_err(|error| ProbeError::Refused {
        call: format!("start the guard of {program}"),
        reason: error.to_string(),
    })?;
    let deadline = began + Duration::from_millis(u64::from(time_limit_ms));
    let (elapsed_ns, residency) = thread::scope(|scope| {
        let (stop, stopped) = channel();
        let pid = running.id();
        let check = |memory| scope.spawn(move || check_pages(root, pid, memory, &stopped));
        let checker = process.memory.map(check);
        let elapsed_ns = wait(&mut running, began, deadline);
        drop(stop);
        let residency = checker.and_then(|checker| checker.join().ok()).unwrap_or_default();
        (elapsed_ns, residency)
    });
    drop(guard);
    let output = running.stop_and_collect();
    match elapsed_ns {
        Some(elapsed_ns) => Ok(ProgramOutcome { output, elapsed_ns, residency }),
        None => Err(ProbeError::Interrupted),
    }
}

/// Waits for the exit of a program, or terminates it at the deadline; returns its time, or `None`
/// after an interrupt.
fn wait(running: &mut RunningTool, began: Instant, deadline: Instant) -> Option<u64> {
    let mut is_interrupted = false;
    while running.ended().is_none() {
        let left = deadline.saturating_duration_since(Instant::now());
        is_interrupted = interrupt::interrupted();
        if left.is_zero() || is_interrupted {
            break;
        }
        running.exits_within(left.min(WAIT_STEP));
    }
    let elapsed_ns = nanoseconds(began);
    running.end();
    (!is_interrupted).then_some(elapsed_ns)
}

/// Returns the reason if the program cannot be bound as requested; starting a process reports only
/// the kernel's error.
fn binding_error(workload: &ProgramWorkload) -> Option<ProbeError> {
    let memory = MemoryBinding { policy: MemoryPolicy::Bind, nodes: NodeSet::one(workload.memory) };
    let error = ProgramBinding::probe(&workload.placement.cpus, &memory, true).err()?;
    let (what, why) = match error {
        BindingError::Cpus { cpus, why } => (format!("set the CPU affinity to CPUs {cpus}"), why),
        BindingError::Memory { place, why } => {
            (format!("set the memory policy to node {}", place.nodes), why)
        }
    };
    Some(ProbeError::Refused { call: what, reason: why.to_string() })
}

/// Checks the pages of a program and its children until `stopped` disconnects; returns the check
/// with most pages.
fn check_pages(root: &Root, pid: u32, memory: NodeId, stopped: &Receiver<()>) -> Residency {
    let mut most = Residency::default();
    let mut pause = FIRST_CHECK;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let began = Instant::now();
        let mut all = Pages::default();
        process_tree_of(root, pid)
            .into_iter()
            .filter_map(|pid| pages(root, pid))
            .for_each(|pages| all.add(&pages));
        let found = residency(&all, memory);
        if found.pages_checked > most.pages_checked {
            most = found;
        }
        pause = (pause * 2).max(began.elapsed() * PAUSE_RATIO);
    }
    most
}

/// Counts the anonymous pages; those of files are shared with other programs.
fn residency(pages: &Pages, memory: NodeId) -> Residency {
    let count = |bytes: u64| bytes / PAGE_BYTES;
    let all: u64 = pages.anonymous.values().copied().fold(0, u64::saturating_add);
    let misplaced = || pages.anonymous.iter().filter(|(node, bytes)| **node != memory && **bytes > 0);
    Residency {
        pages_checked: (all > 0).then(|| count(all)),
        pages_misplaced: count(misplaced().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)),
        misplaced_on: misplaced().map(|(node, _)| *node).next(),
        huge_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_pages_on_other_nodes() {
        let mut pages = Pages::default();
        pages.anonymous.extend([(NodeId(0), 9 * PAGE_BYTES), (NodeId(2), PAGE_BYTES)]);
        pages.file_backed.insert(NodeId(1), 1 << 20);
        let found = residency(&pages, NodeId(0));
        assert_eq!((found.pages_checked, found.pages_misplaced), (Some(10), 1));
        assert_eq!(found.misplaced_on, Some(NodeId(2)));
        assert_eq!(residency(&Pages::default(), NodeId(0)), Residency::default());
    }
}
