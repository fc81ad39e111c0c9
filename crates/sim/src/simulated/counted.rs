//! Counted workloads on the simulated machine: events computed from the bytes on its paths.

use super::{refused, Simulated};
use numaio_machine::counters::{Count, Counter, CounterSource, MissingCounter};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{CountedOutcome, Outcome, ProbeError, Residency};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{
    CopyWorkload, CountedTarget, CountedWorkload, Flow, Placement, ProgramWorkload, StreamWorkload,
};
use std::collections::BTreeMap;

/// Bytes of a cache line.
const LINE: f64 = 64.0;
/// Share of local loads that other nodes serve: page tables and data of the kernel.
const STRAY: f64 = 0.001;
/// Share of lines that hardware prefetchers request.
const PREFETCHED: f64 = 0.5;
/// Lines in flight of a core, loaded or prefetched, which divide the latency that it waits for.
const LINES_IN_FLIGHT: f64 = 40.0;

/// Bytes that threads of a node load from and store to a memory node.
#[derive(Debug, Clone, Copy, Default)]
struct PathBytes {
    load: f64,
    store: f64,
}

/// The counts of a counted workload.
struct CountedRun {
    paths: BTreeMap<(NodeId, NodeId), PathBytes>,
    threads: u64,
    counted_ns: u64,
    elapsed_ns: u64,
    residency: Residency,
    /// Bytes that the workload counts.
    bytes: f64,
}

impl Simulated {
    pub(super) fn counted(&self, workload: &CountedWorkload) -> Result<CountedOutcome, ProbeError> {
        let (outcome, run) = match &workload.target {
            CountedTarget::Copy(copy) => self.counted_copy(copy)?,
            CountedTarget::Stream(stream) => self.counted_stream(stream)?,
            CountedTarget::Program(program) => self.counted_program(program)?,
            CountedTarget::Command { command, time_limit_ms } => {
                let Some(memory) = self.spec.allowed_nodes().first() else {
                    return refused("run a program", "no memory");
                };
                self.counted_program(&ProgramWorkload {
                    command: command.clone(),
                    placement: Placement { cpus: self.spec.allowed_cpus() },
                    memory,
                    time_limit_ms: *time_limit_ms,
                })?
            }
            CountedTarget::Process { pid, .. } => {
                return refused(&format!("count process {pid}"), "no such process")
            }
        };
        let all = self.counts(&run);
        let (mut counts, mut missing) = (Vec::new(), Vec::new());
        for counter in &workload.counters {
            let found: Vec<&Count> = all.iter().filter(|count| count.counter == *counter).collect();
            if found.is_empty() {
                let reason = "the simulated machine does not model it".to_owned();
                missing.push(MissingCounter { counter: *counter, source: CounterSource::Simulated, reason });
            }
            counts.extend(found.into_iter().cloned());
        }
        let outcome = Some(Box::new(outcome));
        let CountedRun { counted_ns, elapsed_ns, .. } = run;
        Ok(CountedOutcome { outcome, counted_ns, elapsed_ns, ended_early: false, counts, missing })
    }

    fn counted_copy(&self, copy: &CopyWorkload) -> Result<(Outcome, CountedRun), ProbeError> {
        let outcome = self.copy(copy)?;
        let bytes: u64 = outcome.samples.iter().map(|sample| sample.bytes_copied).sum();
        let cpus = &copy.placement.cpus;
        let allocate = f64::from(copy.copy_loop.bus_bytes_per_byte()) - 2.0;
        let Flow { source, sink } = copy.flow;
        let at = [(source, 1.0, 0.0), (sink, allocate, 1.0)];
        let rates = self.wiring.rates(cpus, copy.flow, copy.copy_loop);
        let run = CountedRun {
            paths: self.path_bytes(cpus, &rates, bytes as f64, &at),
            threads: cpus.len() as u64,
            counted_ns: outcome.samples.iter().map(|sample| sample.ns).sum(),
            elapsed_ns: outcome.elapsed_ns,
            residency: outcome.residency.clone(),
            bytes: bytes as f64,
        };
        Ok((Outcome::Copy(outcome), run))
    }

