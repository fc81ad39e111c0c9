//! Comparison of numaio's loops with those of other programs, on the same CPUs and memory.
//!
//! `cargo bench -p numaio-linux --bench speed [-- [PART...] [ROUNDS]]`: parts are `copy`, `stream`
//! and `latency`, by default all. Copies and STREAM run on one CPU and on all CPUs of the first
//! node: every loop of numaio in its own probe, C programs compiled for this CPU, and likwid-bench
//! and numademo if installed. Arrays have the same total size, at least four times the last-level
//! cache. Rounds interleave all contenders, so that other load affects all of them; ratios are
//! taken within rounds.

#![expect(clippy::print_stdout)]

mod comparison;
mod copy;
mod latency;
mod peers;
mod setup;
mod stream;

use numaio_linux::Kernel;
use numaio_machine::workload::Pages;
use peers::CompileDir;
use setup::BenchSetup;

/// Default number of rounds: their median is stable if other load disturbs a few.
const ROUNDS: usize = 15;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(ROUNDS).max(1);
    let named = |part: &str| arguments.iter().any(|argument| argument == part);
    let any = ["copy", "stream", "latency"].into_iter().any(named);
    let asked = |part: &str| named(part) || !any;
    let kernel = Kernel::new().expect("a kernel to run on");
    let compile_dir = CompileDir::new().expect("a folder for programs");
    let places = BenchSetup::all(&kernel);
    if asked("copy") {
        for setup in &places {
            title(setup, setup.array_bytes, setup.pages, rounds, "all sources and again in all sinks");
            comparison::run_rounds(copy::METRIC, rounds, copy::all(setup));
        }
    }
    if asked("stream") {
        for (op, setup) in stream::OPS.into_iter().flat_map(|op| places.iter().map(move |setup| (op, setup)))
        {
            title(setup, setup.array_bytes, setup.pages, rounds, "each array of all threads");
            comparison::run_rounds(stream::figure(op), rounds, stream::all(setup, op, &compile_dir));
        }
    }
    if asked("latency") {
        for pages in [Pages::Base, Pages::Transparent] {
            let setup = &places[0];
            title(setup, latency::chain_bytes(setup), pages, rounds, "the chain");
            comparison::run_rounds(latency::METRIC, rounds, latency::all(setup, pages, &compile_dir));
        }
    }
}

fn title(setup: &BenchSetup, bytes: usize, pages: Pages, rounds: usize, of: &str) {
    println!(
        "\n{} thread(s) on node {}, {:.0} MB in {of}, {pages:?} pages, {rounds} rounds\n",
        setup.cpus.len(),
        setup.node,
        bytes as f64 / 1e6,
    );
}
