//! `numaio near` on recorded machines, and on this one with device stacks that need root.

use crate::support::{CommandOutput, Home, Limited};
use numaio_schema::NearDocument;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn near(args: &[&str]) -> CommandOutput {
    Home::new().run(&[&["near"], args].concat())
}

/// Returns the chain of the first handle on one line.
fn chain(output: &CommandOutput) -> String {
    let document = NearDocument::from_json(&output.out);
    let document = document.unwrap_or_else(|error| panic!("{error}: {}", output.err));
    document.handles[0].lines().join("; ")
}

#[test]
fn resolves_devices_of_a_recorded_machine() {
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
    assert_eq!(document.handles[0].chain[0].name, "eth0");
}

#[test]
fn unknown_or_invalid_handle_is_wrong_usage() {
    let machine = ["--machine", "amd-dl585-g7"];
    near(&[&machine[..], &["ethO"]].concat()).failed(2, &["there is no device \"ethO\"", "eth0"]);
    near(&["pid:x"]).failed(2, &["invalid handle", "process number"]);
    near(&["host:x:0"]).failed(2, &["invalid handle", "a port"]);
    near(&[]).failed(2, &["HANDLE"]);
}

#[test]
fn reports_why_a_handle_has_no_device() {
    let output = near(&["--machine", "amd-dl585-g7", "/data"]);
    assert_eq!(output.code, Some(1));
    assert!(output.out.contains("near-not-on-tape"), "{}", output.out);
    let output = near(&["/proc/self"]);
    assert_eq!(output.code, Some(1));
    assert!(output.out.contains("near-not-followed"), "{}", output.out);
}

#[test]
fn tape_replays_its_recorded_handles() {
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
fn resolves_open_files_of_a_process() {
    let home = Home::new();
    let path = home.file("held", "");
    let file = fs::File::open(&path).expect("the file");
    let mut child = home.command("sleep", &["100"]).stdin(Stdio::from(file)).spawn().expect("a process");
    let by_process = home.run(&["near", &format!("pid:{}", child.id())]);
    let by_path = home.run(&["near", &path]);
    drop(child.kill().and_then(|()| child.limited_status()));
    // The process and its file lead to the same device, if any.
    assert_eq!(by_process.code, by_path.code, "{}{}", by_process.out, by_path.out);
    assert!(by_path.code == Some(1) || by_process.out.contains("held"), "{}", by_process.out);
}

// --- device stacks that need root ---

/// Device stacks set up by root; drop undoes the commands.
struct DeviceStack {
    home: Home,
    undo: Vec<Vec<String>>,
}

fn print_skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

impl DeviceStack {
    fn new() -> Self {
        Self { home: Home::new(), undo: Vec::new() }
    }

    /// Runs a command and returns its output, or its error.
    fn run(&self, command: &str) -> Result<String, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).limited_output();
        let output = output.map_err(|error| format!("{}: {error}", words[0]))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            // Reasons are counted once each, so they omit names that change between runs.
            false => {
                Err(format!("{}: {}", words[0], text(&output.stderr).lines().next().unwrap_or_default()))
            }
        }
    }

    /// Runs a command, and registers the command that undoes it.
    fn build(&mut self, command: &str, undo: &str) -> Result<String, String> {
        let output = self.run(command)?;
        self.undo.push(undo.split_whitespace().map(str::to_owned).collect());
        Ok(output)
    }

    /// Creates a sparse file as a disk image.
    fn image(&self, name: &str, megabytes: u64) -> String {
        let path = self.home.path(name);
        let file = fs::File::create(&path).expect("a file");
        file.set_len(megabytes << 20).expect("a hole");
        path
    }

    /// Attaches a loop device to an image.
    fn attach(&mut self, image: &str) -> Result<String, String> {
        let device = self.run(&format!("losetup --find --show {image}"))?;
        self.undo.push(["losetup", "--detach", &device].map(str::to_owned).to_vec());
        Ok(device)
    }

    fn mount(&mut self, kind: &str, source: &str, options: &str, name: &str) -> Result<String, String> {
        let target = self.directory(name);
        self.build(&format!("mount -t {kind} -o {options} {source} {target}"), &format!("umount {target}"))?;
        Ok(target)
    }

    fn directory(&self, name: &str) -> String {
        let path = self.home.path(name);
        fs::create_dir_all(&path).expect("a folder");
        path
    }

    /// Returns the chain of a handle on one line.
    fn line(&self, handle: &str) -> String {
        chain(&self.home.run(&["near", handle, "--json"]))
    }
}

impl Drop for DeviceStack {
    fn drop(&mut self) {
        for command in self.undo.iter().rev() {
            drop(Command::new(&command[0]).args(&command[1..]).limited_output());
        }
    }
}

/// Runs a test that needs root, and reports why if it is not possible here.
fn with_device_stack(test: &str, build: impl FnOnce(&mut DeviceStack) -> Result<(), String>) {
    let mut stack = DeviceStack::new();
    if let Err(reason) = build(&mut stack) {
        print_skip(test, &reason);
    }
}

fn device_name(device: &str) -> &str {
    Path::new(device).file_name().and_then(|name| name.to_str()).expect("a name")
}

