//! What repeated measurements of one thing gave, and where they come from.

use crate::{MachineSource, Summary, Warning};
use numaio_machine::conditions::Conditions;
use numaio_machine::probe::Residency;
use numaio_machine::topology::Identity;
use serde::{Deserialize, Serialize};

/// Where measurements come from: the head of every record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of numaio that measured.
    pub numaio: String,
    /// Seconds since 1970 at which the campaign began; of a tape, at which it was recorded.
    pub measured_at: u64,
    /// The machine.
    pub machine: Identity,
    /// Whether it was this machine, a tape or a simulation.
    pub source: MachineSource,
    /// Conditions before the first and after the last measurement.
    pub conditions: (Conditions, Conditions),
    /// What makes the figures doubtful, and why.
    pub warnings: Vec<Warning>,
    /// Whether everything that was asked for has a figure that settled within the precision. False after an
    /// interrupt, a time limit, or something that could not be measured.
    pub complete: bool,
}

/// When a campaign in rounds ends, and what it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rounds {
    /// Half width of the 95 % interval of a median, relative to it, at which a reading is settled.
    pub precision: f64,
    /// Time limit in seconds.
    pub time_limit_s: f64,
    /// Time spent on the machine, in seconds: buffers, checks and runs.
    pub elapsed_s: f64,
    /// Seed of the order of visits.
    pub seed: u64,
    /// Rounds begun.
    pub rounds: u32,
}

/// Repeated measurements of one thing. The unit is that of the field which holds it: `bytes_per_s`,
/// `ns_per_load`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Visits in order of time.
    pub visits: Vec<ReadingVisit>,
    /// Over the medians of the visits. None if nothing was measured.
    pub summary: Option<Summary>,
    /// Whether the interval is within the precision.
    pub settled: bool,
    /// Why there is no figure, or why visits failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// One visit: fresh buffers, one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadingVisit {
    /// The round.
    pub round: u32,
    /// Median of the samples.
    pub median: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Number of samples.
    pub samples: u32,
    /// Time between the first and the last thread's start; 0 of a single thread.
    #[serde(default)]
    pub start_skew_ns: u64,
    /// Where the pages were.
    pub residency: Residency,
    /// Why this visit is left out of the summary, if it is: its pages were not where they were bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<String>,
}

impl Reading {
    /// The median, if there is a figure.
    pub fn median(&self) -> Option<f64> {
        self.summary.as_ref().map(|summary| summary.median).filter(|value| value.is_finite() && *value > 0.0)
    }

    /// The largest sample of the visits that count: the best of a bandwidth, as STREAM reports it.
    pub fn largest(&self) -> Option<f64> {
        self.counted().map(|visit| visit.max).max_by(f64::total_cmp)
    }

    /// The smallest sample of the visits that count: the best of a latency.
    pub fn smallest(&self) -> Option<f64> {
        self.counted().map(|visit| visit.min).min_by(f64::total_cmp)
    }

    fn counted(&self) -> impl Iterator<Item = &ReadingVisit> {
        self.visits.iter().filter(|visit| visit.set_aside.is_none())
    }
}
