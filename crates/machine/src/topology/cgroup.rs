//! Control groups of processes
//! (`Documentation/admin-guide/cgroup-v2.rst`, `Documentation/admin-guide/cgroup-v1/`).

use crate::sysfs::{Sysfs, SysfsExt};

/// Maximum nesting of groups.
const MAX_DEPTH: usize = 64;

/// A mounted hierarchy of control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    /// The group visible at the mount point.
    group: String,
    /// The mount point.
    point: String,
    /// Whether it is version 2.
    v2: bool,
    /// Controllers of version 1.
    controllers: Vec<String>,
}

/// The group of a process in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its path, as reported by the kernel: `/user.slice`.
    pub path: String,
    /// Whether its hierarchy is version 2.
    pub v2: bool,
    /// Directories of the group and its ancestors, nearest first.
    pub directories: Vec<String>,
}

/// All control groups of a process.
#[derive(Debug)]
pub(crate) struct Groups {
    mounts: Vec<Mount>,
    /// (controllers, path); no controllers for version 2.
    memberships: Vec<(Vec<String>, String)>,
}

impl Groups {
    /// Reads mounts and memberships of this process.
    pub fn read(root: &dyn Sysfs) -> Self {
        Self::of_process(root, "self")
    }

    /// Reads the mounts of this process, and the memberships of another one, named as in /proc.
    pub fn of_process(root: &dyn Sysfs, process: &str) -> Self {
        let mounts = ["/proc/self/mountinfo", "/proc/self/mounts", "/proc/mounts"].iter().find_map(|path| {
            let text = root.optional(path)?;
            Some(if path.ends_with("mountinfo") { parse_mountinfo(&text) } else { parse_mounts(&text) })
        });
        let memberships = match root.optional(&format!("/proc/{process}/cgroup")) {
            Some(text) => parse_memberships(&text),
            // On old kernels, or without the other file in a recording: the cpuset group, of either
            // version.
            None => root
                .optional(&format!("/proc/{process}/cpuset"))
                .filter(|path| path.starts_with('/'))
                .map(|path| vec![(vec!["cpuset".to_owned()], path.clone()), (Vec::new(), path)])
                .unwrap_or_default(),
        };
        Self { mounts: mounts.unwrap_or_else(usual_mounts), memberships }
    }

    /// Returns the group of a version 1 controller, or else the version 2 group.
    pub fn of(&self, controller: &str) -> Option<Group> {
        let member = |(controllers, path): &(Vec<String>, String)| {
            let v2 = controllers.is_empty();
            let fits = v2 || controllers.iter().any(|name| name == controller);
            let mount = self.mounts.iter().find(|mount| {
                fits && mount.v2 == v2 && (v2 || mount.controllers.iter().any(|name| name == controller))
            })?;
            Some(Group { path: path.clone(), v2, directories: mount.directories(path) })
        };
        let v1 = self.memberships.iter().filter(|(controllers, _)| !controllers.is_empty()).find_map(member);
        v1.or_else(|| {
            self.memberships.iter().filter(|(controllers, _)| controllers.is_empty()).find_map(member)
        })
    }
}

impl Mount {
    /// Returns the directories of a group and its ancestors up to the mount point, nearest first.
    fn directories(&self, path: &str) -> Vec<String> {
        let group = self.group.trim_end_matches('/');
        // Inside a container, the path can start above the mounted group or outside of it
        // (`/../..`).
        let below = match path.strip_prefix(group) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            _ => path,
        };
        let point = self.point.trim_end_matches('/');
        let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).take(MAX_DEPTH).collect();
        if parts.contains(&"..") {
            return vec![point.to_owned()];
        }
        let depths = (0..=parts.len()).rev();
        depths
            .map(|depth| {
                std::iter::once(point).chain(parts[..depth].iter().copied()).collect::<Vec<_>>().join("/")
            })
            .collect()
    }
}

/// Returns systemd's default mount points, for machines with unknown mounts.
fn usual_mounts() -> Vec<Mount> {
    let mount = |point: &str, v2: bool, controller: &str| Mount {
        group: "/".to_owned(),
        point: point.to_owned(),
        v2,
        controllers: if v2 { Vec::new() } else { vec![controller.to_owned()] },
    };
    vec![
        mount("/sys/fs/cgroup", true, ""),
        mount("/sys/fs/cgroup/cpuset", false, "cpuset"),
        mount("/sys/fs/cgroup/memory", false, "memory"),
    ]
}

/// Parses /proc/self/cgroup: lines of `ID:CONTROLLERS:PATH` (`cgroups(7)`); `0::PATH` is version 2.
fn parse_memberships(text: &str) -> Vec<(Vec<String>, String)> {
    let line = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let controllers = controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        path.starts_with('/').then(|| (controllers, path.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

/// Parses /proc/self/mountinfo (`Documentation/filesystems/proc.rst`, 3.5).
fn parse_mountinfo(text: &str) -> Vec<Mount> {
    let line = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (group, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, _source, options) = (after.next()?, after.next()?, after.next()?);
        mount(group, point, kind, options)
    };
    text.lines().filter_map(line).collect()
}

/// Parses /proc/mounts (`fstab(5)`): source, mount point, type, options.
fn parse_mounts(text: &str) -> Vec<Mount> {
    let line = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        mount("/", point, kind, options)
    };
    text.lines().filter_map(line).collect()
}

fn mount(group: &str, point: &str, kind: &str, options: &str) -> Option<Mount> {
    let controllers = match kind {
        "cgroup2" => Vec::new(),
        "cgroup" => options.split(',').map(str::to_owned).collect(),
        "cpuset" => vec!["cpuset".to_owned()],
        _ => return None,
    };
    Some(Mount { group: unescaped(group), point: unescaped(point), v2: kind == "cgroup2", controllers })
}

/// Decodes octal escapes of spaces, tabs, line ends and backslashes: `\040`.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn a_group_of_version_2_has_those_above_it() {
        let mut tree = Tree::new();
        tree.file("/proc/self/cgroup", "0::/a/b\n").file(
            "/proc/self/mountinfo",
            "25 20 0:22 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        );
        let group = Groups::read(&tree).of("memory").expect("a group");
        assert_eq!((group.path.as_str(), group.v2), ("/a/b", true));
        assert_eq!(group.directories, ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]);
    }

    #[test]
    fn version_1_wins_for_a_controller_that_is_there() {
        let mut tree = Tree::new();
        tree.file("/proc/self/cgroup", "4:cpuset,cpu:/jobs/7\n0::/x\n").file(
            "/proc/mounts",
            "none /dev/cpu\\040set cgroup rw,relatime,cpuset,noprefix 0 0\ncgroup2 /unified cgroup2 rw 0 0\n",
        );
        let groups = Groups::read(&tree);
        let cpuset = groups.of("cpuset").expect("a group");
        assert_eq!((cpuset.v2, cpuset.directories[0].as_str()), (false, "/dev/cpu set/jobs/7"));
        assert_eq!(groups.of("memory").expect("a group").directories, ["/unified/x", "/unified"]);
    }

    #[test]
    fn finds_group_directories_inside_a_container() {
        let mount = Mount { group: "/docker/c".into(), point: "/cg".into(), v2: true, controllers: vec![] };
        assert_eq!(mount.directories("/docker/c/in"), ["/cg/in", "/cg"]);
        assert_eq!(mount.directories("/docker/c"), ["/cg"]);
        assert_eq!(mount.directories("/docker/cd"), ["/cg/docker/cd", "/cg/docker", "/cg"]);
        assert_eq!(mount.directories("/../.."), ["/cg"]);
    }
}
