//! STREAM campaign: bandwidth between every CPU node and every memory node.

use crate::cells::choose_cpus;
use crate::options::{CampaignError, Threads};
use crate::pairs::{distance, Pairs};
use crate::rounds::{self, Finished, NodeCell, Rule, StopReason};
use crate::setting::{Event, Setting};
use crate::sizes::{caches_assumed, memory_shortage, per_thread_bytes, Caches};
use crate::trial::{self, Trial};
use crate::warnings::{self, WarningContext};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, ProbeExt};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{Pages, Placement, Sampling, StreamLoop, StreamOp, StreamWorkload, Workload};
use numaio_schema::{
    StreamCell, StreamMethod, StreamRecord, StreamScope, StreamTrial, Warning, STREAM_SCHEMA,
};

/// Total size of an array as a multiple of the last-level caches used (STREAM run rules: four times
/// the sum of all last-level caches used, or one million elements).
const CACHES_FILLED: u64 = 4;
/// Minimum total bytes of an array: one million doubles, by the same rules.
const LEAST_ARRAY_BYTES: u64 = 8_000_000;

/// Options of a STREAM campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOptions {
    /// Operations.
    pub ops: Vec<StreamOp>,
    /// Limits pairs to those with one of these nodes, its row and its column; every pair if empty.
    pub around: NodeSet,
    /// Threads of one cell.
    pub scope: StreamScope,
    /// Loop; none to choose the fastest for each operation in a trial.
    pub stream_loop: Option<StreamLoop>,
    /// Page size of the arrays.
    pub pages: Pages,
    /// Stopping rule.
    pub rule: Rule,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            ops: vec![StreamOp::Copy],
            around: NodeSet::new(),
            scope: StreamScope::Node { threads: None },
            stream_loop: None,
            pages: Pages::Transparent,
            rule: Rule::default(),
        }
    }
}

/// Measures the selected pairs. Pairs that cannot be measured record the reason.
///
/// # Errors
/// [`CampaignError`] if no pair has a result. After an interrupt, the record contains the
/// measurements so far and is marked incomplete.
pub fn run(
    setting: &Setting,
    options: &StreamOptions,
    report: &mut dyn FnMut(&Event),
) -> Result<StreamRecord, CampaignError> {
    let topology = setting.topology;
    let pairs = Pairs::new(topology, &options.around)?;
    let (rows, mut warnings) = rows(topology, &pairs, options)?;
    let left_out = warnings.iter().any(|warning| warning.rule == "node-left-out");
    let before = setting.conditions();
    let mut trials = Vec::new();
    for op in &options.ops {
        let trial = choose_loop(setting, &pairs, &rows, *op, options).map_err(CampaignError::Nothing)?;
        report(&Event::StreamLoopChosen(*op, trial.chosen));
        trials.push((*op, trial));
    }
    let cells = cells(topology, &pairs, &rows, &trials, options);
    let tasks =
        cells.iter().map(|cell| cell.task(Workload::Stream, alike(cell, topology, options.scope))).collect();
    let spent_ns = trials.iter().map(|(_, trial)| trial.elapsed_ns).fold(0, u64::saturating_add);
    let mut finished = rounds::run(setting, &options.rule, tasks, spent_ns, report);
    if let Some(why) = finished.nothing() {
        return Err(CampaignError::Nothing(why));
    }
    let after = setting.conditions();
    let nodes = topology.memory_nodes().len();
    warnings.extend(warnings::of_conditions(&before, &after, finished.busy_mhz, nodes));
    let context = WarningContext {
        quantity: "bandwidth",
        time_is_up: finished.stop_reason == Some(StopReason::TimeLimit),
        wanted_huge: options.pages == Pages::Transparent,
    };
    warnings.extend(warnings::of_readings(
        &finished.measured,
        &|index| name(&cells[index], options.scope),
        &context,
    ));
    let complete = finished.complete() && !left_out;
    let method = method(options, &rows, &trials, &finished);
    let measured = std::mem::take(&mut finished.measured);
    let cells = cells.into_iter().zip(measured).map(|(cell, measured)| StreamCell {
        op: cell.workload.op,
        cpu_node: cell.cpu_node,
        memory_node: cell.workload.memory,
        placement: cell.workload.placement,
        bytes_per_s: measured.reading,
    });
    let cells = cells.collect();
    let provenance = setting.provenance((before, after), warnings, complete);
    Ok(StreamRecord { schema: STREAM_SCHEMA.to_owned(), provenance, method, cells, classes: Vec::new() })
}

