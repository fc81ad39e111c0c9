//! Computes the rates of workloads from the paths and links that their threads use.

use crate::sharing::{share, CapacityUse};
use crate::spec::Spec;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{
    CopyLoop, Direction, Flow, LoadWorkload, StreamLoop, StreamOp, StreamWorkload,
};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Additional latency of queueing at half load, relative to the path's latency.
const QUEUEING_DELAY: f64 = 0.5;
/// Utilization at which queues stop growing, because memory controllers accept no more requests.
const MAX_UTILIZATION: f64 = 0.95;

/// A machine's capacities, and the indexes that each path uses.
#[derive(Debug)]
pub(crate) struct Wiring {
    capacities: Vec<f64>,
    paths: BTreeMap<(NodeId, NodeId), Path>,
    cpus: BTreeMap<CpuId, CpuLocation>,
    /// Misplaced pages of a node: the node that they lie on, and their share.
    misplaced: BTreeMap<NodeId, (NodeId, f64)>,
    /// Copies of other processes.
    others: Vec<(CpuId, Flow)>,
    /// Threads that run STREAM copy beside the workload, with their rates beside it.
    neighbors: RefCell<Vec<(Neighbor, f64)>>,
}

/// A thread that runs STREAM copy beside a workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neighbor {
    pub cpu: CpuId,
    pub memory: NodeId,
}

/// Streams between a device and buffers on a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceFlow {
    /// Node of the device.
    pub device: NodeId,
    /// Node of the buffers.
    pub memory: NodeId,
    pub direction: Direction,
    pub streams: u32,
    /// Rate of the streams together without load, in bytes per second.
    pub path: f64,
}

#[derive(Debug)]
struct Path {
    load: Vec<usize>,
    store: Vec<usize>,
    core_bytes_per_s: f64,
    latency_ns: f64,
}

#[derive(Debug, Clone, Copy)]
struct CpuLocation {
    node: NodeId,
    /// Index of the capacity for the core's time, which is 1 s per second.
    core: usize,
}

impl Wiring {
    /// The wiring of a valid description.
    pub fn new(spec: &Spec) -> Self {
        let mut capacities: Vec<f64> = spec.links.iter().map(|link| link.bytes_per_s).collect();
        let links: BTreeMap<&str, usize> =
            spec.links.iter().enumerate().map(|(index, link)| (link.name.as_str(), index)).collect();
        let mut add = |bytes_per_s: f64| {
            capacities.push(bytes_per_s);
            capacities.len() - 1
        };
        let mut paths = BTreeMap::new();
        for path in &spec.paths {
            let among = |names: &[String]| {
                names.iter().filter_map(|name| links.get(name.as_str()).copied()).collect()
            };
            let (mut load, mut store): (Vec<usize>, Vec<usize>) =
                (among(&path.load_links), among(&path.store_links));
            load.push(add(path.load_bytes_per_s));
            store.push(add(path.store_bytes_per_s));
            let entry =
                Path { load, store, core_bytes_per_s: path.core_bytes_per_s, latency_ns: path.latency_ns };
            paths.insert((path.cpus, path.memory), entry);
        }
        let mut cpus = BTreeMap::new();
        for node in &spec.nodes {
            for core in node.cores() {
                let location = CpuLocation { node: node.id, core: add(1.0) };
                cpus.extend(core.iter().map(|cpu| (cpu, location)));
            }
        }
        let misplaced =
            spec.noise.misplaced.iter().map(|pages| (pages.node, (pages.found_on, pages.share))).collect();
        let load = &spec.conditions.other_load;
        let others = load.iter().flat_map(|load| load.cpus.iter().map(|cpu| (cpu, load.flow))).collect();
        Self { capacities, paths, cpus, misplaced, others, neighbors: RefCell::default() }
    }

    /// Starts threads that run STREAM copy.
    pub fn start_neighbors(&self, neighbors: Vec<Neighbor>) {
        *self.neighbors.borrow_mut() = neighbors.into_iter().map(|neighbor| (neighbor, 0.0)).collect();
        self.share(&self.capacities, Vec::new());
    }

    /// Stops these threads.
    pub fn stop_neighbors(&self) {
        self.neighbors.borrow_mut().clear();
    }

    /// Returns the bytes per second of each of these threads beside the last workload, as STREAM
    /// counts them.
    pub fn neighbor_rates(&self) -> Vec<f64> {
        self.neighbors.borrow().iter().map(|(_, rate)| *rate).collect()
    }

