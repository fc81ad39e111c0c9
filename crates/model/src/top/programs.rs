//! Programs of a snapshot: what was observed and inspected, and the remote share.

use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::programs::{unit_of, ObservedProgram, ProgramMemory};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_schema::{DeviceUse, Nearness, RemoteFrom, RemoteShare, TopProgram};
use std::collections::{BTreeMap, BTreeSet};

/// Facts of a program that cost more to read, and are therefore read rarely.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProgramInspection {
    /// Memory by kind and node; `None` if not permitted.
    pub memory: Option<ProgramMemory>,
    /// The virtual machine that it runs.
    pub guest: Option<String>,
    /// Devices behind open files and connections.
    pub devices: Vec<DeviceUse>,
    /// How much of the program is near its devices.
    pub nearness: Option<Nearness>,
    /// Why a part could not be read.
    pub why: Option<String>,
}

/// Returns the entry of a program.
pub fn top_program(
    observed: &ObservedProgram,
    inspection: Option<&ProgramInspection>,
    node_of: &dyn Fn(CpuId) -> Option<NodeId>,
) -> TopProgram {
    let (sample, rates) = (&observed.sample, observed.rates.as_ref());
    let details = sample.details.as_ref();
    let mut threads_on: BTreeMap<NodeId, u32> = BTreeMap::new();
    for thread in details.iter().flat_map(|details| &details.threads) {
        if let Some(node) = node_of(thread.cpu) {
            *threads_on.entry(node).or_default() += 1;
        }
    }
    let allowed = |cpus: Option<CpuSet>, more: &CpuSet| {
        Some(cpus.map_or_else(|| more.clone(), |cpus| cpus.union(more)))
    };
    let threads = details.iter().flat_map(|details| &details.threads);
    let inspected = inspection.cloned().unwrap_or_default();
    let mut program = TopProgram {
        pid: sample.pid,
        start_time: sample.start_time,
        name: sample.name.clone(),
        guest: inspected.guest,
        uid: details.and_then(|details| details.status.uid),
        unit: details.and_then(|details| unit_of(details.control_group.as_deref()?)).map(str::to_owned),
        cpus: rates.map(|rates| rates.cpus),
        threads_on,
        cpus_on: rates.map(|rates| rates.cpus_on.clone()).unwrap_or_default(),
        allowed: threads.filter_map(|thread| thread.allowed.as_ref()).fold(None, allowed),
        memory: inspected.memory,
        io: rates.and_then(|rates| rates.io),
        network: BTreeMap::new(),
        unknown_network: None,
        devices: inspected.devices,
        nearness: inspected.nearness,
        remote: None,
        advice: None,
        balance: None,
        reason: inspected.why,
    };
    program.remote = remote_share(&program);
    program
}

/// Returns the remote share of a program; `None` if its place is unknown.
///
/// With devices it is the larger share of threads and memory that is not near them. Otherwise it is
/// the probability that a thread and a byte are on different nodes.
pub fn remote_share(program: &TopProgram) -> Option<RemoteShare> {
    if let Some(nearness) = &program.nearness {
        let near = [nearness.threads, nearness.memory].into_iter().flatten().reduce(f64::min);
        return near.map(|near| RemoteShare { share: 1.0 - near, from: RemoteFrom::Devices });
    }
    let threads = shares(program.threads_on.iter().map(|(node, count)| (*node, f64::from(*count))))?;
    let used: f64 = program.cpus_on.values().sum();
    let threads = match used > 0.0 {
        true => shares(program.cpus_on.iter().map(|(node, cpus)| (*node, *cpus)))?,
        false => threads,
    };
    let memory = shares(program.bytes_on()?.into_iter().map(|(node, bytes)| (node, bytes as f64)))?;
    let local: f64 =
        threads.iter().map(|(node, share)| share * memory.get(node).copied().unwrap_or(0.0)).sum();
    Some(RemoteShare { share: (1.0 - local).clamp(0.0, 1.0), from: RemoteFrom::Memory })
}

