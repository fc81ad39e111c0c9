//! Parsers of a run on a fleet: output of Slurm's commands, lists of hosts, and reports.

use crate::displayed_text::is_displayable;
use numaio_fleet::launch::frame;
use numaio_fleet::launch::hosts::parse_hosts;
use numaio_fleet::launch::run_directory::{summarize_report, StoredReport};
use numaio_fleet::launch::slurm::{parse_jobs, parse_nodes, parse_past_jobs, parse_switches, NodeSelection};
use numaio_fleet::launch::stored_run::check_run;
use numaio_schema::{FleetRun, HostReport};

/// Parses arbitrary output.
pub fn fleet(data: &[u8]) {
    if let Ok(report) = frame::decode(data) {
        assert_eq!(frame::decode(frame::encode(report).as_bytes()), Ok(report));
    }
    let text = String::from_utf8_lossy(data);
    let nodes = parse_nodes(&text);
    if let Ok(hosts) = NodeSelection::default().select(&nodes, None) {
        assert!(!hosts.is_empty() && hosts.len() <= nodes.len());
    }
    for job in parse_jobs(&text).iter().chain(&parse_past_jobs(&text)) {
        assert!(job.id.starts_with(|c: char| c.is_ascii_digit()));
    }
    for (switch, nodes) in parse_switches(&text) {
        assert!(!nodes.is_empty() && !switch.contains(' '));
    }
    for host in parse_hosts(&text).unwrap_or_default() {
        // A name is neither an option of ssh nor a path.
        assert!(!host.starts_with(['-', '.']) && !host.contains('/'));
    }
    if let Ok(run) = FleetRun::from_json(&text) {
        stored_run(&run);
    }
    if HostReport::from_json(&text).is_ok() {
        let found = summarize_report(&text, "n1", "r1");
        assert_ne!(found, StoredReport::Absent);
    }
}

/// Asserts that the names of a run that is used are arguments and file names, not options or paths.
fn stored_run(run: &FleetRun) {
    if let Err(why) = check_run(run) {
        assert!(is_displayable(&why), "{why:?}");
    } else {
        let names = run.hosts.iter().map(|host| &host.name).chain([&run.id]);
        for name in names.chain(run.hosts.iter().flat_map(|host| &host.jobs)) {
            assert!(!name.is_empty() && !name.starts_with(['-', '.']) && !name.contains('/'), "{name:?}");
            assert!(name.chars().all(|c| c.is_ascii_graphic()), "{name:?}");
        }
        assert!((10..=7 * 86_400).contains(&run.time_limit_s));
    }
}

/// Returns recorded output.
pub fn seeds() -> Vec<Vec<u8>> {
    let run = include_str!("../../crates/schema/tests/fixtures/fleet-run-1.json");
    let jobs = format!("{:64}{:32}{:16}{:256}{:128}\n", "9_1", "NODE_FAIL", "0", "n4", "NodeDown");
    [
        "n1|all*|idle|none\nn3|gpu|down*|Not responding\n",
        "12_1|CANCELLED by 1000|0:15\n",
        "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n",
        "root@n1\nn2 # slow\n",
        &jobs,
        &frame::encode("{}"),
        run,
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
