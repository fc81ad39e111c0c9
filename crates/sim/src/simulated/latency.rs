//! Latency on the simulated machine.

use super::{admit_samples, refused, Simulated};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{LatencyOutcome, LatencySample, LoadOutcome, ProbeError};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{Flow, LatencyWorkload, LoadWorkload, Pages, Sampling};

/// Additional time of a load on a base page for the page table walk, relative to the load's time.
const TABLE_WALK: f64 = 0.25;

impl Simulated {
    /// Returns the nanoseconds of a load without noise.
    ///
    /// # Errors
    /// As [`numaio_machine::probe::Probe::run`].
    pub fn latency_truth(&self, latency: &LatencyWorkload) -> Result<f64, ProbeError> {
        self.admit_latency(latency)?;
        let walks = match self.residency(&buffers(latency), latency.pages).huge_bytes {
            0 => 1.0 + TABLE_WALK,
            _ => 1.0,
        };
        Ok(self.wiring.latency_ns(latency.cpu, latency.memory, latency.load.as_ref()) * walks)
    }

    fn admit_latency(&self, latency: &LatencyWorkload) -> Result<(), ProbeError> {
        self.admit_cpus(&CpuSet::one(latency.cpu))?;
        if latency.stride_bytes < 8 || u64::from(latency.stride_bytes) > latency.bytes / 2 {
            return refused("chase", "a chain of fewer than two places");
        }
        self.admit_buffers(&buffers(latency), latency.pages)?;
        if let Some(load) = &latency.load {
            self.admit_cpus(&load.placement.cpus)?;
            if load.placement.cpus.contains(latency.cpu) {
                return refused("load", "the CPU of the chain cannot load too");
            }
        }
        let LatencyWorkload { milliseconds, slices, .. } = *latency;
        admit_samples(Sampling::Window { milliseconds, slices })
    }

    pub(super) fn latency(&self, latency: &LatencyWorkload) -> Result<LatencyOutcome, ProbeError> {
        let truth_ns = self.latency_truth(latency)?;
        let (mut random, factor) = self.next_run(Flow { source: latency.memory, sink: latency.memory });
        let slice_ns = (u64::from(latency.milliseconds) * 1_000_000 / u64::from(latency.slices)).max(1);
        let deviation = self.spec.noise.sample;
        let mut sample = || {
            // The factor is one of bandwidth: a lower one makes each load take longer.
            let loads = slice_ns as f64 / truth_ns * factor * random.factor(deviation);
            LatencySample { loads: (loads as u64).max(1), ns: slice_ns }
        };
        let samples = (0..latency.slices).map(|_| sample()).collect();
        let residency = self.residency(&[buffers(latency)[0]], latency.pages);
        let sampled_ns = slice_ns.saturating_mul(u64::from(latency.slices));
        let load =
            latency.load.as_ref().map(|load| self.load_outcome(load, latency.pages, sampled_ns, factor));
        let places = latency.bytes as f64 / f64::from(latency.stride_bytes);
        // One pass, but no longer than the run.
        let warm_up_ns = ((places * truth_ns) as u64).min(sampled_ns);
        let preparation_ns = self.preparation_ns(1, latency.bytes as f64, &residency);
        let elapsed_ns = sampled_ns.saturating_add(warm_up_ns).saturating_add(preparation_ns);
        let mut busy = latency.load.as_ref().map(|load| load.placement.cpus.clone()).unwrap_or_default();
        busy.insert(latency.cpu);
        self.pass(elapsed_ns, &busy);
        Ok(LatencyOutcome { samples, elapsed_ns, residency, load })
    }

    fn load_outcome(&self, load: &LoadWorkload, pages: Pages, ns: u64, factor: f64) -> LoadOutcome {
        let rate: f64 = self.wiring.load_rates(load).iter().sum();
        let bytes_read = (rate * factor * ns as f64 / 1e9) as u64;
        let buffers = (load.memory, load.bytes_per_thread, load.placement.cpus.len() as u64);
        LoadOutcome { bytes_read, ns, residency: self.residency(&[buffers], pages) }
    }
}

/// Returns the buffers of the chain and of the loading threads.
fn buffers(latency: &LatencyWorkload) -> Vec<(NodeId, u64, u64)> {
    let chain = (latency.memory, latency.bytes, 1);
    let loads = latency.load.as_ref();
    let loads = loads.map(|load| (load.memory, load.bytes_per_thread, load.placement.cpus.len() as u64));
    std::iter::once(chain).chain(loads).collect()
}
