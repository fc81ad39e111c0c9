//! Guests whose virtual CPUs, memory or I/O threads are remote from each other or from their
//! devices.

use super::shell::{operand, option};
use super::symptom::{Effect, Fix, Symptom};
use crate::finding::{Finding, Severity};
use crate::guests::{Guest, GuestDevice, GuestDeviceKind, GuestThread, ThreadRole};
use crate::ids::NodeId;
use crate::set::NodeSet;
use crate::topology::Topology;
use crate::units::format_size;
use std::collections::{BTreeMap, BTreeSet};

/// Share of memory or threads that may be elsewhere, as strays of the hypervisor itself.
const TOLERATED: f64 = 0.05;

/// A guest with what its symptoms depend on.
struct Subject<'a> {
    topology: &'a Topology,
    guest: &'a Guest,
    devices: &'a [GuestDevice],
    best: &'a dyn Fn(&GuestDevice) -> NodeSet,
    name: String,
    /// Share of memory on each node; empty if unknown.
    memory: BTreeMap<NodeId, f64>,
}

/// Returns the symptoms of a guest. `best` returns the best nodes for a device with a node,
/// including that node.
pub fn guest_symptoms(
    topology: &Topology,
    guest: &Guest,
    devices: &[GuestDevice],
    best: &dyn Fn(&GuestDevice) -> NodeSet,
) -> Vec<Symptom> {
    let bytes = guest.memory.as_ref().map(|memory| memory.bytes_on()).unwrap_or_default();
    let all = bytes.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    let memory = bytes.iter().filter(|_| all > 0).map(|(node, bytes)| (*node, *bytes as f64 / all as f64));
    let subject = Subject { topology, guest, devices, best, name: guest.name(), memory: memory.collect() };
    let mut found: Vec<Symptom> = subject.unnamed_threads().into_iter().collect();
    if topology.cpu_nodes().len() < 2 && topology.memory_nodes().len() < 2 {
        return found;
    }
    found.extend(subject.remote_memory());
    found.extend(subject.remote_vcpus());
    found.extend(subject.remote_io_threads());
    found.extend(subject.unbound_vcpus());
    found.extend(subject.hidden_nodes());
    found.extend(subject.hidden_device_node());
    found
}

