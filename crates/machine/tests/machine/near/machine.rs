//! An in-memory machine of two nodes, to which tests add devices and stacks.

use numaio_machine::discover::discover;
use numaio_machine::locate::{
    DeviceNumber, LocateAnswer, LocateAnswers, LocateError, LocateQuery, OpenFile, OpenedFacts, PathFacts,
    PathKind, RouteFacts,
};
use numaio_machine::near::{resolve, Handle, NearDevice, NearNode, ResolveContext, Resolved};
use numaio_machine::tree::Tree;

/// A machine under construction.
pub struct Machine {
    pub tree: Tree,
    pub answers: LocateAnswers,
    mounts: String,
    interfaces: u32,
}

fn number(text: &str) -> DeviceNumber {
    let (major, minor) = text.split_once(':').expect("a number");
    DeviceNumber { major: major.parse().expect("a number"), minor: minor.parse().expect("a number") }
}

impl Machine {
    /// Creates two nodes of two CPUs without devices.
    pub fn new() -> Self {
        let mut tree = Tree::new();
        tree.file("/sys/devices/system/node/online", "0-1\n")
            .file("/sys/devices/system/cpu/online", "0-3\n")
            .file("/sys/devices/system/cpu/present", "0-3\n");
        for (node, cpus, distances) in [(0, "0-1", "10 21"), (1, "2-3", "21 10")] {
            let folder = format!("/sys/devices/system/node/node{node}");
            tree.file(&format!("{folder}/cpulist"), format!("{cpus}\n"))
                .file(&format!("{folder}/distance"), format!("{distances}\n"))
                .file(&format!("{folder}/meminfo"), format!("Node {node} MemTotal: 1048576 kB\n"));
        }
        Self { tree, answers: LocateAnswers::default(), mounts: String::new(), interfaces: 1 }
    }

    fn file(&mut self, path: &str, content: &str) {
        self.tree.file(path, format!("{content}\n"));
    }

    /// Adds a PCI function on a node (-1 for unknown) and returns its path.
    pub fn pci(&mut self, address: &str, class: &str, node: i32) -> String {
        let path = format!("/sys/devices/pci0000:00/{address}");
        for (file, content) in [("class", class), ("vendor", "0x15b3"), ("device", "0x1017")] {
            self.file(&format!("{path}/{file}"), content);
        }
        self.file(&format!("{path}/numa_node"), &node.to_string());
        self.tree.link(&format!("/sys/bus/pci/devices/{address}"), &path);
        path
    }

    /// Adds a network card with an interface and returns the interface's path.
    pub fn nic(&mut self, address: &str, name: &str, node: i32) -> String {
        let function = self.pci(address, "0x020000", node);
        let path = self.interface(&format!("{function}/net/{name}"), 1);
        self.tree.link(&format!("{path}/device"), &function);
        path
    }

    /// Adds a virtual interface and returns its path.
    pub fn virtual_interface(&mut self, name: &str) -> String {
        self.interface(&format!("/sys/devices/virtual/net/{name}"), 1)
    }

    fn interface(&mut self, path: &str, kind: u32) -> String {
        self.interfaces += 1;
        let (index, name) = (self.interfaces.to_string(), path.rsplit('/').next().expect("a name"));
        self.file(&format!("{path}/ifindex"), &index);
        self.file(&format!("{path}/iflink"), &index);
        self.file(&format!("{path}/type"), &kind.to_string());
        self.file(&format!("{path}/uevent"), &format!("INTERFACE={name}\nIFINDEX={index}"));
        self.tree.link(&format!("/sys/class/net/{name}"), path);
        path.to_owned()
    }

    pub fn loopback(&mut self) {
        self.interface("/sys/devices/virtual/net/lo", 772);
    }

    /// Sets an attribute of an interface.
    pub fn net(&mut self, name: &str, file: &str, content: &str) {
        self.file(&format!("/sys/class/net/{name}/{file}"), content);
    }

    /// Stacks an interface on another with the kernel's links.
    pub fn upon(&mut self, upper: &str, lower: &str) {
        self.tree.link(&format!("/sys/class/net/{upper}/lower_{lower}"), &format!("/sys/class/net/{lower}"));
        self.tree.link(&format!("/sys/class/net/{lower}/upper_{upper}"), &format!("/sys/class/net/{upper}"));
    }

    /// Attaches a port to a bridge or bond.
    pub fn enslave(&mut self, master: &str, port: &str) {
        self.upon(master, port);
        self.tree.link(&format!("/sys/class/net/{port}/master"), &format!("/sys/class/net/{master}"));
    }

