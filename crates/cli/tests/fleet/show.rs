//! Groups, hosts and output for schedulers.

use crate::host_reports::{report, write_reports, MEASURED_AT};
use crate::support::Home;
use numaio_schema::{FleetCheck, FleetHostSummary, FleetSummary};

/// Returns a store with six like hosts, and one with half of their bandwidth.
fn fleet() -> Home {
    let home = Home::new();
    write_reports(&home, 6);
    home.document("reports/slow.json", &report("slow", "ff", MEASURED_AT, 0.5));
    home.run(&["fleet", "add", "f.db", "reports"]).ok();
    home
}

#[test]
fn group_shows_each_host_worst_first() {
    let home = fleet();
    let summary =
        FleetSummary::from_json(&home.run(&["fleet", "show", "f.db", "--json"]).ok()).expect("groups");
    let [group] = &summary.groups[..] else { panic!("{summary:#?}") };
    assert_eq!((summary.hosts, group.group.hosts.len()), (7, 7));
    assert!(!group.figures.is_empty() && group.figures.iter().all(|figure| figure.values.is_empty()));
    let shown = home.run(&["fleet", "show", "f.db", "--group", &group.group.name]).ok();
    let table: Vec<&str> = shown.lines().skip_while(|line| !line.contains("HOST")).collect();
    assert!(table[1].trim_start().starts_with("slow") && table[1].contains("-50"), "{shown}");
    let json = home.run(&["fleet", "show", "f.db", "--json", "--group", &group.group.name]).ok();
    let summary = FleetSummary::from_json(&json).expect("a group");
    assert!(summary.groups[0].figures.iter().all(|figure| figure.values.len() == 7), "{json}");
}

#[test]
fn host_is_shown_beside_its_group() {
    let home = fleet();
    let text = home.run(&["fleet", "show", "f.db", "--host", "slow"]).ok();
    assert!(text.starts_with("slow: group ") && text.contains("-50"), "{text}");
    let json = home.run(&["fleet", "show", "f.db", "--host", "slow", "--json"]).ok();
    let host = FleetHostSummary::from_json(&json).expect("a host");
    assert_eq!((host.group_hosts, host.observed_at), (7, MEASURED_AT));
    let copy = host.figures.iter().filter(|figure| figure.key.quantity.starts_with("copy"));
    let ratios: Vec<f64> = copy.map(|figure| figure.value / figure.group_median).collect();
    assert!(!ratios.is_empty() && ratios.iter().all(|ratio| (ratio - 0.5).abs() < 0.01), "{ratios:?}");
}

#[test]
fn unknown_names_are_usage_errors() {
    let home = fleet();
    home.run(&["fleet", "show", "f.db", "--host", "n99"]).failed(2, &["no host 'n99'", "n1, n2"]);
    home.run(&["fleet", "show", "f.db", "--group", "zz"]).failed(2, &["no group 'zz'"]);
    home.run(&["fleet", "check", "f.db", "--baseline", "999"]).failed(2, &["no document 999"]);
    home.run(&["fleet", "check", "f.db", "--since", "tomorrow"]).failed(2, &["expected a date"]);
}

#[test]
fn check_is_a_document_and_its_status_reports_findings() {
    let home = fleet();
    let checked = home.run(&["fleet", "check", "f.db", "--json"]);
    let check = FleetCheck::from_json(&checked.out).expect("a check");
    assert_eq!(checked.code, Some(i32::from(check.has_findings())), "{}", checked.err);
    assert_eq!(check.groups.iter().map(|group| group.hosts.len()).sum::<usize>(), 7);
}

#[test]
fn schedulers_get_text_that_they_accept() {
    let home = fleet();
    let print = |format: &str| home.run(&["fleet", "check", "f.db", "--format", format]).out;
    let slurm = print("slurm");
    assert!(slurm.contains("NodeName=n1,n2,n3,n4,n5,n6,slow Feature=numaio_"), "{slurm}");
    let commands = slurm.lines().filter(|line| !line.starts_with(['#']));
    let known = |line: &str| line.starts_with("NodeName=") || line.starts_with("sinfo --noheader ");
    assert!(commands.into_iter().all(known), "{slurm}");
    let features = print("nfd");
    let labels = features.lines().filter(|line| !line.starts_with('#'));
    assert!(
        labels.clone().count() > 0 && labels.clone().all(|line| line.starts_with("numaio-")),
        "{features}"
    );
    let balloons = print("balloons");
    assert!(
        balloons.contains("kind: BalloonsPolicy") && balloons.contains("name: group.numaio-"),
        "{balloons}"
    );
}
