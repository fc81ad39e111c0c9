//! Who copies.

use numaio_linux::{affinity, copy, Kernel};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::ProbeExt;
use numaio_machine::workload::{CopyLoop, CopyWorkload, Flow, Pages, Placement, Sampling};
use std::io;
use std::process::Command;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Time for which a contender of this program copies in each round.
const RUN: Duration = Duration::from_millis(150);

/// Passes that likwid-bench makes in each round; some tenths of a second.
const LIKWID_PASSES: u32 = 16;

/// What all contenders have in common.
#[derive(Clone)]
pub struct Setup {
    /// Node of CPUs and memory.
    pub node: NodeId,
    /// One thread on each.
    pub cpus: Vec<CpuId>,
    /// Bytes of all threads' sources, and again of their sinks.
    pub array_bytes: usize,
    /// Pages behind the buffers.
    pub pages: Pages,
}

/// One way to copy.
pub struct Contender {
    /// Its name in the table.
    pub name: String,
    /// Whether it is numaio's.
    pub ours: bool,
    /// Copies for a while; gives bytes copied per second, or why it could not.
    pub run: Box<dyn FnMut() -> Result<f64, String>>,
}

/// Everyone, whether able to run here or not.
pub fn all(setup: &Setup) -> Vec<Contender> {
    let mut all: Vec<Contender> = Vec::new();
    for copy_loop in CopyLoop::ALL.into_iter().filter(|copy_loop| copy::available(*copy_loop)) {
        let setup = setup.clone();
        let run = Box::new(move || probe(&setup, copy_loop));
        all.push(Contender { name: format!("numaio {copy_loop}"), ours: true, run });
    }
    all.push(in_process(setup, "STREAM copy (ordinary stores)", stream_copy));
    all.push(in_process(setup, "memcpy of the whole array", |from, to| to.copy_from_slice(from)));
    for test in likwid_tests() {
        let setup = setup.clone();
        let run = Box::new(move || likwid(&setup, test));
        all.push(Contender { name: format!("likwid-bench {test}"), ours: false, run });
    }
    if setup.cpus.len() == 1 {
        let setup = setup.clone();
        let run = Box::new(move || numademo(&setup));
        all.push(Contender { name: "numademo memcpy, local memory".to_owned(), ours: false, run });
    }
    all
}

/// numaio's own measurement, as it ships.
fn probe(setup: &Setup, copy_loop: CopyLoop) -> Result<f64, String> {
    let workload = CopyWorkload {
        flow: Flow { source: setup.node, sink: setup.node },
        placement: Placement { cpus: setup.cpus.iter().copied().collect() },
        copy_loop,
        bytes_per_thread: (setup.array_bytes / setup.cpus.len()) as u64,
        pages: setup.pages,
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

fn in_process(setup: &Setup, name: &str, copy: fn(&[f64], &mut [f64])) -> Contender {
    let cpus = setup.cpus.clone();
    let words = setup.array_bytes / size_of::<f64>() / cpus.len();
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

/// Tests of likwid-bench that this CPU can run.
#[cfg(target_arch = "x86_64")]
fn likwid_tests() -> Vec<&'static str> {
    let avx = is_x86_feature_detected!("avx").then_some(["copy_avx", "copy_mem_avx"]);
    let avx512 = is_x86_feature_detected!("avx512f").then_some(["copy_avx512", "copy_mem_avx512"]);
    std::iter::once("copy").chain(avx.into_iter().flatten()).chain(avx512.into_iter().flatten()).collect()
}

/// Tests of likwid-bench that this CPU can run.
#[cfg(not(target_arch = "x86_64"))]
fn likwid_tests() -> Vec<&'static str> {
    vec!["copy"]
}

fn likwid(setup: &Setup, test: &str) -> Result<f64, String> {
    // Size of both arrays of all threads together.
    let workgroup = format!("M{}:{}kB:{}", setup.node, 2 * setup.array_bytes / 1000, setup.cpus.len());
    let passes = LIKWID_PASSES.to_string();
    let said = output_of("likwid-bench", &["-t", test, "-w", &workgroup, "-i", &passes])?;
    let figure = said.lines().find_map(|line| line.strip_prefix("MByte/s:")?.trim().parse::<f64>().ok());
    let figure = figure.ok_or_else(|| said.lines().last().unwrap_or("it said nothing").to_owned())?;
    Ok(figure * 1e6 / 2.0)
}

fn numademo(setup: &Setup) -> Result<f64, String> {
    let bytes = (2 * setup.array_bytes).to_string();
    let said = output_of("numademo", &["-c", &bytes, "memcpy"])?;
    let line = said.lines().find_map(|line| line.strip_prefix("local memory,memcpy,Avg,"));
    let figure = line.and_then(|line| line.split(',').next()?.parse::<f64>().ok());
    Ok(figure.ok_or_else(|| "it said nothing of memcpy".to_owned())? * 1e6 / 2.0)
}

fn output_of(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "not installed".to_owned(),
        _ => error.to_string(),
    })?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(if why.is_empty() { output.status.to_string() } else { why.lines().next().unwrap_or("").to_owned() })
}