#[test]
fn resolves_a_loop_mounted_file_system() {
    with_device_stack("loop device", |stack| {
        let image = stack.image("disk.img", 16);
        stack.run(&format!("mkfs.ext4 -q {image}"))?;
        let device = stack.attach(&image)?;
        let mounted = stack.mount("ext4", &device, "ro", "mounted")?;
        let (line, below) = (stack.line(&mounted), stack.line(&image));
        let expected = format!("{mounted} -> ext4 on {device} -> {} -> {below}", device_name(&device));
        assert_eq!(line, expected);
        assert_eq!(stack.line(&device), format!("{device} -> {} -> {below}", device_name(&device)));
        Ok(())
    });
}

#[test]
fn resolves_btrfs_on_two_disks() {
    with_device_stack("btrfs", |stack| {
        let devices = [stack.image("a.img", 128), stack.image("b.img", 128)];
        let devices = [stack.attach(&devices[0])?, stack.attach(&devices[1])?];
        stack.run(&format!("mkfs.btrfs -q -f {} {}", devices[0], devices[1]))?;
        let options = format!("device={}", devices[1]);
        let mounted = stack.mount("btrfs", &devices[0], &options, "mounted")?;
        stack.run(&format!("btrfs subvolume create {mounted}/sub"))?;
        let line = stack.line(&format!("{mounted}/sub"));
        let mut names = devices.each_ref().map(|device| device_name(device));
        names.sort();
        assert!(
            line.contains(&format!(" -> btrfs on {} -> {}, {} -> ", devices[0], names[0], names[1])),
            "{line}"
        );
        Ok(())
    });
}

#[test]
fn resolves_a_linear_device_mapper_volume() {
    with_device_stack("device mapper", |stack| {
        let image = stack.image("disk.img", 16);
        let device = stack.attach(&image)?;
        let name = format!("numaio-{}", std::process::id());
        let table = PathBuf::from(stack.home.file("table", &format!("0 2048 linear {device} 0\n")));
        let create = format!("dmsetup create {name} {}", table.display());
        stack.build(&create, &format!("dmsetup remove {name}"))?;
        let line = stack.line(&format!("/dev/mapper/{name}"));
        assert!(line.contains(&format!(" -> {} -> {image} -> ", device_name(&device))), "{line}");
        assert!(line.contains(" -> dm-"), "{line}");
        Ok(())
    });
}

#[test]
fn resolves_a_file_of_an_overlay() {
    with_device_stack("overlay", |stack| {
        // The upper layer of an overlay needs a suitable file system, such as tmpfs.
        let memory = stack.mount("tmpfs", "tmpfs", "size=1m", "memory")?;
        for directory in ["memory/up", "memory/work", "low"] {
            stack.directory(directory);
        }
        let low = stack.home.file("low/x", "");
        let options =
            format!("lowerdir={},upperdir={memory}/up,workdir={memory}/work", stack.home.path("low"));
        let mounted = stack.mount("overlay", "overlay", &options, "merged")?;
        assert_eq!(
            stack.line(&format!("{mounted}/x")),
            format!("{mounted}/x -> overlay on overlay -> {}", stack.line(&low))
        );
        fs::write(format!("{mounted}/x"), "changed").expect("a copy in the upper layer");
        let line = stack.line(&format!("{mounted}/x"));
        assert_eq!(line, format!("{mounted}/x -> overlay on overlay -> {memory}/up/x -> tmpfs on tmpfs"));
        Ok(())
    });
}

/// A network namespace in which numaio runs.
struct Network<'b> {
    stack: &'b mut DeviceStack,
    name: String,
}

impl<'b> Network<'b> {
    fn new(stack: &'b mut DeviceStack, test: &str) -> Result<Self, String> {
        let name = format!("numaio-{test}-{}", std::process::id());
        stack.build(&format!("ip netns add {name}"), &format!("ip netns del {name}"))?;
        let network = Self { stack, name };
        network.ip("link set lo up")?;
        Ok(network)
    }

    fn ip(&self, command: &str) -> Result<String, String> {
        self.stack.run(&format!("ip -n {} {command}", self.name))
    }

    fn line(&self, handle: &str) -> String {
        let inside = ["ip", "netns", "exec", &self.name];
        let output = CommandOutput::of(
            self.stack.home.command_by(&inside, &["near", handle, "--json"]).limited_output().expect("ip"),
        );
        chain(&output)
    }
}

#[test]
fn resolves_veth_pairs_and_bridges() {
    with_device_stack("bridge and veth", |stack| {
        let network = Network::new(stack, "bridge")?;
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
fn resolves_vlan_and_macvlan() {
    with_device_stack("VLAN and macvlan", |stack| {
        let network = Network::new(stack, "vlan")?;
        network.ip("link add in0 type veth peer name out0")?;
        network.ip("link add link in0 name in0.5 type vlan id 5")?;
        network.ip("link add link in0.5 name mv0 type macvlan")?;
        assert_eq!(network.line("mv0"), "mv0 -> in0.5 -> in0 -> out0");
        Ok(())
    });
}

#[test]
fn resolves_a_bond() {
    with_device_stack("bond", |stack| {
        let network = Network::new(stack, "bond")?;
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
fn follows_routes_of_the_kernel() {
    with_device_stack("routes", |stack| {
        let network = Network::new(stack, "route")?;
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
        // A policy rule, and one for the source address that the first table chooses.
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
