//! Pointer chasing implementations.

use super::comparison::{Contender, Metric};
use super::peers::{self, CompileDir};
use super::setup::BenchSetup;
use numaio_linux::Kernel;
use numaio_machine::probe::ProbeExt;
use numaio_machine::workload::{LatencyWorkload, Pages};
use std::process::Command;

/// Duration of a contender per round, in milliseconds.
const RUN_MS: u32 = 200;

/// Bytes between two slots: four lines, so that adjacent-line prefetchers have no effect.
const STRIDE: u32 = 256;

/// Bytes of the chain per byte of an array: its slots alone, one line each, have the size of an
/// array. Caches would keep slots of a smaller chain from pass to pass.
const BYTES_PER_ARRAY_BYTE: usize = STRIDE as usize / 64;

pub const METRIC: Metric =
    Metric { what: "load that waits for the one before", unit: "ns", divisor: 1.0, less: true };

/// Returns both contenders, on one CPU.
pub fn all(setup: &BenchSetup, pages: Pages, compile_dir: &CompileDir) -> Vec<Contender> {
    let ours = setup.clone();
    let run = Box::new(move || probe(&ours, pages));
    let numaio = Contender { name: "numaio".to_owned(), ours: true, run };
    let compiled = compile_dir.compile("chase.c", &[]);
    let seconds = format!("{}", f64::from(RUN_MS) / 1e3);
    let kind = if pages == Pages::Transparent { "transparent" } else { "base" };
    let arguments = [
        setup.cpus[0].to_string(),
        chain_bytes(setup).to_string(),
        STRIDE.to_string(),
        seconds,
        kind.to_owned(),
    ];
    let run = Box::new(move || {
        peers::number(&peers::output_of(Command::new(compiled.as_ref()?).args(&arguments))?)
    });
    vec![numaio, Contender { name: "as multichase, gcc -O3".to_owned(), ours: false, run }]
}

/// Returns the size of the chain in bytes.
pub fn chain_bytes(setup: &BenchSetup) -> usize {
    setup.array_bytes * BYTES_PER_ARRAY_BYTE
}

/// Runs numaio's own measurement.
fn probe(setup: &BenchSetup, pages: Pages) -> Result<f64, String> {
    let workload = LatencyWorkload {
        cpu: setup.cpus[0],
        memory: setup.node,
        bytes: chain_bytes(setup) as u64,
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
