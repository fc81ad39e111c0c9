//! Robust statistics of repeated measurements.

use serde::{Deserialize, Serialize};

/// Median and spread of a sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// Number of values.
    pub n: u32,
    /// Median; of a bimodal sample the median of the larger level, because few values are between
    /// them.
    pub median: f64,
    /// Median absolute deviation from the median, not scaled.
    pub mad: f64,
    /// Lower end of the 95 % interval of the median.
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
    /// The method of the interval.
    pub interval: IntervalKind,
    /// Lowest value.
    pub min: f64,
    /// Highest value.
    pub max: f64,
    /// Drift over time: median of the later half over that of the earlier half, minus 1.
    pub drift: f64,
    /// The levels of a multimodal sample; empty otherwise.
    pub modes: Vec<Mode>,
}

/// A level of a bimodal sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Mode {
    /// Median of the values at this level.
    pub median: f64,
    /// Share of the values at this level.
    pub share: f64,
}

/// The method by which the interval of a median was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IntervalKind {
    /// Between two order statistics, by the binomial distribution of ranks around the median.
    /// Assumes no distribution of values; needs six of them.
    OrderStatistics,
    /// Student's t with the pooled noise of all cells of the campaign, for too few values for order
    /// statistics. Covers at least the range of values.
    PooledNoise,
    /// The range of the values: too few values for a 95 % interval.
    Range,
}

/// Noise of repeated measurements, estimated over many cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PooledNoise {
    /// Standard deviation of one value, relative to its cell's mean.
    pub relative_sd: f64,
    /// Degrees of freedom of the estimate.
    pub freedom: u32,
}

/// Minimum degrees of freedom to apply the pooled noise to a cell.
const MIN_FREEDOM: u32 = 8;

impl Summary {
    /// Summarizes values in order of time; `None` without values. `noise` is used for cells with
    /// few values.
    pub fn of(values: &[f64], noise: Option<PooledNoise>) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let modes = modes(&sorted);
        // Median and interval of a bimodal sample are those of the larger level.
        let level = dominant_level(&sorted, &modes);
        let middle = median_of_sorted(level)?;
        let (low, high, interval) = interval(level, middle, noise);
        let deviations: Vec<f64> = level.iter().map(|value| (value - middle).abs()).collect();
        let (early, late) = values.split_at(values.len() / 2);
        let drift = match (median(early), median(late)) {
            (Some(early), Some(late)) if early > 0.0 => late / early - 1.0,
            _ => 0.0,
        };
        Some(Self {
            n: values.len() as u32,
            median: middle,
            mad: median(&deviations)?,
            low,
            high,
            interval,
            min,
            max,
            drift,
            modes,
        })
    }

    /// Returns half the width of the interval, relative to the median.
    pub fn relative_half_width(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.median
    }

    /// Returns whether the 95 % interval is within this share of the median.
    pub fn settled(&self, precision: f64) -> bool {
        self.interval != IntervalKind::Range && self.relative_half_width() <= precision
    }
}

impl PooledNoise {
    /// Computes the noise of cells, each a list of repeated measurements; `None` if no cell was
    /// repeated.
    pub fn of<'a>(cells: impl IntoIterator<Item = &'a [f64]>) -> Option<Self> {
        let (mut squares, mut freedom) = (0.0, 0);
        for values in cells.into_iter().filter(|values| values.len() > 1) {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            squares += values.iter().map(|value| (value / mean - 1.0).powi(2)).sum::<f64>();
            freedom += values.len() as u32 - 1;
        }
        (freedom > 0).then(|| Self { relative_sd: (squares / f64::from(freedom)).sqrt(), freedom })
    }
}

/// Returns the values of the level with the greatest share; all values if there is one level.
fn dominant_level<'a>(sorted: &'a [f64], modes: &[Mode]) -> &'a [f64] {
    let [lower, upper] = modes else { return sorted };
    let split = (lower.share * sorted.len() as f64).round() as usize;
    if upper.share > lower.share {
        &sorted[split..]
    } else {
        &sorted[..split]
    }
}

