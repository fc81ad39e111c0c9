//! Expected figures of a group: center, scale and degrees of freedom of each.

use super::scale::{Estimator, Sample};
use super::table::Table;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Smallest standard deviation that is believed: no figure is stable below 0.2 %.
const LEAST_DEVIATION: f64 = 0.002;
/// Fewest figures of a family whose scales are pooled.
const LEAST_FAMILY: usize = 4;
/// With more hosts, the scale of each figure is precise enough by itself.
pub(super) const MOST_POOLED: usize = 64;
/// Smallest squared correlation of two figures of a host that is assumed; a few hosts cannot show
/// that there is none.
const LEAST_CORRELATION: f64 = 0.1;
/// Squared correlation that is assumed where two hosts cannot show any.
const UNKNOWN_CORRELATION: f64 = 0.5;
/// Degrees of freedom that count as infinite.
const MANY: f64 = 1e6;

/// Center and scale of a figure among reference hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fit {
    /// The sample, with pooled variance and degrees of freedom.
    pub sample: Sample,
    /// Typical variance of a value by its own interval; part of the sample's variance.
    own_variance: f64,
}

/// A value compared with its fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Score {
    /// Value less center: a logarithm, negative if worse.
    pub deviation: f64,
    /// The deviation in units of its standard error.
    pub t: f64,
    /// Degrees of freedom of the standard error.
    pub freedom: f64,
}

impl Fit {
    /// Compares a value that is not part of the sample. A value whose own interval is wider than
    /// usual has a larger standard error.
    pub fn score(&self, value: f64, error: f64) -> Score {
        let excess = (error * error - self.own_variance).max(0.0);
        let deviation = value - self.sample.center;
        Score { deviation, t: deviation / (self.spread() + excess).sqrt(), freedom: self.sample.freedom }
    }

    /// Returns the variance of the difference of a further value and the center.
    fn spread(&self) -> f64 {
        self.sample.variance.max(LEAST_DEVIATION * LEAST_DEVIATION) * (1.0 + self.sample.center_variance())
    }

    /// Returns the deviation, as a share, at which a value has this one-sided p-value; `None` if
    /// none below 100 % has.
    pub fn detectable(&self, p: f64) -> Option<f64> {
        let t = student(self.sample.freedom)?.inverse_cdf(1.0 - p);
        let share = 1.0 - (-t * self.spread().sqrt()).exp();
        (share.is_finite() && share < 0.99).then_some(share)
    }
}

impl Score {
    /// Returns the probability of at most this value by chance, or with `better` of at least it.
    pub fn p(&self, better: bool) -> f64 {
        let Some(student) = student(self.freedom) else { return 1.0 };
        let p = student.sf(if better { self.t } else { -self.t });
        if p.is_finite() {
            p
        } else {
            1.0
        }
    }
}

fn student(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom.min(MANY)).ok()
}

/// Fits each row of a table to the reference columns except one; `None` for rows with fewer than
/// two values.
///
/// The variances of rows of a family are pooled (see [`pool`]).
pub(super) fn fit(
    table: &Table,
    families: &[u32],
    references: &[usize],
    except: Option<usize>,
    estimator: Estimator,
) -> Vec<Option<Fit>> {
    let columns: Vec<usize> = references.iter().copied().filter(|&column| Some(column) != except).collect();
    let (mut values, mut errors) = (Vec::new(), Vec::new());
    let mut fits: Vec<Option<Fit>> = (0..table.rows)
        .map(|row| {
            values.clear();
            errors.clear();
            for &column in columns.iter().filter(|&&column| !table.value(row, column).is_nan()) {
                values.push(table.value(row, column));
                errors.push(table.error(row, column));
            }
            if values.len() < 2 {
                return None;
            }
            let middle = errors.len() / 2;
            let typical = *errors.select_nth_unstable_by(middle, f64::total_cmp).1;
            let sample = Sample::of(&mut values, estimator)?;
            Some(Fit { sample, own_variance: typical * typical })
        })
        .collect();
    if columns.len() <= MOST_POOLED {
        let mut rows: Vec<usize> = (0..table.rows).filter(|&row| fits[row].is_some()).collect();
        rows.sort_by_key(|&row| families[row]);
        for family in rows.chunk_by(|a, b| families[*a] == families[*b]) {
            if family.len() >= LEAST_FAMILY {
                pool(table, &columns, family, &mut fits);
            }
        }
    }
    fits
}

