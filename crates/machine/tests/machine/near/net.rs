//! Resolution of network interfaces, hosts and routes.

use super::machine::{nodes, rules, shares, Machine};

fn two_cards() -> Machine {
    let mut machine = Machine::new();
    machine.nic("0000:3b:00.0", "eth0", 1);
    machine.nic("0000:17:00.0", "eth1", 0);
    machine.loopback();
    machine
}

fn bond(machine: &mut Machine, mode: &str, active: &str) {
    machine.virtual_interface("bond0");
    machine.net("bond0", "uevent", "DEVTYPE=bond");
    machine.net("bond0", "bonding/mode", mode);
    machine.net("bond0", "bonding/active_slave", active);
    machine.net("bond0", "bonding/slaves", "eth0 eth1");
    machine.enslave("bond0", "eth0");
    machine.enslave("bond0", "eth1");
}

#[test]
fn resolves_names_and_pci_addresses() {
    let machine = two_cards();
    assert_eq!(machine.line("eth0"), "eth0 -> 0000:3b:00.0 -> node 1");
    assert_eq!(machine.line("3b:00.0"), "0000:3b:00.0 -> node 1");
    let mut infiniband = two_cards();
    infiniband.net("eth0", "type", "32");
    assert_eq!(infiniband.line("eth0"), "eth0 -> 0000:3b:00.0 -> node 1");
    let resolved = machine.resolve("0000:17:00.0");
    assert_eq!((shares(&resolved), nodes(&resolved)), ("eth1 1".into(), "0 1".into()));
    assert!(resolved.findings.is_empty());
}

#[test]
fn bond_shares_follow_mode_and_active_port() {
    let mut machine = two_cards();
    bond(&mut machine, "802.3ad 4", "");
    machine.net("eth0", "speed", "25000");
    machine.net("eth1", "speed", "100000");
    let resolved = machine.resolve("bond0");
    assert_eq!(
        resolved.lines().join("; "),
        "bond0 -> eth0, eth1 -> 0000:3b:00.0, 0000:17:00.0 -> node 1, node 0"
    );
    assert_eq!(
        (shares(&resolved), rules(&resolved)),
        ("eth0 ?, eth1 ?".into(), vec!["near-shares-unknown".into()])
    );

    let mut machine = two_cards();
    bond(&mut machine, "active-backup 1", "eth1");
    let resolved = machine.resolve("bond0");
    assert_eq!((shares(&resolved), nodes(&resolved)), ("eth0 0, eth1 1".into(), "0 1".into()));
    assert_eq!(resolved.chain[1].value, "bond active-backup 1: standby");
    // Both links are down.
    machine.net("bond0", "bonding/active_slave", "");
    let resolved = machine.resolve("bond0");
    assert_eq!(shares(&resolved), "eth0 ?, eth1 ?");
    assert_eq!(rules(&resolved).first().map(String::as_str), Some("near-no-active-member"));
}

#[test]
fn bond_modes_share_evenly_only_in_turn() {
    for (mode, wanted) in [
        ("balance-rr 0", "eth0 0.5, eth1 0.5"),
        ("balance-xor 2", "eth0 ?, eth1 ?"),
        ("broadcast 3", "eth0 ?, eth1 ?"),
        ("802.3ad 4", "eth0 ?, eth1 ?"),
        ("balance-tlb 5", "eth0 ?, eth1 ?"),
        ("balance-alb 6", "eth0 ?, eth1 ?"),
    ] {
        let mut machine = two_cards();
        bond(&mut machine, mode, "");
        assert_eq!(shares(&machine.resolve("bond0")), wanted, "{mode}");
        for (file, content) in [
            ("operstate", "down"),
            ("flags", "0x1002"),
            ("carrier", "0"),
            ("bonding_slave/mii_status", "down"),
        ] {
            let mut machine = two_cards();
            bond(&mut machine, mode, "");
            machine.net("eth0", file, content);
            let resolved = machine.resolve("bond0");
            assert_eq!(
                (shares(&resolved), nodes(&resolved)),
                ("eth0 0, eth1 1".into(), "0 1".into()),
                "{mode} {file}"
            );
        }
    }
    // A port of another LACP partner is not used.
    let mut machine = two_cards();
    bond(&mut machine, "802.3ad 4", "");
    machine.net("bond0", "bonding/ad_aggregator", "1");
    machine.net("eth0", "bonding_slave/ad_aggregator_id", "2");
    machine.net("eth1", "bonding_slave/ad_aggregator_id", "1");
    let resolved = machine.resolve("bond0");
    assert_eq!(shares(&resolved), "eth0 0, eth1 1");
    assert_eq!(resolved.chain[1].value, "bond 802.3ad 4: in another aggregator");
}

