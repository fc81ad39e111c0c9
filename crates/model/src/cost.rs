//! Costs of a program's remote memory and devices: the application model that
//! Cbench's NUMA extension (2012) asks for.
//!
//! CPU time consists of time that does not depend on nodes, and of accesses to memory. An access of
//! a pair of nodes takes longer than one of the fastest local pair by the ratio of their STREAM
//! bandwidths, if accesses overlap, or of their latencies, if they depend on each other. Which of
//! both holds, and for which share of the time, is unknown without counters: bounds state this.

use crate::diagnose::{basis, by_direction, MachineEvidence};
use numaio_machine::devices::{Device, DeviceKind};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{
    AccessBasis, BandwidthDifference, DeviceCost, DeviceExpectation, DeviceUse, LatencyRecord, MemoryCost,
    PairShare, ProgramTraffic, Slowdown, StreamRecord, UnknownPart,
};
use std::collections::BTreeMap;

/// Share of memory below which a node does not widen the bounds.
const SMALL_SHARE: f64 = 0.005;
/// Bytes per second below which a direction of a device counts as unused.
const UNUSED: f64 = 1e5;
/// Factor up to which the scores of two nodes count as equal.
const EQUAL: f64 = 1.05;

/// Evidence of a program's costs.
#[derive(Clone, Copy)]
pub struct CostEvidence<'a> {
    /// The machine, its models and measured I/O.
    pub machine: MachineEvidence<'a>,
    /// The newest STREAM measurement.
    pub stream: Option<&'a StreamRecord>,
    /// The newest latency measurement.
    pub latency: Option<&'a LatencyRecord>,
}

/// Costs of a program's placement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlacementCost {
    /// Of its memory; `None` if it cannot be computed.
    pub memory: Option<MemoryCost>,
    /// Of each device and direction.
    pub devices: Vec<DeviceCost>,
    /// Of its complete run time; `None` if a part of it is unknown.
    pub slowdown: Option<Slowdown>,
    /// The best node; `None` if nothing about the nodes is known.
    pub best: Option<NodeId>,
    /// Measurements that would narrow the intervals.
    pub unknown: Vec<UnknownPart>,
}

/// Times of accesses by pair of nodes, relative to the fastest local pair.
type AccessTimes = BTreeMap<(NodeId, NodeId), f64>;

/// Computes the costs of a program's placement.
pub fn placement_cost(evidence: &CostEvidence, traffic: &ProgramTraffic) -> PlacementCost {
    if evidence.machine.topology.memory_nodes().len() == 1 {
        // Nothing is remote.
        return PlacementCost { slowdown: Some(Slowdown::NONE), ..PlacementCost::default() };
    }
    let times = access_times(evidence);
    let mut unknown = Vec::new();
    let memory = memory_cost(&times, traffic);
    note_unknown_memory(&times, traffic, &mut unknown);
    let uses_cpus = traffic.cpus_on.values().any(|cpus| *cpus > 0.0);
    let mut is_bounded = memory.is_some() || !uses_cpus;
    let mut devices = Vec::new();
    for device in &traffic.devices {
        match device_costs(evidence, traffic, device) {
            Ok(costs) => devices.extend(costs),
            Err(part) => {
                is_bounded = false;
                unknown.push(part);
            }
        }
    }
    let slowdown = is_bounded.then(|| overall(memory.as_ref(), &devices));
    let best = best_node(evidence, &times, traffic);
    PlacementCost { memory, devices, slowdown, best, unknown }
}

fn access_times(evidence: &CostEvidence) -> Vec<(AccessBasis, AccessTimes)> {
    let stream = evidence.stream.map(|record| (AccessBasis::Stream, stream_times(record)));
    let latency = evidence.latency.map(|record| (AccessBasis::Latency, latency_times(record)));
    stream.into_iter().chain(latency).filter(|(_, times)| !times.is_empty()).collect()
}

/// Returns the times by the first measured operation of STREAM.
fn stream_times(record: &StreamRecord) -> AccessTimes {
    let Some(op) = record.cells.first().map(|cell| cell.op) else { return AccessTimes::new() };
    let mut times = AccessTimes::new();
    for cell in record.cells.iter().filter(|cell| cell.op == op) {
        let Some(rate) = cell.bytes_per_s.median().filter(|rate| *rate > 0.0) else { continue };
        let time = times.entry((cell.cpu_node, cell.memory_node)).or_insert(f64::INFINITY);
        *time = time.min(1.0 / rate);
    }
    relative(times)
}

