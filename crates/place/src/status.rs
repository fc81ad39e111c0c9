//! Distance of running processes from the devices that they use.

use numaio_machine::ids::NodeId;
use numaio_machine::near::{NearDevice, Resolved};
use numaio_machine::process::Process;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_schema::{DeviceUse, Nearness, ProcessStatus};
use std::collections::BTreeMap;

/// Returns the current placement of a process and the devices behind its open files.
///
/// `best` returns the best nodes for devices on a node, including that node.
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
    let devices = used_devices(topology, open);
    let bytes_on = process.pages.as_ref().map(|pages| pages.anonymous.clone());
    let device_nodes: NodeSet = devices.iter().filter_map(|device| device.node).collect();
    let near = device_nodes.iter().fold(device_nodes.clone(), |near, node| near.union(&best(node)));
    let nearness = (!device_nodes.is_empty()).then(|| Nearness {
        threads: share(threads_on.iter().map(|(node, count)| (*node, u64::from(*count))), &near),
        memory: bytes_on.as_ref().and_then(|on| share(on.iter().map(|(node, bytes)| (*node, *bytes)), &near)),
        near,
    });
    ProcessStatus {
        pid: process.pid,
        name: process.name.clone(),
        guest: None,
        threads_on,
        allowed,
        bytes_on,
        devices,
        nearness,
    }
}

/// Returns the devices behind the open files of a process.
pub fn used_devices(topology: &Topology, open: &Resolved) -> Vec<DeviceUse> {
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

/// Returns the steps from the process, exclusive, to the device, inclusive.
fn device_path(open: &Resolved, near: &NearDevice) -> String {
    let steps = open.path_to(near);
    let end = steps.iter().position(|step| step.name == near.name).map_or(steps.len(), |index| index + 1);
    steps.iter().take(end).skip(1).map(|step| step.name.as_str()).collect::<Vec<&str>>().join(" -> ")
}

/// Returns the share of the amounts that is on nodes in `near`; none without amounts.
fn share(amounts: impl Iterator<Item = (NodeId, u64)>, near: &NodeSet) -> Option<f64> {
    let (mut local, mut all) = (0u64, 0u64);
    for (node, amount) in amounts {
        all = all.saturating_add(amount);
        local = local.saturating_add(if near.contains(node) { amount } else { 0 });
    }
    (all > 0).then(|| local as f64 / all as f64)
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
            isolated: false,
            core_kind: None,
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
            name: what.into(),
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
            share: Some(0.5),
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
            nodes: vec![NearNode { node: NodeId(1), share: Some(0.5) }],
            findings: Vec::new(),
        }
    }

    #[test]
    fn computes_near_shares_of_threads_and_memory() {
        let (topology, process) = (topology(), process());
        let alone = status(&topology, &process, &open(), &NodeSet::one);
        assert_eq!(alone.devices[0].reached_via, "/data -> sda");
        let nearness = alone.nearness.expect("a device with a node");
        assert_eq!((nearness.threads, nearness.memory, nearness.is_remote()), (Some(0.5), Some(0.75), true));
        // With a model that puts nodes 1 and 3 in one class, nothing is remote.
        let class = |_| [NodeId(1), NodeId(3)].into_iter().collect();
        let with_model = status(&topology, &process, &open(), &class).nearness.expect("a device with a node");
        assert_eq!(
            (with_model.threads, with_model.memory, with_model.is_remote()),
            (Some(1.0), Some(1.0), false)
        );
    }

    #[test]
    fn process_without_devices_has_no_nearness() {
        let no_devices = Resolved { devices: Vec::new(), nodes: Vec::new(), ..open() };
        let found = status(&topology(), &process(), &no_devices, &NodeSet::one);
        assert_eq!((found.nearness, found.threads_on.len()), (None, 2));
    }
}
