//! A plan as whoever carries it out sees it: pools of threads, and what they share.

use crate::plan::{PathId, PathRates, Plan, PlanProblem, PlannedPath, Transfer};
use numaio_machine::ids::NodeId;

/// Pools of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedPools {
    /// Pools that bring data into memory: from storage to send, from the network to receive.
    pub fills: Vec<PlannedPool>,
    /// Pools that take it out.
    pub drains: Vec<PlannedPool>,
    /// What pools share. Pools keep the plan's time if they share it in proportion to their bytes (docs/internals/planning.md).
    pub shared: Vec<SharedRate>,
}

/// Threads that do the same work, on one way of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedPool {
    /// Which side of the memory its way is on.
    pub side: PoolSide,
    /// Node of the devices, and node of the memory and of the threads.
    pub path: PathId,
    /// Names of the devices of that side on the device node, those of storage with data only.
    pub devices: Vec<String>,
    /// Threads.
    pub threads: u32,
    /// Bytes that they move in all.
    pub bytes: u64,
    /// Bytes per second of one thread.
    pub thread_bytes_per_s: f64,
    /// Bytes per second of all its threads together at the most.
    pub most_bytes_per_s: f64,
}

/// Side of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolSide {
    /// Between storage and memory.
    Storage,
    /// Between memory and network.
    Network,
}

/// A rate that several pools share.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedRate {
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Numbers of the pools, those that fill first, then those that drain.
    pub pools: Vec<usize>,
}

impl Plan {
    /// Pools of threads by (device node, memory node), and what they share.
    pub fn pools(&self) -> PlannedPools {
        let problem = &self.problem;
        let pools = |side, ways: &[PlannedPath], rates: &[PathRates]| -> Vec<PlannedPool> {
            ways.iter().map(|way| pool(problem, side, way, rates)).collect()
        };
        let storage = pools(PoolSide::Storage, &self.storage_paths, &problem.storage_paths);
        let network = pools(PoolSide::Network, &self.network_paths, &problem.network_paths);
        let (fills, drains) = match problem.direction {
            Transfer::Send => (storage, network),
            Transfer::Receive => (network, storage),
        };
        let shared = shared(problem, &fills.iter().chain(&drains).collect::<Vec<_>>());
        PlannedPools { fills, drains, shared }
    }
}

fn pool(problem: &PlanProblem, side: PoolSide, way: &PlannedPath, rates: &[PathRates]) -> PlannedPool {
    let rates = rates.iter().find(|rates| rates.id() == way.id());
    let devices = match side {
        PoolSide::Storage => {
            let own = problem.storage.iter().filter(|it| it.node == way.device_node && it.bytes > 0);
            own.map(|it| it.device.clone()).collect()
        }
        PoolSide::Network => {
            let own = problem.nics.iter().filter(|it| it.node == way.device_node);
            own.map(|it| it.device.clone()).collect()
        }
    };
    PlannedPool {
        side,
        path: way.id(),
        devices,
        threads: way.threads,
        bytes: way.bytes,
        thread_bytes_per_s: rates
            .map_or(way.bytes_per_s / f64::from(way.threads.max(1)), |rates| rates.thread_bytes_per_s),
        most_bytes_per_s: rates.map_or(way.bytes_per_s, |rates| rates.most_bytes_per_s),
    }
}

/// NICs of a node, storage of a node, limits, as far as a figure of them is known.
fn shared(problem: &PlanProblem, pools: &[&PlannedPool]) -> Vec<SharedRate> {
    let numbers = |of: &dyn Fn(&PlannedPool) -> bool| -> Vec<usize> {
        (0..pools.len()).filter(|number| of(pools[*number])).collect()
    };
    let mut shared = Vec::new();
    for node in problem.nodes.iter().map(|node| node.node) {
        for (side, rate) in
            [(PoolSide::Network, nics_rate(problem, node)), (PoolSide::Storage, storage_rate(problem, node))]
        {
            let own = numbers(&|pool| pool.side == side && pool.path.device_node == node);
            shared.extend(rate.map(|bytes_per_s| SharedRate { bytes_per_s, pools: own }));
        }
    }
    for limit in &problem.limits {
        let own = numbers(&|pool| match pool.side {
            PoolSide::Storage => limit.storage_paths.contains(&pool.path),
            PoolSide::Network => limit.network_paths.contains(&pool.path),
        });
        shared.push(SharedRate { bytes_per_s: limit.bytes_per_s, pools: own });
    }
    shared.retain(|shared| !shared.pools.is_empty());
    shared
}

/// One NIC without a figure takes whatever its ways bring.
fn nics_rate(problem: &PlanProblem, node: NodeId) -> Option<f64> {
    problem.nics.iter().filter(|nic| nic.node == node).map(|nic| nic.bytes_per_s).sum()
}

/// All devices of a node are used in step with their data, so the one with most to do holds them all.
fn storage_rate(problem: &PlanProblem, node: NodeId) -> Option<f64> {
    let own = || problem.storage.iter().filter(|it| it.node == node && it.bytes > 0);
    let bytes: f64 = own().map(|it| it.bytes as f64).sum();
    let longest = own().filter_map(|it| Some(it.bytes as f64 / it.bytes_per_s?)).fold(0.0, f64::max);
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
    fn every_way_is_a_pool_with_its_devices() {
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
        let moved = |pools: &[PlannedPool]| pools.iter().map(|pool| pool.bytes).sum::<u64>();
        assert_eq!(moved(&pools.fills), moved(&pools.drains));
        assert!(pools.fills.iter().all(|pool| pool.side == PoolSide::Storage));
    }

    /// Of node 0's drives one has four times the other's data and holds it up: 2.5 TB at the rate at which it does 2 TB.
    /// Node 1's drive has no figure, and no plan uses the link, so that nothing is shared there.
    #[test]
    fn pools_share_what_has_a_figure() {
        let pools = plan().pools();
        let shared: Vec<_> = pools.shared.iter().map(|it| (it.bytes_per_s, it.pools.clone())).collect();
        assert_eq!(
            shared,
            [(12e9, vec![3]), (6.5e9 * 2.5 / 2.0, vec![0, 1]), (12e9, vec![4])],
            "NICs of node 0, its drives, NICs of node 1"
        );
    }

    #[test]
    fn received_data_fills_from_the_network() {
        let mut plan = plan();
        plan.problem.direction = Transfer::Receive;
        // Room for nothing is no room: that device is none of the pool.
        plan.problem.storage.push(PlanStorage {
            device: "spare".into(),
            node: NodeId(1),
            bytes: 0,
            bytes_per_s: Some(1.0),
        });
        let pools = plan.pools();
        assert!(pools.fills.iter().all(|pool| pool.side == PoolSide::Network));
        assert_eq!(pools.drains[2].devices, ["nvme2n1"]);
        assert_eq!(pools.shared[1].pools, [2, 3], "fills count first");
    }
}
