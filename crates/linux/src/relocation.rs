//! Pages of other processes, moved to other nodes.

use crate::interrupt::interrupted;
use crate::memory::{page_bytes, page_states};
use crate::Root;
use numaio_machine::control::{ControlError, PageMove, PageMoveReport, PageRefusal, PageRun};
use numaio_machine::ids::NodeId;
use numaio_machine::process;
use std::io;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

/// Pages per call: 16 MiB of 4 KiB pages.
const CHUNK: usize = 4096;

/// Pages per call after a rejected page: the kernel stops at the first batch with one.
const RETRY_CHUNK: usize = 32;

/// Maximum number of page addresses to examine in one process: 1 TiB of 4 KiB pages.
const MAX_PAGES: u64 = 1 << 28;

/// Maximum number of runs of pages in one process: a receipt has all of them.
const MAX_RUNS: usize = 1 << 20;

/// Time for which busy pages are tried again, and the pause before each attempt.
const BUSY_LIMIT: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// Moves only pages that no other process maps (include/uapi/linux/mempolicy.h).
const MPOL_MF_MOVE: libc::c_int = 1 << 1;
/// Moves pages that other processes map, too; needs `CAP_SYS_NICE`.
const MPOL_MF_MOVE_ALL: libc::c_int = 1 << 2;

/// Status of a page that the kernel did not write.
const UNKNOWN: i32 = i32::MIN;

fn refused(what: &str, error: &io::Error) -> ControlError {
    let (what, why) = (what.to_owned(), error.to_string());
    match error.kind() {
        io::ErrorKind::PermissionDenied => ControlError::Denied { what, why },
        _ => ControlError::Refused { what, why },
    }
}

/// Returns the nodes of the present pages within address ranges of a process.
pub fn page_runs(pid: u32, ranges: &[Range<u64>]) -> Result<Vec<PageRun>, ControlError> {
    let page = page_bytes() as u64;
    let what = || format!("locate the pages of process {pid}");
    let count: u64 = ranges.iter().map(|range| range.end.saturating_sub(range.start) / page).sum();
    let too_many = |why: String| ControlError::Refused { what: what(), why };
    if count > MAX_PAGES {
        return Err(too_many(format!("it maps {count} pages, and at most {MAX_PAGES} are examined")));
    }
    let mut runs = Vec::new();
    for range in ranges {
        let mut next = range.start;
        while next < range.end {
            let end = next.saturating_add(CHUNK as u64 * page).min(range.end);
            let addresses: Vec<u64> = (next..end).step_by(page as usize).collect();
            let states = page_states(pid, &addresses).map_err(|error| refused(&what(), &error))?;
            for (address, state) in addresses.iter().zip(states) {
                if let Ok(node) = u32::try_from(state) {
                    push(&mut runs, PageRun { start: *address, bytes: page, node: NodeId(node) });
                }
            }
            if runs.len() > MAX_RUNS {
                return Err(too_many(format!("its nodes alternate more than {MAX_RUNS} times")));
            }
            next = end;
        }
    }
    Ok(runs)
}

/// Appends a run, or extends the last one.
fn push(runs: &mut Vec<PageRun>, run: PageRun) {
    match runs.last_mut() {
        Some(last) if last.node == run.node && last.start.checked_add(last.bytes) == Some(run.start) => {
            last.bytes += run.bytes;
        }
        _ => runs.push(run),
    }
}

/// Moves pages to the nodes of their runs as far as possible. Busy pages are tried again for a
/// limited time: direct I/O pins its buffer during each request, and releases it in between.
pub fn move_pages(root: &Root, wanted: &PageMove) -> Result<PageMoveReport, ControlError> {
    let mut report = PageMoveReport::default();
    let mut busy = Vec::new();
    move_once(root, wanted, &mut report, &mut busy)?;
    let end = Instant::now() + BUSY_LIMIT;
    while !busy.is_empty() && !report.process_ended && !interrupted() && Instant::now() < end {
        thread::sleep(BUSY_PAUSE);
        let again = PageMove { runs: std::mem::take(&mut busy), ..*wanted };
        move_once(root, &again, &mut report, &mut busy)?;
    }
    leave(&mut report, PageRefusal::Busy, busy.iter().map(|run| run.bytes).sum());
    Ok(report)
}

