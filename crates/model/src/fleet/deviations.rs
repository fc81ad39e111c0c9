//! Deviations of the figures of each host from those of its group.
//!
//! A host is compared on three levels: all its figures together, those of each node and device
//! relative to the host, and each figure. Each level has a p-value, combined by Simes over its
//! hypotheses, and the host's is the smallest times the number of levels (Bonferroni). A figure
//! that deviates by less than the required share has the p-value 1.

use super::discovery::simes;
use super::fit::{fit, Fit, Score, MOST_POOLED};
use super::scale::Estimator;
use super::table::Table;
use numaio_schema::{FigureKey, FigureScope};

/// Up to this number of references, each host is compared with all others but itself; with more,
/// its own share in center and scale is negligible.
const MOST_EXCLUDED: usize = 16;
/// Hosts with a p-value below this are no references in the second pass.
const SUSPECT: f64 = 0.005;
/// Fewest figures with a common deviation.
const LEAST_COMMON: usize = 3;

/// A family of figures with pooled scales: quantity and unit.
pub(super) fn families(keys: &[&FigureKey]) -> Vec<u32> {
    let name = |key: &FigureKey| (key.quantity.clone(), key.unit.clone());
    let mut names: Vec<_> = keys.iter().map(|key| name(key)).collect();
    names.sort();
    names.dedup();
    let family = |key: &&FigureKey| names.binary_search(&name(key)).unwrap_or(0) as u32;
    keys.iter().map(family).collect()
}

/// Figures that can deviate together, as rows of a table.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub of: FigureScope,
    pub rows: Vec<usize>,
}

