//! A single run of a workload, with its outcome in a common form.

use crate::engine::VisitFigures;
use numaio_machine::probe::{Outcome, Probe, ProbeError, Residency};
use numaio_machine::workload::Workload;
use numaio_schema::median;

/// Share of misplaced pages that invalidates a visit.
const MISPLACED: f64 = 0.01;

/// Outcome of a visit.
pub(crate) struct VisitOutcome {
    /// Bytes per second, or nanoseconds per load, in order of time.
    pub samples: Vec<f64>,
    /// Their median, by which a campaign decides when to stop. Above 0.
    pub median: f64,
    /// Value of the visit: the median, or of I/O all bytes over all time. Above 0.
    pub value: f64,
    /// Bandwidth of loading threads, in bytes per second.
    pub load: Option<f64>,
    pub elapsed_ns: u64,
    pub start_skew_ns: u64,
    pub residency: Residency,
    /// Reason why the visit is invalid, if it is.
    pub excluded: Option<String>,
}

/// Runs a workload once.
pub(super) fn run_visit(probe: &dyn Probe, workload: &Workload) -> Result<VisitOutcome, ProbeError> {
    of_outcome(workload, probe.run(workload)?)
}

/// Converts the outcome of a workload.
pub(crate) fn of_outcome(workload: &Workload, outcome: Outcome) -> Result<VisitOutcome, ProbeError> {
    let taken = match (workload, outcome) {
        (Workload::Copy(_), Outcome::Copy(outcome)) => VisitOutcome {
            samples: outcome.samples.iter().map(|sample| sample.bytes_copied_per_s()).collect(),
            start_skew_ns: outcome.start_skew_ns,
            ..VisitOutcome::of(outcome.elapsed_ns, outcome.residency)
        },
        (Workload::Stream(_), Outcome::Stream(outcome)) => VisitOutcome {
            samples: outcome.samples.iter().map(|sample| sample.bytes_per_s()).collect(),
            start_skew_ns: outcome.start_skew_ns,
            ..VisitOutcome::of(outcome.elapsed_ns, outcome.residency)
        },
        (Workload::Latency(_), Outcome::Latency(outcome)) => {
            let ended = outcome.samples.iter().filter(|sample| sample.loads > 0);
            let samples = ended.map(|sample| sample.ns_per_load()).collect();
            let mut taken =
                VisitOutcome { samples, ..VisitOutcome::of(outcome.elapsed_ns, outcome.residency) };
            if let Some(load) = outcome.load {
                taken.excluded = taken.excluded.or_else(|| misplaced(&load.residency));
                taken.load = Some(load.bytes_read_per_s());
            }
            taken
        }
        _ => return Err(ProbeError::OtherOutcome),
    };
    taken.with_figure(workload)
}

impl VisitOutcome {
    /// Converts the figures of I/O streams. An interrupted run is invalid.
    pub fn from_figures(figures: &VisitFigures) -> Self {
        let mut taken = Self::of(figures.elapsed_ns, figures.residency.clone());
        taken.samples = figures.bytes_per_s();
        taken.start_skew_ns = figures.start_skew_ns;
        taken.excluded = figures.ended_early.clone().or(taken.excluded);
        taken
    }

    /// Sets the median and the value. Samples of I/O have equal lengths, so that their mean is all
    /// bytes over all time. Their median is too high for a device that stalls in some of them, and
    /// too low for one that serves bursts in some of them; a campaign stops by the medians, because
    /// few stalls change them less, and because recorded runs then stop where they did.
    pub fn with_figure(mut self, workload: &Workload) -> Result<Self, ProbeError> {
        let value = match workload {
            Workload::Io(_) | Workload::Tool(_) => mean(&self.samples),
            _ => median(&self.samples),
        };
        let both = median(&self.samples).zip(value).filter(|(middle, value)| *middle > 0.0 && *value > 0.0);
        (self.median, self.value) = both.ok_or_else(|| match self.excluded.take() {
            Some(why) => ProbeError::Refused { call: "a visit".to_owned(), reason: why },
            None => nothing(workload),
        })?;
        Ok(self)
    }

    fn of(elapsed_ns: u64, residency: Residency) -> Self {
        let excluded = misplaced(&residency);
        Self {
            samples: Vec::new(),
            median: 0.0,
            value: 0.0,
            load: None,
            elapsed_ns,
            start_skew_ns: 0,
            residency,
            excluded,
        }
    }
}

/// Returns the mean of values, or `None` without values.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn nothing(workload: &Workload) -> ProbeError {
    let (what, did) = match workload {
        Workload::Copy(_) => ("copy", "nothing was copied"),
        Workload::Stream(_) => ("STREAM", "nothing was read or written"),
        Workload::Latency(_) => ("pointer chase", "no load completed"),
        Workload::Io(_) => ("I/O", "nothing was moved"),
        Workload::Ping(_) => ("ping-pong", "no message returned"),
        Workload::Mmio(_) => ("MMIO", "no read completed"),
        Workload::Tool(tool) => (tool.program.as_str(), "nothing was measured"),
        Workload::Program(program) => (program.program(), "nothing was measured"),
        Workload::Counted(_) => ("counted workload", "nothing was measured"),
        Workload::Loaded(loaded) => return nothing(&loaded.workload),
    };
    ProbeError::Refused { call: what.to_owned(), reason: format!("{did} during sampling") }
}

/// Returns the reason if misplaced pages invalidate a visit.
pub(crate) fn misplaced(residency: &Residency) -> Option<String> {
    let checked = residency.pages_checked.filter(|checked| *checked > 0)?;
    let share = residency.pages_misplaced as f64 / checked as f64;
    let on = residency.misplaced_on.map(|node| format!(", as on node {node}")).unwrap_or_default();
    (share > MISPLACED).then(|| {
        format!(
            "{} of {checked} pages were not on the node they were bound to{on}",
            residency.pages_misplaced
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::NodeId;

    /// Four samples of 48.4 and one of 42.4: the device moved 47.2 on average.
    #[test]
    fn a_visit_of_io_counts_all_bytes_over_all_time() {
        use numaio_machine::workload::{IoPath, IoWorkload, Sampling};
        let io = Workload::Io(IoWorkload {
            path: IoPath::Null,
            others: Vec::new(),
            groups: Vec::new(),
            block_bytes: 1,
            depth: 1,
            sampling: Sampling::Window { milliseconds: 500, slices: 5 },
            max_bytes: None,
        });
        let figures =
            VisitFigures { groups: vec![vec![48.4, 48.4, 42.4, 48.4, 48.4]], ..VisitFigures::default() };
        let visit = VisitOutcome::from_figures(&figures).with_figure(&io).expect("a figure");
        assert!((visit.value - 47.2).abs() < 1e-9, "{}", visit.value);
        assert_eq!(visit.median, 48.4);
        let none = VisitFigures::default();
        assert!(VisitOutcome::from_figures(&none).with_figure(&io).is_err());
    }

    #[test]
    fn one_percent_of_misplaced_pages_is_tolerated() {
        let context = |pages_checked, pages_misplaced| {
            let found_on = Some(NodeId(3));
            misplaced(&Residency { pages_checked, pages_misplaced, misplaced_on: found_on, huge_bytes: 0 })
        };
        assert_eq!((context(Some(100), 1), context(Some(0), 0), context(None, 7)), (None, None, None));
        let why = "2 of 199 pages were not on the node they were bound to, as on node 3";
        assert_eq!(context(Some(199), 2).as_deref(), Some(why));
    }
}