#[test]
fn virtual_functions_carry_the_data_of_a_failover() {
    // A paravirtual interface of Hyper-V with a virtual function.
    let mut machine = two_cards();
    let bus = "/sys/devices/LNXSYSTM:00/VMBUS:00/0022";
    machine.tree.file(&format!("{bus}/numa_node"), "-1\n");
    let net = format!("{bus}/net/syn0");
    machine.tree.file(&format!("{net}/ifindex"), "20\n").link("/sys/class/net/syn0", &net);
    machine.tree.link(&format!("{net}/device"), bus);
    machine.enslave("syn0", "eth0");
    assert_eq!(machine.line("syn0"), "syn0 -> eth0 -> 0000:3b:00.0 -> node 1");
    machine.net("eth0", "operstate", "down");
    let resolved = machine.resolve("syn0");
    assert_eq!((shares(&resolved), nodes(&resolved)), ("eth0 0, syn0 1".into(), String::new()));

    // virtio: the failover interface and its standby have the same device.
    let mut machine = two_cards();
    let function = machine.pci("0000:18:00.0", "0x020000", 0);
    for name in ["fail0", "standby0"] {
        let path = format!("{function}/virtio0/net/{name}");
        machine.tree.file(&format!("{path}/type"), "1\n").link(&format!("/sys/class/net/{name}"), &path);
        machine.tree.link(&format!("{path}/device"), &format!("{function}/virtio0"));
    }
    machine.tree.file(&format!("{function}/virtio0/features"), "1\n");
    machine.enslave("fail0", "standby0");
    machine.enslave("fail0", "eth0");
    let resolved = machine.resolve("fail0");
    assert_eq!(nodes(&resolved), "1 1", "{resolved:#?}");
    assert!(resolved.chain.iter().any(|step| step.value == "failover: standby"), "{resolved:#?}");
    machine.net("eth0", "carrier", "0");
    assert_eq!(nodes(&machine.resolve("fail0")), "0 1");
}

#[test]
fn ports_of_a_switch_use_the_interface_below_them() {
    let mut machine = two_cards();
    let port = "/sys/devices/platform/soc/mdio/lan0";
    machine.tree.file(&format!("{port}/net/lan0/uevent"), "DEVTYPE=dsa\n");
    machine.tree.link("/sys/class/net/lan0", &format!("{port}/net/lan0"));
    machine.tree.link(&format!("{port}/net/lan0/device"), port);
    machine.upon("lan0", "eth0");
    assert_eq!(machine.line("lan0"), "lan0 -> eth0 -> 0000:3b:00.0 -> node 1");
}

#[test]
fn teams_and_bridges_have_no_shares_and_skip_blocked_ports() {
    let mut machine = two_cards();
    machine.virtual_interface("team0");
    machine.enslave("team0", "eth0");
    machine.enslave("team0", "eth1");
    assert_eq!(shares(&machine.resolve("team0")), "eth0 ?, eth1 ?");
    machine.net("eth0", "operstate", "down");
    assert_eq!(shares(&machine.resolve("team0")), "eth0 0, eth1 1");

    for (state, wanted) in [("3", "eth0 ?, eth1 ?"), ("4", "eth0 0, eth1 1"), ("0", "eth0 0, eth1 1")] {
        let mut machine = two_cards();
        machine.bridge("br0", &["eth0", "eth1"]);
        machine.net("eth0", "brport/state", state);
        machine.net("eth1", "brport/state", "3");
        assert_eq!(shares(&machine.resolve("br0")), wanted, "{state}");
    }
}

#[test]
fn tunnels_use_the_interface_to_which_they_are_bound() {
    for (name, kind, hardware) in [
        ("vxlan5", "vxlan", "1"),
        ("gre1", "", "778"),
        ("ipip1", "", "768"),
        ("sit1", "", "776"),
        ("ip6gre1", "", "823"),
    ] {
        let mut machine = two_cards();
        machine.virtual_interface(name);
        machine.net(name, "uevent", &format!("DEVTYPE={kind}"));
        machine.net(name, "type", hardware);
        machine.net(name, "iflink", "2");
        assert_eq!(machine.line(name), format!("{name} -> eth0 -> 0000:3b:00.0 -> node 1"));
    }
    for kind in ["wireguard", "geneve", "vxlan"] {
        let mut machine = two_cards();
        machine.virtual_interface("tunnel0");
        machine.net("tunnel0", "uevent", &format!("DEVTYPE={kind}"));
        assert_eq!(machine.dead_end("tunnel0"), ["near-software"]);
        assert!(machine.resolve("tunnel0").findings[0].message.contains(&format!("({kind})")), "{kind}");
    }
}