fn latency_times(record: &LatencyRecord) -> AccessTimes {
    let of_cell = |cell: &numaio_schema::LatencyCell| {
        Some(((cell.cpu_node, cell.memory_node), cell.ns_per_load.median().filter(|ns| *ns > 0.0)?))
    };
    relative(record.cells.iter().filter_map(of_cell).collect())
}

/// Divides times by that of the fastest local pair; none without a local pair.
fn relative(times: AccessTimes) -> AccessTimes {
    let local = times.iter().filter(|((cpu, memory), _)| cpu == memory).map(|(_, time)| *time);
    match local.min_by(f64::total_cmp) {
        Some(fastest) => times.into_iter().map(|(pair, time)| (pair, time / fastest)).collect(),
        None => AccessTimes::new(),
    }
}

/// Divides values by their sum; none if it is 0.
fn shares(values: &BTreeMap<NodeId, f64>) -> BTreeMap<NodeId, f64> {
    let sum: f64 = values.values().sum();
    let positive = values.iter().filter(|(_, value)| **value > 0.0 && sum > 0.0);
    positive.map(|(node, value)| (*node, value / sum)).collect()
}

fn memory_cost(all_times: &[(AccessBasis, AccessTimes)], traffic: &ProgramTraffic) -> Option<MemoryCost> {
    let (cpus, memory) = (shares(&traffic.cpus_on), shares(&traffic.bytes_on));
    let of_pair = |cpu: NodeId, memory: NodeId| {
        let times = all_times.iter().filter_map(|(_, times)| times.get(&(cpu, memory)).copied());
        times.fold(None, |range: Option<(f64, f64)>, time| {
            Some(range.map_or((time, time), |(low, high)| (low.min(time), high.max(time))))
        })
    };
    let mut pairs = Vec::new();
    let (mut low, mut high) = (0.0, 0.0);
    for (cpu_node, cpu_share) in &cpus {
        let mut of_node = Vec::new();
        for (memory_node, share) in access_shares(*cpu_node, &memory, traffic.local_loads) {
            let access = of_pair(*cpu_node, memory_node)?;
            of_node.push(PairShare { cpu_node: *cpu_node, memory_node, share: cpu_share * share, access });
        }
        let (least, most) = bounds(&of_node, *cpu_share, traffic.local_loads.is_some());
        (low, high) = (low + least, high + most);
        pairs.extend(of_node);
    }
    if pairs.is_empty() {
        return None;
    }
    let expected: f64 = pairs.iter().map(|pair| pair.share * (pair.access.0 * pair.access.1).sqrt()).sum();
    let access = Slowdown { expected: Some(expected), low: low.max(1.0), high };
    let slowdown = match traffic.stalled {
        Some(stalled) => Slowdown {
            expected: Some(of_stalled(stalled, expected)),
            low: 1.0,
            high: of_stalled(stalled, high),
        },
        None if high <= 1.0 => Slowdown::NONE,
        None => Slowdown { expected: None, low: 1.0, high },
    };
    Some(MemoryCost { slowdown, access, pairs, basis: all_times.iter().map(|(basis, _)| *basis).collect() })
}

/// Returns the shares of accesses by memory node: by the memory's size, and with counters the
/// measured share of local ones.
fn access_shares(
    cpu_node: NodeId,
    memory: &BTreeMap<NodeId, f64>,
    local_loads: Option<f64>,
) -> Vec<(NodeId, f64)> {
    let elsewhere: f64 = memory.iter().filter(|(node, _)| **node != cpu_node).map(|(_, share)| share).sum();
    let has_local = memory.contains_key(&cpu_node);
    let share = |node: NodeId, by_size: f64| match local_loads {
        Some(local) if has_local && elsewhere > 0.0 => match node == cpu_node {
            true => local,
            false => (1.0 - local) * by_size / elsewhere,
        },
        _ => by_size,
    };
    memory.iter().map(|(node, by_size)| (*node, share(*node, *by_size))).collect()
}

