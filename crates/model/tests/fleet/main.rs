//! Checks of simulated fleets.

mod support;

use numaio_model::fleet::{check, CheckOptions};
use numaio_schema::FleetCheck;
use numaio_sim::fleet::{FaultKind, FleetSpec, SimulatedFleet};
use std::collections::BTreeSet;
use support::{data, faulty, fleet_spec};

/// Hosts found and falsely found by a check.
fn found(spec: &FleetSpec, options: &CheckOptions) -> (FleetCheck, usize, usize, Vec<FaultKind>) {
    let fleet = SimulatedFleet::new(spec);
    let faulty = faulty(&fleet);
    let check = check(&data(&fleet), options);
    let found: BTreeSet<&str> =
        check.hosts.iter().filter(|host| host.has_findings()).map(|host| &*host.host).collect();
    let missed = fleet.hosts.iter().filter(|host| !found.contains(&*host.name)).filter_map(|host| host.fault);
    let missed = missed.map(|fault| fault.kind).collect();
    let (true_, false_) = (found.intersection(&faulty).count(), found.difference(&faulty).count());
    (check, true_, false_, missed)
}

#[test]
#[ignore]
fn explore() {
    for (hosts, faults, seeds) in [
        (4, 1, 40),
        (5, 1, 40),
        (8, 1, 40),
        (8, 2, 40),
        (12, 1, 20),
        (16, 2, 20),
        (20, 2, 20),
        (100, 8, 10),
        (1000, 50, 2),
    ] {
        let (mut t, mut f, mut all, mut m) = (0, 0, 0, Vec::new());
        for seed in 0..seeds {
            let spec = FleetSpec {
                faults: vec![FaultKind::SlowMemory, FaultKind::Throttled],
                loss: (0.1, 0.1),
                ..fleet_spec(hosts, faults, seed)
            };
            let (_, true_, false_, missed) = found(&spec, &CheckOptions::default());
            t += true_;
            f += false_;
            all += faults as usize;
            m.extend(missed);
        }
        println!("{hosts} hosts: {t} of {all}, false {f}, missed {m:?}");
    }
    for hosts in [3, 4, 5, 8, 16, 20, 100] {
        let mut f = 0;
        let mut fleets = 0;
        for seed in 0..2000 / hosts {
            let (_, _, false_, _) =
                found(&fleet_spec(hosts, 0, 1000 + u64::from(seed)), &CheckOptions::default());
            f += usize::from(false_ > 0);
            fleets += 1;
        }
        println!("{hosts} healthy: {f} of {fleets} fleets with a false alarm");
    }
}