    /// Returns the bytes per second that the paths of streams between devices and memory have
    /// beside the neighbors. Streams and threads share links max-min fairly. The path of a single
    /// device contains its links already.
    pub fn device_rates(&self, flows: &[DeviceFlow], are_several_devices: bool) -> Vec<f64> {
        if self.neighbors.borrow().is_empty() && !are_several_devices {
            return flows.iter().map(|flow| flow.path).collect();
        }
        let mut capacities = self.capacities.clone();
        let mut uses = Vec::new();
        for flow in flows {
            capacities.push(flow.path);
            let own = CapacityUse { capacity: capacities.len() - 1, weight: 1.0 };
            let links =
                self.device_links(flow).iter().map(|link| CapacityUse { capacity: *link, weight: 1.0 });
            let of_stream: Vec<CapacityUse> = links.chain([own]).collect();
            uses.extend((0..flow.streams).map(|_| of_stream.clone()));
        }
        let mut rates = self.share(&capacities, uses).into_iter();
        flows.iter().map(|flow| rates.by_ref().take(flow.streams as usize).sum()).collect()
    }

    /// Returns the links between a device and memory: those between the CPUs of its node and the
    /// memory. A device loads what is written to it.
    fn device_links(&self, flow: &DeviceFlow) -> &[usize] {
        let Some(path) = self.paths.get(&(flow.device, flow.memory)) else { return &[] };
        let of_direction = match flow.direction {
            Direction::Write => &path.load,
            Direction::Read => &path.store,
        };
        // The last one is the capacity of the node's CPUs.
        of_direction.split_last().map_or(&[], |(_, links)| links)
    }

    /// Returns the bytes per second that each thread copies without noise, by CPU. Copies of others
    /// take their share.
    pub fn rates(&self, cpus: &CpuSet, flow: Flow, copy_loop: CopyLoop) -> Vec<f64> {
        self.share(&self.capacities, cpus.iter().map(|cpu| self.uses(cpu, flow, copy_loop)).collect())
    }

    /// Returns the bytes per second of each thread of STREAM, as STREAM counts them, by CPU.
    pub fn stream_rates(&self, stream: &StreamWorkload) -> Vec<f64> {
        let uses = stream.placement.cpus.iter().map(|cpu| self.uses_of_stream(cpu, stream));
        self.share(&self.capacities, uses.collect())
    }

    /// Returns the bytes per second that each loading thread reads, by CPU.
    pub fn load_rates(&self, load: &LoadWorkload) -> Vec<f64> {
        let mut capacities = self.capacities.clone();
        let uses = load.placement.cpus.iter().map(|cpu| self.uses_of_load(cpu, load, &mut capacities));
        let uses = uses.collect();
        self.share(&capacities, uses)
    }

    /// Returns the nanoseconds of a load from a CPU to a node's memory while other threads read it.
    /// Queueing grows as with one server, u / (1 - u), where u is the utilization of the busiest
    /// common capacity; without load the result is the path's latency.
    pub fn latency_ns(&self, cpu: CpuId, memory: NodeId, load: Option<&LoadWorkload>) -> f64 {
        let Some(location) = self.cpus.get(&cpu) else { return 0.0 };
        let used = self.highest_utilization(location.node, memory, load).min(MAX_UTILIZATION);
        let wait = 1.0 + QUEUEING_DELAY * used / (1.0 - used);
        let parts = self.parts(memory).into_iter();
        let idle =
            parts.filter_map(|(node, part)| Some(part * self.paths.get(&(location.node, node))?.latency_ns));
        idle.sum::<f64>() * wait
    }

    /// Returns the highest utilization of the capacities between a node's CPUs and a memory.
    fn highest_utilization(&self, cpus: NodeId, memory: NodeId, load: Option<&LoadWorkload>) -> f64 {
        let Some(path) = self.paths.get(&(cpus, memory)) else { return 0.0 };
        let mut unbounded = self.capacities.clone();
        let mut flows = Vec::new();
        if let Some(load) = load {
            let threads = load.placement.cpus.iter().zip(self.load_rates(load));
            flows.extend(threads.map(|(cpu, rate)| (self.uses_of_load(cpu, load, &mut unbounded), rate)));
        }
        let neighbors = self.neighbors.borrow();
        flows.extend(neighbors.iter().map(|(neighbor, rate)| (self.uses_of_neighbor(*neighbor), *rate)));
        let mut used = vec![0.0; self.capacities.len()];
        for (one, rate) in flows.iter().flat_map(|(uses, rate)| uses.iter().map(move |one| (one, rate))) {
            if let Some(used) = used.get_mut(one.capacity) {
                *used += rate * one.weight;
            }
        }
        path.load.iter().map(|index| used[*index] / self.capacities[*index]).fold(0.0, f64::max)
    }

    /// Returns the rates of own threads, next to the copies of others and the neighbors.
    fn share(&self, capacities: &[f64], own: Vec<Vec<CapacityUse>>) -> Vec<f64> {
        let threads = own.len();
        let others = self.others.iter().map(|(cpu, flow)| self.uses(*cpu, *flow, CopyLoop::Memcpy));
        let mut neighbors = self.neighbors.borrow_mut();
        let beside: Vec<Vec<CapacityUse>> =
            neighbors.iter().map(|(neighbor, _)| self.uses_of_neighbor(*neighbor)).collect();
        let flows: Vec<Vec<CapacityUse>> = own.into_iter().chain(beside).chain(others).collect();
        let mut rates = share(capacities, &flows);
        for ((_, rate), shared) in neighbors.iter_mut().zip(&rates[threads..]) {
            *rate = *shared;
        }
        rates.truncate(threads);
        rates
    }

