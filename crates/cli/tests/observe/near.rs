//! `numaio near`: on recorded machines, and on this one with real stacks where root may build them.

use crate::support::{Home, Limited, Said};
use numaio_schema::NearDocument;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn near(args: &[&str]) -> Said {
    Home::new().run(&[&["near"], args].concat())
}

#[test]
fn devices_of_a_recorded_machine() {
    let machine = ["--machine", "amd-dl585-g7"];
    let text = near(&[&machine[..], &["eth0", "nvme0n1"]].concat()).ok();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" -> ")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines.iter().all(|line| line.ends_with(" -> node 7")), "{text}");
    let explained = near(&[&machine[..], &["eth0", "--explain"]].concat()).ok();
    assert!(explained.contains("numa_node: reported by the device"), "{explained}");
    let json = near(&[&machine[..], &["eth0", "--json"]].concat()).ok();
    let document = NearDocument::from_json(&json).expect("a document");
    assert_eq!(document.handles[0].nodes[0].node.0, 7);
    assert_eq!(document.handles[0].chain[0].what, "eth0");
}

#[test]
fn what_is_unknown_or_no_handle_is_wrong_usage() {
    let machine = ["--machine", "amd-dl585-g7"];
    near(&[&machine[..], &["ethO"]].concat()).failed(2, &["there is no device \"ethO\"", "eth0"]);
    near(&["pid:x"]).failed(2, &["invalid handle", "process number"]);
    near(&["host:x:0"]).failed(2, &["invalid handle", "a port"]);
    near(&[]).failed(2, &["HANDLE"]);
}

#[test]
fn what_leads_to_no_device_says_why_and_fails() {
    let said = near(&["--machine", "amd-dl585-g7", "/data"]);
    assert_eq!(said.code, Some(1));
    assert!(said.out.contains("near-not-on-tape"), "{}", said.out);
    let said = near(&["/proc/self"]);
    assert_eq!(said.code, Some(1));
    assert!(said.out.contains("near-no-device"), "{}", said.out);
}

#[test]
fn a_tape_keeps_what_its_handles_need() {
    let home = Home::new();
    let (tape, folder) = (home.path("my.tape"), home.path(""));
    home.run(&["record", "--no-measure", "--near", &folder, "--near", "host:127.0.0.1", "-o", &tape]).ok();
    for handle in [folder.as_str(), "host:127.0.0.1"] {
        let live = home.run(&["near", handle, "--explain"]);
        let replayed = home.run(&["near", handle, "--explain", "--machine", &tape]);
        assert_eq!((live.code, live.out), (replayed.code, replayed.out));
    }
}

#[test]
fn files_of_a_process() {
    let home = Home::new();
    let path = home.file("held", "");
    let file = fs::File::open(&path).expect("the file");
    let mut child = home.command("sleep", &["100"]).stdin(Stdio::from(file)).spawn().expect("a process");
    let told = home.run(&["near", &format!("pid:{}", child.id())]);
    let own = home.run(&["near", &path]);
    drop(child.kill().and_then(|()| child.limited_status()));
    // Wherever the file lies: what its process is near to is what it is near to.
    assert_eq!(told.code, own.code, "{}{}", told.out, own.out);
    assert!(own.code == Some(1) || told.out.contains("held"), "{}", told.out);
}

// --- what only root can build -------------------------------------------------

/// Runs commands as root would, and takes back what they built.
struct Built {
    home: Home,
    undo: Vec<Vec<String>>,
}

fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

impl Built {
    fn new() -> Self {
        Self { home: Home::new(), undo: Vec::new() }
    }

    /// What a command says, or why it did not do it.
    fn run(&self, command: &str) -> Result<String, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).limited_output();
        let output = output.map_err(|error| format!("{}: {error}", words[0]))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            // Without the names that differ from run to run: reasons are counted once each.
            false => {
                Err(format!("{}: {}", words[0], text(&output.stderr).lines().next().unwrap_or_default()))
            }
        }
    }

    /// Runs a command, and one later that takes it back.
    fn build(&mut self, command: &str, undo: &str) -> Result<String, String> {
        let said = self.run(command)?;
        self.undo.push(undo.split_whitespace().map(str::to_owned).collect());
        Ok(said)
    }

    /// A file of some megabytes with holes, as a disk.
    fn image(&self, name: &str, megabytes: u64) -> String {
        let path = self.home.path(name);
        let file = fs::File::create(&path).expect("a file");
        file.set_len(megabytes << 20).expect("a hole");
        path
    }

    /// A loop device upon a file.
    fn attach(&mut self, image: &str) -> Result<String, String> {
        let device = self.run(&format!("losetup --find --show {image}"))?;
        self.undo.push(["losetup", "--detach", &device].map(str::to_owned).to_vec());
        Ok(device)
    }

    fn mount(&mut self, kind: &str, source: &str, options: &str, name: &str) -> Result<String, String> {
        let place = self.folder(name);
        self.build(&format!("mount -t {kind} -o {options} {source} {place}"), &format!("umount {place}"))?;
        Ok(place)
    }

    fn folder(&self, name: &str) -> String {
        let path = self.home.path(name);
        fs::create_dir_all(&path).expect("a folder");
        path
    }

    /// The first line of the chain of a handle, whole on one line.
    fn line(&self, handle: &str) -> String {
        self.document(&["near", handle, "--json"])
    }

    fn document(&self, args: &[&str]) -> String {
        let said = self.home.run(args);
        NearDocument::from_json(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.err)).handles[0]
            .lines()
            .join("; ")
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        for command in self.undo.iter().rev() {
            drop(Command::new(&command[0]).args(&command[1..]).limited_output());
        }
    }
}