fn interval(sorted: &[f64], middle: f64, noise: Option<PooledNoise>) -> (f64, f64, IntervalKind) {
    let n = sorted.len();
    let (min, max) = (sorted[0], sorted[n - 1]);
    if let Some(rank) = rank_below_median(n) {
        return (sorted[rank], sorted[n - 1 - rank], IntervalKind::OrderStatistics);
    }
    match noise.filter(|noise| n >= 2 && noise.freedom >= MIN_FREEDOM) {
        Some(noise) => {
            // The median of n normal values has about pi/2 times the variance of their mean.
            let error = noise.relative_sd * (std::f64::consts::FRAC_PI_2 / n as f64).sqrt();
            let half = student_t(noise.freedom) * error * middle;
            (min.min(middle - half), max.max(middle + half), IntervalKind::PooledNoise)
        }
        None => (min, max, IntervalKind::Range),
    }
}

/// Returns the index of the lower end of the 95 % interval of the median of `n` sorted values: the
/// largest `l` with P(B <= l) <= 2.5 % for B binomial(n, 1/2); `None` for n < 6.
fn rank_below_median(n: usize) -> Option<usize> {
    if n > 500 {
        let rank = n as f64 / 2.0 - 0.98 * (n as f64).sqrt();
        return Some(rank.floor() as usize - 1);
    }
    let mut term = 0.5f64.powi(n as i32);
    let mut sum = 0.0;
    let mut rank = None;
    for below in 0..n / 2 {
        sum += term;
        if sum > 0.025 {
            break;
        }
        rank = Some(below);
        term *= (n - below) as f64 / (below + 1) as f64;
    }
    rank
}

/// Returns the 97.5 % quantile of Student's t (Cornish-Fisher expansion; within 0.5 % from five
/// degrees on).
fn student_t(freedom: u32) -> f64 {
    let (z, v) = (1.959964f64, f64::from(freedom));
    z + (z.powi(3) + z) / (4.0 * v) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * v * v)
}

/// Minimum distance between two levels, relative to the lower one.
const MIN_LEVEL_DISTANCE: f64 = 0.03;

/// Returns the levels of sorted values.
///
/// Two levels need two groups with at least two values and a fifth of all values each, and a gap of
/// more than twice the width of either group.
fn modes(sorted: &[f64]) -> Vec<Mode> {
    let n = sorted.len();
    let smallest = 2.max(n.div_ceil(5));
    let gap = |split: usize| sorted[split] - sorted[split - 1];
    let Some(split) = (smallest..(n + 1).saturating_sub(smallest)).max_by(|a, b| gap(*a).total_cmp(&gap(*b)))
    else {
        return Vec::new();
    };
    let width = (sorted[split - 1] - sorted[0]).max(sorted[n - 1] - sorted[split]);
    if gap(split) <= 2.0 * width || gap(split) <= MIN_LEVEL_DISTANCE * sorted[split - 1] {
        return Vec::new();
    }
    let mode = |values: &[f64]| {
        let share = values.len() as f64 / n as f64;
        median_of_sorted(values).map(|median| Mode { median, share })
    };
    mode(&sorted[..split]).into_iter().chain(mode(&sorted[split..])).collect()
}

