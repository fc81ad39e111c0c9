//! Where the threads and buffers of a side are: by a plan, by the model, or near the storage that its files are on.

use super::event;
use super::how::{Io, Placement};
use super::network::{cpus_in_words, Network};
use super::order::Order;
use super::planned::{self, Planned};
use super::share::share;
use super::ShownArgs;
use crate::args::{Common, Directions};
use crate::commands::placing::{self, NearArgs};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::output;
use numaio_linux::files::{Base, Roots};
use numaio_linux::port::net::MAX_STREAMS;
use numaio_linux::port::{can_pin, has_io_uring, WorkerGroup, StreamSet, Pool, Setting};
use numaio_linux::{Kernel, Root};
use numaio_machine::devices::Device;
use numaio_machine::ids::NodeId;
use numaio_machine::near::{resolve, ResolveContext, Handle, Resolved};
use numaio_machine::discover::discover;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_mover::wire::Side;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Buffers of a block for each thread of a side, and for all of them at the most (64 MiB): one in use, and some on their way.
/// Buffers that are not needed cost time, too: the kernel clears their pages.
const EACH: usize = 6;
const MOST: usize = 64;
/// Threads of a side where nobody says how many, at the least and at the most: one for each CPU in between.
const LEAST_THREADS: usize = 4;
const MOST_THREADS: usize = 8;
/// How many times as many there may be where they wait for storage, and nobody said how many.
const GROWS: usize = 4;

/// What a side of a transfer runs on.
#[derive(Debug)]
pub struct Site<'a> {
    pub roots: Roots,
    pub threads: usize,
    worker_groups: Vec<WorkerGroup>,
    by: &'static str,
    notes: Vec<String>,
    side: Side,
    order: &'a Order,
    seen: Option<Seen>,
}

/// This machine, where there is something to choose on it.
#[derive(Debug)]
pub struct Seen {
    kernel: Kernel,
    pub topology: Topology,
}

/// Threads in one place, and their buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crewed {
    pub threads: usize,
    /// Where their buffers are; wherever the kernel puts them if there is none.
    pub node: Option<NodeId>,
    /// Where they run; anywhere if there is none.
    pub cpus: Option<CpuSet>,
}

/// Crews, by what they were placed, and what is to be said.
struct Placed {
    by: &'static str,
    worker_groups: Vec<Crewed>,
    notes: Vec<String>,
}

impl<'a> Site<'a> {
    pub fn new(roots: &[PathBuf], side: Side, order: &'a Order, base: &Base) -> Result<Self, Failure> {
        let paths: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
        let of_side = |error| format!("{error} ({})", event::side(side));
        let mut roots = base.roots(&paths).map_err(|(path, error)| Failure::file(&path, of_side(error)))?;
        if side == Side::Sink {
            roots.track_write_errors();
        }
        let paths: Vec<PathBuf> = paths.iter().map(|path| base.on_host(path)).collect();
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let seen = Seen::new(order, planned::of(order, side));
        let Placed { by, worker_groups, mut notes } = placed(&paths, side, order, seen.as_ref());
        let threads = worker_groups.iter().map(|crew| crew.threads).sum();
        let worker_groups = worker_groups.iter().map(|crew| crew.set_up(threads, order.streams, &mut notes)).collect();
        Ok(Self { roots, threads, worker_groups, by, notes, side, order, seen })
    }

    /// What a port is made of whose link is `lanes`, if it has data connections. Says where threads and buffers are.
    pub fn setting(self, lanes: Option<&StreamSet>) -> Result<Setting, Failure> {
        let (network, note) = lanes.map(|lanes| self.network(lanes)).unzip();
        if let Some(here) = &self.order.here {
            let notes = self.notes.iter().chain(note.iter().flatten());
            notes.for_each(|note| output::remark(&here.common, note));
            match here.shown {
                ShownArgs { json: true, .. } => output::print(&self.event(network.as_ref()))?,
                ShownArgs { verbose: true, .. } => output::remark(&here.common, &self.line(network.as_ref())),
                _ => {}
            }
        }
        let most = self.worker_groups.iter().max_by_key(|crew| crew.threads);
        let pool = most.map_or_else(|| Pool::new(MOST), |crew| crew.pool.clone());
        let network = network.map(|network| network.places).unwrap_or_default();
        let (sparing, rings) = (self.order.sparing, self.order.io == Io::Auto);
        let most_threads = self.most_threads();
        Ok(Setting {
            roots: self.roots,
            worker_groups: self.worker_groups,
            most_threads,
            rings,
            pool,
            share,
            sparing,
            may_pause: self.side == Side::Sink,
            network,
        })
    }