/// Does what root may, and says why where that cannot be done here.
fn where_permitted(test: &str, build: impl FnOnce(&mut Built) -> Result<(), String>) {
    let mut built = Built::new();
    if let Err(why) = build(&mut built) {
        skip(test, &why);
    }
}

fn name_of(device: &str) -> &str {
    Path::new(device).file_name().and_then(|name| name.to_str()).expect("a name")
}

#[test]
fn a_file_system_in_a_file_in_a_file_system() {
    where_permitted("loop device", |built| {
        let image = built.image("disk.img", 16);
        built.run(&format!("mkfs.ext4 -q {image}"))?;
        let device = built.attach(&image)?;
        let place = built.mount("ext4", &device, "ro", "mounted")?;
        let (line, below) = (built.line(&place), built.line(&image));
        let wanted = format!("{place} -> ext4 on {device} -> {} -> {below}", name_of(&device));
        assert_eq!(line, wanted);
        assert_eq!(built.line(&device), format!("{device} -> {} -> {below}", name_of(&device)));
        Ok(())
    });
}

#[test]
fn a_btrfs_of_two_disks() {
    where_permitted("btrfs", |built| {
        let devices = [built.image("a.img", 128), built.image("b.img", 128)];
        let devices = [built.attach(&devices[0])?, built.attach(&devices[1])?];
        built.run(&format!("mkfs.btrfs -q -f {} {}", devices[0], devices[1]))?;
        let options = format!("device={}", devices[1]);
        let place = built.mount("btrfs", &devices[0], &options, "mounted")?;
        built.run(&format!("btrfs subvolume create {place}/sub"))?;
        let line = built.line(&format!("{place}/sub"));
        let mut names = devices.each_ref().map(|device| name_of(device));
        names.sort();
        assert!(
            line.contains(&format!(" -> btrfs on {} -> {}, {} -> ", devices[0], names[0], names[1])),
            "{line}"
        );
        Ok(())
    });
}

#[test]
fn a_linear_volume() {
    where_permitted("device mapper", |built| {
        let image = built.image("disk.img", 16);
        let device = built.attach(&image)?;
        let name = format!("numaio-{}", std::process::id());
        let table = PathBuf::from(built.home.file("table", &format!("0 2048 linear {device} 0\n")));
        let create = format!("dmsetup create {name} {}", table.display());
        built.build(&create, &format!("dmsetup remove {name}"))?;
        let line = built.line(&format!("/dev/mapper/{name}"));
        assert!(line.contains(&format!(" -> {} -> {image} -> ", name_of(&device))), "{line}");
        assert!(line.contains(" -> dm-"), "{line}");
        Ok(())
    });
}

#[test]
fn a_file_of_an_overlay() {
    where_permitted("overlay", |built| {
        // Not every file system can be the upper layer of another; one of memory can.
        let memory = built.mount("tmpfs", "tmpfs", "size=1m", "memory")?;
        for folder in ["memory/up", "memory/work", "low"] {
            built.folder(folder);
        }
        let low = built.home.file("low/x", "");
        let options =
            format!("lowerdir={},upperdir={memory}/up,workdir={memory}/work", built.home.path("low"));
        let place = built.mount("overlay", "overlay", &options, "merged")?;
        assert_eq!(
            built.line(&format!("{place}/x")),
            format!("{place}/x -> overlay on overlay -> {}", built.line(&low))
        );
        fs::write(format!("{place}/x"), "changed").expect("it is copied up");
        let line = built.line(&format!("{place}/x"));
        assert_eq!(line, format!("{place}/x -> overlay on overlay -> {memory}/up/x -> tmpfs on tmpfs"));
        Ok(())
    });
}

/// A network namespace, and numaio in it.
struct Network<'b> {
    built: &'b mut Built,
    name: String,
}