/// Returns the bounds of a CPU node's contribution to the mean access time. Unless the share of
/// local accesses is known, all accesses may be to the nearest or to the farthest memory.
fn bounds(pairs: &[PairShare], cpu_share: f64, is_counted: bool) -> (f64, f64) {
    if is_counted {
        let sum = |end: fn(&PairShare) -> f64| pairs.iter().map(|pair| pair.share * end(pair)).sum();
        return (sum(|pair| pair.access.0), sum(|pair| pair.access.1));
    }
    let large = pairs.iter().filter(|pair| pair.share >= SMALL_SHARE * cpu_share);
    let (low, high) = large.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), pair| {
        (low.min(pair.access.0), high.max(pair.access.1))
    });
    (cpu_share * if low.is_finite() { low } else { 1.0 }, cpu_share * high.max(1.0))
}

/// Returns the slowdown of CPU time of which a share is stalled now, by accesses that take longer
/// by a factor. Stalls have other reasons too, so that this is an upper bound of the expectation.
fn of_stalled(stalled: f64, factor: f64) -> f64 {
    1.0 / (1.0 - stalled.clamp(0.0, 1.0) * (1.0 - 1.0 / factor.max(1.0)))
}

fn note_unknown_memory(
    times: &[(AccessBasis, AccessTimes)],
    traffic: &ProgramTraffic,
    unknown: &mut Vec<UnknownPart>,
) {
    let mut note =
        |what: &str, remedy: &str| unknown.push(UnknownPart { name: what.into(), remedy: remedy.into() });
    if traffic.bytes_on.is_empty() {
        note("the place of the program's memory", "run as root, or as the user of the program");
    }
    let measured = |basis| times.iter().any(|(known, _)| *known == basis);
    if !measured(AccessBasis::Stream) {
        note("the bandwidth of pairs of nodes", "run numaio stream");
    }
    if !measured(AccessBasis::Latency) {
        note("the latency of pairs of nodes", "run numaio latency");
    }
    if traffic.stalled.is_none() && traffic.cpus_on.values().sum::<f64>() > 0.0 {
        note(
            "how long the CPUs wait for memory",
            "hardware counters are not available; numaio counters states why",
        );
    }
}

/// Returns the costs of a device in the directions that the program may use, or what is unknown.
fn device_costs(
    evidence: &CostEvidence,
    traffic: &ProgramTraffic,
    device: &DeviceUse,
) -> Result<Vec<DeviceCost>, UnknownPart> {
    let name = &device.device;
    let target = device.node.ok_or_else(|| UnknownPart {
        name: format!("the node of {name}"),
        remedy: "numaio topology lists devices and why a node is unknown".into(),
    })?;
    let topology = evidence.machine.topology;
    let known = topology.devices.iter().find(|known| known.has_name(name));
    let mut directions = by_direction(&evidence.machine, name, target, known);
    directions.retain(|one| one.nodes.len() > 1);
    if directions.is_empty() {
        let what = format!("the bandwidth of {name} by node");
        return Err(UnknownPart { name: what, remedy: format!("run numaio model --node {target}") });
    }
    // The kernel counts bytes of storage only.
    let is_storage = known.is_some_and(is_storage);
    let is_used = |direction: Direction| {
        let rate = match direction {
            Direction::Read => traffic.storage_read,
            Direction::Write => traffic.storage_write,
        };
        !is_storage || rate.is_none_or(|rate| rate >= UNUSED)
    };
    let memory = shares(&traffic.bytes_on);
    let used = directions.into_iter().filter(|one| is_used(one.direction));
    let costs = used.filter_map(|one| {
        let slowdown = io_slowdown(&one, &memory)?;
        let basis = basis(topology, &one);
        Some(DeviceCost { device: name.clone(), direction: one.direction, slowdown, basis })
    });
    Ok(costs.collect())
}

fn is_storage(device: &Device) -> bool {
    matches!(device.kind, DeviceKind::Block | DeviceKind::Nvme | DeviceKind::StorageController)
}

/// Returns by which factor buffers on a node slow down I/O; `None` if it is unknown.
fn factor(of: &DeviceExpectation, node: NodeId) -> Option<f64> {
    of.lost_share(node).filter(|lost| *lost < 1.0).map(|lost| 1.0 / (1.0 - lost))
}

