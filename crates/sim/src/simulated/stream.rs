//! STREAM on the simulated machine.

use super::{admit_samples, start_skew_ns, Simulated};
use crate::noise::Random;
use numaio_machine::probe::{ProbeError, StreamOutcome, StreamSample};
use numaio_machine::workload::{CopyLoop, Flow, Sampling, StreamLoop, StreamWorkload};

impl Simulated {
    /// Returns the bytes per second of STREAM without noise, as STREAM counts them.
    ///
    /// # Errors
    /// As [`numaio_machine::probe::Probe::run`].
    pub fn stream_truth(&self, stream: &StreamWorkload) -> Result<f64, ProbeError> {
        self.admit_stream(stream)?;
        Ok(self.wiring.stream_rates(stream).iter().sum::<f64>() * self.balancing_factor())
    }

    pub(super) fn admit_stream(&self, stream: &StreamWorkload) -> Result<(), ProbeError> {
        self.admit_cpus(&stream.placement.cpus)?;
        // The loops of STREAM need the same vector extensions as copy loops.
        let vectors = match stream.stream_loop {
            StreamLoop::Ordinary => None,
            StreamLoop::Avx512 => Some(CopyLoop::Avx512),
            StreamLoop::Avx2 => Some(CopyLoop::Avx2),
            StreamLoop::Stnp => Some(CopyLoop::Stnp),
        };
        if vectors.is_some_and(|vectors| !self.spec.loops.contains(&vectors)) {
            return Err(ProbeError::Unsupported { feature: stream.stream_loop.name().to_owned() });
        }
        let arrays = stream.placement.cpus.len() as u64 * u64::from(stream.op.arrays());
        self.admit_buffers(&[(stream.memory, stream.bytes_per_array, arrays)], stream.pages)?;
        admit_samples(stream.sampling)
    }

    pub(super) fn stream(&self, stream: &StreamWorkload) -> Result<StreamOutcome, ProbeError> {
        self.admit_stream(stream)?;
        let (mut random, factor) = self.next_run(Flow { source: stream.memory, sink: stream.memory });
        let rates = self.wiring.stream_rates(stream);
        // Bytes of a thread's pass as STREAM counts them, and the time of the slowest thread.
        let pass = stream.bytes_per_array as f64 * f64::from(stream.op.arrays());
        let pass_s = pass / rates.iter().copied().fold(f64::INFINITY, f64::min) / factor;
        let samples = self.stream_samples(stream, rates.iter().sum::<f64>() * factor, pass_s, &mut random);
        let threads = stream.placement.cpus.len() as u64;
        let start_skew_ns = start_skew_ns(threads, &mut random);
        let arrays = threads * u64::from(stream.op.arrays());
        let residency = self.residency(&[(stream.memory, stream.bytes_per_array, arrays)], stream.pages);
        let sampled_ns = samples.iter().map(|sample| sample.ns).fold(0, u64::saturating_add);
        let preparation_ns = self.preparation_ns(threads, pass, &residency);
        let warm_up_ns = (pass_s * 1e9) as u64;
        let elapsed_ns =
            [sampled_ns, preparation_ns, warm_up_ns, start_skew_ns].into_iter().fold(0, u64::saturating_add);
        self.pass(elapsed_ns, &stream.placement.cpus);
        Ok(StreamOutcome { samples, elapsed_ns, start_skew_ns, residency })
    }

    fn stream_samples(
        &self,
        stream: &StreamWorkload,
        bytes_per_s: f64,
        pass_s: f64,
        random: &mut Random,
    ) -> Vec<StreamSample> {
        let deviation = self.spec.noise.sample;
        match stream.sampling {
            Sampling::Window { milliseconds, slices } => {
                let ns = (u64::from(milliseconds) * 1_000_000 / u64::from(slices)).max(1);
                let mut bytes = || bytes_per_s * random.factor(deviation) * ns as f64 / 1e9;
                (0..slices).map(|_| StreamSample { bytes: (bytes() as u64).max(1), ns }).collect()
            }
            Sampling::Repetitions { count } => {
                let threads = stream.placement.cpus.len() as u64;
                let bytes = stream.bytes_per_array.saturating_mul(u64::from(stream.op.arrays()) * threads);
                let mut ns = || ((pass_s / random.factor(deviation) * 1e9) as u64).max(1);
                (0..count).map(|_| StreamSample { bytes, ns: ns() }).collect()
            }
        }
    }
}
