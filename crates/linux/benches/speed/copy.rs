//! Who copies.
//!
//! Figures are bytes copied per second, each byte once. likwid-bench and numademo count a byte when it is read and
//! again when it is written: theirs is halved.

use super::contest::{Contender, Figure};
use super::peers;
use super::place::Place;
use numaio_linux::{affinity, copy, Kernel};
use numaio_machine::ids::CpuId;
use numaio_machine::probe::ProbeExt;
use numaio_machine::workload::{CopyLoop, CopyWorkload, Flow, Sampling};
use std::path::Path;
use std::process::Command;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Time for which a contender of this program copies in each round.
const RUN: Duration = Duration::from_millis(150);

pub const FIGURE: Figure = Figure { what: "copy", unit: "GB/s", divisor: 1e9, less: false };

/// Everyone, whether able to run here or not.
pub fn all(place: &Place) -> Vec<Contender> {
    let mut all: Vec<Contender> = Vec::new();
    for copy_loop in CopyLoop::ALL.into_iter().filter(|copy_loop| copy::available(*copy_loop)) {
        let place = place.clone();
        let run = Box::new(move || probe(&place, copy_loop));
        all.push(Contender { name: format!("numaio {copy_loop}"), ours: true, run });
    }
    all.push(in_process(place, "STREAM copy (ordinary stores)", stream_copy));
    all.push(in_process(place, "memcpy of the whole array", |from, to| to.copy_from_slice(from)));
    for variant in peers::likwid_variants() {
        let (place, test) = (place.clone(), format!("copy{variant}"));
        let name = format!("likwid-bench {test}");
        let run = Box::new(move || Ok(peers::likwid(&place, &test, 2)? / 2.0));
        all.push(Contender { name, ours: false, run });
    }
    if place.cpus.len() == 1 {
        let place = place.clone();
        let run = Box::new(move || numademo(&place));
        all.push(Contender { name: "numademo memcpy, local memory".to_owned(), ours: false, run });
    }
    all
}

/// numaio's own measurement, as it ships.
fn probe(place: &Place, copy_loop: CopyLoop) -> Result<f64, String> {
    let workload = CopyWorkload {
        flow: Flow { source: place.node, sink: place.node },
        placement: place.placement(),
        copy_loop,
        bytes_per_thread: place.bytes_per_thread(),
        pages: place.pages,
        sampling: Sampling::Window { milliseconds: RUN.as_millis() as u32, slices: 10 },
    };
    let kernel = Kernel::new().map_err(|error| error.to_string())?;
    let outcome = kernel.copy(&workload).map_err(|error| error.to_string())?;
    let bytes: u64 = outcome.samples.iter().map(|sample| sample.bytes_copied).sum();
    let ns: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
    Ok(bytes as f64 * 1e9 / ns as f64)
}

/// A thread's source and sink, touched first by the thread on its CPU.
type Arrays = (Vec<f64>, Vec<f64>);

fn in_process(place: &Place, name: &str, copy: fn(&[f64], &mut [f64])) -> Contender {
    let cpus = place.cpus.clone();
    let words = place.array_bytes / size_of::<f64>() / cpus.len();
    let mut arrays: Vec<Option<Arrays>> = cpus.iter().map(|_| None).collect();
    let run = Box::new(move || run_in_process(&cpus, words, &mut arrays, copy));
    Contender { name: name.to_owned(), ours: false, run }
}

/// All threads copy their arrays over and over, after one pass to warm up; sum of their bandwidths.
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

/// STREAM's copy, compiled for the widest vectors of this CPU, as `-O3 -march=native` would.
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

/// Adding zero keeps the compiler from calling memcpy in place of the loop; it costs no bandwidth.
#[inline(always)]
fn stream_copy_plain(from: &[f64], to: &mut [f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from + 0.0;
    }
}

/// numademo of the path, or the one that `tools/numademo` builds.
fn numademo(place: &Place) -> Result<f64, String> {
    let bytes = (2 * place.array_bytes).to_string();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let run = |program: &Path| peers::output_of(Command::new(program).args(["-c", &bytes, "memcpy"]));
    let said = run(Path::new("numademo")).or_else(|_| {
        let built = peers::output_of(&mut Command::new(root.join("tools/numademo")))?;
        run(&root.join(built.trim()))
    })?;
    let line = said.lines().find_map(|line| line.strip_prefix("local memory,memcpy,Avg,"));
    let figure = line.and_then(|line| line.split(',').next()?.parse::<f64>().ok());
    Ok(figure.ok_or_else(|| said.lines().next().unwrap_or("it said nothing").to_owned())? * 1e6 / 2.0)
}
