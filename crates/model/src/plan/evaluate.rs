//! What a plan takes under both objectives, reckoned from the documents alone, and whether it may be carried out. The
//! methods do not share this code: it is what they are checked against.

use numaio_machine::ids::NodeId;
use numaio_schema::{PlanProblem, PlannedWay, Prediction, Stage, StageTime, WayId, WayRates};
use std::collections::{BTreeMap, BTreeSet};

/// Why ways are no plan of a problem: the constraint that does not hold.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the plan does not hold: {0}")]
pub struct NotFeasible(pub String);

/// What ways of a problem take, in seconds, by both objectives.
///
/// # Errors
/// The first constraint that does not hold: a way that the problem has not, a way used twice, bytes that are not
/// all data or do not leave where they came to, too many threads.
pub fn evaluate(
    problem: &PlanProblem,
    storage_ways: &[PlannedWay],
    network_ways: &[PlannedWay],
) -> Result<Prediction, NotFeasible> {
    check_ways("storage", &problem.storage_ways, storage_ways)?;
    check_ways("network", &problem.network_ways, network_ways)?;
    check_bytes(problem, storage_ways, network_ways)?;
    check_threads(problem, storage_ways, network_ways)?;
    let mut stages = way_stages(&problem.storage_ways, storage_ways, Stage::StorageWay);
    stages.extend(way_stages(&problem.network_ways, network_ways, Stage::NetworkWay));
    stages.extend(device_stages(problem, network_ways));
    stages.extend(limit_stages(problem, storage_ways, network_ways));
    stages.sort_by(|a, b| b.busy_s.total_cmp(&a.busy_s).then_with(|| a.stage.cmp(&b.stage)));
    let time_s = stages.first().map_or(0.0, |stage| stage.busy_s);
    Ok(Prediction {
        time_s,
        sum_s: printed_sum(problem, storage_ways, network_ways),
        bytes_per_s: problem.total_bytes() as f64 / time_s,
        simulated_s: None,
        stages,
    })
}

/// Threads beyond which a way gains nothing: ⌈Bmax / B0⌉.
pub(crate) fn useful_threads(way: &WayRates) -> u32 {
    // A multiple that rounding has lifted is still that multiple.
    (way.most_bytes_per_s / way.thread_bytes_per_s * (1.0 - 1e-12)).ceil().clamp(1.0, 1024.0) as u32
}

/// Bytes per second of so many threads on a way.
pub(crate) fn rate(way: &WayRates, threads: u32) -> f64 {
    (way.thread_bytes_per_s * f64::from(threads)).min(way.most_bytes_per_s)
}

pub(crate) fn find(ways: &[WayRates], id: WayId) -> Option<&WayRates> {
    ways.iter().find(|way| way.id() == id)
}

fn check_ways(kind: &str, known: &[WayRates], used: &[PlannedWay]) -> Result<(), NotFeasible> {
    let mut seen = BTreeSet::new();
    for way in used {
        let name =
            format!("the {kind} way of device node {} and memory node {}", way.device_node, way.memory_node);
        let Some(rates) = find(known, way.id()) else {
            return Err(NotFeasible(format!("{name} is not in the problem")));
        };
        if !seen.insert(way.id()) {
            return Err(NotFeasible(format!("{name} is used twice")));
        }
        if way.threads == 0 || way.bytes == 0 || way.threads > useful_threads(rates) {
            let (threads, bytes, most) = (way.threads, way.bytes, useful_threads(rates));
            return Err(NotFeasible(format!(
                "{name} has {threads} of 1 to {most} threads, and {bytes} bytes"
            )));
        }
    }
    Ok(())
}

fn bytes_by(ways: &[PlannedWay], key: impl Fn(&PlannedWay) -> NodeId) -> BTreeMap<NodeId, u64> {
    let mut bytes = BTreeMap::new();
    for way in ways {
        let sum = bytes.entry(key(way)).or_insert(0u64);
        *sum = sum.saturating_add(way.bytes);
    }
    bytes
}

