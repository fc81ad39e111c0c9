//! Figures of the page, and grids of them.

use crate::number_format::{greatest, NumberFormat};
use crate::style::clean;
use numaio_machine::ids::NodeId;
use numaio_schema::{median, IntervalKind, NodeValue, Reading, Summary};
use serde_json::{json, Value};
use std::collections::BTreeSet;

/// A measured or stated value, in the unit of its document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure {
    pub(super) value: f64,
    /// 95 % interval; equal to the value if stated instead of measured.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Number of visits; 0 if stated.
    pub(super) n: u32,
    pub(super) drift: f64,
    /// Whether the interval is just the range, since there are too few visits.
    pub(super) range_only: bool,
    pub(super) settled: bool,
    /// Rank of its class, if any.
    pub(super) class: Option<u32>,
}

impl Figure {
    pub(super) fn from_summary(summary: &Summary, settled: bool) -> Self {
        Self {
            value: summary.median,
            low: summary.low,
            high: summary.high,
            n: summary.n,
            drift: summary.drift,
            range_only: summary.interval == IntervalKind::Range,
            settled,
            class: None,
        }
    }

    /// Returns the figure of a reading, if it has one.
    pub(super) fn reading(reading: &Reading) -> Option<Self> {
        reading.median()?;
        reading.summary.as_ref().map(|summary| Self::from_summary(summary, reading.settled))
    }

    /// Returns the figure of a node: the median and range of its cores, or its single figure.
    fn of_cores(figures: &[Self]) -> Option<Self> {
        if let [one] = figures {
            return Some(*one);
        }
        let values: Vec<f64> = figures.iter().map(|figure| figure.value).collect();
        let drifts: Vec<f64> = figures.iter().map(|figure| figure.drift).collect();
        Some(Self {
            value: median(&values)?,
            low: values.iter().copied().fold(f64::INFINITY, f64::min),
            high: greatest(values.iter().copied()),
            n: figures.len() as u32,
            drift: median(&drifts)?,
            range_only: false,
            settled: figures.iter().all(|figure| figure.settled),
            class: None,
        })
    }

    /// Returns the figure of a node in a view.
    pub(super) fn stated(node: &NodeValue, class: Option<u32>) -> Self {
        let (low, high) = node.interval.unwrap_or((node.value, node.value));
        let NodeValue { value, n, drift, .. } = *node;
        Self { value, low, high, n, drift, range_only: false, settled: true, class }
    }

    /// Returns half the width of the interval, relative to the value.
    pub(super) fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.value
    }

    /// Describes the figure in full, for a tooltip.
    pub(super) fn description(&self, scale: &NumberFormat) -> String {
        if self.n == 0 {
            return format!("{} {}, stated", scale.format(self.value), scale.unit()).trim().to_owned();
        }
        format!(
            "{} {}, 95 % {} to {}, n {}, drift {}",
            scale.format(self.value),
            scale.unit(),
            scale.format(self.low),
            scale.format(self.high),
            self.n,
            signed_percent(self.drift)
        )
    }
}

/// Formats a half width: `±0.8 %`; empty if it is not finite.
pub(super) fn plus_minus(share: f64) -> String {
    if share.is_finite() {
        format!("±{:.1} %", share * 100.0)
    } else {
        String::new()
    }
}

/// Formats a signed share: `+0.3 %`, `−1.2 %`.
pub(super) fn signed_percent(share: f64) -> String {
    let percent = (share * 1000.0).round() / 10.0;
    let sign = match percent {
        percent if percent > 0.0 => "+",
        percent if percent < 0.0 => "−",
        _ => "",
    };
    format!("{sign}{:.1} %", percent.abs())
}

/// The figures of a chart or matrix, by row and column.
pub(super) struct Grid {
    /// The id of its table on the page.
    pub(super) id: String,
    /// The subject, such as `STREAM copy`.
    pub(super) what: String,
    pub(super) scale: NumberFormat,
    /// Ids of rows and columns.
    pub(super) rows: Vec<u32>,
    pub(super) columns: Vec<u32>,
    /// Figures in row-major order.
    pub(super) cells: Vec<Option<Figure>>,
}

/// Matrices with more columns use a small font and fewer digits.
pub(super) const MANY: usize = 20;

