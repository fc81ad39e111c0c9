//! Our loops beside those of others, on the same CPUs and memory.
//!
//! `cargo bench -p numaio-linux --bench speed [-- [PART...] [ROUNDS]]`: parts are `copy`, `stream` and `latency`;
//! all of them by default. Copies and STREAM run on one CPU and on all CPUs of the first node: every loop of numaio
//! through its own probe, C programs that are compiled for this CPU meanwhile, and likwid-bench and numademo where
//! they are installed. Arrays have the same total size, at least four times the last-level cache. Rounds
//! interleave all, so that what else the machine does meets all alike; ratios are taken within rounds.

#![expect(clippy::print_stdout)]

mod contest;
mod copy;
mod latency;
mod peers;
mod place;
mod stream;

use numaio_linux::Kernel;
use numaio_machine::workload::Pages;
use peers::Workshop;
use place::Place;

/// Rounds by default: a median of them is steady where other work disturbs a few.
const ROUNDS: usize = 15;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(ROUNDS).max(1);
    let named = |part: &str| arguments.iter().any(|argument| argument == part);
    let any = ["copy", "stream", "latency"].into_iter().any(named);
    let asked = |part: &str| named(part) || !any;
    let kernel = Kernel::new().expect("a kernel to run on");
    let workshop = Workshop::new().expect("a folder for programs");
    let places = Place::all(&kernel);
    if asked("copy") {
        for place in &places {
            title(place, place.array_bytes, place.pages, rounds, "all sources and again in all sinks");
            contest::hold(copy::FIGURE, rounds, copy::all(place));
        }
    }
    if asked("stream") {
        for (op, place) in stream::OPS.into_iter().flat_map(|op| places.iter().map(move |place| (op, place)))
        {
            title(place, place.array_bytes, place.pages, rounds, "each array of all threads");
            contest::hold(stream::figure(op), rounds, stream::all(place, op, &workshop));
        }
    }
    if asked("latency") {
        for pages in [Pages::Base, Pages::Transparent] {
            let place = &places[0];
            title(place, latency::chain_bytes(place), pages, rounds, "the chain");
            contest::hold(latency::FIGURE, rounds, latency::all(place, pages, &workshop));
        }
    }
}

fn title(place: &Place, bytes: usize, pages: Pages, rounds: usize, of: &str) {
    println!(
        "\n{} thread(s) on node {}, {:.0} MB in {of}, {pages:?} pages, {rounds} rounds\n",
        place.cpus.len(),
        place.node,
        bytes as f64 / 1e6,
    );
}