fn check_bytes(problem: &PlanProblem, reads: &[PlannedWay], sends: &[PlannedWay]) -> Result<(), NotFeasible> {
    let mut wanted: BTreeMap<NodeId, u64> = BTreeMap::new();
    for storage in problem.storage.iter().filter(|storage| storage.bytes > 0) {
        let sum = wanted.entry(storage.node).or_insert(0);
        *sum = sum.saturating_add(storage.bytes);
    }
    let planned = bytes_by(reads, |way| way.device_node);
    if planned != wanted {
        return Err(NotFeasible(format!(
            "storage nodes have bytes {wanted:?}, and the ways carry {planned:?}"
        )));
    }
    let (comes, goes) = (bytes_by(reads, |way| way.memory_node), bytes_by(sends, |way| way.memory_node));
    if comes != goes {
        return Err(NotFeasible(format!(
            "memory nodes get bytes {comes:?} of storage, and {goes:?} of the network"
        )));
    }
    let nics: BTreeSet<NodeId> = problem.nics.iter().map(|nic| nic.node).collect();
    match sends.iter().find(|way| !nics.contains(&way.device_node)) {
        Some(way) => Err(NotFeasible(format!("node {} has no NIC", way.device_node))),
        None => Ok(()),
    }
}

fn check_threads(
    problem: &PlanProblem,
    reads: &[PlannedWay],
    sends: &[PlannedWay],
) -> Result<(), NotFeasible> {
    for node in &problem.nodes {
        let own = reads.iter().chain(sends).filter(|way| way.memory_node == node.node);
        let used: u64 = own.map(|way| u64::from(way.threads)).sum();
        let pinned = problem.no_threads_on.contains(&node.node);
        let all = if pinned { 0 } else { node.threads.unwrap_or(problem.threads_per_node) };
        let most = all.saturating_sub(node.reserved);
        if used > u64::from(most) {
            return Err(NotFeasible(format!(
                "node {} runs {used} threads, and it may run {most}",
                node.node
            )));
        }
    }
    Ok(())
}

fn way_stages(known: &[WayRates], used: &[PlannedWay], stage: fn(WayId) -> Stage) -> Vec<StageTime> {
    let of_way = |way: &PlannedWay| {
        let rates = find(known, way.id())?;
        Some(StageTime { stage: stage(way.id()), busy_s: way.bytes as f64 / rate(rates, way.threads) })
    };
    used.iter().filter_map(of_way).collect()
}

fn device_stages(problem: &PlanProblem, sends: &[PlannedWay]) -> Vec<StageTime> {
    let storage = problem.storage.iter().filter(|storage| storage.bytes > 0).filter_map(|storage| {
        let busy_s = storage.bytes as f64 / storage.bytes_per_s?;
        Some(StageTime { stage: Stage::Storage(storage.device.clone()), busy_s })
    });
    let nics = bytes_by(sends, |way| way.device_node).into_iter().filter_map(|(node, bytes)| {
        let own = problem.nics.iter().filter(|nic| nic.node == node);
        let rate = own.map(|nic| nic.bytes_per_s).sum::<Option<f64>>()?;
        Some(StageTime { stage: Stage::Nics(node), busy_s: bytes as f64 / rate })
    });
    storage.chain(nics).collect()
}

fn limit_stages(problem: &PlanProblem, reads: &[PlannedWay], sends: &[PlannedWay]) -> Vec<StageTime> {
    let bytes = |ways: &[PlannedWay], ids: &[WayId]| -> f64 {
        ways.iter().filter(|way| ids.contains(&way.id())).map(|way| way.bytes as f64).sum()
    };
    let of_limit = |limit: &numaio_schema::PlanLimit| {
        let bytes = bytes(reads, &limit.storage_ways) + bytes(sends, &limit.network_ways);
        let busy_s = bytes / limit.bytes_per_s;
        (bytes > 0.0).then(|| StageTime { stage: Stage::Limit(limit.name.clone()), busy_s })
    };
    problem.limits.iter().filter_map(of_limit).collect()
}

/// Σ over used (u,v,w) of max(βd(u,v) / (γd(u,v) Bd0(u,v)), βn(v,w) / (γn(v,w) Bn0(v,w))), as printed: threads
/// bring B0 each, whatever Bmax is.
fn printed_sum(problem: &PlanProblem, reads: &[PlannedWay], sends: &[PlannedWay]) -> f64 {
    let time = |known: &[WayRates], way: &PlannedWay| {
        let one = find(known, way.id()).map_or(f64::INFINITY, |rates| rates.thread_bytes_per_s);
        way.bytes as f64 / (f64::from(way.threads) * one)
    };
    let of_read = |read: &PlannedWay| -> f64 {
        let own = time(&problem.storage_ways, read);
        let sends = sends.iter().filter(|send| send.memory_node == read.memory_node);
        sends.map(|send| own.max(time(&problem.network_ways, send))).sum()
    };
    reads.iter().map(of_read).sum()
}
