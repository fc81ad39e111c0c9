//! Control groups of processes: their names, cpusets and I/O by device
//! (`Documentation/admin-guide/cgroup-v2.rst`).

use crate::locate::DeviceNumber;
use crate::set::{CpuSet, NodeSet};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::cgroup::{Group, Groups};
use std::collections::BTreeMap;

/// Maximum length of the path of a group.
const MAX_PATH: usize = 4096;

/// CPUs and nodes that the control group of a process allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupLimits {
    /// CPUs; `None` without a cpuset.
    pub cpus: Option<CpuSet>,
    /// Nodes; `None` without a cpuset.
    pub nodes: Option<NodeSet>,
}

/// Returns the path of the control group of a process, such as `/system.slice/nginx.service`;
/// `None` if the process ended.
pub fn control_group(root: &dyn Sysfs, pid: u32) -> Option<String> {
    parse_control_group(&root.optional(&format!("/proc/{pid}/cgroup"))?)
}

/// Parses `/proc/PID/cgroup`: the path of version 2, else that of `name=systemd`, else the longest.
fn parse_control_group(text: &str) -> Option<String> {
    let paths = || {
        text.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            (path.starts_with('/') && path.len() <= MAX_PATH).then_some((controllers, path))
        })
    };
    let of = |wanted: &str| paths().find(|(controllers, path)| *controllers == wanted && path.len() > 1);
    let found = of("").or_else(|| of("name=systemd")).or_else(|| paths().max_by_key(|(_, path)| path.len()));
    found.map(|(_, path)| path.to_owned())
}

/// Returns the systemd unit of a control group: its last part that names a service or scope.
pub fn unit_of(group: &str) -> Option<&str> {
    let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
    group.rsplit('/').find(is_unit)
}

/// Returns whether a control group is the other one or below it; `part` may omit the leading
/// slash.
pub fn is_in_group(group: &str, part: &str) -> bool {
    let (group, part) = (group.trim_matches('/'), part.trim_matches('/'));
    part.is_empty() || group == part || group.strip_prefix(part).is_some_and(|rest| rest.starts_with('/'))
}

/// Reads the cpuset of a process's control group: that of the nearest group that has one.
pub fn group_limits(root: &dyn Sysfs, pid: u32) -> GroupLimits {
    let Some(group) = Groups::of_process(root, &pid.to_string()).of("cpuset") else {
        return GroupLimits::default();
    };
    let read = |of: &str| effective(root, &group, of);
    GroupLimits {
        cpus: read("cpus").and_then(|list| CpuSet::parse_list(&list).ok()).filter(|cpus| !cpus.is_empty()),
        nodes: read("mems")
            .and_then(|list| NodeSet::parse_list(&list).ok())
            .filter(|nodes| !nodes.is_empty()),
    }
}

fn effective(root: &dyn Sysfs, group: &Group, of: &str) -> Option<String> {
    let file = match group.v2 {
        true => format!("cpuset.{of}.effective"),
        false => format!("cpuset.effective_{of}"),
    };
    group.directories.iter().find_map(|directory| root.optional(&format!("{directory}/{file}")))
}

/// Bytes that a control group read and wrote on each device.
pub type GroupIo = BTreeMap<DeviceNumber, (u64, u64)>;

/// Reads the I/O of a process's control group by device; empty without the controller `io`.
pub fn group_io(root: &dyn Sysfs, pid: u32) -> GroupIo {
    let Some(group) = Groups::of_process(root, &pid.to_string()).of("io").filter(|group| group.v2) else {
        return GroupIo::new();
    };
    let directory = group.directories.first();
    let text = directory.and_then(|directory| root.optional(&format!("{directory}/io.stat")));
    text.map(|text| parse_io_stat(&text)).unwrap_or_default()
}

/// Parses `io.stat`: lines such as `8:0 rbytes=1 wbytes=2 rios=3 ...`.
pub fn parse_io_stat(text: &str) -> GroupIo {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (major, minor) = fields.next()?.split_once(':')?;
        let number = DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? };
        let mut bytes = (0, 0);
        for field in fields {
            match field.split_once('=') {
                Some(("rbytes", count)) => bytes.0 = count.parse().ok()?,
                Some(("wbytes", count)) => bytes.1 = count.parse().ok()?,
                _ => {}
            }
        }
        Some((number, bytes))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::CpuId;
    use crate::tree::Tree;
    use proptest::prelude::*;

    #[test]
    fn finds_group_unit_and_cpuset_of_a_process() {
        let mut tree = Tree::new();
        tree.file("/proc/7/cgroup", "0::/system.slice/db.service/worker\n");
        tree.file("/sys/fs/cgroup/system.slice/db.service/cpuset.cpus.effective", "4-7\n");
        tree.file("/sys/fs/cgroup/system.slice/db.service/cpuset.mems.effective", "1\n");
        tree.file(
            "/sys/fs/cgroup/system.slice/db.service/worker/io.stat",
            "8:0 rbytes=5 wbytes=6 rios=1\nx\n",
        );
        let group = control_group(&tree, 7).expect("a group");
        assert_eq!(unit_of(&group), Some("db.service"));
        assert!(is_in_group(&group, "system.slice") && is_in_group(&group, "/system.slice/db.service/"));
        assert!(!is_in_group(&group, "/system.slice/db") && !is_in_group(&group, "user.slice"));
        let limits = group_limits(&tree, 7);
        assert!(limits.cpus.is_some_and(|cpus| cpus.len() == 4 && cpus.contains(CpuId(7))));
        assert_eq!(limits.nodes.map(|nodes| nodes.to_string()), Some("1".to_owned()));
        let io = group_io(&tree, 7);
        assert_eq!(io.get(&DeviceNumber { major: 8, minor: 0 }), Some(&(5, 6)));
        assert_eq!((control_group(&tree, 8), group_limits(&tree, 8)), (None, GroupLimits::default()));
    }

    #[test]
    fn version_1_groups_are_named_by_systemd() {
        let text = "11:cpuset:/\n1:name=systemd:/user.slice/run-1.scope\n0::/\n";
        assert_eq!(parse_control_group(text).as_deref(), Some("/user.slice/run-1.scope"));
        assert_eq!(parse_control_group("4:memory:/a\n0::/\n").as_deref(), Some("/a"));
        assert_eq!(parse_control_group("no group"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parsers_never_panic(text in "(\\PC|[0-9:=\n ]){0,200}") {
            let _ = (parse_control_group(&text), parse_io_stat(&text), unit_of(&text), is_in_group(&text, &text));
        }
    }
}
