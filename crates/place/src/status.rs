//! How near running programs are to the devices that they use.

use numaio_machine::ids::NodeId;
use numaio_machine::near::{NearDevice, Resolved};
use numaio_machine::process::Process;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_schema::{DeviceUse, Nearness, ProcessStatus};
use std::collections::BTreeMap;

/// A program as it is now, beside the devices behind what it has open. `best` gives the nodes that are as good as any
/// for devices on a node; the node itself is always among them.
pub fn status(
    topology: &Topology,
    process: &Process,
    open: &Resolved,
    best: &dyn Fn(NodeId) -> NodeSet,
) -> ProcessStatus {
    let mut threads_on: BTreeMap<NodeId, u32> = BTreeMap::new();
    for thread in &process.threads {
        if let Some(node) = topology.cpu(thread.cpu).and_then(|cpu| cpu.node) {
            *threads_on.entry(node).or_default() += 1;
        }
    }
    let allowed = process.threads.iter().filter_map(|thread| thread.allowed.as_ref());
    let allowed = allowed.fold(CpuSet::new(), |all, cpus| all.union(cpus));
    let devices = uses(topology, open);
    let bytes_on = process.pages.as_ref().map(|pages| pages.anonymous.clone());
    let homes: NodeSet = devices.iter().filter_map(|device| device.node).collect();
    let near = homes.iter().fold(homes.clone(), |near, home| near.union(&best(home)));
    let nearness = (!homes.is_empty()).then(|| Nearness {
        threads: share(threads_on.iter().map(|(node, count)| (*node, u64::from(*count))), &near),
        memory: bytes_on.as_ref().and_then(|on| share(on.iter().map(|(node, bytes)| (*node, *bytes)), &near)),
        near,
    });
    ProcessStatus {
        pid: process.pid,
        name: process.name.clone(),
        threads_on,
        allowed,
        bytes_on,
        devices,
        nearness,
    }
}

fn uses(topology: &Topology, open: &Resolved) -> Vec<DeviceUse> {
    let device = |index: usize| topology.devices.get(index);
    open.devices
        .iter()
        .map(|near| DeviceUse {
            device: near.name.clone(),
            node: near.nodes.first().or_else(|| device(near.index)?.locality.node),
            share: near.share,
            reached_via: device_path(open, near),
        })
        .collect()
}

/// What leads to a device, without the process itself and what stands behind the device.
fn device_path(open: &Resolved, near: &NearDevice) -> String {
    let steps = open.path_to(near);
    let end = steps.iter().position(|step| step.what == near.name).map_or(steps.len(), |index| index + 1);
    steps.iter().take(end).skip(1).map(|step| step.what.as_str()).collect::<Vec<&str>>().join(" -> ")
}

/// Share of an amount that is on some nodes; none of nothing.
fn share(amounts: impl Iterator<Item = (NodeId, u64)>, near: &NodeSet) -> Option<f64> {
    let (mut here, mut all) = (0u64, 0u64);
    for (node, amount) in amounts {
        all = all.saturating_add(amount);
        here = here.saturating_add(if near.contains(node) { amount } else { 0 });
    }
    (all > 0).then(|| here as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::devices::DeviceKind;
    use numaio_machine::ids::CpuId;
    use numaio_machine::near::{NearNode, Step};
    use numaio_machine::process::{Pages, Thread};
    use numaio_machine::topology::Cpu;

    /// CPUs 0 to 7, two on each of four nodes.
    fn topology() -> Topology {
        let cpu = |id: u32| Cpu {
            id: CpuId(id),
            online: true,
            node: Some(NodeId(id / 2)),
            package: None,
            die: None,
            core: None,
            siblings: CpuSet::one(CpuId(id)),
            allowed: true,
        };
        Topology { cpus: (0..8).map(cpu).collect(), ..Topology::default() }
    }

    fn process() -> Process {
        let thread = |tid: u32, cpu: u32| Thread {
            tid,
            name: String::new(),
            cpu: CpuId(cpu),
            allowed: Some(CpuSet::one(CpuId(cpu))),
            ticks: 0,
        };
        let anonymous = [(NodeId(1), 3 << 20), (NodeId(3), 1 << 20)].into_iter().collect();
        let pages = Some(Pages { anonymous, file_backed: BTreeMap::new() });
        Process { pid: 7, parent: 1, name: "it".into(), threads: vec![thread(7, 2), thread(8, 6)], pages }
    }

    fn open() -> Resolved {
        let step = |from: Option<usize>, what: &str| Step {
            from,
            what: what.into(),
            source: String::new(),
            value: String::new(),
        };
        let nodes = NodeSet::one(NodeId(1));
        let device = NearDevice {
            index: 0,
            step: 2,
            name: "sda".into(),
            kind: DeviceKind::Block,
            pci: None,
            share: 0.5,
            nodes,
        };
        Resolved {
            handle: "pid:7".into(),
            chain: vec![
                step(None, "pid:7"),
                step(Some(0), "/data"),
                step(Some(1), "sda"),
                step(Some(2), "node 1"),
            ],
            devices: vec![device],
            nodes: vec![NearNode { node: NodeId(1), share: 0.5 }],
            findings: Vec::new(),
        }
    }

    #[test]
    fn threads_and_memory_are_near_or_remote() {
        let (topology, process) = (topology(), process());
        let alone = status(&topology, &process, &open(), &NodeSet::one);
        assert_eq!(alone.devices[0].reached_via, "/data -> sda");
        let nearness = alone.nearness.expect("a device with a node");
        assert_eq!((nearness.threads, nearness.memory, nearness.is_remote()), (Some(0.5), Some(0.75), true));
        // With a model in which nodes 1 and 3 are one class nothing is remote.
        let class = |_| [NodeId(1), NodeId(3)].into_iter().collect();
        let modelled = status(&topology, &process, &open(), &class).nearness.expect("a device with a node");
        assert_eq!((modelled.threads, modelled.memory, modelled.is_remote()), (Some(1.0), Some(1.0), false));
    }

    #[test]
    fn without_a_device_nothing_is_remote() {
        let nothing = Resolved { devices: Vec::new(), nodes: Vec::new(), ..open() };
        let seen = status(&topology(), &process(), &nothing, &NodeSet::one);
        assert_eq!((seen.nearness, seen.threads_on.len()), (None, 2));
    }
}
