//! Repeated measurements of one value.

use crate::Summary;
use numaio_machine::probe::Residency;
use serde::{Deserialize, Serialize};

/// Stopping criteria of a campaign in rounds, and its progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Rounds {
    /// Half width of the 95 % interval of a median, relative to it, at which a reading is settled.
    pub precision: f64,
    /// Time limit in seconds.
    pub time_limit_s: f64,
    /// Time spent on the machine, in seconds: buffers, checks and runs.
    pub elapsed_s: f64,
    /// Seed of the order of visits.
    pub seed: u64,
    /// Rounds started.
    pub rounds: u32,
}

/// Repeated measurements of one value.
///
/// The name of the containing field states the unit: `bytes_per_s`, `ns_per_load`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Reading {
    /// The visits in order of time.
    pub visits: Vec<ReadingVisit>,
    /// Summary of the values of the visits; `None` if nothing was measured.
    pub summary: Option<Summary>,
    /// Whether the interval is within the precision.
    pub settled: bool,
    /// Why the summary is missing, or why visits failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// One visit: a run with fresh buffers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ReadingVisit {
    /// The round.
    pub round: u32,
    /// Median of the samples; of I/O their mean, which is all bytes over all time.
    pub median: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Number of samples.
    pub samples: u32,
    /// Time between the first and the last thread's start; 0 for a single thread.
    #[serde(default)]
    pub start_skew_ns: u64,
    /// The nodes of the pages.
    pub residency: Residency,
    /// Why the visit is excluded from the summary: its pages were not on the requested nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<String>,
}

impl Reading {
    /// Returns the median if it is finite and positive.
    pub fn median(&self) -> Option<f64> {
        self.summary.as_ref().map(|summary| summary.median).filter(|value| value.is_finite() && *value > 0.0)
    }

    /// Returns the largest sample of the included visits: the best bandwidth, as STREAM reports it.
    pub fn largest(&self) -> Option<f64> {
        self.included_visits().map(|visit| visit.max).max_by(f64::total_cmp)
    }

    /// Returns the smallest sample of the included visits: the best latency.
    pub fn smallest(&self) -> Option<f64> {
        self.included_visits().map(|visit| visit.min).min_by(f64::total_cmp)
    }

    fn included_visits(&self) -> impl Iterator<Item = &ReadingVisit> {
        self.visits.iter().filter(|visit| visit.excluded.is_none())
    }
}
