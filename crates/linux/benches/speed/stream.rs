//! STREAM implementations.
//!
//! Values are bytes per second as STREAM counts them: each array once, without write-allocate.

use super::comparison::{Contender, Metric};
use super::peers::{self, CompileDir};
use super::setup::BenchSetup;
use numaio_linux::{stream, Kernel};
use numaio_machine::probe::ProbeExt;
use numaio_machine::workload::{Sampling, StreamLoop, StreamOp, StreamWorkload};

/// Duration of a contender per round, in milliseconds.
const RUN_MS: u32 = 150;

/// Doubles per array of BabelStream.
const BABEL_DOUBLES: usize = 1 << 25;

/// Operations to compare; the other two are in between.
pub const OPS: [StreamOp; 2] = [StreamOp::Copy, StreamOp::Triad];

pub fn figure(op: StreamOp) -> Metric {
    let what = if op == StreamOp::Copy { "STREAM copy" } else { "STREAM triad" };
    Metric { what, unit: "GB/s", divisor: 1e9, less: false }
}

/// Returns all contenders, even those that cannot run here.
pub fn all(setup: &BenchSetup, op: StreamOp, compile_dir: &CompileDir) -> Vec<Contender> {
    let mut all: Vec<Contender> = Vec::new();
    for stream_loop in StreamLoop::ALL.into_iter().filter(|stream_loop| stream::available(*stream_loop)) {
        let setup = setup.clone();
        let run = Box::new(move || probe(&setup, op, stream_loop));
        all.push(Contender { name: format!("numaio {stream_loop}"), ours: true, run });
    }
    let seconds = format!("{}", f64::from(RUN_MS) / 1e3);
    let doubles = format!("-DDOUBLES={}ul", setup.array_bytes / size_of::<f64>());
    let compiled = compile_dir.compile("stream.c", &[&doubles, "-mcmodel=medium"]);
    let (place_of, arguments) = (setup.clone(), [op.name().to_owned(), seconds.clone()]);
    let run =
        Box::new(move || peers::openmp(compiled.as_ref()?, &place_of, &arguments.each_ref().map(|a| &**a)));
    all.push(Contender { name: "STREAM, gcc -O3 -march=native".to_owned(), ours: false, run });
    let compiled = compile_dir.compile("babel.cpp", &[]);
    let (place_of, arguments) = (setup.clone(), [op.name().to_owned(), BABEL_DOUBLES.to_string(), seconds]);
    let run =
        Box::new(move || peers::openmp(compiled.as_ref()?, &place_of, &arguments.each_ref().map(|a| &**a)));
    all.push(Contender { name: "as BabelStream, g++ -O3 -march=native".to_owned(), ours: false, run });
    // STREAM's triad is likwid-bench's `stream`; likwid-bench's triad reads one more array.
    let (test, arrays) = if op == StreamOp::Triad { ("stream", 3) } else { ("copy", 2) };
    for variant in peers::likwid_variants() {
        let (setup, test) = (setup.clone(), format!("{test}{variant}"));
        let name = format!("likwid-bench {test}");
        let run = Box::new(move || peers::likwid(&setup, &test, arrays));
        all.push(Contender { name, ours: false, run });
    }
    all
}

/// Runs numaio's own measurement.
fn probe(setup: &BenchSetup, op: StreamOp, stream_loop: StreamLoop) -> Result<f64, String> {
    let workload = StreamWorkload {
        op,
        stream_loop,
        memory: setup.node,
        placement: setup.placement(),
        bytes_per_array: setup.bytes_per_thread(),
        pages: setup.pages,
        sampling: Sampling::Window { milliseconds: RUN_MS, slices: 10 },
    };
    let kernel = Kernel::new().map_err(|error| error.to_string())?;
    let outcome = kernel.stream(&workload).map_err(|error| error.to_string())?;
    let bytes: u64 = outcome.samples.iter().map(|sample| sample.bytes).sum();
    let ns: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
    Ok(bytes as f64 * 1e9 / ns as f64)
}
