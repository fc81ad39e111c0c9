//! Latency campaign: every CPU node to every memory node, idle, and selected paths under load.

mod chain;
mod loaded;
mod options;

pub use options::LatencyOptions;

use crate::options::CampaignError;
use crate::pairs::{distance, Pairs};
use crate::rounds::{self, Finished, NodeCell, Rule, StopReason};
use crate::setting::{Event, Setting};
use crate::sizes::memory_shortage;
use crate::warnings::{self, WarningContext};
use chain::{chains, Chain, LINE_BYTES};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{LatencyWorkload, Pages, Workload};
use numaio_schema::{LatencyCell, LatencyMethod, LatencyRecord, Rounds, Warning, LATENCY_SCHEMA};

/// A chain of more than one part in this many of a node's memory counts as large.
const LARGE_PART: u64 = 4;

/// Measures the selected pairs, then paths under load. Cells that cannot be measured record the
/// reason.
///
/// # Errors
/// [`CampaignError`] if no pair has a result. After an interrupt, the record contains the
/// measurements so far and is marked incomplete.
pub fn run(
    setting: &Setting,
    options: &LatencyOptions,
    report: &mut dyn FnMut(&Event),
) -> Result<LatencyRecord, CampaignError> {
    let topology = setting.topology;
    let pairs = Pairs::new(topology, &options.around)?;
    let (chains, mut warnings) = chains(topology, &pairs, options);
    let (paths, unloaded) = loaded::paths(topology, &pairs, &chains, options);
    let mut complete = unloaded.is_empty();
    warnings.extend(unloaded);
    warnings.extend(prefetchers(topology, options.stride_bytes));
    let cells = cells(topology, &pairs, &chains, options);
    let before = setting.conditions();
    let share = if paths.is_empty() { 1.0 } else { 0.5 };
    let rule = Rule { time_limit_s: options.rule.time_limit_s * share, ..options.rule };
    let tasks = cells.iter().map(|cell| cell.task(Workload::Latency, alike(cell, topology))).collect();
    let idle = rounds::run(setting, &rule, tasks, 0, report);
    if let Some(why) = idle.nothing() {
        return Err(CampaignError::Nothing(why));
    }
    let loaded = loaded::run(setting, &options.rule, &paths, &idle, report);
    let after = setting.conditions();
    let nodes = topology.memory_nodes().len();
    warnings.extend(warnings::of_conditions(&before, &after, idle.busy_mhz, nodes));
    warnings.extend(of_cells(&cells, &idle, options));
    warnings.extend(loaded::warnings(&paths, &loaded));
    complete &= idle.complete() && loaded.complete();
    let method = method(options, &chains, &idle, &loaded);
    let cells = cells.into_iter().zip(idle.measured).map(|(cell, measured)| LatencyCell {
        cpu_node: cell.cpu_node,
        cpu: cell.workload.cpu,
        memory_node: cell.workload.memory,
        ns_per_load: measured.reading,
    });
    let cells = cells.collect();
    let curves = loaded::curves(paths, loaded);
    let provenance = setting.provenance((before, after), warnings, complete);
    Ok(LatencyRecord { schema: LATENCY_SCHEMA.to_owned(), provenance, method, cells, curves })
}

/// Returns the longest chain of a campaign in bytes, with the smallest node for it, if it takes
/// more than a quarter of that node. The chain touches every page, and building it is not part of
/// the time limit.
pub fn largest(topology: &Topology, options: &LatencyOptions) -> Option<(NodeId, u64)> {
    let pairs = Pairs::new(topology, &options.around).ok()?;
    let longest = chains(topology, &pairs, options).0.iter().map(|chain| chain.bytes).max()?;
    let memory = |node: NodeId| Some((topology.node(node)?.memory?.total_bytes, node));
    let fitting =
        pairs.memory_nodes.iter().filter(|node| memory_shortage(topology, *node, longest).is_none());
    let (least, node) = fitting.filter_map(memory).min()?;
    (longest > least / LARGE_PART).then_some((node, longest))
}

fn cells(
    topology: &Topology,
    pairs: &Pairs,
    chains: &[Chain],
    options: &LatencyOptions,
) -> Vec<NodeCell<LatencyWorkload>> {
    let cell = |chain: &Chain, memory: NodeId| NodeCell {
        cpu_node: chain.cpu_node,
        workload: chain.workload(memory, None, options),
        // Reserved huge pages do not count as free memory.
        impossible: memory_shortage(topology, memory, chain.bytes).filter(|_| options.pages != Pages::Huge),
    };
    let all = chains.iter().flat_map(|chain| pairs.memory_nodes.iter().map(move |memory| (chain, memory)));
    let wanted = all.filter(|(chain, memory)| pairs.wants(chain.cpu_node, *memory));
    wanted.map(|(chain, memory)| cell(chain, memory)).collect()
}

/// Returns the key of comparable cells, the SLIT distance; none for local memory.
fn alike(cell: &NodeCell<LatencyWorkload>, topology: &Topology) -> Option<(u32, u32)> {
    let (cpu_node, memory) = (cell.cpu_node, cell.workload.memory);
    let distance = distance(topology, cpu_node, memory).filter(|_| cpu_node != memory)?;
    Some((0, distance))
}

fn of_cells(cells: &[NodeCell<LatencyWorkload>], idle: &Finished, options: &LatencyOptions) -> Vec<Warning> {
    let name = |index: usize| {
        let NodeCell { cpu_node, workload, .. } = &cells[index];
        format!("node {cpu_node} to {}", workload.memory)
    };
    let wanted_huge = options.pages == Pages::Transparent;
    let context = WarningContext {
        quantity: "latency",
        time_is_up: idle.stop_reason == Some(StopReason::TimeLimit),
        wanted_huge,
    };
    let mut found = warnings::of_readings(&idle.measured, &name, &context);
    // The case without any huge page is reported above.
    let partly = |index: &usize| {
        let bytes = cells[*index].workload.bytes;
        let visits = &idle.measured[*index].reading.visits;
        visits.iter().any(|visit| (1..bytes / 10 * 9).contains(&visit.residency.huge_bytes))
    };
    let partly: Vec<usize> = (0..cells.len()).filter(partly).collect();
    if wanted_huge && !partly.is_empty() {
        let which = warnings::names(&partly, &name);
        let what = format!("partly on huge pages, so results include TLB misses: {which}");
        found.push(Warning { rule: "few-huge-pages".into(), message: what });
    }
    found
}

/// Warns about a prefetcher of adjacent lines.
fn prefetchers(topology: &Topology, stride_bytes: u32) -> Option<Warning> {
    let line = topology.caches.iter().map(|cache| cache.line_bytes).max().filter(|line| *line > 0);
    let line = line.unwrap_or(LINE_BYTES);
    (stride_bytes < line.saturating_mul(2)).then(|| Warning {
        rule: "prefetcher".into(),
        message: format!(
            "with a stride of {stride_bytes} bytes, a prefetcher of adjacent lines ({line} bytes) may \
             have prefetched some loads"
        ),
    })
}

fn method(options: &LatencyOptions, chains: &[Chain], idle: &Finished, loaded: &Finished) -> LatencyMethod {
    let rounds = loaded.rounds(&options.rule);
    LatencyMethod {
        bytes: chains.iter().map(|chain| (chain.cpu_node, chain.bytes)).collect(),
        stride_bytes: options.stride_bytes,
        pages: options.pages,
        rounds: Rounds { rounds: idle.rounds.max(loaded.rounds), ..rounds },
    }
}
