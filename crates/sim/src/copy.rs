//! How fast a copy runs: threads, the paths and links they cross, and what each gets.

use crate::sharing::{share, Use};
use crate::spec::Spec;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{CopyLoop, Flow};
use std::collections::BTreeMap;

/// A machine's capacities, and where each path's stand among them.
#[derive(Debug)]
pub(crate) struct Wiring {
    capacities: Vec<f64>,
    paths: BTreeMap<(NodeId, NodeId), Path>,
    cpus: BTreeMap<CpuId, CpuPlace>,
    /// Share of a node's pages that lie elsewhere, and where.
    misplaced: BTreeMap<NodeId, (NodeId, f64)>,
    /// Others' copies.
    others: Vec<(CpuId, Flow)>,
}

#[derive(Debug)]
struct Path {
    load: Vec<usize>,
    store: Vec<usize>,
    core_bytes_per_s: f64,
}

#[derive(Debug, Clone, Copy)]
struct CpuPlace {
    node: NodeId,
    /// The capacity that is its core's time: one second a second.
    core: usize,
}

impl Wiring {
    /// The wiring of a machine that was checked.
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
            let entry = Path { load, store, core_bytes_per_s: path.core_bytes_per_s };
            paths.insert((path.cpus, path.memory), entry);
        }
        let mut cpus = BTreeMap::new();
        for node in &spec.nodes {
            for core in node.cores() {
                let place = CpuPlace { node: node.id, core: add(1.0) };
                cpus.extend(core.iter().map(|cpu| (cpu, place)));
            }
        }
        let misplaced =
            spec.noise.misplaced.iter().map(|pages| (pages.node, (pages.found_on, pages.share))).collect();
        let load = &spec.conditions.other_load;
        let others = load.iter().flat_map(|load| load.cpus.iter().map(|cpu| (cpu, load.flow))).collect();
        Self { capacities, paths, cpus, misplaced, others }
    }

    /// Bytes per second that each thread copies, without noise, by CPU. Others' copies take their share.
    pub fn rates(&self, cpus: &CpuSet, flow: Flow, copy_loop: CopyLoop) -> Vec<f64> {
        let own = cpus.iter().map(|cpu| self.uses(cpu, flow, copy_loop));
        let others = self.others.iter().map(|(cpu, flow)| self.uses(*cpu, *flow, CopyLoop::Memcpy));
        let flows: Vec<Vec<Use>> = own.chain(others).collect();
        let mut rates = share(&self.capacities, &flows);
        rates.truncate(cpus.len());
        rates
    }

    /// Seconds until every thread has copied its buffer. Threads that are done earlier do not make it shorter:
    /// whoever is slowest has the most of what holds it, so the others never took it anything.
    pub fn seconds_to_copy(&self, cpus: &CpuSet, flow: Flow, copy_loop: CopyLoop, bytes: u64) -> f64 {
        let slowest = self.rates(cpus, flow, copy_loop).into_iter().fold(f64::INFINITY, f64::min);
        bytes as f64 / slowest
    }

    /// What a copying thread crosses, per byte copied. An ordinary store first reads the line it writes.
    fn uses(&self, cpu: CpuId, flow: Flow, copy_loop: CopyLoop) -> Vec<Use> {
        let Some(place) = self.cpus.get(&cpu) else { return Vec::new() };
        let allocate = f64::from(copy_loop.bus_bytes_per_byte()) - 2.0;
        let mut uses = Vec::new();
        let mut slowest: f64 = 0.0;
        let parts = self.parts(flow.source).into_iter().map(|(node, part)| (node, part, 0.0));
        let parts =
            parts.chain(self.parts(flow.sink).into_iter().map(|(node, part)| (node, part * allocate, part)));
        for (node, load, store) in parts {
            let Some(path) = self.paths.get(&(place.node, node)) else { continue };
            uses.extend(path.load.iter().map(|capacity| Use { capacity: *capacity, weight: load }));
            uses.extend(path.store.iter().map(|capacity| Use { capacity: *capacity, weight: store }));
            slowest = slowest.max(1.0 / path.core_bytes_per_s);
        }
        uses.push(Use { capacity: place.core, weight: slowest });
        uses
    }

    /// Where the pages asked for on a node lie.
    fn parts(&self, node: NodeId) -> Vec<(NodeId, f64)> {
        match self.misplaced.get(&node) {
            Some((found_on, share)) if *share > 0.0 => vec![(node, 1.0 - share), (*found_on, *share)],
            _ => vec![(node, 1.0)],
        }
    }
}
