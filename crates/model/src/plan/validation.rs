//! Validation and numbering of a problem.

use super::instance::{Instance, Limit, TransferPath};
use numaio_machine::ids::NodeId;
use numaio_schema::{Objective, PathId, PathRates, PlanLimit, PlanProblem};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of nodes, devices, paths or limits of a problem.
const MAX_ITEMS: usize = 4096;
/// Maximum number of threads of a node.
const MAX_THREADS: u32 = 1024;
/// Bytes below which a floating-point number is exact.
const MAX_BYTES: u64 = 1 << 53;
/// Maximum ratio of bandwidths, and of all data to that of one node, that is not lost in rounding
/// errors.
const MAX_RATIO: f64 = 1e6;

/// Reason why there is no plan: a constraint that cannot be satisfied.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// There is no data.
    #[error("there is no data: the bytes of all storage together are 0")]
    NoData,
    /// A value is out of range.
    #[error("{what} is {value}, expected {must}")]
    Figure {
        /// Name of the value.
        what: String,
        /// The value.
        value: String,
        /// Expected range.
        must: &'static str,
    },
    /// An item is duplicated.
    #[error("duplicate {0}")]
    Twice(String),
    /// An item refers to an unknown node or path.
    #[error("{what} refers to {missing}, which is not in the problem")]
    Unknown {
        /// The referring item.
        what: String,
        /// The unknown item.
        missing: String,
    },
    /// The problem is too large.
    #[error("{number} {what}, expected at most {most}")]
    TooMany {
        /// Kind of items.
        what: &'static str,
        /// Number of items.
        number: usize,
        /// Maximum number.
        most: usize,
    },
    /// Requirements contradict each other.
    #[error("node {node}: {why}")]
    Contradiction {
        /// The node.
        node: NodeId,
        /// The contradiction.
        why: String,
    },
    /// No node may run both a storage thread and a network thread.
    #[error("data needs two threads on one node, one for storage and one for the network, and no node may run more than {0}")]
    TooFewThreads(u32),
    /// The data of a node cannot be transferred.
    #[error("data on node {source_node}: {why}")]
    NoPath {
        /// Node of the storage.
        source_node: NodeId,
        /// The missing part of the path.
        why: String,
    },
    /// More nodes have data than threads are available.
    #[error("{sources} nodes have data and each needs a storage thread beside a network thread; the nodes that data may go through run {threads} threads in all")]
    TooFewThreadsInAll {
        /// Nodes with data.
        sources: usize,
        /// Available threads.
        threads: u32,
    },
    /// Values are too different for accurate computation.
    #[error("{0}")]
    TooFarApart(String),
    /// The time limit expired before any plan was found.
    #[error("no plan was found within the time limit")]
    NoTime,
    /// No thread counts serve all data.
    #[error(
        "no choice of threads serves the data of every node: too few threads on the nodes of their paths"
    )]
    NoThreads,
    /// A solver failed.
    #[error("the solver failed: {0}")]
    Solver(String),
}

/// Validates a problem and numbers its parts.
pub(crate) fn instance(problem: &PlanProblem) -> Result<Instance, PlanError> {
    check_figures(problem)?;
    let threads = threads(problem)?;
    check_names(problem, &threads)?;
    let (sources, total_bytes) = sources(problem)?;
    let sinks: Vec<NodeId> =
        problem.nics.iter().map(|nic| nic.node).collect::<BTreeSet<_>>().into_iter().collect();
    let vias = vias(problem, &threads, &sources, &sinks)?;
    let unit = fastest(problem)?;
    let mut instance = Instance {
        objective: problem.objective,
        total_bytes,
        unit_bytes_per_s: unit,
        sources: sources.into_iter().collect(),
        sinks,
        vias,
        paths: Vec::new(),
        reads: 0,
        limits: Vec::new(),
        floor: 0.0,
    };
    instance.number_paths(problem);
    instance.check_reach()?;
    if problem.objective == Objective::Time {
        instance.number_limits(problem);
    }
    Ok(instance)
}

fn bandwidth(what: impl FnOnce() -> String, value: f64) -> Result<(), PlanError> {
    // No device exceeds this range, in which sums and quotients stay finite.
    if (1.0..=1e18).contains(&value) {
        return Ok(());
    }
    Err(PlanError::Figure { what: what(), value: value.to_string(), must: "from 1 to 1e18 bytes per second" })
}

