//! Symptoms with their evidence, effects and fixes.

use crate::support::server::{server, two_sockets, Server, NIC};
use numaio_machine::checkup::{check, remote_programs, split_stack, stacks, Effect, Program, Symptom};
use numaio_machine::conditions::{self, Conditions};
use numaio_machine::devices::{self, DeviceKind};
use numaio_machine::findings::{find, Severity};
use numaio_machine::ids::NodeId;
use numaio_machine::near::{NearDevice, Resolved};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::{HugePages, Topology};
use numaio_machine::workload::Direction;

const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq/policy0";

/// Returns all symptoms of a machine.
fn all(server: &Server, mut topology: Topology, conditions: &Conditions) -> Vec<Symptom> {
    topology.devices = devices::read(&server.tree, &topology.cpus_by_node());
    topology.findings.extend(find(&server.tree, &topology, conditions));
    check(&server.tree, &topology, conditions)
}

fn read(server: &Server) -> Vec<Symptom> {
    all(server, two_sockets(), &conditions::read(&server.tree))
}

/// Returns the only symptom of a rule.
fn only(symptoms: Vec<Symptom>, rule: &str) -> Symptom {
    let rules: Vec<String> = symptoms.iter().map(|it| it.finding.rule.clone()).collect();
    let mut of_rule = symptoms.into_iter().filter(|it| it.finding.rule == rule);
    let one = of_rule.next().unwrap_or_else(|| panic!("no {rule} in {rules:?}"));
    assert!(of_rule.next().is_none(), "more than one {rule}");
    one
}

fn nodes(list: &str) -> NodeSet {
    NodeSet::parse_list(list).expect("a list")
}

/// Checks that a rule depends on a file; returns the symptom.
fn file_shows(rule: &str, path: &str, content: &str) -> Symptom {
    let mut server = server();
    assert!(read(&server).iter().all(|it| it.finding.rule != rule), "{rule} without {path}");
    server.tree.file(path, format!("{content}\n"));
    let symptom = only(read(&server), rule);
    assert!(symptom.finding.evidence.contains(path), "{}", symptom.finding.evidence);
    symptom
}

