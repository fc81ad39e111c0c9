//! What both ends saw of a run, put together.

use super::line_connection::CLOSED;
use super::protocol::{ReceivedSlice, RunResult};
use super::slices::{EarlyEnd, RunEnd};
use numaio_machine::probe::{IoGroupOutcome, IoOutcome, IoSample, PeerOutcome, ProbeError, Residency};
use numaio_machine::units::size_for_people;
use numaio_machine::workload::{Direction, IoWorkload};
use std::time::Instant;

/// What a run gave at the near end.
#[derive(Debug)]
pub struct ClientRun {
    /// How it ended.
    pub run_end: RunEnd,
    /// What the near end received.
    pub slices: Vec<ReceivedSlice>,
    /// Where the pages of each group were.
    pub residency: Vec<Residency>,
    /// Time between the first and the last stream's start, in nanoseconds.
    pub start_skew_ns: u64,
}

/// The outcome of a run: each group's bytes as the end that received them counted.
///
/// # Errors
/// [`ProbeError`] if nothing was measured.
pub fn combine(
    io: &IoWorkload,
    ran: ClientRun,
    server_slices: &[ReceivedSlice],
    ended: Option<RunResult>,
    began: Instant,
) -> Result<IoOutcome, ProbeError> {
    let mut notes = Vec::new();
    let cut = match ran.run_end.early {
        Some(EarlyEnd::Interrupted) => return Err(ProbeError::Interrupted),
        Some(EarlyEnd::Failed(why)) => {
            // That a stream was closed tells less than why the peer closed it.
            let theirs = ended.as_ref().and_then(|ended| ended.cut.clone());
            Some(theirs.filter(|_| why.ends_with(CLOSED)).unwrap_or(why))
        }
        Some(EarlyEnd::Requested) => {
            notes.push(format!("ended at the limit of {}", size_for_people(io.most_bytes.unwrap_or(0))));
            None
        }
        None => None,
    };
    let group = |(index, residency): (usize, Residency)| {
        let slices = match io.groups[index].direction {
            Direction::Write => server_slices,
            Direction::Read => &ran.slices,
        };
        let sample = |slice: &ReceivedSlice| {
            let bytes = slice.bytes.get(index).copied().unwrap_or(0);
            IoSample { bytes, ns: slice.ns }
        };
        let samples: Vec<IoSample> = slices.iter().map(sample).collect();
        let bytes = samples.iter().map(|sample| sample.bytes).fold(0, u64::saturating_add);
        IoGroupOutcome { requests: bytes / io.block_bytes.max(1), samples, residency }
    };
    let residency = ran.residency.into_iter().take(io.groups.len());
    let groups: Vec<IoGroupOutcome> = residency.enumerate().map(group).collect();
    if let Some(why) = cut.as_ref().filter(|_| groups.iter().all(|group| group.samples.is_empty())) {
        return Err(ProbeError::Refused { what: "streams through TCP".to_owned(), why: why.clone() });
    }
    Ok(IoOutcome {
        groups,
        elapsed_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
        start_skew_ns: ran.start_skew_ns,
        cpu_ns: ran.run_end.cpu_ns,
        there: ended.map(|RunResult { cpu_ns, residency, placed: (cpus, memory), .. }| PeerOutcome {
            cpus,
            memory,
            cpu_ns,
            residency,
        }),
        notes,
        cut,
    })
}

/// Where the pages of all groups together were. If the kernel told nothing of one, nothing is claimed.
pub fn merge_residency(groups: &[Residency]) -> Residency {
    let mut all = Residency { pages_checked: Some(0), ..Residency::default() };
    for group in groups {
        all.pages_checked = all.pages_checked.zip(group.pages_checked).map(|(sum, count)| sum + count);
        all.pages_misplaced += group.pages_misplaced;
        all.huge_bytes += group.huge_bytes;
        all.found_on = all.found_on.or(group.found_on);
    }
    all
}
