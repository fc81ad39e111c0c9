//! State of one task during measurement.

use super::task::{Measured, Rule, StopReason, Task};
use super::visit::VisitOutcome;
use numaio_machine::probe::ProbeError;
use numaio_schema::{PooledNoise, Reading, ReadingVisit, Summary};

/// Visits after which an unsettled task is given up.
const MOST_VISITS: usize = 60;
/// Visits with misplaced pages after which a task is given up.
const MAX_EXCLUDED: usize = 3;
/// Visits of a recheck.
const RECHECK_VISITS: usize = 3;

pub(super) struct State {
    pub task: Task,
    visits: Vec<ReadingVisit>,
    /// Values of the summary: those of the visits, or all samples with fixed repetitions.
    pub values: Vec<f64>,
    /// Medians by which the task is settled, or all samples with fixed repetitions.
    pub medians: Vec<f64>,
    /// Bandwidths of loading threads in valid visits.
    loads: Vec<f64>,
    summary: Option<Summary>,
    of_medians: Option<Summary>,
    failure: Option<ProbeError>,
    /// No further visit is possible: permanent failure, or the tape is exhausted.
    ended: bool,
    settled: bool,
    /// Visits of a recheck still to make.
    owed: usize,
    rechecked: bool,
}

impl State {
    /// Creates the state of an unvisited task.
    pub fn new(task: Task) -> Self {
        Self {
            visits: Vec::new(),
            values: Vec::new(),
            medians: Vec::new(),
            loads: Vec::new(),
            summary: None,
            of_medians: None,
            failure: task.impossible.clone(),
            ended: task.impossible.is_some(),
            settled: false,
            owed: 0,
            rechecked: false,
            task,
        }
    }

    /// Returns whether the task needs another visit.
    pub fn wants_visit(&self, rule: &Rule) -> bool {
        let enough = match rule.fixed {
            true => !self.values.is_empty(),
            false => (self.settled && self.owed == 0) || self.visits.len() >= MOST_VISITS,
        };
        !self.ended && !enough
    }

    /// Returns whether the task was visited or cannot be visited.
    pub fn reached(&self) -> bool {
        self.ended || !self.visits.is_empty()
    }

    /// Adds the outcome of a visit.
    pub fn add(&mut self, round: u32, taken: VisitOutcome, rule: &Rule) {
        self.owed = self.owed.saturating_sub(1);
        if taken.excluded.is_none() {
            match rule.fixed {
                true => {
                    self.values.extend(&taken.samples);
                    self.medians.extend(&taken.samples);
                }
                false => {
                    self.values.push(taken.value);
                    self.medians.push(taken.median);
                }
            }
            self.loads.extend(taken.load);
        }
        self.visits.push(ReadingVisit {
            round,
            median: taken.value,
            min: taken.samples.iter().copied().fold(f64::INFINITY, f64::min),
            max: taken.samples.iter().copied().fold(0.0, f64::max),
            samples: taken.samples.len() as u32,
            start_skew_ns: taken.start_skew_ns,
            residency: taken.residency,
            excluded: taken.excluded,
        });
        let excluded = self.visits.iter().filter(|visit| visit.excluded.is_some()).count();
        self.ended |= self.values.is_empty() && excluded >= MAX_EXCLUDED;
    }

    /// Records a failed visit, which ends the task.
    pub fn fail(&mut self, error: ProbeError) {
        self.ended = true;
        // An exhausted tape is not a failure of a task that has visits.
        if self.values.is_empty() || !matches!(error, ProbeError::NotOnTape { .. }) {
            self.failure = Some(error);
        }
    }

    /// Updates the summary and whether the task is settled. `noise` is that of the values and that
    /// of the medians.
    pub fn summarize(&mut self, noise: [Option<PooledNoise>; 2], rule: &Rule) {
        self.summary = Summary::of(&self.values, noise[0]);
        self.of_medians = Summary::of(&self.medians, noise[1]);
        let within = self
            .of_medians
            .as_ref()
            .is_some_and(|summary| summary.n >= rule.least_visits && summary.settled(rule.precision));
        self.settled = within || (rule.fixed && self.summary.is_some());
    }

    /// Estimates the number of further visits.
    pub fn visits_ahead(&self, rule: &Rule) -> f64 {
        let (seen, least) = (self.visits.len() as f64, f64::from(rule.least_visits));
        match &self.of_medians {
            _ if !self.wants_visit(rule) => 0.0,
            _ if rule.fixed => 1.0,
            Some(summary) if seen >= least => {
                let excess = (summary.relative_half_width() / rule.precision).powi(2);
                (seen * (excess - 1.0)).clamp(1.0, 50.0)
            }
            _ => (least - seen).max(1.0),
        }
    }

    /// Returns the median of the visits' medians.
    pub fn median(&self) -> Option<f64> {
        self.of_medians.as_ref().map(|summary| summary.median)
    }

    /// Requests a recheck, once; false if not possible.
    pub fn request_recheck(&mut self) -> bool {
        let first = !self.ended && !self.rechecked;
        if first {
            self.rechecked = true;
            self.owed = RECHECK_VISITS;
        }
        first
    }

    /// Returns the reason for a missing result or missing visits.
    fn failure(&self) -> Option<ProbeError> {
        let aside = self.visits.iter().find_map(|visit| visit.excluded.clone());
        let aside = aside.filter(|_| self.values.is_empty());
        let misplaced =
            || aside.map(|why| ProbeError::Refused { call: "all visits set aside".into(), reason: why });
        self.failure.clone().or_else(misplaced)
    }

    /// Returns the result of the task.
    pub fn measured(self, stop_reason: Option<StopReason>) -> Measured {
        let failure = self.failure();
        let never =
            stop_reason.filter(|_| !self.reached()).map(|cut| format!("{cut} before its first visit"));
        Measured {
            load: Summary::of(&self.loads, None),
            recheck_incomplete: self.owed > 0,
            reading: Reading {
                visits: self.visits,
                summary: self.summary,
                settled: self.settled,
                failure: failure.as_ref().map(ProbeError::to_string).or(never),
            },
            failure,
        }
    }
}