/// Pools the variances of a family of rows: figures of one quantity have similar relative noise,
/// and a few hosts estimate the scale of each badly.
///
/// The variance of a row is moderated as by Smyth (Statistical Applications in Genetics and
/// Molecular Biology 3, 2004): a weighted mean of its own and the family's, with the family's
/// weight from how much the variances scatter beyond their sampling error. The moments of the
/// inverse gamma distribution give the weight. Figures of a host are correlated, so that the pooled
/// variance of `F` rows has not `F` times the degrees of freedom of one, but `F / (1 + (F - 1)
/// r^2)` times, where `r^2` is the mean squared correlation of two rows.
fn pool(table: &Table, columns: &[usize], family: &[usize], fits: &mut [Option<Fit>]) {
    let samples: Vec<Sample> = family.iter().filter_map(|&row| Some(fits[row].as_ref()?.sample)).collect();
    let rows = samples.len() as f64;
    let mean = samples.iter().map(|sample| sample.variance).sum::<f64>() / rows;
    let freedom = samples.iter().map(|sample| sample.freedom).sum::<f64>() / rows;
    if mean.is_nan() || mean <= 0.0 {
        return;
    }
    let scatter =
        samples.iter().map(|sample| (sample.variance / mean - 1.0).powi(2)).sum::<f64>() / (rows - 1.0);
    let beyond_sampling = (scatter - 2.0 / freedom) / (1.0 + 2.0 / freedom);
    let weight = if beyond_sampling > 0.0 { 4.0 + 2.0 / beyond_sampling } else { MANY };
    let correlation = squared_correlation(table, columns, family, fits);
    let most = freedom * rows / (1.0 + (rows - 1.0) * correlation);
    for &row in family {
        if let Some(Fit { sample, .. }) = &mut fits[row] {
            let own = sample.freedom;
            sample.variance = (weight * mean + own * sample.variance) / (weight + own);
            sample.freedom = (weight + own).min(most).max(own);
        }
    }
}

/// Returns the mean squared correlation of two rows, less what chance gives, at least
/// [`LEAST_CORRELATION`]. Deviations are limited to 2.5 standard deviations, so that one faulty
/// host does not correlate all rows.
///
/// The sum over all pairs of rows is that over all pairs of columns of their squared inner
/// products.
fn squared_correlation(table: &Table, columns: &[usize], family: &[usize], fits: &[Option<Fit>]) -> f64 {
    let hosts = columns.len();
    let mut products = vec![0.0; hosts * hosts];
    let mut limited = vec![0.0; hosts];
    let mut rows = 0.0;
    for &row in family {
        let Some(Fit { sample, .. }) = &fits[row] else { continue };
        let scale = sample.variance.sqrt();
        for (value, &column) in limited.iter_mut().zip(columns) {
            let deviation = (table.value(row, column) - sample.center) / scale;
            *value = if deviation.is_nan() { 0.0 } else { deviation.clamp(-2.5, 2.5) };
        }
        let square: f64 = limited.iter().map(|value| value * value).sum();
        if square <= 0.0 {
            continue;
        }
        rows += 1.0;
        for (index, first) in limited.iter().enumerate() {
            let scaled = first / square;
            for (product, second) in products[index * hosts..(index + 1) * hosts].iter_mut().zip(&limited) {
                *product += scaled * second;
            }
        }
    }
    let sum: f64 = products.iter().map(|product| product * product).sum();
    let mean = (sum - rows) / (rows * (rows - 1.0)).max(1.0);
    if hosts < 3 {
        return UNKNOWN_CORRELATION;
    }
    let by_chance = 1.0 / (hosts as f64 - 1.0);
    ((mean - by_chance) / (1.0 - by_chance)).clamp(LEAST_CORRELATION, 1.0)
}
