//! Where this process runs: on the machine itself, in a virtual machine, in a container.
//!
//! Remedies depend on it: a hypervisor decides what a guest sees, and a container runtime which
//! CPUs and memory a container gets.

mod guest_platform;

pub use guest_platform::GuestPlatform;

use crate::sysfs::{Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};

/// Where this process runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Surroundings {
    /// Whether the kernel runs under a hypervisor.
    pub virtual_machine: bool,
    /// The hypervisor or cloud, in a virtual machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<GuestPlatform>,
    /// The container runtime, if this is a container: `docker`, `kubernetes`, `lxc`, `podman`, or
    /// `container` for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

/// Parts of a control group's path or of a mount's source that identify a runtime. Kubernetes comes
/// first, since it runs containers of other runtimes.
const MARKS: [(&str, &str); 10] = [
    ("kubepods", "kubernetes"),
    ("/kubelet/pods/", "kubernetes"),
    ("/docker/", "docker"),
    ("/docker-", "docker"),
    ("/libpod-", "podman"),
    ("/overlay-containers/", "podman"),
    ("/lxc/", "lxc"),
    ("/lxc.payload", "lxc"),
    ("/machine.slice/systemd-nspawn@", "systemd-nspawn"),
    ("/containerd/", "containerd"),
];

/// Mount points of LXC, LXD and Incus.
const LXC_POINTS: [&str; 4] = ["/dev/.lxc", "/dev/.lxd-mounts", "/dev/lxd", "/dev/incus"];

impl Surroundings {
    /// Returns a remedy of the machine itself, or of a virtual machine: a change of its description
    /// (without full stop), with how to make it in libvirt and QEMU or where else.
    pub(crate) fn remedy(&self, of_machine: &str, of_guest: &str, in_libvirt: &str) -> String {
        if !self.virtual_machine {
            return of_machine.to_owned();
        }
        match self.hypervisor.and_then(GuestPlatform::configured_in) {
            None => format!("{of_guest} ({in_libvirt})."),
            Some(place) => format!("{of_guest}: {place}."),
        }
    }

    /// Reads the surroundings; `features` are the CPU features of /proc/cpuinfo.
    pub fn read(root: &dyn Sysfs, features: &[String]) -> Self {
        let hypervisor = GuestPlatform::find(root, features);
        Self { virtual_machine: hypervisor.is_some(), hypervisor, container: container(root) }
    }
}

/// Returns the container runtime.
///
/// Sources are the control group, and the mounts that runtimes add: lxcfs, directories below /dev,
/// and files such as /etc/hosts from their own directories. The environment of init would also
/// name the runtime, but it contains secrets, which must not get into recordings.
fn container(root: &dyn Sysfs) -> Option<String> {
    let cgroup = root.optional("/proc/self/cgroup").unwrap_or_default();
    let mounts = root.optional("/proc/self/mountinfo").unwrap_or_default();
    let point = |line: &str| line.split(' ').nth(4).unwrap_or_default().to_owned();
    let is_lxc = |line: &str| line.contains(" - fuse.lxcfs ") || LXC_POINTS.contains(&point(line).as_str());
    if mounts.lines().any(is_lxc) {
        return Some("lxc".to_owned());
    }
    // On the host, mounts of containers are visible below the runtime's directory; inside, only
    // the container's own are, on files below /etc and /dev.
    let own = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (source, point) = (fields.next()?, fields.next()?);
        (point.starts_with("/etc/") || point.starts_with("/dev/")).then_some(source)
    });
    let texts: Vec<&str> = cgroup.lines().chain(own).collect();
    let mark = MARKS.iter().find(|(mark, _)| texts.iter().any(|text| text.contains(mark)));
    let on_overlay = || {
        let is_root = |line: &str| line.split(' ').nth(4) == Some("/") && line.contains(" - overlay ");
        mounts.lines().any(is_root) && root.optional("/proc/2/comm").as_deref() != Some("kthreadd")
    };
    mark.map(|(_, name)| (*name).to_owned()).or_else(|| on_overlay().then(|| "container".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn of(files: &[(&str, &str)]) -> Option<String> {
        let mut tree = Tree::new();
        for (path, text) in files {
            tree.file(path, *text);
        }
        Surroundings::read(&tree, &[]).container
    }

    #[test]
    fn identifies_container_runtimes() {
        let cgroup = "/proc/self/cgroup";
        let mounts = "/proc/self/mountinfo";
        assert_eq!(of(&[]), None);
        let incus = "9 8 0:50 / /dev/incus rw - tmpfs tmpfs rw\n";
        assert_eq!(of(&[(mounts, incus)]).as_deref(), Some("lxc"));
        assert_eq!(of(&[(cgroup, "0::/system.slice/docker-5f.scope\n")]).as_deref(), Some("docker"));
        let pod = "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope\n";
        assert_eq!(of(&[(cgroup, pod)]).as_deref(), Some("kubernetes"));
        let hosts = "9 8 254:1 /var/lib/docker/containers/ab/hosts /etc/hosts rw - ext4 /dev/vda1 rw\n";
        assert_eq!(of(&[(cgroup, "0::/\n"), (mounts, hosts)]).as_deref(), Some("docker"));
        let lxcfs = "9 8 0:50 /proc/stat /proc/stat rw - fuse.lxcfs lxcfs rw\n";
        assert_eq!(of(&[(mounts, lxcfs)]).as_deref(), Some("lxc"));
        let overlay = "1 0 0:40 / / rw - overlay overlay rw\n";
        assert_eq!(of(&[(mounts, overlay)]).as_deref(), Some("container"));
        // A live image has an overlay as its root, and kernel threads.
        assert_eq!(of(&[(mounts, overlay), ("/proc/2/comm", "kthreadd\n")]), None);
    }

    /// A host sees the mounts of its containers.
    #[test]
    fn host_of_containers_is_not_a_container() {
        let mounts = "9 8 0:50 / /var/lib/docker/overlay2/ab/merged rw - overlay overlay rw\n\
            9 8 0:51 / /run/netns/x rw - nsfs nsfs rw\n";
        assert_eq!(of(&[("/proc/self/cgroup", "0::/user.slice\n"), ("/proc/self/mountinfo", mounts)]), None);
    }

    #[test]
    fn ignores_an_empty_hypervisor_directory() {
        let mut tree = Tree::new();
        tree.dir("/sys/hypervisor");
        assert!(!Surroundings::read(&tree, &[]).virtual_machine);
        tree.file("/sys/hypervisor/type", "xen\n");
        assert!(Surroundings::read(&tree, &[]).virtual_machine);
    }
}
