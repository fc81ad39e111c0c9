//! Evaluation of a plan under both objectives from the documents alone, and its feasibility. It
//! shares no code with the planning methods, which are checked against it.

use numaio_machine::ids::NodeId;
use numaio_schema::{PathId, PathRates, PlanProblem, PlannedPath, Prediction, Stage, StageTime};
use std::collections::{BTreeMap, BTreeSet};

/// Constraint that a plan violates.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("infeasible plan: {0}")]
pub struct InfeasiblePlan(pub String);

/// Computes the times of a plan in seconds under both objectives.
///
/// # Errors
/// The first violated constraint: an unknown or repeated path, bytes that do not add up per storage
/// or memory node, or too many threads.
pub fn evaluate(
    problem: &PlanProblem,
    storage_paths: &[PlannedPath],
    network_paths: &[PlannedPath],
) -> Result<Prediction, InfeasiblePlan> {
    check_paths("storage", &problem.storage_paths, storage_paths)?;
    check_paths("network", &problem.network_paths, network_paths)?;
    check_bytes(problem, storage_paths, network_paths)?;
    check_threads(problem, storage_paths, network_paths)?;
    let mut stages = path_stages(&problem.storage_paths, storage_paths, Stage::StoragePath);
    stages.extend(path_stages(&problem.network_paths, network_paths, Stage::NetworkPath));
    stages.extend(device_stages(problem, network_paths));
    stages.extend(limit_stages(problem, storage_paths, network_paths));
    stages.sort_by(|a, b| b.busy_s.total_cmp(&a.busy_s).then_with(|| a.stage.cmp(&b.stage)));
    let time_s = stages.first().map_or(0.0, |stage| stage.busy_s);
    Ok(Prediction {
        time_s,
        sum_s: printed_sum(problem, storage_paths, network_paths),
        bytes_per_s: problem.total_bytes() as f64 / time_s,
        simulated_s: None,
        stages,
    })
}

/// Returns the number of threads beyond which a path gains nothing: ⌈Bmax / B0⌉.
pub(crate) fn useful_threads(path: &PathRates) -> u32 {
    // Rounding errors must not add a thread to an exact multiple.
    (path.max_bytes_per_s / path.thread_bytes_per_s * (1.0 - 1e-12)).ceil().clamp(1.0, 1024.0) as u32
}

/// Returns the bandwidth of a number of threads on a path.
pub(crate) fn rate(path: &PathRates, threads: u32) -> f64 {
    (path.thread_bytes_per_s * f64::from(threads)).min(path.max_bytes_per_s)
}

pub(crate) fn find(paths: &[PathRates], id: PathId) -> Option<&PathRates> {
    paths.iter().find(|path| path.id() == id)
}

fn check_paths(kind: &str, known: &[PathRates], used: &[PlannedPath]) -> Result<(), InfeasiblePlan> {
    let mut seen = BTreeSet::new();
    for path in used {
        let name = format!(
            "the {kind} path of device node {} and memory node {}",
            path.device_node, path.memory_node
        );
        let Some(rates) = find(known, path.id()) else {
            return Err(InfeasiblePlan(format!("{name} is not in the problem")));
        };
        if !seen.insert(path.id()) {
            return Err(InfeasiblePlan(format!("{name} is used twice")));
        }
        if path.threads == 0 || path.bytes == 0 || path.threads > useful_threads(rates) {
            let (threads, bytes, most) = (path.threads, path.bytes, useful_threads(rates));
            return Err(InfeasiblePlan(format!(
                "{name} has {threads} threads, expected 1 to {most}, and {bytes} bytes"
            )));
        }
    }
    Ok(())
}

fn bytes_by(paths: &[PlannedPath], key: impl Fn(&PlannedPath) -> NodeId) -> BTreeMap<NodeId, u64> {
    let mut bytes = BTreeMap::new();
    for path in paths {
        let sum = bytes.entry(key(path)).or_insert(0u64);
        *sum = sum.saturating_add(path.bytes);
    }
    bytes
}