/// Returns the nodes and devices with several figures.
pub(super) fn scopes(keys: &[&FigureKey]) -> Vec<Scope> {
    let mut nodes: Vec<_> = keys.iter().flat_map(|key| [key.from, key.to]).flatten().collect();
    nodes.sort();
    nodes.dedup();
    let mut devices: Vec<&str> = keys.iter().map(|key| key.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    let rows = |has: &dyn Fn(&FigureKey) -> bool| (0..keys.len()).filter(|&row| has(keys[row])).collect();
    let of_nodes = nodes.iter().map(|&node| Scope {
        of: FigureScope::Node { node },
        rows: rows(&|key| key.device.is_empty() && (key.from == Some(node) || key.to == Some(node))),
    });
    let of_devices = devices.iter().filter(|device| !device.is_empty()).map(|&device| Scope {
        of: FigureScope::Device { device: device.to_owned() },
        rows: rows(&|key| key.device == device),
    });
    let common = |scope: &Scope| (LEAST_COMMON..keys.len()).contains(&scope.rows.len());
    of_nodes.chain(of_devices).filter(common).collect()
}

/// Fits of the rows of a table, and of its summaries.
type Fits = (Vec<Option<Fit>>, Vec<Option<Fit>>);

/// A table with everything that each of its columns is compared with.
#[derive(Debug)]
pub(super) struct Comparison {
    table: Table,
    families: Vec<u32>,
    scopes: Vec<Scope>,
    /// Row 0: median deviation of all figures of each column. Row `i`: that of scope `i - 1`, less
    /// row 0, so that it is about the node, not the host.
    summaries: Table,
    summary_families: Vec<u32>,
    references: Vec<usize>,
    estimator: Estimator,
    least: f64,
    /// Fits of the table and the summaries, if all columns share them.
    shared: Option<Fits>,
}

/// The deviation in one column.
#[derive(Debug, Clone, Default)]
pub(super) struct Assessment {
    /// Deviating figures: row, score and p-value.
    pub figures: Vec<(usize, Score, f64)>,
    /// Deviating summaries: scope (`None`: all figures), number of figures, total deviation and
    /// p-value.
    pub summaries: Vec<(Option<usize>, usize, f64, f64)>,
    /// Number of compared figures.
    pub compared: usize,
    /// Combined p-value; `None` if nothing was compared.
    pub p: Option<f64>,
}

impl Comparison {
    /// Prepares the comparison of all columns with `references`. The first pass has a robust scale;
    /// columns that deviate in it are no references in the second one, whose scale is more precise.
    pub fn new(
        table: Table,
        families: Vec<u32>,
        scopes: Vec<Scope>,
        references: Vec<usize>,
        least: f64,
    ) -> Self {
        let mut comparison = Self {
            summaries: Table::default(),
            summary_families: (0..=scopes.len()).map(|row| u32::from(row > 0)).collect(),
            table,
            families,
            scopes,
            references,
            estimator: Estimator::Qn,
            least,
            shared: None,
        };
        comparison.prepare();
        if comparison.references.len() > MOST_POOLED {
            return comparison;
        }
        let suspect = |&column: &usize| {
            comparison.assess(column).iter().any(|direction| direction.p.is_some_and(|p| p < SUSPECT))
        };
        let kept: Vec<usize> =
            comparison.references.iter().copied().filter(|column| !suspect(column)).collect();
        if kept.len() >= 3 && 2 * kept.len() >= comparison.references.len() {
            comparison.references = kept;
            comparison.estimator = Estimator::Variance;
            comparison.prepare();
        }
        comparison
    }

    /// Returns the nodes and devices with several figures.
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// Returns the compared values.
    pub fn table(&self) -> &Table {
        &self.table
    }

    fn prepare(&mut self) {
        self.summaries = self.summarize();
        let excluded = self.references.len() <= MOST_EXCLUDED;
        self.shared = (!excluded).then(|| self.fits(None));
    }

    /// Fits the table and the summaries to the references except a column.
    fn fits(&self, except: Option<usize>) -> Fits {
        let fit = |table, families| fit(table, families, &self.references, except, self.estimator);
        (fit(&self.table, &self.families), fit(&self.summaries, &self.summary_families))
    }

    /// Returns the median deviations of all figures and of each scope.
    fn summarize(&self) -> Table {
        let (rows, columns) = (self.table.rows, self.table.columns);
        let mut summaries = Table::new(1 + self.scopes.len(), columns);
        let mut values = Vec::new();
        let centers: Vec<f64> = (0..rows)
            .map(|row| {
                values.clear();
                values.extend(self.references.iter().map(|&column| self.table.value(row, column)));
                values.retain(|value| !value.is_nan());
                median(&mut values)
            })
            .collect();
        let mut errors = Vec::new();
        for column in 0..columns {
            let mut common = |rows: &mut dyn Iterator<Item = usize>| {
                values.clear();
                errors.clear();
                for row in rows {
                    let deviation = self.table.value(row, column) - centers[row];
                    if !deviation.is_nan() {
                        values.push(deviation);
                        errors.push(self.table.error(row, column));
                    }
                }
                let enough = values.len() >= LEAST_COMMON;
                enough.then(|| (median(&mut values), median(&mut errors)))
            };
            let Some((host, error)) = common(&mut (0..rows)) else { continue };
            summaries.set(0, column, host, error);
            for (index, scope) in self.scopes.iter().enumerate() {
                if let Some((of_scope, error)) = common(&mut scope.rows.iter().copied()) {
                    summaries.set(index + 1, column, of_scope - host, error);
                }
            }
        }
        summaries
    }

    /// Compares a column with the references, in the bad and in the good direction.
    pub fn assess(&self, column: usize) -> [Assessment; 2] {
        let own;
        let (fits, summary_fits) = match &self.shared {
            Some(fits) => fits,
            None => {
                own = self.fits(Some(column));
                &own
            }
        };
        [false, true].map(|better| self.assess_with(fits, summary_fits, column, better))
    }

    fn assess_with(
        &self,
        fits: &[Option<Fit>],
        summary_fits: &[Option<Fit>],
        column: usize,
        better: bool,
    ) -> Assessment {
        let mut assessment = Assessment::default();
        let mut levels: [Vec<f64>; 3] = Default::default();
        for (row, fit) in summary_fits.iter().enumerate() {
            let Some((score, p)) = self.score(&self.summaries, row, column, fit, better) else { continue };
            levels[usize::from(row > 0)].push(p);
            if p < 1.0 {
                let host = if row > 0 { self.summaries.value(0, column) } else { 0.0 };
                let scope = row.checked_sub(1);
                let figures = scope.map_or(self.table.rows, |scope| self.scopes[scope].rows.len());
                assessment.summaries.push((scope, figures, host + score.deviation, p));
            }
        }
        for (row, fit) in fits.iter().enumerate() {
            let Some((score, p)) = self.score(&self.table, row, column, fit, better) else { continue };
            levels[2].push(p);
            if p < 1.0 {
                assessment.figures.push((row, score, p));
            }
        }
        assessment.compared = levels[2].len();
        let tested = levels.iter().filter(|level| !level.is_empty()).count() as f64;
        let p = levels.iter_mut().filter(|level| !level.is_empty()).map(|level| simes(level) * tested);
        assessment.p = p.reduce(f64::min).map(|p| p.min(1.0));
        assessment
    }

    /// Scores a value; its p-value is 1 if it deviates by less than the required share.
    fn score(
        &self,
        table: &Table,
        row: usize,
        column: usize,
        fit: &Option<Fit>,
        better: bool,
    ) -> Option<(Score, f64)> {
        let value = table.value(row, column);
        let fit = fit.as_ref().filter(|_| !value.is_nan())?;
        let score = fit.score(value, table.error(row, column));
        let least = (1.0 - self.least).ln();
        let deviates = if better { score.deviation >= -least } else { score.deviation <= least };
        Some((score, if deviates { score.p(better) } else { 1.0 }))
    }

    /// Returns the center of a row and the number of values, as the column is compared with.
    pub fn expected(&self, row: usize, column: usize) -> Option<(f64, usize)> {
        let except = self.shared.is_none().then_some(column);
        let compared = self.references.iter().filter(|&&other| Some(other) != except);
        let mut values: Vec<f64> = compared.map(|&other| self.table.value(row, other)).collect();
        values.retain(|value| !value.is_nan());
        (!values.is_empty()).then(|| (median(&mut values), values.len()))
    }

    /// Returns the smallest deviations, as shares, that have a p-value of at most `p` for the host
    /// and, with the correction for the number of figures, for one figure.
    pub fn detectable(&self, p: f64) -> (Option<f64>, Option<f64>) {
        let own;
        let (fits, summaries) = match &self.shared {
            Some(fits) => fits,
            // As a healthy host would be compared.
            None => {
                own = self.fits(self.references.first().copied());
                &own
            }
        };
        let levels = if self.scopes.is_empty() { 2.0 } else { 3.0 };
        let fitted: Vec<&Fit> = fits.iter().flatten().collect();
        let one = p / levels / fitted.len().max(1) as f64;
        let mut shares: Vec<f64> =
            fitted.iter().map(|fit| fit.detectable(one).unwrap_or(f64::INFINITY)).collect();
        let figure = (!shares.is_empty()).then(|| median(&mut shares)).filter(|share| share.is_finite());
        let together = summaries.first().copied().flatten().and_then(|fit| fit.detectable(p / levels));
        // A deviation of all figures is one of each, too: Simes finds it with the level's p-value.
        let mut each: Vec<f64> =
            fitted.iter().map(|fit| fit.detectable(p / levels).unwrap_or(f64::INFINITY)).collect();
        let each = (!each.is_empty()).then(|| median(&mut each)).filter(|share| share.is_finite());
        let host = together.into_iter().chain(each).reduce(f64::min);
        (host.map(|share| share.max(self.least)), figure.map(|share| share.max(self.least)))
    }

    /// Returns the median move of all figures over all columns, and the number of columns with one.
    pub fn common_move(&self) -> Option<(f64, usize)> {
        let mut of_hosts: Vec<f64> = (0..self.table.columns)
            .filter_map(|column| {
                let mut values = self.table.column(column).to_vec();
                values.retain(|value| !value.is_nan());
                (!values.is_empty()).then(|| median(&mut values))
            })
            .collect();
        (of_hosts.len() >= LEAST_COMMON).then(|| (median(&mut of_hosts), of_hosts.len()))
    }
}

/// Returns the median; NaN without values. Reorders the values.
fn median(values: &mut [f64]) -> f64 {
    let n = values.len();
    if n == 0 {
        return f64::NAN;
    }
    let (below, &mut upper, _) = values.select_nth_unstable_by(n / 2, f64::total_cmp);
    match n % 2 {
        1 => upper,
        _ => (below.iter().copied().fold(f64::NEG_INFINITY, f64::max) + upper) / 2.0,
    }
}
