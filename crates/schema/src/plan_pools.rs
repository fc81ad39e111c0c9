//! A plan as pools of threads and the rates that they share, for its executors.

use crate::plan::{PathId, PathRates, Plan, PlanProblem, PlannedPath, Transfer};
use numaio_machine::ids::NodeId;

/// The thread pools of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedPools {
    /// Pools that fill memory: from storage when sending, from the network when receiving.
    pub fills: Vec<PlannedPool>,
    /// Pools that drain memory.
    pub drains: Vec<PlannedPool>,
    /// Shared rates. Pools meet the predicted time if they share them in proportion to their bytes
    /// (docs/internals/planning.md).
    pub shared: Vec<SharedRate>,
}

/// Threads with the same work, on one path of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedPool {
    /// The side of the memory.
    pub side: PoolSide,
    /// The device node and the node of memory and threads.
    pub path: PathId,
    /// Names of the devices on the device node; storage only with data.
    pub devices: Vec<String>,
    /// Number of threads.
    pub threads: u32,
    /// Total bytes to move.
    pub bytes: u64,
    /// Bytes per second of one thread.
    pub thread_bytes_per_s: f64,
    /// Maximum bytes per second of all threads together.
    pub max_bytes_per_s: f64,
}

/// A side of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolSide {
    /// Between storage and memory.
    Storage,
    /// Between memory and network.
    Network,
}

/// A rate shared by several pools.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedRate {
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Indices of the pools, counting first those that fill, then those that drain.
    pub pools: Vec<usize>,
}

impl Plan {
    /// Returns the pools of threads by device node and memory node, and their shared rates.
    pub fn pools(&self) -> PlannedPools {
        let problem = &self.problem;
        let pools = |side, paths: &[PlannedPath], rates: &[PathRates]| -> Vec<PlannedPool> {
            paths.iter().map(|path| pool(problem, side, path, rates)).collect()
        };
        let storage = pools(PoolSide::Storage, &self.storage_paths, &problem.storage_paths);
        let network = pools(PoolSide::Network, &self.network_paths, &problem.network_paths);
        let (fills, drains) = match problem.direction {
            Transfer::Send => (storage, network),
            Transfer::Receive => (network, storage),
        };
        let shared = shared_rates(problem, &fills.iter().chain(&drains).collect::<Vec<_>>());
        PlannedPools { fills, drains, shared }
    }
}

fn pool(problem: &PlanProblem, side: PoolSide, path: &PlannedPath, rates: &[PathRates]) -> PlannedPool {
    let rates = rates.iter().find(|rates| rates.id() == path.id());
    let devices = match side {
        PoolSide::Storage => {
            let local = problem.storage.iter().filter(|it| it.node == path.device_node && it.bytes > 0);
            local.map(|it| it.device.clone()).collect()
        }
        PoolSide::Network => {
            let local = problem.nics.iter().filter(|it| it.node == path.device_node);
            local.map(|it| it.device.clone()).collect()
        }
    };
    PlannedPool {
        side,
        path: path.id(),
        devices,
        threads: path.threads,
        bytes: path.bytes,
        thread_bytes_per_s: rates
            .map_or(path.bytes_per_s / f64::from(path.threads.max(1)), |rates| rates.thread_bytes_per_s),
        max_bytes_per_s: rates.map_or(path.bytes_per_s, |rates| rates.max_bytes_per_s),
    }
}

/// Returns the rates shared by pools: NICs of a node, storage of a node and limits, as far as
/// known.
fn shared_rates(problem: &PlanProblem, pools: &[&PlannedPool]) -> Vec<SharedRate> {
    let indices = |is_member: &dyn Fn(&PlannedPool) -> bool| -> Vec<usize> {
        (0..pools.len()).filter(|index| is_member(pools[*index])).collect()
    };
    let mut shared = Vec::new();
    for node in problem.nodes.iter().map(|node| node.node) {
        for (side, rate) in
            [(PoolSide::Network, nics_rate(problem, node)), (PoolSide::Storage, storage_rate(problem, node))]
        {
            let members = indices(&|pool| pool.side == side && pool.path.device_node == node);
            shared.extend(rate.map(|bytes_per_s| SharedRate { bytes_per_s, pools: members }));
        }
    }
    for limit in &problem.limits {
        let members = indices(&|pool| match pool.side {
            PoolSide::Storage => limit.storage_paths.contains(&pool.path),
            PoolSide::Network => limit.network_paths.contains(&pool.path),
        });
        shared.push(SharedRate { bytes_per_s: limit.bytes_per_s, pools: members });
    }
    shared.retain(|shared| !shared.pools.is_empty());
    shared
}

