//! Formats placements as a batch script of Slurm (srun(1): --cpu-bind, --mem-bind).

use super::comment;
use super::memory::{PolicySupport, ToolPolicy, NUMACTL};
use crate::phrases;
use numaio_machine::ids::Id;
use numaio_machine::set::{CpuSet, IdSet};
use numaio_schema::PlacementPlan;

/// `prefer` uses the first node of each task.
const SLURM: PolicySupport =
    PolicySupport { name: "Slurm", binds: true, prefers: true, interleaves: false, remedy: NUMACTL };

/// Formats a script for `sbatch FILE COMMAND`. CPU maps require an exclusive node, which the script
/// requests.
pub fn slurm(plan: &PlacementPlan) -> String {
    let (policies, mut notes) = SLURM.translate_all(plan);
    let memory = memory(&policies).unwrap_or_else(|| {
        notes.push(
            "Slurm has one --mem-bind policy for all tasks, but the plan has several: none is set".to_owned(),
        );
        String::new()
    });
    let mut lines = comment::lines(plan, notes);
    lines.push(
        "sbatch --nodelist=NODE FILE COMMAND [ARGUMENTS]; NODE: Slurm's name of this machine".to_owned(),
    );
    let cpus: Vec<&CpuSet> = plan.tasks.iter().map(|task| &task.cpus).collect();
    let (tasks, most) = (cpus.len(), cpus.iter().map(|cpus| cpus.len()).max().unwrap_or(0));
    format!(
        "#!/bin/sh\n{}#SBATCH --nodes=1\n#SBATCH --exclusive\n#SBATCH --ntasks={tasks}\n\
         #SBATCH --cpus-per-task={most}\n\
         exec srun --ntasks={tasks} --cpus-per-task={most} --cpu-bind={}{memory} \"$@\"\n",
        comment::hashed(&lines),
        map("cpu", &cpus)
    )
}

/// Returns the memory option common to all tasks, or `None` if their policies differ.
fn memory(policies: &[ToolPolicy]) -> Option<String> {
    let all = |of: fn(&ToolPolicy) -> Option<&IdSet<_>>| policies.iter().map(of).collect::<Option<Vec<_>>>();
    if let Some(bound) =
        all(|policies| if let ToolPolicy::Bind(nodes) = policies { Some(nodes) } else { None })
    {
        return Some(format!(" --mem-bind={}", map("mem", &bound)));
    }
    if let Some(preferred) =
        all(|policies| if let ToolPolicy::Prefer(nodes) = policies { Some(nodes) } else { None })
    {
        return Some(format!(" --mem-bind=prefer,{}", map("mem", &preferred)));
    }
    policies.iter().all(|policies| *policies == ToolPolicy::Local).then(|| " --mem-bind=local".to_owned())
}

/// Formats sets: `map_cpu:14,15` if each has one member, else `mask_cpu:0xf0f0,0xf`.
fn map<T: Id>(what: &str, sets: &[&IdSet<T>]) -> String {
    let single = sets.iter().all(|set| set.len() == 1);
    let each = sets.iter().map(|set| match set.first() {
        Some(only) if single => only.number().to_string(),
        _ => mask(set),
    });
    format!("{}_{what}:{}", if single { "map" } else { "mask" }, phrases::joined(each, ","))
}

/// Formats a hexadecimal mask without the commas of the kernel's format.
fn mask<T: Id>(set: &IdSet<T>) -> String {
    let highest = set.iter().next_back().map_or(0, Id::number);
    let digit = |place: u32| {
        let bit = |bit: u32| u32::from(set.contains(T::from_number(place * 4 + bit))) << bit;
        char::from_digit((0..4).map(bit).sum(), 16).unwrap_or('0')
    };
    format!("0x{}", (0..=highest / 4).rev().map(digit).collect::<String>())
}
