//! Groups of like hosts, and differences in structure and settings.

use crate::support::{data, fleet_spec};
use numaio_machine::devices::PcieLink;
use numaio_machine::set::CpuSet;
use numaio_model::fleet::{check, facts_of_topology, groups, CheckOptions};
use numaio_schema::{Fact, FactKind, FleetData, FleetHost, HostCheck, TopologyDocument};
use numaio_sim::fleet::{FaultKind, FleetSpec, SimulatedFleet};
use numaio_sim::{render, shapes, Spec};

/// Hosts without figures, each with the facts of a machine.
fn hosts_of(machines: &[(Spec, usize)]) -> FleetData {
    let facts = |machine: &Spec| {
        facts_of_topology(&TopologyDocument::new(numaio_machine::discover::discover(&render(machine))))
    };
    let hosts = machines.iter().flat_map(|(machine, number)| vec![facts(machine); *number]);
    let named = hosts.enumerate().map(|(number, facts)| FleetHost {
        name: format!("n{number:03}"),
        observed_at: 0,
        facts,
    });
    FleetData { hosts: named.collect(), ..FleetData::default() }
}

fn with_memory(bytes: u64) -> Spec {
    let mut machine = shapes::dl585();
    machine.nodes.iter_mut().for_each(|node| (node.memory_bytes, node.free_bytes) = (bytes, bytes / 2));
    machine
}

fn sizes(data: &FleetData) -> Vec<(String, usize)> {
    groups(data).into_iter().map(|group| (group.name, group.hosts.len())).collect()
}

/// Differences of the only host with findings.
fn only_host(data: &FleetData) -> HostCheck {
    let check = check(data, &CheckOptions::default());
    let [host] = check.hosts.as_slice() else { panic!("{:#?}", check.hosts) };
    host.clone()
}

const GIB: u64 = 1 << 30;

#[test]
fn every_structural_fault_is_found_in_the_rendered_machine() {
    let cases = [
        (FaultKind::HalvedLink, "device 15b3:1021 #1 link", "x4 of 8 GT/s x8"),
        (FaultKind::MovedDevice, "device 15b3:1021 #1 node", "0"),
        (FaultKind::OtherNodes, "nodes per package", "1"),
        (FaultKind::MissingModule, "memory", ""),
    ];
    for (kind, name, value) in cases {
        let spec = FleetSpec { faults: vec![kind], ..fleet_spec(12, 1, 3) };
        let host = only_host(&data(&SimulatedFleet::new(&spec)));
        let fact = host.facts.iter().find(|fact| fact.fact.name.contains(name));
        let fact = fact.unwrap_or_else(|| panic!("{kind:?}: {:#?}", host.facts));
        assert!(value.is_empty() || fact.fact.value == value, "{kind:?}: {fact:?}");
        assert_eq!((fact.hosts_with_expected, fact.hosts_with_value), (11, 1), "{fact:?}");
        assert_eq!(host.facts[0].fact.kind, FactKind::Structure);
        // Figures that the difference explains are not alarms of their own.
        assert!(!host.has_slow_figures(), "{kind:?}: {:#?}", host.figures);
        let explained = host.facts.iter().map(|fact| fact.explains.len()).sum::<usize>();
        assert!(explained > 0 || kind == FaultKind::MovedDevice || kind == FaultKind::OtherNodes, "{kind:?}");
    }
}

#[test]
fn a_legitimate_variant_is_a_group_and_a_rare_one_deviates() {
    let half = hosts_of(&[(with_memory(16 * GIB), 6), (with_memory(32 * GIB), 5)]);
    assert_eq!(sizes(&half), [("1".to_owned(), 6), ("1b".to_owned(), 5)]);
    assert!(!check(&half, &CheckOptions::default()).has_findings());
    // Two hosts are too few for a variant, and ten of a hundred are too small a share.
    for (most, few) in [(6, 2), (90, 10)] {
        let data = hosts_of(&[(with_memory(16 * GIB), most), (with_memory(14 * GIB), few)]);
        assert_eq!(sizes(&data), [("1".to_owned(), most + few)]);
        let check = check(&data, &CheckOptions::default());
        assert_eq!(check.hosts.len(), few);
        let fact = &check.hosts[0].facts[0];
        assert_eq!((fact.fact.name.as_str(), fact.fact.value.as_str()), ("node 0 memory", "14 GiB"));
        assert_eq!((fact.hosts_with_expected, fact.hosts_with_value), (most as u32, few as u32));
    }
}

/// A virtual machine with two NVMe volumes.
fn guest() -> Spec {
    let mut machine = shapes::dl585();
    machine.conditions.virtual_machine = true;
    machine
}

/// Returns a guest after a change.
fn changed(change: impl FnOnce(&mut Spec)) -> Spec {
    let mut machine = guest();
    change(&mut machine);
    machine
}

