//! Robust center and scale of small samples, and their degrees of freedom.

/// Makes Qn consistent for the normal distribution: 1 / (sqrt(2) * quantile(5/8)).
const QN_CONSTANT: f64 = 2.219_144_465_985_08;

/// Factors that make Qn unbiased for 2 to 40 normal values (Akinshin, "Finite-sample
/// Rousseeuw-Croux scale estimators", arXiv:2209.12268, which refines Croux and Rousseeuw, 1992).
const QN_FACTORS: [f64; 39] = [
    0.3995, 0.9939, 0.5133, 0.8441, 0.6122, 0.8589, 0.6700, 0.8736, 0.7201, 0.8890, 0.7575, 0.9023, 0.7855,
    0.9125, 0.8078, 0.9211, 0.8260, 0.9279, 0.8410, 0.9338, 0.8537, 0.9389, 0.8644, 0.9430, 0.8737, 0.9468,
    0.8819, 0.9501, 0.8890, 0.9530, 0.8953, 0.9557, 0.9010, 0.9579, 0.9060, 0.9600, 0.9106, 0.9619, 0.9148,
];

/// Degrees of freedom of the square of Qn of 2 to 16 normal values: twice its squared mean over its
/// variance, from 10^6 samples each. With them, the quantiles of
/// (value - median) / (Qn sqrt(1 + variance of the median)) at 10^-2, 10^-3 and 10^-4 are those of
/// Student's t within 5 % from six values on, and below those of t with fewer.
const QN_FREEDOM: [f64; 15] =
    [1.0, 0.79, 1.74, 1.79, 3.04, 3.04, 4.33, 4.45, 5.73, 5.84, 7.13, 7.28, 8.6, 8.77, 10.03];

/// Mean of the square of the unbiased Qn of 2 to 16 normal values of variance 1, from the same
/// samples.
const QN_SQUARE: [f64; 15] = [
    1.5693, 1.6844, 1.2938, 1.2891, 1.172, 1.1694, 1.1182, 1.1162, 1.091, 1.0866, 1.0718, 1.0709, 1.0594,
    1.058, 1.0503,
];

/// Variance of the median of 1 to 16 normal values of variance 1, from the same samples.
const MEDIAN_VARIANCE: [f64; 16] = [
    1.0, 0.5, 0.4492, 0.2984, 0.2868, 0.2148, 0.211, 0.1681, 0.1662, 0.1382, 0.1373, 0.1175, 0.1167, 0.102,
    0.1018, 0.0904,
];

/// An estimator of variance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Estimator {
    /// The square of Qn (Rousseeuw and Croux, JASA 1993), which half of the values cannot break.
    Qn,
    /// The sample variance, for values without outliers.
    Variance,
}

/// Center and variance of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Number of values.
    pub n: usize,
    /// The median.
    pub center: f64,
    /// Unbiased variance of a value; 0 with fewer than two values.
    pub variance: f64,
    /// Degrees of freedom of the variance; 0 with fewer than two values.
    pub freedom: f64,
}

impl Sample {
    /// Describes the values, which are sorted by this; `None` without values.
    pub fn of(values: &mut [f64], estimator: Estimator) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let n = values.len();
        let center = sorted_median(values)?;
        let (variance, freedom) = match (n, estimator) {
            (0 | 1, _) => (0.0, 0.0),
            (_, Estimator::Qn) => {
                let qn = qn(values) * QN_CONSTANT * qn_factor(n);
                (qn * qn / qn_square(n), qn_freedom(n))
            }
            (_, Estimator::Variance) => {
                let mean = values.iter().sum::<f64>() / n as f64;
                let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
                (squares / (n - 1) as f64, (n - 1) as f64)
            }
        };
        Some(Self { n, center, variance, freedom })
    }

    /// Returns the variance of the median, relative to that of a value.
    pub fn center_variance(&self) -> f64 {
        median_variance(self.n)
    }
}

/// Returns the variance of the median of `n` normal values, relative to that of one: asymptotically
/// pi / 2n.
pub(super) fn median_variance(n: usize) -> f64 {
    let asymptotic = std::f64::consts::FRAC_PI_2 / n.max(1) as f64;
    n.checked_sub(1).and_then(|index| MEDIAN_VARIANCE.get(index)).copied().unwrap_or(asymptotic)
}