fn check_figures(problem: &PlanProblem) -> Result<(), PlanError> {
    let counts = [
        ("nodes", problem.nodes.len()),
        ("storage devices", problem.storage.len()),
        ("NICs", problem.nics.len()),
        ("storage paths", problem.storage_paths.len()),
        ("network paths", problem.network_paths.len()),
        ("limits", problem.limits.len()),
    ];
    if let Some((what, number)) = counts.into_iter().find(|(_, number)| *number > MAX_ITEMS) {
        return Err(PlanError::TooMany { what, number, most: MAX_ITEMS });
    }
    // Devices before the paths that they may have bounded.
    for storage in &problem.storage {
        bandwidth(
            || format!("bandwidth of storage {:?}", storage.device),
            storage.bytes_per_s.unwrap_or(1.0),
        )?;
    }
    for nic in &problem.nics {
        bandwidth(|| format!("bandwidth of NIC {:?}", nic.device), nic.bytes_per_s.unwrap_or(1.0))?;
    }
    for (kind, paths) in [("storage", &problem.storage_paths), ("network", &problem.network_paths)] {
        for path in paths {
            let name = |what: &str| format!("{what} of the {}", path_name(kind, path.id()));
            bandwidth(|| name("bandwidth of one thread"), path.thread_bytes_per_s)?;
            bandwidth(|| name("greatest bandwidth"), path.max_bytes_per_s)?;
        }
    }
    for limit in &problem.limits {
        bandwidth(|| format!("bandwidth of limit {:?}", limit.name), limit.bytes_per_s)?;
    }
    Ok(())
}

fn path_name(kind: &str, path: PathId) -> String {
    format!("{kind} path between device node {} and memory node {}", path.device_node, path.memory_node)
}

/// Returns the threads that each node may run, after pins and reservations.
fn threads(problem: &PlanProblem) -> Result<BTreeMap<NodeId, u32>, PlanError> {
    let mut threads = BTreeMap::new();
    for node in &problem.nodes {
        let own = node.threads.unwrap_or(problem.threads_per_node);
        if own > MAX_THREADS {
            let what = format!("the number of threads on node {}", node.node);
            return Err(PlanError::Figure { what, value: own.to_string(), must: "at most 1024" });
        }
        let contradiction = |why: String| Err(PlanError::Contradiction { node: node.node, why });
        let pinned = problem.no_threads_on.contains(&node.node);
        if pinned && node.threads.is_some_and(|threads| threads > 0) {
            return contradiction(format!("no threads may run on it, but it has {own} threads"));
        }
        if node.reserved > own && !pinned {
            return contradiction(format!("{} cores are reserved, but it has {own} threads", node.reserved));
        }
        let left = if pinned { 0 } else { own - node.reserved };
        if threads.insert(node.node, left).is_some() {
            return Err(PlanError::Twice(format!("node {}", node.node)));
        }
    }
    let unknown = problem.no_threads_on.iter().find(|node| !threads.contains_key(node));
    match unknown {
        Some(node) => {
            Err(PlanError::Unknown { what: "no_threads_on".to_owned(), missing: format!("node {node}") })
        }
        None => Ok(threads),
    }
}

fn check_names(problem: &PlanProblem, nodes: &BTreeMap<NodeId, u32>) -> Result<(), PlanError> {
    let known = |what: String, node: NodeId| match nodes.contains_key(&node) {
        true => Ok(()),
        false => Err(PlanError::Unknown { what, missing: format!("node {node}") }),
    };
    let mut names = BTreeSet::new();
    let mut once =
        |name: String| if names.insert(name.clone()) { Ok(()) } else { Err(PlanError::Twice(name)) };
    for storage in &problem.storage {
        known(format!("storage {:?}", storage.device), storage.node)?;
        once(format!("storage {:?}", storage.device))?;
    }
    for nic in &problem.nics {
        known(format!("NIC {:?}", nic.device), nic.node)?;
        once(format!("NIC {:?}", nic.device))?;
    }
    for (kind, paths) in [("storage", &problem.storage_paths), ("network", &problem.network_paths)] {
        for path in paths {
            known(format!("the {}", path_name(kind, path.id())), path.device_node)?;
            known(format!("the {}", path_name(kind, path.id())), path.memory_node)?;
            once(path_name(kind, path.id()))?;
        }
    }
    for limit in &problem.limits {
        once(format!("limit {:?}", limit.name))?;
        check_limit(problem, limit)?;
    }
    Ok(())
}