impl Grid {
    /// Creates a grid of node pairs; `None` marks a missing figure.
    ///
    /// Several figures of one pair belong to the cores of the row's node and are combined.
    pub(super) fn of_pairs(
        id: String,
        what: String,
        scale: impl Fn(f64) -> NumberFormat,
        pairs: &[(NodeId, NodeId, Option<Figure>)],
    ) -> Self {
        let rows: BTreeSet<u32> = pairs.iter().map(|(row, ..)| row.0).collect();
        let columns: BTreeSet<u32> = pairs.iter().map(|(_, column, _)| column.0).collect();
        let (rows, columns): (Vec<u32>, Vec<u32>) =
            (rows.into_iter().collect(), columns.into_iter().collect());
        let mut cells = vec![Vec::new(); rows.len() * columns.len()];
        for (row, column, figure) in pairs {
            if let (Ok(row), Ok(column)) = (rows.binary_search(&row.0), columns.binary_search(&column.0)) {
                cells[row * columns.len() + column].extend(*figure);
            }
        }
        let cells: Vec<Option<Figure>> = cells.iter().map(|figures| Figure::of_cores(figures)).collect();
        let most = greatest(cells.iter().flatten().map(|figure| figure.value));
        let scale = if columns.len() > MANY { scale(most).compact(most) } else { scale(most) };
        Self { id, what, scale, rows, columns, cells }
    }

    /// Returns all figures, without missing ones.
    pub(super) fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.cells.iter().flatten()
    }

    /// Returns the figures of a row.
    pub(super) fn row(&self, index: usize) -> &[Option<Figure>] {
        let columns = self.columns.len();
        self.cells.get(index * columns..(index + 1) * columns).unwrap_or_default()
    }

    /// Returns row, column and figure of every cell with a figure.
    pub(super) fn named(&self) -> impl Iterator<Item = (u32, u32, &Figure)> {
        let columns = self.columns.len().max(1);
        self.cells.iter().enumerate().filter_map(move |(index, figure)| {
            let (row, column) = (self.rows.get(index / columns)?, self.columns.get(index % columns)?);
            Some((*row, *column, figure.as_ref()?))
        })
    }

    /// Returns the grid as JSON for the page's script.
    ///
    /// Values are in the displayed unit, with six digits. The interval's reach below and above the
    /// value, and the drift, are in parts of 10,000 of the value.
    pub(super) fn json(&self) -> Value {
        let numbers = |of: &dyn Fn(&Figure) -> Value| -> Vec<Value> {
            self.cells.iter().map(|cell| cell.as_ref().map_or(Value::Null, of)).collect()
        };
        json!({
            "id": self.id,
            "what": clean(&self.what),
            "unit": self.scale.unit(),
            "rows": self.rows,
            "columns": self.columns,
            "value": numbers(&|figure| six_digits(self.scale.number(figure.value))),
            "below": numbers(&|figure| parts((figure.value - figure.low) / figure.value)),
            "above": numbers(&|figure| parts((figure.high - figure.value) / figure.value)),
            "n": numbers(&|figure| json!(figure.n)),
            "drift": numbers(&|figure| parts(figure.drift)),
        })
    }
}

/// Converts a share to parts of 10,000.
fn parts(share: f64) -> Value {
    json!((share * 1e4).round() as i64)
}

/// Rounds a number to six digits, more than the precision of any measurement.
fn six_digits(value: f64) -> Value {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        return json!(rounded as i64);
    }
    json!(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_six_digits() {
        assert_eq!(six_digits(104.234_567).to_string(), "104.235");
        assert_eq!(six_digits(104_234_567.0).to_string(), "104235000");
        assert_eq!(six_digits(-0.000_012_345_678).to_string(), "-0.0000123457");
        assert_eq!(six_digits(f64::NAN), Value::Null);
    }

    #[test]
    fn shares_have_a_sign_unless_zero() {
        assert_eq!(
            [0.003, -0.0123, 0.0, -0.0001].map(signed_percent),
            ["+0.3 %", "−1.2 %", "0.0 %", "0.0 %"]
        );
        assert_eq!(plus_minus(0.008), "±0.8 %");
        assert_eq!(plus_minus(f64::NAN), "");
    }
}