/// Returns the share of each amount; `None` without amounts.
fn shares(amounts: impl Iterator<Item = (NodeId, f64)>) -> Option<BTreeMap<NodeId, f64>> {
    let amounts: BTreeMap<NodeId, f64> = amounts.collect();
    let sum: f64 = amounts.values().sum();
    (sum > 0.0).then(|| amounts.into_iter().map(|(node, amount)| (node, amount / sum)).collect())
}

/// Returns the move that puts a program near its devices; `None` if it is near, has none, or costs
/// them no bandwidth where it is.
pub fn remote_advice(program: &TopProgram) -> Option<String> {
    let nearness =
        program.nearness.as_ref().filter(|nearness| nearness.is_remote() && !nearness.is_free())?;
    let target = program.devices.iter().find_map(|used| Some((used.node?, used.device.as_str())));
    let (node, device) = target?;
    let moved = match nearness.threads.is_some_and(|share| share < 1.0) {
        true => "move",
        false => "move memory",
    };
    Some(format!("{moved} to node {node} ({device})"))
}

/// Commands that move a running program, and those that revert the move.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MoveCommands {
    /// The move.
    pub commands: Vec<String>,
    /// Its reversal, as far as possible.
    pub undo: Vec<String>,
}

/// Returns the commands that move a program to the node of its first device.
///
/// # Errors
/// The reason why it has no target, as text.
pub fn move_commands(topology: &Topology, program: &TopProgram) -> Result<MoveCommands, String> {
    let node = program.devices.iter().find_map(|used| used.node);
    let node = node.ok_or_else(|| "it uses no device of a known node".to_owned())?;
    if program.remote.is_some_and(|remote| remote.share <= 0.0) {
        return Err(format!("it is already near its devices, on node {node}"));
    }
    let cpus = topology.usable_cpus(node);
    if cpus.is_empty() {
        return Err(format!("node {node} has no usable CPUs"));
    }
    let pid = program.pid;
    let mut found =
        MoveCommands { commands: vec![format!("taskset -a -p -c {cpus} {pid}")], undo: Vec::new() };
    found.undo.extend(program.allowed.as_ref().map(|before| format!("taskset -a -p -c {before} {pid}")));
    let near = program.nearness.as_ref().map(|nearness| &nearness.near);
    let is_far = |of: &NodeId| near.is_none_or(|near| !near.contains(*of)) && *of != node;
    let private = program.memory.iter().flat_map(|memory| memory.private.keys());
    let from: NodeSet = private.copied().filter(is_far).collect();
    if !from.is_empty() {
        found.commands.push(format!("migratepages {pid} {from} {node}"));
        // Pages of several nodes cannot be moved back separately.
        found.undo.extend((from.len() == 1).then(|| format!("migratepages {pid} {node} {from}")));
    }
    Ok(found)
}

/// Returns the programs to inspect now, at most `most`: first those in `focus` in its order, then
/// the most active ones; programs in `fresh` are left out.
pub fn inspection_order(
    observed: &[ObservedProgram],
    focus: &[u32],
    fresh: &BTreeSet<u32>,
    most: usize,
) -> Vec<u32> {
    let activity = |program: &&ObservedProgram| {
        let rates = program.rates.as_ref();
        let io = rates.and_then(|rates| rates.io).map_or(0.0, |io| io.storage());
        (rates.map_or(0.0, |rates| rates.cpus), io)
    };
    let mut active: Vec<&ObservedProgram> = observed.iter().filter(|program| program.is_active).collect();
    active.sort_by(|a, b| {
        let (a, b) = (activity(a), activity(b));
        b.0.total_cmp(&a.0).then_with(|| b.1.total_cmp(&a.1))
    });
    let running: BTreeSet<u32> = observed.iter().map(|program| program.sample.pid).collect();
    let focus = focus.iter().copied().filter(|pid| running.contains(pid));
    let mut seen = BTreeSet::new();
    focus
        .chain(active.iter().map(|program| program.sample.pid))
        .filter(|pid| !fresh.contains(pid) && seen.insert(*pid))
        .take(most)
        .collect()
}
