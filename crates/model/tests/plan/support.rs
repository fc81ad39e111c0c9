//! Planning problems for tests and benches: from tables, and random from a seed.
#![allow(dead_code)]

use numaio_machine::ids::NodeId;
use numaio_schema::{
    Objective, PathId, PathRates, PlanLimit, PlanNic, PlanNode, PlanProblem, PlanStorage, RateOrigin,
    Transfer, PLAN_PROBLEM_SCHEMA,
};

/// Bytes per unit of data, and bytes per second per unit of bandwidth.
pub const UNIT: f64 = 1e9;

/// Builds a problem of `threads.len()` nodes. `data[u]` are the units on node u, and `nics[w]` is
/// the bandwidth of node w's NIC: 0 for no NIC, infinite without a value. `reads[u][v]` and
/// `sends[w][v]` are (B0, Bmax); a B0 of 0 means no path.
pub fn table(
    threads: &[u32],
    data: &[f64],
    nics: &[f64],
    reads: &[Vec<(f64, f64)>],
    sends: &[Vec<(f64, f64)>],
) -> PlanProblem {
    let ways = |rates: &[Vec<(f64, f64)>]| -> Vec<PathRates> {
        let all = rates.iter().enumerate().flat_map(|(device, row)| {
            row.iter().enumerate().map(move |(memory, (one, most))| PathRates {
                device_node: NodeId(device as u32),
                memory_node: NodeId(memory as u32),
                thread_bytes_per_s: one * UNIT,
                max_bytes_per_s: most * UNIT,
                origin: RateOrigin::Given,
            })
        });
        all.filter(|way| way.thread_bytes_per_s > 0.0).collect()
    };
    let ids = || (0..threads.len() as u32).map(NodeId);
    PlanProblem {
        schema: PLAN_PROBLEM_SCHEMA.to_owned(),
        direction: Transfer::Send,
        objective: Objective::Time,
        threads_per_node: 0,
        no_threads_on: Vec::new(),
        assumptions: Vec::new(),
        machine: None,
        nodes: ids()
            .zip(threads)
            .map(|(node, own)| PlanNode { node, threads: Some(*own), reserved: 0 })
            .collect(),
        storage: ids()
            .zip(data)
            .map(|(node, units)| PlanStorage {
                device: format!("nvme{node}n1"),
                node,
                bytes: (units * UNIT) as u64,
                bytes_per_s: None,
            })
            .collect(),
        nics: ids()
            .zip(nics)
            .filter(|(_, rate)| **rate > 0.0)
            .map(|(node, rate)| PlanNic {
                device: format!("eth{node}"),
                node,
                bytes_per_s: rate.is_finite().then_some(rate * UNIT),
            })
            .collect(),
        storage_paths: ways(reads),
        network_paths: ways(sends),
        limits: Vec::new(),
    }
}

/// Reproducible random numbers (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number from 0 to below 1.
    pub fn share(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }

    pub fn below(&mut self, most: usize) -> usize {
        (self.share() * most as f64) as usize
    }

    /// Returns one of the values, so that ties occur.
    pub fn of(&mut self, values: &[f64]) -> f64 {
        values[self.below(values.len())]
    }
}

/// Returns a problem as in the dissertation: storage and network on every node, random bandwidths,
/// limited only by threads.
pub fn printed(nodes: usize, threads: u32, seed: u64) -> PlanProblem {
    let mut random = Random::new(seed);
    let mut rates = |_| -> Vec<(f64, f64)> {
        let mut one = |_| {
            let thread = random.between(0.5, 2.0);
            (thread, thread * random.between(1.0, 7.0))
        };
        (0..nodes).map(&mut one).collect()
    };
    let reads: Vec<Vec<(f64, f64)>> = (0..nodes).map(&mut rates).collect();
    let sends: Vec<Vec<(f64, f64)>> = (0..nodes).map(&mut rates).collect();
    let data: Vec<f64> = (0..nodes).map(|_| random.between(200.0, 1200.0)).collect();
    table(&vec![threads; nodes], &data, &vec![f64::INFINITY; nodes], &reads, &sends)
}

