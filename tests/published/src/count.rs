//! Pairs of nodes whose order is right or wrong.

use std::cmp::Ordering;
use std::ops::AddAssign;

/// Observed rates within this share of the greater one are equal: the noise of single runs.
pub const EQUAL: f64 = 0.03;

/// Counted pairs of nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// All pairs.
    pub pairs: usize,
    /// The order is the opposite.
    pub misordered: usize,
    /// A difference is predicted, and none was observed.
    pub invented: usize,
    /// A difference was observed, and none is predicted.
    pub missed: usize,
    /// Nothing is predicted.
    pub refused: usize,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.pairs += other.pairs;
        self.misordered += other.misordered;
        self.invented += other.invented;
        self.missed += other.missed;
        self.refused += other.refused;
    }
}

impl Count {
    /// Returns the number of pairs that are ranked as observed.
    pub fn right(&self) -> usize {
        self.pairs - self.misordered - self.invented - self.missed - self.refused
    }

    /// Counts the pairs of observed values. `predicted` orders two nodes by position; `None`
    /// refuses.
    pub fn of(observed: &[Option<f64>], predicted: impl Fn(usize, usize) -> Option<Ordering>) -> Self {
        let mut count = Self::default();
        for (one, first) in observed.iter().enumerate() {
            for (other, second) in observed.iter().enumerate().take(one) {
                let (Some(first), Some(second)) = (first, second) else { continue };
                count.pairs += 1;
                match (predicted(one, other), order(*first, *second)) {
                    (None, _) => count.refused += 1,
                    (Some(predicted), seen) if predicted == seen => {}
                    (Some(Ordering::Equal), _) => count.missed += 1,
                    (Some(_), Ordering::Equal) => count.invented += 1,
                    (Some(_), _) => count.misordered += 1,
                }
            }
        }
        count
    }
}

/// Returns the order of two rates.
pub fn order(one: f64, other: f64) -> Ordering {
    match (one - other).abs() <= EQUAL * one.max(other) {
        true => Ordering::Equal,
        false => one.total_cmp(&other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_counts_once() {
        let observed = [Some(10.0), Some(9.8), Some(5.0), None];
        let by = |predicted: [f64; 3]| {
            Count::of(&observed, |one, other| Some(predicted[one].total_cmp(&predicted[other])))
        };
        let right = Count { pairs: 3, ..Count::default() };
        assert_eq!(by([2.0, 2.0, 1.0]), right);
        assert_eq!(by([1.0, 1.0, 1.0]), Count { missed: 2, ..right });
        assert_eq!(by([1.0, 2.0, 3.0]), Count { misordered: 2, invented: 1, ..right });
        assert_eq!(Count::of(&observed, |_, _| None), Count { refused: 3, ..right });
    }
}