    /// Adds a bridge with ports.
    pub fn bridge(&mut self, name: &str, ports: &[&str]) {
        self.virtual_interface(name);
        self.net(name, "uevent", "DEVTYPE=bridge");
        self.net(name, "bridge/stp_state", "0");
        for port in ports {
            self.enslave(name, port);
            self.tree.link(
                &format!("/sys/class/net/{name}/brif/{port}"),
                &format!("/sys/class/net/{port}/brport"),
            );
            self.net(port, "brport/port_no", "0x1");
        }
    }

    /// Adds a veth pair with both ends in this namespace.
    pub fn pair(&mut self, one: &str, other: &str) {
        let (first, second) = (self.interfaces + 1, self.interfaces + 2);
        self.virtual_interface(one);
        self.virtual_interface(other);
        self.net(one, "iflink", &second.to_string());
        self.net(other, "iflink", &first.to_string());
    }

    /// Adds a block device with a number below a path.
    fn disk_at(&mut self, path: &str, at: &str) {
        let name = path.rsplit('/').next().expect("a name");
        self.file(&format!("{path}/dev"), at);
        self.file(&format!("{path}/size"), "2048");
        self.tree.link(&format!("/sys/class/block/{name}"), path);
        self.tree.link(&format!("/sys/dev/block/{at}"), path);
        self.device_file(&format!("/dev/{name}"), PathKind::Block, at);
    }

    /// Adds an NVMe drive with one namespace.
    pub fn nvme(&mut self, address: &str, index: u32, node: i32) {
        let function = self.pci(address, "0x010802", node);
        let controller = format!("{function}/nvme/nvme{index}");
        self.file(&format!("{controller}/model"), "Fast");
        self.file(&format!("{controller}/transport"), "pcie");
        self.tree.link(&format!("{controller}/device"), &function);
        self.tree.link(&format!("/sys/class/nvme/nvme{index}"), &controller);
        self.disk_at(&format!("{controller}/nvme{index}n1"), &format!("259:{}", index * 16));
    }

    /// Adds a partition of a disk.
    pub fn partition(&mut self, disk: &str, name: &str, at: &str) {
        let path = format!("/sys/class/block/{disk}/{name}");
        self.file(&format!("{path}/partition"), "1");
        let path = numaio_machine::sysfs::Sysfs::resolve(&self.tree, &path).expect("a partition");
        self.disk_at(&path, at);
    }

    /// Adds a virtual block device on others.
    pub fn stacked(&mut self, name: &str, at: &str, below: &[&str]) {
        let path = format!("/sys/devices/virtual/block/{name}");
        self.disk_at(&path, at);
        for disk in below {
            self.tree.link(&format!("{path}/slaves/{disk}"), &format!("/sys/class/block/{disk}"));
        }
    }

    /// Sets an attribute of a block device.
    pub fn block(&mut self, disk: &str, file: &str, content: &str) {
        self.file(&format!("/sys/class/block/{disk}/{file}"), content);
    }

    /// Sets `dm/name` and `dm/uuid` of a mapping.
    pub fn mapped(&mut self, disk: &str, name: &str, uuid: &str) {
        self.file(&format!("/sys/class/block/{disk}/dm/name"), name);
        self.file(&format!("/sys/class/block/{disk}/dm/uuid"), uuid);
        let at = numaio_machine::sysfs::SysfsExt::text(&self.tree, &format!("/sys/class/block/{disk}/dev"));
        self.device_file(&format!("/dev/mapper/{name}"), PathKind::Block, &at.expect("a number"));
    }

    pub fn device_file(&mut self, path: &str, kind: PathKind, at: &str) -> PathFacts {
        let facts = PathFacts {
            canonical: path.into(),
            kind,
            dev: number("0:6"),
            rdev: Some(number(at)),
            mount: Some(24),
        };
        self.answers.add(LocateQuery::Path { path: path.into() }, Ok(LocateAnswer::Path(facts.clone())));
        facts
    }

    /// Mounts a file system, with options as in the last field of mountinfo.
    pub fn mount(&mut self, id: u64, at: &str, place: &str, kind: &str, source: &str, options: &str) {
        let place = place.replace(' ', "\\040");
        self.mounts += &format!("{id} 1 {at} / {place} rw,relatime shared:1 - {kind} {source} rw{options}\n");
    }