/// Returns the slowdown of I/O whose buffers are where the program's memory is; `None` if no node
/// of it has a value. Buffers may be on any of these nodes, and a device with an unknown limit may
/// lose nothing.
fn io_slowdown(of: &DeviceExpectation, memory: &BTreeMap<NodeId, f64>) -> Option<Slowdown> {
    let factors: Vec<(f64, f64)> =
        memory.iter().filter_map(|(node, share)| Some((*share, factor(of, *node)?))).collect();
    let known: f64 = factors.iter().map(|(share, _)| share).sum();
    if known <= 0.0 {
        return None;
    }
    let expected = factors.iter().map(|(share, factor)| share * factor).sum::<f64>() / known;
    let large = factors.iter().filter(|(share, _)| *share >= SMALL_SHARE);
    let (low, high) = large.fold((f64::INFINITY, 1.0), |(low, high): (f64, f64), (_, factor)| {
        (low.min(*factor), high.max(*factor))
    });
    let is_unknown = matches!(of.difference, BandwidthDifference::Unknown { .. });
    Some(Slowdown {
        expected: (!is_unknown || high <= 1.0).then_some(expected),
        low: if low.is_finite() && !is_unknown { low } else { 1.0 },
        high,
    })
}

/// Returns the slowdown of the complete run time. Its parts are a mean of the above, and of time
/// that does not depend on nodes.
fn overall(memory: Option<&MemoryCost>, devices: &[DeviceCost]) -> Slowdown {
    let parts = memory.map(|memory| memory.slowdown).into_iter();
    let parts = parts.chain(devices.iter().map(|device| device.slowdown));
    let high = parts.map(|part| part.high).fold(1.0, f64::max);
    Slowdown { expected: (high <= 1.0).then_some(1.0), low: 1.0, high }
}