fn check_limit(problem: &PlanProblem, limit: &PlanLimit) -> Result<(), PlanError> {
    let parts = [
        ("storage", &limit.storage_paths, &problem.storage_paths),
        ("network", &limit.network_paths, &problem.network_paths),
    ];
    for (kind, own, paths) in parts {
        let mut seen = BTreeSet::new();
        for id in own {
            if !paths.iter().any(|path| path.id() == *id) {
                let missing = format!("the {}", path_name(kind, *id));
                return Err(PlanError::Unknown { what: format!("limit {:?}", limit.name), missing });
            }
            if !seen.insert(*id) {
                return Err(PlanError::Twice(format!("{} in limit {:?}", path_name(kind, *id), limit.name)));
            }
        }
    }
    Ok(())
}

/// Returns the share of data of each node that has any, and the bytes of all data.
fn sources(problem: &PlanProblem) -> Result<(BTreeMap<NodeId, f64>, f64), PlanError> {
    let total = problem.storage.iter().try_fold(0u64, |sum, storage| sum.checked_add(storage.bytes));
    let total = total.filter(|total| *total < MAX_BYTES).ok_or_else(|| {
        let value = total.map_or_else(|| "beyond 2^64".to_owned(), |total| total.to_string());
        PlanError::Figure { what: "the bytes of all storage together".to_owned(), value, must: "below 2^53" }
    })?;
    if total == 0 {
        return Err(PlanError::NoData);
    }
    let mut sources = BTreeMap::new();
    for storage in problem.storage.iter().filter(|storage| storage.bytes > 0) {
        *sources.entry(storage.node).or_insert(0.0) += storage.bytes as f64 / total as f64;
    }
    match sources.iter().find(|(_, share)| **share * MAX_RATIO < 1.0) {
        Some((node, _)) => Err(PlanError::TooFarApart(format!(
            "the data on node {node} is less than a millionth of all data: leave it out of the plan"
        ))),
        None => Ok((sources, total as f64)),
    }
}

/// Returns the nodes with at least two threads and paths on both sides.
fn vias(
    problem: &PlanProblem,
    threads: &BTreeMap<NodeId, u32>,
    sources: &BTreeMap<NodeId, f64>,
    sinks: &[NodeId],
) -> Result<Vec<(NodeId, u32)>, PlanError> {
    let most = threads.values().copied().max().unwrap_or(0);
    if most < 2 {
        return Err(PlanError::TooFewThreads(most));
    }
    let reads = |node: NodeId| {
        problem
            .storage_paths
            .iter()
            .any(|path| path.memory_node == node && sources.contains_key(&path.device_node))
    };
    let sends = |node: NodeId| {
        problem.network_paths.iter().any(|path| path.memory_node == node && sinks.contains(&path.device_node))
    };
    let able = threads.iter().filter(|(node, threads)| **threads >= 2 && reads(**node) && sends(**node));
    let vias: Vec<(NodeId, u32)> = able.map(|(node, threads)| (*node, *threads)).collect();
    let storage_threads: u32 = vias.iter().map(|(_, threads)| threads - 1).sum();
    let all = vias.iter().map(|(_, threads)| threads).sum();
    if !vias.is_empty() && (storage_threads as usize) < sources.len() {
        return Err(PlanError::TooFewThreadsInAll { sources: sources.len(), threads: all });
    }
    Ok(vias)
}

