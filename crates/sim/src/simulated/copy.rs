//! Copies on the simulated machine.

use super::{admit_samples, start_skew_ns, Simulated};
use crate::noise::Random;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{CopyOutcome, CopySample, ProbeError};
use numaio_machine::workload::{CopyLoop, CopyWorkload, Sampling};

impl Simulated {
    /// Returns the bytes per second of a copy without noise.
    ///
    /// # Errors
    /// As [`numaio_machine::probe::Probe::run`].
    pub fn truth(&self, copy: &CopyWorkload) -> Result<f64, ProbeError> {
        self.admit_copy(copy)?;
        let rates = self.wiring.rates(&copy.placement.cpus, copy.flow, copy.copy_loop);
        Ok(rates.iter().sum::<f64>() * self.balancing_factor())
    }

    fn admit_copy(&self, copy: &CopyWorkload) -> Result<(), ProbeError> {
        self.admit_cpus(&copy.placement.cpus)?;
        if copy.copy_loop != CopyLoop::Memcpy && !self.spec.loops.contains(&copy.copy_loop) {
            return Err(ProbeError::Unsupported { feature: copy.copy_loop.name().to_owned() });
        }
        self.admit_buffers(&buffers(copy), copy.pages)?;
        admit_samples(copy.sampling)
    }

    pub(super) fn copy(&self, copy: &CopyWorkload) -> Result<CopyOutcome, ProbeError> {
        self.admit_copy(copy)?;
        let (mut random, factor) = self.next_run(copy.flow);
        let samples = self.copy_samples(copy, factor, &mut random);
        let threads = copy.placement.cpus.len() as u64;
        let start_skew_ns = start_skew_ns(threads, &mut random);
        let residency = self.residency(&buffers(copy), copy.pages);
        let sampled_ns = samples.iter().map(|sample| sample.ns).fold(0, u64::saturating_add);
        let preparation_ns = self.preparation_ns(threads, 2.0 * copy.bytes_per_thread as f64, &residency);
        // The warm-up copies every buffer once.
        let warm_up_ns = (self.seconds_to_copy(copy) / factor * 1e9) as u64;
        let elapsed_ns =
            [sampled_ns, preparation_ns, warm_up_ns, start_skew_ns].into_iter().fold(0, u64::saturating_add);
        self.pass(elapsed_ns, &copy.placement.cpus);
        Ok(CopyOutcome { samples, elapsed_ns, start_skew_ns, residency, c_library: None })
    }

    fn copy_samples(&self, copy: &CopyWorkload, factor: f64, random: &mut Random) -> Vec<CopySample> {
        let cpus = &copy.placement.cpus;
        let deviation = self.spec.noise.sample;
        match copy.sampling {
            Sampling::Window { milliseconds, slices } => {
                let rate: f64 = self.wiring.rates(cpus, copy.flow, copy.copy_loop).iter().sum();
                let ns = (u64::from(milliseconds) * 1_000_000 / u64::from(slices)).max(1);
                let mut one = || {
                    let bytes = rate * factor * random.factor(deviation) * ns as f64 / 1e9;
                    CopySample { bytes_copied: (bytes as u64).max(1), ns }
                };
                (0..slices).map(|_| one()).collect()
            }
            Sampling::Repetitions { count } => {
                let seconds = self.seconds_to_copy(copy) / factor;
                let bytes_copied = copy.bytes_per_thread.saturating_mul(cpus.len() as u64);
                let mut ns = || ((seconds / random.factor(deviation) * 1e9) as u64).max(1);
                (0..count).map(|_| CopySample { bytes_copied, ns: ns() }).collect()
            }
        }
    }

    fn seconds_to_copy(&self, copy: &CopyWorkload) -> f64 {
        self.wiring.seconds_to_copy(&copy.placement.cpus, copy.flow, copy.copy_loop, copy.bytes_per_thread)
    }
}

/// Returns the source and sink buffers of all threads.
fn buffers(copy: &CopyWorkload) -> [(NodeId, u64, u64); 2] {
    let threads = copy.placement.cpus.len() as u64;
    [copy.flow.source, copy.flow.sink].map(|node| (node, copy.bytes_per_thread, threads))
}