/// Returns the node with the least product of access time and time of I/O, of nodes with CPUs and
/// memory; of equal ones that with most of the program's memory.
fn best_node(
    evidence: &CostEvidence,
    times: &[(AccessBasis, AccessTimes)],
    traffic: &ProgramTraffic,
) -> Option<NodeId> {
    let topology = evidence.machine.topology;
    let nodes: NodeSet = topology.memory_nodes().intersection(&topology.cpu_nodes());
    let directions: Vec<_> = traffic
        .devices
        .iter()
        .filter_map(|device| {
            let known = topology.devices.iter().find(|known| known.has_name(&device.device));
            Some(by_direction(&evidence.machine, &device.device, device.node?, known))
        })
        .flatten()
        .filter(|one| one.nodes.len() > 1)
        .collect();
    if times.is_empty() && directions.is_empty() {
        return None;
    }
    let score = |node: NodeId| {
        let access: f64 = times.iter().filter_map(|(_, times)| times.get(&(node, node))).product();
        let io = directions.iter().filter_map(|one| factor(one, node));
        access * io.product::<f64>()
    };
    let least = nodes.iter().map(score).min_by(f64::total_cmp)?;
    // Readings of equal nodes differ by some percent.
    let equal = nodes.iter().filter(|node| score(*node) <= least * EQUAL);
    let memory = |node: NodeId| traffic.bytes_on.get(&node).copied().unwrap_or(0.0);
    equal.reduce(|a, b| if memory(b) > memory(a) { b } else { a })
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::topology::Topology;
    use numaio_schema::{DeviceBandwidth, ExpectationSource, ExpectedBandwidth, UnknownDifference};

    /// Local accesses take 1, those of the other node 2 by bandwidth and 1.5 by latency.
    fn times() -> Vec<(AccessBasis, AccessTimes)> {
        let of = |remote: f64| {
            let pair = |cpu: u32, memory: u32| {
                ((NodeId(cpu), NodeId(memory)), if cpu == memory { 1.0 } else { remote })
            };
            [pair(0, 0), pair(0, 1), pair(1, 0), pair(1, 1)].into_iter().collect()
        };
        vec![(AccessBasis::Stream, of(2.0)), (AccessBasis::Latency, of(1.5))]
    }

    fn traffic(cpus: &[(u32, f64)], memory: &[(u32, f64)]) -> ProgramTraffic {
        let map = |pairs: &[(u32, f64)]| pairs.iter().map(|(node, value)| (NodeId(*node), *value)).collect();
        ProgramTraffic { seconds: 10.0, cpus_on: map(cpus), bytes_on: map(memory), ..Default::default() }
    }

    #[test]
    fn remote_memory_costs_nothing_to_all_of_an_access() {
        let cost = memory_cost(&times(), &traffic(&[(0, 4.0)], &[(1, 1e9)])).expect("a cost");
        assert_eq!((cost.access.low, cost.access.high), (1.5, 2.0), "dependent and overlapping accesses");
        assert!((cost.access.expected.expect("a value") - 3f64.sqrt()).abs() < 1e-9);
        assert_eq!(cost.slowdown, Slowdown { expected: None, low: 1.0, high: 2.0 }, "stalls are unknown");
        let local = memory_cost(&times(), &traffic(&[(0, 4.0)], &[(0, 1e9)])).expect("a cost");
        assert_eq!((local.slowdown, local.access.high), (Slowdown::NONE, 1.0));
    }

    #[test]
    fn spread_memory_may_all_be_accessed_locally_or_remotely() {
        let cost = memory_cost(&times(), &traffic(&[(0, 1.0)], &[(0, 1e9), (1, 1e9)])).expect("a cost");
        assert_eq!((cost.access.low, cost.access.high), (1.0, 2.0));
        // One small mapping elsewhere does not widen the bounds.
        let small = memory_cost(&times(), &traffic(&[(0, 1.0)], &[(0, 1e9), (1, 1e6)])).expect("a cost");
        assert_eq!(small.access.high, 1.0);
    }

    #[test]
    fn counters_narrow_the_bounds() {
        let mut counted = traffic(&[(0, 1.0)], &[(0, 1e9), (1, 1e9)]);
        (counted.local_loads, counted.stalled) = (Some(0.75), Some(0.5));
        let cost = memory_cost(&times(), &counted).expect("a cost");
        assert_eq!((cost.access.low, cost.access.high), (1.125, 1.25), "a quarter of the loads is remote");
        let [expected, high] = [cost.slowdown.expected.expect("a value"), cost.slowdown.high];
        assert!((high - 1.0 / 0.9).abs() < 1e-9, "half of the time is stalled: {high}");
        assert!(expected > 1.0 && expected < high);
        let shares: Vec<f64> = cost.pairs.iter().map(|pair| pair.share).collect();
        assert_eq!(shares, [0.75, 0.25]);
    }

    #[test]
    fn unknown_nodes_are_listed_instead_of_guessed() {
        let topology = Topology::default();
        let machine = MachineEvidence { topology: &topology, models: &[], io: &[], interrupts: &[] };
        let evidence = CostEvidence { machine, stream: None, latency: None };
        let mut program = traffic(&[(0, 1.0)], &[(1, 1e9)]);
        program.devices.push(DeviceUse {
            device: "sda".into(),
            node: None,
            share: Some(1.0),
            reached_via: String::new(),
        });
        let cost = placement_cost(&evidence, &program);
        assert_eq!((cost.memory, cost.best, cost.slowdown), (None, None, None));
        let listed: Vec<&str> = cost.unknown.iter().map(|part| part.remedy.as_str()).collect();
        assert!(
            listed.contains(&"run numaio stream") && listed.contains(&"run numaio latency"),
            "{listed:?}"
        );
        assert!(cost.unknown.iter().any(|part| part.name == "the node of sda"));
    }

    #[test]
    fn io_slows_down_by_the_shares_of_its_buffers() {
        let node = |node, class, bytes_per_s| ExpectedBandwidth {
            node: NodeId(node),
            class,
            bytes_per_s,
            source: ExpectationSource::Path,
            path_bytes_copied_per_s: None,
        };
        let of = |difference| DeviceExpectation {
            device: "sda".into(),
            node: Some(NodeId(0)),
            direction: Direction::Read,
            limit: DeviceBandwidth::Unknown { measure: String::new() },
            beside: Vec::new(),
            difference,
            nodes: vec![node(0, 1, 4e9), node(1, 2, 2e9)],
        };
        let by_node = of(BandwidthDifference::Some);
        let memory = shares(&BTreeMap::from([(NodeId(0), 1.0), (NodeId(1), 3.0)]));
        let found = io_slowdown(&by_node, &memory).expect("a slowdown");
        assert_eq!(found, Slowdown { expected: Some(1.75), low: 1.0, high: 2.0 });
        let unmeasured = BTreeMap::from([(NodeId(7), 1.0)]);
        assert_eq!(io_slowdown(&by_node, &unmeasured), None);
        assert_eq!(io_slowdown(&of(BandwidthDifference::None), &memory), Some(Slowdown::NONE));
        let reason = UnknownDifference::LimitUnknown;
        let unknown = io_slowdown(&of(BandwidthDifference::Unknown { reason }), &memory);
        assert_eq!(unknown, Some(Slowdown { expected: None, low: 1.0, high: 2.0 }));
    }
}
