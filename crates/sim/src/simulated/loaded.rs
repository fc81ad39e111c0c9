//! Workloads with load beside them on the simulated machine.

use super::{refused, Simulated};
use crate::wiring::Neighbor;
use numaio_machine::ids::CpuId;
use numaio_machine::probe::{LoadedOutcome, NeighborOutcome, Probe, ProbeError};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{LoadedWorkload, NeighborLoad, Pages, StreamLoad, Workload};

impl Simulated {
    /// Computes something, such as [`Simulated::io_truth`], while loads run.
    ///
    /// # Errors
    /// As [`Probe::run`].
    pub fn beside<T>(
        &self,
        loads: &[NeighborLoad],
        compute: impl FnOnce(&Self) -> Result<T, ProbeError>,
    ) -> Result<T, ProbeError> {
        let streams = streams(loads)?;
        for load in &streams {
            self.admit_load(load)?;
        }
        self.wiring.start_neighbors(streams.iter().flat_map(|load| neighbors(load)).collect());
        let computed = compute(self);
        self.wiring.stop_neighbors();
        computed
    }

    fn admit_load(&self, load: &StreamLoad) -> Result<(), ProbeError> {
        self.admit_cpus(&load.placement.cpus)?;
        if load.threads == 0 {
            return refused("load", "no threads");
        }
        self.admit_buffers(&[buffers(load)], Pages::Transparent)
    }

    pub(super) fn loaded(&self, loaded: &LoadedWorkload) -> Result<LoadedOutcome, ProbeError> {
        if loaded.loads.is_empty() || matches!(*loaded.workload, Workload::Loaded(_)) {
            return refused("load", "expected loads beside a workload without load");
        }
        let hours = self.usage.borrow().hours();
        let (outcome, rates) = self.beside(&loaded.loads, |machine| {
            let outcome = machine.run(&loaded.workload)?;
            Ok((outcome, machine.wiring.neighbor_rates()))
        })?;
        let ns = ((self.usage.borrow().hours() - hours) * 3.6e12).round().max(1.0) as u64;
        let streams = streams(&loaded.loads)?;
        let mut rates = rates.into_iter();
        let outcomes = streams.iter().map(|load| {
            let rate: f64 = rates.by_ref().take(load.threads as usize).sum();
            let bytes = (rate * self.balancing_factor() * ns as f64 / 1e9) as u64;
            let residency = self.residency(&[buffers(load)], Pages::Transparent);
            NeighborOutcome { bytes: Some(bytes), ns, residency }
        });
        let loads: Vec<NeighborOutcome> = outcomes.collect();
        let overhead = |(load, outcome): (&&StreamLoad, &NeighborOutcome)| {
            let bytes = load.bytes_per_array as f64 * f64::from(StreamLoad::ARRAYS);
            self.preparation_ns(load.threads.into(), bytes, &outcome.residency)
        };
        let overhead_ns = streams.iter().zip(&loads).map(overhead).fold(0, u64::saturating_add);
        let busy: CpuSet = streams.iter().flat_map(|load| load.placement.cpus.iter()).collect();
        self.pass(overhead_ns, &busy);
        Ok(LoadedOutcome { outcome: Box::new(outcome), loads, overhead_ns })
    }
}

/// Returns the STREAM loads; there are no shells to run commands.
fn streams(loads: &[NeighborLoad]) -> Result<Vec<&StreamLoad>, ProbeError> {
    let streams = loads.iter().map(|load| match load {
        NeighborLoad::Stream(stream) => Ok(stream),
        NeighborLoad::Command { command } => Err(ProbeError::Unsupported { feature: command.clone() }),
    });
    streams.collect()
}

/// Returns the threads of a load.
fn neighbors(load: &StreamLoad) -> Vec<Neighbor> {
    let cpus: Vec<CpuId> = load.placement.cpus.iter().collect();
    let thread = |index: u32| Neighbor { cpu: cpus[index as usize % cpus.len()], memory: load.memory };
    (0..load.threads).map(thread).collect()
}

fn buffers(load: &StreamLoad) -> (numaio_machine::ids::NodeId, u64, u64) {
    (load.memory, load.bytes_per_array, u64::from(load.threads) * u64::from(StreamLoad::ARRAYS))
}
