//! The NUMA scheduling factor: coherence traffic × latency / width of the link.
//!
//! Equation 3.2 of Tan Li's dissertation leaves open how the three are obtained. The decisions are
//! in `docs/internals/scheduling-factor.md`.

use numaio_machine::counters::Counter;
use numaio_machine::ids::NodeId;
use numaio_machine::workload::StreamOp;
use numaio_schema::{
    CountedSubject, CounterCell, CounterRecord, FactorBasis, LatencyRecord, Reading, SchedulingFactor,
    SchedulingFactors, StreamRecord, WidthSource,
};

/// Counters of coherence traffic; the first one that was counted is used.
const TRAFFIC: [Counter; 3] = [Counter::SnoopResponses, Counter::NodeLoadMisses, Counter::RemoteDramLoads];

/// Computes the factor of each pair of nodes, for its largest number of threads.
///
/// `latency` is a saved measurement of idle latency. `stream` is a saved measurement of STREAM
/// copy, which is only needed for programs: STREAM and copies have a bandwidth of their own.
pub fn scheduling_factors(
    record: &CounterRecord,
    latency: Option<&LatencyRecord>,
    stream: Option<&StreamRecord>,
) -> SchedulingFactors {
    let missing = |why: &str| SchedulingFactors { missing: Some(why.to_owned()), ..Default::default() };
    let cells = largest_teams(record);
    if cells.is_empty() {
        return missing("no pair of nodes was measured");
    }
    let counted = TRAFFIC.into_iter().find(|counter| cells.iter().any(|cell| cell.value(*counter).is_some()));
    let Some(traffic) = counted else {
        return missing("no counter of coherence traffic was counted");
    };
    let Some(latency) = latency else {
        return missing("the latency of the pairs is unknown: numaio latency measures it");
    };
    let per_run = matches!(record.method.subject, CountedSubject::Program { .. });
    let width = match (per_run, stream) {
        (false, _) => WidthSource::Counted,
        (true, Some(stream)) => WidthSource::Stream { measured_at: stream.provenance.measured_at },
        (true, None) => return missing("the bandwidth of the pairs is unknown: numaio stream measures it"),
    };
    let inputs = Inputs { traffic, per_run, latency, stream };
    let pairs: Vec<SchedulingFactor> = cells.iter().filter_map(|cell| inputs.factor(cell)).collect();
    let lacking = cells.len() - pairs.len();
    let latency_measured_at = latency.provenance.measured_at;
    SchedulingFactors {
        basis: Some(FactorBasis { traffic, per_run, latency_measured_at, width }),
        pairs,
        missing: (lacking > 0).then(|| format!("{lacking} pairs lack a count, a latency or a bandwidth")),
    }
}

/// Returns the cells of pairs, each with its largest number of threads; of cells with prefetchers
/// on and off, those with prefetchers.
fn largest_teams(record: &CounterRecord) -> Vec<&CounterCell> {
    let mut largest: Vec<&CounterCell> = Vec::new();
    for cell in &record.cells {
        if cell.cpu_node.is_none() || cell.memory_node.is_none() || cell.prefetchers == Some(false) {
            continue;
        }
        let pair = |other: &&mut &CounterCell| {
            (other.cpu_node, other.memory_node) == (cell.cpu_node, cell.memory_node)
        };
        match largest.iter_mut().find(pair) {
            Some(known) if known.threads < cell.threads => *known = cell,
            Some(_) => {}
            None => largest.push(cell),
        }
    }
    largest
}

struct Inputs<'a> {
    traffic: Counter,
    per_run: bool,
    latency: &'a LatencyRecord,
    stream: Option<&'a StreamRecord>,
}

impl Inputs<'_> {
    fn factor(&self, cell: &CounterCell) -> Option<SchedulingFactor> {
        let (cpu_node, memory_node) = (cell.cpu_node?, cell.memory_node?);
        let width = match self.per_run {
            true => self.stream_bandwidth(cpu_node, memory_node)?,
            false => cell.figure.as_ref()?,
        };
        let summary = width.summary.as_ref()?;
        let width_bytes_per_s = width.median()?;
        // The least that a counter can show.
        let events = cell.value(self.traffic)?.max(1.0);
        let traffic = match self.per_run {
            true => events / f64::from(cell.runs.max(1)) / 1e6,
            false => events / (cell.figure.as_ref()?.median()? * cell.counted_s / 1e3),
        };
        let pairs = self.latency.cells.iter();
        let of = pairs.filter(|other| (other.cpu_node, other.memory_node) == (cpu_node, memory_node));
        let latency_ns = of.filter_map(|cell| cell.ns_per_load.median()).next()?;
        let factor = |width: f64| traffic * latency_ns / (width / 1e9);
        let value = factor(width_bytes_per_s);
        let interval =
            (factor(summary.high.max(width_bytes_per_s)), factor(summary.low.min(width_bytes_per_s)));
        let is_valid = value.is_finite() && value > 0.0 && interval.1.is_finite() && summary.low > 0.0;
        is_valid.then_some(SchedulingFactor {
            cpu_node,
            memory_node,
            threads: cell.threads,
            factor: value,
            interval,
            n: summary.n,
            traffic,
            latency_ns,
            width_bytes_per_s,
        })
    }

    fn stream_bandwidth(&self, cpu_node: NodeId, memory_node: NodeId) -> Option<&Reading> {
        let of = |cell: &&numaio_schema::StreamCell| {
            (cell.op, cell.cpu_node, cell.memory_node) == (StreamOp::Copy, cpu_node, memory_node)
        };
        self.stream?.cells.iter().find(of).map(|cell| &cell.bytes_per_s)
    }
}