/// Threads that run together, and their array size.
struct Row {
    cpu_node: NodeId,
    cpus: CpuSet,
    /// Per thread.
    bytes_per_array: u64,
}

/// Returns a row for each CPU node, or for each of its cores.
fn rows(
    topology: &Topology,
    pairs: &Pairs,
    options: &StreamOptions,
) -> Result<(Vec<Row>, Vec<Warning>), CampaignError> {
    let (mut rows, mut warnings, mut error) = (Vec::new(), Vec::new(), None);
    for cpu_node in pairs.cpu_nodes.iter() {
        let threads = match options.scope {
            StreamScope::Node { threads: Some(count) } => Threads::Count(count),
            StreamScope::Node { threads: None } | StreamScope::Core => Threads::Cores,
            StreamScope::HardwareThreads => Threads::HardwareThreads,
        };
        let cpus = match choose_cpus(topology, cpu_node, threads) {
            Ok(cpus) => cpus,
            Err(why) => {
                let what = format!("node {cpu_node} is left out: {why}");
                warnings.push(Warning { rule: "node-left-out".into(), message: what });
                error.get_or_insert(why);
                continue;
            }
        };
        if Caches::of(topology, &cpus).assumed {
            warnings.push(caches_assumed(cpu_node));
        }
        let teams = match options.scope {
            StreamScope::Node { .. } | StreamScope::HardwareThreads => vec![cpus],
            StreamScope::Core => cpus.iter().map(CpuSet::one).collect(),
        };
        rows.extend(teams.into_iter().map(|cpus| {
            let filled = Caches::of(topology, &cpus).bytes.saturating_mul(CACHES_FILLED);
            let bytes_per_array = per_thread_bytes(filled.max(LEAST_ARRAY_BYTES), cpus.len());
            Row { cpu_node, cpus, bytes_per_array }
        }));
    }
    match rows.is_empty() {
        true => Err(error.unwrap_or(CampaignError::NoTarget)),
        false => Ok((rows, warnings)),
    }
}

impl Row {
    fn workload(
        &self,
        memory: NodeId,
        (op, stream_loop): (StreamOp, StreamLoop),
        sampling: Sampling,
        pages: Pages,
    ) -> StreamWorkload {
        StreamWorkload {
            op,
            stream_loop,
            memory,
            placement: Placement { cpus: self.cpus.clone() },
            bytes_per_array: self.bytes_per_array,
            pages,
            sampling,
        }
    }

    /// Returns the total bytes of all arrays.
    fn bytes_of_all(&self, op: StreamOp) -> u64 {
        let arrays = u64::from(op.arrays()).saturating_mul(self.cpus.len() as u64);
        self.bytes_per_array.saturating_mul(arrays)
    }

    /// Returns the error if the arrays do not fit on a node. Reserved huge pages do not count as
    /// free memory.
    fn memory_shortage(
        &self,
        topology: &Topology,
        memory: NodeId,
        op: StreamOp,
        pages: Pages,
    ) -> Option<ProbeError> {
        let needed_bytes = self.bytes_of_all(op);
        memory_shortage(topology, memory, needed_bytes).filter(|_| pages != Pages::Huge)
    }
}