impl Subject<'_> {
    fn node_of(&self, thread: &GuestThread) -> Option<NodeId> {
        self.topology.cpu(thread.cpu).and_then(|cpu| cpu.node)
    }

    fn finding(
        &self,
        severity: Severity,
        rule: &str,
        what: String,
        evidence: String,
        remedy: String,
    ) -> Finding {
        Finding::new(severity, rule, format!("guest {}", self.name), what, evidence, remedy)
    }

    /// Devices with a node, each once.
    fn located_devices(&self) -> Vec<(&GuestDevice, NodeId)> {
        let mut once = BTreeSet::new();
        let located = self.devices.iter().filter_map(|device| Some((device, device.node?)));
        located.filter(|(device, _)| once.insert(device.device.clone())).collect()
    }

    /// Memory that the DMA of a device reaches over other nodes.
    fn remote_memory(&self) -> Vec<Symptom> {
        let remote = |(device, node): (&GuestDevice, NodeId)| {
            let near = (self.best)(device);
            let away: f64 =
                self.memory.iter().filter(|(on, _)| !near.contains(**on)).map(|(_, share)| share).sum();
            if away <= TOLERATED {
                return None;
            }
            let name = device.device.clone().unwrap_or_default();
            let what = format!(
                "{:.0} % of its memory is on nodes other than {near}, but it uses {name} on node {node}.",
                away * 100.0
            );
            let (remedy, fix) = self.move_memory(&name);
            Some(Symptom {
                finding: self.finding(
                    Severity::Warning,
                    "guest-memory-remote",
                    what,
                    self.memory_text(),
                    remedy,
                ),
                device: device.index,
                target: Some(node),
                effect: Effect::Shares(self.memory.clone()),
                fix,
            })
        };
        self.located_devices().into_iter().filter_map(remote).collect()
    }

    fn memory_text(&self) -> String {
        let on = self.guest.memory.as_ref().map(|memory| memory.bytes_on()).unwrap_or_default();
        let on: Vec<String> =
            on.iter().map(|(node, bytes)| format!("{node}: {}", format_size(*bytes))).collect();
        format!("/proc/{}/numa_maps: memory on node {}", self.guest.pid, on.join(", "))
    }

    fn move_memory(&self, device: &str) -> (String, Fix) {
        match self.guest.is_pinned() {
            true => (
                "Its memory is pinned, since the guest owns a device of the host: define it again with \
                 numaio vm place, and restart it."
                    .to_owned(),
                Fix { commands: vec![self.command("place", Some(device))], undo: Vec::new() },
            ),
            false => ("Move it.".to_owned(), self.apply(Some(device))),
        }
    }

    fn apply(&self, device: Option<&str>) -> Fix {
        Fix { commands: vec![self.command("apply", device)], undo: vec!["numaio undo".to_owned()] }
    }

    fn command(&self, verb: &str, device: Option<&str>) -> String {
        let near = device.map(|device| format!(" {}", option("--near", device))).unwrap_or_default();
        format!("numaio vm {verb}{near} {}", operand(&self.name))
    }

    fn vcpus_on(&self) -> BTreeMap<NodeId, u32> {
        let mut on: BTreeMap<NodeId, u32> = BTreeMap::new();
        for node in self.guest.vcpus().filter_map(|thread| self.node_of(thread)) {
            *on.entry(node).or_default() += 1;
        }
        on
    }

    /// Virtual CPUs on nodes that hold none of the memory.
    fn remote_vcpus(&self) -> Option<Symptom> {
        let on = self.vcpus_on();
        let away: BTreeMap<NodeId, u32> = on
            .iter()
            .filter(|(node, _)| self.memory.get(node).copied().unwrap_or(0.0) <= TOLERATED)
            .map(|(node, count)| (*node, *count))
            .collect();
        let (remote, all) = (away.values().sum::<u32>(), on.values().sum::<u32>());
        if remote == 0 || self.memory.is_empty() {
            return None;
        }
        let nodes: NodeSet = away.keys().copied().collect();
        let what = format!("{remote} of {all} vCPUs run on nodes without its memory: {nodes}.");
        let evidence = format!("/proc/{}/task/*/stat; {}", self.guest.pid, self.memory_text());
        let device = self.located_devices().first().and_then(|(device, _)| device.device.clone());
        Some(Symptom {
            finding: self.finding(
                Severity::Warning,
                "guest-vcpus-remote",
                what,
                evidence,
                "Pin them.".to_owned(),
            ),
            device: None,
            target: None,
            effect: Effect::Unquantified(
                "numaio stream and numaio latency measure memory from each node".to_owned(),
            ),
            fix: self.apply(device.as_deref()),
        })
    }

    /// Threads that move packets or blocks, on nodes remote from every device of the guest.
    fn remote_io_threads(&self) -> Option<Symptom> {
        let is_virtual = |device: &&GuestDevice| device.kind != GuestDeviceKind::Passthrough;
        let located = self.devices.iter().filter(is_virtual).filter(|device| device.node.is_some());
        let near = located.clone().fold(NodeSet::new(), |near, device| near.union(&(self.best)(device)));
        let serves = |thread: &&GuestThread| matches!(thread.role, ThreadRole::Vhost | ThreadRole::Io { .. });
        let threads = self.guest.threads.iter().filter(serves);
        let away: Vec<String> = threads
            .filter_map(|thread| {
                let node = self.node_of(thread)?;
                (!near.contains(node)).then(|| format!("{} on node {node}", thread.name))
            })
            .collect();
        if away.is_empty() || near.is_empty() {
            return None;
        }
        let what = format!(
            "{} of its I/O threads run on nodes other than {near}, near which its disks and networks are.",
            away.len()
        );
        let evidence = format!("/proc/{}/task/*/stat: {}", self.guest.pid, away.join(", "));
        let device = located.clone().find_map(|it| it.device.clone());
        Some(Symptom {
            finding: self.finding(
                Severity::Warning,
                "guest-io-remote",
                what,
                evidence,
                "Pin them.".to_owned(),
            ),
            device: None,
            target: located.filter_map(|device| device.node).min(),
            effect: Effect::Unquantified(
                "numaio bench net and numaio bench disk measure each node".to_owned(),
            ),
            fix: self.apply(device.as_deref()),
        })
    }

    /// Virtual CPUs that the kernel may move to other nodes.
    fn unbound_vcpus(&self) -> Option<Symptom> {
        let nodes_of = |thread: &GuestThread| -> NodeSet {
            let cpus = thread.allowed.iter().flat_map(|allowed| allowed.iter());
            cpus.filter_map(|cpu| self.topology.cpu(cpu)?.node).collect()
        };
        let unbound = self.guest.vcpus().filter(|thread| nodes_of(thread).len() > 1).count();
        if unbound == 0 {
            return None;
        }
        let what = format!("{unbound} of its vCPUs may run on several nodes, away from its memory.");
        let evidence = format!("/proc/{}/task/*/status: Cpus_allowed_list", self.guest.pid);
        Some(Symptom {
            finding: self.finding(
                Severity::Note,
                "guest-vcpus-unbound",
                what,
                evidence,
                "Pin them.".to_owned(),
            ),
            device: None,
            target: None,
            effect: Effect::Nothing,
            fix: self.apply(None),
        })
    }

    /// Memory on several nodes of the host that the guest sees as one.
    fn hidden_nodes(&self) -> Option<Symptom> {
        let held: NodeSet =
            self.memory.iter().filter(|(_, share)| **share > TOLERATED).map(|(node, _)| *node).collect();
        if held.len() < 2 || self.guest.configuration.cells.len() > 1 {
            return None;
        }
        let what =
            format!("Its memory is on nodes {held}, but the guest sees one node and cannot place its data.");
        let remedy = "Confine it to one node, or define a guest node for each (numaio vm place).".to_owned();
        Some(Symptom {
            finding: self.finding(Severity::Note, "guest-nodes-hidden", what, self.memory_text(), remedy),
            device: None,
            target: None,
            effect: Effect::Nothing,
            fix: Fix::none(),
        })
    }

    /// Devices whose node a guest with several nodes cannot see.
    fn hidden_device_node(&self) -> Option<Symptom> {
        let configuration = &self.guest.configuration;
        let owned = self
            .devices
            .iter()
            .find(|device| device.kind == GuestDeviceKind::Passthrough && device.node.is_some())?;
        if configuration.cells.len() < 2 || !configuration.expander_buses.is_empty() {
            return None;
        }
        let name = owned.device.clone().unwrap_or_else(|| owned.attached.clone());
        let what = format!("It has several nodes, but does not see on which of them {name} is.");
        Some(Symptom {
            finding: self.finding(
                Severity::Note,
                "guest-device-node-hidden",
                what,
                format!("/proc/{}/cmdline: no pxb-pcie with numa_node", self.guest.pid),
                "Attach it to a pcie-expander-bus of its node (numaio vm place).".to_owned(),
            ),
            device: owned.index,
            target: owned.node,
            effect: Effect::Nothing,
            fix: Fix::none(),
        })
    }

    fn unnamed_threads(&self) -> Option<Symptom> {
        if !self.guest.has_unnamed_vcpus() {
            return None;
        }
        Some(Symptom {
            finding: self.finding(
                Severity::Note,
                "guest-threads-unnamed",
                "Its vCPU threads cannot be identified, so that they are neither checked nor pinned."
                    .to_owned(),
                format!("/proc/{}/task/*/comm: no names such as CPU 0/KVM", self.guest.pid),
                "Start QEMU with -name NAME,debug-threads=on, or with -qmp unix:PATH,server=on,wait=off."
                    .to_owned(),
            ),
            device: None,
            target: None,
            effect: Effect::Nothing,
            fix: Fix::none(),
        })
    }
}
