//! A probe that runs every workload of a campaign with load beside it.

use crate::cells::choose_cpus;
use crate::options::{CampaignError, Threads};
use crate::rounds::misplaced;
use crate::sizes::{memory_shortage, per_thread_bytes, Caches};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{LoadedOutcome, Outcome, Probe, ProbeError, ProbeExt};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{
    CountedTarget, LoadedWorkload, NeighborLoad, Placement, StreamLoad, Workload,
};
use numaio_schema::{Load, MeasuredLoad, Provenance, Summary, Warning};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Total size of the arrays of a load as a multiple of the last-level caches of its CPUs, so that
/// it loads memory (STREAM's rule).
const CACHES_FILLED: u64 = 4;
/// Minimum size of each array of a thread in bytes.
const LEAST_ARRAY_BYTES: u64 = 4 << 20;

/// A probe that runs every workload with load beside it; without loads it runs the workload alone.
///
/// The threads of a load run on CPUs of their node that the workload does not use, as far as there
/// are any.
pub struct UnderLoad<'a> {
    probe: &'a dyn Probe,
    loads: Vec<LoadSource>,
    seen: RefCell<LoadFigures>,
}

/// A requested load, with the CPUs of its node: one of each core first.
struct LoadSource {
    load: Load,
    cpus: Vec<CpuId>,
    bytes_per_array: u64,
}

/// Counts of the loads so far.
#[derive(Default)]
struct LoadFigures {
    /// Bytes per second of each load in each run.
    bytes_per_s: Vec<Vec<f64>>,
    /// CPUs that a load and a workload shared.
    shared_cpus: CpuSet,
    /// Loads with more threads than CPUs.
    crowded: BTreeSet<usize>,
    /// Reason why the pages of a load were not where it was requested.
    misplaced: Option<String>,
}

impl<'a> UnderLoad<'a> {
    /// Checks loads and prepares to run them. Loads without threads are dropped.
    ///
    /// # Errors
    /// [`CampaignError`] if a node does not exist, has no usable CPU or no usable memory, or cannot
    /// hold the arrays.
    pub fn new(probe: &'a dyn Probe, topology: &Topology, loads: &[Load]) -> Result<Self, CampaignError> {
        let is_load = |load: &&Load| !matches!(load, Load::Stream { threads: 0, .. });
        let sources = loads.iter().filter(is_load).map(|load| LoadSource::new(topology, load));
        let loads: Vec<LoadSource> = sources.collect::<Result<_, CampaignError>>()?;
        let seen = LoadFigures { bytes_per_s: vec![Vec::new(); loads.len()], ..LoadFigures::default() };
        Ok(Self { probe, loads, seen: RefCell::new(seen) })
    }

    /// Returns the bytes per second of each load in the newest run; `None` for commands.
    pub(crate) fn latest(&self) -> Vec<Option<f64>> {
        self.seen.borrow().bytes_per_s.iter().map(|values| values.last().copied()).collect()
    }

    /// Adds the loads, their bandwidths and warnings about them to the origin of a record.
    pub(crate) fn describe(&self, provenance: &mut Provenance) {
        let seen = self.seen.borrow();
        let measured = |(source, values): (&LoadSource, &Vec<f64>)| MeasuredLoad {
            load: source.load.clone(),
            bytes_per_s: Summary::of(values, None),
        };
        provenance.load = self.loads.iter().zip(&seen.bytes_per_s).map(measured).collect();
        if !seen.shared_cpus.is_empty() {
            let what = format!(
                "the load shares {} {} with the measurement, which slows both down",
                if seen.shared_cpus.len() == 1 { "CPU" } else { "CPUs" },
                seen.shared_cpus
            );
            provenance.warnings.push(Warning { rule: "load-shares-cpus".into(), message: what });
        }
        if let Some(why) = &seen.misplaced {
            provenance
                .warnings
                .push(Warning { rule: "load-misplaced".into(), message: format!("load: {why}") });
        }
        for index in &seen.crowded {
            let what = format!("the load {} has more threads than CPUs", self.loads[*index].load);
            provenance.warnings.push(Warning { rule: "load-crowded".into(), message: what });
        }
    }

    /// Returns the loads beside a workload.
    fn beside(&self, workload: &Workload) -> Vec<NeighborLoad> {
        let mut taken = measuring_cpus(workload);
        let seen = &mut *self.seen.borrow_mut();
        let mut loads = Vec::new();
        for (index, source) in self.loads.iter().enumerate() {
            let (cpus, threads, memory) = match &source.load {
                Load::Command { command } => {
                    loads.push(NeighborLoad::Command { command: command.clone() });
                    continue;
                }
                Load::Stream { threads, memory_node, .. } => {
                    (source.cpus(&taken, *threads), *threads, *memory_node)
                }
            };
            seen.shared_cpus = seen.shared_cpus.union(&cpus.intersection(&measuring_cpus(workload)));
            if threads as usize > cpus.len() {
                seen.crowded.insert(index);
            }
            taken = taken.union(&cpus);
            let placement = Placement { cpus };
            let bytes_per_array = source.bytes_per_array;
            loads.push(NeighborLoad::Stream(StreamLoad { placement, threads, memory, bytes_per_array }));
        }
        loads
    }
}