    /// How many threads there may be: more than there are, where nobody said how many.
    pub fn most_threads(&self) -> usize {
        let is_said = self.order.threads.is_some() || planned::of(self.order, self.side).is_some();
        if is_said {
            self.threads
        } else {
            GROWS * self.threads
        }
    }

    /// Where the threads of connections run, and what is to be said of it.
    fn network(&self, lanes: &StreamSet) -> (Network, Option<String>) {
        match &self.seen {
            None => (Network::anywhere(), None),
            Some(seen) => Network::new(seen, &lanes.peers(), planned::of(self.order, self.side), &self.worker_groups),
        }
    }

    /// For programs.
    fn event(&self, network: Option<&Network>) -> String {
        let crew = |crew: &WorkerGroup| {
            let (cpus, node) = (crew.cpus.as_ref().map(ToString::to_string), crew.pool.node());
            json!({"threads": crew.threads, "cpus": cpus, "buffers_on": node.map(|node| node.0)})
        };
        let worker_groups: Vec<_> = self.worker_groups.iter().map(crew).collect();
        let (side, network) = (event::side(self.side), network.map(Network::event));
        let event = json!({
            "event": "placement", "side": side, "by": self.by, "crews": worker_groups, "io": self.io(), "network": network,
        });
        format!("{event}\n")
    }

    /// For people.
    fn line(&self, network: Option<&Network>) -> String {
        let crew = |crew: &WorkerGroup| {
            let cpus = crew.cpus.as_ref().map_or("any CPU".to_owned(), cpus_in_words);
            let node = crew.pool.node().map_or("anywhere".to_owned(), |node| format!("on node {node}"));
            let s = if crew.threads == 1 { "" } else { "s" };
            format!("{} thread{s} on {cpus}, buffers {node}", crew.threads)
        };
        let io = format!("large blocks by {}", self.io());
        let parts: Vec<String> =
            self.worker_groups.iter().map(crew).chain([io]).chain(network.map(Network::line)).collect();
        format!("{}, placed by {}: {}", event::side(self.side), self.by, parts.join("; "))
    }

    /// How blocks of large files are moved.
    fn io(&self) -> &'static str {
        match self.order.io == Io::Auto && has_io_uring() {
            true => "io_uring",
            false => "threads",
        }
    }
}

impl Seen {
    /// None where nobody asks for a place, or one place is as good as another.
    fn new(order: &Order, plan: Option<&Planned>) -> Option<Self> {
        if plan.is_none() && order.placement == Placement::None {
            return None;
        }
        let kernel = Kernel::new().ok()?;
        let topology = discover(&kernel);
        // Where there is one node there is no choice.
        let has_choice = plan.is_some() || topology.memory_nodes().len() > 1;
        has_choice.then_some(Self { kernel, topology })
    }

    /// Devices and nodes that something stands for.
    pub fn found(&self, handle: &Handle) -> Resolved {
        resolve(ResolveContext { root: &self.kernel, locate: &self.kernel, topology: &self.topology }, handle)
    }

    /// The devices that were found.
    pub fn devices(&self, found: &Resolved) -> Vec<&Device> {
        found.devices.iter().filter_map(|near| self.topology.devices.get(near.index)).collect()
    }
}

