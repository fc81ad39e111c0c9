//! Findings about links, nodes, interrupts and settings.

use crate::support::machine;
use crate::support::server::{server, two_sockets, Server, NIC, SWITCH};
use numaio_machine::conditions::Conditions;
use numaio_machine::devices::{DeviceMatrix, Shared};
use numaio_machine::findings::{find, Finding, Severity};
use numaio_machine::ids::{NodeId, PackageId};
use numaio_machine::topology::Topology;
use numaio_machine::tree::Tree;
use numaio_machine::{devices, set::CpuSet};

const NIC_PORT: &str = "pci0000:3a/0000:3a:00.0";
const ROOT_PORT: &str = "pci0000:80/0000:80:01.0";
const GPU_PORT: &str = "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0";
const GPU: &str = "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0/0000:83:00.0";

fn findings(server: &Server, mut topology: Topology, conditions: &Conditions) -> Vec<Finding> {
    topology.devices = devices::read(&server.tree, &topology.cpus_by_node());
    find(&server.tree, &topology, conditions)
}

/// Returns severity and text of the findings of a rule about a subject.
fn about(server: &Server, rule: &str, subject: &str) -> Vec<(Severity, String)> {
    let all = findings(server, two_sockets(), &Conditions::default());
    let these = all.into_iter().filter(|finding| finding.rule == rule && finding.subject == subject);
    these.map(|finding| (finding.severity, finding.message)).collect()
}

fn link_of(server: &Server, subject: &str) -> Option<(Severity, String)> {
    let all = findings(server, two_sockets(), &Conditions::default());
    let mut found = all.into_iter().filter(|it| it.rule == "pcie-link-degraded" && it.subject == subject);
    let link = found.next().map(|it| (it.severity, format!("{} {}", it.message, it.evidence)));
    assert_eq!(found.next(), None);
    link
}

#[test]
fn reports_missing_lanes_as_problem() {
    let mut server = server();
    assert_eq!(link_of(&server, "eth2"), None, "the link has full capability");
    for end in [NIC, NIC_PORT] {
        server.link(end, "16.0 x8 16.0 x16");
    }
    let (severity, what) = link_of(&server, "eth2").expect("half of the lanes are missing");
    assert_eq!(severity, Severity::Problem);
    assert!(what.contains("from 0000:3b:00.0 up to 0000:3a:00.0"), "{what}");
    assert!(what.contains("16 GT/s x8, although its ends support 16 GT/s x16"), "{what}");
}

#[test]
fn reports_slots_slower_than_the_card_as_note() {
    let mut server = server();
    server.link(NIC, "8.0 x8 16.0 x16").link(NIC_PORT, "8.0 x8 8.0 x8");
    let (severity, what) = link_of(&server, "eth2").expect("the card could do more");
    assert_eq!(severity, Severity::Note);
    assert!(what.contains("eth2 supports 16 GT/s x16") && what.contains("only 8 GT/s x8"), "{what}");
}

#[test]
fn reports_slow_links_unless_saving_power() {
    let mut server = server();
    for end in [NIC, NIC_PORT, GPU, GPU_PORT] {
        server.link(end, "2.5 x16 16.0 x16");
    }
    assert_eq!(link_of(&server, "eth2").map(|(severity, _)| severity), Some(Severity::Problem));
    for end in [SWITCH, ROOT_PORT] {
        server.link(end, "32.0 x16 32.0 x16");
    }
    assert_eq!(link_of(&server, "cuda:0").map(|(severity, _)| severity), Some(Severity::Note));
    server.tree.file(&format!("/sys/devices/{NIC}/power_state"), "D3hot\n");
    assert_eq!(link_of(&server, "eth2").map(|(severity, _)| severity), Some(Severity::Note));
    for end in [GPU, GPU_PORT] {
        server.link(end, "2.5 x8 16.0 x16");
    }
    assert_eq!(link_of(&server, "cuda:0").map(|(severity, _)| severity), Some(Severity::Problem));
}

/// The registers of a Thunderbolt tunnel report 2.5 GT/s x4 whatever it carries.
#[test]
fn links_of_tunnels_are_not_a_loss() {
    let mut server = server();
    for end in [NIC, NIC_PORT] {
        server.link(end, "2.5 x4 16.0 x16");
    }
    assert_eq!(link_of(&server, "eth2").map(|(severity, _)| severity), Some(Severity::Problem));
    server.tree.file(&format!("/sys/devices/{NIC}/removable"), "fixed\n");
    assert!(link_of(&server, "eth2").is_some());
    server.tree.file(&format!("/sys/devices/{NIC}/removable"), "removable\n");
    assert_eq!(link_of(&server, "eth2"), None);
}