/// Returns a realistic machine: storage on half of the nodes, NICs of 50 to 400 Gbit/s on a
/// quarter, remote paths slower than local ones.
pub fn machine(nodes: usize, threads: u32, seed: u64) -> PlanProblem {
    let mut random = Random::new(seed);
    let mut chosen = |share: f64| -> Vec<bool> {
        let mut chosen: Vec<bool> = (0..nodes).map(|_| random.share() < share).collect();
        chosen[random.below(nodes)] = true;
        chosen
    };
    let (stores, networks) = (chosen(0.5), chosen(0.25));
    let mut rates = |device: usize, here: bool| -> Vec<(f64, f64)> {
        let mut one = |memory: usize| {
            let far = if memory == device { 1.0 } else { random.between(0.4, 0.95) };
            let thread = if here { far * random.between(1.6, 2.0) } else { 0.0 };
            (thread, thread * random.between(2.0, 8.0))
        };
        (0..nodes).map(&mut one).collect()
    };
    let reads: Vec<Vec<(f64, f64)>> = (0..nodes).map(|node| rates(node, stores[node])).collect();
    let sends: Vec<Vec<(f64, f64)>> = (0..nodes).map(|node| rates(node, networks[node])).collect();
    let data: Vec<f64> =
        stores.iter().map(|has| if *has { random.between(200.0, 1200.0) } else { 0.0 }).collect();
    let speeds = [6.25, 12.5, 25.0, 50.0];
    let nics: Vec<f64> = networks.iter().map(|has| if *has { random.of(&speeds) } else { 0.0 }).collect();
    let mut problem = table(&vec![threads; nodes], &data, &nics, &reads, &sends);
    for storage in &mut problem.storage {
        storage.bytes_per_s = Some(random.between(3.0, 23.0) * UNIT);
    }
    problem
}

/// Returns a problem with small values of a grid: many ties, and thread counts matter.
pub fn small(nodes: usize, most_threads: u32, seed: u64) -> PlanProblem {
    let mut random = Random::new(seed);
    let mut rates = |_| -> Vec<(f64, f64)> {
        let mut one = |_| {
            let thread = random.of(&[1.0, 1.5, 2.0, 3.0]);
            (thread, thread * random.of(&[1.0, 1.5, 2.0, 3.0]))
        };
        (0..nodes).map(&mut one).collect()
    };
    let reads: Vec<Vec<(f64, f64)>> = (0..nodes).map(&mut rates).collect();
    let sends: Vec<Vec<(f64, f64)>> = (0..nodes).map(&mut rates).collect();
    let mut data: Vec<f64> = (0..nodes).map(|_| random.of(&[0.0, 1.0, 2.0, 5.0])).collect();
    data[random.below(nodes)] = 4.0;
    let mut nics: Vec<f64> = (0..nodes).map(|_| random.of(&[0.0, 2.0, 4.0, f64::INFINITY])).collect();
    nics[random.below(nodes)] = 3.0;
    let threads: Vec<u32> = (0..nodes).map(|_| 2 + random.below(most_threads as usize - 1) as u32).collect();
    table(&threads, &data, &nics, &reads, &sends)
}

/// Returns an unusual problem, as in hand-written files: missing paths, extreme or equal values,
/// paths that one thread saturates, nodes without threads, devices without data, narrow links, gaps
/// in IDs.
pub fn awkward(nodes: usize, seed: u64) -> PlanProblem {
    let mut random = Random::new(seed);
    let alike = random.share() < 0.3;
    let mut rates = |_| -> Vec<(f64, f64)> {
        let mut one = |_| {
            let thread = if alike { 1.0 } else { random.of(&[0.0, 0.001, 0.3, 1.0, 1.0, 40.0]) };
            (thread, thread * random.of(&[0.5, 1.0, 1.0 + 1e-9, 1.5, 2.0 - 1e-9, 7.0]))
        };
        (0..nodes).map(&mut one).collect()
    };
    let reads: Vec<Vec<(f64, f64)>> = (0..nodes).map(&mut rates).collect();
    let sends: Vec<Vec<(f64, f64)>> = (0..nodes).map(&mut rates).collect();
    let data: Vec<f64> = (0..nodes).map(|_| random.of(&[0.0, 1e-6, 1.0, 1.0, 3.0])).collect();
    let nics: Vec<f64> = (0..nodes).map(|_| random.of(&[0.0, 0.01, 2.0, f64::INFINITY])).collect();
    let threads: Vec<u32> = (0..nodes).map(|_| random.of(&[0.0, 1.0, 2.0, 3.0, 4.0]) as u32).collect();
    let mut problem = table(&threads, &data, &nics, &reads, &sends);
    for node in &mut problem.nodes {
        node.reserved = (random.below(4) / 3) as u32;
    }
    for storage in &mut problem.storage {
        storage.bytes_per_s = (random.share() < 0.3).then(|| random.of(&[0.01, 1.0, 5.0]) * UNIT);
    }
    if random.share() < 0.5 {
        let ways = |ways: &[PathRates]| ways.iter().map(PathRates::id).step_by(2).collect();
        problem.limits.push(PlanLimit {
            name: "every second path".to_owned(),
            bytes_per_s: random.of(&[0.02, 1.0, 4.0]) * UNIT,
            storage_paths: ways(&problem.storage_paths),
            network_paths: ways(&problem.network_paths),
        });
    }
    spread_ids(&mut problem);
    problem
}

