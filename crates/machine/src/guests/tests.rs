//! Guests of every recognized form, in a machine of two nodes.

use super::*;
use crate::checkup::{guest_symptoms, Effect, Symptom};
use crate::discover::discover;
use crate::ids::NodeId;
use crate::locate::{LocateAnswer, LocateAnswers, LocateQuery, OpenFile, OpenedFacts};
use crate::near::ResolveContext;
use crate::set::NodeSet;
use crate::topology::Topology;
use crate::tree::Tree;
use proptest::prelude::*;

const PID: u32 = 70;
const MIB: u64 = 1 << 20;

/// A host with CPUs 0-3 on node 0 and 4-7 on node 1.
struct Host {
    tree: Tree,
    answers: LocateAnswers,
}

impl Host {
    fn new() -> Self {
        let mut tree = Tree::new();
        tree.file("/sys/devices/system/node/online", "0-1\n")
            .file("/sys/devices/system/cpu/online", "0-7\n")
            .file("/sys/devices/system/cpu/present", "0-7\n");
        for (node, cpus) in [(0, "0-3"), (1, "4-7")] {
            let folder = format!("/sys/devices/system/node/node{node}");
            tree.file(&format!("{folder}/cpulist"), format!("{cpus}\n"))
                .file(&format!("{folder}/meminfo"), format!("Node {node} MemTotal: 1048576 kB\n"));
        }
        Self { tree, answers: LocateAnswers::default() }
    }

    /// Adds a network card, on request with virtual functions, and a bridge with a tap.
    fn card(mut self) -> Self {
        let physical = "/sys/devices/pci0000:80/0000:80:00.0";
        self.function("0000:80:00.0", 1);
        self.interface(&format!("{physical}/net/eth0"), 2);
        self.tree.link(&format!("{physical}/net/eth0/device"), physical);
        self.tree
            .file(&format!("{physical}/sriov_totalvfs"), "8\n")
            .file(&format!("{physical}/sriov_numvfs"), "2\n");
        for number in 0..2 {
            let address = format!("0000:80:02.{number}");
            let path = self.function(&address, 1);
            self.tree.link(&format!("{path}/physfn"), physical);
            self.tree.link(&format!("{physical}/virtfn{number}"), &path);
        }
        self.interface("/sys/devices/virtual/net/br0", 3);
        self.tree.file("/sys/class/net/br0/bridge/stp_state", "0\n");
        for (name, index) in [("tap0", 4), ("eth0", 2)] {
            if name == "tap0" {
                self.interface("/sys/devices/virtual/net/tap0", index);
                self.tree.file("/sys/class/net/tap0/tun_flags", "0x1002\n");
            }
            self.tree
                .link(&format!("/sys/class/net/{name}/master"), "/sys/class/net/br0")
                .link(&format!("/sys/class/net/br0/lower_{name}"), &format!("/sys/class/net/{name}"))
                .link(&format!("/sys/class/net/br0/brif/{name}"), &format!("/sys/class/net/{name}/brport"));
            self.tree.file(&format!("/sys/class/net/{name}/brport/port_no"), "0x1\n");
        }
        self
    }

    fn function(&mut self, address: &str, node: u32) -> String {
        let path = format!("/sys/devices/pci0000:80/{address}");
        for (file, content) in [
            ("class", "0x020000"),
            ("vendor", "0x15b3"),
            ("device", "0x1017"),
            ("numa_node", &node.to_string()),
        ] {
            self.tree.file(&format!("{path}/{file}"), format!("{content}\n"));
        }
        self.tree.link(&format!("/sys/bus/pci/devices/{address}"), &path);
        path
    }

    fn interface(&mut self, path: &str, index: u32) {
        let name = path.rsplit('/').next().expect("a name");
        self.tree
            .file(&format!("{path}/ifindex"), format!("{index}\n"))
            .file(&format!("{path}/iflink"), format!("{index}\n"))
            .file(&format!("{path}/type"), "1\n");
        self.tree.link(&format!("/sys/class/net/{name}"), path);
    }

