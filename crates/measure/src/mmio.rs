//! Campaign of reads of a device's register: their time from a CPU of each node.
//!
//! Moreaud and Goglin (2007) measured the latency of a read of a network adapter's memory from each
//! node. Nodes are visited in turn, so that a change of the machine's state affects all of them.

use crate::cells::choose_cpus;
use crate::engine::VisitFigures;
use crate::options::{CampaignError, Threads};
use crate::rounds::{self, Finished, Rule, StopReason, Task, VisitOutcome, Visits};
use crate::setting::{Event, Setting};
use crate::warnings::{self, WarningContext};
use numaio_machine::devices::{MmioRegister, RegisterChoice};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{MmioOutcome, ProbeError, ProbeExt, Residency};
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{MmioWorkload, Workload};
use numaio_schema::{IoDevice, MmioCell, MmioMethod, MmioRecord, Reading, Summary, Warning, MMIO_SCHEMA};
use std::cell::RefCell;

/// Samples of a visit.
const SLICES: u32 = 10;
/// Shortest time of a read, in nanoseconds, after the clock is subtracted.
const LEAST_NS: f64 = 1.0;

/// Options of a campaign of reads.
#[derive(Debug, Clone, PartialEq)]
pub struct MmioOptions {
    /// The register, and the reason for it.
    pub register: (MmioRegister, RegisterChoice),
    /// Nodes of the reading CPUs; empty for all nodes with usable CPUs.
    pub cpu_nodes: NodeSet,
    /// Number of reads of a visit; rounded up to a multiple of its samples.
    pub reads: u32,
    /// Stopping rule.
    pub rule: Rule,
}

/// 99th percentiles and minima of the visits of each cell that count, in nanoseconds.
type Tails = RefCell<Vec<Vec<(f64, f64)>>>;

/// Measures every node. Nodes that cannot be measured record the reason.
///
/// # Errors
/// [`CampaignError`] if no node has a result. After an interrupt, the record contains the
/// measurements so far and is marked incomplete.
pub fn run(
    setting: &Setting,
    device: IoDevice,
    options: &MmioOptions,
    report: &mut dyn FnMut(&Event),
) -> Result<MmioRecord, CampaignError> {
    let cpus = cpus(setting.topology, &options.cpu_nodes)?;
    let (register, choice) = options.register;
    let reads = options.reads.div_ceil(SLICES);
    let task = |(cpu_node, cpu): &(NodeId, CpuId)| Task {
        workload: Workload::Mmio(MmioWorkload { register, cpu: *cpu, reads, slices: SLICES }),
        group: *cpu_node,
        alike: None,
        impossible: None,
    };
    let before = setting.conditions();
    let tails: Tails = RefCell::new(vec![Vec::new(); cpus.len()]);
    let visit = |index: usize, workload: &Workload| visit(setting, &tails, index, workload);
    let visits = Visits { visit: &visit, is_exhausted: &|| false };
    let tasks = cpus.iter().map(task).collect();
    let finished = rounds::run_by(setting, &options.rule, tasks, 0, &visits, report);
    if let Some(why) = finished.nothing() {
        return Err(CampaignError::Nothing(why));
    }
    let after = setting.conditions();
    let nodes = setting.topology.memory_nodes().len();
    let mut found = warnings::of_conditions(&before, &after, finished.busy_mhz, nodes);
    found.extend(of_cells(&cpus, &finished));
    let method = MmioMethod { reads: reads * SLICES, rounds: finished.rounds(&options.rule) };
    let complete = finished.complete();
    let readings = finished.measured.into_iter().map(|measured| measured.reading);
    let cells = cpus.into_iter().zip(readings).zip(tails.into_inner());
    Ok(MmioRecord {
        schema: MMIO_SCHEMA.to_owned(),
        provenance: setting.provenance((before, after), found, complete),
        device,
        bar: register.bar,
        offset: register.offset,
        choice,
        method,
        cells: cells.map(|((place, reading), tails)| cell(place, reading, &tails)).collect(),
    })
}

/// Returns the first CPU of each node.
fn cpus(topology: &Topology, requested: &NodeSet) -> Result<Vec<(NodeId, CpuId)>, CampaignError> {
    let first = |node: NodeId| topology.usable_cpus(node).first().map(|cpu| (node, cpu));
    let all: NodeSet = topology.nodes.iter().map(|node| node.id).collect();
    let cpus: Vec<(NodeId, CpuId)> = match requested.is_empty() {
        true => all.iter().filter_map(first).collect(),
        false => {
            if let Some(node) = requested.difference(&all).first() {
                return Err(CampaignError::UnknownNode { node, nodes: all });
            }
            requested.iter().try_for_each(|node| choose_cpus(topology, node, Threads::Cores).map(drop))?;
            requested.iter().filter_map(first).collect()
        }
    };
    match cpus.is_empty() {
        true => Err(CampaignError::NoTarget),
        false => Ok(cpus),
    }
}

/// Runs a cell once, and collects the figures that the rounds do not.
fn visit(
    setting: &Setting,
    tails: &Tails,
    index: usize,
    workload: &Workload,
) -> Result<VisitOutcome, ProbeError> {
    let Workload::Mmio(mmio) = workload else { return Err(ProbeError::OtherOutcome) };
    let outcome = setting.probe.mmio(mmio)?;
    if outcome.reads > 0 && outcome.all_ones >= outcome.reads {
        return Err(unanswered(mmio.register));
    }
    let read_ns = |ns: u64| without_clock(&outcome, ns);
    let figures = VisitFigures {
        groups: vec![outcome.medians_ns.iter().map(|ns| read_ns(*ns)).collect()],
        elapsed_ns: outcome.elapsed_ns,
        // No buffer has pages to check.
        residency: Residency { pages_checked: Some(0), ..Residency::default() },
        ..VisitFigures::default()
    };
    let taken = VisitOutcome::from_figures(&figures).with_figure(workload)?;
    tails.borrow_mut()[index].push((read_ns(outcome.p99_ns), read_ns(outcome.min_ns)));
    Ok(taken)
}

/// Subtracts a reading of the clock from a time.
fn without_clock(outcome: &MmioOutcome, ns: u64) -> f64 {
    (ns.saturating_sub(outcome.clock_ns) as f64).max(LEAST_NS)
}

/// Returns the error of a device that does not answer.
fn unanswered(register: MmioRegister) -> ProbeError {
    ProbeError::Refused {
        call: format!("read {register}"),
        reason: "every read returned 0xffffffff: the device does not answer, or the register has this value"
            .to_owned(),
    }
}

fn of_cells(cpus: &[(NodeId, CpuId)], finished: &Finished) -> Vec<Warning> {
    let context = WarningContext {
        quantity: "time of a read",
        time_is_up: finished.stop_reason == Some(StopReason::TimeLimit),
        wanted_huge: false,
    };
    let name = |index: usize| format!("node {}", cpus[index].0);
    warnings::of_readings(&finished.measured, &name, &context)
}

fn cell((cpu_node, cpu): (NodeId, CpuId), ns: Reading, tails: &[(f64, f64)]) -> MmioCell {
    let p99: Vec<f64> = tails.iter().map(|(p99, _)| *p99).collect();
    let min_ns = tails.iter().map(|(_, min)| *min).min_by(f64::total_cmp);
    MmioCell { cpu_node, cpu, ns, p99_ns: Summary::of(&p99, None), min_ns }
}
