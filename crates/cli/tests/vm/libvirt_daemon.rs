//! A libvirt daemon for one test, with its own configuration, state and socket.

use crate::support::{skipped, until, CommandOutput, Home, Limited};
use std::cell::RefCell;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts the daemon in a mount namespace, in which the host's libvirt is hidden. Arguments: the
/// directory of its socket, and its control groups. A hybrid hierarchy confuses libvirt.
const SCRIPT: &str = r#"
set -e
for directory in /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /run/libvirt; do
    mkdir -p $directory
    mount -t tmpfs none $directory
done
[ "$2" = '[]' ] || umount /sys/fs/cgroup/unified 2>&- || true
printf '%s\n' 'security_driver = "none"' 'user = "root"' 'group = "root"' 'stdio_handler = "file"' \
    'namespaces = []' 'remember_owner = 0' "cgroup_controllers = $2" >/etc/libvirt/qemu.conf
printf '%s\n' "unix_sock_dir = \"$1\"" 'auth_unix_rw = "none"' 'auth_unix_ro = "none"' >/etc/libvirt/libvirtd.conf
# The default user of guests must exist, although root runs these.
for file in passwd group; do
    cp /etc/$file /etc/libvirt/$file
    grep -q ^libvirt-qemu: /etc/$file || echo 'libvirt-qemu:x:64055:64055::/:/bin/false' >>/etc/libvirt/$file
    mount --bind /etc/libvirt/$file /etc/$file
done
# libvirt examines every QEMU on the path, for seconds.
mkdir "$1/bin"
ln -s /usr/bin/qemu-system-x86_64 "$1/bin"
PATH=$1/bin
exec /usr/sbin/libvirtd --config /etc/libvirt/libvirtd.conf --pid-file "$1/pid"
"#;

/// Which control groups libvirt uses for its guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlGroups {
    /// None: it pins threads one by one.
    None,
    /// A cpuset for each thread that it names, and one for all others.
    Cpuset,
}

/// A running daemon, which ends with its guests when dropped.
pub struct LibvirtDaemon<'h> {
    home: &'h Home,
    daemon: RefCell<Child>,
    uri: String,
    groups: ControlGroups,
}

impl Drop for LibvirtDaemon<'_> {
    fn drop(&mut self) {
        let running = self.virsh(&["list", "--name"]).out;
        for guest in running.split_whitespace() {
            self.virsh(&["destroy", guest]);
        }
        let daemon = self.daemon.get_mut();
        drop(daemon.kill());
        drop(daemon.wait());
        if self.groups == ControlGroups::Cpuset {
            // libvirt leaves the group of all its guests. If others have guests there, it stays.
            let remove = "rmdir /sys/fs/cgroup/cpuset/machine 2>&-";
            drop(self.home.command("sh", &["-c", remove]).limited_status());
        }
    }
}

impl<'h> LibvirtDaemon<'h> {
    /// Starts a daemon; `None` with the reason if that is impossible here.
    pub fn start(test: &str, home: &'h Home, groups: ControlGroups) -> Option<Self> {
        for program in ["/usr/sbin/libvirtd", "/usr/bin/virsh", "/usr/bin/qemu-system-x86_64"] {
            if !Path::new(program).exists() {
                skipped(format!("{test}: {program} is not installed"));
                return None;
            }
        }
        let directory = home.path("libvirt");
        std::fs::create_dir_all(&directory).expect("a folder");
        let controllers = match groups {
            ControlGroups::None => "[]",
            ControlGroups::Cpuset => r#"[ "cpuset" ]"#,
        };
        let mut command = home.command("unshare", &["-m", "--propagation", "private"]);
        command.args(["sh", "-c", SCRIPT, "libvirt", &directory, controllers]);
        let log = home.path("libvirt.log");
        let file = std::fs::File::create(&log).expect("a log");
        let daemon = match command.stdout(Stdio::null()).stderr(file).spawn() {
            Ok(daemon) => daemon,
            Err(error) => {
                skipped(format!("{test}: unshare: {error}"));
                return None;
            }
        };
        let uri = format!("qemu+unix:///system?socket={directory}/libvirt-sock");
        let found = Self { home, daemon: RefCell::new(daemon), uri, groups };
        let has_ended = || found.daemon.borrow_mut().try_wait().expect("a child").is_some();
        let is_ready = || found.virsh(&["version"]).code == Some(0);
        until(|| has_ended() || is_ready(), || "libvirtd does not answer");
        if has_ended() {
            let log = std::fs::read_to_string(&log).expect("a log");
            let why = log.trim().lines().last().unwrap_or("no message").to_owned();
            skipped(format!("{test}: libvirtd cannot run: {why}"));
            return None;
        }
        Some(found)
    }

    fn output(&self, mut command: Command) -> CommandOutput {
        command.env("LIBVIRT_DEFAULT_URI", &self.uri);
        CommandOutput::of(command.limited_output().expect("a command"))
    }

    /// Runs virsh.
    pub fn virsh(&self, args: &[&str]) -> CommandOutput {
        self.output(self.home.command("virsh", &[&["-q"], args].concat()))
    }

    /// Runs numaio, which runs virsh for this daemon.
    pub fn numaio(&self, args: &[&str]) -> CommandOutput {
        self.output(self.home.numaio(args))
    }

    /// Defines a domain, and returns libvirt's text of it.
    pub fn define(&self, name: &str, xml: &str) -> String {
        let file = self.home.file("define.xml", xml);
        let defined = self.virsh(&["define", "--validate", &file]);
        assert_eq!(defined.code, Some(0), "{}\n{xml}", defined.err);
        self.virsh(&["dumpxml", "--inactive", name]).ok()
    }

    /// Returns the rows of a table of virsh, such as that of `vcpupin`: the first and last column.
    pub fn pins(&self, command: &str, guest: &str) -> Vec<(String, String)> {
        let table = self.output(self.home.command("virsh", &[command, guest])).ok();
        let is_row = |line: &&str| !line.starts_with('-') && !line.contains("Affinity");
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let first = words.next()?.trim_end_matches(':').to_owned();
            Some((first, words.next_back()?.to_owned()))
        };
        table.lines().filter(is_row).filter_map(row).collect()
    }
}
