//! NVMe drives with several controllers (`Documentation/admin-guide/nvme-multipath.rst`).

use super::shell::word;
use super::symptom::{Effect, Fix, Symptom};
use crate::finding::{Finding, Severity};
use crate::set::NodeSet;
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::Topology;

const SUBSYSTEMS: &str = "/sys/class/nvme-subsystem";

pub(super) fn symptoms(root: &dyn Sysfs, topology: &Topology) -> Vec<Symptom> {
    root.names(SUBSYSTEMS).iter().filter_map(|name| symptom(root, topology, name)).collect()
}

/// Reports a drive whose paths are on several nodes and are used in turn, whatever node asks.
fn symptom(root: &dyn Sysfs, topology: &Topology, name: &str) -> Option<Symptom> {
    let file = format!("{SUBSYSTEMS}/{name}/iopolicy");
    let policy = root.optional(&file)?;
    if !matches!(policy.as_str(), "round-robin" | "queue-depth") {
        return None;
    }
    let is_controller = |name: &String| {
        let rest = name.strip_prefix("nvme").unwrap_or_default();
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())
    };
    let controllers: Vec<String> =
        root.names(&format!("{SUBSYSTEMS}/{name}")).into_iter().filter(is_controller).collect();
    let node = |controller: &String| {
        // A controller that is reconnected or removed carries nothing.
        let state = root.optional(&format!("{SUBSYSTEMS}/{name}/{controller}/state"));
        state.is_none_or(|state| state == "live").then_some(())?;
        let device = topology.devices.iter().find(|device| device.has_name(controller))?;
        device.locality.node
    };
    let nodes: NodeSet = controllers.iter().filter_map(node).collect();
    (nodes.len() > 1).then(|| Symptom {
        finding: Finding::new(
            Severity::Note,
            "nvme-iopolicy",
            name,
            format!(
                "Its controllers {} are on nodes {nodes}, and {policy} uses all of them for requests of every node.",
                controllers.join(", ")
            ),
            format!("{file}: {policy}"),
            "Let each node use its nearest controller, unless one path alone is too slow.",
        ),
        device: None,
        target: None,
        effect: Effect::Unquantified("measure the drive from every node with both policies: numaio bench disk".to_owned()),
        fix: Fix::one(
            format!("echo numa > {SUBSYSTEMS}/{}/iopolicy", word(name)),
            format!("echo {policy} > {SUBSYSTEMS}/{}/iopolicy", word(name)),
        ),
    })
}