#[test]
fn resolves_vlan_and_macvlan_on_a_bond() {
    let mut machine = two_cards();
    bond(&mut machine, "balance-rr 0", "");
    for (upper, lower, kind) in [("bond0.5", "bond0", "vlan"), ("mv0", "bond0.5", "macvlan")] {
        machine.virtual_interface(upper);
        machine.net(upper, "uevent", &format!("DEVTYPE={kind}"));
        machine.upon(upper, lower);
    }
    assert!(machine.line("mv0").starts_with("mv0 -> bond0.5 -> bond0 -> eth0, eth1 -> "));
    assert_eq!(nodes(&machine.resolve("mv0")), "0 0.5, 1 0.5");
}

#[test]
fn resolves_vlans_of_old_kernels() {
    let mut machine = two_cards();
    machine.virtual_interface("eth0.5");
    machine.net("eth0.5", "iflink", "2");
    machine.tree.file("/proc/net/vlan/eth0.5", "eth0.5  VID: 5\nDevice: eth0\n");
    assert_eq!(machine.line("eth0.5"), "eth0.5 -> eth0 -> 0000:3b:00.0 -> node 1");
}

#[test]
fn resolves_container_interfaces_through_bridges() {
    let mut machine = two_cards();
    machine.pair("in0", "veth1");
    machine.pair("in1", "veth2");
    machine.virtual_interface("tap0");
    machine.net("tap0", "tun_flags", "0x1002");
    machine.bridge("br0", &["eth0", "veth1", "veth2", "tap0"]);
    assert_eq!(machine.line("br0"), "br0 -> eth0 -> 0000:3b:00.0 -> node 1");
    assert_eq!(machine.line("in0"), "in0 -> veth1 -> br0 -> eth0 -> 0000:3b:00.0 -> node 1");
    assert_eq!(machine.line("veth2"), "veth2 -> br0 -> eth0 -> 0000:3b:00.0 -> node 1");
    assert_eq!(machine.line("tap0"), "tap0 -> br0 -> eth0 -> 0000:3b:00.0 -> node 1");
}

#[test]
fn resolves_open_vswitch() {
    let mut machine = two_cards();
    machine.pair("in0", "veth1");
    machine.virtual_interface("ovs-system");
    machine.enslave("ovs-system", "eth1");
    machine.enslave("ovs-system", "veth1");
    assert_eq!(machine.line("veth1"), "veth1 -> ovs-system -> eth1 -> 0000:17:00.0 -> node 0");
}

#[test]
fn resolves_virtual_functions() {
    let mut machine = two_cards();
    let function = machine.pci("0000:3b:00.2", "0x020000", 1);
    machine.tree.link(&format!("{function}/physfn"), "../0000:3b:00.0");
    let net = format!("{function}/net/eth0v0");
    machine.tree.file(&format!("{net}/ifindex"), "9\n").link("/sys/class/net/eth0v0", &net);
    machine.tree.link(&format!("{net}/device"), &function);
    let resolved = machine.resolve("eth0v0");
    assert_eq!(resolved.lines().join("; "), "eth0v0 -> 0000:3b:00.2 -> node 1");
    assert!(resolved.chain[1].value.contains("virtual function of 0000:3b:00.0"), "{:?}", resolved.chain[1]);
}

#[test]
fn resolves_rdma_devices() {
    let mut machine = two_cards();
    bond(&mut machine, "802.3ad 4", "");
    let rdma = |machine: &mut Machine, name: &str, path: &str, interface: &str| {
        machine.tree.file(&format!("{path}/ports/1/gid_attrs/ndevs/0"), format!("{interface}\n"));
        machine.tree.link(&format!("/sys/class/infiniband/{name}"), path);
    };
    rdma(&mut machine, "mlx5_0", "/sys/devices/pci0000:00/0000:3b:00.0/infiniband/mlx5_0", "eth0");
    rdma(&mut machine, "mlx5_bond_0", "/sys/devices/pci0000:00/0000:17:00.0/infiniband/mlx5_bond_0", "bond0");
    rdma(&mut machine, "rxe0", "/sys/devices/virtual/infiniband/rxe0", "eth1");
    assert_eq!(machine.line("mlx5_0"), "mlx5_0 -> 0000:3b:00.0 -> node 1");
    // A bond does not change the PCI function of its RDMA device.
    assert_eq!(machine.line("mlx5_bond_0"), "mlx5_bond_0 -> 0000:17:00.0 -> node 0");
    assert_eq!(machine.line("rxe0"), "rxe0 -> eth1 -> 0000:17:00.0 -> node 0");
}

