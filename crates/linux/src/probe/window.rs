//! Passes over buffers in a time window.

use super::buffer_pass::{BufferPass, Interval};
use super::curve::{ProgressCurve, ProgressPoint};
use super::team::{EarlyExit, ThreadTeam};
use crate::interrupt::interrupted;
use crate::refusal::refused;
use numaio_machine::probe::ProbeError;

/// Maximum number of slices: each thread stores a few points in time per slice.
const MAX_SLICES: u32 = 4096;

/// Progress points that a thread stores per slice.
const POINTS_PER_SLICE: u64 = 8;

/// Time slices of a run, preceded by one more slice as warm-up.
#[derive(Debug, Clone, Copy)]
pub struct SlicePlan {
    /// Length of a slice.
    pub slice_ns: u64,
    /// Number of slices after the warm-up.
    pub slices: u32,
}

/// Progress of one thread.
pub struct WindowLog {
    start_ns: u64,
    curve: ProgressCurve,
}

impl SlicePlan {
    /// Divides a run into equal slices.
    pub fn new(milliseconds: u32, slices: u32) -> Self {
        let slice_ns = u64::from(milliseconds) * 1_000_000 / u64::from(slices.max(1));
        Self { slice_ns: slice_ns.max(1), slices }
    }

    /// Returns the duration of the warm-up and all slices.
    pub fn total_ns(self) -> u64 {
        self.slice_ns.saturating_mul(u64::from(self.slices) + 1)
    }

    /// Returns a curve with enough points for these slices.
    pub fn curve(self) -> ProgressCurve {
        let points = (u64::from(self.slices) + 2) * POINTS_PER_SLICE + 2;
        ProgressCurve::new(points as usize, self.slice_ns / POINTS_PER_SLICE)
    }
}

/// Rejects windows that yield no sample or exceed the limits.
pub fn check_window(milliseconds: u32, slices: u32) -> Result<(), ProbeError> {
    if milliseconds == 0 {
        return refused("window", "expected a length above 0");
    }
    if slices == 0 || slices > MAX_SLICES {
        return refused("window", format!("{slices} slices, expected 1 to {MAX_SLICES}"));
    }
    Ok(())
}

/// Repeats passes until the last thread to start has run for the planned time, so that all threads
/// run during the sampled time, regardless of late starts.
pub fn run(team: &ThreadTeam, work: &mut impl BufferPass, plan: SlicePlan) -> Result<WindowLog, EarlyExit> {
    let mut curve = plan.curve();
    let (all, longest) = (work.bytes(), work.max_part_bytes());
    team.wait_at_barrier()?;
    let start_ns = team.now();
    team.record_start(start_ns);
    curve.add(ProgressPoint { ns: start_ns, done: 0 });
    let (mut at, mut done) = (0, 0u64);
    loop {
        let bytes = longest.min(all - at);
        work.part(at, bytes);
        done += bytes as u64;
        at = if at + bytes == all { 0 } else { at + bytes };
        let point = ProgressPoint { ns: team.now(), done };
        if team.latest_start().is_some_and(|latest| point.ns >= latest.saturating_add(plan.total_ns())) {
            curve.end(point);
            return Ok(WindowLog { start_ns, curve });
        }
        curve.add(point);
        if interrupted() {
            return Err(EarlyExit::Failed(ProbeError::Interrupted));
        }
    }
}

/// Divides the time in which all threads ran; returns the slices after the warm-up and the start
/// skew.
pub fn intervals(logs: &[WindowLog], plan: SlicePlan) -> (Vec<Interval>, u64) {
    let starts = || logs.iter().map(|log| log.start_ns);
    let (first, last) = (starts().min().unwrap_or(0), starts().max().unwrap_or(0));
    let all_at = |ns| logs.iter().map(|log| log.curve.at(ns)).sum::<f64>().round() as u64;
    // Rounds the cumulative sums, not the slices, so that the slices add up to the total.
    let cuts = (1..=u64::from(plan.slices) + 1).map(|slice| all_at(last + slice * plan.slice_ns));
    let cuts: Vec<u64> = cuts.collect();
    let slices = cuts.windows(2).map(|cut| Interval { bytes: cut[1] - cut[0], ns: plan.slice_ns });
    (slices.collect(), last - first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(points: &[(u64, u64)]) -> WindowLog {
        let mut curve = ProgressCurve::new(points.len(), 1);
        points.iter().for_each(|(ns, done)| curve.add(ProgressPoint { ns: *ns, done: *done }));
        WindowLog { start_ns: points[0].0, curve }
    }

    #[test]
    fn samples_only_the_common_time_after_the_warm_up() {
        // The first thread does 2 bytes/ns throughout; the second 1, then 4 in the last slice.
        let early = log(&[(0, 0), (1000, 2000)]);
        let late = log(&[(100, 0), (300, 200), (400, 600), (900, 700)]);
        let (intervals, skew) = intervals(&[early, late], SlicePlan { slice_ns: 100, slices: 2 });
        assert_eq!(skew, 100);
        assert_eq!(intervals, [Interval { bytes: 300, ns: 100 }, Interval { bytes: 600, ns: 100 }]);
    }

    #[test]
    fn slices_add_up_to_the_total() {
        let logs = [log(&[(0, 0), (70, 1001), (701, 5003)]), log(&[(3, 0), (333, 777), (800, 999)])];
        let plan = SlicePlan { slice_ns: 33, slices: 20 };
        let (intervals, _) = intervals(&logs, plan);
        let sum: u64 = intervals.iter().map(|stretch| stretch.bytes).sum();
        let at = |ns| logs.iter().map(|log| log.curve.at(ns)).sum::<f64>().round() as u64;
        assert_eq!(sum, at(3 + 21 * 33) - at(3 + 33));
    }
}