#[test]
fn matrix_names_what_two_devices_share() {
    let mut topology = two_sockets();
    topology.devices = devices::read(&server().tree, &topology.cpus_by_node());
    let matrix = DeviceMatrix::new(&topology).expect("a matrix");
    let shared = |one: &str, other: &str| {
        let index = |name: &str| {
            matrix.devices.iter().position(|it| it == name).unwrap_or_else(|| panic!("{name}: {matrix:?}"))
        };
        assert_eq!(matrix.rows[index(one)][index(other)], matrix.rows[index(other)][index(one)], "symmetric");
        matrix.rows[index(one)][index(other)]
    };
    assert_eq!(shared("eth2", "eth2"), Shared::Itself);
    assert_eq!(shared("cuda:0", "cuda:1"), Shared::Switch);
    // Another root port of the same node, then of another package.
    assert_eq!(shared("eth2", "cuda:0"), Shared::Node);
    let mut apart = topology.clone();
    let eth2 = apart.devices.iter_mut().find(|device| device.has_name("eth2")).expect("eth2");
    eth2.locality.node = eth2.locality.node.map(|node| NodeId(1 - node.0));
    let all = |topology: &Topology| DeviceMatrix::new(topology).expect("a matrix").rows.concat();
    assert!(all(&apart).contains(&Shared::Machine));
    apart.devices.iter_mut().for_each(|device| device.locality.node = None);
    assert!(all(&apart).contains(&Shared::Unknown) && !all(&apart).contains(&Shared::Node));
    assert_eq!(DeviceMatrix::new(&two_sockets()), None, "no devices");
}

#[test]
fn reports_links_of_switches() {
    let mut server = server();
    let place = "from 0000:81:00.0 up to 0000:80:01.0";
    for gpu in ["cuda:0", "cuda:1"] {
        let (severity, what) = link_of(&server, gpu).expect("the switch has eight lanes");
        assert_eq!(severity, Severity::Warning);
        assert!(what.contains(place) && what.contains("16 GT/s x8"), "{what}");
    }
    for end in [SWITCH, ROOT_PORT] {
        server.link(end, "8.0 x8 16.0 x8");
    }
    let (severity, what) = link_of(&server, "cuda:1").expect("it is slow as well");
    assert_eq!(severity, Severity::Problem, "a shared link does not save power: {what}");
    assert!(what.contains(place), "{what}");
    for end in [SWITCH, ROOT_PORT] {
        server.link(end, "16.0 x16 16.0 x16");
    }
    assert_eq!(link_of(&server, "cuda:0"), None);
    let shared = about(&server, "pcie-link-shared", "0000:81:00.0");
    assert_eq!(shared.len(), 1, "two GPUs of 16 lanes share 16");
    assert!(
        shared[0].1.contains("cuda:0, cuda:1 share the link") && shared[0].1.contains(place),
        "{shared:?}"
    );
    for end in [SWITCH, ROOT_PORT] {
        server.link(end, "32.0 x16 32.0 x16");
    }
    assert!(
        about(&server, "pcie-link-shared", "0000:81:00.0").is_empty(),
        "double speed is sufficient for two"
    );
}

#[test]
fn reports_a_narrow_switch_above_an_idle_device() {
    let mut server = server();
    for end in [GPU, GPU_PORT] {
        server.link(end, "2.5 x16 16.0 x16");
    }
    let (severity, what) = link_of(&server, "cuda:0").expect("the switch has eight lanes");
    assert_eq!(
        (severity, what.contains("from 0000:81:00.0 up to 0000:80:01.0")),
        (Severity::Warning, true),
        "{what}"
    );
}

#[test]
fn functions_of_a_card_count_once() {
    let mut server = Server::default();
    for port in [ROOT_PORT, SWITCH, GPU_PORT] {
        server.function(port, "0x060400", &[("numa_node", "0")]).link(port, "16.0 x16 16.0 x16");
    }
    for function in ["0000:83:00.0", "0000:83:00.1"] {
        let path = format!("{SWITCH}/0000:82:00.0/{function}");
        server.function(&path, "0x020000", &[("numa_node", "0")]).link(&path, "16.0 x16 16.0 x16");
    }
    assert_eq!(findings(&server, machine(&[(0, "0-3", 0)]), &Conditions::default()), []);
}

