//! Facts that describe a host, so that like hosts are compared and differences are found.

use super::figures::views;
use numaio_machine::conditions::Conditions;
use numaio_machine::devices::{Device, DeviceKind, PcieLink};
use numaio_machine::findings::{Finding, Severity};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::{Node, Topology};
use numaio_machine::units::format_size;
use numaio_schema::{Document, Fact, FactKind, HostReport, TopologyDocument, View};
use std::collections::BTreeMap;
use FactKind::{Hardware, Setting, Structure};

/// Start of the names of facts about classes of nodes, which depend on measurements.
pub(super) const CLASSES: &str = "classes ";
/// Name of the number of CPUs of a guest. A hypervisor adds CPUs while the guest runs: guests with
/// different numbers are neither compared nor incomplete.
pub(super) const GUEST_CPUS: &str = "guest cpus";
/// Start of the names of facts about findings of `doctor`; a host without the fact lacks the
/// finding.
pub(super) const FINDING: &str = "finding ";
/// End of the names of facts that identify a device on its host and are not compared.
pub(super) const NAMES: &str = " names";

/// Returns the facts of a host by its report and the documents in it, sorted by kind and name,
/// without host names and serial numbers.
///
/// Hardware is coarse, so that a faulty host stays among like hosts. Structure is what firmware,
/// slots and modules decide, and remains until the machine is started again. Settings are the
/// kernel, its configuration, the findings of `doctor`, and all that may change while the machine
/// runs: CPUs that are online, speeds of links and ports, and what a hypervisor adds to a guest and
/// takes from it.
pub fn facts<D>(report: &HostReport<D>, documents: &[Document]) -> Vec<Fact> {
    let mut facts = facts_of_topology(&report.topology);
    conditions(&report.conditions, &mut facts);
    if let Some(diagnosis) = &report.diagnosis {
        facts.retain(|fact| !fact.name.starts_with(FINDING));
        findings(diagnosis.findings.iter().map(|found| &found.finding), &mut facts);
    }
    facts.extend(documents.iter().flat_map(views).map(|view| classes(&view)));
    sorted(facts)
}

/// Returns the facts that a topology states, sorted by kind and name.
pub fn facts_of_topology(document: &TopologyDocument) -> Vec<Fact> {
    let topology = &document.topology;
    let identity = &topology.identity;
    let is_guest = topology.surroundings.virtual_machine;
    let mut facts = vec![
        fact(Hardware, "architecture", &identity.architecture),
        fact(Hardware, "product", &identity.product),
        fact(Hardware, "cpu model", &identity.cpu_model),
        fact(Hardware, if is_guest { GUEST_CPUS } else { "cpus" }, topology.cpus.len()),
        fact(Setting, "kernel", &identity.kernel),
        fact(Setting, "isolated cpus", topology.isolated_cpus()),
    ];
    nodes(topology, &mut facts);
    devices(&topology.devices, is_guest, &mut facts);
    findings(topology.findings.iter(), &mut facts);
    sorted(facts)
}

fn fact(kind: FactKind, name: impl ToString, value: impl ToString) -> Fact {
    Fact { kind, name: name.to_string(), value: value.to_string() }
}

fn sorted(mut facts: Vec<Fact>) -> Vec<Fact> {
    facts.retain(|fact| !fact.value.is_empty());
    facts.sort();
    facts.dedup_by(|a, b| a.kind == b.kind && a.name == b.name);
    facts
}