    /// Adds a process with threads: id, name, CPU and allowed CPUs.
    fn process(
        mut self,
        pid: u32,
        parent: u32,
        arguments: &[&str],
        threads: &[(u32, &str, u32, &str)],
    ) -> Self {
        let stat = |tid: u32, name: &str, cpu: u32| {
            format!("{tid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 {} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 {cpu} 0 0\n", tid + 900)
        };
        let folder = format!("/proc/{pid}");
        self.tree.file(&format!("{folder}/cmdline"), arguments.join("\0") + "\0");
        for (tid, name, cpu, allowed) in threads {
            if *tid == pid {
                self.tree.file(&format!("{folder}/stat"), stat(pid, name, *cpu));
                self.tree.file(&format!("{folder}/comm"), format!("{name}\n"));
            }
            let task = format!("{folder}/task/{tid}");
            self.tree
                .file(&format!("{task}/stat"), stat(*tid, name, *cpu))
                .file(&format!("{task}/status"), format!("Name:\t{name}\nCpus_allowed_list:\t{allowed}\n"));
        }
        self
    }

    /// Sets the memory of the guest: MiB on each node, in one mapping.
    fn memory(mut self, mib: &[(u32, u64)]) -> Self {
        let all: u64 = mib.iter().map(|(_, mib)| mib).sum();
        let nodes: String = mib.iter().map(|(node, mib)| format!(" N{node}={}", mib * 256)).collect();
        let (from, to) = (0x7f00_0000_0000u64, 0x7f00_0000_0000 + all * MIB);
        self.tree
            .file(&format!("/proc/{PID}/maps"), format!("{from:x}-{to:x} rw-p 00000000 00:00 0\n"))
            .file(
                &format!("/proc/{PID}/numa_maps"),
                format!("{from:x} default anon={0} dirty={0}{nodes} kernelpagesize_kB=4\n", all * 256),
            )
            .file(&format!("/proc/{PID}/status"), "VmPin:\t       0 kB\nVmLck:\t    2048 kB\n");
        self
    }

    fn opened(mut self, files: &[(u32, &str)]) -> Self {
        let files =
            files.iter().map(|(fd, target)| OpenFile { fd: *fd, target: (*target).into(), facts: None });
        let facts = OpenedFacts { files: files.collect(), same_network: Some(true) };
        self.answers.add(LocateQuery::Opened { pid: PID }, Ok(LocateAnswer::Opened(facts)));
        self
    }

    fn guest(&self) -> Guest {
        read(&self.tree, PID).expect("a process").expect("a guest")
    }

    fn devices(&self) -> (Topology, Vec<GuestDevice>) {
        let topology = discover(&self.tree);
        let context = ResolveContext { root: &self.tree, locate: &self.answers, topology: &topology };
        let devices = guest_devices(context, &self.guest());
        (topology, devices)
    }

    fn symptoms(&self) -> Vec<Symptom> {
        let (topology, devices) = self.devices();
        guest_symptoms(&topology, &self.guest(), &devices, &|device| device.node.into_iter().collect())
    }

    fn rules(&self) -> Vec<String> {
        self.symptoms().into_iter().map(|symptom| symptom.finding.rule).collect()
    }
}

/// A guest of libvirt with two vCPUs, an I/O thread and a virtual function.
const LIBVIRT: [&str; 22] = [
    "/usr/bin/qemu-system-x86_64",
    "-name",
    "guest=we,,b,debug-threads=on",
    "-object",
    r#"{"qom-type":"secret","id":"masterKey0","format":"raw","file":"/var/lib/libvirt/qemu/domain-1-web/master-key.aes"}"#,
    "-machine",
    "pc-q35-7.2,usb=off,accel=kvm",
    "-m",
    "size=131072k",
    "-smp",
    "2,sockets=2,cores=1,threads=1",
    "-object",
    r#"{"qom-type":"iothread","id":"iothread1"}"#,
    "-object",
    r#"{"qom-type":"memory-backend-ram","id":"ram-node0","size":134217728,"host-nodes":[0],"policy":"bind"}"#,
    "-numa",
    "node,nodeid=0,cpus=0-1,memdev=ram-node0",
    "-device",
    r#"{"driver":"vfio-pci","host":"0000:80:02.0","id":"hostdev0","bus":"pci.2"}"#,
    "-netdev",
    r#"{"type":"tap","fd":"33","vhost":true,"vhostfd":"35","id":"hostnet0"}"#,
    "-S",
];

