//! Prints what the check of simulated fleets finds, beside the rules of Cbench and SuperBench on
//! the same data. Nothing here passes or fails.
//!
//! `--bench fleet -- once HOSTS` checks one fleet and prints the time, to measure memory.
#![allow(clippy::print_stdout)]

#[path = "../tests/fleet/support.rs"]
mod support;

use numaio_model::fleet::{check, CheckOptions};
use numaio_schema::FleetData;
use numaio_sim::fleet::{FleetNoise, FleetSpec, SimulatedFleet};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use support::{cbench, data, faulty, fleet_spec, superbench};

/// Sizes of fleets, with the number of faulty hosts and of fleets.
const SIZES: [(u32, u32, u64); 5] = [(4, 1, 250), (8, 1, 250), (20, 1, 100), (100, 5, 20), (10_000, 200, 1)];
/// Noise: its name, and the deviations between hosts and of measurements.
const NOISES: [(&str, f64, f64); 2] = [("2 %", 0.01, 0.0173), ("0.5 %", 0.0025, 0.0043)];
const RULES: [&str; 3] = ["numaio fleet check", "Cbench", "SuperBench"];

/// The findings of a rule in fleets.
#[derive(Default, Clone)]
struct Tally {
    found: usize,
    false_hosts: usize,
    /// Sum of the shares of false hosts among those reported.
    false_share: f64,
    times: Vec<Duration>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [once, hosts] = arguments.as_slice() {
        if let ("once", Ok(hosts)) = (once.as_str(), hosts.parse()) {
            return check_once(hosts);
        }
    }
    println!("| noise | hosts | faulty | fleets | rule | found | false hosts | false discovery rate | median time |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (noise, host, measurement) in NOISES {
        for (hosts, faults, fleets) in SIZES {
            let mut tallies = vec![Tally::default(); RULES.len()];
            for seed in 0..fleets {
                let noise = FleetNoise { host, measurement, glitches: 0.0 };
                one_fleet(&FleetSpec { noise, ..fleet_spec(hosts, faults, seed) }, &mut tallies);
            }
            for (rule, tally) in RULES.iter().zip(&mut tallies) {
                tally.times.sort();
                println!(
                    "| {noise} | {hosts} | {faults} | {fleets} | {rule} | {} of {} | {} | {:.2} % | {:.1} ms |",
                    tally.found,
                    u64::from(faults) * fleets,
                    tally.false_hosts,
                    100.0 * tally.false_share / fleets as f64,
                    tally.times[tally.times.len() / 2].as_secs_f64() * 1e3,
                );
            }
        }
    }
}

fn one_fleet(spec: &FleetSpec, tallies: &mut [Tally]) {
    let fleet = SimulatedFleet::new(spec);
    let (data, faulty) = (data(&fleet), faulty(&fleet));
    for (rule, tally) in tallies.iter_mut().enumerate() {
        let start = Instant::now();
        let reported = reported(rule, &data);
        tally.times.push(start.elapsed());
        let found = reported.iter().filter(|host| faulty.contains(host.as_str())).count();
        tally.found += found;
        tally.false_hosts += reported.len() - found;
        tally.false_share += (reported.len() - found) as f64 / reported.len().max(1) as f64;
    }
}

fn reported(rule: usize, data: &FleetData) -> BTreeSet<String> {
    let names = |(hosts, _): (BTreeSet<u32>, usize)| {
        hosts.into_iter().map(|host| data.hosts[host as usize].name.clone()).collect()
    };
    match rule {
        0 => {
            let check = check(data, &CheckOptions::default());
            check.hosts.into_iter().filter(|host| host.has_findings()).map(|host| host.host).collect()
        }
        1 => names(cbench(data)),
        _ => names(superbench(data)),
    }
}

/// Checks one fleet, which is all that the process does besides making it.
fn check_once(hosts: u32) {
    let fleet = SimulatedFleet::new(&fleet_spec(hosts, hosts / 50, 1));
    let data = data(&fleet);
    let start = Instant::now();
    let check = check(&data, &CheckOptions::default());
    println!(
        "{hosts} hosts, {} figures: {:.2} s, {} hosts with findings",
        data.figures.len(),
        start.elapsed().as_secs_f64(),
        check.hosts.iter().filter(|host| host.has_findings()).count()
    );
}
