//! Prints how often the 95 % interval of a reading contains the bandwidth without noise, by method,
//! for simulated devices that stall in bursts, and for the same without stalls. Nothing here passes
//! or fails.
//!
//! Usage: `intervals [DEVICES [FIRST_SEED]]`. Each device is one measurement: the first node with
//! one stream, beside the other cells of a campaign, whose noise is pooled.
#![allow(clippy::print_stdout)]

use numaio_machine::probe::{Outcome, Probe};
use numaio_machine::workload::{
    Direction, DiskMethod, DiskOrder, DiskPath, IoPath, IoWorkload, Sampling, StreamGroup, Workload,
};
use numaio_schema::{PooledNoise, Summary};
use numaio_sim::devices;
use numaio_sim::spec::NodeSpec;
use numaio_sim::Simulated;
use std::ops::Range;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 999;
/// Samples of a visit, as in a campaign.
const SLICES: u32 = 5;
/// Numbers of visits of each cell.
const VISITS: [usize; 4] = [2, 3, 6, 12];
/// Numbers of streams of a node.
const STREAMS: [u32; 3] = [1, 2, 4];

/// An interval with its value, in bytes per second.
#[derive(Debug, Clone, Copy)]
struct Interval {
    value: f64,
    low: f64,
    high: f64,
}

/// Agreement of one method over all measurements.
#[derive(Debug, Clone, Default)]
struct Agreement {
    errors: Vec<f64>,
    half_widths: Vec<f64>,
    covered: usize,
}

/// Slices of the visits of one cell, in order of time.
type CellVisits = Vec<Vec<f64>>;

/// A method: from the cells of a campaign and a seed to the interval of the first cell.
type Method = fn(&[CellVisits], u64) -> Interval;

const METHODS: [(&str, Method); 4] = [
    ("median of visits, as shipped", shipped),
    ("bootstrap of visits", |cells, seed| bootstrap(&cells[0], Blocks::Visits, seed)),
    ("block bootstrap of slices, length 2", |cells, seed| bootstrap(&cells[0], Blocks::Slices(2), seed)),
    ("block bootstrap of slices, length 5", |cells, seed| bootstrap(&cells[0], Blocks::Slices(5), seed)),
];

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (number, first) =
        (numbers.first().copied().unwrap_or(1000), numbers.get(1).copied().unwrap_or(20_000));
    for stalls in [true, false] {
        println!("{number} devices {} stalls\n", if stalls { "with" } else { "without" });
        print_table(first..first + number, stalls);
    }
}

