//! Chains of loads, and their length.

use super::options::LatencyOptions;
use crate::pairs::Pairs;
use crate::sizes::{caches_assumed, usable_bytes, Caches, BUFFER_STEP};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_machine::units::format_size;
use numaio_machine::workload::{LatencyWorkload, LoadWorkload, Pages};
use numaio_schema::Warning;

/// Cache lines of the chain as a multiple of the last-level cache, so that at least three of four
/// loads miss it under any replacement.
const CACHES_FILLED: u64 = 4;
/// Minimum of that multiple: below, the cache would determine the latency as much as the memory.
const LEAST_CACHES_FILLED: u64 = 2;
/// Minimum buffer size, beyond the reach of a TLB with base pages.
const LEAST_BYTES: u64 = 16 << 20;
/// Assumed time per load when choosing the length of a run, in nanoseconds.
const NS_PER_LOAD: u64 = 100;
/// Length of a run in milliseconds: one pass over the chain, within these bounds.
const WINDOW_MS: std::ops::RangeInclusive<u64> = 60..=400;
/// Samples per run.
const SLICES: u32 = 5;
/// Bytes of a cache line, if unknown.
pub(super) const LINE_BYTES: u32 = 64;

/// Chain that one CPU of a node follows.
pub(super) struct Chain {
    pub cpu_node: NodeId,
    pub cpu: CpuId,
    pub bytes: u64,
}

/// Returns a chain for each CPU node, limited by the memory nodes with enough memory, so that all
/// cells of a row use the same length.
pub(super) fn chains(
    topology: &Topology,
    pairs: &Pairs,
    options: &LatencyOptions,
) -> (Vec<Chain>, Vec<Warning>) {
    let (mut chains, mut warnings) = (Vec::new(), Vec::new());
    for cpu_node in pairs.cpu_nodes.iter() {
        let Some(cpu) = topology.cores(cpu_node).first() else { continue };
        let caches = Caches::of(topology, &CpuSet::one(cpu));
        let step = |bytes: u64| bytes.checked_next_multiple_of(BUFFER_STEP).unwrap_or(u64::MAX);
        // Each element occupies one line, at multiples of the stride.
        let lines = |times: u64| caches.bytes.saturating_mul(times) / u64::from(LINE_BYTES);
        let long = |times: u64| lines(times).saturating_mul(u64::from(options.stride_bytes.max(LINE_BYTES)));
        let wanted = step(long(CACHES_FILLED).max(LEAST_BYTES));
        let least = step(long(LEAST_CACHES_FILLED));
        let rooms = pairs.memory_nodes.iter().map(|memory| usable_bytes(topology, memory));
        let room = rooms.filter(|room| *room >= least).min();
        let bytes = match room {
            _ if options.pages == Pages::Huge => wanted,
            Some(room) => wanted.min(room / BUFFER_STEP * BUFFER_STEP).max(least),
            None => least,
        };
        if caches.assumed {
            warnings.push(caches_assumed(cpu_node));
        }
        if bytes < wanted {
            let [bytes, wanted] = [bytes, wanted].map(format_size);
            let what =
                format!("the buffer for node {cpu_node} is limited to {bytes} of {wanted} by free memory");
            warnings.push(Warning { rule: "buffer-capped".into(), message: what });
        }
        chains.push(Chain { cpu_node, cpu, bytes });
    }
    (chains, warnings)
}

impl Chain {
    /// Returns the workload of following the chain on a node, idle or under load.
    pub fn workload(
        &self,
        memory: NodeId,
        load: Option<LoadWorkload>,
        options: &LatencyOptions,
    ) -> LatencyWorkload {
        let places = self.bytes / u64::from(options.stride_bytes.max(1));
        let pass_ms = places.saturating_mul(NS_PER_LOAD) / 1_000_000;
        let milliseconds = pass_ms.clamp(*WINDOW_MS.start(), *WINDOW_MS.end()).next_multiple_of(20) as u32;
        LatencyWorkload {
            cpu: self.cpu,
            memory,
            bytes: self.bytes,
            stride_bytes: options.stride_bytes,
            pages: options.pages,
            milliseconds,
            slices: SLICES,
            load,
        }
    }
}
