//! Who runs STREAM.
//!
//! Figures are bytes per second as STREAM counts: those of each array once, without write-allocate.

use super::contest::{Contender, Figure};
use super::peers::{self, Workshop};
use super::place::Place;
use numaio_linux::{stream, Kernel};
use numaio_machine::probe::ProbeExt;
use numaio_machine::workload::{Sampling, StreamLoop, StreamOp, StreamWorkload};

/// Time for which a contender runs in each round, in milliseconds.
const RUN_MS: u32 = 150;

/// Doubles of an array of BabelStream.
const BABEL_DOUBLES: usize = 1 << 25;

/// Operations that are compared; the two others lie between them.
pub const OPS: [StreamOp; 2] = [StreamOp::Copy, StreamOp::Triad];

pub fn figure(op: StreamOp) -> Figure {
    let what = if op == StreamOp::Copy { "STREAM copy" } else { "STREAM triad" };
    Figure { what, unit: "GB/s", divisor: 1e9, less: false }
}

/// Everyone, whether able to run here or not.
pub fn all(place: &Place, op: StreamOp, workshop: &Workshop) -> Vec<Contender> {
    let mut all: Vec<Contender> = Vec::new();
    for stream_loop in StreamLoop::ALL.into_iter().filter(|stream_loop| stream::available(*stream_loop)) {
        let place = place.clone();
        let run = Box::new(move || probe(&place, op, stream_loop));
        all.push(Contender { name: format!("numaio {stream_loop}"), ours: true, run });
    }
    let seconds = format!("{}", f64::from(RUN_MS) / 1e3);
    let doubles = format!("-DDOUBLES={}ul", place.array_bytes / size_of::<f64>());
    let compiled = workshop.compile("stream.c", &[&doubles, "-mcmodel=medium"]);
    let (place_of, arguments) = (place.clone(), [op.name().to_owned(), seconds.clone()]);
    let run =
        Box::new(move || peers::openmp(compiled.as_ref()?, &place_of, &arguments.each_ref().map(|a| &**a)));
    all.push(Contender { name: "STREAM, gcc -O3 -march=native".to_owned(), ours: false, run });
    let compiled = workshop.compile("babel.cpp", &[]);
    let (place_of, arguments) = (place.clone(), [op.name().to_owned(), BABEL_DOUBLES.to_string(), seconds]);
    let run =
        Box::new(move || peers::openmp(compiled.as_ref()?, &place_of, &arguments.each_ref().map(|a| &**a)));
    all.push(Contender { name: "as BabelStream, g++ -O3 -march=native".to_owned(), ours: false, run });
    // What STREAM calls triad is likwid-bench's `stream`; its own triad reads one array more.
    let (test, arrays) = if op == StreamOp::Triad { ("stream", 3) } else { ("copy", 2) };
    for variant in peers::likwid_variants() {
        let (place, test) = (place.clone(), format!("{test}{variant}"));
        let name = format!("likwid-bench {test}");
        let run = Box::new(move || peers::likwid(&place, &test, arrays));
        all.push(Contender { name, ours: false, run });
    }
    all
}

/// numaio's own measurement, as it ships.
fn probe(place: &Place, op: StreamOp, stream_loop: StreamLoop) -> Result<f64, String> {
    let workload = StreamWorkload {
        op,
        stream_loop,
        memory: place.node,
        placement: place.placement(),
        bytes_per_array: place.bytes_per_thread(),
        pages: place.pages,
        sampling: Sampling::Window { milliseconds: RUN_MS, slices: 10 },
    };
    let kernel = Kernel::new().map_err(|error| error.to_string())?;
    let outcome = kernel.stream(&workload).map_err(|error| error.to_string())?;
    let bytes: u64 = outcome.samples.iter().map(|sample| sample.bytes).sum();
    let ns: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
    Ok(bytes as f64 * 1e9 / ns as f64)
}