#[test]
fn what_changes_while_a_machine_runs_is_not_structure() {
    let guests = [
        changed(|it| (it.nodes[0].memory_bytes, it.nodes[0].free_bytes) = (3 * GIB, GIB)),
        changed(|it| it.devices.retain(|device| device.names != ["nvme1n1"])),
        changed(|it| it.devices.retain(|device| device.names != ["eth0"])),
        changed(|it| it.devices.iter_mut().for_each(|device| device.link.iter_mut().for_each(halve_speed))),
    ];
    let mut retrained = shapes::dl585();
    retrained.devices.iter_mut().for_each(|device| device.link.iter_mut().for_each(halve_speed));
    let on_metal = (shapes::dl585(), retrained);
    for (like, other) in guests.into_iter().map(|other| (guest(), other)).chain([on_metal]) {
        let check = check(&hosts_of(&[(like, 8), (other, 1)]), &CheckOptions::default());
        assert!(check.groups.len() == 1 && check.hosts.len() <= 1, "{:#?}", check.hosts);
        assert!(check.hosts.iter().all(|host| !host.is_unfit()), "{:#?}", check.hosts);
    }
}

fn halve_speed(link: &mut PcieLink) {
    link.gt_per_s /= 2.0;
}

#[test]
fn guests_with_other_numbers_of_cpus_are_a_group_of_their_own() {
    let grown = changed(|it| {
        let mut cpus = it.nodes[0].cpus.to_string();
        cpus.push_str(",900-901");
        it.nodes[0].cpus = CpuSet::parse_list(&cpus).expect("CPUs");
    });
    let data = hosts_of(&[(guest(), 8), (grown, 1)]);
    assert_eq!(sizes(&data), [("1".to_owned(), 8), ("2".to_owned(), 1)]);
    assert!(!check(&data, &CheckOptions::default()).has_findings());
}

#[test]
fn without_a_majority_nothing_is_expected() {
    let data = hosts_of(&[(with_memory(16 * GIB), 2), (with_memory(32 * GIB), 2)]);
    let check = check(&data, &CheckOptions::default());
    assert!(!check.has_findings(), "{:#?}", check.hosts);
    let memory = check.undecided.iter().find(|text| text.contains("'node 0 memory'")).expect("a note");
    assert!(memory.contains("'16 GiB' (2), '32 GiB' (2)"), "{memory}");
}

#[test]
fn a_host_without_a_device_stays_in_its_group_and_other_hardware_does_not() {
    let mut without = shapes::dl585();
    without.devices.retain(|device| device.names != ["nvme1n1"]);
    let data = hosts_of(&[(shapes::dl585(), 8), (without, 1), (shapes::arm(), 2)]);
    assert_eq!(sizes(&data), [("1".to_owned(), 9), ("2".to_owned(), 2)]);
    let host = only_host(&data);
    let count = host.facts.iter().find(|fact| fact.fact.name == "device 144d:a80a count").expect("a count");
    assert_eq!((count.fact.value.as_str(), count.expected.as_str()), ("1", "2"));
    assert!(host.differs_in_structure());
}

#[test]
fn names_of_hosts_and_devices_are_not_compared() {
    let mut other = shapes::dl585();
    other.name = "another".into();
    other.devices.iter_mut().filter(|device| device.names == ["eth0"]).for_each(|device| {
        device.names = vec!["enp33s0".into()];
    });
    let data = hosts_of(&[(shapes::dl585(), 5), (other, 1)]);
    assert_eq!(check(&data, &CheckOptions::default()).hosts, []);
    let text = format!("{:?}", data.hosts[5].facts);
    assert!(!text.contains("another"), "{text}");
}

#[test]
fn settings_of_few_hosts_are_findings_and_missing_ones_are_not() {
    let mut data = hosts_of(&[(shapes::dl585(), 10)]);
    let microcode =
        |value: &str| Fact { kind: FactKind::Setting, name: "microcode".into(), value: value.into() };
    for host in &mut data.hosts[..8] {
        host.facts.push(microcode("0x2"));
    }
    data.hosts[8].facts.push(microcode("0x1"));
    let host = only_host(&data);
    assert_eq!((host.host.as_str(), host.facts[0].expected.as_str()), ("n008", "0x2"));
    assert!(!host.differs_in_structure() && host.has_findings());
}

#[test]
fn classes_of_nodes_are_findings_only_with_figures_of_their_view() {
    let spec = FleetSpec { faults: vec![FaultKind::SlowMemory], loss: (0.3, 0.3), ..fleet_spec(12, 1, 5) };
    let fleet = SimulatedFleet::new(&spec);
    let mut data = data(&fleet);
    let faulty = fleet.hosts.iter().position(|host| host.fault.is_some()).expect("a fault");
    let node = fleet.hosts[faulty].fault.expect("a fault").node;
    for (index, host) in data.hosts.iter_mut().enumerate() {
        let other = index == faulty || index == (faulty + 1) % 12;
        let value = if other { "0-6 | 7" } else { "0-7" };
        let name = format!("classes copy-read of node {node}");
        host.facts.push(Fact { kind: FactKind::Structure, name, value: value.into() });
    }
    let host = only_host(&data);
    assert_eq!(host.host, data.hosts[faulty].name);
    assert_eq!((host.facts[0].fact.value.as_str(), host.facts[0].expected.as_str()), ("0-6 | 7", "0-7"));
    assert!(host.has_slow_figures());
}