fn nodes(topology: &Topology, facts: &mut Vec<Fact>) {
    let is_guest = topology.surroundings.virtual_machine;
    let with_cpus = topology.cpu_nodes();
    // A hypervisor adds and removes memory, also as nodes without CPUs.
    let is_lasting = |id: NodeId| !is_guest || with_cpus.contains(id);
    let lasting = topology.nodes.iter().map(|node| node.id).filter(|id| is_lasting(*id));
    let ids: Vec<String> = lasting.map(|id| id.to_string()).collect();
    facts.push(fact(Structure, "nodes", ids.join(" ")));
    let mut packages: Vec<_> = topology.cpus.iter().filter_map(|cpu| cpu.package).collect();
    packages.sort();
    packages.dedup();
    facts.push(fact(Structure, "packages", packages.len()));
    if !packages.is_empty() && with_cpus.len().is_multiple_of(packages.len()) {
        // NPS of AMD and sub-NUMA clustering of Intel.
        facts.push(fact(Structure, "nodes per package", with_cpus.len() / packages.len()));
    }
    if let Some(distances) = &topology.distances {
        let lasting = |index: &usize| is_lasting(distances.nodes[*index]);
        let lasting: Vec<usize> = (0..distances.nodes.len()).filter(lasting).collect();
        let row = |from: &usize| {
            let row = lasting.iter().filter_map(|to| distances.rows.get(*from)?.get(*to));
            row.map(u32::to_string).collect::<Vec<_>>().join(" ")
        };
        let rows: Vec<String> = lasting.iter().map(row).collect();
        facts.push(fact(Structure, "distances", rows.join(", ")));
    }
    let memory = if is_guest { Setting } else { Structure };
    topology.nodes.iter().for_each(|node| facts_of_node(node, memory, facts));
}

/// States a node; `memory` is the kind of facts about its memory.
fn facts_of_node(node: &Node, memory: FactKind, facts: &mut Vec<Fact>) {
    let name = |what: &str| format!("node {} {what}", node.id);
    facts.push(fact(Setting, name("online cpus"), node.cpus.len()));
    let bytes = node.memory.map_or(0, |memory| memory.total_bytes);
    facts.push(fact(memory, name("memory"), format_size(installed_bytes(bytes))));
    if let Some(kind) = &node.memory_kind {
        facts.push(fact(memory, name("memory kind"), kind));
    }
    for pool in node.huge_pages.iter().filter(|pool| pool.total > 0) {
        let name = name(&format!("huge pages of {}", format_size(pool.page_bytes)));
        facts.push(fact(Setting, name, pool.total));
    }
}

/// Returns the memory of the modules of a node whose kernel reports `bytes`.
///
/// Firmware and kernel reserve up to some percent. Modules come in sizes such that a node's memory
/// is a multiple of an eighth of its leading power of two, also with one module missing.
fn installed_bytes(bytes: u64) -> u64 {
    let unit = bytes.checked_ilog2().map_or(1, |exponent| (1 << exponent) / 8).max(1);
    bytes.div_ceil(unit).saturating_mul(unit)
}

/// States devices by model and number, in the order of their addresses: names such as `nvme0`
/// change from boot to boot, and like devices are interchangeable.
fn devices(devices: &[Device], is_guest: bool, facts: &mut Vec<Fact>) {
    let mut models: BTreeMap<String, Vec<&Device>> = BTreeMap::new();
    for device in devices.iter().filter(|device| device.moves_data() && !device.is_virtual_function()) {
        models.entry(model(device)).or_default().push(device);
    }
    for (model, mut devices) in models {
        devices.sort_by(|a, b| (a.pci, &a.path).cmp(&(b.pci, &b.path)));
        let is_attached = is_guest && devices.iter().all(|device| is_attachable(device.kind));
        let (count, layout) = if is_attached { (Setting, Setting) } else { (Hardware, Structure) };
        facts.push(fact(count, format!("device {model} count"), devices.len()));
        for (number, device) in devices.into_iter().enumerate() {
            facts_of_device(&format!("device {model} #{}", number + 1), device, layout, facts);
        }
    }
}

/// Returns whether hypervisors attach devices of a kind to running guests and detach them: volumes
/// and network interfaces, not the accelerators that a guest is ordered with.
fn is_attachable(kind: DeviceKind) -> bool {
    !matches!(kind, DeviceKind::Gpu | DeviceKind::Rdma)
}

/// Returns the ids of a device's model, or its kind and model name without ids.
fn model(device: &Device) -> String {
    let name = || format!("{} {}", device.kind.name(), device.model);
    device.ids.map_or_else(name, |(vendor, id)| format!("{vendor:04x}:{id:04x}")).trim().to_owned()
}