fn check_bytes(
    problem: &PlanProblem,
    reads: &[PlannedPath],
    sends: &[PlannedPath],
) -> Result<(), InfeasiblePlan> {
    let mut wanted: BTreeMap<NodeId, u64> = BTreeMap::new();
    for storage in problem.storage.iter().filter(|storage| storage.bytes > 0) {
        let sum = wanted.entry(storage.node).or_insert(0);
        *sum = sum.saturating_add(storage.bytes);
    }
    let planned = bytes_by(reads, |path| path.device_node);
    if planned != wanted {
        return Err(InfeasiblePlan(format!(
            "storage nodes have bytes {wanted:?} but their paths carry {planned:?}"
        )));
    }
    let (comes, goes) = (bytes_by(reads, |path| path.memory_node), bytes_by(sends, |path| path.memory_node));
    if comes != goes {
        return Err(InfeasiblePlan(format!(
            "memory nodes exchange bytes {comes:?} with storage but {goes:?} with the network"
        )));
    }
    let nics: BTreeSet<NodeId> = problem.nics.iter().map(|nic| nic.node).collect();
    match sends.iter().find(|path| !nics.contains(&path.device_node)) {
        Some(path) => Err(InfeasiblePlan(format!("node {} has no NIC", path.device_node))),
        None => Ok(()),
    }
}

fn check_threads(
    problem: &PlanProblem,
    reads: &[PlannedPath],
    sends: &[PlannedPath],
) -> Result<(), InfeasiblePlan> {
    for node in &problem.nodes {
        let own = reads.iter().chain(sends).filter(|path| path.memory_node == node.node);
        let used: u64 = own.map(|path| u64::from(path.threads)).sum();
        let pinned = problem.no_threads_on.contains(&node.node);
        let all = if pinned { 0 } else { node.threads.unwrap_or(problem.threads_per_node) };
        let most = all.saturating_sub(node.reserved);
        if used > u64::from(most) {
            return Err(InfeasiblePlan(format!(
                "node {} runs {used} threads, expected at most {most}",
                node.node
            )));
        }
    }
    Ok(())
}

fn path_stages(known: &[PathRates], used: &[PlannedPath], stage: fn(PathId) -> Stage) -> Vec<StageTime> {
    let of_path = |path: &PlannedPath| {
        let rates = find(known, path.id())?;
        Some(StageTime { stage: stage(path.id()), busy_s: path.bytes as f64 / rate(rates, path.threads) })
    };
    used.iter().filter_map(of_path).collect()
}

fn device_stages(problem: &PlanProblem, sends: &[PlannedPath]) -> Vec<StageTime> {
    let storage = problem.storage.iter().filter(|storage| storage.bytes > 0).filter_map(|storage| {
        let busy_s = storage.bytes as f64 / storage.bytes_per_s?;
        Some(StageTime { stage: Stage::Storage(storage.device.clone()), busy_s })
    });
    let nics = bytes_by(sends, |path| path.device_node).into_iter().filter_map(|(node, bytes)| {
        let own = problem.nics.iter().filter(|nic| nic.node == node);
        let rate = own.map(|nic| nic.bytes_per_s).sum::<Option<f64>>()?;
        Some(StageTime { stage: Stage::Nics(node), busy_s: bytes as f64 / rate })
    });
    storage.chain(nics).collect()
}

fn limit_stages(problem: &PlanProblem, reads: &[PlannedPath], sends: &[PlannedPath]) -> Vec<StageTime> {
    let bytes = |paths: &[PlannedPath], ids: &[PathId]| -> f64 {
        paths.iter().filter(|path| ids.contains(&path.id())).map(|path| path.bytes as f64).sum()
    };
    let of_limit = |limit: &numaio_schema::PlanLimit| {
        let bytes = bytes(reads, &limit.storage_paths) + bytes(sends, &limit.network_paths);
        let busy_s = bytes / limit.bytes_per_s;
        (bytes > 0.0).then(|| StageTime { stage: Stage::Limit(limit.name.clone()), busy_s })
    };
    problem.limits.iter().filter_map(of_limit).collect()
}

/// Σ over used (u,v,w) of max(βd(u,v) / (γd(u,v) Bd0(u,v)), βn(v,w) / (γn(v,w) Bn0(v,w))), as
/// printed: threads add B0 each, regardless of Bmax.
fn printed_sum(problem: &PlanProblem, reads: &[PlannedPath], sends: &[PlannedPath]) -> f64 {
    let time = |known: &[PathRates], path: &PlannedPath| {
        let one = find(known, path.id()).map_or(f64::INFINITY, |rates| rates.thread_bytes_per_s);
        path.bytes as f64 / (f64::from(path.threads) * one)
    };
    let of_read = |read: &PlannedPath| -> f64 {
        let own = time(&problem.storage_paths, read);
        let sends = sends.iter().filter(|send| send.memory_node == read.memory_node);
        sends.map(|send| own.max(time(&problem.network_paths, send))).sum()
    };
    reads.iter().map(of_read).sum()
}