#[test]
fn kernel_settings_have_fix_and_undo_commands() {
    let reclaim = file_shows("zone-reclaim", "/proc/sys/vm/zone_reclaim_mode", "1");
    assert_eq!(reclaim.fix.commands, ["sysctl -w vm.zone_reclaim_mode=0"]);
    assert_eq!(reclaim.fix.undo, ["sysctl -w vm.zone_reclaim_mode=1"]);
    assert!(reclaim.finding.evidence.ends_with(": 1"));
    let balancing = file_shows("numa-balancing", "/proc/sys/kernel/numa_balancing", "1");
    assert_eq!(balancing.fix.undo, ["sysctl -w kernel.numa_balancing=1"]);
    let both = file_shows("numa-balancing", "/proc/sys/kernel/numa_balancing", "3");
    assert_eq!(both.fix.commands, ["sysctl -w kernel.numa_balancing=2"], "memory tiering stays");
    let tiering = file_shows("memory-tiering", "/proc/sys/kernel/numa_balancing", "2");
    assert!(tiering.fix.commands.is_empty(), "{tiering:?}");
    let huge = "/sys/kernel/mm/transparent_hugepage/enabled";
    let never = file_shows("huge-pages-off", huge, "always madvise [never]");
    assert_eq!(never.fix.commands, [format!("echo madvise > {huge}")]);
    let pressure = file_shows(
        "memory-pressure",
        "/proc/pressure/memory",
        "some avg10=1.00 avg60=7.25 avg300=0.10 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    );
    assert!(pressure.finding.message.contains("7.25 %"), "{}", pressure.finding.message);
}

#[test]
fn reports_no_symptoms_of_a_healthy_machine() {
    let mut server = server();
    let before = read(&server).len();
    for (path, content) in [
        ("/proc/sys/vm/zone_reclaim_mode", "0"),
        ("/proc/pressure/memory", "some avg10=9.00 avg60=1.00 avg300=0.00 total=0"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
        (&format!("{CPUFREQ}/scaling_governor"), "performance"),
        (&format!("{CPUFREQ}/scaling_max_freq"), "3000000"),
        (&format!("{CPUFREQ}/cpuinfo_max_freq"), "3000000"),
        ("/sys/devices/system/node/node0/numastat", "numa_hit 1000000\nnuma_foreign 5000"),
        ("/sys/kernel/mm/numa/demotion_enabled", "true"),
    ] {
        server.tree.file(path, content);
    }
    assert_eq!(read(&server).len(), before);
}

#[test]
fn ignores_broken_files() {
    let mut server = server();
    let before = read(&server).len();
    for path in [
        "/proc/sys/vm/zone_reclaim_mode",
        "/proc/pressure/memory",
        &format!("{CPUFREQ}/scaling_max_freq"),
        &format!("{CPUFREQ}/cpuinfo_max_freq"),
        "/sys/devices/system/node/node0/numastat",
        "/sys/devices/system/cpu/cpufreq/boost",
        "/proc/5/io",
    ] {
        for content in
            ["", "-1", "numa_hit x\nnuma_foreign 99999999999999999999", "some avg60=", "\u{0}\u{ff}"]
        {
            server.tree.file(path, content);
            assert_eq!(read(&server).len(), before, "{path}: {content:?}");
        }
    }
}

#[test]
fn reports_governor_frequency_limit_and_turbo() {
    let governor = file_shows("cpu-governor", &format!("{CPUFREQ}/scaling_governor"), "schedutil");
    assert_eq!(governor.fix.undo, ["cpupower frequency-set -g schedutil"]);
    assert_eq!(governor.finding.severity, Severity::Note);
    let mut server = server();
    server.tree.file(&format!("{CPUFREQ}/scaling_governor"), "powersave");
    for (driver, severity) in [("acpi-cpufreq", Severity::Warning), ("intel_pstate", Severity::Note)] {
        server.tree.file(&format!("{CPUFREQ}/scaling_driver"), driver);
        assert_eq!(only(read(&server), "cpu-governor").finding.severity, severity, "{driver}");
    }
    server.tree.file(&format!("{CPUFREQ}/scaling_max_freq"), "1200000");
    server.tree.file(&format!("{CPUFREQ}/cpuinfo_max_freq"), "3100000");
    let capped = only(read(&server), "cpu-frequency-capped");
    assert_eq!(capped.fix.commands, ["cpupower frequency-set -u 3100000"]);
    assert_eq!(capped.fix.undo, ["cpupower frequency-set -u 1200000"]);
    let turbo = file_shows("turbo-off", "/sys/devices/system/cpu/cpufreq/boost", "0");
    assert_eq!(turbo.fix.commands, ["echo 1 > /sys/devices/system/cpu/cpufreq/boost"]);
}

#[test]
fn reports_spilling_nodes() {
    let file = "/sys/devices/system/node/node1/numastat";
    let spills = file_shows("node-spills", file, "numa_hit 900000\nnuma_miss 3\nnuma_foreign 100000");
    assert!(spills.finding.evidence.ends_with("numa_foreign 100000: 10 %"), "{}", spills.finding.evidence);
    let effect = Effect::AnyOf { nodes: nodes("0"), direction: None, share: 0.1 };
    assert_eq!((spills.target, spills.effect), (Some(NodeId(1)), effect));
}

#[test]
fn reports_memory_only_nodes_and_uneven_memory() {
    let server = server();
    let mut topology = two_sockets();
    topology.nodes.push(crate::support::machine(&[(2, "", 1)]).nodes.remove(0));
    let found = only(all(&server, topology.clone(), &Conditions::default()), "memory-only-node");
    assert_eq!(found.effect, Effect::any_of(nodes("2")));
    let mut demoting = crate::support::server::server();
    demoting.tree.file("/sys/kernel/mm/numa/demotion_enabled", "true\n");
    let demotion = only(all(&demoting, topology, &Conditions::default()), "memory-demotion");
    assert_eq!(demotion.fix.commands, ["echo false > /sys/kernel/mm/numa/demotion_enabled"]);
    let mut topology = two_sockets();
    topology.nodes[1].memory.as_mut().expect("memory").total_bytes = 16 << 30;
    let uneven = only(all(&server, topology, &Conditions::default()), "memory-uneven");
    assert_eq!(uneven.finding.subject, "node 1");
}

#[test]
fn reports_nodes_short_of_huge_pages() {
    let server = server();
    let pool = |total, free| HugePages { page_bytes: 2 << 20, total, free };
    let found = |pools: [HugePages; 2]| {
        let mut topology = two_sockets();
        topology.nodes.iter_mut().zip(pools).for_each(|(node, pool)| node.huge_pages = vec![pool]);
        let all = all(&server, topology, &Conditions::default());
        all.into_iter().filter(|it| it.finding.rule == "huge-pages-short").collect::<Vec<Symptom>>()
    };
    assert!(found([pool(0, 0), pool(0, 0)]).is_empty(), "no node has a pool");
    assert!(found([pool(64, 1), pool(64, 64)]).is_empty());
    let missing = found([pool(64, 64), pool(0, 0)]);
    let file = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages";
    assert_eq!(missing[0].fix.commands, [format!("echo 64 > {file}")]);
    assert_eq!(missing[0].fix.undo, [format!("echo 0 > {file}")]);
    assert_eq!(found([pool(64, 0), pool(64, 9)])[0].finding.subject, "node 0");
    let too_many = found([pool(1 << 40, 1), pool(0, 0)]);
    assert!(too_many[0].fix.commands.is_empty(), "the pages do not fit: {:?}", too_many[0].fix);
}

#[test]
fn fixes_foreign_interrupts_with_numaio() {
    let mut server = server();
    server.irq(NIC, 40, "0").irq(NIC, 41, "1");
    let symptom = only(read(&server), "irq-foreign-node");
    assert_eq!(
        symptom.effect,
        Effect::AnyOf { nodes: nodes("0"), direction: Some(Direction::Read), share: 1.0 }
    );
    assert_eq!((symptom.target, symptom.finding.severity), (Some(NodeId(1)), Severity::Warning));
    let name = symptom.finding.subject.clone();
    assert_eq!(symptom.fix.commands, [format!("numaio irq apply {name}")]);
    assert_eq!(symptom.fix.undo, [format!("numaio irq undo {name}")]);
    // irqbalance would move them again; numaio irq apply rejects changes while it is running.
    server.tree.dir("/sys/fs/cgroup/system.slice/irqbalance.service");
    let symptom = only(read(&server), "irq-foreign-node");
    assert_eq!(symptom.fix.commands[0], "systemctl stop irqbalance");
    assert_eq!(symptom.fix.undo[1], "systemctl start irqbalance");
    let runs = only(read(&server), "irqbalance-runs");
    assert!(runs.finding.evidence.contains("irqbalance.service"), "{}", runs.finding.evidence);
}

/// Creates the server with a named interface and interrupts on another node.
fn with_interface(name: &str) -> Server {
    let mut server = server();
    for name in ["eth2", "eth10"] {
        server.tree.remove(&format!("/sys/class/net/{name}"));
        server.tree.remove(&format!("/sys/devices/{NIC}/net/{name}"));
    }
    server.class("net", &format!("{NIC}/net/{name}"), &[("speed", "100000")]);
    server.irq(NIC, 40, "0").irq(NIC, 41, "1");
    server
}

#[test]
fn quotes_names_in_commands() {
    let mut server = with_interface("e$(reboot)'");
    server.tree.dir(&format!("/sys/devices/{NIC}/net/e$(reboot)'/queues/rx-0"));
    let found = read(&server);
    let commands = |rule: &str| only(found.clone(), rule).fix;
    let of_irqs = commands("irq-foreign-node");
    assert_eq!(of_irqs.commands, [r"numaio irq apply 'e$(reboot)'\'''"]);
    assert_eq!(of_irqs.undo, [r"numaio irq undo 'e$(reboot)'\'''"]);
    assert_eq!(commands("queues-few").commands, [r"ethtool -L 'e$(reboot)'\''' combined 4"]);
}

#[test]
fn names_with_dashes_are_not_options() {
    let server = with_interface("--rfs");
    let fix = only(read(&server), "irq-foreign-node").fix;
    assert_eq!(fix.commands, ["numaio irq apply -- --rfs"]);
    assert_eq!(fix.undo, ["numaio irq undo -- --rfs"]);
    let part = |name: &str, node: &str| NearDevice {
        index: 0,
        step: 0,
        name: name.into(),
        kind: DeviceKind::Network,
        pci: None,
        share: Some(0.5),
        nodes: nodes(node),
    };
    let bond = Resolved {
        handle: "-b".into(),
        chain: Vec::new(),
        devices: vec![part("eth0", "0"), part("eth1", "1")],
        nodes: Vec::new(),
        findings: Vec::new(),
    };
    let symptom = split_stack(&two_sockets(), &bond).expect("it spans");
    assert!(symptom.finding.remedy.contains("numaio place --near=-b --tasks"), "{symptom:?}");
}

#[test]
fn managed_interrupts_have_no_fix() {
    let mut server = server();
    server.irq(NIC, 40, "0").irq(NIC, 41, "1");
    for irq in [40, 41] {
        server.tree.file(&format!("/sys/kernel/debug/irq/irqs/{irq}"), "IRQD_AFFINITY_MANAGED\n");
    }
    assert!(only(read(&server), "irq-foreign-node").fix.commands.is_empty());
}

#[test]
fn reports_few_queues_and_foreign_rps() {
    let queue = format!("/sys/devices/{NIC}/net/eth2/queues/rx-0/rps_cpus");
    let mut server = server();
    server.tree.file(&queue, "00\n");
    let few = only(read(&server), "queues-few");
    assert_eq!((few.finding.subject.as_str(), few.finding.severity), ("eth2", Severity::Warning));
    assert!(few.finding.message.contains("1 receive queue for 4 cores"), "{}", few.finding.message);
    assert_eq!(few.fix.commands, ["numaio irq apply eth2"]);
    // A queue for each core.
    for number in 1..4 {
        server.tree.file(&queue.replace("rx-0", &format!("rx-{number}")), "00\n");
    }
    assert!(read(&server).iter().all(|it| it.finding.rule != "queues-few"));
    for number in 1..4 {
        server.tree.remove(&format!("/sys/devices/{NIC}/net/eth2/queues/rx-{number}"));
    }
    // CPUs 4 to 7 are on its node.
    server.tree.file(&queue, "f0\n");
    let rules: Vec<String> = read(&server).into_iter().map(|it| it.finding.rule).collect();
    assert!(!rules.iter().any(|rule| rule == "queues-few" || rule == "rps-foreign-node"), "{rules:?}");
    server.tree.file(&queue, "31\n");
    let far = only(read(&server), "rps-foreign-node");
    assert!(far.finding.message.contains("such as 0"), "{}", far.finding.message);
    assert!(far.finding.evidence.contains("CPUs 0,4-5"), "{}", far.finding.evidence);
}

#[test]
fn reports_strict_and_lazy_iommu() {
    let mut server = server();
    server.tree.link(&format!("/sys/devices/{NIC}/iommu_group"), "/sys/kernel/iommu_groups/12");
    let file = "/sys/kernel/iommu_groups/12/type";
    for (kind, rule, severity) in
        [("DMA", "iommu-strict", Severity::Warning), ("DMA-FQ", "iommu-translates", Severity::Note)]
    {
        server.tree.file(file, format!("{kind}\n"));
        let found = only(read(&server), rule);
        assert_eq!((found.finding.severity, found.finding.evidence), (severity, format!("{file}: {kind}")));
    }
    server.tree.file(file, "identity\n");
    assert!(read(&server).iter().all(|it| !it.finding.rule.starts_with("iommu")));
}

#[test]
fn link_loss_is_the_lost_share() {
    let mut server = server();
    server.link(NIC, "16.0 x8 16.0 x16").link("pci0000:3a/0000:3a:00.0", "16.0 x8 16.0 x16");
    let found = read(&server).into_iter().find(|it| it.finding.subject == "eth2");
    assert_eq!(found.expect("a degraded link").effect, Effect::LinkLoss(0.5));
    // The slot is slower than the card.
    server.link(NIC, "8.0 x8 16.0 x16").link("pci0000:3a/0000:3a:00.0", "8.0 x8 8.0 x8");
    let found = read(&server).into_iter().find(|it| it.finding.subject == "eth2");
    assert_eq!(found.expect("a narrow slot").effect, Effect::LinkLoss(0.75));
}

#[test]
fn reports_device_nodes_outside_the_cpuset() {
    let server = server();
    let mut topology = two_sockets();
    topology.nodes[1].memory_allowed = false;
    topology.confinement.sources = vec!["cgroup v2 /system.slice/x.service (cpuset.mems.effective)".into()];
    topology.confinement.cgroup = Some("/system.slice/x.service".into());
    let closed = only(all(&server, topology.clone(), &Conditions::default()), "device-node-closed");
    assert_eq!((closed.target, closed.effect), (Some(NodeId(1)), Effect::any_of(nodes("0"))));
    assert!(closed.fix.commands[0].contains("systemctl set-property --runtime x.service AllowedCPUs="));
    topology.confinement.cgroup = Some("/a/$(reboot).service".into());
    let hostile = only(all(&server, topology, &Conditions::default()), "device-node-closed");
    assert!(hostile.fix.commands.is_empty(), "{:?}", hostile.fix);
}

#[test]
fn lists_stacked_devices_by_name() {
    let mut tree = server().tree;
    for name in ["md0", "dm-3", "mdx", "sda", "dm-"] {
        tree.dir(&format!("/sys/block/{name}"));
    }
    tree.dir("/sys/class/net/bond0/bonding").dir("/sys/class/net/eth7");
    let names: Vec<String> = stacks(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(names, ["bond0", "dm-3", "md0"]);
}

#[test]
fn omits_the_node_count_without_cpus() {
    let mut server = server();
    server.tree.file("/sys/devices/pci0000:00/0000:00:17.0/numa_node", "-1\n");
    let explanation = |topology: Topology| match only(
        all(&server, topology, &Conditions::default()),
        "device-node-unknown",
    ) {
        Symptom { effect: Effect::Unquantified(text), .. } => text,
        other => panic!("{other:?}"),
    };
    let mut without = two_sockets();
    without.nodes.iter_mut().for_each(|node| node.cpus = CpuSet::new());
    assert!(explanation(two_sockets()).contains("from each of the 2 nodes "));
    assert!(explanation(without).contains("from each node "));
}

/// Second controller of the drive, on another node.
const SECOND: &str = "pci0000:80/0000:80:03.0/0000:90:00.0";

#[test]
fn distinguishes_devices_with_the_same_name() {
    let mut server = server();
    server
        .function(SECOND, "0x010802", &[("numa_node", "1")])
        .link(SECOND, "8.0 x4 16.0 x4")
        .class("nvme", &format!("{SECOND}/nvme/nvme4"), &[])
        .class("block", &format!("{SECOND}/nvme/nvme4/nvme0c4n1"), &[])
        .irq(SECOND, 50, "0")
        .irq(SECOND, 51, "1")
        .irq(SECOND, 52, "1");
    server.tree.file(
        "/proc/interrupts",
        " CPU0  CPU1\n 50:  9  9  PCI-MSI 1-edge  nvme4q1\n 51:  9  9  PCI-MSI 2-edge  nvme4q2\n 52:  9  9  PCI-MSI 0-edge  nvme4q0\n",
    );
    let mut topology = two_sockets();
    topology.devices = devices::read(&server.tree, &topology.cpus_by_node());
    let second = topology.devices.iter().position(|it| it.has_name("0000:90:00.0")).expect("it is there");
    let first = topology.devices.iter().position(|it| it.has_name("10000:01:00.0")).expect("it is there");
    assert_eq!(topology.devices[first].name(), topology.devices[second].name());
    let found = read(&server);
    let of = |rule: &str| found.iter().filter(|it| it.finding.rule == rule).collect::<Vec<_>>();
    for rule in ["irq-foreign-node", "pcie-link-degraded"] {
        let symptom = of(rule).into_iter().find(|it| it.finding.subject == "0000:90:00.0").expect(rule);
        assert_eq!((symptom.device, symptom.target), (Some(second), Some(NodeId(1))), "{rule}");
    }
    let fixes: Vec<_> =
        of("irq-foreign-node").into_iter().map(|it| (&it.fix.commands, &it.fix.undo)).collect();
    let [apply, undo] = ["apply", "undo"].map(|what| vec![format!("numaio irq {what} 0000:90:00.0")]);
    assert!(fixes.contains(&(&apply, &undo)), "{fixes:?}");
    assert!(matches!(of("pcie-link-degraded")[0].effect, Effect::LinkLoss(_)), "it has its own link");
}

#[test]
fn reports_raids_that_span_sockets() {
    let part = |name: &str, node: &str, share: f64| NearDevice {
        index: 0,
        step: 0,
        name: name.into(),
        kind: DeviceKind::Nvme,
        pci: None,
        share: Some(share),
        nodes: nodes(node),
    };
    let what_of = |devices: Vec<NearDevice>| {
        let raid = Resolved {
            handle: "md0".into(),
            chain: Vec::new(),
            devices,
            nodes: Vec::new(),
            findings: Vec::new(),
        };
        split_stack(&two_sockets(), &raid).map(|symptom| symptom.finding.message)
    };
    let two = what_of(vec![part("nvme0n1", "0", 0.5), part("nvme1n1", "1", 0.5)]);
    assert_eq!(two.expect("it spans"), "Its members are on 2 sockets: nvme0n1 on node 0, nvme1n1 on node 1.");
    assert_eq!(what_of(vec![part("nvme0n1", "0", 0.5), part("nvme2n1", "0", 0.5)]), None);
    assert_eq!(what_of(vec![part("nvme0n1", "0", 1.0), part("standby", "1", 0.0)]), None);
    assert_eq!(
        what_of(vec![part("nvme0n1", "0", 0.5), part("far", "", 0.5)]),
        None,
        "the node of a member is unknown"
    );
}

fn program(pid: u32, bytes_per_s: Option<f64>) -> Program {
    Program {
        pid,
        name: "fio".into(),
        bytes_per_s,
        device: ("sda".into(), 0),
        node: NodeId(0),
        near: nodes("0"),
        threads_on: [(NodeId(1), 2)].into_iter().collect(),
        bytes_on: Some([(NodeId(0), 1 << 20), (NodeId(1), 3 << 20)].into_iter().collect()),
        allowed: CpuSet::parse_list("0-7").expect("a list"),
    }
}

#[test]
fn reports_busy_remote_programs_and_counts_others() {
    let topology = two_sockets();
    let found =
        remote_programs(&topology, &[program(7, Some(35e6)), program(8, Some(1e3)), program(9, None)]);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].finding.severity, Severity::Warning);
    assert_eq!(found[0].fix.commands, ["taskset -a -p -c 0-3 7", "migratepages 7 1 0"]);
    assert_eq!(found[0].fix.undo, ["taskset -a -p -c 0-7 7", "migratepages 7 0 1"]);
    let shares = [(NodeId(0), 0.25), (NodeId(1), 0.75)].into_iter().collect();
    assert_eq!(found[0].effect, Effect::Shares(shares));
    assert!(found[1].finding.message.starts_with("2 programs"), "{}", found[1].finding.message);
    assert!(remote_programs(&topology, &[]).is_empty());
}

/// Linux 6.19 gives devices L3 ways of their own.
#[test]
fn reports_limits_and_io_allocation_of_resctrl() {
    let mut server = server();
    server
        .tree
        .file("/sys/fs/resctrl/schemata", "    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n")
        .file("/sys/fs/resctrl/info/L3/cbm_mask", "7ff\n");
    assert!(read(&server).iter().all(|it| !it.finding.rule.starts_with("resctrl")), "no limit");
    server
        .tree
        .file("/sys/fs/resctrl/schemata", "    MB:0=100;1=20\n    L3:0=7ff;1=7ff\n")
        .file("/sys/fs/resctrl/batch/schemata", "MB:0=100;1=100\nL3:0=3;1=7ff\n")
        .file("/sys/fs/resctrl/info/L3/io_alloc", "disabled\n");
    let all = read(&server);
    let limits: Vec<&Symptom> = all.iter().filter(|it| it.finding.rule == "resctrl-limit").collect();
    assert_eq!(limits.len(), 2, "{limits:?}");
    assert!(limits[0].finding.message.contains("memory bandwidth to 20 %"), "{:?}", limits[0]);
    assert_eq!(limits[0].finding.severity, Severity::Warning);
    assert!(limits[1].finding.message.contains("L3 cache to 2 of 11 ways of group batch"), "{:?}", limits[1]);
    let allocation = only(all, "resctrl-io-alloc");
    assert_eq!(allocation.fix.commands, ["echo 1 > /sys/fs/resctrl/info/L3/io_alloc"]);
}

#[test]
fn reports_multipath_drives_that_cross_nodes() {
    let mut server = server();
    let mut topology = two_sockets();
    topology.devices = devices::read(&server.tree, &topology.cpus_by_node());
    topology.devices.truncate(2);
    for (index, device) in topology.devices.iter_mut().enumerate() {
        device.locality.node = Some(NodeId(index as u32));
        device.names.push(format!("nvme{index}"));
        server.tree.dir(&format!("/sys/class/nvme-subsystem/nvme-subsys0/nvme{index}"));
    }
    let read = |server: &Server| check(&server.tree, &topology, &Conditions::default());
    let policy = "/sys/class/nvme-subsystem/nvme-subsys0/iopolicy";
    server.tree.file(policy, "numa\n");
    assert!(read(&server).iter().all(|it| it.finding.rule != "nvme-iopolicy"), "the nearest controller");
    server.tree.file(policy, "round-robin\n");
    let symptom = only(read(&server), "nvme-iopolicy");
    assert_eq!(symptom.fix.commands, [format!("echo numa > {policy}")]);
    assert_eq!(symptom.fix.undo, [format!("echo round-robin > {policy}")]);
}

/// Grace, POWER9: placements leave memory of GPUs out, and the finding agrees.
#[test]
fn memory_of_gpus_is_not_for_interleaving() {
    let (server, mut topology) = (server(), two_sockets());
    let remedy = |topology: &Topology| {
        only(check(&server.tree, topology, &Conditions::default()), "memory-only-node").finding.remedy
    };
    topology.nodes[1].cpus = CpuSet::new();
    assert!(remedy(&topology).contains("--format weights"), "{}", remedy(&topology));
    topology.nodes[1].memory_kind = Some("GPU".to_owned());
    assert!(!remedy(&topology).contains("--format weights"), "{}", remedy(&topology));
}

#[test]
fn remedies_in_a_container_are_for_its_host() {
    let mut server = server();
    server.tree.file("/proc/sys/vm/zone_reclaim_mode", "1\n");
    let mut topology = two_sockets();
    let remedy = |topology: &Topology| {
        only(check(&server.tree, topology, &Conditions::default()), "zone-reclaim").finding.remedy
    };
    assert!(remedy(&topology).starts_with("Turn it off"), "{}", remedy(&topology));
    topology.surroundings.container = Some("docker".to_owned());
    assert!(remedy(&topology).starts_with("On the container's host: "), "{}", remedy(&topology));
}
