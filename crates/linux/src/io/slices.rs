//! What streams did in slices of time that all of them share.

use crate::probe::curve::ProgressCurve;
use crate::probe::window::SlicePlan;
use numaio_machine::probe::IoSample;

/// What one lane did.
pub struct WorkerLog {
    /// Index of its group.
    pub group: usize,
    /// When it started, in nanoseconds.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Bytes over time.
    pub curve: ProgressCurve,
}

/// Time that all lanes share, cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceBounds {
    /// Ends of the slices, the first one the end of the warm-up.
    at: Vec<u64>,
    /// Time between the first and the last lane's start, in nanoseconds.
    pub start_skew_ns: u64,
}

impl SliceBounds {
    /// Slices that all lanes ran through, from the last one's start on; the first is a warm-up. Of a run that was meant
    /// to end early and did so before the first slice, all of it is one slice.
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

    /// From when to when samples are taken.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((*self.at.first()?, *self.at.last()?))
    }

    /// What a group did in each slice.
    pub fn samples(&self, logs: &[WorkerLog], group: usize) -> Vec<IoSample> {
        let all_at = |ns: &u64| {
            let of = logs.iter().filter(|log| log.group == group);
            of.map(|log| log.curve.at(*ns)).sum::<f64>().round() as u64
        };
        // Sums at the cuts are rounded, not the slices: so the slices add up to what was done.
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
    fn groups_have_the_same_slices_and_the_first_is_a_warm_up() {
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
    fn of_a_run_that_was_cut_whole_slices_count() {
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