/// Returns the median; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Summary {
        Summary::of(values, None).expect("values")
    }

    #[test]
    fn ranks_match_published_tables() {
        // Conover, Practical Nonparametric Statistics, table of the binomial distribution, p = 1/2.
        let ranks = [5, 6, 8, 9, 11, 12, 15, 20, 100].map(rank_below_median);
        let wanted = [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(3), Some(5), Some(39)];
        assert_eq!(ranks, wanted);
    }

    #[test]
    fn normal_approximation_continues_exact_ranks() {
        let (exact, near) = (rank_below_median(500), rank_below_median(501));
        assert!(exact.zip(near).is_some_and(|(exact, near)| exact.abs_diff(near) <= 1), "{exact:?} {near:?}");
    }

    #[test]
    fn single_outlier_of_nine_does_not_change_median_or_interval() {
        let summary = of(&[100.0, 101.0, 99.0, 100.5, 20.0, 99.5, 100.2, 99.8, 100.1]);
        assert_eq!((summary.median, summary.low, summary.high), (100.0, 99.0, 100.5));
        assert_eq!((summary.n, summary.min, summary.modes.len()), (9, 20.0, 0));
        assert!(summary.settled(0.02));
    }

    #[test]
    fn two_levels_are_reported_not_averaged() {
        let summary = of(&[100.0, 60.0, 101.0, 60.5, 100.5, 61.0, 100.2, 99.9, 100.1, 60.2]);
        let levels: Vec<f64> = summary.modes.iter().map(|mode| mode.median).collect();
        assert_eq!(levels, [60.35, 100.15]);
        assert_eq!((summary.median, summary.modes[1].share), (100.15, 0.6));
        assert!(summary.low > 99.0);
        let even = of(&[60.0, 60.1, 60.2, 100.0, 100.1, 100.2]);
        assert_eq!(even.median, 60.1, "of two equal levels, the lower one counts");
    }

    #[test]
    fn few_values_need_pooled_noise() {
        let values = [100.0, 100.4, 99.8];
        assert!(!of(&values).settled(0.02), "three values give no 95 % interval");
        let quiet = PooledNoise { relative_sd: 0.005, freedom: 30 };
        let noisy = PooledNoise { relative_sd: 0.05, freedom: 30 };
        let with = |noise| Summary::of(&values, Some(noise)).expect("values");
        assert!(with(quiet).settled(0.02));
        assert!(!with(noisy).settled(0.02));
        assert!(!with(PooledNoise { relative_sd: 0.005, freedom: 2 }).settled(0.02));
    }

    #[test]
    fn pooled_noise_is_computed_over_cells() {
        let noise = PooledNoise::of([&[99.0, 101.0][..], &[198.0, 202.0], &[7.0]]).expect("repeated");
        assert_eq!(noise.freedom, 2);
        assert!((noise.relative_sd - 0.02f64.hypot(0.0) / 2f64.sqrt()).abs() < 1e-12, "{noise:?}");
        assert_eq!(PooledNoise::of([&[1.0][..]]), None);
    }

    #[test]
    fn drift_compares_later_and_earlier_half() {
        assert!((of(&[100.0, 100.0, 110.0, 110.0]).drift - 0.1).abs() < 1e-12);
        assert_eq!(Summary::of(&[], None), None);
        assert!((student_t(10) - 2.228).abs() < 0.01 && (student_t(30) - 2.042).abs() < 0.001);
    }

    #[test]
    fn pooled_noise_gives_students_t_interval() {
        let noise = |freedom| Some(PooledNoise { relative_sd: 0.01, freedom });
        let same = Summary::of(&[100.0; 3], noise(30)).expect("values");
        // 2.042 times 1 % times the root of pi/2 over 3.
        assert!((same.relative_half_width() - 0.014_78).abs() < 1e-5, "{same:?}");
        assert!((same.low - 98.522).abs() < 1e-3 && (same.high - 101.478).abs() < 1e-3, "{same:?}");
        let wide = Summary::of(&[90.0, 100.0, 100.1], noise(30)).expect("values");
        assert_eq!((wide.low, wide.interval), (90.0, IntervalKind::PooledNoise), "covers at least the range");
        let kinds = [(1, 30), (2, 7), (2, 8)]
            .map(|(n, freedom)| Summary::of(&vec![1.0; n], noise(freedom)).map(|summary| summary.interval));
        assert_eq!(kinds, [IntervalKind::Range, IntervalKind::Range, IntervalKind::PooledNoise].map(Some));
    }

    #[test]
    fn levels_are_two_distant_groups() {
        let levels = |values: &[f64]| of(values).modes.len();
        assert_eq!(levels(&[100.0, 100.1, 104.0, 104.1]), 2);
        assert_eq!(levels(&[100.0, 100.1, 103.0, 103.1]), 0, "less than 3 % apart");
        assert_eq!(levels(&[100.0, 102.0, 106.1, 107.9]), 2);
        assert_eq!(levels(&[100.0, 102.0, 106.0, 107.9]), 0, "no gap of twice the width");
        assert_eq!(levels(&[60.0, 100.0, 100.1, 100.2]), 0, "one value is an outlier");
        let low_of = |n: usize| [vec![60.0; 2], vec![100.0; n - 2]].concat();
        assert_eq!((levels(&low_of(10)), levels(&low_of(11))), (2, 0), "less than a fifth");
    }

    #[test]
    fn spread_is_per_level_and_drift_is_by_time() {
        let summary = of(&[100.0, 60.0, 101.0, 60.0, 102.0, 60.0, 101.0, 99.0]);
        assert_eq!((summary.median, summary.mad, summary.min), (101.0, 1.0, 60.0));
        assert!((of(&[110.0, 110.0, 100.0, 100.0]).drift + 1.0 / 11.0).abs() < 1e-12);
    }
}