const THREADS: [(u32, &str, u32, &str); 5] = [
    (70, "qemu-system-x86", 0, "0-7"),
    (71, "IO mon_iothread", 0, "0-7"),
    (72, "CPU 0/KVM", 5, "5"),
    (73, "CPU 1/KVM", 1, "0-7"),
    (74, "IO iothread1", 2, "0-3"),
];

fn libvirt() -> Host {
    Host::new().card().process(PID, 1, &LIBVIRT, &THREADS).memory(&[(0, 96), (1, 32)])
}

#[test]
fn reads_a_guest_of_libvirt() {
    let mut host = libvirt().opened(&[(33, "/dev/net/tun"), (40, "/dev/vfio/12")]);
    host.tree.file("/proc/70/fdinfo/33", "pos:\t0\nflags:\t02\niff:\ttap0\n");
    let guest = host.guest();
    let configuration = &guest.configuration;
    assert_eq!((guest.name().as_str(), configuration.libvirt), ("we,b", true));
    assert_eq!((configuration.vcpus, configuration.memory_bytes), (Some(2), Some(128 * MIB)));
    assert_eq!(configuration.accelerator.as_deref(), Some("kvm"));
    assert_eq!(configuration.io_threads, ["iothread1"]);
    let cell =
        GuestCell { id: 0, vcpus: vec![0, 1], backend: Some("ram-node0".into()), bytes: Some(128 * MIB) };
    assert_eq!(configuration.cells, [cell]);
    assert_eq!(configuration.backends[0].host_nodes, NodeSet::one(NodeId(0)));
    let roles: Vec<String> = guest.threads.iter().map(|thread| thread.role.to_string()).collect();
    assert_eq!(roles, ["vCPU 0", "vCPU 1", "I/O iothread1", "emulator", "emulator"]);
    assert_eq!((guest.threads[0].tid, guest.threads[0].start_time), (72, 972));
    let memory = guest.memory.as_ref().expect("readable");
    assert_eq!((memory.regions.len(), memory.locked_bytes), (1, 2 * MIB));
    assert_eq!(memory.bytes_on(), [(NodeId(0), 96 * MIB), (NodeId(1), 32 * MIB)].into());
    assert!(guest.is_pinned(), "a device of the host writes into it");
    let (_, devices) = host.devices();
    let found: Vec<_> = devices
        .iter()
        .map(|device| (device.kind, device.attached.as_str(), device.device.as_deref(), device.node))
        .collect();
    assert_eq!(
        found,
        [
            (GuestDeviceKind::Passthrough, "0000:80:02.0", Some("0000:80:02.0"), Some(NodeId(1))),
            (GuestDeviceKind::Network, "tap0", Some("eth0"), Some(NodeId(1))),
        ]
    );
    assert_eq!(devices[0].physical_function.as_deref(), Some("eth0"));
    assert_eq!(devices[1].reached_via, ["tap0 -> br0 -> eth0 -> 0000:80:00.0 -> node 1"]);
}