    /// Adds a file or directory on a mount.
    pub fn place(&mut self, path: &str, kind: PathKind, on: &str, mount: u64) -> PathFacts {
        let facts =
            PathFacts { canonical: path.into(), kind, dev: number(on), rdev: None, mount: Some(mount) };
        self.answers.add(LocateQuery::Path { path: path.into() }, Ok(LocateAnswer::Path(facts.clone())));
        facts
    }

    pub fn folder(&mut self, path: &str, on: &str, mount: u64) {
        self.place(path, PathKind::Directory, on, mount);
    }

    pub fn absent(&mut self, path: &str) {
        let why = LocateError::Absent(format!("path {path}"));
        self.answers.add(LocateQuery::Path { path: path.into() }, Err(why));
    }

    /// Adds a host with addresses.
    pub fn host(&mut self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().expect("an address")).collect();
        self.answers
            .add(LocateQuery::Addresses { host: name.into() }, Ok(LocateAnswer::Addresses(addresses)));
    }

    /// Adds routes to an address by interfaces with weights.
    pub fn route(&mut self, to: &str, by: &[(&str, u32)]) {
        self.host(to, &[to]);
        let to = to.parse().expect("an address");
        let way = |(interface, weight): &(&str, u32)| {
            let interface = (*interface).to_owned();
            RouteFacts { interface, gateway: None, source: None, table: 254, weight: *weight }
        };
        self.answers.add(
            LocateQuery::Routes { destination: to },
            Ok(LocateAnswer::Routes(by.iter().map(way).collect())),
        );
    }

    pub fn no_route(&mut self, to: &str) {
        self.host(to, &[to]);
        let to = to.parse().expect("an address");
        self.answers.add(LocateQuery::Routes { destination: to }, Err(LocateError::NoRoute(to)));
    }

    /// Adds open files of a process: link targets and their attributes.
    pub fn opened(&mut self, pid: u32, same_network: bool, files: &[(&str, Option<PathFacts>)]) {
        let file = |(fd, (target, facts)): (usize, &(&str, Option<PathFacts>))| OpenFile {
            fd: fd as u32,
            target: (*target).to_owned(),
            facts: facts.clone(),
        };
        let files = files.iter().enumerate().map(file).collect();
        let opened = OpenedFacts { files, same_network: Some(same_network) };
        self.answers.add(LocateQuery::Opened { pid }, Ok(LocateAnswer::Opened(opened)));
    }

    /// Returns the files with the mounts of this process, and of another one.
    pub fn complete_tree(&self) -> Tree {
        let mut tree = self.tree.clone();
        tree.link("/proc/self", "1").file("/proc/1/mountinfo", self.mounts.as_str());
        tree.file("/proc/77/mountinfo", self.mounts.as_str());
        tree
    }

    pub fn resolve(&self, handle: &str) -> Resolved {
        let handle: Handle = handle.parse().unwrap_or_else(|error| panic!("{error}"));
        let tree = self.complete_tree();
        let topology = discover(&tree);
        resolve(ResolveContext { root: &tree, locate: &self.answers, topology: &topology }, &handle)
    }

    /// Returns the chain of a handle, lines joined by semicolons.
    pub fn line(&self, handle: &str) -> String {
        self.resolve(handle).lines().join("; ")
    }

    /// Returns the rules of a handle's findings; panics if it resolves to a device.
    pub fn dead_end(&self, handle: &str) -> Vec<String> {
        let resolved = self.resolve(handle);
        assert!(resolved.devices.is_empty() && resolved.nodes.is_empty(), "{resolved:#?}");
        assert!(resolved.findings.iter().all(|finding| !finding.message.is_empty()), "{resolved:#?}");
        rules(&resolved)
    }
}

/// Returns names and shares of devices: `sda 0.5, sdb ?`.
pub fn shares(resolved: &Resolved) -> String {
    let text = |device: &NearDevice| format!("{} {}", device.name, rounded(device.share));
    resolved.devices.iter().map(text).collect::<Vec<String>>().join(", ")
}

/// Returns nodes and shares: `0 0.5, 1 ?`.
pub fn nodes(resolved: &Resolved) -> String {
    let text = |near: &NearNode| format!("{} {}", near.node, rounded(near.share));
    resolved.nodes.iter().map(text).collect::<Vec<String>>().join(", ")
}

fn rounded(share: Option<f64>) -> String {
    share.map_or_else(|| "?".to_owned(), |share| ((share * 1000.0).round() / 1000.0).to_string())
}

pub fn rules(resolved: &Resolved) -> Vec<String> {
    resolved.findings.iter().map(|finding| finding.rule.clone()).collect()
}