/// Returns the rate of the fastest thread, after checking the range of all rates.
fn fastest(problem: &PlanProblem) -> Result<f64, PlanError> {
    let paths = || problem.storage_paths.iter().chain(&problem.network_paths);
    let fastest = paths().map(|path| path.thread_bytes_per_s).fold(0.0, f64::max);
    let figures = paths().flat_map(|path| [path.thread_bytes_per_s, path.max_bytes_per_s]);
    let figures = figures.chain(problem.limits.iter().map(|limit| limit.bytes_per_s));
    let figures = figures.chain(problem.nics.iter().filter_map(|nic| nic.bytes_per_s));
    let slowest = figures.fold(f64::INFINITY, f64::min);
    if slowest * MAX_RATIO < fastest {
        return Err(PlanError::TooFarApart(format!(
            "bandwidths of {slowest} and {fastest} bytes per second differ by more than a factor of a million: leave out the slow path"
        )));
    }
    Ok(fastest)
}

impl Instance {
    fn number_paths(&mut self, problem: &PlanProblem) {
        let via_of = |instance: &Self, node: NodeId| instance.vias.iter().position(|(via, _)| *via == node);
        let mut reads: Vec<TransferPath> = Vec::new();
        for path in &problem.storage_paths {
            let end = self.sources.iter().position(|(node, _)| *node == path.device_node);
            reads.extend(end.zip(via_of(self, path.memory_node)).map(|(end, via)| self.path(path, end, via)));
        }
        let mut sends: Vec<TransferPath> = Vec::new();
        for path in &problem.network_paths {
            let end = self.sinks.iter().position(|node| *node == path.device_node);
            sends.extend(end.zip(via_of(self, path.memory_node)).map(|(end, via)| self.path(path, end, via)));
        }
        reads.sort_by_key(|path| (path.end, path.via));
        sends.sort_by_key(|path| (path.via, path.end));
        self.reads = reads.len();
        self.paths = reads;
        self.paths.append(&mut sends);
    }

    fn path(&self, rates: &PathRates, end: usize, via: usize) -> TransferPath {
        let most = rates.max_bytes_per_s / rates.thread_bytes_per_s;
        // Rounding errors must not add a thread to an exact multiple.
        let useful = (most * (1.0 - 1e-12)).ceil().clamp(1.0, f64::from(MAX_THREADS)) as u32;
        let most_threads = useful.min(self.vias[via].1 - 1);
        let unit = rates.thread_bytes_per_s / self.unit_bytes_per_s;
        let printed = unit * f64::from(useful);
        let most = match self.objective {
            Objective::Time => rates.max_bytes_per_s / self.unit_bytes_per_s,
            Objective::Sum => printed,
        };
        TransferPath { id: rates.id(), end, via, unit: unit.min(most), most, most_threads }
    }

    fn check_reach(&self) -> Result<(), PlanError> {
        for (source, (node, _)) in self.sources.iter().enumerate() {
            let paths = self.paths[..self.reads].iter().filter(|path| path.end == source);
            if paths.count() == 0 {
                let why = "no NIC is reached from it through a node that may run two threads".to_owned();
                return Err(PlanError::NoPath { source_node: *node, why });
            }
        }
        Ok(())
    }

    fn number_limits(&mut self, problem: &PlanProblem) {
        for (sink, node) in self.sinks.iter().enumerate() {
            let nics = problem.nics.iter().filter(|nic| nic.node == *node);
            // A NIC without bandwidth is only limited by its paths.
            let rate = nics.map(|nic| nic.bytes_per_s.unwrap_or(f64::INFINITY)).sum::<f64>();
            let sends = (self.reads..self.paths.len()).filter(|path| self.paths[*path].end == sink);
            if rate.is_finite() {
                self.limits.push(Limit { rate: rate / self.unit_bytes_per_s, paths: sends.collect() });
            }
        }
        for limit in &problem.limits {
            let read = |id: &PathId| self.paths[..self.reads].iter().position(|path| path.id == *id);
            let send = |id: &PathId| self.paths[self.reads..].iter().position(|path| path.id == *id);
            let reads = limit.storage_paths.iter().filter_map(read);
            let sends = limit.network_paths.iter().filter_map(send).map(|path| path + self.reads);
            let paths = reads.chain(sends).collect();
            self.limits.push(Limit { rate: limit.bytes_per_s / self.unit_bytes_per_s, paths });
        }
        for storage in &problem.storage {
            let rate = storage.bytes_per_s.unwrap_or(f64::INFINITY) / self.unit_bytes_per_s;
            self.floor = self.floor.max(storage.bytes as f64 / self.total_bytes / rate);
        }
    }
}
