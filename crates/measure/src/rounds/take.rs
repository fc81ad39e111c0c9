//! One visit: a workload run once, its outcome in the form that all kinds share.

use numaio_machine::probe::{IoOutcome, Outcome, Probe, ProbeError, Residency};
use numaio_machine::workload::Workload;
use numaio_schema::median;

/// Share of misplaced pages from which a visit did not measure what it was to measure.
const MISPLACED: f64 = 0.01;

/// What a visit gave.
pub(super) struct Taken {
    /// Bytes per second, or nanoseconds a load, in order of time.
    pub samples: Vec<f64>,
    /// Their median; above 0.
    pub median: f64,
    /// What loading threads read meanwhile, in bytes per second.
    pub load: Option<f64>,
    pub elapsed_ns: u64,
    pub start_skew_ns: u64,
    pub residency: Residency,
    /// Why this did not measure what it was to measure, if it did not.
    pub set_aside: Option<String>,
}

/// Runs a workload once.
pub(super) fn take(probe: &dyn Probe, workload: &Workload) -> Result<Taken, ProbeError> {
    let mut taken = match (workload, probe.run(workload)?) {
        (Workload::Copy(_), Outcome::Copy(outcome)) => Taken {
            samples: outcome.samples.iter().map(|sample| sample.bytes_copied_per_s()).collect(),
            start_skew_ns: outcome.start_skew_ns,
            ..Taken::of(outcome.elapsed_ns, outcome.residency)
        },
        (Workload::Stream(_), Outcome::Stream(outcome)) => Taken {
            samples: outcome.samples.iter().map(|sample| sample.bytes_per_s()).collect(),
            start_skew_ns: outcome.start_skew_ns,
            ..Taken::of(outcome.elapsed_ns, outcome.residency)
        },
        (Workload::Latency(_), Outcome::Latency(outcome)) => {
            let ended = outcome.samples.iter().filter(|sample| sample.loads > 0);
            let samples = ended.map(|sample| sample.ns_per_load()).collect();
            let mut taken = Taken { samples, ..Taken::of(outcome.elapsed_ns, outcome.residency) };
            if let Some(load) = outcome.load {
                taken.set_aside = taken.set_aside.or_else(|| misplaced(&load.residency));
                taken.load = Some(load.bytes_read_per_s());
            }
            taken
        }
        (Workload::Io(_), Outcome::Io(outcome)) => of_io(&outcome),
        _ => return Err(ProbeError::OtherOutcome),
    };
    taken.median = median(&taken.samples).filter(|middle| *middle > 0.0).ok_or_else(|| nothing(workload))?;
    Ok(taken)
}

/// Streams of all groups together; pages of one group in the wrong place spoil the visit.
fn of_io(outcome: &IoOutcome) -> Taken {
    let mut residency = Residency { pages_checked: Some(0), ..Residency::default() };
    for group in outcome.groups.iter().map(|group| &group.residency) {
        let both = residency.pages_checked.zip(group.pages_checked);
        residency.pages_checked = both.map(|(one, other)| one + other);
        residency.pages_misplaced += group.pages_misplaced;
        residency.huge_bytes += group.huge_bytes;
        residency.found_on = residency.found_on.or(group.found_on);
    }
    let mut taken = Taken::of(outcome.elapsed_ns, residency);
    taken.samples = outcome.bytes_per_s();
    taken.start_skew_ns = outcome.start_skew_ns;
    let spoilt = outcome.groups.iter().find_map(|group| misplaced(&group.residency));
    taken.set_aside = outcome.cut.clone().or(spoilt);
    taken
}

impl Taken {
    fn of(elapsed_ns: u64, residency: Residency) -> Self {
        let set_aside = misplaced(&residency);
        Self {
            samples: Vec::new(),
            median: 0.0,
            load: None,
            elapsed_ns,
            start_skew_ns: 0,
            residency,
            set_aside,
        }
    }
}

fn nothing(workload: &Workload) -> ProbeError {
    let (what, did) = match workload {
        Workload::Copy(_) => ("copy", "nothing was copied"),
        Workload::Stream(_) => ("STREAM", "nothing was read or written"),
        Workload::Latency(_) => ("pointer chase", "no load ended"),
        Workload::Io(_) => ("I/O", "nothing was moved"),
        Workload::Tool(tool) => (tool.program.as_str(), "it measured nothing"),
    };
    ProbeError::Refused { what: what.to_owned(), why: format!("{did} while time was taken") }
}

/// Why pages make a visit worth nothing, if they do.
fn misplaced(residency: &Residency) -> Option<String> {
    let checked = residency.pages_checked.filter(|checked| *checked > 0)?;
    let share = residency.pages_misplaced as f64 / checked as f64;
    let on = residency.found_on.map(|node| format!(", as on node {node}")).unwrap_or_default();
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

    #[test]
    fn one_page_in_a_hundred_may_be_elsewhere() {
        let told = |pages_checked, pages_misplaced| {
            let found_on = Some(NodeId(3));
            misplaced(&Residency { pages_checked, pages_misplaced, found_on, huge_bytes: 0 })
        };
        assert_eq!((told(Some(100), 1), told(Some(0), 0), told(None, 7)), (None, None, None));
        let why = "2 of 199 pages were not on the node they were bound to, as on node 3";
        assert_eq!(told(Some(199), 2).as_deref(), Some(why));
    }
}
