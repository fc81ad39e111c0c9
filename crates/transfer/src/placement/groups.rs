//! Which groups of threads serve a side, and where.

use super::machine_view::MachineView;
use super::side_options::SideOptions;
use super::worker_group::GroupPlacement;
use crate::options::Placement;
use numaio_machine::devices::Device;
use numaio_machine::near::{Handle, Resolved};
use numaio_machine::topology::Topology;
use numaio_schema::PlacementPlan;
use std::fs;
use std::path::Path;

/// Bounds of the default number of threads, which is the number of CPUs in between.
const MIN_DEFAULT_THREADS: usize = 4;
const MAX_DEFAULT_THREADS: usize = 8;

/// Placements of all groups, how they were chosen, and notes for the user.
pub struct PlacedGroups {
    pub by: &'static str,
    pub worker_groups: Vec<GroupPlacement>,
    pub notes: Vec<String>,
}

/// Chooses the placement of a side's threads.
pub fn place_groups(
    paths: &[&Path],
    options: &SideOptions<'_>,
    machine: Option<&MachineView>,
) -> PlacedGroups {
    // A minimum even with few CPUs, because threads mostly wait for disks or for locks of the file
    // system.
    let available = std::thread::available_parallelism()
        .map_or(MIN_DEFAULT_THREADS, usize::from)
        .clamp(MIN_DEFAULT_THREADS, MAX_DEFAULT_THREADS);
    let threads = options.threads.map_or(available, |threads| threads as usize);
    let free = |notes| PlacedGroups {
        by: "the kernel",
        worker_groups: vec![GroupPlacement { threads, node: None, cpus: None }],
        notes,
    };
    let Some(machine) = machine else { return free(Vec::new()) };
    let found = |path: &&Path| Some(machine.found(&Handle::Path(canonical_text(path)?)));
    if let Some(planned) = options.plan {
        let found: Vec<Resolved> = paths.iter().filter_map(found).collect();
        let devices: Vec<&Device> = found.iter().flat_map(|found| machine.devices(found)).collect();
        let (worker_groups, note) = planned.worker_groups(&machine.topology, &devices);
        return PlacedGroups { by: "the plan", worker_groups, notes: note.into_iter().collect() };
    }
    let Some(path) = paths.first() else { return free(Vec::new()) };
    if options.placement == Placement::Model {
        return match by_model(&machine.topology, path, options, threads) {
            Ok((worker_groups, notes)) => PlacedGroups { by: "the model", worker_groups, notes },
            Err(why) => free(vec![format!("placed by the kernel: {why}")]),
        };
    }
    let group = found(path).and_then(|found| on_storage_node(&machine.topology, &found, threads));
    group.map_or_else(
        || free(Vec::new()),
        |group| PlacedGroups { by: "the storage's node", worker_groups: vec![group], notes: Vec::new() },
    )
}

fn canonical_text(path: &Path) -> Option<String> {
    fs::canonicalize(path).ok()?.into_os_string().into_string().ok()
}

/// Places threads on the node of the files' device, if it has memory and usable CPUs.
fn on_storage_node(topology: &Topology, found: &Resolved, threads: usize) -> Option<GroupPlacement> {
    let most = found.nodes.iter().max_by(|a, b| a.share.total_cmp(&b.share))?;
    let cpus = topology.usable_cpus(most.node);
    let usable = !cpus.is_empty() && topology.memory_nodes().contains(most.node);
    usable.then_some(GroupPlacement { threads, node: Some(most.node), cpus: Some(cpus) })
}

/// Places threads as `numaio run --near file:PATH` places a program: one group on each of its
/// nodes.
fn by_model(
    topology: &Topology,
    path: &Path,
    options: &SideOptions<'_>,
    threads: usize,
) -> Result<(Vec<GroupPlacement>, Vec<String>), String> {
    let path = canonical_text(path).ok_or("the path is not UTF-8 text")?;
    let PlacementPlan { tasks, compromises, .. } = options.placer.by_model(topology, path, options.side)?;
    let task = tasks.first().ok_or("no node is suitable")?;
    let all = task.cpus.len().max(1);
    let mut worker_groups = Vec::new();
    for node in task.cpu_nodes.iter() {
        let cpus = task.cpus.intersection(&topology.usable_cpus(node));
        let memory = if task.memory.nodes.contains(node) { Some(node) } else { task.memory.nodes.first() };
        let threads = (threads * cpus.len() / all).max(1);
        worker_groups.push(GroupPlacement { threads, node: memory, cpus: Some(cpus) });
    }
    Ok((worker_groups, compromises))
}
