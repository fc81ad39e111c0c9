//! Load and memory traffic of nodes.

use numaio_machine::counters::{Counter, KernelCounts};
use numaio_machine::ids::NodeId;
use numaio_machine::programs::LoadSample;
use numaio_machine::topology::Topology;
use numaio_schema::{NodeTraffic, TopDevice, TopNode, UnknownValue};
use std::collections::BTreeMap;

/// Two samples of the load of nodes.
#[derive(Debug, Clone, Copy)]
pub struct NodeSamples<'a> {
    /// The earlier sample, if there is one.
    pub before: Option<&'a LoadSample>,
    /// The later sample.
    pub after: &'a LoadSample,
}

/// Returns the nodes with their load, memory traffic and device rates.
pub fn top_nodes(
    topology: &Topology,
    samples: NodeSamples<'_>,
    traffic: &BTreeMap<NodeId, NodeTraffic>,
    devices: &[TopDevice],
) -> Vec<TopNode> {
    let loads = samples.after.since(samples.before.unwrap_or(samples.after), topology);
    let memory = |node: NodeId| topology.nodes.iter().find(|found| found.id == node)?.memory;
    let top_node = |load: numaio_machine::programs::NodeLoad| TopNode {
        node: load.node,
        cpus: load.cpus,
        busy_cpus: samples.before.map(|_| load.busy_cpus),
        total_bytes: memory(load.node).map(|memory| memory.total_bytes),
        free_bytes: load.free_bytes,
        reclaimable_bytes: load.reclaimable_bytes,
        traffic: traffic.get(&load.node).copied(),
        device_bytes_per_s: device_rate(devices, load.node),
    };
    loads.into_iter().map(top_node).collect()
}

/// Returns the sum of the rates of a node's devices; `None` if no rate is known.
fn device_rate(devices: &[TopDevice], node: NodeId) -> Option<f64> {
    let of_node = devices.iter().filter(|device| device.node == Some(node));
    let rates = of_node.flat_map(|device| [device.read_bytes_per_s, device.write_bytes_per_s]);
    rates.flatten().reduce(|sum, rate| sum + rate)
}

/// Returns memory traffic by node from two readings of resctrl, and the reason if it is unknown.
pub fn node_traffic(
    before: Option<&KernelCounts>,
    after: &KernelCounts,
    seconds: f64,
) -> (BTreeMap<NodeId, NodeTraffic>, Option<UnknownValue>) {
    let mut found: BTreeMap<NodeId, NodeTraffic> = BTreeMap::new();
    let grown = before.map(|before| after.since(before)).unwrap_or_default();
    for (counter, node, count) in grown {
        let (Some(node), true) = (node, seconds > 0.0) else { continue };
        let rate = Some(count.value as f64 / seconds);
        match counter {
            Counter::MbmTotalBytes => found.entry(node).or_default().total_bytes_per_s = rate,
            Counter::MbmLocalBytes => found.entry(node).or_default().local_bytes_per_s = rate,
            _ => {}
        }
    }
    let missing = after.missing.iter().find(|missing| missing.counter == Counter::MbmTotalBytes);
    let unknown = missing
        .map(|missing| UnknownValue { name: "memory traffic".to_owned(), reason: missing.reason.clone() });
    (found, unknown)
}
