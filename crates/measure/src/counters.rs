//! Campaign of counted workloads: events by pair of nodes and number of threads.

use crate::cells::choose_cpus;
use crate::engine::{failed, VisitFigures};
use crate::options::{CampaignError, Threads};
use crate::pairs::Pairs;
use crate::rounds::{self, NodeCell, Rule, StopReason, VisitOutcome, Visits};
use crate::setting::{Event, Setting};
use crate::sizes::{memory_shortage, per_thread_bytes, Caches};
use crate::warnings;
use numaio_machine::counters::{Count, Counter, MissingCounter};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{CountedOutcome, Outcome, ProbeError, ProbeExt, ProgramOutcome, ToolExit};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{
    CopyWorkload, CountedTarget, CountedWorkload, Flow, Pages, Placement, ProgramWorkload, Sampling,
    StreamLoop, StreamOp, StreamWorkload, Workload,
};
use numaio_schema::{
    CountedSubject, CounterCell, CounterMethod, CounterRecord, Rounds, SchedulingFactors, Warning,
    COUNTERS_SCHEMA,
};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Size of all buffers of a role together, as a multiple of the last-level caches (STREAM's rule).
const CACHES_FILLED: u64 = 4;
/// Minimum of it: one million doubles (STREAM's rule).
const LEAST_BYTES: u64 = 8_000_000;
/// Window of a run: long enough that the kernel counts each group of events several times.
const SAMPLING: Sampling = Sampling::Window { milliseconds: 500, slices: 5 };

/// Options of a counted campaign.
#[derive(Debug, Clone)]
pub struct CounterOptions {
    /// The workload.
    pub subject: CountedSubject,
    /// Numbers of threads; empty for one per core, or all CPUs of the node for a program.
    pub threads: Vec<u32>,
    /// Whether a program is bound to each pair of nodes.
    pub pairs: bool,
    /// Limits pairs to those with one of these nodes, its row and its column; every pair if empty.
    pub around: NodeSet,
    /// Page size of the buffers.
    pub pages: Pages,
    /// Time limit of one run of a program, or time for which a process is observed, in seconds.
    pub run_limit_s: f64,
    /// State of the prefetchers to record; `None` if they are left as they are.
    pub prefetchers: Option<bool>,
    /// Stopping rule.
    pub rule: Rule,
}

impl Default for CounterOptions {
    /// STREAM copy on every pair of nodes, with one thread per core.
    fn default() -> Self {
        Self {
            subject: CountedSubject::Stream { op: StreamOp::Copy, stream_loop: StreamLoop::Ordinary },
            threads: Vec::new(),
            pairs: true,
            around: NodeSet::new(),
            pages: Pages::Transparent,
            run_limit_s: 600.0,
            prefetchers: None,
            rule: Rule::default(),
        }
    }
}

/// Counts the events of the workload, for each pair of nodes or once.
///
/// # Errors
/// [`CampaignError`] if nothing was counted. After an interrupt, the record contains the
/// measurements so far and is marked incomplete.
pub fn run(
    setting: &Setting,
    options: &CounterOptions,
    report: &mut dyn FnMut(&Event),
) -> Result<CounterRecord, CampaignError> {
    match &options.subject {
        CountedSubject::Process { .. } => run_once(setting, options),
        CountedSubject::Program { .. } if !options.pairs => run_once(setting, options),
        _ => run_pairs(setting, options, report),
    }
}

/// Counts a process, or a program without a binding.
fn run_once(setting: &Setting, options: &CounterOptions) -> Result<CounterRecord, CampaignError> {
    let before = setting.conditions();
    let milliseconds = milliseconds(options.run_limit_s);
    let target = match &options.subject {
        CountedSubject::Process { pid, .. } => CountedTarget::Process { pid: *pid, milliseconds },
        CountedSubject::Program { command } => {
            CountedTarget::Command { command: command.clone(), time_limit_ms: milliseconds }
        }
        CountedSubject::Stream { .. } | CountedSubject::Copy { .. } => return Err(CampaignError::NoTarget),
    };
    let workload = CountedWorkload { counters: Counter::ALL.to_vec(), target };
    let outcome = setting.probe.counted(&workload).map_err(not_found)?;
    if let Some(Outcome::Program(program)) = outcome.outcome.as_deref() {
        seconds(options, program).map_err(CampaignError::Nothing)?;
    }
    let after = setting.conditions();
    let (cell, missing) = cell(None, options, &[outcome]);
    let warnings = warnings::of_conditions(&before, &after, None, setting.topology.memory_nodes().len());
    let rounds = Rounds {
        precision: options.rule.precision,
        time_limit_s: options.rule.time_limit_s,
        elapsed_s: cell.elapsed_s,
        seed: options.rule.seed,
        rounds: 1,
    };
    let method = CounterMethod { subject: options.subject.clone(), bytes_per_thread: Vec::new(), rounds };
    Ok(CounterRecord {
        schema: COUNTERS_SCHEMA.to_owned(),
        provenance: setting.provenance((before, after), warnings, true),
        method,
        cells: vec![cell],
        missing,
        factors: SchedulingFactors::default(),
    })
}

/// Counts the workload for each pair of nodes and number of threads, in rounds.
fn run_pairs(
    setting: &Setting,
    options: &CounterOptions,
    report: &mut dyn FnMut(&Event),
) -> Result<CounterRecord, CampaignError> {
    let topology = setting.topology;
    let pairs = Pairs::new(topology, &options.around)?;
    let (rows, mut warnings) = rows(topology, &pairs, options)?;
    let before = setting.conditions();
    let cells = cells(topology, &pairs, &rows, options);
    let tasks = cells.iter().map(|cell| cell.task(Workload::Counted, None)).collect();
    let outcomes: RefCell<Vec<Vec<CountedOutcome>>> = RefCell::new(vec![Vec::new(); cells.len()]);
    let visit = |index: usize, workload: &Workload| {
        let Workload::Counted(counted) = workload else { return Err(ProbeError::OtherOutcome) };
        let outcome = setting.probe.counted(counted).map_err(explain)?;
        let taken = taken(options, counted, &outcome)?;
        if taken.excluded.is_none() {
            outcomes.borrow_mut()[index].push(outcome);
        }
        Ok(taken)
    };
    let visits = Visits { visit: &visit, is_exhausted: &|| false };
    let finished = rounds::run_by(setting, &options.rule, tasks, 0, &visits, report);
    if let Some(why) = finished.nothing() {
        return Err(not_found(why));
    }
    let after = setting.conditions();
    let nodes = topology.memory_nodes().len();
    warnings.extend(warnings::of_conditions(&before, &after, finished.busy_mhz, nodes));
    let complete = finished.stop_reason != Some(StopReason::Interrupt) && finished.complete();
    let rounds = finished.rounds(&options.rule);
    let outcomes = outcomes.into_inner();
    let mut missing = Vec::new();
    let mut found = Vec::new();
    for ((row_cell, measured), outcomes) in cells.iter().zip(finished.measured).zip(&outcomes) {
        let (mut cell, reasons) = cell(Some(row_cell), options, outcomes);
        cell.figure = Some(measured.reading);
        found.push(cell);
        missing.extend(reasons);
    }
    normalize(&mut found, &options.subject);
    missing.sort_by_key(|missing| missing.counter);
    missing.dedup_by_key(|missing| missing.counter);
    missing.retain(|missing| found.iter().all(|cell| cell.value(missing.counter).is_none()));
    let mut bytes_per_thread: Vec<(NodeId, u32, u64)> = Vec::new();
    if !matches!(options.subject, CountedSubject::Program { .. }) {
        let of_row = |row: &Row| (row.cpu_node, row.cpus.len() as u32, row.bytes_per_thread);
        bytes_per_thread.extend(rows.iter().map(of_row));
    }
    Ok(CounterRecord {
        schema: COUNTERS_SCHEMA.to_owned(),
        provenance: setting.provenance((before, after), warnings, complete),
        method: CounterMethod { subject: options.subject.clone(), bytes_per_thread, rounds },
        cells: found,
        missing,
        factors: SchedulingFactors::default(),
    })
}

/// Threads that run together, and the size of each of their buffers.
struct Row {
    cpu_node: NodeId,
    cpus: CpuSet,
    bytes_per_thread: u64,
}

/// Returns a row for each CPU node and number of threads. Numbers that exceed the CPUs of a node
/// are left out, unless no number is left.
fn rows(
    topology: &Topology,
    pairs: &Pairs,
    options: &CounterOptions,
) -> Result<(Vec<Row>, Vec<Warning>), CampaignError> {
    let is_program = matches!(options.subject, CountedSubject::Program { .. });
    let threads: Vec<Threads> = match options.threads.as_slice() {
        [] if is_program => vec![Threads::HardwareThreads],
        [] => vec![Threads::Cores],
        counts => counts.iter().map(|count| Threads::Count(*count)).collect(),
    };
    let (mut rows, mut warnings, mut error) = (Vec::new(), Vec::new(), None);
    for cpu_node in pairs.cpu_nodes.iter() {
        for threads in &threads {
            match choose_cpus(topology, cpu_node, *threads) {
                Ok(cpus) => {
                    let filled = Caches::of(topology, &cpus).bytes.saturating_mul(CACHES_FILLED);
                    let bytes_per_thread = per_thread_bytes(filled.max(LEAST_BYTES), cpus.len());
                    rows.push(Row { cpu_node, cpus, bytes_per_thread });
                }
                Err(why) => {
                    let what = format!("a number of threads is left out: {why}");
                    warnings.push(Warning { rule: "threads-left-out".to_owned(), message: what });
                    error.get_or_insert(why);
                }
            }
        }
    }
    match rows.is_empty() {
        true => Err(error.unwrap_or(CampaignError::NoTarget)),
        false => Ok((rows, warnings)),
    }
}

fn cells(
    topology: &Topology,
    pairs: &Pairs,
    rows: &[Row],
    options: &CounterOptions,
) -> Vec<NodeCell<CountedWorkload>> {
    let mut cells = Vec::new();
    for row in rows {
        for memory in pairs.memory_nodes.iter().filter(|memory| pairs.wants(row.cpu_node, *memory)) {
            let target = target(row, memory, options);
            let impossible = needed_bytes(&target).and_then(|bytes| memory_shortage(topology, memory, bytes));
            let workload = CountedWorkload { counters: Counter::ALL.to_vec(), target };
            cells.push(NodeCell { cpu_node: row.cpu_node, workload, impossible });
        }
    }
    cells
}

fn target(row: &Row, memory: NodeId, options: &CounterOptions) -> CountedTarget {
    let placement = Placement { cpus: row.cpus.clone() };
    match &options.subject {
        CountedSubject::Copy { copy_loop } => CountedTarget::Copy(CopyWorkload {
            flow: Flow { source: memory, sink: row.cpu_node },
            placement,
            copy_loop: *copy_loop,
            bytes_per_thread: row.bytes_per_thread,
            pages: options.pages,
            sampling: SAMPLING,
        }),
        CountedSubject::Stream { op, stream_loop } => CountedTarget::Stream(StreamWorkload {
            op: *op,
            stream_loop: *stream_loop,
            memory,
            placement,
            bytes_per_array: row.bytes_per_thread,
            pages: options.pages,
            sampling: SAMPLING,
        }),
        CountedSubject::Program { command } => CountedTarget::Program(ProgramWorkload {
            command: command.clone(),
            placement,
            memory,
            time_limit_ms: milliseconds(options.run_limit_s),
        }),
        CountedSubject::Process { pid, .. } => {
            CountedTarget::Process { pid: *pid, milliseconds: milliseconds(options.run_limit_s) }
        }
    }
}

/// Returns the bytes of all buffers on the memory node.
fn needed_bytes(target: &CountedTarget) -> Option<u64> {
    let threads = |placement: &Placement| placement.cpus.len() as u64;
    match target {
        CountedTarget::Copy(copy) => Some(copy.bytes_per_thread.saturating_mul(threads(&copy.placement))),
        CountedTarget::Stream(stream) => {
            let arrays = threads(&stream.placement).saturating_mul(u64::from(stream.op.arrays()));
            Some(stream.bytes_per_array.saturating_mul(arrays))
        }
        _ => None,
    }
}

fn milliseconds(seconds: f64) -> u32 {
    (seconds * 1000.0).ceil().clamp(1.0, f64::from(u32::MAX)) as u32
}

/// Converts a run to the figure that decides when a cell is settled.
fn taken(
    options: &CounterOptions,
    workload: &CountedWorkload,
    outcome: &CountedOutcome,
) -> Result<VisitOutcome, ProbeError> {
    let inner = outcome.outcome.as_deref().ok_or(ProbeError::OtherOutcome)?;
    let counted = match &workload.target {
        CountedTarget::Copy(copy) => Workload::Copy(copy.clone()),
        CountedTarget::Stream(stream) => Workload::Stream(stream.clone()),
        CountedTarget::Program(program) => {
            let Outcome::Program(ran) = inner else { return Err(ProbeError::OtherOutcome) };
            let figures = VisitFigures {
                groups: vec![vec![seconds(options, ran)?]],
                elapsed_ns: outcome.elapsed_ns,
                residency: ran.residency.clone(),
                ..VisitFigures::default()
            };
            return VisitOutcome::from_figures(&figures).with_figure(&Workload::Program(program.clone()));
        }
        CountedTarget::Command { .. } | CountedTarget::Process { .. } => {
            return Err(ProbeError::OtherOutcome)
        }
    };
    let mut taken = rounds::of_outcome(&counted, inner.clone())?;
    taken.elapsed_ns = outcome.elapsed_ns;
    Ok(taken)
}

/// Returns the seconds of a program that succeeded.
fn seconds(options: &CounterOptions, outcome: &ProgramOutcome) -> Result<f64, ProbeError> {
    let name = match &options.subject {
        CountedSubject::Program { command } => command.first().map_or("", String::as_str),
        _ => "",
    };
    match outcome.output.exit {
        ToolExit::Status(0) => Ok(outcome.elapsed_ns as f64 / 1e9),
        ToolExit::Status(status) => {
            let last = outcome.output.stderr.lines().last().unwrap_or_default();
            let last: String = last.chars().take(120).collect();
            Err(failed(name, format!("exit status {status}: {last}")))
        }
        ToolExit::Signal(signal) => Err(failed(name, format!("killed by signal {signal}"))),
        ToolExit::TimeLimit => {
            Err(failed(name, format!("not finished after {} seconds", options.run_limit_s)))
        }
    }
}

/// Why a program that does not exist has no figure.
const NO_SUCH_PROGRAM: &str = "no such program";

fn explain(error: ProbeError) -> ProbeError {
    match error {
        // Loops are missing, too, but name themselves otherwise.
        ProbeError::Unsupported { feature: what } if !what.ends_with(" loop") => {
            failed(&what, NO_SUCH_PROGRAM.to_owned())
        }
        error => error,
    }
}

fn not_found(error: ProbeError) -> CampaignError {
    match explain(error) {
        ProbeError::Refused { call: program, reason: why } if why == NO_SUCH_PROGRAM => {
            CampaignError::ProgramNotFound { program }
        }
        error => CampaignError::Nothing(error),
    }
}

/// Sums the counts of the runs of a cell. Counters without a count in any run are returned apart.
fn cell(
    of: Option<&NodeCell<CountedWorkload>>,
    options: &CounterOptions,
    outcomes: &[CountedOutcome],
) -> (CounterCell, Vec<MissingCounter>) {
    let mut sums: BTreeMap<(Counter, Option<NodeId>), Count> = BTreeMap::new();
    for count in outcomes.iter().flat_map(|outcome| &outcome.counts) {
        match sums.get_mut(&(count.counter, count.node)) {
            Some(sum) => {
                sum.raw = sum.raw.saturating_add(count.raw);
                sum.enabled_ns = sum.enabled_ns.saturating_add(count.enabled_ns);
                sum.running_ns = sum.running_ns.saturating_add(count.running_ns);
            }
            None => drop(sums.insert((count.counter, count.node), count.clone())),
        }
    }
    let missing = outcomes.iter().flat_map(|outcome| outcome.missing.iter().cloned()).collect();
    let (memory_node, placement) = match of.map(|cell| &cell.workload.target) {
        Some(CountedTarget::Copy(copy)) => (Some(copy.flow.source), copy.placement.clone()),
        Some(CountedTarget::Stream(stream)) => (Some(stream.memory), stream.placement.clone()),
        Some(CountedTarget::Program(program)) => (Some(program.memory), program.placement.clone()),
        _ => (None, Placement { cpus: CpuSet::new() }),
    };
    let sum = |of: fn(&CountedOutcome) -> u64| outcomes.iter().map(of).sum::<u64>() as f64 / 1e9;
    let cell = CounterCell {
        cpu_node: of.map(|cell| cell.cpu_node),
        memory_node,
        threads: placement.cpus.len() as u32,
        placement,
        prefetchers: options.prefetchers,
        figure: None,
        normalized_time: None,
        runs: outcomes.len() as u32,
        counted_s: sum(|outcome| outcome.counted_ns),
        elapsed_s: sum(|outcome| outcome.elapsed_ns),
        ended_early: outcomes.iter().any(|outcome| outcome.ended_early),
        counts: sums.into_values().map(Into::into).collect(),
    };
    (cell, missing)
}

/// Sets the times relative to the local pair with the same number of threads.
fn normalize(cells: &mut [CounterCell], subject: &CountedSubject) {
    let median = |cell: &CounterCell| cell.figure.as_ref().and_then(|figure| figure.median());
    let local = |cell: &&CounterCell| cell.cpu_node == cell.memory_node;
    let locals: BTreeMap<(Option<NodeId>, u32), f64> = cells
        .iter()
        .filter(local)
        .filter_map(|cell| Some(((cell.cpu_node, cell.threads), median(cell)?)))
        .collect();
    let is_time = matches!(subject, CountedSubject::Program { .. });
    for cell in cells {
        let local = locals.get(&(cell.cpu_node, cell.threads));
        cell.normalized_time = local.zip(median(cell)).map(|(local, own)| match is_time {
            true => own / local,
            // The same bytes take a time in proportion to the inverse of the bandwidth.
            false => local / own,
        });
    }
}
