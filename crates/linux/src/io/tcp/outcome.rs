//! Combined outcome of both ends of a run.

use super::line_connection::CLOSED;
use super::protocol::{ReceivedSlice, RunResult};
use super::slices::{EarlyEnd, RunEnd};
use crate::clock::nanoseconds;
use numaio_machine::probe::{IoGroupOutcome, IoOutcome, IoSample, PeerOutcome, ProbeError, Residency};
use numaio_machine::units::format_size;
use numaio_machine::workload::{Direction, IoWorkload};
use std::time::Instant;

/// Result of a run on the client.
#[derive(Debug)]
pub struct ClientRun {
    /// CPU time and reason of an early end.
    pub run_end: RunEnd,
    /// Bytes received by the client.
    pub slices: Vec<ReceivedSlice>,
    /// Page locations of each group.
    pub residency: Vec<Residency>,
    /// Time between the first and the last stream's start, in nanoseconds.
    pub start_skew_ns: u64,
}

/// Combines both ends: the bytes of each group are those counted by the receiving end.
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
            // The peer's reason is more specific than a closed stream.
            let theirs = ended.as_ref().and_then(|ended| ended.interrupted.clone());
            Some(theirs.filter(|_| why.ends_with(CLOSED)).unwrap_or(why))
        }
        Some(EarlyEnd::Requested) => {
            notes.push(format!("ended at the byte limit of {}", format_size(io.max_bytes.unwrap_or(0))));
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
        return Err(ProbeError::Refused { call: "TCP streams".to_owned(), reason: why.clone() });
    }
    Ok(IoOutcome {
        groups,
        elapsed_ns: nanoseconds(began),
        start_skew_ns: ran.start_skew_ns,
        cpu_ns: ran.run_end.cpu_ns,
        peer: ended.map(PeerOutcome::from),
        notes,
        interrupted: cut,
    })
}

impl From<RunResult> for PeerOutcome {
    fn from(RunResult { cpu_ns, residency, placed: (cpus, memory), .. }: RunResult) -> Self {
        Self { cpus, memory, cpu_ns, residency }
    }
}

/// Sums the page locations of all groups; the number of checked pages is unknown if one group's is.
pub fn merge_residency(groups: &[Residency]) -> Residency {
    let mut all = Residency { pages_checked: Some(0), ..Residency::default() };
    for group in groups {
        all.pages_checked = all.pages_checked.zip(group.pages_checked).map(|(sum, count)| sum + count);
        all.pages_misplaced += group.pages_misplaced;
        all.huge_bytes += group.huge_bytes;
        all.misplaced_on = all.misplaced_on.or(group.misplaced_on);
    }
    all
}