/// Tries once to move pages; adds busy ones to `busy`, and all else to the report.
fn move_once(
    root: &Root,
    wanted: &PageMove,
    report: &mut PageMoveReport,
    busy: &mut Vec<PageRun>,
) -> Result<(), ControlError> {
    let page = page_bytes() as u64;
    for run in &wanted.runs {
        let end = run.start.saturating_add(run.bytes);
        let mut next = run.start;
        while next < end {
            let chunk_end = next.saturating_add(CHUNK as u64 * page).min(end);
            let addresses: Vec<u64> = (next..chunk_end).step_by(page as usize).collect();
            next = chunk_end;
            if interrupted() {
                leave(report, PageRefusal::Interrupted, addresses.len() as u64 * page);
                continue;
            }
            if process::start_time(root, wanted.pid) != Some(wanted.start_time) {
                report.process_ended = true;
                return Ok(());
            }
            let target = Target { pid: wanted.pid, node: run.node, shared: wanted.shared };
            let Err(error) = move_chunk(target, &addresses, report, busy) else {
                continue;
            };
            if report.moved_bytes == 0 {
                let what = format!("move memory of process {} to node {}", wanted.pid, run.node);
                return Err(refused(&what, &error));
            }
            // What was moved is reported, so that it can be undone.
            leave(report, PageRefusal::Other, addresses.len() as u64 * page);
        }
    }
    Ok(())
}

fn leave(report: &mut PageMoveReport, why: PageRefusal, bytes: u64) {
    if bytes > 0 {
        *report.left.entry(why).or_default() += bytes;
    }
}

/// The process whose pages are moved, and where to.
#[derive(Clone, Copy)]
struct Target {
    pid: u32,
    node: NodeId,
    shared: bool,
}

/// Moves one chunk of pages, and adds the result to the report and to the busy pages.
fn move_chunk(
    target: Target,
    addresses: &[u64],
    report: &mut PageMoveReport,
    busy: &mut Vec<PageRun>,
) -> io::Result<()> {
    let Target { pid, node, .. } = target;
    let page = page_bytes() as u64;
    let ended = |error: &io::Error| error.raw_os_error() == Some(libc::ESRCH);
    let before = match page_states(pid, addresses) {
        Err(error) if ended(&error) => {
            report.process_ended = true;
            return Ok(());
        }
        before => before?,
    };
    let is_elsewhere = |state: i32| u32::try_from(state).is_ok_and(|on| on != node.0);
    let absent = before.iter().filter(|state| **state < 0).count();
    leave(report, PageRefusal::Absent, absent as u64 * page);
    let elsewhere = addresses.iter().zip(before).filter(|(_, state)| is_elsewhere(*state));
    let pages: Vec<u64> = elsewhere.map(|(address, _)| *address).collect();
    if pages.is_empty() {
        return Ok(());
    }
    let attempt = match attempt_move(target, &pages) {
        Err(error) if ended(&error) => {
            report.process_ended = true;
            return Ok(());
        }
        attempt => attempt?,
    };
    let after = page_states(pid, &pages).unwrap_or_else(|_| vec![UNKNOWN; pages.len()]);
    for (index, address) in pages.into_iter().enumerate() {
        if after.get(index).is_some_and(|state| u32::try_from(*state) == Ok(node.0)) {
            report.moved_bytes += page;
        } else {
            let state = attempt.states.get(index).copied().unwrap_or(UNKNOWN);
            match refusal(state, attempt.no_memory) {
                PageRefusal::Busy => push(busy, PageRun { start: address, bytes: page, node }),
                why => leave(report, why, page),
            }
        }
    }
    Ok(())
}

/// The result of an attempt: a state for each page, and whether the target node was full.
struct Attempt {
    states: Vec<i32>,
    no_memory: bool,
}

