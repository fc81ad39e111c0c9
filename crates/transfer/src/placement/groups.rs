//! Which groups of threads serve a side, and where.

use super::machine_view::MachineView;
use super::side_options::SideOptions;
use super::storage::{storage_devices, StorageDevice};
use super::worker_group::{GroupDevice, GroupPlacement};
use crate::options::Placement;
use numaio_machine::devices::Device;
use numaio_machine::near::{Handle, Resolved};
use numaio_machine::topology::Topology;
use numaio_mover::wire::Side;
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
    /// The storage devices, if there are several; groups name them by their index.
    pub devices: Vec<StorageDevice>,
    pub notes: Vec<String>,
}

/// The inputs of a placement.
const BY_KERNEL: &str = "the kernel";

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
    if let Some((machine, planned)) = machine.zip(options.plan) {
        let found = |path: &&Path| Some(machine.found(&Handle::Path(canonical_text(path)?)));
        let found: Vec<Resolved> = paths.iter().filter_map(found).collect();
        let devices: Vec<&Device> = found.iter().flat_map(|found| machine.devices(found)).collect();
        let (worker_groups, note) = planned.worker_groups(&machine.topology, &devices);
        let notes = note.into_iter().collect();
        return PlacedGroups { by: "the plan", worker_groups, devices: Vec::new(), notes };
    }
    let configured = options.threads.map(|threads| threads as usize);
    // Only sources may be on several devices.
    let devices = match options.side {
        Side::Source => storage_devices(paths, options.placer),
        Side::Sink => Vec::new(),
    };
    if devices.is_empty() {
        return place_path(paths.first().copied(), configured.unwrap_or(available), options, machine);
    }
    place_devices(paths, devices, (configured, available), (options, machine))
}

/// Places the threads of each storage device.
fn place_devices(
    paths: &[&Path],
    devices: Vec<StorageDevice>,
    (configured, available): (Option<usize>, usize),
    (options, machine): (&SideOptions<'_>, Option<&MachineView>),
) -> PlacedGroups {
    let share = configured.map(|threads| (threads / devices.len()).max(1));
    let mut all =
        PlacedGroups { by: BY_KERNEL, worker_groups: Vec::new(), devices: Vec::new(), notes: Vec::new() };
    for (index, device) in devices.iter().enumerate() {
        let (threads, max_threads) = device.thread_counts(share, available);
        let path = device.roots.first().and_then(|root| paths.get(*root)).copied();
        let PlacedGroups { by, worker_groups, notes, .. } = place_path(path, threads, options, machine);
        if by != BY_KERNEL {
            all.by = by;
        }
        let parts = worker_groups.len().max(1);
        let on_device = |group: GroupPlacement| {
            let max_threads = (max_threads / parts).max(group.threads);
            let device = GroupDevice { index, name: device.name.clone(), max_threads };
            GroupPlacement { device: Some(device), ..group }
        };
        all.worker_groups.extend(worker_groups.into_iter().map(on_device));
        all.notes.extend(notes);
    }
    PlacedGroups { devices, ..all }
}

/// Places the threads of one storage device, which holds a path.
fn place_path(
    path: Option<&Path>,
    threads: usize,
    options: &SideOptions<'_>,
    machine: Option<&MachineView>,
) -> PlacedGroups {
    let placed = |by, worker_groups, notes| PlacedGroups { by, worker_groups, devices: Vec::new(), notes };
    let free = |notes| {
        let group = GroupPlacement { threads, node: None, cpus: None, device: None };
        placed(BY_KERNEL, vec![group], notes)
    };
    let Some((machine, path)) = machine.zip(path) else { return free(Vec::new()) };
    if options.placement == Placement::Model {
        return match by_model(&machine.topology, path, options, threads) {
            Ok((worker_groups, notes)) => placed("the model", worker_groups, notes),
            Err(why) => free(vec![format!("placed by the kernel: {why}")]),
        };
    }
    let found = canonical_text(path).map(|path| machine.found(&Handle::Path(path)));
    let group = found.and_then(|found| on_storage_node(&machine.topology, &found, threads));
    group.map_or_else(|| free(Vec::new()), |group| placed("the storage's node", vec![group], Vec::new()))
}

fn canonical_text(path: &Path) -> Option<String> {
    fs::canonicalize(path).ok()?.into_os_string().into_string().ok()
}

/// Places threads on the node with most of the files' I/O, if it has memory and usable CPUs; on
/// none if the shares of several nodes are unknown.
fn on_storage_node(topology: &Topology, found: &Resolved, threads: usize) -> Option<GroupPlacement> {
    let most = match found.nodes.as_slice() {
        [only] => only,
        several => {
            let shares: Option<Vec<f64>> = several.iter().map(|near| near.share).collect();
            let shares = shares?.into_iter().zip(several);
            shares.max_by(|(a, _), (b, _)| a.total_cmp(b))?.1
        }
    };
    let cpus = topology.usable_cpus(most.node);
    let usable = !cpus.is_empty() && topology.memory_nodes().contains(most.node);
    usable.then_some(GroupPlacement { threads, node: Some(most.node), cpus: Some(cpus), device: None })
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
        worker_groups.push(GroupPlacement { threads, node: memory, cpus: Some(cpus), device: None });
    }
    Ok((worker_groups, compromises))
}
