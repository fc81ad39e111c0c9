//! Places as a job file of fio(1): cpus_allowed, numa_mem_policy.

use super::comment;
use super::memory::{PolicySupport, ToolPolicy};
use numaio_schema::PlacementPlan;

/// `prefer` takes one node (fio, HOWTO, "numa_mem_policy").
const FIO: PolicySupport =
    PolicySupport { name: "fio", binds: true, prefers: true, interleaves: true, remedy: "" };

/// A job for each task. What is read or written comes from the command line, where options before the file's name
/// hold for all jobs.
pub fn fio(plan: &PlacementPlan) -> String {
    let (policies, notes) = FIO.translate_all(plan);
    let mut lines = comment::lines(plan, notes);
    lines.push("fio OPTIONS FILE, or OPTIONS in a section [global] above: they hold for all jobs".to_owned());
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
