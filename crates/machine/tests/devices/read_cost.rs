//! Number of accesses for machines with many PCI functions.

use crate::support::server::{two_sockets, Server};
use numaio_machine::sysfs::{ReadError, Sysfs};
use numaio_machine::tree::Tree;
use numaio_machine::{devices, discover};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A tree that counts accesses.
struct Counting<'a> {
    tree: &'a Tree,
    asked: Cell<usize>,
}

impl Counting<'_> {
    fn count(&self) -> &Tree {
        self.asked.set(self.asked.get() + 1);
        self.tree
    }
}

impl Sysfs for Counting<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.count().read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.count().list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.count().resolve(path)
    }
}

/// Returns the number of accesses and devices of a discovery.
fn asked(server: &Server) -> (usize, usize) {
    let counting = Counting { tree: &server.tree, asked: Cell::new(0) };
    let devices = devices::read(&counting, &two_sockets().cpus_by_node());
    (counting.asked.get(), devices.len())
}

/// Creates functions with `uevent`.
fn functions(class: &str, count: u32, attributes: &[(&str, &str)]) -> Server {
    let mut server = Server::default();
    for index in 0..count {
        let path = path(index);
        server.function(&path, class, attributes);
        let uevent = format!("DRIVER=one\nPCI_CLASS={}\nPCI_ID=8086:1234\n", &class[3..]);
        server.tree.file(&format!("/sys/devices/{path}/uevent"), uevent);
    }
    server
}

fn path(index: u32) -> String {
    let domain = index >> 8;
    format!("pci{domain:04x}:00/{domain:04x}:00:{:02x}.{}", index >> 3 & 31, index & 7)
}

/// Returns the mean number of accesses per function for 2,000 functions.
fn for_each(server: &Server) -> f64 {
    let (none, _) = asked(&Server::default());
    let (many, _) = asked(server);
    (many - none) as f64 / 2000.0
}

#[test]
fn a_function_that_moves_nothing_costs_one_read() {
    let server = functions("0x0c0330", 2000, &[("numa_node", "0")]);
    assert_eq!((for_each(&server), asked(&server).1), (1.0, 0));
}

#[test]
fn a_device_costs_a_few_reads_however_many_there_are() {
    let server = functions("0x020000", 2000, &[("numa_node", "0")]);
    assert_eq!(asked(&server).1, 2000);
    assert!(for_each(&server) <= 9.01, "{} for each", for_each(&server));
    // With numa_node -1 the nodes of bridges are cached; only the local CPUs are additional reads.
    let server = functions("0x020000", 2000, &[("numa_node", "-1"), ("local_cpulist", "4-7")]);
    assert!(for_each(&server) <= 10.01, "{} for each", for_each(&server));
}

#[test]
fn a_virtual_function_costs_less() {
    let mut server = functions("0x020000", 2000, &[("numa_node", "0")]);
    for index in 1..2000 {
        server
            .tree
            .link(&format!("/sys/devices/{}/physfn", path(index)), &format!("/sys/devices/{}", path(0)));
    }
    assert!(for_each(&server) <= 5.01, "{} for each", for_each(&server));
    // Without a driver it has no interrupts to look for.
    for index in 1..2000 {
        server
            .tree
            .file(&format!("/sys/devices/{}/uevent", path(index)), "PCI_CLASS=20000\nPCI_ID=8086:1234\n");
    }
    assert!(for_each(&server) <= 3.01, "{} for each", for_each(&server));
}

#[test]
fn partitions_cost_no_access() {
    let mut server = functions("0x010802", 1, &[("numa_node", "0")]);
    let disk = format!("{}/nvme/nvme0/nvme0n1", path(0));
    server.class("nvme", &format!("{}/nvme/nvme0", path(0)), &[]).class("block", &disk, &[]);
    let without = asked(&server);
    for number in 1..100 {
        server.class("block", &format!("{disk}/nvme0n1p{number}"), &[]);
    }
    assert_eq!(asked(&server), without);
}

/// A tree that counts the accesses to each path, by several threads.
struct CountingPaths<'a>(&'a Tree, Mutex<BTreeMap<String, usize>>);

impl CountingPaths<'_> {
    fn count(&self, path: &str) -> &Tree {
        *self.1.lock().expect("no panic").entry(path.to_owned()).or_default() += 1;
        self.0
    }
}

impl Sysfs for CountingPaths<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.count(path).read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.count(path).list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.count(path).resolve(path)
    }
}

#[test]
fn a_discovery_reads_large_files_once() {
    let mut server = functions("0x020000", 2000, &[("numa_node", "0"), ("local_cpulist", "0-3")]);
    server.tree.file("/proc/cpuinfo", "processor: 0\n").file("/proc/interrupts", " CPU0\n");
    let counting = CountingPaths(&server.tree, Mutex::default());
    assert_eq!(discover::discover(&counting).devices.len(), 2000);
    let counts = counting.1.lock().expect("no panic");
    let count = |path: &str| counts.get(path).copied().unwrap_or(0);
    let of_device = count(&format!("/sys/devices/{}/local_cpulist", path(7)));
    assert_eq!((count("/proc/cpuinfo"), count("/proc/interrupts")), (1, 1));
    assert!(of_device <= 1, "{of_device} reads of a device's local CPUs");
}

#[test]
fn a_function_elsewhere_than_others_of_its_bus_is_found() {
    let mut server = functions("0x020000", 3, &[("numa_node", "0")]);
    let elsewhere = "/sys/devices/platform/elsewhere/0000:00:00.1";
    let uevent = server.tree.read(&format!("/sys/devices/{}/uevent", path(1))).expect("a file");
    server.tree.remove(&format!("/sys/devices/{}", path(1))).remove("/sys/bus/pci/devices/0000:00:00.1");
    server.tree.file(&format!("{elsewhere}/uevent"), uevent);
    server.tree.link("/sys/bus/pci/devices/0000:00:00.1", elsewhere);
    let devices = devices::read(&server.tree, &two_sockets().cpus_by_node());
    let paths: Vec<&str> = devices.iter().map(|device| device.path.as_str()).collect();
    assert_eq!(
        paths,
        ["/sys/devices/pci0000:00/0000:00:00.0", elsewhere, "/sys/devices/pci0000:00/0000:00:00.2"]
    );
}

#[test]
fn two_threads_see_what_one_does() {
    let server = functions("0x020000", 2000, &[("numa_node", "0"), ("irq", "9")]);
    let machine = discover::discover(&server.tree);
    assert_eq!(machine.devices.len(), 2000);
    assert_eq!(machine.devices, devices::read(&server.tree, &machine.cpus_by_node()));
}