impl Crewed {
    /// Gives the crew its part of the buffers: of `threads` in all, and one more for each connection, which may hold one
    /// back. What the kernel refuses is left to it, and said.
    fn set_up(&self, threads: usize, streams: u16, notes: &mut Vec<String>) -> WorkerGroup {
        let all = (EACH * threads).min(MOST);
        let part = (all * self.threads / threads.max(1)).max(self.threads + 2);
        let count = part + usize::from(streams).min(MAX_STREAMS);
        let cpus = self.cpus.clone().filter(|cpus| {
            let refused = can_pin(cpus).err();
            notes.extend(
                refused
                    .iter()
                    .map(|error| format!("threads run on any CPU, not on {}: {error}", cpus_in_words(cpus))),
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

/// Where the crews of a side are.
fn placed(paths: &[&Path], side: Side, order: &Order, seen: Option<&Seen>) -> Placed {
    // Few CPUs are no reason for fewer: threads mostly wait for a disk, or for each other in a file system.
    let available = std::thread::available_parallelism()
        .map_or(LEAST_THREADS, usize::from)
        .clamp(LEAST_THREADS, MOST_THREADS);
    let threads = order.threads.map_or(available, |threads| threads as usize);
    let free =
        |notes| Placed { by: "the kernel", worker_groups: vec![Crewed { threads, node: None, cpus: None }], notes };
    let Some(seen) = seen else { return free(Vec::new()) };
    let found = |path: &&Path| Some(seen.found(&Handle::Path(real(path)?)));
    if let Some(planned) = planned::of(order, side) {
        let found: Vec<Resolved> = paths.iter().filter_map(found).collect();
        let devices: Vec<&Device> = found.iter().flat_map(|found| seen.devices(found)).collect();
        let (worker_groups, note) = planned.worker_groups(&seen.topology, &devices);
        return Placed { by: "the plan", worker_groups, notes: note.into_iter().collect() };
    }
    let Some(path) = paths.first() else { return free(Vec::new()) };
    if order.placement == Placement::Model {
        return match modelled(&seen.topology, path, side, threads) {
            Ok((worker_groups, notes)) => Placed { by: "the model", worker_groups, notes },
            Err(failure) => free(vec![format!("placed by the kernel: {}", failure.message)]),
        };
    }
    let crew = found(path).and_then(|found| local(&seen.topology, &found, threads));
    crew.map_or_else(
        || free(Vec::new()),
        |crew| Placed { by: "the storage's node", worker_groups: vec![crew], notes: Vec::new() },
    )
}

fn real(path: &Path) -> Option<String> {
    fs::canonicalize(path).ok()?.into_os_string().into_string().ok()
}

/// The node of the device that files are on, and the CPUs there that we may use.
fn local(topology: &Topology, found: &Resolved, threads: usize) -> Option<Crewed> {
    let most = found.nodes.iter().max_by(|a, b| a.share.total_cmp(&b.share))?;
    let cpus = topology.usable_cpus(most.node);
    let usable = !cpus.is_empty() && topology.memory_nodes().contains(most.node);
    usable.then_some(Crewed { threads, node: Some(most.node), cpus: Some(cpus) })
}

/// As `numaio run --near file:PATH` places a program: a crew on each node that it would run on.
fn modelled(
    topology: &Topology,
    path: &Path,
    side: Side,
    threads: usize,
) -> Result<(Vec<Crewed>, Vec<String>), Failure> {
    let path = real(path).ok_or_else(|| Failure::new("the path is no text"))?;
    let direction = match side {
        Side::Source => Directions::Read,
        Side::Sink => Directions::Write,
    };
    let args = NearArgs::of(Handle::Path(path), direction);
    // The kind of machine that models are looked for in; remarks are given with the place.
    let machine = Machine::Live(Kernel::new().map_err(Failure::new)?);
    let plan = placing::plan(&Common::silent(), &machine, topology, &args)?;
    let task = plan.tasks.first().ok_or_else(|| Failure::new("no node suits"))?;
    let all = task.cpus.len().max(1);
    let mut worker_groups = Vec::new();
    for node in task.cpu_nodes.iter() {
        let cpus = task.cpus.intersection(&topology.usable_cpus(node));
        let memory = if task.memory.nodes.contains(node) { Some(node) } else { task.memory.nodes.first() };
        let threads = (threads * cpus.len() / all).max(1);
        worker_groups.push(Crewed { threads, node: memory, cpus: Some(cpus) });
    }
    Ok((worker_groups, plan.compromises))
}
