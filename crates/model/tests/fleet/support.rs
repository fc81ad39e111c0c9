//! Simulated fleets as data of a fleet, and the rules of other programs for comparison.

use numaio_machine::discover::discover;
use numaio_model::fleet::facts_of_topology;
use numaio_schema::{FigureKey, FigureRow, FleetData, FleetHost, TopologyDocument};
use numaio_sim::fleet::{FaultKind, FleetNoise, FleetSpec, HostsSpec, SimulatedFleet};
use numaio_sim::{render, shapes, Spec};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A specification of one group of hosts like the DL585 G7 with 304 figures each.
pub fn fleet_spec(hosts: u32, faulty: u32, seed: u64) -> FleetSpec {
    FleetSpec {
        groups: vec![group(shapes::dl585(), hosts, faulty)],
        // Together 2 %.
        noise: FleetNoise { host: 0.01, measurement: 0.0173, glitches: 0.0 },
        faults: FaultKind::ALL.into_iter().filter(|kind| *kind != FaultKind::Drifting).collect(),
        loss: (0.1, 0.3),
        past: 0,
        seed,
    }
}

pub fn group(machine: Spec, hosts: u32, faulty: u32) -> HostsSpec {
    HostsSpec { machine, hosts, faulty, pair_quantities: 4, devices: true }
}

/// Returns a simulated fleet as the store would: facts by discovery of the rendered machines.
pub fn data(fleet: &SimulatedFleet) -> FleetData {
    let document = |machine| TopologyDocument::new(discover(&render(machine)));
    let facts: Vec<_> = fleet.machines.iter().map(|machine| facts_of_topology(&document(machine))).collect();
    let hosts = fleet.hosts.iter().map(|host| FleetHost {
        name: host.name.clone(),
        observed_at: 0,
        facts: facts[host.machine].clone(),
    });
    let mut keys: Vec<FigureKey> = Vec::new();
    let mut index: HashMap<FigureKey, u32> = HashMap::new();
    let of_quantity: Vec<u32> = fleet
        .quantities
        .iter()
        .map(|quantity| {
            let key = FigureKey {
                quantity: quantity.name.to_owned(),
                from: quantity.from,
                to: quantity.to,
                device: quantity.device.clone(),
                unit: quantity.unit.to_owned(),
                more_is_better: quantity.more_is_better,
            };
            *index.entry(key.clone()).or_insert_with(|| {
                keys.push(key);
                keys.len() as u32 - 1
            })
        })
        .collect();
    let figures = fleet.figures().map(|figure| FigureRow {
        host: figure.host,
        key: of_quantity[figure.quantity as usize],
        measured_at: figure.measured_at,
        value: figure.value,
        interval: figure.interval,
    });
    FleetData { hosts: hosts.collect(), figures: figures.collect(), keys }
}

/// Returns the names of the hosts with a fault.
pub fn faulty(fleet: &SimulatedFleet) -> BTreeSet<&str> {
    fleet.hosts.iter().filter(|host| host.fault.is_some()).map(|host| &*host.name).collect()
}

/// Values of each key, with the host; all hosts count as alike.
fn by_key(data: &FleetData) -> BTreeMap<u32, Vec<(u32, f64)>> {
    let mut values: BTreeMap<u32, Vec<(u32, f64)>> = BTreeMap::new();
    for figure in &data.figures {
        values.entry(figure.key).or_default().push((figure.host, figure.value));
    }
    values
}

/// Cbench's rule: a value that differs from the mean by two standard deviations or more, with the
/// suspect in both (`nodehwtest_output_parse.pl --characterize` of Cbench). Returns the numbers of
/// the flagged hosts, and the number of flagged figures.
pub fn cbench(data: &FleetData) -> (BTreeSet<u32>, usize) {
    let (mut hosts, mut flagged) = (BTreeSet::new(), 0);
    for values in by_key(data).values().filter(|values| values.len() > 1) {
        let n = values.len() as f64;
        let mean = values.iter().map(|(_, value)| value).sum::<f64>() / n;
        let squares: f64 = values.iter().map(|(_, value)| (value - mean).powi(2)).sum();
        let two = 2.0 * (squares / (n - 1.0)).sqrt();
        for (host, value) in values {
            if (value - mean).abs() >= two && *value != mean {
                hosts.insert(*host);
                flagged += 1;
            }
        }
    }
    (hosts, flagged)
}

/// SuperBench's rules: a baseline is the mean of the values that are not more than 5 % worse than
/// it, repeated until none is removed, and a value that is more than 5 % worse than the baseline is
/// defective (rule `variance` with criterion 5 %, and `fix_threshold` of baseline generation, which
/// SuperBench's documentation describes).
pub fn superbench(data: &FleetData) -> (BTreeSet<u32>, usize) {
    let (mut hosts, mut flagged) = (BTreeSet::new(), 0);
    for (key, values) in by_key(data) {
        let more_is_better = data.keys[key as usize].more_is_better;
        let is_bad = |value: f64, baseline: f64| match more_is_better {
            true => value / baseline - 1.0 < -0.05,
            false => value / baseline - 1.0 > 0.05,
        };
        let mut kept: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        let baseline = loop {
            let mean = kept.iter().sum::<f64>() / kept.len() as f64;
            let before = kept.len();
            kept.retain(|value| !is_bad(*value, mean));
            if kept.len() == before || kept.is_empty() {
                break mean;
            }
        };
        for (host, value) in values {
            if is_bad(value, baseline) {
                hosts.insert(host);
                flagged += 1;
            }
        }
    }
    (hosts, flagged)
}
