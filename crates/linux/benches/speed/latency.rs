//! Who follows pointers.

use super::contest::{Contender, Figure};
use super::peers::{self, Workshop};
use super::place::Place;
use numaio_linux::Kernel;
use numaio_machine::probe::ProbeExt;
use numaio_machine::workload::{LatencyWorkload, Pages};
use std::process::Command;

/// Time for which a contender runs in each round, in milliseconds.
const RUN_MS: u32 = 200;

/// Distance between two places: four lines, so that no prefetcher of neighbours helps.
const STRIDE: u32 = 256;

/// Bytes of the chain for each of an array: its places alone, a line each, are as large as one array. In a
/// smaller one, caches keep places from one pass to the next.
const BYTES_PER_ARRAY_BYTE: usize = STRIDE as usize / 64;

pub const FIGURE: Figure =
    Figure { what: "load that waits for the one before", unit: "ns", divisor: 1.0, less: true };

/// Both, on one CPU.
pub fn all(place: &Place, pages: Pages, workshop: &Workshop) -> Vec<Contender> {
    let ours = place.clone();
    let run = Box::new(move || probe(&ours, pages));
    let numaio = Contender { name: "numaio".to_owned(), ours: true, run };
    let compiled = workshop.compile("chase.c", &[]);
    let seconds = format!("{}", f64::from(RUN_MS) / 1e3);
    let kind = if pages == Pages::Transparent { "transparent" } else { "base" };
    let arguments = [
        place.cpus[0].to_string(),
        chain_bytes(place).to_string(),
        STRIDE.to_string(),
        seconds,
        kind.to_owned(),
    ];
    let run = Box::new(move || {
        peers::number(&peers::output_of(Command::new(compiled.as_ref()?).args(&arguments))?)
    });
    vec![numaio, Contender { name: "as multichase, gcc -O3".to_owned(), ours: false, run }]
}

/// Bytes of the chain.
pub fn chain_bytes(place: &Place) -> usize {
    place.array_bytes * BYTES_PER_ARRAY_BYTE
}

/// numaio's own measurement, as it ships.
fn probe(place: &Place, pages: Pages) -> Result<f64, String> {
    let workload = LatencyWorkload {
        cpu: place.cpus[0],
        memory: place.node,
        bytes: chain_bytes(place) as u64,
        stride_bytes: STRIDE,
        pages,
        milliseconds: RUN_MS,
        slices: 10,
        load: None,
    };
    let kernel = Kernel::new().map_err(|error| error.to_string())?;
    let outcome = kernel.latency(&workload).map_err(|error| error.to_string())?;
    let loads: u64 = outcome.samples.iter().map(|sample| sample.loads).sum();
    let ns: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
    Ok(ns as f64 / loads as f64)
}