#[test]
fn reports_interfaces_without_device() {
    let mut machine = two_cards();
    machine.virtual_interface("dummy0");
    machine.virtual_interface("c0");
    machine.net("c0", "iflink", "70");
    // The index of the other end coincides with that of a local card.
    machine.virtual_interface("c1");
    machine.net("c1", "iflink", "2");
    machine.pair("a", "b");
    machine.bridge("inside", &["c0"]);
    assert_eq!(machine.dead_end("lo"), ["near-loopback"]);
    assert_eq!(machine.dead_end("dummy0"), ["near-software"]);
    assert_eq!(machine.dead_end("c1"), ["near-other-namespace"]);
    assert_eq!(machine.dead_end("a"), ["near-routed"]);
    assert_eq!(machine.dead_end("inside"), ["near-bridge-inside"]);
    assert_eq!(machine.dead_end("c0"), ["near-bridge-inside"]);
}

#[test]
fn suggests_similar_names() {
    let machine = two_cards();
    let resolved = machine.resolve("eth2");
    assert!(resolved.is_unknown());
    assert_eq!(resolved.findings[0].remedy, "Known devices: eth0, eth1.");
    // No name is similar: suggest all, in the order of the topology.
    let unlike = machine.resolve("wholly-else");
    assert_eq!(unlike.findings[0].remedy, "Known devices: eth1, eth0.");
    let mut many = Machine::new();
    many.loopback();
    for card in 0..10 {
        many.nic(&format!("0000:1{card}:00.0"), &format!("net{card}"), 0);
    }
    let first = "Known devices: net0, net1, net2, net3, net4, net5, net6, net7";
    let remedy = format!("{first}, and 2 others listed by numaio topology.");
    assert_eq!(many.resolve("wholly-else").findings[0].remedy, remedy);
    for handle in ["0000:99:00.0", "nvme7n1", "cuda:0", "GPU-12", "/dev/sdq"] {
        let mut machine = two_cards();
        machine.absent("/dev/sdq");
        assert!(machine.resolve(handle).is_unknown(), "{handle}");
    }
}

#[test]
fn resolves_devices_with_unknown_node() {
    let mut machine = Machine::new();
    machine.nic("0000:3b:00.0", "eth0", -1);
    let resolved = machine.resolve("eth0");
    assert_eq!((shares(&resolved), nodes(&resolved)), ("eth0 1".into(), String::new()));
    assert_eq!(rules(&resolved), ["near-node-unknown"]);
}

#[test]
fn resolves_hosts_by_name_address_and_zone() {
    let mut machine = two_cards();
    machine.host("store1", &["fd00::9", "10.0.0.9"]);
    machine.no_route("fd00::9");
    machine.route("10.0.0.9", &[("eth1", 1)]);
    assert_eq!(machine.line("host:store1:2049"), "store1 -> 10.0.0.9 -> eth1 -> 0000:17:00.0 -> node 0");
    assert_eq!(machine.line("host:10.0.0.9"), "10.0.0.9 -> eth1 -> 0000:17:00.0 -> node 0");
    assert_eq!(machine.line("host:[fe80::1%eth0]:80"), "fe80::1%eth0 -> eth0 -> 0000:3b:00.0 -> node 1");
    machine.route("10.0.1.9", &[("eth0", 1), ("eth1", 3)]);
    assert_eq!(nodes(&machine.resolve("host:10.0.1.9")), "0 ?, 1 ?");
}

#[test]
fn reports_unresolvable_hosts() {
    let mut machine = two_cards();
    machine.route("127.0.0.1", &[("lo", 1)]);
    machine.no_route("10.9.9.9");
    assert_eq!(machine.dead_end("host:127.0.0.1"), ["near-loopback"]);
    assert_eq!(machine.dead_end("host:10.9.9.9"), ["near-no-route"]);
    assert_eq!(machine.dead_end("host:unheard-of"), ["near-not-on-tape"]);
}