/// Tries loops on the machine's first row with local memory, regardless of the selection, so that a
/// tape of the full matrix contains the trial of every part. If that cannot be measured, tries the
/// selected pairs, local ones first.
fn choose_loop(
    setting: &Setting,
    pairs: &Pairs,
    rows: &[Row],
    op: StreamOp,
    options: &StreamOptions,
) -> Result<Trial<StreamLoop>, ProbeError> {
    let topology = setting.topology;
    let loops = options.stream_loop.map_or_else(|| trial::stream_loops(topology), |chosen| vec![chosen]);
    let all = || rows.iter().flat_map(|row| pairs.memory_nodes.iter().map(move |memory| (row, memory)));
    let memory_shortage =
        |(row, memory): &(&Row, NodeId)| row.memory_shortage(topology, *memory, op, options.pages);
    let local = |(row, memory): &(&Row, NodeId)| row.cpu_node == *memory;
    let wanted = |(row, memory): &(&Row, NodeId)| pairs.wants(row.cpu_node, *memory);
    let first = all().find(|pair| local(pair) && memory_shortage(pair).is_none());
    let (near, far): (Vec<_>, Vec<_>) =
        all().filter(|pair| wanted(pair) && memory_shortage(pair).is_none()).partition(local);
    if near.is_empty() && far.is_empty() {
        let why = all().filter(wanted).find_map(|pair| memory_shortage(&pair));
        return Err(why.unwrap_or(ProbeError::Unsupported { feature: "memory that may be used".into() }));
    }
    let places = first.into_iter().chain(near).chain(far);
    let mut trial = trial::first_that_works(places.map(|(row, memory)| {
        trial::run(
            &loops,
            |stream_loop: StreamLoop| stream_loop.bus_bytes(op),
            |stream_loop| {
                let workload = row.workload(memory, (op, stream_loop), trial::SAMPLING, options.pages);
                let outcome = setting.probe.stream(&workload)?;
                let samples = outcome.samples.iter().map(|sample| sample.bytes_per_s()).collect();
                Ok((samples, outcome.elapsed_ns))
            },
        )
    }))?;
    if options.stream_loop.is_some() {
        trial.trials.clear();
    }
    Ok(trial)
}

fn cells(
    topology: &Topology,
    pairs: &Pairs,
    rows: &[Row],
    trials: &[(StreamOp, Trial<StreamLoop>)],
    options: &StreamOptions,
) -> Vec<NodeCell<StreamWorkload>> {
    let mut cells = Vec::new();
    for (op, trial) in trials {
        for row in rows {
            let sampling = trial::one_sweep(row.bytes_of_all(*op), trial.per_s);
            let wanted = pairs.memory_nodes.iter().filter(|memory| pairs.wants(row.cpu_node, *memory));
            cells.extend(wanted.map(|memory| NodeCell {
                cpu_node: row.cpu_node,
                workload: row.workload(memory, (*op, trial.chosen), sampling, options.pages),
                impossible: row.memory_shortage(topology, memory, *op, options.pages),
            }));
        }
    }
    cells
}

/// Returns the key of comparable cells: operation and SLIT distance.
fn alike(cell: &NodeCell<StreamWorkload>, topology: &Topology, scope: StreamScope) -> Option<(u32, u32)> {
    let (cpu_node, memory) = (cell.cpu_node, cell.workload.memory);
    // Cores of one node should be equal on its local memory, too.
    let comparable = cpu_node != memory || scope == StreamScope::Core;
    let distance = distance(topology, cpu_node, memory).filter(|_| comparable)?;
    Some((cell.workload.op as u32, distance))
}

fn name(cell: &NodeCell<StreamWorkload>, scope: StreamScope) -> String {
    let StreamWorkload { op, memory, placement, .. } = &cell.workload;
    match scope {
        StreamScope::Node { .. } | StreamScope::HardwareThreads => {
            format!("{op} by node {} on {memory}", cell.cpu_node)
        }
        StreamScope::Core => format!("{op} by CPU {} on {memory}", placement.cpus),
    }
}

fn method(
    options: &StreamOptions,
    rows: &[Row],
    trials: &[(StreamOp, Trial<StreamLoop>)],
    finished: &Finished,
) -> StreamMethod {
    let mut bytes_per_array: Vec<(NodeId, u64)> =
        rows.iter().map(|row| (row.cpu_node, row.bytes_per_array)).collect();
    bytes_per_array.dedup();
    let tried = trials.iter().flat_map(|(op, trial)| {
        trial.trials.iter().map(|(stream_loop, per_s)| StreamTrial {
            op: *op,
            stream_loop: *stream_loop,
            bytes_per_s: *per_s,
        })
    });
    StreamMethod {
        loops: trials.iter().map(|(op, trial)| (*op, trial.chosen)).collect(),
        trials: tried.collect(),
        scope: options.scope,
        bytes_per_array,
        pages: options.pages,
        rounds: finished.rounds(&options.rule),
    }
}