    /// Returns the seconds until every thread has copied its buffer.
    ///
    /// Threads that finish earlier do not shorten this: the slowest one already has the largest
    /// share of its bottleneck.
    pub fn seconds_to_copy(&self, cpus: &CpuSet, flow: Flow, copy_loop: CopyLoop, bytes: u64) -> f64 {
        let slowest = self.rates(cpus, flow, copy_loop).into_iter().fold(f64::INFINITY, f64::min);
        bytes as f64 / slowest
    }

    /// Returns the capacity use of a copying thread per byte copied. An ordinary store first reads
    /// its cache line.
    fn uses(&self, cpu: CpuId, flow: Flow, copy_loop: CopyLoop) -> Vec<CapacityUse> {
        let allocate = f64::from(copy_loop.bus_bytes_per_byte()) - 2.0;
        // A core both loads and stores each copied byte.
        self.uses_of(cpu, &[(flow.source, 1.0, 0.0), (flow.sink, allocate, 1.0)], 1.0)
    }

    /// Returns the capacity use of a STREAM thread per byte that STREAM counts.
    fn uses_of_stream(&self, cpu: CpuId, stream: &StreamWorkload) -> Vec<CapacityUse> {
        self.uses_of_arrays(cpu, stream.memory, stream.op, stream.stream_loop)
    }

    fn uses_of_neighbor(&self, neighbor: Neighbor) -> Vec<CapacityUse> {
        self.uses_of_arrays(neighbor.cpu, neighbor.memory, StreamOp::Copy, StreamLoop::Ordinary)
    }

    fn uses_of_arrays(
        &self,
        cpu: CpuId,
        memory: NodeId,
        op: StreamOp,
        stream_loop: StreamLoop,
    ) -> Vec<CapacityUse> {
        let arrays = f64::from(op.arrays());
        let allocate = f64::from(stream_loop.bus_bytes(op)) - arrays;
        let (loads, stores) = ((arrays - 1.0 + allocate) / arrays, 1.0 / arrays);
        self.uses_of(cpu, &[(memory, loads, stores)], 0.5)
    }

    /// Returns the capacity use of a reading thread per byte read, and adds a capacity for its
    /// gaps.
    fn uses_of_load(&self, cpu: CpuId, load: &LoadWorkload, capacities: &mut Vec<f64>) -> Vec<CapacityUse> {
        let mut uses = self.uses_of(cpu, &[(load.memory, 1.0, 0.0)], 0.5);
        let core = uses.last().map_or(0.0, |core| core.weight);
        let piece = LoadWorkload::PIECE_BYTES as f64;
        capacities.push(piece / (piece * core + f64::from(load.gap_ns) / 1e9));
        uses.push(CapacityUse { capacity: capacities.len() - 1, weight: 1.0 });
        uses
    }

    /// Returns the capacity use of a thread that loads and stores given numbers of bytes at nodes
    /// per counted byte.
    ///
    /// `copied` is the number of copied bytes per counted byte. The core's time is last.
    fn uses_of(&self, cpu: CpuId, at: &[(NodeId, f64, f64)], copied: f64) -> Vec<CapacityUse> {
        let Some(location) = self.cpus.get(&cpu) else { return Vec::new() };
        let mut uses = Vec::new();
        let mut slowest: f64 = 0.0;
        let parts = at.iter().flat_map(|(node, loads, stores)| {
            self.parts(*node).into_iter().map(move |(node, part)| (node, part * loads, part * stores))
        });
        for (node, load, store) in parts {
            let Some(path) = self.paths.get(&(location.node, node)) else { continue };
            uses.extend(path.load.iter().map(|capacity| CapacityUse { capacity: *capacity, weight: load }));
            uses.extend(path.store.iter().map(|capacity| CapacityUse { capacity: *capacity, weight: store }));
            slowest = slowest.max(copied / path.core_bytes_per_s);
        }
        uses.push(CapacityUse { capacity: location.core, weight: slowest });
        uses
    }

    /// Returns the node of a CPU.
    pub fn node_of(&self, cpu: CpuId) -> Option<NodeId> {
        self.cpus.get(&cpu).map(|location| location.node)
    }

    /// Returns the nodes that a node's pages lie on, with their shares.
    pub fn parts(&self, node: NodeId) -> Vec<(NodeId, f64)> {
        match self.misplaced.get(&node) {
            Some((found_on, share)) if *share > 0.0 => vec![(node, 1.0 - share), (*found_on, *share)],
            _ => vec![(node, 1.0)],
        }
    }
}
