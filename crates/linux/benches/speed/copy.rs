//! Copy implementations.
//!
//! Values are bytes copied per second, each byte counted once. likwid-bench and numademo count
//! reads and writes: their values are halved.

use super::comparison::{Contender, Metric};
use super::peers;
use super::setup::BenchSetup;
use numaio_linux::{affinity, copy, Kernel};
use numaio_machine::ids::CpuId;
use numaio_machine::probe::ProbeExt;
use numaio_machine::workload::{CopyLoop, CopyWorkload, Flow, Sampling};
use std::path::Path;
use std::process::Command;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Duration of a contender of this program per round.
const RUN: Duration = Duration::from_millis(150);

pub const METRIC: Metric = Metric { what: "copy", unit: "GB/s", divisor: 1e9, less: false };

/// Returns all contenders, even those that cannot run here.
pub fn all(setup: &BenchSetup) -> Vec<Contender> {
    let mut all: Vec<Contender> = Vec::new();
    for copy_loop in CopyLoop::ALL.into_iter().filter(|copy_loop| copy::available(*copy_loop)) {
        let setup = setup.clone();
        let run = Box::new(move || probe(&setup, copy_loop));
        all.push(Contender { name: format!("numaio {copy_loop}"), ours: true, run });
    }
    all.push(in_process(setup, "STREAM copy (ordinary stores)", stream_copy));
    all.push(in_process(setup, "memcpy of the whole array", |from, to| to.copy_from_slice(from)));
    for variant in peers::likwid_variants() {
        let (setup, test) = (setup.clone(), format!("copy{variant}"));
        let name = format!("likwid-bench {test}");
        let run = Box::new(move || Ok(peers::likwid(&setup, &test, 2)? / 2.0));
        all.push(Contender { name, ours: false, run });
    }
    if setup.cpus.len() == 1 {
        let setup = setup.clone();
        let run = Box::new(move || numademo(&setup));
        all.push(Contender { name: "numademo memcpy, local memory".to_owned(), ours: false, run });
    }
    all
}

/// Runs numaio's own measurement.
fn probe(setup: &BenchSetup, copy_loop: CopyLoop) -> Result<f64, String> {
    let workload = CopyWorkload {
        flow: Flow { source: setup.node, sink: setup.node },
        placement: setup.placement(),
        copy_loop,
        bytes_per_thread: setup.bytes_per_thread(),
        pages: setup.pages,
        sampling: Sampling::Window { milliseconds: RUN.as_millis() as u32, slices: 10 },
    };
    let kernel = Kernel::new().map_err(|error| error.to_string())?;
    let outcome = kernel.copy(&workload).map_err(|error| error.to_string())?;
    let bytes: u64 = outcome.samples.iter().map(|sample| sample.bytes_copied).sum();
    let ns: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
    Ok(bytes as f64 * 1e9 / ns as f64)
}

/// Source and sink of a thread, first touched by that thread on its CPU.
type Arrays = (Vec<f64>, Vec<f64>);

fn in_process(setup: &BenchSetup, name: &str, copy: fn(&[f64], &mut [f64])) -> Contender {
    let cpus = setup.cpus.clone();
    let words = setup.array_bytes / size_of::<f64>() / cpus.len();
    let mut arrays: Vec<Option<Arrays>> = cpus.iter().map(|_| None).collect();
    let run = Box::new(move || run_in_process(&cpus, words, &mut arrays, copy));
    Contender { name: name.to_owned(), ours: false, run }
}

/// Copies the arrays of all threads repeatedly after a warm-up pass; returns the total bandwidth.
fn run_in_process(
    cpus: &[CpuId],
    words: usize,
    arrays: &mut [Option<Arrays>],
    copy: fn(&[f64], &mut [f64]),
) -> Result<f64, String> {
    let barrier = Barrier::new(cpus.len());
    let failure = Mutex::new(None);
    let member = |cpu: CpuId, arrays: &mut Option<Arrays>| {
        if let Err(error) = affinity::pin(cpu) {
            *failure.lock().expect("no panic before") = Some(error.to_string());
        }
        let (from, to) = arrays.get_or_insert_with(|| (vec![1.0; words], vec![2.0; words]));
        copy(from, to);
        barrier.wait();
        let began = Instant::now();
        let mut passes = 0;
        while began.elapsed() < RUN {
            copy(std::hint::black_box(from), std::hint::black_box(to));
            passes += 1;
        }
        (passes * words * size_of::<f64>()) as f64 / began.elapsed().as_secs_f64()
    };
    let sum = thread::scope(|scope| {
        let pairs = cpus.iter().zip(arrays);
        let threads: Vec<_> = pairs.map(|(cpu, arrays)| scope.spawn(|| member(*cpu, arrays))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN)).sum()
    });
    match failure.into_inner() {
        Ok(None) => Ok(sum),
        Ok(Some(why)) => Err(why),
        Err(_) => Err("a thread panicked".to_owned()),
    }
}

/// STREAM's copy, compiled for the widest vectors of this CPU, like `-O3 -march=native`.
fn stream_copy(from: &[f64], to: &mut [f64]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
        // SAFETY: the CPU has it.
        return unsafe { stream_copy_avx512(from, to) };
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has it.
        return unsafe { stream_copy_avx2(from, to) };
    }
    stream_copy_plain(from, to);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f", enable = "avx512vl")]
fn stream_copy_avx512(from: &[f64], to: &mut [f64]) {
    stream_copy_plain(from, to);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn stream_copy_avx2(from: &[f64], to: &mut [f64]) {
    stream_copy_plain(from, to);
}

/// Adding zero keeps the compiler from calling memcpy instead of the loop; it costs no bandwidth.
#[inline(always)]
fn stream_copy_plain(from: &[f64], to: &mut [f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from + 0.0;
    }
}

/// Runs numademo from PATH, or the one that `tools/numademo` builds.
fn numademo(setup: &BenchSetup) -> Result<f64, String> {
    let bytes = (2 * setup.array_bytes).to_string();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let run = |program: &Path| peers::output_of(Command::new(program).args(["-c", &bytes, "memcpy"]));
    let output = run(Path::new("numademo")).or_else(|_| {
        let built = peers::output_of(&mut Command::new(root.join("tools/numademo")))?;
        run(&root.join(built.trim()))
    })?;
    let line = output.lines().find_map(|line| line.strip_prefix("local memory,memcpy,Avg,"));
    let figure = line.and_then(|line| line.split(',').next()?.parse::<f64>().ok());
    Ok(figure.ok_or_else(|| output.lines().next().unwrap_or("no output").to_owned())? * 1e6 / 2.0)
}