impl LoadSource {
    fn new(topology: &Topology, load: &Load) -> Result<Self, CampaignError> {
        let Load::Stream { cpu_node, threads, memory_node } = load else {
            return Ok(Self { load: load.clone(), cpus: Vec::new(), bytes_per_array: 0 });
        };
        let cores = cpus_of(topology, *cpu_node, Threads::Cores)?;
        let others = cpus_of(topology, *cpu_node, Threads::HardwareThreads)?.difference(&cores);
        let node = *memory_node;
        match topology.node(node) {
            None => return Err(unknown(topology, node)),
            Some(found) if !found.has_memory() || !found.memory_allowed => {
                return Err(CampaignError::NoMemory { node });
            }
            Some(_) => {}
        }
        let filled = Caches::of(topology, &cores).bytes.saturating_mul(CACHES_FILLED);
        let arrays = threads.saturating_mul(StreamLoad::ARRAYS);
        let bytes_per_array = per_thread_bytes(filled, arrays as usize).max(LEAST_ARRAY_BYTES);
        if let Some(ProbeError::NoMemory { needed_bytes, free_bytes, .. }) =
            memory_shortage(topology, node, bytes_per_array.saturating_mul(arrays.into()))
        {
            return Err(CampaignError::TooLittleMemory { node, needed_bytes, free_bytes });
        }
        let cpus = cores.iter().chain(others.iter()).collect();
        Ok(Self { load: load.clone(), cpus, bytes_per_array })
    }

    /// Returns the CPUs of the threads: those that are not taken first.
    fn cpus(&self, taken: &CpuSet, threads: u32) -> CpuSet {
        let (used, free): (Vec<CpuId>, Vec<CpuId>) = self.cpus.iter().partition(|cpu| taken.contains(**cpu));
        free.into_iter().chain(used).take(threads as usize).collect()
    }
}

fn cpus_of(topology: &Topology, node: NodeId, threads: Threads) -> Result<CpuSet, CampaignError> {
    match topology.node(node) {
        Some(_) => choose_cpus(topology, node, threads),
        None => Err(unknown(topology, node)),
    }
}

fn unknown(topology: &Topology, node: NodeId) -> CampaignError {
    CampaignError::UnknownNode { node, nodes: topology.nodes.iter().map(|node| node.id).collect() }
}

/// Returns the CPUs on which a workload may run.
fn measuring_cpus(workload: &Workload) -> CpuSet {
    match workload {
        Workload::Copy(copy) => copy.placement.cpus.clone(),
        Workload::Stream(stream) => stream.placement.cpus.clone(),
        Workload::Latency(latency) => {
            let load = latency.load.iter().flat_map(|load| load.placement.cpus.iter());
            load.chain([latency.cpu]).collect()
        }
        Workload::Io(io) => io.groups.iter().flat_map(|group| group.cpus.iter()).collect(),
        Workload::Tool(tool) => tool.processes.iter().flat_map(|process| process.cpus.iter()).collect(),
        Workload::Program(program) => program.placement.cpus.clone(),
        Workload::Ping(ping) => ping.cpus.clone(),
        Workload::Mmio(mmio) => CpuSet::one(mmio.cpu),
        Workload::Counted(counted) => match &counted.target {
            CountedTarget::Copy(copy) => copy.placement.cpus.clone(),
            CountedTarget::Stream(stream) => stream.placement.cpus.clone(),
            CountedTarget::Program(program) => program.placement.cpus.clone(),
            CountedTarget::Command { .. } | CountedTarget::Process { .. } => CpuSet::new(),
        },
        Workload::Loaded(loaded) => measuring_cpus(&loaded.workload),
    }
}

/// Returns whether a workload only queries a program, such as its version.
fn is_query(workload: &Workload) -> bool {
    matches!(workload, Workload::Tool(_)) && measuring_cpus(workload).is_empty()
}

impl Probe for UnderLoad<'_> {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        if self.loads.is_empty() || is_query(workload) {
            return self.probe.run(workload);
        }
        let loads = self.beside(workload);
        let loaded = LoadedWorkload { loads, workload: Box::new(workload.clone()) };
        let LoadedOutcome { outcome, loads, overhead_ns } = self.probe.loaded(&loaded)?;
        let seen = &mut *self.seen.borrow_mut();
        for (values, load) in seen.bytes_per_s.iter_mut().zip(&loads) {
            values.extend(load.bytes_per_s());
            seen.misplaced = seen.misplaced.take().or_else(|| misplaced(&load.residency));
        }
        let mut outcome = *outcome;
        outcome.add_elapsed_ns(overhead_ns);
        Ok(outcome)
    }
}
