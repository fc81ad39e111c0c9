//! The observed state of a machine as the problem of a balancer.

use super::config::{BalanceConfig, ListedProgram};
use super::observer::{Observation, ProgramUses, SeenProgram};
use clap::ValueEnum;
use numaio_linux::process::{is_super_user, user};
use numaio_machine::ids::NodeId;
use numaio_machine::programs::ProgramDetails;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_model::{
    device_rates, BalanceDevice, BalanceGroup, BalanceNode, BalanceProblem, BandwidthEvidence,
};
use numaio_schema::{BalanceReason, DeviceTraffic, IoRecord, Model};
use std::collections::BTreeMap;

/// Share of memory bound by the program itself from which its policy is respected.
const BOUND_SHARE: f64 = 0.05;

/// Threads that are moved together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MovedTogether {
    /// Those of a process, which share memory
    Process,
    /// Those of a control group
    Cgroup,
}

/// The state of knowledge of the machine.
pub struct Knowledge<'a> {
    /// Nodes, CPUs and devices.
    pub topology: &'a Topology,
    /// Models, newest first.
    pub models: &'a [Model],
    /// Measured I/O, newest first.
    pub records: &'a [IoRecord],
    /// Allowed and denied programs.
    pub config: &'a BalanceConfig,
    /// Whether affinity and policies of programs are ignored.
    pub override_policies: bool,
    /// Threads that are moved together.
    pub together: MovedTogether,
    /// Devices whose programs are balanced, by index in the topology; empty for all.
    pub devices: Vec<usize>,
}

/// Affinity of programs before numaio moved them, by process id and start time.
pub type OriginalAffinity = BTreeMap<(u32, u64), CpuSet>;

/// A group with its programs.
#[derive(Debug)]
pub struct ProgramGroup {
    /// Name that is unique for the group's lifetime.
    pub id: String,
    /// Indices of its programs in the observation.
    pub programs: Vec<usize>,
}

/// Groups active programs by process or control group.
pub fn group_programs(knowledge: &Knowledge<'_>, observation: &Observation) -> Vec<ProgramGroup> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, seen) in observation.programs.iter().enumerate() {
        let sample = &seen.program.sample;
        let is_relevant = knowledge.devices.is_empty()
            || knowledge.devices.iter().any(|device| seen.traffic.contains_key(device));
        if seen.uses.is_none() || sample.details.is_none() || !is_relevant {
            continue;
        }
        let control_group = sample.details.as_ref().and_then(|details| details.control_group.clone());
        let id = match (knowledge.together, control_group) {
            (MovedTogether::Cgroup, Some(path)) => path,
            _ => format!("pid:{}:{}", sample.pid, sample.start_time),
        };
        groups.entry(id).or_default().push(index);
    }
    groups.into_iter().map(|(id, programs)| ProgramGroup { id, programs }).collect()
}

/// Returns the programs of a group.
pub fn members_of<'o>(observation: &'o Observation, group: &ProgramGroup) -> Vec<&'o SeenProgram> {
    group.programs.iter().filter_map(|index| observation.programs.get(*index)).collect()
}

/// Builds the problem of a round; its groups have the order of `groups`.
pub fn build_problem(
    knowledge: &Knowledge<'_>,
    observation: &Observation,
    groups: &[ProgramGroup],
    originals: &OriginalAffinity,
    hot_on: &dyn Fn(&str) -> Option<BTreeMap<NodeId, u64>>,
) -> BalanceProblem {
    let members = |group: &ProgramGroup| members_of(observation, group);
    let mut used: Vec<usize> =
        groups.iter().flat_map(members).flat_map(|seen| seen.traffic.keys()).copied().collect();
    used.sort_unstable();
    used.dedup();
    // A device without a known node has no better or worse nodes.
    used.retain(|index| {
        knowledge.topology.devices.get(*index).is_some_and(|device| device.locality.node.is_some())
    });
    let built: Vec<BalanceGroup> = groups
        .iter()
        .map(|group| build_group(knowledge, group, &members(group), &used, originals, hot_on(&group.id)))
        .collect();
    let devices = used.iter().map(|index| {
        let traffic = groups.iter().flat_map(members).filter_map(|seen| seen.traffic.get(index));
        build_device(knowledge, observation, *index, traffic)
    });
    BalanceProblem {
        devices: devices.collect(),
        nodes: build_nodes(knowledge, observation, &built),
        groups: built,
    }
}

