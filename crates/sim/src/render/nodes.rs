//! /sys/devices/system/node (`Documentation/ABI/stable/sysfs-devices-node`,
//! `Documentation/admin-guide/mm/numaperf.rst`).

use super::directory::{room, Dir};
use crate::spec::{NodeSpec, Spec};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Access;
use numaio_machine::tree::Tree;

const NODES: &str = "/sys/devices/system/node";

pub(super) fn render(spec: &Spec, tree: &mut Tree) {
    let online: NodeSet = spec.nodes.iter().map(|node| node.id).collect();
    let possible = online.union(&spec.offline_nodes);
    let with_memory: NodeSet = spec.memory_nodes().map(|node| node.id).collect();
    // DRAM is normal memory; device memory is onlined as movable.
    let normal: NodeSet =
        spec.memory_nodes().filter(|node| node.memory_kind == "DRAM").map(|node| node.id).collect();
    let online_cpus = spec.online_cpus();
    let with_cpu: NodeSet = spec
        .nodes
        .iter()
        .filter(|node| !node.cpus.intersection(&online_cpus).is_empty())
        .map(|node| node.id)
        .collect();
    Dir::new(tree, NODES)
        .value("online", &online)
        .value("possible", &possible)
        .value("has_memory", &with_memory)
        .value("has_normal_memory", &normal)
        .value("has_cpu", &with_cpu)
        .value("has_generic_initiator", NodeSet::new());
    for (index, node) in spec.nodes.iter().enumerate() {
        let path = format!("{NODES}/node{}", node.id);
        let cpus = node.cpus.intersection(&online_cpus);
        let mut dir = Dir::new(tree, &path);
        dir.set("cpumap", "cpulist", &cpus, room(&spec.present_cpus()));
        if let Some(row) = spec.distances.get(index) {
            dir.value("distance", row.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
        }
        for cpu in cpus.iter() {
            let place = format!("/sys/devices/system/cpu/cpu{cpu}");
            dir.link(&format!("cpu{cpu}"), &place);
            Dir::new(dir.tree, place).link(&format!("node{}", node.id), &path);
        }
        dir.tree.link(
            &format!("/sys/bus/node/devices/node{}", node.id),
            &format!("../../../devices/system/node/node{}", node.id),
        );
        render_performance(node, &path, tree);
    }
}

fn render_performance(node: &NodeSpec, path: &str, tree: &mut Tree) {
    for access in &node.access {
        render_access(node.id, access, path, tree);
    }
    for cache in &node.memory_side_caches {
        Dir::new(tree, format!("{path}/memory_side_cache/index{}", cache.level))
            .value("size", cache.bytes)
            .value("line_size", 64)
            .value("indexing", 0)
            .value("write_policy", 0);
    }
}

/// Bandwidths in MB/s, latencies in nanoseconds; the kernel links initiator and target both ways.
fn render_access(target: NodeId, access: &Access, path: &str, tree: &mut Tree) {
    let class = access.class;
    let mut dir = Dir::new(tree, format!("{path}/access{class}/initiators"));
    let megabytes = |bytes_per_s: f64| (bytes_per_s / 1e6).round() as u64;
    let figures = [
        ("read_bandwidth", access.read_bytes_per_s.map(megabytes)),
        ("write_bandwidth", access.write_bytes_per_s.map(megabytes)),
        ("read_latency", access.read_latency_ns),
        ("write_latency", access.write_latency_ns),
    ];
    for (name, figure) in figures {
        dir.value(name, figure.unwrap_or(0));
    }
    for initiator in access.initiators.iter() {
        let place = format!("{NODES}/node{initiator}");
        dir.link(&format!("node{initiator}"), &place);
        Dir::new(dir.tree, format!("{place}/access{class}/targets")).link(&format!("node{target}"), path);
    }
}
