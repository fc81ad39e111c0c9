//! Peak copy bandwidth of numaio's loops beside what others get on the same CPUs.
//!
//! `cargo bench -p numaio-linux [-- ROUNDS]` runs, on one CPU and on all CPUs of the first node: every loop of
//! numaio through its own probe; a loop as STREAM's copy (`a[i] = b[i]`, ordinary stores, vectorised by the
//! compiler); the C library's memcpy; and likwid-bench and numademo where they are installed. Each contender
//! copies arrays of the same total size, at least four times the last-level cache. Rounds interleave them, so
//! that what else the machine does meets all alike; ratios are taken within rounds.
//!
//! Bandwidth is bytes copied per second, each byte once. likwid-bench and numademo count a byte when it is read
//! and again when it is written: theirs is halved.

#![expect(clippy::print_stdout)]

mod contenders;

use contenders::{Contender, Setup};
use numaio_linux::Kernel;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::workload::Pages;

/// Rounds by default: a median of them is steady where other work disturbs a few.
const ROUNDS: usize = 15;

fn main() {
    let rounds = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(ROUNDS).max(1);
    let kernel = Kernel::new().expect("a kernel to run on");
    let (node, cpus) = first_node(&kernel);
    let whole =
        |cpus: Vec<CpuId>| Setup { node, cpus, array_bytes: array_bytes(&kernel), pages: pages(&kernel) };
    let mut setups = vec![whole(cpus[..1].to_vec())];
    if cpus.len() > 1 {
        setups.push(whole(cpus));
    }
    for setup in setups {
        let mut contenders = contenders::all(&setup);
        println!(
            "\n{} thread(s) on node {}, {:.0} MB in all sources and again in all sinks, {:?} pages, {rounds} rounds\n",
            setup.cpus.len(),
            setup.node,
            setup.array_bytes as f64 / 1e6,
            setup.pages
        );
        let measured = rounds_of(&mut contenders, rounds);
        table(&contenders, &measured);
    }
}

/// Bytes copied per second of each contender in each round; why, of those that could not be run.
type Measured = Vec<Result<Vec<f64>, String>>;

fn rounds_of(contenders: &mut [Contender], rounds: usize) -> Measured {
    let mut measured: Measured = contenders.iter().map(|_| Ok(Vec::new())).collect();
    for round in 0..rounds {
        for turn in 0..contenders.len() {
            let which = (turn + round) % contenders.len();
            if let Ok(figures) = &mut measured[which] {
                match (contenders[which].run)() {
                    Ok(figure) => figures.push(figure),
                    Err(why) => measured[which] = Err(why),
                }
            }
        }
    }
    measured
}

/// Prints medians, and ratios to the contender with the best median and to the best one that is not ours.
fn table(contenders: &[Contender], measured: &Measured) {
    let best = |ours: &dyn Fn(&Contender) -> bool| {
        let each = contenders.iter().zip(measured).filter(|(contender, _)| ours(contender));
        let figures = each.filter_map(|(contender, figures)| Some((contender, figures.as_ref().ok()?)));
        figures.max_by(|a, b| median(a.1).total_cmp(&median(b.1)))
    };
    let Some((_, top)) = best(&|_| true) else { return };
    println!("| {:<44} | {:>11} | {:>9} | {:>13} |", "copy", "median GB/s", "best GB/s", "ratio to best");
    println!("|{:-<46}|{:->12}:|{:->10}:|{:->14}:|", "", "", "", "");
    for (contender, figures) in contenders.iter().zip(measured) {
        let name = &contender.name;
        match figures {
            Ok(figures) => {
                let most = figures.iter().copied().fold(0.0, f64::max) / 1e9;
                let ratio = ratio(figures, top);
                println!("| {name:<44} | {:>11.2} | {most:>9.2} | {ratio:>13.3} |", median(figures) / 1e9);
            }
            Err(why) => println!("| {name:<44} | {why:<39} |"),
        }
    }
    if let (Some(ours), Some(other)) = (best(&|c| c.ours), best(&|c| !c.ours)) {
        let ratio = ratio(ours.1, other.1);
        println!("\n{} against {}: {ratio:.3}", ours.0.name, other.0.name);
    }
}

/// Median of the ratios within rounds.
fn ratio(figures: &[f64], to: &[f64]) -> f64 {
    median(&figures.iter().zip(to).map(|(figure, to)| figure / to).collect::<Vec<_>>())
}

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

/// The first node with CPUs, and its CPUs; node 0 with all CPUs if the kernel knows no nodes.
fn first_node(kernel: &Kernel) -> (NodeId, Vec<CpuId>) {
    let status = kernel.optional("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("0");
    let allowed = CpuSet::parse_list(allowed).unwrap_or_default();
    let of_node = |node: u32| {
        let list = kernel.optional(&format!("/sys/devices/system/node/node{node}/cpulist"))?;
        let cpus = CpuSet::parse_list(&list).ok()?.intersection(&allowed);
        Some((NodeId(node), cpus.iter().collect::<Vec<_>>())).filter(|(_, cpus)| !cpus.is_empty())
    };
    (0..64).find_map(of_node).unwrap_or_else(|| (NodeId(0), allowed.iter().collect()))
}

/// Four times the last-level cache of the first CPU, at least 64 MB.
fn array_bytes(kernel: &Kernel) -> usize {
    let size = |index: u32| {
        let text = kernel.optional(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size"))?;
        text.strip_suffix('K')?.parse::<usize>().ok().map(|kib| kib << 10)
    };
    (4 * (0..8).filter_map(size).max().unwrap_or(0)).next_multiple_of(64_000_000)
}

/// Pages that memory from malloc gets, so that all contenders have the same.
fn pages(kernel: &Kernel) -> Pages {
    let policy = kernel.optional("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if policy.contains("[always]") {
        Pages::Transparent
    } else {
        Pages::Base
    }
}