impl<'b> Network<'b> {
    fn new(built: &'b mut Built, test: &str) -> Result<Self, String> {
        let name = format!("numaio-{test}-{}", std::process::id());
        built.build(&format!("ip netns add {name}"), &format!("ip netns del {name}"))?;
        let network = Self { built, name };
        network.ip("link set lo up")?;
        Ok(network)
    }

    fn ip(&self, command: &str) -> Result<String, String> {
        self.built.run(&format!("ip -n {} {command}", self.name))
    }

    fn line(&self, handle: &str) -> String {
        let inside = ["ip", "netns", "exec", &self.name];
        let said = Said::of(
            self.built.home.command_by(&inside, &["near", handle, "--json"]).limited_output().expect("ip"),
        );
        NearDocument::from_json(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.err)).handles[0]
            .lines()
            .join("; ")
    }
}

#[test]
fn pairs_and_bridges() {
    where_permitted("bridge and veth", |built| {
        let network = Network::new(built, "bridge")?;
        network.ip("link add in0 type veth peer name out0")?;
        network.ip("link add br0 type bridge")?;
        network.ip("link set out0 master br0")?;
        assert_eq!(network.line("in0"), "in0 -> out0 -> br0");
        assert_eq!(network.line("out0"), "out0 -> br0");
        network.ip("link set out0 nomaster")?;
        assert_eq!(network.line("in0"), "in0 -> out0");
        Ok(())
    });
}

#[test]
fn interfaces_upon_interfaces() {
    where_permitted("VLAN and macvlan", |built| {
        let network = Network::new(built, "vlan")?;
        network.ip("link add in0 type veth peer name out0")?;
        network.ip("link add link in0 name in0.5 type vlan id 5")?;
        network.ip("link add link in0.5 name mv0 type macvlan")?;
        assert_eq!(network.line("mv0"), "mv0 -> in0.5 -> in0 -> out0");
        Ok(())
    });
}

#[test]
fn a_bond() {
    where_permitted("bond", |built| {
        let network = Network::new(built, "bond")?;
        for name in ["a", "b"] {
            network.ip(&format!("link add {name}0 type veth peer name {name}1"))?;
        }
        network.ip("link add bond0 type bond mode active-backup")?;
        for name in ["a0", "b0"] {
            network.ip(&format!("link set {name} master bond0"))?;
        }
        assert_eq!(network.line("bond0"), "bond0 -> a0, b0 -> a1, b1");
        Ok(())
    });
}

#[test]
fn routes_are_the_kernels_own() {
    where_permitted("routes", |built| {
        let network = Network::new(built, "route")?;
        for (name, address) in [("a", "10.1.0.2/24"), ("b", "10.2.0.2/24")] {
            network.ip(&format!("link add {name}0 type veth peer name {name}1"))?;
            network.ip(&format!("addr add {address} dev {name}0"))?;
            network.ip(&format!("link set {name}0 up"))?;
            network.ip(&format!("link set {name}1 up"))?;
        }
        network.ip("route add 10.9.0.0/24 via 10.1.0.1")?;
        network.ip("route add unreachable 10.8.0.0/24")?;
        assert_eq!(network.line("host:10.9.0.1"), "10.9.0.1 -> a0 -> a1");
        assert_eq!(network.line("host:10.2.0.2"), "10.2.0.2 -> lo", "its own address");
        assert_eq!(network.line("host:10.8.0.1"), "10.8.0.1");
        assert_eq!(network.line("host:10.7.0.1"), "10.7.0.1");
        network.ip("route add 10.6.0.0/24 nexthop via 10.1.0.1 weight 1 nexthop via 10.2.0.1 weight 3")?;
        assert_eq!(network.line("host:10.6.0.1"), "10.6.0.1 -> a0, b0 -> a1, b1");
        // A rule of policy, and one for the source address that the first table chooses.
        network.ip("route add 10.9.0.0/24 via 10.2.0.1 table 100")?;
        network.ip("rule add to 10.9.0.128/25 lookup 100")?;
        assert_eq!(network.line("host:10.9.0.129"), "10.9.0.129 -> b0 -> b1");
        assert_eq!(network.line("host:10.9.0.1"), "10.9.0.1 -> a0 -> a1");
        network.ip("rule add from 10.1.0.2 to 10.9.0.1 lookup 100")?;
        assert_eq!(network.line("host:10.9.0.1"), "10.9.0.1 -> b0 -> b1");
        network.ip("-6 addr add fd01::2/64 dev a0 nodad")?;
        network.ip("-6 route add fd09::/64 via fd01::1")?;
        assert_eq!(network.line("host:[fd09::1]:80"), "fd09::1 -> a0 -> a1");
        Ok(())
    });
}
