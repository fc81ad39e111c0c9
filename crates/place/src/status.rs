//! Distance of running processes from the devices that they use.

use numaio_machine::ids::NodeId;
use numaio_machine::near::{NearDevice, Resolved};
use numaio_machine::process::Process;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_schema::{DeviceUse, MachineExpectation, Nearness, ProcessStatus};
use std::collections::BTreeMap;

/// Returns the current placement of a process and the devices behind its open files.
///
/// What the devices are `expected` to transfer shows what remoteness costs them.
pub fn status(
    topology: &Topology,
    process: &Process,
    open: &Resolved,
    expected: &MachineExpectation,
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
    let near: NodeSet = devices.iter().filter_map(|device| device.node).collect();
    let threads = || threads_on.iter().map(|(node, count)| (*node, u64::from(*count)));
    let buffers = bytes_on.clone().filter(|on| !on.is_empty()).unwrap_or_else(|| threads().collect());
    let nearness = (!near.is_empty()).then(|| Nearness {
        bandwidth_loss: bandwidth_loss(topology, open, expected, &buffers),
        threads: share(threads(), &near),
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

/// Returns the loss of the most affected device with buffers on nodes, in bytes or threads.
fn bandwidth_loss(
    topology: &Topology,
    open: &Resolved,
    expected: &MachineExpectation,
    buffers: &BTreeMap<NodeId, u64>,
) -> Option<f64> {
    let all = buffers.values().fold(0u64, |all, amount| all.saturating_add(*amount));
    let shares = buffers.iter().map(|(node, amount)| (*node, *amount as f64 / all.max(1) as f64)).collect();
    let of_device = |near: &NearDevice| {
        let device = topology.devices.get(near.index)?;
        expected.loss(&device.distinct_name(&topology.devices), &shares)
    };
    let losses: Option<Vec<f64>> = open.devices.iter().map(of_device).collect();
    losses?.into_iter().reduce(f64::max)
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
    use numaio_machine::devices::{Device, DeviceKind, Locality};
    use numaio_machine::ids::CpuId;
    use numaio_machine::near::{NearNode, Step};
    use numaio_machine::process::{Pages, Thread};
    use numaio_machine::topology::Cpu;
    use numaio_machine::workload::Direction;
    use numaio_schema::{
        BandwidthDifference, DeviceBandwidth, DeviceExpectation, ExpectationSource, ExpectedBandwidth,
    };

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

    fn sda() -> Device {
        Device {
            kind: DeviceKind::Block,
            names: vec!["sda".into()],
            name_classes: BTreeMap::new(),
            pci: None,
            path: String::new(),
            ids: None,
            class: None,
            model: String::new(),
            driver: None,
            locality: Locality { node: Some(NodeId(1)), ..Locality::default() },
            link: None,
            upstream: Vec::new(),
            power: None,
            irqs: Vec::new(),
            sriov: None,
            port_bits_per_s: None,
        }
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
        let alone = status(&topology, &process, &open(), &MachineExpectation::default());
        assert_eq!(alone.devices[0].reached_via, "/data -> sda");
        let nearness = alone.nearness.expect("a device with a node");
        assert_eq!((nearness.threads, nearness.memory, nearness.is_remote()), (Some(0.5), Some(0.75), true));
        assert_eq!((nearness.bandwidth_loss, nearness.is_free()), (None, false), "unknown");
    }

    /// Remoteness is a fact, and its cost depends on the device.
    #[test]
    fn loss_of_bandwidth_follows_the_device() {
        let process = process();
        let topology = Topology { devices: vec![sda()], ..topology() };
        let loss = |difference| {
            let node = |node, class, bytes_per_s| ExpectedBandwidth {
                node: NodeId(node),
                class,
                bytes_per_s,
                source: ExpectationSource::Path,
                path_bytes_copied_per_s: None,
            };
            let of_device = DeviceExpectation {
                device: "sda".into(),
                node: Some(NodeId(1)),
                direction: Direction::Read,
                limit: DeviceBandwidth::Unknown { measure: String::new() },
                beside: Vec::new(),
                difference,
                nodes: vec![node(1, 1, 10.0), node(3, 2, 6.0)],
            };
            let expected = MachineExpectation { devices: vec![of_device], at_once: Vec::new() };
            status(&topology, &process, &open(), &expected).nearness.expect("a device with a node")
        };
        // A quarter of the memory is on node 3.
        let some = loss(BandwidthDifference::Some);
        assert!(some.bandwidth_loss.is_some_and(|loss| (loss - 0.1).abs() < 1e-9), "{some:?}");
        let none = loss(BandwidthDifference::None);
        assert_eq!((none.bandwidth_loss, none.is_remote(), none.is_free()), (Some(0.0), true, true));
    }

    #[test]
    fn process_without_devices_has_no_nearness() {
        let no_devices = Resolved { devices: Vec::new(), nodes: Vec::new(), ..open() };
        let found = status(&topology(), &process(), &no_devices, &MachineExpectation::default());
        assert_eq!((found.nearness, found.threads_on.len()), (None, 2));
    }
}
