//! Hosts that deviate from their own past.

use crate::support::{data, fleet_spec};
use numaio_model::fleet::{check, CheckOptions};
use numaio_schema::{ComparedWith, FleetData};
use numaio_sim::fleet::{FaultKind, FleetSpec, SimulatedFleet};

fn drifting(hosts: u32, faulty: u32) -> (FleetData, Option<String>) {
    let spec = FleetSpec {
        faults: vec![FaultKind::Drifting],
        loss: (0.25, 0.25),
        past: 5,
        ..fleet_spec(hosts, faulty, 4)
    };
    let fleet = SimulatedFleet::new(&spec);
    let host = fleet.hosts.iter().find(|host| host.fault.is_some()).map(|host| host.name.clone());
    (data(&fleet), host)
}

/// Slows all hosts by 10 % at the newest time, as an update would.
fn slow_down_newest(data: &mut FleetData) {
    let newest = data.figures.iter().map(|figure| figure.measured_at).max().expect("figures");
    for figure in data.figures.iter_mut().filter(|figure| figure.measured_at == newest) {
        let factor = if data.keys[figure.key as usize].more_is_better { 0.9 } else { 1.0 / 0.9 };
        figure.value *= factor;
        figure.interval = (figure.interval.0 * factor, figure.interval.1 * factor);
    }
}

#[test]
fn a_drifting_host_is_found_and_the_move_of_the_group_is_not_its_fault() {
    let (mut data, drifting) = drifting(10, 1);
    slow_down_newest(&mut data);
    let check = check(&data, &CheckOptions::default());
    let [host] = check.hosts.as_slice() else { panic!("{:#?}", check.hosts) };
    assert_eq!(Some(&host.host), drifting.as_ref());
    let past = host.summaries.iter().find(|summary| summary.against == ComparedWith::Past);
    // The median of the five past values lost 10 %, the newest 25 %.
    let deviation = past.expect("a summary").deviation;
    assert!((deviation - (0.75 / 0.9 - 1.0)).abs() < 0.03, "{deviation}");
    let moved = check.groups[0].moved.expect("a move");
    assert!(moved.hosts == 10 && (moved.change + 0.1).abs() < 0.02, "{moved:?}");
}

#[test]
fn the_past_ends_at_the_baseline_and_old_figures_are_not_checked() {
    let (data, drifting) = drifting(10, 1);
    let times: std::collections::BTreeSet<u64> =
        data.figures.iter().map(|figure| figure.measured_at).collect();
    let times: Vec<u64> = times.into_iter().collect();
    let options = CheckOptions { baseline: Some(times[0]), ..CheckOptions::default() };
    let of_baseline = check(&data, &options);
    let host = of_baseline.hosts.iter().find(|host| Some(&host.host) == drifting.as_ref()).expect("the host");
    let past = host.summaries.iter().find(|summary| summary.against == ComparedWith::Past);
    assert!((past.expect("a summary").deviation + 0.25).abs() < 0.04, "{:#?}", host.summaries);
    let later = CheckOptions { since: Some(times[5] + 1), ..CheckOptions::default() };
    let none = check(&data, &later);
    assert_eq!((none.compared_hosts, none.hosts.len()), (0, 0));
    assert!(none.undecided[0].starts_with("10 hosts without figures in the checked time"));
}

#[test]
fn a_host_alone_is_compared_with_its_own_past() {
    let (mut data, _) = drifting(1, 0);
    assert!(!check(&data, &CheckOptions::default()).has_findings());
    slow_down_newest(&mut data);
    let check = check(&data, &CheckOptions::default());
    let [host] = check.hosts.as_slice() else { panic!("{:#?}", check.undecided) };
    assert!(host.has_slow_figures());
    assert!(host.summaries.iter().all(|summary| summary.against == ComparedWith::Past));
    assert!(check.undecided[0].contains("compared with its own past only"), "{:?}", check.undecided);
}