#[test]
fn finds_links_below_a_hidden_root_port() {
    let mut server = Server::default();
    let (upper, lower) = ("pci0000:80/0000:81:00.0", "pci0000:80/0000:81:00.0/0000:82:00.0");
    let drive = format!("{lower}/0000:83:00.0");
    server
        .function(upper, "0x060400", &[])
        .link(upper, "16.0 x16 16.0 x16")
        .function(lower, "0x060400", &[])
        .link(lower, "16.0 x4 16.0 x16")
        .function(&drive, "0x010802", &[])
        .link(&drive, "16.0 x4 16.0 x4");
    assert_eq!(findings(&server, machine(&[(0, "0-3", 0)]), &Conditions::default()), []);
}

#[test]
fn ignores_meaningless_links() {
    let mut server = server();
    for end in [NIC, NIC_PORT] {
        server.link(end, "16.0 x8 16.0 x16");
    }
    let guest = Conditions { virtual_machine: true, ..Conditions::default() };
    let all = findings(&server, two_sockets(), &guest);
    assert!(!all.iter().any(|finding| finding.rule.starts_with("pcie")), "{all:?}");

    let mut chipset = Server::default();
    let (port, nic) = ("pci0000:5d/0000:5d:02.0", "pci0000:5d/0000:5d:02.0/0000:60:00.0");
    chipset.function(port, "0x060400", &[]).link(port, "2.5 x1 2.5 x1");
    chipset.function(nic, "0x020000", &[]).link(nic, "2.5 x1 8.0 x1").driver(nic, "i40e");
    assert_eq!(findings(&chipset, machine(&[(0, "0-3", 0)]), &Conditions::default()), []);
    chipset.driver(nic, "igb");
    assert_eq!(findings(&chipset, machine(&[(0, "0-3", 0)]), &Conditions::default()).len(), 1);
}

#[test]
fn reports_a_link_with_one_known_end() {
    let mut server = Server::default();
    let nic = "pci0000:00/0000:00:04.0";
    server.function(nic, "0x020000", &[]).link(nic, "16.0 x8 16.0 x16");
    let all = findings(&server, machine(&[(0, "0-3", 0)]), &Conditions::default());
    let seen: Vec<(&str, Severity)> = all.iter().map(|it| (it.rule.as_str(), it.severity)).collect();
    assert_eq!(seen, [("pcie-link-degraded", Severity::Warning)]);
}

#[test]
fn reports_devices_with_unknown_node() {
    let mut server = server();
    server
        .function("pci0000:c0/0000:c0:02.0", "0x010802", &[("numa_node", "-1"), ("local_cpulist", "0-7")])
        .function("pci0000:c0/0000:c0:03.0", "0x010601", &[("numa_node", "-1")])
        .function("pci0000:c0/0000:c0:05.0", "0x010802", &[("numa_node", "7")]);
    assert!(about(&server, "device-node-unknown", "0000:c0:03.0").is_empty(), "a controller without disks");
    let unknown = about(&server, "device-node-unknown", "0000:c0:02.0");
    assert_eq!(unknown.len(), 1);
    assert_eq!(unknown[0].0, Severity::Warning);
    let absent = about(&server, "device-node-unknown", "0000:c0:05.0");
    assert!(absent.len() == 1 && absent[0].1.contains("does not have"), "{absent:?}");
    let one = findings(&server, machine(&[(0, "0-7", 0)]), &Conditions::default());
    assert!(!one.iter().any(|finding| finding.rule == "device-node-unknown"), "a single node: {one:?}");
}

#[test]
fn reports_devices_on_incomplete_nodes() {
    let mut topology = two_sockets();
    topology.nodes[1].cpus = CpuSet::new();
    let all = findings(&server(), topology, &Conditions::default());
    let about_nic = |all: &[Finding]| {
        let these = all.iter().filter(|it| it.rule == "device-node-without-cpus" && it.subject == "eth2");
        these.map(|it| (it.severity, it.message.clone())).collect::<Vec<_>>()
    };
    assert_eq!(about_nic(&all), [(Severity::Warning, "It is on node 1, which has no CPUs.".to_owned())]);
    let mut topology = two_sockets();
    topology.nodes[1].memory = None;
    let all = findings(&server(), topology, &Conditions::default());
    assert_eq!(about_nic(&all), [(Severity::Note, "It is on node 1, which has no memory.".to_owned())]);
    assert!(about(&server(), "device-node-without-cpus", "eth2").is_empty());
}