#[test]
fn reports_what_is_remote_and_the_share_of_memory() {
    let mut host = libvirt().opened(&[(33, "/dev/net/tun")]);
    host.tree.file("/proc/70/fdinfo/33", "iff:\ttap0\n");
    let symptoms = host.symptoms();
    let rules: Vec<&str> = symptoms.iter().map(|symptom| symptom.finding.rule.as_str()).collect();
    assert_eq!(
        rules,
        [
            "guest-memory-remote",
            "guest-memory-remote",
            "guest-io-remote",
            "guest-vcpus-unbound",
            "guest-nodes-hidden"
        ]
    );
    let shares = Effect::Shares([(NodeId(0), 0.75), (NodeId(1), 0.25)].into());
    assert_eq!((&symptoms[0].effect, symptoms[0].target), (&shares, Some(NodeId(1))));
    assert!(symptoms[0].finding.message.starts_with("75 % of its memory"), "{}", symptoms[0].finding.message);
    assert!(symptoms[0].finding.remedy.contains("pinned"));
    assert_eq!(symptoms[0].fix.commands, ["numaio vm place --near 0000:80:02.0 'we,b'"]);
    assert_eq!(symptoms[2].fix.commands, ["numaio vm apply --near eth0 'we,b'"]);
}

#[test]
fn guest_on_the_node_of_its_device_has_no_symptom() {
    let threads: Vec<(u32, &str, u32, &str)> =
        THREADS.iter().map(|(tid, name, _, _)| (*tid, *name, 5, "4-7")).collect();
    let host = Host::new().card().process(PID, 1, &LIBVIRT, &threads).memory(&[(1, 128)]);
    assert_eq!(host.rules(), [] as [&str; 0]);
    // Its vCPUs moved away.
    let threads: Vec<(u32, &str, u32, &str)> =
        THREADS.iter().map(|(tid, name, _, _)| (*tid, *name, 0, "0-3")).collect();
    let host = Host::new().card().process(PID, 1, &LIBVIRT, &threads).memory(&[(1, 128)]);
    assert_eq!(host.rules(), ["guest-vcpus-remote"]);
}

#[test]
fn monitor_identifies_threads_without_names() {
    let arguments =
        ["qemu-system-x86_64", "-m", "128", "-smp", "cpus=2", "-qmp", "unix:/run/a.sock,server=on,wait=off"];
    let threads = [
        (70, "qemu-system-x86", 0, "0-3"),
        (71, "qemu-system-x86", 1, "0-3"),
        (72, "qemu-system-x86", 2, "0-3"),
    ];
    let host = Host::new().process(PID, 1, &arguments, &threads).memory(&[(0, 128)]);
    let mut guest = host.guest();
    assert_eq!(guest.name(), "qemu-70");
    assert_eq!(guest.configuration.monitors, ["/run/a.sock"]);
    assert!(guest.has_unnamed_vcpus());
    assert_eq!(host.rules(), ["guest-threads-unnamed"]);
    let reply = r#"{"return": [{"thread-id": 72, "cpu-index": 0}, {"thread-id": 71, "cpu-index": 1}, {"thread-id": 1, "cpu-index": 2}]}"#;
    guest.apply_monitor(&parse_threads(reply));
    let tids: Vec<u32> = guest.vcpus().map(|thread| thread.tid).collect();
    assert_eq!(tids, [72, 71], "a thread of another process is not the guest's");
}

#[test]
fn vhost_threads_are_those_of_the_kernel() {
    let arguments = ["qemu-system-x86_64", "-name", "a", "-netdev", "tap,id=n,ifname=tap0,vhost=on"];
    let threads =
        [(70, "qemu-system-x86", 0, "0-3"), (71, "CPU 0/TCG", 0, "0-3"), (72, "vhost-70", 6, "0-7")];
    let host = Host::new()
        .process(PID, 1, &arguments, &threads)
        .process(80, 2, &[], &[(80, "vhost-70", 3, "0-7")])
        .process(81, 1, &["vhost-70"], &[(81, "vhost-70", 3, "0-7")])
        .process(82, 2, &[], &[(82, "vhost-99", 3, "0-7")]);
    let guest = host.guest();
    let vhost = guest.threads.iter().filter(|thread| thread.role == ThreadRole::Vhost);
    let vhost: Vec<(u32, u32)> = vhost.map(|thread| (thread.pid, thread.tid)).collect();
    assert_eq!(vhost, [(70, 72), (80, 80)], "not a user's process of that name");
    assert_eq!(all(&host.tree).len(), 1);
}

