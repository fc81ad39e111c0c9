//! Samples of I/O streams in common time slices.

use crate::probe::curve::ProgressCurve;
use crate::probe::window::SlicePlan;
use numaio_machine::probe::IoSample;

/// Progress of one worker thread.
pub struct WorkerLog {
    /// Index of the stream group.
    pub group: usize,
    /// Start time in nanoseconds.
    pub start_ns: u64,
    /// End time in nanoseconds.
    pub end_ns: u64,
    /// Cumulative bytes over time.
    pub curve: ProgressCurve,
}

/// Boundaries of the time slices that all workers share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceBounds {
    /// Slice boundaries in nanoseconds, beginning at the end of the warm-up.
    at: Vec<u64>,
    /// Time between the first and the last worker's start, in nanoseconds.
    pub start_skew_ns: u64,
}

impl SliceBounds {
    /// Divides the time in which all workers ran; the first slice is a warm-up. A run that was
    /// meant to end early (`early_counts`) and did so before the first slice is one slice.
    pub fn new(logs: &[WorkerLog], plan: SlicePlan, early_counts: bool) -> Self {
        let starts = || logs.iter().map(|log| log.start_ns);
        let (first, last) = (starts().min().unwrap_or(0), starts().max().unwrap_or(0));
        let end = logs.iter().map(|log| log.end_ns).min().unwrap_or(0);
        let slice = plan.slice_ns;
        let whole =
            (1..=u64::from(plan.slices) + 1).map(|slices| last.saturating_add(slices.saturating_mul(slice)));
        let mut at: Vec<u64> = whole.filter(|cut| *cut <= end).collect();
        if at.len() < 2 {
            at = if early_counts && end > last { vec![last, end] } else { Vec::new() };
        }
        Self { at, start_skew_ns: last - first }
    }

    /// Returns the begin and end of the sampled time.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((*self.at.first()?, *self.at.last()?))
    }

    /// Returns the bytes of a group in each slice.
    pub fn samples(&self, logs: &[WorkerLog], group: usize) -> Vec<IoSample> {
        let all_at = |ns: &u64| {
            let of = logs.iter().filter(|log| log.group == group);
            of.map(|log| log.curve.at(*ns)).sum::<f64>().round() as u64
        };
        // Rounds the cumulative sums, not the slices, so that the slices add up to the total.
        let sums: Vec<(u64, u64)> = self.at.iter().map(|ns| (*ns, all_at(ns))).collect();
        let sample = |pair: &[(u64, u64)]| IoSample {
            bytes: pair[1].1.saturating_sub(pair[0].1),
            ns: pair[1].0 - pair[0].0,
        };
        sums.windows(2).map(sample).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::curve::ProgressPoint;

    fn log(group: usize, points: &[(u64, u64)]) -> WorkerLog {
        let mut curve = ProgressCurve::new(points.len(), 1);
        points.iter().for_each(|(ns, done)| curve.add(ProgressPoint { ns: *ns, done: *done }));
        WorkerLog { group, start_ns: points[0].0, end_ns: points[points.len() - 1].0, curve }
    }

    const PLAN: SlicePlan = SlicePlan { slice_ns: 100, slices: 3 };

    #[test]
    fn groups_share_slices_after_a_warm_up() {
        let logs = [
            log(0, &[(0, 0), (1000, 2000)]),
            log(1, &[(100, 0), (600, 500)]),
            log(1, &[(50, 0), (550, 500)]),
        ];
        let cuts = SliceBounds::new(&logs, PLAN, false);
        assert_eq!((cuts.span(), cuts.start_skew_ns), (Some((200, 500)), 100));
        assert_eq!(cuts.samples(&logs, 0), [IoSample { bytes: 200, ns: 100 }; 3]);
        assert_eq!(cuts.samples(&logs, 1), [IoSample { bytes: 200, ns: 100 }; 3]);
    }

    #[test]
    fn complete_slices_of_an_interrupted_run_count() {
        let logs = [log(0, &[(0, 0), (350, 350)]), log(1, &[(0, 0), (290, 290)])];
        let cuts = SliceBounds::new(&logs, PLAN, false);
        assert_eq!(cuts.samples(&logs, 0), [IoSample { bytes: 100, ns: 100 }]);
        let early = [log(0, &[(0, 0), (150, 300)])];
        assert_eq!(SliceBounds::new(&early, PLAN, false).span(), None);
        assert!(SliceBounds::new(&early, PLAN, false).samples(&early, 0).is_empty());
        assert_eq!(
            SliceBounds::new(&early, PLAN, true).samples(&early, 0),
            [IoSample { bytes: 300, ns: 150 }]
        );
    }
}
