//! Placement of a side's threads and buffers: by a plan, by the model, or near the storage of its
//! files.

use super::event;
use super::network_placement::{cpus_text, NetworkPlacement};
use super::request::TransferRequest;
use super::side_plan::{self, SidePlan};
use super::transfer_options::{Io, Placement};
use super::work_sharing::pick_group_to_help;
use crate::commands::placement::{self, PlacementArgs};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{Common, Directions};
use crate::output;
use numaio_linux::{Kernel, Root};
use numaio_machine::devices::Device;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::near::{resolve, Handle, ResolveContext, Resolved};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_mover::wire::Side;
use numaio_mover_linux::files::{Base, Roots};
use numaio_mover_linux::port::net::MAX_STREAMS;
use numaio_mover_linux::port::{can_pin, has_io_uring, Pool, Setting, StreamSet, WorkerGroup};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Block buffers for each thread of a side: one in use, and some in flight. More would cost time,
/// because the kernel clears their pages.
const BUFFERS_PER_THREAD: usize = 6;
/// Maximum number of block buffers of a side (64 MiB).
const MAX_BUFFERS: usize = 64;
/// Bounds of the default number of threads, which is the number of CPUs in between.
const MIN_DEFAULT_THREADS: usize = 4;
const MAX_DEFAULT_THREADS: usize = 8;
/// Maximum factor by which the default number of threads grows while threads wait for storage.
const THREAD_GROWTH: usize = 4;

/// Directories, threads and buffers of a side of a transfer.
#[derive(Debug)]
pub struct SideSetup<'a> {
    pub roots: Roots,
    pub threads: usize,
    worker_groups: Vec<WorkerGroup>,
    by: &'static str,
    notes: Vec<String>,
    side: Side,
    request: &'a TransferRequest,
    machine: Option<MachineView>,
}

/// A view of this machine for placement.
#[derive(Debug)]
pub struct MachineView {
    kernel: Kernel,
    pub topology: Topology,
}

/// Placement of a group of threads and their buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlacement {
    pub threads: usize,
    /// Memory node of the buffers; any node if `None`.
    pub node: Option<NodeId>,
    /// CPUs of the threads; any CPU if `None`.
    pub cpus: Option<CpuSet>,
}

/// Placements of all groups, how they were chosen, and notes for the user.
struct PlacedGroups {
    by: &'static str,
    worker_groups: Vec<GroupPlacement>,
    notes: Vec<String>,
}

impl<'a> SideSetup<'a> {
    /// Opens directories, and places threads and buffers.
    pub fn new(
        roots: &[PathBuf],
        side: Side,
        request: &'a TransferRequest,
        base: &Base,
    ) -> Result<Self, Failure> {
        let paths: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
        let of_side = |error| format!("{error} ({})", event::side_name(side));
        let mut roots = base.roots(&paths).map_err(|(path, error)| Failure::file(&path, of_side(error)))?;
        if side == Side::Sink {
            roots.track_write_errors();
        }
        let paths: Vec<PathBuf> = paths.iter().map(|path| base.on_host(path)).collect();
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let machine = MachineView::new(request, side_plan::find(request, side));
        let PlacedGroups { by, worker_groups, mut notes } =
            place_groups(&paths, side, request, machine.as_ref());
        let threads = worker_groups.iter().map(|group| group.threads).sum();
        let worker_groups =
            worker_groups.iter().map(|group| group.create(threads, request.streams, &mut notes)).collect();
        Ok(Self { roots, threads, worker_groups, by, notes, side, request, machine })
    }

    /// Returns the settings of a port with data connections, if there are any, and prints the
    /// placement.
    pub fn setting(self, connections: Option<&StreamSet>) -> Result<Setting, Failure> {
        let (network, note) = connections.map(|connections| self.network(connections)).unzip();
        if let Some(here) = &self.request.local {
            let notes = self.notes.iter().chain(note.iter().flatten());
            notes.for_each(|note| output::remark(&here.common, note));
            if here.display.json {
                output::print(&self.event(network.as_ref()))?;
            } else {
                output::detail(self.line(network.as_ref()));
            }
        }
        let most = self.worker_groups.iter().max_by_key(|group| group.threads);
        let pool = most.map_or_else(|| Pool::new(MAX_BUFFERS), |group| group.pool.clone());
        let network = network.map(|network| network.cpu_sets).unwrap_or_default();
        let (sparing, rings) = (self.request.may_use_fewer_streams, self.request.io == Io::Auto);
        let most_threads = self.most_threads();
        Ok(Setting {
            roots: self.roots,
            worker_groups: self.worker_groups,
            most_threads,
            rings,
            pool,
            share: pick_group_to_help,
            sparing,
            may_pause: self.side == Side::Sink,
            network,
        })
    }