#[test]
fn reads_cloud_hypervisor() {
    let arguments = [
        "/usr/bin/cloud-hypervisor",
        "--cpus",
        "boot=2,max=8",
        "--memory",
        "size=0",
        "--memory-zone",
        "id=mem0,size=64M,host_numa_node=1",
        "id=mem1,size=64M",
        "--numa",
        "guest_numa_id=0,cpus=[0-1,4],memory_zones=[mem0]",
        "--disk",
        "path=/images/a.raw",
        "path=/images/b.raw,readonly=on",
        "--net",
        "tap=tap0,mac=12:34:56:78:90:ab",
        "--device",
        "path=/sys/bus/pci/devices/0000:80:02.1/",
        "--api-socket=/run/web.sock",
    ];
    let threads = [
        (70, "cloud-hyperviso", 4, "4-7"),
        (71, "vcpu0", 4, "4"),
        (72, "vcpu1", 5, "5"),
        (73, "_disk0_q0", 6, "4-7"),
    ];
    let host = Host::new().card().process(PID, 1, &arguments, &threads).memory(&[(1, 64)]);
    let guest = host.guest();
    let configuration = &guest.configuration;
    assert_eq!((guest.name().as_str(), configuration.vcpus), ("web", Some(2)));
    assert_eq!(configuration.memory_bytes, Some(128 * MIB));
    assert_eq!(
        (configuration.cells[0].vcpus.as_slice(), configuration.cells[0].bytes),
        (&[0, 1, 4][..], Some(64 * MIB))
    );
    assert_eq!(configuration.backends[0].host_nodes, NodeSet::one(NodeId(1)));
    assert_eq!(guest.vcpus().count(), 2);
    let (_, devices) = host.devices();
    let found: Vec<(&str, Option<NodeId>)> =
        devices.iter().map(|device| (device.attached.as_str(), device.node)).collect();
    assert_eq!(
        found,
        [
            ("0000:80:02.1", Some(NodeId(1))),
            ("tap0", Some(NodeId(1))),
            ("/images/a.raw", None),
            ("/images/b.raw", None)
        ]
    );
    assert!(devices[2].unresolved.is_some());
}

#[test]
fn reads_firecracker_by_threads_and_open_files() {
    let threads = [(70, "firecracker", 0, "0-3"), (71, "fc_vcpu 0", 0, "0-3"), (72, "fc_api", 1, "0-3")];
    let mut host = Host::new()
        .card()
        .process(PID, 1, &["/usr/bin/firecracker", "--id", "micro", "--api-sock", "/run/x"], &threads)
        .memory(&[(0, 128)]);
    host.tree.file("/proc/70/fdinfo/9", "iff:\ttap0\n");
    let host = host.opened(&[(9, "/dev/net/tun"), (1, "/var/log/fc.log"), (7, "anon_inode:kvm-vm")]);
    assert_eq!((host.guest().name().as_str(), host.guest().vcpus().count()), ("micro", 1));
    let (_, devices) = host.devices();
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].device.as_deref(), Some("eth0"));
}

#[test]
fn finds_functions_by_vfio_group_and_character_device() {
    let arguments = ["qemu-system-x86_64", "-name", "a", "-m", "128"];
    let threads = [(70, "qemu-system-x86", 0, "0-3"), (71, "CPU 0/KVM", 0, "0-3")];
    let mut host = Host::new().card().process(PID, 1, &arguments, &threads);
    let function = "/sys/devices/pci0000:80/0000:80:02.1";
    host.tree
        .link("/sys/kernel/iommu_groups/12/devices/0000:80:02.0", "/sys/devices/pci0000:80/0000:80:02.0")
        .file(&format!("{function}/vfio-dev/vfio3/dev"), "511:3\n");
    host.tree
        .link(&format!("{function}/vfio-dev/vfio3/device"), function)
        .link("/sys/class/vfio-dev/vfio3", &format!("{function}/vfio-dev/vfio3"));
    let host = host.opened(&[(5, "/dev/vfio/vfio"), (6, "/dev/vfio/12"), (7, "/dev/vfio/devices/vfio3")]);
    let (_, devices) = host.devices();
    let names: Vec<Option<&str>> = devices.iter().map(|device| device.device.as_deref()).collect();
    assert_eq!(names, [Some("0000:80:02.0"), Some("0000:80:02.1")]);
    // Memory of another user's guest is unknown.
    assert_eq!(host.guest().memory, None);
}

