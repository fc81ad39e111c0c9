//! Resolution of processes.

use super::machine::{nodes, rules, Machine};
use numaio_machine::discover::discover;
use numaio_machine::locate::PathKind;
use numaio_machine::near::{resolve_process, OwnConnections, ResolveContext};
use numaio_machine::sysfs::{ReadError, Sysfs};
use std::cell::RefCell;

#[test]
fn resolves_files_devices_and_peers_of_a_process() {
    let mut machine = Machine::new();
    machine.nvme("0000:3b:00.0", 0, 1);
    machine.nic("0000:18:00.0", "eth0", 0);
    machine.loopback();
    machine.mount(27, "259:0", "/", "ext4", "/dev/nvme0n1", "");
    machine.mount(30, "0:6", "/dev", "devtmpfs", "udev", "");
    machine.route("10.0.0.9", &[("eth0", 1)]);
    machine.route("127.0.0.1", &[("lo", 1)]);
    let null = machine.device_file("/dev/null", PathKind::Character, "1:3");
    let files: Vec<_> = ["/data/a", "/data/b", "/data/c"]
        .map(|path| (path, Some(machine.place(path, PathKind::File, "259:0", 27))))
        .to_vec();
    let head =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
    let row = |peer: &str, inode: u32| {
        format!("   0: 0200000A:A1B2 {peer}:0801 01 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1\n")
    };
    let word = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
    let rows = [row(&word([10, 0, 0, 9]), 500), row(&word([127, 0, 0, 1]), 501)].concat();
    machine.tree.file("/proc/77/net/tcp", format!("{head}{rows}"));
    let others = [
        ("/dev/null", Some(null)),
        ("socket:[500]", None),
        ("socket:[501]", None),
        ("pipe:[9]", None),
        ("anon_inode:[eventpoll]", None),
    ];
    machine.opened(77, true, &[files, others.to_vec()].concat());
    let resolved = machine.resolve("pid:77");
    // Six are examined: three files, a virtual device file, and two connections, one to itself.
    assert_eq!(nodes(&resolved), "0 0.167, 1 0.5");
    assert_eq!(rules(&resolved), ["near-others-open"]);
    assert!(resolved.findings[0].message.starts_with("4 of its open files"), "{:?}", resolved.findings);
    let lines = [
        "process 77 -> /data/a -> ext4 on /dev/nvme0n1 -> nvme0n1 -> 0000:3b:00.0 -> node 1",
        "process 77 -> 10.0.0.9 -> eth0 -> 0000:18:00.0 -> node 0",
    ];
    assert_eq!(resolved.lines(), lines);
    assert!(resolved.chain.iter().all(|step| step.name != "lo"), "{:#?}", resolved.chain);
    assert!(resolved.chain.iter().any(|step| step.name == "/data/a" && step.value == "and 2 more on it"));
}

#[test]
fn reports_processes_without_open_files() {
    let mut machine = Machine::new();
    machine.opened(5, true, &[("pipe:[9]", None)]);
    assert_eq!(machine.dead_end("pid:5"), ["near-nothing-open"]);
    assert_eq!(machine.dead_end("pid:6"), ["near-not-on-tape"]);
}

/// A machine's files, with the list of those of connections that were read.
struct ConnectionReads<'a>(&'a dyn Sysfs, RefCell<Vec<String>>);

impl Sysfs for ConnectionReads<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        if path.contains("/net/") {
            self.1.borrow_mut().push(path.to_owned());
        }
        self.0.read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.0.list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.0.resolve(path)
    }
}

#[test]
fn reads_connections_once_for_all_processes_of_its_network() {
    let mut machine = Machine::new();
    machine.nic("0000:18:00.0", "eth0", 0);
    machine.route("10.0.0.9", &[("eth0", 1)]);
    let peer = format!("{:08X}", u32::from_ne_bytes([10, 0, 0, 9]));
    let row = |inode: u32| format!("head\n 0: 0:1 {peer}:0801 01 0:0 0:0 0 0 0 {inode} 1\n");
    machine.tree.link("/proc/self", "1").file("/proc/1/net/tcp", row(500)).file("/proc/9/net/tcp", row(501));
    machine.opened(7, true, &[("socket:[500]", None)]);
    machine.opened(8, true, &[("socket:[500]", None), ("socket:[501]", None)]);
    machine.opened(9, false, &[("socket:[501]", None)]);
    machine.opened(10, true, &[("pipe:[500]", None)]);
    let topology = discover(&machine.tree);
    let root = ConnectionReads(&machine.tree, RefCell::default());
    let ground = ResolveContext { root: &root, locate: &machine.answers, topology: &topology };
    let own = OwnConnections::default();
    let reads_of = |pid: u32| {
        let devices = resolve_process(ground, pid, &own).devices.len();
        let reads = root.1.take();
        let tables = ["/proc/self/net/tcp", "/proc/9/net/tcp"];
        (devices, tables.map(|table| reads.iter().filter(|path| *path == table).count()))
    };
    assert_eq!(reads_of(10), (0, [0, 0]), "it has no socket");
    assert_eq!(reads_of(7), (1, [1, 0]));
    assert_eq!(reads_of(8), (1, [0, 0]), "the connections are known");
    assert_eq!(reads_of(9), (1, [0, 1]), "in another network");
}