/// States a device; `layout` is the kind of facts about where it is.
fn facts_of_device(name: &str, device: &Device, layout: FactKind, facts: &mut Vec<Fact>) {
    let mut add = |kind, what: &str, value: Option<String>| {
        facts.extend(value.map(|value| fact(kind, format!("{name} {what}"), value)));
    };
    add(layout, "slot", device.pci.map(|pci| pci.to_string()));
    add(layout, "node", device.locality.node.map(|node| node.to_string()));
    add(layout, "link", device.link.map(|at| link(&at)));
    add(Setting, "link speed", device.link.and_then(|at| link_speed(device.kind, &at)));
    let port = device.port_bits_per_s.map(|bits| format!("{} Gbit/s", bits as f64 / 1e9));
    add(Setting, "port", port);
    add(Setting, "driver", device.driver.clone());
    add(Setting, NAMES.trim_start(), Some(device.names.join(" ")));
}

/// Describes the lanes of a link and what its device can do.
fn link(link: &PcieLink) -> String {
    format!("x{} of {} GT/s x{}", link.lanes, link.max_gt_per_s, link.max_lanes)
}

/// Describes the current speed of a link, which a reset and power management change; that of a
/// GPU's is low while the GPU is idle.
fn link_speed(kind: DeviceKind, link: &PcieLink) -> Option<String> {
    (kind != DeviceKind::Gpu).then(|| format!("{} GT/s", link.gt_per_s))
}

/// States each rule with the affected objects; notes depend on the moment and are left out.
fn findings<'a>(findings: impl Iterator<Item = &'a Finding>, facts: &mut Vec<Fact>) {
    let mut subjects: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for finding in findings.filter(|finding| finding.severity > Severity::Note) {
        subjects.entry(&finding.rule).or_default().push(&finding.subject);
    }
    for (rule, mut subjects) in subjects {
        subjects.sort_unstable();
        subjects.dedup();
        facts.push(fact(Setting, format!("{FINDING}{rule}"), subjects.join(", ")));
    }
}

fn conditions(conditions: &Conditions, facts: &mut Vec<Fact>) {
    let mut add = |name: &str, value: Option<String>| facts.extend(value.map(|it| fact(Setting, name, it)));
    let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
    add("numa balancing", conditions.numa_balancing.map(|mode| mode.to_string()));
    add("transparent huge pages", conditions.transparent_huge_pages.clone());
    add("frequency governors", Some(conditions.governors.join(" ")));
    add("turbo", conditions.turbo.map(switch));
    add("irqbalance", conditions.irqbalance.map(switch));
    add("microcode", conditions.microcode.clone());
    add("firmware", conditions.firmware.clone());
}

/// States the classes of a view, best first, as in `6-7 | 0-1 4-5 | 2-3`.
fn classes(view: &View) -> Fact {
    let classes: Vec<String> = view.classes.iter().map(|class| class.nodes.to_string()).collect();
    fact(Structure, format!("{CLASSES}{} of node {}", view.name, view.target), classes.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_rounded_to_modules() {
        let gib = |gib: f64| format_size(installed_bytes((gib * f64::from(1 << 30)) as u64));
        let reported = [62.7, 125.6, 251.3, 377.2, 439.9, 471.0, 503.7, 945.0, 3.8];
        let modules = ["64", "128", "256", "384", "448", "480", "512", "960", "4"];
        for (reported, modules) in reported.into_iter().zip(modules) {
            assert_eq!(gib(reported), format!("{modules} GiB"), "{reported}");
        }
        assert_eq!(installed_bytes(0), 0);
        assert_eq!(installed_bytes(u64::MAX), u64::MAX);
    }

    #[test]
    fn speed_of_an_idle_gpu_is_left_out() {
        let at = PcieLink { gt_per_s: 2.5, lanes: 16, max_gt_per_s: 16.0, max_lanes: 16 };
        assert_eq!(link(&at), "x16 of 16 GT/s x16");
        assert_eq!(link_speed(DeviceKind::Gpu, &at), None);
        assert_eq!(link_speed(DeviceKind::Nvme, &at).as_deref(), Some("2.5 GT/s"));
    }
}