/// Returns the rate of a node's NICs; `None` if that of one NIC is unknown.
fn nics_rate(problem: &PlanProblem, node: NodeId) -> Option<f64> {
    problem.nics.iter().filter(|nic| nic.node == node).map(|nic| nic.bytes_per_s).sum()
}

/// Returns the rate of a node's storage. All devices finish together, so the slowest one, by its
/// data, limits the node.
fn storage_rate(problem: &PlanProblem, node: NodeId) -> Option<f64> {
    let local = || problem.storage.iter().filter(|it| it.node == node && it.bytes > 0);
    let bytes: f64 = local().map(|it| it.bytes as f64).sum();
    let longest = local().filter_map(|it| Some(it.bytes as f64 / it.bytes_per_s?)).fold(0.0, f64::max);
    (longest > 0.0).then(|| bytes / longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlanStorage;

    fn plan() -> Plan {
        Plan::from_json(include_str!("../tests/fixtures/plan-1.json")).expect("a plan")
    }

    fn path(device: u32, memory: u32) -> PathId {
        PathId { device_node: NodeId(device), memory_node: NodeId(memory) }
    }

    #[test]
    fn each_path_becomes_a_pool_with_its_devices() {
        let pools = plan().pools();
        let fills: Vec<_> = pools.fills.iter().map(|pool| (pool.path, pool.threads, pool.bytes)).collect();
        assert_eq!(
            fills,
            [
                (path(0, 0), 4, 2_461_538_461_538),
                (path(0, 1), 1, 38_461_538_462),
                (path(1, 1), 1, 500_000_000_000)
            ]
        );
        assert_eq!(pools.fills[0].devices, ["nvme0n1", "nvme1n1"]);
        assert_eq!(pools.drains[1].devices, ["eth1"]);
        let total_bytes = |pools: &[PlannedPool]| pools.iter().map(|pool| pool.bytes).sum::<u64>();
        assert_eq!(total_bytes(&pools.fills), total_bytes(&pools.drains));
        assert!(pools.fills.iter().all(|pool| pool.side == PoolSide::Storage));
    }

    /// One drive of node 0 has four times the data of the other and limits both: 2.5 TB at the rate
    /// at which it moves 2 TB. The drive of node 1 has no rate, and no path uses the link, so
    /// neither is shared.
    #[test]
    fn pools_share_known_rates() {
        let pools = plan().pools();
        let shared: Vec<_> = pools.shared.iter().map(|it| (it.bytes_per_s, it.pools.clone())).collect();
        assert_eq!(
            shared,
            [(12e9, vec![3]), (6.5e9 * 2.5 / 2.0, vec![0, 1]), (12e9, vec![4])],
            "NICs of node 0, its drives, NICs of node 1"
        );
    }

    #[test]
    fn receiving_fills_memory_from_the_network() {
        let mut plan = plan();
        plan.problem.direction = Transfer::Receive;
        // A device without bytes is not in the pool.
        plan.problem.storage.push(PlanStorage {
            device: "spare".into(),
            node: NodeId(1),
            bytes: 0,
            bytes_per_s: Some(1.0),
        });
        let pools = plan.pools();
        assert!(pools.fills.iter().all(|pool| pool.side == PoolSide::Network));
        assert_eq!(pools.drains[2].devices, ["nvme2n1"]);
        assert_eq!(pools.shared[1].pools, [2, 3], "filling pools are counted first");
    }
}
