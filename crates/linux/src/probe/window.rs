//! Passes over buffers for a while.

use super::curve::{Curve, Point};
use super::team::{Leave, Team};
use super::work::{Stretch, Work};
use crate::interrupt::interrupted;
use numaio_machine::probe::ProbeError;

/// Points of time that a thread keeps of each slice.
const POINTS_PER_SLICE: u64 = 8;

/// How time is cut. Before the slices one more passes as warm-up.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Length of a slice.
    pub slice_ns: u64,
    /// Number of slices that count.
    pub slices: u32,
}

/// What one thread saw.
pub struct Log {
    start_ns: u64,
    curve: Curve,
}

impl Plan {
    /// Equal slices of a run of some length.
    pub fn new(milliseconds: u32, slices: u32) -> Self {
        let slice_ns = u64::from(milliseconds) * 1_000_000 / u64::from(slices.max(1));
        Self { slice_ns: slice_ns.max(1), slices }
    }

    /// Time of the warm-up and all slices.
    pub fn total_ns(self) -> u64 {
        self.slice_ns.saturating_mul(u64::from(self.slices) + 1)
    }

    /// A curve with points enough for these slices.
    pub fn curve(self) -> Curve {
        let points = (u64::from(self.slices) + 2) * POINTS_PER_SLICE + 2;
        Curve::new(points as usize, self.slice_ns / POINTS_PER_SLICE)
    }
}

/// Goes over the buffers again and again until the last thread to start has run for the plan's time: so all
/// threads run in the time that is cut, however late one of them came.
pub fn run(team: &Team, work: &mut impl Work, plan: Plan) -> Result<Log, Leave> {
    let mut curve = plan.curve();
    let (all, longest) = (work.bytes(), work.longest_part());
    team.line_up()?;
    let start_ns = team.now();
    team.note_start(start_ns);
    curve.add(Point { ns: start_ns, done: 0 });
    let (mut at, mut done) = (0, 0u64);
    loop {
        let bytes = longest.min(all - at);
        work.part(at, bytes);
        done += bytes as u64;
        at = if at + bytes == all { 0 } else { at + bytes };
        let point = Point { ns: team.now(), done };
        if team.latest_start().is_some_and(|latest| point.ns >= latest.saturating_add(plan.total_ns())) {
            curve.end(point);
            return Ok(Log { start_ns, curve });
        }
        curve.add(point);
        if interrupted() {
            return Err(Leave::Failed(ProbeError::Interrupted));
        }
    }
}

/// Cuts the time in which all threads ran; gives the slices after the warm-up, and the skew of the starts.
pub fn stretches(logs: &[Log], plan: Plan) -> (Vec<Stretch>, u64) {
    let starts = || logs.iter().map(|log| log.start_ns);
    let (first, last) = (starts().min().unwrap_or(0), starts().max().unwrap_or(0));
    let all_at = |ns| logs.iter().map(|log| log.curve.at(ns)).sum::<f64>().round() as u64;
    // Sums at the cuts are rounded, not the slices: so the slices add up to what was done.
    let cuts = (1..=u64::from(plan.slices) + 1).map(|slice| all_at(last + slice * plan.slice_ns));
    let cuts: Vec<u64> = cuts.collect();
    let slices = cuts.windows(2).map(|cut| Stretch { bytes: cut[1] - cut[0], ns: plan.slice_ns });
    (slices.collect(), last - first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(points: &[(u64, u64)]) -> Log {
        let mut curve = Curve::new(points.len(), 1);
        points.iter().for_each(|(ns, done)| curve.add(Point { ns: *ns, done: *done }));
        Log { start_ns: points[0].0, curve }
    }

    #[test]
    fn only_the_time_in_which_all_run_is_cut_and_the_first_slice_is_dropped() {
        // The first thread does 2 bytes/ns throughout; the second 1, then 4 in the last slice.
        let early = log(&[(0, 0), (1000, 2000)]);
        let late = log(&[(100, 0), (300, 200), (400, 600), (900, 700)]);
        let (stretches, skew) = stretches(&[early, late], Plan { slice_ns: 100, slices: 2 });
        assert_eq!(skew, 100);
        assert_eq!(stretches, [Stretch { bytes: 300, ns: 100 }, Stretch { bytes: 600, ns: 100 }]);
    }

    #[test]
    fn slices_add_up_to_what_was_done() {
        let logs = [log(&[(0, 0), (70, 1001), (701, 5003)]), log(&[(3, 0), (333, 777), (800, 999)])];
        let plan = Plan { slice_ns: 33, slices: 20 };
        let (stretches, _) = stretches(&logs, plan);
        let sum: u64 = stretches.iter().map(|stretch| stretch.bytes).sum();
        let at = |ns| logs.iter().map(|log| log.curve.at(ns)).sum::<f64>().round() as u64;
        assert_eq!(sum, at(3 + 21 * 33) - at(3 + 33));
    }
}
