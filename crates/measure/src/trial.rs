//! Short trials that choose a loop and the length of its visits.

use crate::cells::Target;
use crate::options::Options;
use numaio_machine::probe::{Probe, ProbeError, ProbeExt};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{CopyLoop, Flow, Sampling, StreamLoop};
use numaio_schema::{median, LoopTrial};

/// Rounds of the trial.
const ROUNDS: usize = 3;
/// Loops below this share of the best after the first round are dropped.
const HOPELESS: f64 = 0.8;
/// Loops within this share of the best count as equally fast; a short trial cannot separate them.
const AS_GOOD: f64 = 0.98;
/// Window of each loop in each round.
pub const SAMPLING: Sampling = Sampling::Window { milliseconds: 60, slices: 3 };
/// Window of a visit in milliseconds: one sweep over the buffers, within these bounds.
const WINDOW_MS: std::ops::RangeInclusive<u32> = 80..=400;
/// Samples per window.
const SLICES: u32 = 5;

/// Result of a trial.
pub struct Trial<L> {
    /// Chosen loop.
    pub chosen: L,
    /// Its local bandwidth in bytes per second.
    pub per_s: f64,
    /// All loops with their medians; empty without a choice.
    pub trials: Vec<(L, Option<f64>)>,
    /// Elapsed time.
    pub elapsed_ns: u64,
    /// C library whose `memcpy` was tried in copy trials, if known.
    pub c_library: Option<String>,
}

/// Bandwidths of one run in bytes per second, and its duration in nanoseconds.
pub type Tried = Result<(Vec<f64>, u64), ProbeError>;

/// Tries loops in turn and chooses the fastest by median; among equally fast ones that with the
/// least bus traffic.
pub fn run<L: Copy>(
    loops: &[L],
    traffic: impl Fn(L) -> u32,
    mut run_once: impl FnMut(L) -> Tried,
) -> Result<Trial<L>, ProbeError> {
    let mut seen: Vec<Vec<f64>> = vec![Vec::new(); loops.len()];
    let mut elapsed_ns: u64 = 0;
    let mut failure = None;
    for round in 0..ROUNDS {
        let best = seen.iter().filter_map(|values| median(values)).fold(0.0, f64::max);
        for (one, values) in loops.iter().zip(&mut seen) {
            if round > 0 && median(values).is_none_or(|value| value < HOPELESS * best) {
                continue;
            }
            match run_once(*one) {
                Ok((samples, ns)) => {
                    elapsed_ns = elapsed_ns.saturating_add(ns);
                    values.extend(median(&samples));
                }
                Err(error @ ProbeError::Interrupted) => return Err(error),
                Err(error) => failure = Some(error),
            }
        }
    }
    let trials: Vec<(L, Option<f64>)> =
        loops.iter().zip(&seen).map(|(one, values)| (*one, median(values))).collect();
    match choose(&trials, traffic) {
        Some((chosen, per_s)) => Ok(Trial { chosen, per_s, trials, elapsed_ns, c_library: None }),
        None => Err(failure.unwrap_or(ProbeError::Unsupported { feature: "loop that works".into() })),
    }
}

fn choose<L: Copy>(trials: &[(L, Option<f64>)], traffic: impl Fn(L) -> u32) -> Option<(L, f64)> {
    let tried = || trials.iter().filter_map(|(one, value)| Some((*one, (*value)?)));
    let best = tried().map(|(_, value)| value).fold(0.0, f64::max);
    let good = tried().filter(|(_, value)| *value >= AS_GOOD * best);
    good.min_by(|a, b| traffic(a.0).cmp(&traffic(b.0)).then(b.1.total_cmp(&a.1)))
}

/// Returns the first trial that succeeds; an interrupt stops immediately.
pub fn first_that_works<L>(
    trials: impl Iterator<Item = Result<Trial<L>, ProbeError>>,
) -> Result<Trial<L>, ProbeError> {
    let mut failure = None;
    for trial in trials {
        match trial {
            Err(error) if error != ProbeError::Interrupted => failure = failure.or(Some(error)),
            result => return result,
        }
    }
    Err(failure.unwrap_or(ProbeError::Interrupted))
}

/// Returns a window of one sweep over buffers at a bandwidth.
pub fn one_sweep(bytes: u64, per_s: f64) -> Sampling {
    let sweep_ms = bytes as f64 / per_s.max(1.0) * 1e3;
    let milliseconds = (sweep_ms as u32).clamp(*WINDOW_MS.start(), *WINDOW_MS.end());
    // Rounded, so that a tape recorded with one trial also serves a slightly different one.
    Sampling::Window { milliseconds: milliseconds.next_multiple_of(20), slices: SLICES }
}

/// Tries copy loops on the target's own memory.
pub fn copy(
    probe: &dyn Probe,
    topology: &Topology,
    target: &Target,
    options: &Options,
) -> Result<Trial<CopyLoop>, ProbeError> {
    let loops = options.copy_loop.map_or_else(|| copy_loops(topology), |chosen| vec![chosen]);
    let flow = Flow { source: target.node, sink: target.node };
    let mut c_library = None;
    let mut trial = run(&loops, CopyLoop::bus_bytes_per_byte, |copy_loop| {
        let outcome = probe.copy(&target.workload(flow, copy_loop, options.pages, SAMPLING))?;
        let samples = outcome.samples.iter().map(|sample| sample.bytes_copied_per_s()).collect();
        c_library = outcome.c_library.or_else(|| c_library.take());
        Ok((samples, outcome.elapsed_ns))
    })?;
    trial.c_library = c_library;
    if options.copy_loop.is_some() {
        trial.trials.clear();
    }
    Ok(trial)
}

/// Converts trials for the record.
pub fn loop_trials(trials: &[(CopyLoop, Option<f64>)]) -> Vec<LoopTrial> {
    let trial = |(copy_loop, per_s): &(CopyLoop, Option<f64>)| LoopTrial {
        copy_loop: *copy_loop,
        bytes_copied_per_s: *per_s,
    };
    trials.iter().map(trial).collect()
}

fn has(topology: &Topology, feature: &str) -> bool {
    topology.cpu_features.iter().any(|name| name == feature)
}

/// Returns the copy loops that the CPUs support, by kernel feature names.
fn copy_loops(topology: &Topology) -> Vec<CopyLoop> {
    let runs = |copy_loop: &CopyLoop| match copy_loop {
        CopyLoop::Memcpy => true,
        CopyLoop::Avx512 => has(topology, "avx512f"),
        CopyLoop::Avx2 => has(topology, "avx2"),
        CopyLoop::RepMovsb => has(topology, "erms"),
        CopyLoop::Stnp => topology.identity.architecture == "aarch64",
    };
    CopyLoop::ALL.into_iter().filter(runs).collect()
}

/// Returns the STREAM loops that the CPUs support.
pub fn stream_loops(topology: &Topology) -> Vec<StreamLoop> {
    let runs = |stream_loop: &StreamLoop| match stream_loop {
        StreamLoop::Ordinary => true,
        StreamLoop::Avx512 => has(topology, "avx512f"),
        StreamLoop::Avx2 => has(topology, "avx2"),
        StreamLoop::Stnp => topology.identity.architecture == "aarch64",
    };
    StreamLoop::ALL.into_iter().filter(runs).collect()
}
