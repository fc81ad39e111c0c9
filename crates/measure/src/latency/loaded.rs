//! Latency of a path under increasing load by the other cores of the node.

use super::chain::Chain;
use super::options::LatencyOptions;
use crate::pairs::Pairs;
use crate::rounds::{self, Finished, Rule, StopReason, Task};
use crate::setting::{Event, Setting};
use crate::sizes::{memory_shortage, per_thread_bytes, Caches};
use crate::warnings::{self as of_figures, WarningContext};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{LatencyWorkload, LoadWorkload, Pages, Placement, Workload};
use numaio_schema::{LoadPoint, LoadedCurve, Warning};

/// Pauses of a loading thread after each piece, in nanoseconds, from minimal to full load. Idle
/// latency is measured before.
const GAPS_NS: [u32; 10] = [12_800, 3_200, 1_600, 800, 400, 200, 100, 50, 25, 0];
/// Total buffer size of loading threads as a multiple of their last-level caches.
const CACHES_FILLED: u64 = 4;

/// A path: a chain and the loads under which it is followed.
pub(super) struct Path {
    cpu_node: NodeId,
    placement: Placement,
    points: Vec<LatencyWorkload>,
    impossible: Option<ProbeError>,
}

/// Returns the paths to load, with a warning for each node that cannot load its paths.
pub(super) fn paths(
    topology: &Topology,
    pairs: &Pairs,
    chains: &[Chain],
    options: &LatencyOptions,
) -> (Vec<Path>, Vec<Warning>) {
    let (mut paths, mut warnings) = (Vec::new(), Vec::new());
    for node in options.loaded.iter() {
        let mut loaders = topology.cores(node);
        let chain = chains.iter().find(|chain| chain.cpu_node == node);
        let Some(chain) = chain.filter(|chain| loaders.remove(chain.cpu) && !loaders.is_empty()) else {
            let what = format!(
                "node {node} has fewer than two usable cores: one follows the chain, none \
                 is left to load its paths"
            );
            warnings.push(Warning { rule: "cannot-be-loaded".into(), message: what });
            continue;
        };
        let placement = Placement { cpus: loaders };
        paths.extend(
            pairs.memory_nodes.iter().map(|memory| path(topology, chain, &placement, memory, options)),
        );
    }
    (paths, warnings)
}

fn path(
    topology: &Topology,
    chain: &Chain,
    placement: &Placement,
    memory: NodeId,
    options: &LatencyOptions,
) -> Path {
    let cpus = &placement.cpus;
    let filled = Caches::of(topology, cpus).bytes.saturating_mul(CACHES_FILLED);
    let bytes_per_thread = per_thread_bytes(filled, cpus.len());
    let point = |gap_ns: &u32| {
        let load = LoadWorkload { placement: placement.clone(), memory, bytes_per_thread, gap_ns: *gap_ns };
        chain.workload(memory, Some(load), options)
    };
    let needed_bytes = bytes_per_thread.saturating_mul(cpus.len() as u64).saturating_add(chain.bytes);
    Path {
        cpu_node: chain.cpu_node,
        placement: placement.clone(),
        points: GAPS_NS.iter().map(point).collect(),
        impossible: memory_shortage(topology, memory, needed_bytes).filter(|_| options.pages != Pages::Huge),
    }
}

/// Measures the paths after idle latency.
pub(super) fn run(
    setting: &Setting,
    rule: &Rule,
    paths: &[Path],
    idle: &Finished,
    report: &mut dyn FnMut(&Event),
) -> Finished {
    let task = |path: &Path, point: &LatencyWorkload| Task {
        workload: Workload::Latency(point.clone()),
        group: path.cpu_node,
        alike: None,
        impossible: path.impossible.clone(),
    };
    let of_path = |path: &Path| path.points.iter().map(|point| task(path, point)).collect::<Vec<_>>();
    rounds::run(setting, rule, paths.iter().flat_map(of_path).collect(), idle.elapsed_ns, report)
}

pub(super) fn warnings(paths: &[Path], loaded: &Finished) -> Vec<Warning> {
    let points: Vec<(NodeId, &LatencyWorkload)> =
        paths.iter().flat_map(|path| path.points.iter().map(|point| (path.cpu_node, point))).collect();
    let name = |index: usize| {
        let (cpu_node, point) = points[index];
        let gap_ns = point.load.as_ref().map_or(0, |load| load.gap_ns);
        format!("node {cpu_node} to {} with gaps of {gap_ns} ns", point.memory)
    };
    let time_is_up = loaded.stop_reason == Some(StopReason::TimeLimit);
    // The warning about huge pages is part of idle latency.
    let context = WarningContext { quantity: "loaded latency", time_is_up, wanted_huge: false };
    of_figures::of_readings(&loaded.measured, &name, &context)
}

pub(super) fn curves(paths: Vec<Path>, loaded: Finished) -> Vec<LoadedCurve> {
    let mut measured = loaded.measured.into_iter();
    let curve = |path: Path| {
        let (cpu, memory_node) = path.points.first().map(|point| (point.cpu, point.memory))?;
        let points = measured.by_ref().zip(GAPS_NS).take(path.points.len());
        let points = points.map(|(measured, gap_ns)| LoadPoint {
            gap_ns,
            load_bytes_read_per_s: measured.load,
            ns_per_load: measured.reading,
        });
        let points = points.collect();
        Some(LoadedCurve { cpu_node: path.cpu_node, cpu, placement: path.placement, memory_node, points })
    };
    paths.into_iter().filter_map(curve).collect()
}
