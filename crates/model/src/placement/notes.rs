//! Notes about the chosen cores and the models: what a reader of a plan would not expect.

use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_machine::units::format_cpus;
use numaio_schema::{Model, PlacementRequest, PlacementTarget, TaskPlacement};
use std::collections::BTreeMap;

/// Returns notes about the CPUs of the tasks.
pub(super) fn of_tasks(
    topology: &Topology,
    targets: &[PlacementTarget],
    tasks: &[TaskPlacement],
    request: &PlacementRequest,
) -> Vec<String> {
    let taken = tasks.iter().fold(CpuSet::new(), |all, task| all.union(&task.cpus));
    // A program without a number of tasks gets all cores anyway.
    let mut notes = if request.tasks.is_some() { interrupted(targets, &taken) } else { Vec::new() };
    notes.extend(isolated(topology, tasks, &taken));
    notes.extend(slower(topology, &taken));
    notes.extend(quota(topology, &taken));
    if request.by_cache {
        notes.extend(caches(topology, tasks));
    }
    notes
}

/// Returns a note if models were not used because a CPU quota or a load distorts them.
pub(super) fn of_models(models: &[&Model]) -> Option<String> {
    let unfit = models.iter().filter(|model| !model.record.provenance.is_fit_for_placement()).count();
    let (models, were) = if unfit == 1 { ("model", "was") } else { ("models", "were") };
    (unfit > 0).then(|| {
        format!(
            "{unfit} saved {models} {were} measured under a CPU quota or under load and not used: measure again \
             without it"
        )
    })
}

/// Names CPUs with a verb in the right number.
fn cpus(set: &CpuSet, one: &str, several: &str) -> String {
    match set.len() {
        1 => format!("CPU {set} {one}"),
        _ => format!("CPUs {set} {several}"),
    }
}

/// Notes each device whose interrupts some CPUs of the tasks handle. If all of them do, the tasks
/// have no quiet CPU to prefer.
fn interrupted(targets: &[PlacementTarget], taken: &CpuSet) -> Vec<String> {
    let busy = targets.iter().filter_map(|target| {
        let busy = taken.intersection(&target.irq_cpus);
        (!busy.is_empty() && busy != *taken)
            .then(|| format!("{} interrupts of {}", cpus(&busy, "handles", "handle"), target.device))
    });
    busy.collect()
}

/// Notes isolated CPUs that are left out, or shared by threads of one task.
fn isolated(topology: &Topology, tasks: &[TaskPlacement], taken: &CpuSet) -> Option<String> {
    let isolated = topology.isolated_cpus();
    let nodes = tasks.iter().flat_map(|task| task.cpu_nodes.iter());
    let usable = nodes.fold(CpuSet::new(), |all, node| all.union(&topology.usable_cpus(node)));
    let left_out = usable.intersection(&isolated).difference(taken);
    let shared = tasks.iter().map(|task| task.cpus.intersection(&isolated)).find(|cpus| cpus.len() > 1);
    match shared {
        Some(shared) => Some(format!(
            "CPUs {shared} are isolated: the scheduler does not balance threads over them, so bind each thread to its \
             own CPU"
        )),
        None if left_out.is_empty() => None,
        None => Some(format!("{} isolated and not used", cpus(&left_out, "is", "are"))),
    }
}

/// Notes slower cores among the taken ones, if there are faster ones on the machine.
fn slower(topology: &Topology, taken: &CpuSet) -> Option<String> {
    let kind_of = |cpu| topology.cpu(cpu).and_then(|cpu| cpu.core_kind);
    let mut kinds: BTreeMap<_, CpuSet> = BTreeMap::new();
    for cpu in taken.iter() {
        if let Some(kind) = kind_of(cpu).filter(|kind| kind.rank > 0) {
            kinds.entry(kind).or_default().insert(cpu);
        }
    }
    let (kind, slow) = kinds.into_iter().next()?;
    let capacity =
        kind.capacity.map(|capacity| format!(" (capacity {capacity} of 1024)")).unwrap_or_default();
    Some(format!("{} slower than other cores of this machine{capacity}", cpus(&slow, "is", "are")))
}

/// Notes a quota below the number of chosen CPUs.
fn quota(topology: &Topology, taken: &CpuSet) -> Option<String> {
    let quota = topology.confinement.cpu_quota.as_ref()?;
    (quota.cpus() < taken.len() as f64).then(|| {
        format!(
            "the CPU quota is {} ({}): threads on {} CPUs are stopped when it is used up",
            format_cpus(quota.cpus()),
            quota.file,
            taken.len()
        )
    })
}

/// Notes tasks that do not fit into one last-level cache, or unknown caches.
fn caches(topology: &Topology, tasks: &[TaskPlacement]) -> Option<String> {
    if topology.caches.is_empty() {
        return Some("the last-level caches are unknown: tasks are kept on nodes instead".to_owned());
    }
    let spans = |task: &&TaskPlacement| topology.cache_domains(&task.cpus).len() > 1;
    let several = tasks.iter().filter(spans).count();
    let (tasks, do_not) = if several == 1 { ("task", "does not") } else { ("tasks", "do not") };
    (several > 0)
        .then(|| format!("{several} {tasks} {do_not} fit into the free cores of one last-level cache"))
}