/// Spreads node IDs with wide gaps.
fn spread_ids(problem: &mut PlanProblem) {
    let spread = |node: &mut NodeId| node.0 = node.0 * node.0 * 1000 + 7 * node.0;
    problem.nodes.iter_mut().for_each(|node| spread(&mut node.node));
    problem.storage.iter_mut().for_each(|storage| spread(&mut storage.node));
    problem.nics.iter_mut().for_each(|nic| spread(&mut nic.node));
    let ways = problem.storage_paths.iter_mut().chain(&mut problem.network_paths);
    ways.flat_map(|way| [&mut way.device_node, &mut way.memory_node]).for_each(spread);
    let limits = problem
        .limits
        .iter_mut()
        .flat_map(|limit| limit.storage_paths.iter_mut().chain(&mut limit.network_paths));
    limits.flat_map(|way| [&mut way.device_node, &mut way.memory_node]).for_each(spread);
}

/// Returns measured machines, and a two-socket server with four NVMe drives and two NICs, all with
/// eight threads per node. Bandwidths are those of the shipped recordings
/// (docs/internals/planning.md): the copy of two threads in the device's direction is Bmax, half of
/// it B0. Those of the two-socket server are assumed.
pub fn recorded() -> Vec<(&'static str, PlanProblem)> {
    let on_one = |target: usize, comes: &[f64], goes: &[f64]| {
        let nodes = comes.len();
        let row = |rates: &[f64]| rates.iter().map(|most| (most / 2.0, *most)).collect::<Vec<(f64, f64)>>();
        let none = vec![(0.0, 0.0); nodes];
        let rows = |rates: &[f64]| -> Vec<Vec<(f64, f64)>> {
            (0..nodes).map(|node| if node == target { row(rates) } else { none.clone() }).collect()
        };
        let here = |value: f64| {
            (0..nodes).map(|node| if node == target { value } else { 0.0 }).collect::<Vec<f64>>()
        };
        table(&vec![8; nodes], &here(50.0), &here(f64::INFINITY), &rows(comes), &rows(goes))
    };
    let r820 = on_one(1, &[0.0563, 0.0994, 0.0557, 0.0425], &[0.0557, 0.0994, 0.0552, 0.0428]);
    let dl585 = on_one(
        7,
        &[0.0824, 0.0811, 0.1006, 0.0938, 0.0561, 0.0798, 0.0943, 0.1036],
        &[0.0938, 0.0875, 0.055, 0.0521, 0.0886, 0.086, 0.093, 0.1036],
    );
    vec![("Intel R820", r820), ("AMD DL585 G7", dl585), ("two sockets, 4 NVMe, 2 NICs", two_sockets())]
}

/// Two NVMe drives and a NIC of 100 Gbit/s on each of two sockets; more data on the first socket.
pub fn two_sockets() -> PlanProblem {
    let reads = [vec![(1.8, 13.0), (1.4, 10.0)], vec![(1.4, 10.0), (1.8, 13.0)]];
    let sends = [vec![(2.8, 12.5), (2.1, 9.0)], vec![(2.1, 9.0), (2.8, 12.5)]];
    let mut problem = table(&[8, 8], &[2500.0, 1000.0], &[12.5, 12.5], &reads, &sends);
    let mut second = problem.storage.clone();
    for (number, storage) in problem.storage.iter_mut().chain(&mut second).enumerate() {
        storage.device = format!("nvme{number}n1");
        storage.bytes /= 2;
        storage.bytes_per_s = Some(6.8 * UNIT);
    }
    problem.storage.extend(second);
    problem
}

/// Adds a limit of an eighth of the total rate of its paths, so that it is binding.
pub fn with_limit(mut problem: PlanProblem) -> PlanProblem {
    let local = |way: &PathId| way.device_node == way.memory_node;
    let far = |ways: &[PathRates]| -> Vec<PathId> {
        ways.iter().map(PathRates::id).filter(|way| !local(way)).collect()
    };
    let (storage_paths, network_paths) = (far(&problem.storage_paths), far(&problem.network_paths));
    let ways = problem.storage_paths.iter().chain(&problem.network_paths);
    let all: f64 = ways.filter(|way| !local(&way.id())).map(|way| way.thread_bytes_per_s).sum();
    if all > 0.0 {
        let bytes_per_s = all / 8.0;
        problem.limits.push(PlanLimit {
            name: "links".to_owned(),
            bytes_per_s,
            storage_paths,
            network_paths,
        });
    }
    problem
}
