//! Formats placements as a job file of fio(1): cpus_allowed, numa_mem_policy.

use super::comment;
use super::memory::{PolicySupport, ToolPolicy};
use numaio_schema::PlacementPlan;

/// `prefer` accepts one node (fio, HOWTO, "numa_mem_policy").
const FIO: PolicySupport =
    PolicySupport { name: "fio", binds: true, prefers: true, interleaves: true, remedy: "" };

/// Formats a job for each task. I/O options are given on the command line, before the file name,
/// for all jobs.
pub fn fio(plan: &PlacementPlan) -> String {
    let (policies, notes) = FIO.translate_all(plan);
    let mut lines = comment::lines(plan, notes);
    lines.push(
        "Run 'fio OPTIONS FILE', or add OPTIONS in a [global] section above; they apply to all jobs"
            .to_owned(),
    );
    let mut text = comment::hashed(&lines);
    for (index, (task, policies)) in plan.tasks.iter().zip(policies).enumerate() {
        let policy = match policies {
            ToolPolicy::Bind(nodes) => format!("bind:{nodes}"),
            ToolPolicy::Prefer(nodes) => format!("prefer:{nodes}"),
            ToolPolicy::Interleave(nodes) => format!("interleave:{nodes}"),
            ToolPolicy::Local => "local".to_owned(),
        };
        text += &format!(
            "\n# {}\n[task{index}]\ncpus_allowed={}\nnuma_mem_policy={policy}\n",
            comment::task_name(plan, index, task),
            task.cpus
        );
    }
    text
}