    fn counted_stream(&self, stream: &StreamWorkload) -> Result<(Outcome, CountedRun), ProbeError> {
        let outcome = self.stream(stream)?;
        let bytes: u64 = outcome.samples.iter().map(|sample| sample.bytes).sum();
        let run = CountedRun {
            paths: self.stream_bytes(stream, bytes as f64),
            threads: stream.placement.cpus.len() as u64,
            counted_ns: outcome.samples.iter().map(|sample| sample.ns).sum(),
            elapsed_ns: outcome.elapsed_ns,
            residency: outcome.residency.clone(),
            bytes: bytes as f64,
        };
        Ok((Outcome::Stream(outcome), run))
    }

    fn counted_program(&self, program: &ProgramWorkload) -> Result<(Outcome, CountedRun), ProbeError> {
        let outcome = self.program(program)?;
        let (simulated, stream) = self.admit_program(program)?;
        let per_s = self.stream_truth(&stream)? * simulated.efficiency;
        let bytes = per_s * outcome.elapsed_ns as f64 / 1e9;
        let run = CountedRun {
            paths: self.stream_bytes(&stream, bytes),
            threads: stream.placement.cpus.len() as u64,
            counted_ns: outcome.elapsed_ns,
            elapsed_ns: outcome.elapsed_ns,
            residency: outcome.residency.clone(),
            bytes,
        };
        Ok((Outcome::Program(outcome), run))
    }

    fn stream_bytes(&self, stream: &StreamWorkload, bytes: f64) -> BTreeMap<(NodeId, NodeId), PathBytes> {
        let arrays = f64::from(stream.op.arrays());
        let allocate = f64::from(stream.stream_loop.bus_bytes(stream.op)) - arrays;
        let at = [(stream.memory, (arrays - 1.0 + allocate) / arrays, 1.0 / arrays)];
        self.path_bytes(&stream.placement.cpus, &self.wiring.stream_rates(stream), bytes, &at)
    }

    /// Divides bytes among threads by their rates, and among the nodes of their memory. `at` has
    /// the bytes that are loaded and stored at each node per counted byte.
    fn path_bytes(
        &self,
        cpus: &CpuSet,
        rates: &[f64],
        bytes: f64,
        at: &[(NodeId, f64, f64)],
    ) -> BTreeMap<(NodeId, NodeId), PathBytes> {
        let all: f64 = rates.iter().sum();
        let mut paths: BTreeMap<(NodeId, NodeId), PathBytes> = BTreeMap::new();
        for (cpu, rate) in cpus.iter().zip(rates) {
            let Some(node) = self.wiring.node_of(cpu) else { continue };
            let own = bytes * rate / all.max(f64::MIN_POSITIVE);
            for (memory, load, store) in at {
                for (memory, part) in self.wiring.parts(*memory) {
                    let path = paths.entry((node, memory)).or_default();
                    path.load += own * load * part;
                    path.store += own * store * part;
                }
            }
        }
        paths
    }

    fn counts(&self, run: &CountedRun) -> Vec<Count> {
        let mut counts = self.thread_counts(run);
        counts.extend(node_counts(run));
        counts
    }