fn print_table(seeds: Range<u64>, stalls: bool) {
    println!("| visits | interval | holds | half width | error of the value, median | p95 |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for visits in VISITS {
        let mut found = vec![Agreement::default(); METHODS.len()];
        for seed in seeds.clone() {
            let (truth, cells) = measurement(seed, visits, stalls);
            for (agreement, (_, method)) in found.iter_mut().zip(METHODS) {
                agreement.add(method(&cells, seed), truth);
            }
        }
        for (agreement, (name, _)) in found.iter_mut().zip(METHODS) {
            agreement.print(visits, name);
        }
    }
    println!();
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The interval of a campaign's reading: order statistics, or the pooled noise with few visits.
fn shipped(cells: &[CellVisits], _seed: u64) -> Interval {
    let values: Vec<Vec<f64>> =
        cells.iter().map(|visits| visits.iter().map(|slices| mean(slices)).collect()).collect();
    let noise = PooledNoise::of(values.iter().map(Vec::as_slice));
    let summary = Summary::of(&values[0], noise).expect("visits");
    Interval { value: summary.median, low: summary.low, high: summary.high }
}

/// The sample that a bootstrap draws.
#[derive(Debug, Clone, Copy)]
enum Blocks {
    /// Complete visits.
    Visits,
    /// Runs of consecutive slices, which wrap around (circular block bootstrap: Politis and Romano,
    /// in *Exploring the Limits of Bootstrap*, 1992).
    Slices(usize),
}

/// All bytes over all time, with a percentile interval of block resamples (Künsch, *Ann. Statist.*
/// 17, 1989).
fn bootstrap(visits: &CellVisits, blocks: Blocks, seed: u64) -> Interval {
    let slices: Vec<f64> = visits.iter().flatten().copied().collect();
    let length = match blocks {
        Blocks::Visits => SLICES as usize,
        Blocks::Slices(length) => length,
    };
    let random = &mut Random(seed);
    let mut resample = || -> f64 {
        let mut drawn = Vec::with_capacity(slices.len() + length);
        while drawn.len() < slices.len() {
            let start = match blocks {
                Blocks::Visits => random.below(visits.len()) * length,
                Blocks::Slices(_) => random.below(slices.len()),
            };
            drawn.extend((start..start + length).map(|slice| slices[slice % slices.len()]));
        }
        drawn.truncate(slices.len());
        mean(&drawn)
    };
    let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    means.sort_by(f64::total_cmp);
    let tail = RESAMPLES / 40;
    Interval { value: mean(&slices), low: means[tail], high: means[RESAMPLES - 1 - tail] }
}

/// Measures a device, with stalls or without; returns the bandwidth of the first cell without
/// noise, and all cells.
fn measurement(seed: u64, visits: usize, has_stalls: bool) -> (f64, Vec<CellVisits>) {
    let mut spec = devices::random(seed).spec;
    let stalls = has_stalls.then(|| 0.01 + 0.04 * Random(seed).unit());
    for io in spec.devices.iter_mut().filter_map(|device| device.io.as_mut()) {
        (io.read.stalls, io.write.stalls) = (stalls, stalls);
    }
    let nodes: Vec<NodeSpec> = spec.nodes.clone();
    let machine = Simulated::new(spec).expect("a machine");
    let cells: Vec<IoWorkload> =
        nodes.iter().flat_map(|node| STREAMS.map(|streams| workload(node, streams))).collect();
    let truth = machine.io_truth(&cells[0]).expect("it runs").iter().sum();
    let visit = |cell: &IoWorkload| match machine.run(&Workload::Io(cell.clone())).expect("a run") {
        Outcome::Io(io) => io.groups[0].samples.iter().map(|sample| sample.bytes_per_s()).collect(),
        _ => Vec::new(),
    };
    (truth, cells.iter().map(|cell| (0..visits).map(|_| visit(cell)).collect()).collect())
}

fn workload(node: &NodeSpec, streams: u32) -> IoWorkload {
    let through = IoPath::Disk(DiskPath {
        path: format!("/dev/{}", devices::NAME),
        offset: 0,
        bytes: 1 << 30,
        method: DiskMethod::Uring,
        direct: true,
        order: DiskOrder::Sequential,
    });
    let group = StreamGroup {
        cpus: node.cpus.clone(),
        memory: node.id,
        streams,
        direction: Direction::Read,
        device: 0,
    };
    IoWorkload {
        path: through,
        others: Vec::new(),
        groups: vec![group],
        block_bytes: 128 << 10,
        depth: 16,
        sampling: Sampling::Window { milliseconds: 500, slices: SLICES },
        max_bytes: None,
    }
}

impl Agreement {
    fn add(&mut self, interval: Interval, truth: f64) {
        self.errors.push((interval.value / truth - 1.0).abs());
        self.half_widths.push((interval.high - interval.low) / 2.0 / interval.value);
        self.covered += usize::from(interval.low <= truth && truth <= interval.high);
    }

    fn print(&mut self, visits: usize, name: &str) {
        let number = self.errors.len();
        let at = |values: &mut Vec<f64>, share: f64| {
            values.sort_by(f64::total_cmp);
            values[((values.len() - 1) as f64 * share) as usize] * 100.0
        };
        let width = at(&mut self.half_widths, 0.5);
        let (median, p95) = (at(&mut self.errors, 0.5), at(&mut self.errors, 0.95));
        let holds = self.covered as f64 / number as f64 * 100.0;
        println!("| {visits} | {name} | {holds:.1} % | {width:.2} % | {median:.2} % | {p95:.2} % |");
    }
}

/// A random number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