#[test]
fn free_functions_are_those_that_nothing_uses() {
    let mut host = libvirt();
    let second: crate::devices::PciAddress = "0000:80:02.1".parse().expect("an address");
    let first = "0000:80:02.0".parse().expect("an address");
    let free = |host: &Host, used: &[crate::devices::PciAddress]| {
        let topology = discover(&host.tree);
        let card = topology.devices.iter().find(|device| device.has_name("eth0")).expect("the card");
        free_functions(&host.tree, &topology, card, used)
    };
    assert_eq!(free(&host, &[]), [first, second]);
    assert_eq!(free(&host, &[first]), [second]);
    let path = "/sys/devices/pci0000:80/0000:80:02.1";
    host.interface(&format!("{path}/net/eth0v1"), 9);
    host.tree.link(&format!("{path}/net/eth0v1/device"), path);
    host.tree.file("/sys/class/net/eth0v1/flags", "0x1003\n");
    assert_eq!(free(&host, &[]), [first], "the host uses the other one");
    host.tree.file("/sys/class/net/eth0v1/flags", "0x1002\n");
    assert_eq!(free(&host, &[]).len(), 2);
}

#[test]
fn other_programs_are_not_guests() {
    for arguments in [
        &["/usr/bin/qemu-img", "convert"][..],
        &["qemu-system-x86_64", "-version"],
        &["cat", "qemu-system-x86_64"],
        &["cloud-hypervisor", "--version"],
        &[""],
    ] {
        assert_eq!(parse_command_line((arguments.join("\0") + "\0").as_bytes(), None), None, "{arguments:?}");
    }
    // A program that renames itself is known by its file.
    let renamed = parse_command_line(b"guest 7\0-name\0x\0", Some("qemu-system-x86_64 (deleted)"));
    assert_eq!(renamed.and_then(|found| found.name).as_deref(), Some("x"));
}

#[test]
fn names_of_attached_objects_stay_within_their_directories() {
    let arguments = [
        "qemu-system-x86_64",
        "-netdev",
        "tap,id=n,ifname=../../proc",
        "-device",
        "vfio-pci,host=../../../etc",
        "-device",
        "vfio-pci,sysfsdev=/etc/passwd",
        "-drive",
        "file=nbd:10.0.0.1:10809",
    ];
    let host = Host::new().card().process(PID, 1, &arguments, &[(70, "qemu-system-x86", 0, "0-3")]);
    let (_, devices) = host.devices();
    assert!(
        devices.iter().all(|device| device.device.is_none() && device.unresolved.is_some()),
        "{devices:#?}"
    );
    assert_eq!(devices.len(), 3, "a disk of another host is not a file");
}

#[test]
fn machine_with_a_hypervisor_is_a_guest() {
    let mut host = Host::new().card();
    assert_eq!(GivenTopology::read(&host.tree, &discover(&host.tree)), None);
    host.tree
        .file("/proc/cpuinfo", "processor : 0\nflags : fpu hypervisor\n")
        .file("/sys/class/dmi/id/sys_vendor", "QEMU\n")
        .file("/sys/class/dmi/id/product_name", "Standard PC\n");
    let given = GivenTopology::read(&host.tree, &discover(&host.tree)).expect("a guest");
    assert_eq!(given.hypervisor.as_deref(), Some("QEMU Standard PC"));
    assert_eq!((given.cpus, given.nodes.len()), (8, 2));
    assert!(given.devices.iter().any(|(name, node)| name == "eth0" && *node == Some(NodeId(1))));
    assert!(given.unknown.iter().any(|unknown| unknown.request.contains("vcpupin")));
}