#[test]
fn reports_all_gpus_on_one_package() {
    let on_one = |server: &Server, topology| -> Vec<String> {
        let all = findings(server, topology, &Conditions::default());
        all.into_iter().filter(|it| it.rule == "devices-on-one-socket").map(|it| it.message).collect()
    };
    let mut server = server();
    let found = on_one(&server, two_sockets());
    assert!(found.len() == 1 && found[0].starts_with("All 2 GPUs are on package 1"), "{found:?}");
    let mut one_package = two_sockets();
    one_package.nodes.iter_mut().for_each(|node| node.packages = vec![PackageId(0)]);
    assert!(on_one(&server, one_package).is_empty());
    // A display of the management controller on the other package changes nothing; a third GPU
    // does.
    let display = [("numa_node", "0"), ("vendor", "0x1a03")];
    server.function("pci0000:00/0000:00:09.0", "0x030000", &display);
    assert_eq!(on_one(&server, two_sockets()), found);
    server.function("pci0000:00/0000:00:0a.0", "0x030200", &[("numa_node", "0"), ("vendor", "0x10de")]);
    assert!(on_one(&server, two_sockets()).is_empty());
}

#[test]
fn counts_foreign_interrupts() {
    let mut server = server();
    let foreign = |server: &Server| about(server, "irq-foreign-node", "eth2");
    assert!(foreign(&server).is_empty(), "CPUs 4 and 5 are of node 1");
    server.irq(NIC, 41, "2");
    let (severity, what) = foreign(&server).pop().expect("one goes to CPU 2");
    assert_eq!((severity, what.starts_with("Some of its interrupts")), (Severity::Note, true), "{what}");
    server.irq(NIC, 40, "0,3");
    let (severity, what) = foreign(&server).pop().expect("all do");
    assert_eq!((severity, what.starts_with("All its interrupts")), (Severity::Warning, true), "{what}");
    // Without effective affinity the permitted CPUs count, which are all CPUs.
    server.tree.remove("/proc/irq/40/effective_affinity_list").remove("/proc/irq/41/effective_affinity_list");
    assert!(foreign(&server).is_empty());
    let one = findings(&server, machine(&[(0, "0-7", 0)]), &Conditions::default());
    assert!(!one.iter().any(|finding| finding.rule == "irq-foreign-node"), "{one:?}");
}

#[test]
fn finds_queues_on_one_core_of_their_own_node() {
    let mut server = server();
    let crowded = |server: &Server| about(server, "irq-one-core", "eth2").len();
    let lines = (0..4).map(|queue| {
        format!(" {}: 1 IR-PCI-MSIX {queue}-edge  mlx5_comp{queue}@pci:0000:3b:00.0\n", 60 + queue)
    });
    server.tree.file("/proc/interrupts", format!("   CPU0\n{}", lines.collect::<String>()));
    for number in 60..64 {
        server.irq(NIC, number, "4");
    }
    assert_eq!(crowded(&server), 1);
    server.irq(NIC, 63, "5");
    assert_eq!(crowded(&server), 0, "two cores serve it");
}

#[test]
fn reports_settings_and_low_memory() {
    let rules = |topology: Topology, numa_balancing| -> Vec<String> {
        let conditions = Conditions { numa_balancing, ..Conditions::default() };
        find(&Tree::new(), &topology, &conditions).into_iter().map(|finding| finding.rule).collect()
    };
    let one = || machine(&[(0, "0-7", 0)]);
    assert_eq!(rules(two_sockets(), Some(1)), ["numa-balancing"]);
    assert!(rules(two_sockets(), Some(0)).is_empty() && rules(two_sockets(), None).is_empty());
    assert!(rules(one(), Some(1)).is_empty());
    let with = |free, reclaimable| {
        let mut topology = one();
        let memory = topology.nodes[0].memory.as_mut().expect("memory");
        (memory.free_bytes, memory.reclaimable_bytes) = (free, reclaimable);
        topology
    };
    assert_eq!(rules(with(1 << 30, 2 << 30), None), ["node-memory-low"], "3 of 64 GiB");
    assert!(rules(with(1 << 30, 3 << 30), None).is_empty(), "4 of 64 GiB");
}
