//! Cumulative progress of a thread over time.

/// A moment and the cumulative count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressPoint {
    /// Nanoseconds since the team's epoch.
    pub ns: u64,
    /// Cumulative bytes, or another count.
    pub done: u64,
}

/// Progress points of one thread in ascending time, with a fixed capacity.
#[derive(Debug)]
pub struct ProgressCurve {
    /// Preallocated and touched: a running thread never allocates.
    points: Vec<ProgressPoint>,
    used: usize,
    /// Minimum time between two points.
    spacing_ns: u64,
}

impl ProgressCurve {
    /// Creates a curve that begins at `ns` with 0; the capacity is at least two points.
    pub fn new(capacity: usize, spacing_ns: u64) -> Self {
        // Not zeros: zeroed memory is mapped lazily and would be faulted in during the run.
        let points = vec![ProgressPoint { ns: u64::MAX, done: u64::MAX }; capacity.max(2)];
        Self { points, used: 0, spacing_ns }
    }

    /// Adds a point if it is far enough from the previous one. A full curve drops every second
    /// point and doubles the spacing, since a thread may run long before the others start.
    pub fn add(&mut self, point: ProgressPoint) {
        let last = self.used.checked_sub(1).map(|last| self.points[last]);
        if last.is_some_and(|last| point.ns < last.ns.saturating_add(self.spacing_ns)) {
            return;
        }
        if self.used == self.points.len() {
            self.thin_out();
        }
        self.points[self.used] = point;
        self.used += 1;
    }

    /// Adds the last point, regardless of the spacing.
    pub fn end(&mut self, point: ProgressPoint) {
        if self.used == self.points.len() {
            self.thin_out();
        }
        self.points[self.used] = point;
        self.used += 1;
    }

    fn thin_out(&mut self) {
        self.used = self.used.div_ceil(2);
        for index in 1..self.used {
            self.points[index] = self.points[index * 2];
        }
        self.spacing_ns = self.spacing_ns.saturating_mul(2);
    }

    /// Returns the count at `ns`, interpolated linearly and constant outside of the curve.
    pub fn at(&self, ns: u64) -> f64 {
        let points = &self.points[..self.used];
        let next = points.partition_point(|point| point.ns <= ns);
        match (next.checked_sub(1).map(|before| points[before]), points.get(next)) {
            (Some(before), Some(after)) => {
                let part = (ns - before.ns) as f64 / (after.ns - before.ns) as f64;
                before.done as f64 + (after.done - before.done) as f64 * part
            }
            (Some(end), None) => end.done as f64,
            (None, first) => first.map_or(0.0, |first| first.done as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(ns: u64, done: u64) -> ProgressPoint {
        ProgressPoint { ns, done }
    }

    #[test]
    fn interpolates_linearly_between_points() {
        let mut curve = ProgressCurve::new(8, 1);
        for (ns, done) in [(100, 0), (200, 1000), (400, 1000), (500, 5000)] {
            curve.add(point(ns, done));
        }
        for (ns, done) in [(0, 0.0), (100, 0.0), (150, 500.0), (300, 1000.0), (475, 4000.0), (900, 5000.0)] {
            assert_eq!(curve.at(ns), done, "at {ns}");
        }
        assert_eq!(ProgressCurve::new(0, 1).at(7), 0.0);
    }

    #[test]
    fn full_curve_drops_points_and_stays_exact() {
        let mut curve = ProgressCurve::new(16, 10);
        for ns in 0..10_000 {
            curve.add(point(ns, ns * 3));
        }
        curve.end(point(10_000, 30_000));
        assert!(curve.used <= 16);
        for ns in [0, 1, 777, 5_000, 9_999, 10_000] {
            assert!((curve.at(ns) - ns as f64 * 3.0).abs() < 1e-6, "at {ns}");
        }
    }
}
