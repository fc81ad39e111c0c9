//! Algorithm 1 of Li et al. (ICPP 2013): all threads start together and make one pass, repeatedly.

use super::buffer_pass::{BufferPass, Interval};
use super::team::{EarlyExit, ThreadTeam};
use crate::interrupt::interrupted;
use numaio_machine::probe::ProbeError;

/// Start and end of each repetition of one thread, the warm-up first.
pub struct RepetitionLog(Vec<(u64, u64)>);

/// Makes a warm-up pass and `count` passes, synchronized with the team.
pub fn run(team: &ThreadTeam, work: &mut impl BufferPass, count: u32) -> Result<RepetitionLog, EarlyExit> {
    // Touched beforehand, so that the measurement has no page faults.
    let mut times = vec![(u64::MAX, u64::MAX); count as usize + 1];
    for time in &mut times {
        team.wait_at_barrier()?;
        let start = team.now();
        for at in (0..work.bytes()).step_by(work.max_part_bytes()) {
            work.part(at, work.max_part_bytes().min(work.bytes() - at));
            if interrupted() {
                return Err(EarlyExit::Failed(ProbeError::Interrupted));
            }
        }
        *time = (start, team.now());
    }
    // Work after the last pass must not disturb threads that still run theirs.
    team.wait_at_barrier()?;
    Ok(RepetitionLog(times))
}

/// Returns an interval per repetition, from the first thread's start to the last one's end, and the
/// largest skew of the starts. `bytes` is the sum of one pass of each thread.
pub fn intervals(logs: &[RepetitionLog], bytes: u64) -> (Vec<Interval>, u64) {
    let count = logs.iter().map(|log| log.0.len()).min().unwrap_or(0);
    let mut skew = 0;
    let intervals = (1..count).map(|repetition| {
        let starts = || logs.iter().map(|log| log.0[repetition].0);
        let first = starts().min().unwrap_or(0);
        skew = skew.max(starts().max().unwrap_or(0) - first);
        let end = logs.iter().map(|log| log.0[repetition].1).max().unwrap_or(0);
        Interval { bytes, ns: end.saturating_sub(first).max(1) }
    });
    (intervals.collect(), skew)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_spans_first_start_to_last_end() {
        let logs = [
            RepetitionLog(vec![(0, 9), (20, 50), (60, 100)]),
            RepetitionLog(vec![(0, 9), (23, 45), (58, 90)]),
        ];
        let (intervals, skew) = intervals(&logs, 2000);
        assert_eq!(intervals, [Interval { bytes: 2000, ns: 30 }, Interval { bytes: 2000, ns: 42 }]);
        assert_eq!(skew, 3);
    }
}