fn sorted_median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let upper = *sorted.get(n / 2)?;
    Some(if n % 2 == 1 { upper } else { (sorted[n / 2 - 1] + upper) / 2.0 })
}

fn qn_factor(n: usize) -> f64 {
    let size = n as f64;
    QN_FACTORS.get(n - 2).copied().unwrap_or_else(|| match n % 2 {
        1 => 1.0 - 1.594 / size + 3.22 / (size * size),
        _ => 1.0 - 3.672 / size + 11.087 / (size * size),
    })
}

/// Returns the degrees of freedom of Qn's square; asymptotically 82.27 % of the values, Qn's
/// efficiency (Rousseeuw and Croux, 1993). The offset fits samples of 20 to 32 values.
fn qn_freedom(n: usize) -> f64 {
    QN_FREEDOM.get(n - 2).copied().unwrap_or(0.8227 * n as f64 - 3.6)
}

fn qn_square(n: usize) -> f64 {
    QN_SQUARE.get(n - 2).copied().unwrap_or(1.0 + 0.5 / qn_freedom(n))
}

/// Above this number of values, Qn is found by bisection instead of by all pairs.
const MOST_PAIRED: usize = 24;

/// Returns the k-th smallest distance of two of at least two sorted values, k = h (h - 1) / 2 with
/// h = n / 2 + 1.
fn qn(sorted: &[f64]) -> f64 {
    let h = sorted.len() / 2 + 1;
    let k = h * (h - 1) / 2;
    if sorted.len() <= MOST_PAIRED {
        let mut distances = [0.0; MOST_PAIRED * (MOST_PAIRED - 1) / 2];
        let mut pairs = 0;
        for (index, low) in sorted.iter().enumerate() {
            for high in &sorted[index + 1..] {
                distances[pairs] = high - low;
                pairs += 1;
            }
        }
        return *distances[..pairs].select_nth_unstable_by(k - 1, f64::total_cmp).1;
    }
    let (mut low, mut high) = (0.0, sorted[sorted.len() - 1] - sorted[0]);
    // 40 halvings of the range leave a relative error far below the sampling error.
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        match pairs_within(sorted, middle) >= k {
            true => high = middle,
            false => low = middle,
        }
    }
    high
}

/// Counts the pairs of sorted values whose distance is at most `distance`.
fn pairs_within(sorted: &[f64], distance: f64) -> usize {
    let (mut pairs, mut first) = (0, 0);
    for (index, value) in sorted.iter().enumerate() {
        while value - sorted[first] > distance {
            first += 1;
        }
        pairs += index - first;
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qn_by_bisection_is_that_of_all_pairs() {
        let mut values: Vec<f64> = (0..41).map(|i| f64::from(i * i * 7919 % 1009) / 100.0).collect();
        values.sort_by(f64::total_cmp);
        let mut distances: Vec<f64> =
            (0..41).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| values[i] - values[j]).collect();
        distances.sort_by(f64::total_cmp);
        assert!((qn(&values) - distances[21 * 20 / 2 - 1]).abs() < 1e-9);
    }

    #[test]
    fn qn_ignores_outliers_and_the_variance_does_not() {
        let mut values = [10.0, 10.1, 9.9, 10.05, 9.95, 10.02, 5.0];
        let robust = Sample::of(&mut values, Estimator::Qn).expect("a sample");
        let classic = Sample::of(&mut values, Estimator::Variance).expect("a sample");
        assert!((robust.center - 10.0).abs() < 1e-9 && robust.variance.sqrt() < 0.2, "{robust:?}");
        assert!(classic.variance.sqrt() > 1.5 && classic.freedom == 6.0, "{classic:?}");
    }

    #[test]
    fn tables_join_their_asymptotes() {
        assert!((qn_factor(40) - qn_factor(42)).abs() < 0.01);
        assert!((qn_freedom(16) - qn_freedom(17)).abs() < 1.0);
        assert!((median_variance(16) - median_variance(17)).abs() < 0.01);
        assert_eq!(Sample::of(&mut [], Estimator::Qn), None);
        assert_eq!(Sample::of(&mut [1.0], Estimator::Qn).map(|one| one.freedom), Some(0.0));
    }
}