    fn thread_counts(&self, run: &CountedRun) -> Vec<Count> {
        let sum = |of: &dyn Fn(&PathBytes) -> f64, is_remote: bool| -> f64 {
            let paths = run.paths.iter().filter(|((cpus, memory), _)| (cpus != memory) == is_remote);
            paths.map(|(_, path)| of(path)).sum::<f64>() / LINE
        };
        let [local, remote] = [false, true].map(|is_remote| sum(&|path| path.load, is_remote));
        let [local_stores, remote_stores] = [false, true].map(|is_remote| sum(&|path| path.store, is_remote));
        let mhz = f64::from(self.spec.conditions.frequency_mhz.1);
        let cycles = run.threads as f64 * run.counted_ns as f64 * mhz / 1e3;
        let waits = run.paths.iter().map(|((cpus, memory), path)| {
            let cpu = self.spec.node(*cpus).and_then(|node| node.cpus.first());
            cpu.map_or(0.0, |cpu| path.load / LINE * self.wiring.latency_ns(cpu, *memory, None))
        });
        let stalls = (waits.sum::<f64>() * mhz / 1e3 / LINES_IN_FLIGHT).min(cycles);
        let values = [
            (Counter::Cycles, cycles),
            (Counter::Instructions, run.bytes / 8.0),
            (Counter::StallCycles, stalls),
            (Counter::LlcLoads, local + remote),
            (Counter::LlcLoadMisses, local + remote),
            (Counter::NodeLoads, local + remote),
            (Counter::NodeLoadMisses, remote + local * STRAY),
            (Counter::NodeStores, local_stores + remote_stores),
            (Counter::NodeStoreMisses, remote_stores + local_stores * STRAY),
            (Counter::LocalDramLoads, local * (1.0 - STRAY)),
            (Counter::RemoteDramLoads, remote + local * STRAY),
            (Counter::RemoteCacheLoads, 0.0),
            (Counter::Prefetches, (local + remote) * PREFETCHED),
            (Counter::PageFaults, pages(run) as f64),
            (Counter::CpuMigrations, 0.0),
            (Counter::ContextSwitches, 0.0),
        ];
        let ns = run.counted_ns.saturating_mul(run.threads);
        values.into_iter().map(|(counter, value)| count(counter, None, value, ns)).collect()
    }
}

/// Counts of nodes and of the machine.
fn node_counts(run: &CountedRun) -> Vec<Count> {
    let mut sums: BTreeMap<(Counter, Option<NodeId>), f64> = BTreeMap::new();
    let mut add = |counter, node, value| *sums.entry((counter, node)).or_default() += value;
    for ((cpus, memory), PathBytes { load, store }) in &run.paths {
        let (at_cpus, at_memory) = (Some(*cpus), Some(*memory));
        let is_local = cpus == memory;
        let local = if is_local { 1.0 } else { 0.0 };
        add(Counter::MemoryReadBytes, at_memory, *load);
        add(Counter::MemoryWriteBytes, at_memory, *store);
        add(Counter::LinkBytes, at_memory, load * (1.0 - local));
        add(Counter::LinkBytes, at_cpus, store * (1.0 - local));
        add(Counter::MbmLocalBytes, at_cpus, (load + store) * local);
        add(Counter::MbmTotalBytes, at_cpus, load + store);
        let pages = pages(run) as f64 / run.paths.len() as f64;
        add(Counter::NumaHit, at_memory, pages);
        add(Counter::NumaMiss, at_memory, 0.0);
        add(Counter::NumaForeign, at_memory, 0.0);
        add(Counter::NumaLocal, at_memory, pages * local);
        add(Counter::NumaOther, at_memory, pages * (1.0 - local));
    }
    add(Counter::HintFaults, None, 0.0);
    add(Counter::PagesMigrated, None, 0.0);
    sums.into_iter().map(|((counter, node), value)| count(counter, node, value, 0)).collect()
}

/// Returns the number of pages of the buffers, which are checked before and after the run.
fn pages(run: &CountedRun) -> u64 {
    run.residency.pages_checked.unwrap_or(0) / 2
}

fn count(counter: Counter, node: Option<NodeId>, value: f64, ns: u64) -> Count {
    let event = counter.name().to_owned();
    let raw = value.round() as u64;
    Count { counter, node, source: CounterSource::Simulated, event, raw, enabled_ns: ns, running_ns: ns }
}