/// Parts of command lines, also hostile ones.
fn argument() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("-object".to_owned()),
        Just("-numa".to_owned()),
        Just("-device".to_owned()),
        Just("-smp".to_owned()),
        Just("--numa".to_owned()),
        Just("--cpus".to_owned()),
        "(node|boot|memory-backend-ram|vfio-pci|tap)(,(cpus|size|host-nodes|fd|nodeid|mem)=[0-9x,:\\[\\]-]{0,20}){0,4}",
        "\\{\"[a-z-]{1,8}\":[\\[\\]{}0-9\",a-z]{0,20}",
        "\\PC{0,30}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn command_lines_never_panic(
        program in "(qemu-system-x86_64|cloud-hypervisor|firecracker)",
        arguments in proptest::collection::vec(argument(), 0..12),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let line = format!("{program}\0{}", arguments.join("\0"));
        let _ = parse_command_line(line.as_bytes(), None);
        let _ = parse_command_line(&bytes, Some("kvm"));
        let _ = parse_threads(&String::from_utf8_lossy(&bytes));
    }
}

/// Returns the configuration of a QEMU with these arguments.
fn configuration(arguments: &[&str]) -> GuestConfiguration {
    let line = [&["qemu-system-x86_64"], arguments].concat().join("\0");
    parse_command_line(line.as_bytes(), None).expect("a guest")
}

#[test]
fn counts_processors_as_qemu_does() {
    for (smp, vcpus) in [
        ("sockets=1,cores=4,threads=2", 8),
        ("maxcpus=8", 8),
        ("4,maxcpus=8", 4),
        ("cpus=6", 6),
        ("dies=2,cores=3", 6),
    ] {
        assert_eq!(configuration(&["-smp", smp]).vcpus, Some(vcpus), "{smp}");
    }
}

#[test]
fn memory_devices_add_to_the_memory() {
    let found = configuration(&[
        "-m",
        "size=1024M,slots=4,maxmem=8G",
        "-object",
        "memory-backend-ram,id=a,size=1G",
        "-object",
        "memory-backend-file,id=b,size=2G,mem-path=/data/pmem",
        "-device",
        r#"{"driver":"pc-dimm","memdev":"a"}"#,
        "-device",
        "nvdimm,memdev=b",
    ]);
    assert_eq!(found.memory_bytes, Some(2 << 30), "an nvdimm is a file");
}

#[test]
fn disks_are_found_below_block_drivers_and_firmware_is_none() {
    let disk = |path: &str| Attachment::Disk { path: path.into() };
    let nvme = Attachment::PciFunction { address: "0000:01:00.0".into() };
    for (arguments, expected) in [
        (&["-drive", "file=/usr/share/OVMF_CODE.fd,if=pflash"][..], vec![]),
        (
            &[
                "-blockdev",
                r#"{"driver":"file","filename":"/fw","node-name":"s"}"#,
                "-blockdev",
                r#"{"driver":"raw","file":"s","node-name":"f"}"#,
                "-machine",
                "q35,pflash0=f",
                "-blockdev",
                r#"{"driver":"qcow2","file":{"driver":"luks","file":{"driver":"file","filename":"/a"}}}"#,
            ],
            vec![disk("/a")],
        ),
        (&["-drive", "file.driver=file,file.filename=/b"], vec![disk("/b")]),
        (&["-drive", r#"file=json:{"file":{"filename":"/c"}}"#], vec![disk("/c")]),
        (&["-drive", "file=nvme://0000:01:00.0/1"], vec![nvme.clone()]),
        (&["-blockdev", r#"{"driver":"nvme","device":"01:00.0","namespace":1}"#], vec![nvme]),
        (
            &["-add-fd", "set=3,fd=19", "-netdev", "vhost-vdpa,vhostdev=/dev/fdset/3"],
            vec![Attachment::InterfaceDescriptor { fd: 19 }],
        ),
    ] {
        assert_eq!(configuration(arguments).attachments, expected, "{arguments:?}");
    }
}