    /// Returns the maximum number of threads, which exceeds the initial one only by default.
    pub fn most_threads(&self) -> usize {
        let is_explicit =
            self.request.threads.is_some() || side_plan::find(self.request, self.side).is_some();
        if is_explicit {
            self.threads
        } else {
            THREAD_GROWTH * self.threads
        }
    }

    /// Places the threads of connections, and returns a note for the user.
    fn network(&self, connections: &StreamSet) -> (NetworkPlacement, Option<String>) {
        match &self.machine {
            None => (NetworkPlacement::anywhere(), None),
            Some(machine) => NetworkPlacement::new(
                machine,
                &connections.peers(),
                side_plan::find(self.request, self.side),
                &self.worker_groups,
            ),
        }
    }

    /// Returns the JSON event of the placement.
    fn event(&self, network: Option<&NetworkPlacement>) -> String {
        let group = |group: &WorkerGroup| {
            let (cpus, node) = (group.cpus.as_ref().map(ToString::to_string), group.pool.node());
            json!({"threads": group.threads, "cpus": cpus, "buffers_on": node.map(|node| node.0)})
        };
        let worker_groups: Vec<_> = self.worker_groups.iter().map(group).collect();
        let (side, network) = (event::side_name(self.side), network.map(NetworkPlacement::event));
        let event = json!({
            "event": "placement", "side": side, "by": self.by, "crews": worker_groups, "io": self.io(), "network": network,
        });
        format!("{event}\n")
    }

    /// Returns the placement as text.
    fn line(&self, network: Option<&NetworkPlacement>) -> String {
        let group = |group: &WorkerGroup| {
            let cpus = group.cpus.as_ref().map_or("any CPU".to_owned(), cpus_text);
            let node = group.pool.node().map_or("anywhere".to_owned(), |node| format!("on node {node}"));
            let s = if group.threads == 1 { "" } else { "s" };
            format!("{} thread{s} on {cpus}, buffers {node}", group.threads)
        };
        let io = format!("large blocks by {}", self.io());
        let parts: Vec<String> = self
            .worker_groups
            .iter()
            .map(group)
            .chain([io])
            .chain(network.map(NetworkPlacement::line))
            .collect();
        format!("{}, placed by {}: {}", event::side_name(self.side), self.by, parts.join("; "))
    }

    /// Returns how blocks of large files are read and written.
    fn io(&self) -> &'static str {
        match self.request.io == Io::Auto && has_io_uring() {
            true => "io_uring",
            false => "threads",
        }
    }
}

impl MachineView {
    /// Reads the topology; `None` if placement is off, or all places are the same.
    fn new(request: &TransferRequest, plan: Option<&SidePlan>) -> Option<Self> {
        if plan.is_none() && request.placement == Placement::None {
            return None;
        }
        let kernel = Kernel::new().ok()?;
        let topology = discover(&kernel);
        // With one memory node there is no choice.
        let has_choice = plan.is_some() || topology.memory_nodes().len() > 1;
        has_choice.then_some(Self { kernel, topology })
    }

    /// Resolves a handle to devices and nodes.
    pub fn found(&self, handle: &Handle) -> Resolved {
        resolve(ResolveContext { root: &self.kernel, locate: &self.kernel, topology: &self.topology }, handle)
    }

    /// Returns the resolved devices.
    pub fn devices(&self, found: &Resolved) -> Vec<&Device> {
        found.devices.iter().filter_map(|near| self.topology.devices.get(near.index)).collect()
    }
}