/// Moves pages, at first all together. If the kernel stops at a batch, in small batches.
fn attempt_move(target: Target, pages: &[u64]) -> io::Result<Attempt> {
    let mut states = vec![UNKNOWN; pages.len()];
    let is_complete = request(target, pages, &mut states)?;
    let mut no_memory = is_complete == MoveCall::NoMemory;
    if is_complete == MoveCall::Stopped {
        for (pages, states) in pages.chunks(RETRY_CHUNK).zip(states.chunks_mut(RETRY_CHUNK)) {
            if states.contains(&UNKNOWN) && request(target, pages, states)? == MoveCall::NoMemory {
                no_memory = true;
                break;
            }
        }
    }
    Ok(Attempt { states, no_memory })
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MoveCall {
    /// The kernel wrote the state of each page.
    Complete,
    /// It stopped at pages that could not be moved.
    Stopped,
    /// The target node has no free memory.
    NoMemory,
}

/// Calls move_pages(2) with one target node; writes the states that the kernel reports.
fn request(target: Target, pages: &[u64], states: &mut [i32]) -> io::Result<MoveCall> {
    let nodes = vec![i32::try_from(target.node.0).unwrap_or(i32::MAX); pages.len()];
    let count = pages.len().min(states.len());
    let mut call = |flags: libc::c_int| {
        // SAFETY: the arrays have at least `count` elements and live through the call. The
        // addresses are of another process: the kernel checks them, and moves pages without
        // changing contents.
        let result = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                target.pid,
                count,
                pages.as_ptr(),
                nodes.as_ptr(),
                states.as_mut_ptr(),
                flags,
            )
        };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(result)
        }
    };
    let result = match target.shared.then(|| call(MPOL_MF_MOVE_ALL)) {
        Some(Err(error)) if error.raw_os_error() != Some(libc::EPERM) => Err(error),
        Some(Ok(result)) => Ok(result),
        // Without the capability, pages that no other process maps can be moved.
        None | Some(Err(_)) => call(MPOL_MF_MOVE),
    };
    match result {
        Ok(0) => Ok(MoveCall::Complete),
        Ok(_) => Ok(MoveCall::Stopped),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOMEM) => Ok(MoveCall::NoMemory),
            // Before Linux 4.17: no page needed to be moved.
            Some(libc::ENOENT) => Ok(MoveCall::Complete),
            _ => Err(error),
        },
    }
}

/// Returns the reason for which a page stayed.
fn refusal(state: i32, no_memory: bool) -> PageRefusal {
    match state.checked_neg() {
        Some(libc::EBUSY) => PageRefusal::Busy,
        Some(libc::ENOMEM) => PageRefusal::NoMemory,
        Some(libc::EACCES) => PageRefusal::Shared,
        Some(libc::ENOENT | libc::EFAULT) => PageRefusal::Absent,
        _ if no_memory => PageRefusal::NoMemory,
        // The kernel stopped without a state, or a page returned to its node.
        None | Some(..=0) => PageRefusal::Busy,
        _ => PageRefusal::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locates_and_moves_pages_of_a_process_in_place() {
        let root = Root::live().expect("/");
        let pid = std::process::id();
        let start_time = process::start_time(&root, pid).expect("running");
        let page = page_bytes();
        let memory = vec![1u8; 64 * page];
        let first = (memory.as_ptr() as usize).next_multiple_of(page) as u64;
        let range = first..first + 32 * page as u64;
        let runs = match page_runs(pid, std::slice::from_ref(&range)) {
            Ok(runs) => runs,
            Err(error) => {
                return crate::test_support::print_skipped(&format!("skipped: no move_pages: {error}"));
            }
        };
        assert_eq!(runs.iter().map(|run| run.bytes).sum::<u64>(), range.end - range.start);
        let wanted = PageMove { pid, start_time, shared: true, runs };
        let report = move_pages(&root, &wanted).expect("allowed");
        assert_eq!((report.moved_bytes, report.process_ended), (0, false), "all are there already");
        let ended = move_pages(&root, &PageMove { start_time: start_time + 1, ..wanted }).expect("no error");
        assert!(ended.process_ended && ended.moved_bytes == 0);
        assert_eq!(memory.iter().map(|byte| usize::from(*byte)).sum::<usize>(), memory.len());
    }

    #[test]
    fn classifies_pages_that_stay() {
        let of = |errno: i32| refusal(-errno, false);
        assert_eq!(of(libc::EACCES), PageRefusal::Shared);
        assert_eq!((of(libc::ENOENT), of(libc::EFAULT)), (PageRefusal::Absent, PageRefusal::Absent));
        assert_eq!((of(libc::EBUSY), refusal(UNKNOWN, false)), (PageRefusal::Busy, PageRefusal::Busy));
        assert_eq!(
            (of(libc::ENOMEM), refusal(UNKNOWN, true)),
            (PageRefusal::NoMemory, PageRefusal::NoMemory)
        );
        assert_eq!(of(libc::EIO), PageRefusal::Other);
    }

    #[test]
    fn runs_join_adjacent_pages_of_a_node() {
        let run = |start, node| PageRun { start, bytes: 4096, node: NodeId(node) };
        let mut runs = Vec::new();
        for page in [run(0, 1), run(4096, 1), run(8192, 2), run(16384, 2)] {
            push(&mut runs, page);
        }
        assert_eq!(runs, [PageRun { bytes: 8192, ..run(0, 1) }, run(8192, 2), run(16384, 2)]);
    }
}