fn build_device<'s>(
    knowledge: &Knowledge<'_>,
    observation: &Observation,
    index: usize,
    traffic: impl Iterator<Item = &'s DeviceTraffic>,
) -> BalanceDevice {
    let device = &knowledge.topology.devices[index];
    let node = device.locality.node.unwrap_or(NodeId(0));
    let (mut read, mut all) = (0.0, 0.0);
    for traffic in traffic {
        read += traffic.read_bytes_per_s;
        all += traffic.total();
    }
    let read_share = if all > 0.0 { read / all } else { 0.5 };
    let records: Vec<&IoRecord> = knowledge.records.iter().collect();
    let models: Vec<&Model> = knowledge.models.iter().collect();
    let evidence = BandwidthEvidence { topology: knowledge.topology, models: &models, records: &records };
    let rates = device_rates(evidence, device, read_share);
    BalanceDevice {
        name: device.distinct_name(&knowledge.topology.devices),
        node,
        by_node: rates.by_node,
        cap_bytes_per_s: rates.cap_bytes_per_s,
        is_measured: rates.is_measured,
        busy: observation.device_busy.get(&index).copied(),
    }
}

fn build_group(
    knowledge: &Knowledge<'_>,
    group: &ProgramGroup,
    members: &[&SeenProgram],
    used: &[usize],
    originals: &OriginalAffinity,
    hot_on: Option<BTreeMap<NodeId, u64>>,
) -> BalanceGroup {
    let mut group = BalanceGroup { id: group.id.clone(), hot_on, ..BalanceGroup::default() };
    let (mut cpus_on, mut weights): (BTreeMap<NodeId, f64>, BTreeMap<usize, f64>) = Default::default();
    for seen in members {
        let sample = &seen.program.sample;
        group.threads += sample.details.as_ref().map_or(0, |details| details.threads.len() as u32);
        for (node, bytes) in sample.memory.iter().flat_map(|memory| &memory.private) {
            *group.bytes_on.entry(*node).or_default() += bytes;
        }
        if let Some(rates) = &seen.program.rates {
            group.cpus += rates.cpus;
            for (node, cpus) in &rates.cpus_on {
                *cpus_on.entry(*node).or_default() += cpus;
            }
        }
        for (index, traffic) in &seen.traffic {
            let Some(position) = used.iter().position(|used| used == index) else { continue };
            *weights.entry(position).or_default() += traffic.total();
        }
    }
    // An empty sum would be -0.
    group.bytes_per_s = weights.values().fold(0.0, |sum, bytes| sum + bytes);
    group.devices = weights
        .iter()
        .map(|(index, bytes)| match group.bytes_per_s > 0.0 {
            true => (*index, bytes / group.bytes_per_s),
            false => (*index, 1.0 / weights.len() as f64),
        })
        .collect();
    // Memory that is not in use does not matter for its place.
    let on = group.hot_on.as_ref().unwrap_or(&group.bytes_on);
    let on: BTreeMap<NodeId, f64> = on.iter().map(|(node, bytes)| (*node, *bytes as f64)).collect();
    group.position =
        shares(&on).or_else(|| shares(&cpus_on)).unwrap_or_else(|| last_node(knowledge, members));
    group.allowed = allowed_nodes(knowledge, members, originals);
    group.obstacle = obstacle(knowledge, members, &group);
    group
}

/// Returns each amount as a share of all; `None` without amounts.
fn shares(amounts: &BTreeMap<NodeId, f64>) -> Option<BTreeMap<NodeId, f64>> {
    let sum: f64 = amounts.values().sum();
    (sum > 0.0).then(|| amounts.iter().map(|(node, amount)| (*node, amount / sum)).collect())
}

/// Returns the node on which the first program runs or last ran.
fn last_node(knowledge: &Knowledge<'_>, members: &[&SeenProgram]) -> BTreeMap<NodeId, f64> {
    let cpu = members.first().and_then(|seen| knowledge.topology.cpu(seen.program.sample.cpu));
    cpu.and_then(|cpu| cpu.node).map(|node| (node, 1.0)).into_iter().collect()
}

/// Returns the CPUs on which the threads of a program may run: their own affinity before numaio
/// moved them, or all of its cpuset if affinity is ignored.
pub fn permitted_cpus(
    knowledge: &Knowledge<'_>,
    details: &ProgramDetails,
    limits: &CpuSet,
    original: Option<&CpuSet>,
) -> CpuSet {
    if knowledge.override_policies {
        return limits.clone();
    }
    let of_threads = details.threads.iter().filter_map(|thread| thread.allowed.as_ref());
    let mut common: Option<CpuSet> = None;
    for allowed in of_threads {
        let own = match original {
            // Threads bound by an earlier move, and their descendants.
            Some(original) if allowed.is_subset(original) => original,
            _ => allowed,
        };
        common = Some(common.map_or_else(|| own.clone(), |common| common.intersection(own)));
    }
    common.unwrap_or_default().intersection(limits)
}

/// Returns the CPUs of a program's cpuset.
pub fn cpuset_of(topology: &Topology, uses: &ProgramUses) -> CpuSet {
    let online = || topology.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    uses.limits.cpus.clone().unwrap_or_else(online)
}

