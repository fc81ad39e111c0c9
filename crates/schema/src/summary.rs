//! Robust statistics of repeated measurements.

use serde::{Deserialize, Serialize};

/// Median and spread of a sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of values.
    pub n: u32,
    /// Median.
    pub median: f64,
    /// Median absolute deviation from the median, not scaled.
    pub mad: f64,
    /// Lower end of the interval that covers the median with at least 95 % confidence.
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
    /// Whether there are values enough for 95 %; if not, the interval is from the least to the greatest.
    pub covers: bool,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// Median of the later half over that of the earlier half, less one: drift over time.
    pub drift: f64,
    /// Levels around which the values lie if they are more than one; empty otherwise.
    pub modes: Vec<Mode>,
}

/// One level of a bimodal sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mode {
    /// Median of the values at this level.
    pub median: f64,
    /// Share of the values that are at this level.
    pub share: f64,
}

/// The median; none of nothing. The mean of the middle two where there are two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}
