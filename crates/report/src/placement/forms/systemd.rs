//! Formats placements as drop-ins for systemd services (systemd.exec(5): CPUAffinity=, NUMAPolicy=,
//! NUMAMask=).

use super::comment;
use super::memory::{PolicySupport, ToolPolicy, NUMACTL};
use numaio_schema::PlacementPlan;

/// `preferred` requires a mask of exactly one node (systemd, `numa_policy_is_valid`).
const SYSTEMD: PolicySupport =
    PolicySupport { name: "systemd", binds: true, prefers: true, interleaves: true, remedy: NUMACTL };

/// Formats a `[Service]` section for each task, a separate drop-in, under a comment with its file
/// name.
pub fn systemd(plan: &PlacementPlan) -> String {
    let (policies, notes) = SYSTEMD.translate_all(plan);
    let mut lines = comment::lines(plan, notes);
    if plan.tasks.len() > 1 {
        lines.push("One drop-in per task: save each section in a separate file".to_owned());
    }
    let mut text = comment::hashed(&lines);
    for (index, (task, policies)) in plan.tasks.iter().zip(policies).enumerate() {
        let name = comment::task_name(plan, index, task);
        let unit = if plan.tasks.len() > 1 { format!("NAME@{index}") } else { "NAME".to_owned() };
        // Lists accumulate over files; an empty assignment resets them.
        text += &format!(
            "\n# {name}: /etc/systemd/system/{unit}.service.d/numaio.conf\n[Service]\nCPUAffinity=\nCPUAffinity={}\n{}",
            task.cpus,
            memory(&policies)
        );
    }
    text
}

fn memory(policies: &ToolPolicy) -> String {
    let (policy, nodes) = match policies {
        ToolPolicy::Bind(nodes) => ("bind", nodes),
        ToolPolicy::Prefer(nodes) => ("preferred", nodes),
        ToolPolicy::Interleave(nodes) => ("interleave", nodes),
        ToolPolicy::Local => return "NUMAPolicy=local\nNUMAMask=\n".to_owned(),
    };
    format!("NUMAPolicy={policy}\nNUMAMask=\nNUMAMask={nodes}\n")
}