fn allowed_nodes(
    knowledge: &Knowledge<'_>,
    members: &[&SeenProgram],
    originals: &OriginalAffinity,
) -> NodeSet {
    let mut nodes: NodeSet = knowledge
        .topology
        .data_nodes()
        .iter()
        .filter(|node| !knowledge.topology.usable_cpus(*node).is_empty())
        .collect();
    for seen in members {
        let sample = &seen.program.sample;
        let (Some(details), Some(uses)) = (&sample.details, &seen.uses) else { continue };
        let original = originals.get(&(sample.pid, sample.start_time));
        let cpus = permitted_cpus(knowledge, details, &cpuset_of(knowledge.topology, uses), original);
        let memory = |node: NodeId| {
            let of_status = details.status.nodes_allowed.as_ref().is_none_or(|nodes| nodes.contains(node));
            of_status && uses.limits.nodes.as_ref().is_none_or(|nodes| nodes.contains(node))
        };
        nodes = nodes
            .iter()
            .filter(|node| memory(*node) && knowledge.topology.usable_cpus(*node).intersects(&cpus))
            .collect();
    }
    nodes
}

/// Returns why a group must not be moved at all.
fn obstacle(
    knowledge: &Knowledge<'_>,
    members: &[&SeenProgram],
    group: &BalanceGroup,
) -> Option<BalanceReason> {
    members.iter().find_map(|seen| program_obstacle(knowledge, seen)).or_else(|| {
        let home = group.home()?;
        let elsewhere = group.allowed.iter().any(|node| node != home);
        let other_nodes = knowledge.topology.data_nodes().iter().any(|node| node != home);
        if elsewhere || !other_nodes {
            return None;
        }
        let is_narrow = |seen: &&&SeenProgram| {
            let uses = seen.uses.as_ref();
            let cpuset = uses.map(|uses| cpuset_of(knowledge.topology, uses)).unwrap_or_default();
            affinity(seen).is_some_and(|cpus| cpus != cpuset && cpus.is_subset(&cpuset))
        };
        Some(match members.iter().find(is_narrow).and_then(|seen| affinity(seen)) {
            Some(cpus) => BalanceReason::OutsideAffinity { cpus },
            None => BalanceReason::OutsideCpuset,
        })
    })
}

fn affinity(seen: &SeenProgram) -> Option<CpuSet> {
    seen.program.sample.details.as_ref()?.threads.first()?.allowed.clone()
}

fn program_obstacle(knowledge: &Knowledge<'_>, seen: &SeenProgram) -> Option<BalanceReason> {
    let sample = &seen.program.sample;
    let details = sample.details.as_ref()?;
    let uid = details.status.uid;
    let listed = ListedProgram { name: &sample.name, uid, control_group: details.control_group.as_deref() };
    if let Some(entry) = knowledge.config.excluding_entry(listed) {
        return Some(BalanceReason::Excluded { entry });
    }
    let is_foreign = uid.is_none_or(|uid| uid != user()) && !is_super_user();
    let is_unreadable = sample.memory.is_none() || seen.uses.as_ref().is_some_and(|uses| uses.is_denied);
    if is_foreign && is_unreadable {
        return Some(BalanceReason::OtherUser { uid });
    }
    if details.threads.iter().any(|thread| thread.is_real_time) {
        return Some(BalanceReason::RealTime);
    }
    let pinned = details.status.pinned_bytes;
    if pinned > 0 || seen.uses.as_ref().is_some_and(|uses| uses.may_pin && details.status.locked_bytes > 0) {
        return Some(BalanceReason::Pinned { bytes: pinned });
    }
    let memory = sample.memory.as_ref()?;
    let sum = |on: &BTreeMap<NodeId, u64>| on.values().sum::<u64>() as f64;
    let bound = sum(&memory.bound);
    if !knowledge.override_policies && bound > BOUND_SHARE * (bound + sum(&memory.private)) {
        let policy = memory.policies.first().cloned().unwrap_or_default();
        return Some(BalanceReason::ExplicitPolicy { policy });
    }
    None
}

/// Returns the nodes with CPUs and memory, and their CPUs that programs outside all groups use.
fn build_nodes(
    knowledge: &Knowledge<'_>,
    observation: &Observation,
    groups: &[BalanceGroup],
) -> Vec<BalanceNode> {
    let nodes = knowledge.topology.data_nodes();
    let node = |node: NodeId| {
        let load = observation.nodes.iter().find(|load| load.node == node)?;
        let of_groups: f64 =
            groups.iter().map(|group| group.cpus * group.position.get(&node).copied().unwrap_or(0.0)).sum();
        (load.cpus > 0).then(|| BalanceNode {
            node,
            cpus: load.cpus,
            other_cpus: (load.busy_cpus - of_groups).max(0.0),
            free_bytes: load.free_bytes.saturating_add(load.reclaimable_bytes / 2),
        })
    };
    nodes.iter().filter_map(node).collect()
}
