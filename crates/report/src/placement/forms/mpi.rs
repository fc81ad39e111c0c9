//! Formats placements as a rankfile of Open MPI (mpirun(1), "Rankfiles"), with the options for
//! MPICH in a comment.

use super::comment;
use super::memory::{PolicySupport, NUMACTL};
use crate::phrases;
use numaio_schema::PlacementPlan;

/// MPI binds ranks to CPUs only.
const MPI: PolicySupport =
    PolicySupport { name: "MPI", binds: false, prefers: false, interleaves: false, remedy: NUMACTL };

/// Formats a line for each task, which is a rank.
///
/// Without `rmaps_rank_file_physical` Open MPI numbers cores in hwloc's order instead of the
/// kernel's; without `--use-hwthread-cpus` it extends a CPU to its core.
pub fn mpi(plan: &PlacementPlan) -> String {
    let (_, notes) = MPI.translate_all(plan);
    let mut lines = comment::lines(plan, notes);
    // Hydra uses these numbers as bits of an hwloc cpuset, which are the kernel's numbers.
    let hydra =
        plan.tasks.iter().map(|task| phrases::joined(task.cpus.iter().map(|cpu| cpu.to_string()), "+"));
    lines.extend([
        "Open MPI: mpirun --mca rmaps_rank_file_physical 1 --use-hwthread-cpus --rankfile FILE COMMAND"
            .to_owned(),
        format!(
            "MPICH: mpiexec -n {} -bind-to user:{} COMMAND",
            plan.tasks.len(),
            phrases::joined(hydra, ",")
        ),
        "Open MPI's --map-by cannot express this: it names kinds of objects (numa, core) and assigns them in its own order".to_owned(),
    ]);
    let ranks = plan.tasks.iter().enumerate();
    let ranks = ranks.map(|(rank, task)| format!("rank {rank}=localhost slot={}\n", task.cpus));
    comment::hashed(&lines) + &ranks.collect::<String>()
}
