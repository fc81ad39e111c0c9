//! Algorithm 1 as printed (Li et al., ICPP 2013): all threads start together and make one pass, again and again.

use super::team::{Leave, Team};
use super::work::{Stretch, Work};
use crate::interrupt::interrupted;
use numaio_machine::probe::ProbeError;

/// Start and end of each repetition of one thread, the warm-up first.
pub struct Log(Vec<(u64, u64)>);

/// Makes one pass to warm up, and then `count` passes, in step with the team.
pub fn run(team: &Team, work: &mut impl Work, count: u32) -> Result<Log, Leave> {
    // Touched beforehand, so that it is not while time is taken.
    let mut times = vec![(u64::MAX, u64::MAX); count as usize + 1];
    for time in &mut times {
        team.line_up()?;
        let start = team.now();
        for at in (0..work.bytes()).step_by(work.longest_part()) {
            work.part(at, work.longest_part().min(work.bytes() - at));
            if interrupted() {
                return Err(Leave::Failed(ProbeError::Interrupted));
            }
        }
        *time = (start, team.now());
    }
    // What comes after the last pass is not to disturb those who are still at theirs.
    team.line_up()?;
    Ok(Log(times))
}

/// A stretch for each repetition, from the first thread's start to the last one's end; and the largest skew of
/// the starts. `bytes` are those of a pass of all threads.
pub fn stretches(logs: &[Log], bytes: u64) -> (Vec<Stretch>, u64) {
    let count = logs.iter().map(|log| log.0.len()).min().unwrap_or(0);
    let mut skew = 0;
    let stretches = (1..count).map(|repetition| {
        let starts = || logs.iter().map(|log| log.0[repetition].0);
        let first = starts().min().unwrap_or(0);
        skew = skew.max(starts().max().unwrap_or(0) - first);
        let end = logs.iter().map(|log| log.0[repetition].1).max().unwrap_or(0);
        Stretch { bytes, ns: end.saturating_sub(first).max(1) }
    });
    (stretches.collect(), skew)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_reaches_from_the_first_start_to_the_last_end() {
        let logs = [Log(vec![(0, 9), (20, 50), (60, 100)]), Log(vec![(0, 9), (23, 45), (58, 90)])];
        let (stretches, skew) = stretches(&logs, 2000);
        assert_eq!(stretches, [Stretch { bytes: 2000, ns: 30 }, Stretch { bytes: 2000, ns: 42 }]);
        assert_eq!(skew, 3);
    }
}
