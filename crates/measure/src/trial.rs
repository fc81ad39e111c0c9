//! The short trial in which the copy loop is chosen.

use crate::cells::Target;
use crate::options::Options;
use numaio_machine::probe::{CopyOutcome, Probe, ProbeError, ProbeExt};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{CopyLoop, Flow, Sampling};
use numaio_schema::{median, LoopTrial};

/// Rounds of the trial.
const ROUNDS: usize = 3;
/// A loop slower than this share of the best after the first round is not tried again.
const HOPELESS: f64 = 0.8;
/// A loop this near to the best, as a share of it, is as good: a trial this short tells no less.
const AS_GOOD: f64 = 0.98;
const SAMPLING: Sampling = Sampling::Window { milliseconds: 60, slices: 3 };

/// What a trial found.
pub struct Trial {
    /// The fastest loop.
    pub copy_loop: CopyLoop,
    /// Its local bandwidth in bytes copied per second.
    pub bytes_copied_per_s: f64,
    /// All loops tried.
    pub trials: Vec<LoopTrial>,
    /// Time spent.
    pub elapsed_ns: u64,
}

/// Tries loops on the target's own memory, all in turn, and takes the one with the greatest median.
pub fn run(
    probe: &dyn Probe,
    topology: &Topology,
    target: &Target,
    options: &Options,
) -> Result<Trial, ProbeError> {
    let loops = options.copy_loop.map_or_else(|| candidates(topology), |chosen| vec![chosen]);
    let flow = Flow { source: target.node, sink: target.node };
    let mut seen: Vec<Vec<f64>> = vec![Vec::new(); loops.len()];
    let mut elapsed_ns = 0;
    let mut failure = None;
    for round in 0..ROUNDS {
        let best = seen.iter().filter_map(|values| median(values)).fold(0.0, f64::max);
        for (copy_loop, values) in loops.iter().zip(&mut seen) {
            if round > 0 && median(values).is_none_or(|value| value < HOPELESS * best) {
                continue;
            }
            match probe.copy(&target.workload(flow, *copy_loop, options.pages, SAMPLING)) {
                Ok(outcome) => {
                    elapsed_ns += outcome.elapsed_ns;
                    values.extend(bandwidth(&outcome));
                }
                Err(error @ ProbeError::Interrupted) => return Err(error),
                Err(error) => failure = Some(error),
            }
        }
    }
    let trials: Vec<LoopTrial> = loops
        .iter()
        .zip(&seen)
        .map(|(copy_loop, values)| LoopTrial { copy_loop: *copy_loop, bytes_copied_per_s: median(values) })
        .collect();
    match choose(&trials) {
        Some((copy_loop, bytes_copied_per_s)) => {
            let trials = if options.copy_loop.is_some() { Vec::new() } else { trials };
            Ok(Trial { copy_loop, bytes_copied_per_s, trials, elapsed_ns })
        }
        None => Err(failure.unwrap_or(ProbeError::Unsupported { what: "copy loop that works".into() })),
    }
}

/// The loop that moves most; among those that are as good as the best the one with least bus traffic.
fn choose(trials: &[LoopTrial]) -> Option<(CopyLoop, f64)> {
    let tried = || trials.iter().filter_map(|trial| Some((trial.copy_loop, trial.bytes_copied_per_s?)));
    let best = tried().map(|(_, value)| value).fold(0.0, f64::max);
    let good = tried().filter(|(_, value)| *value >= AS_GOOD * best);
    good.min_by(|a, b| {
        let traffic = |copy_loop: CopyLoop| copy_loop.bus_bytes_per_byte();
        traffic(a.0).cmp(&traffic(b.0)).then(b.1.total_cmp(&a.1))
    })
}

/// Median of a run's samples.
pub fn bandwidth(outcome: &CopyOutcome) -> Option<f64> {
    let samples: Vec<f64> = outcome.samples.iter().map(|sample| sample.bytes_copied_per_s()).collect();
    median(&samples)
}

/// Loops that a machine's CPUs can run, by the features that the kernel names.
fn candidates(topology: &Topology) -> Vec<CopyLoop> {
    let has = |feature: &str| topology.cpu_features.iter().any(|name| name == feature);
    let runs = |copy_loop: &CopyLoop| match copy_loop {
        CopyLoop::Memcpy => true,
        CopyLoop::Avx512 => has("avx512f"),
        CopyLoop::Avx2 => has("avx2"),
        CopyLoop::RepMovsb => has("erms"),
        CopyLoop::Stnp => topology.identity.architecture == "aarch64",
    };
    CopyLoop::ALL.into_iter().filter(runs).collect()
}