impl GroupPlacement {
    /// Creates the group with its part of the buffers for `threads`, and one more for each
    /// connection.
    ///
    /// Bindings that the kernel rejects are dropped and noted.
    fn create(&self, threads: usize, streams: u16, notes: &mut Vec<String>) -> WorkerGroup {
        let all = (BUFFERS_PER_THREAD * threads).min(MAX_BUFFERS);
        let part = (all * self.threads / threads.max(1)).max(self.threads + 2);
        let count = part + usize::from(streams).min(MAX_STREAMS);
        let cpus = self.cpus.clone().filter(|cpus| {
            let refused = can_pin(cpus).err();
            notes.extend(
                refused
                    .iter()
                    .map(|error| format!("threads run on any CPU, not on {}: {error}", cpus_text(cpus))),
            );
            refused.is_none()
        });
        let bound = self.node.and_then(|node| match Pool::on(&Root::live().ok()?, None, node, count) {
            Ok(pool) => Some(pool),
            Err(error) => {
                notes.push(format!("buffers are anywhere, not on node {node}: {error}"));
                None
            }
        });
        let pool = bound.unwrap_or_else(|| Pool::new(count));
        WorkerGroup { threads: self.threads, cpus, pool }
    }
}

/// Chooses the placement of a side's threads.
fn place_groups(
    paths: &[&Path],
    side: Side,
    request: &TransferRequest,
    machine: Option<&MachineView>,
) -> PlacedGroups {
    // A minimum even with few CPUs, because threads mostly wait for disks or for locks of the file
    // system.
    let available = std::thread::available_parallelism()
        .map_or(MIN_DEFAULT_THREADS, usize::from)
        .clamp(MIN_DEFAULT_THREADS, MAX_DEFAULT_THREADS);
    let threads = request.threads.map_or(available, |threads| threads as usize);
    let free = |notes| PlacedGroups {
        by: "the kernel",
        worker_groups: vec![GroupPlacement { threads, node: None, cpus: None }],
        notes,
    };
    let Some(machine) = machine else { return free(Vec::new()) };
    let found = |path: &&Path| Some(machine.found(&Handle::Path(canonical_text(path)?)));
    if let Some(planned) = side_plan::find(request, side) {
        let found: Vec<Resolved> = paths.iter().filter_map(found).collect();
        let devices: Vec<&Device> = found.iter().flat_map(|found| machine.devices(found)).collect();
        let (worker_groups, note) = planned.worker_groups(&machine.topology, &devices);
        return PlacedGroups { by: "the plan", worker_groups, notes: note.into_iter().collect() };
    }
    let Some(path) = paths.first() else { return free(Vec::new()) };
    if request.placement == Placement::Model {
        return match by_model(&machine.topology, path, side, threads) {
            Ok((worker_groups, notes)) => PlacedGroups { by: "the model", worker_groups, notes },
            Err(failure) => free(vec![format!("placed by the kernel: {}", failure.message)]),
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
    side: Side,
    threads: usize,
) -> Result<(Vec<GroupPlacement>, Vec<String>), Failure> {
    let path = canonical_text(path).ok_or_else(|| Failure::new("the path is not UTF-8 text"))?;
    let direction = match side {
        Side::Source => Directions::Read,
        Side::Sink => Directions::Write,
    };
    let args = PlacementArgs::of(Handle::Path(path), direction);
    // Models are looked up for a live machine; remarks are printed with the placement.
    let machine = Machine::Live(Kernel::new().map_err(Failure::new)?);
    let plan = placement::plan(&Common::silent(), &machine, topology, &args)?;
    let task = plan.tasks.first().ok_or_else(|| Failure::new("no node is suitable"))?;
    let all = task.cpus.len().max(1);
    let mut worker_groups = Vec::new();
    for node in task.cpu_nodes.iter() {
        let cpus = task.cpus.intersection(&topology.usable_cpus(node));
        let memory = if task.memory.nodes.contains(node) { Some(node) } else { task.memory.nodes.first() };
        let threads = (threads * cpus.len() / all).max(1);
        worker_groups.push(GroupPlacement { threads, node: memory, cpus: Some(cpus) });
    }
    Ok((worker_groups, plan.compromises))
}
