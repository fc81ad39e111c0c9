use super::*;
use crate::style::TextStyle;
use numaio_machine::sockets::TrafficRates;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::{TopProgram, TopSnapshot, UnknownTraffic};
use proptest::prelude::*;

fn snapshot() -> TopSnapshot {
    TopSnapshot::from_json(include_str!("../../../schema/tests/fixtures/top-1.json")).expect("a snapshot")
}

#[test]
fn rates_fit_ten_characters() {
    let rate = |bytes_per_s| format_rate(bytes_per_s, BandwidthUnit::GigabytesPerS);
    assert_eq!(
        [0.0, 999.4, 999.6, 18.5e6, 1.2e9].map(rate),
        ["0 B/s", "999 B/s", "1.0 kB/s", "18.5 MB/s", "1.2 GB/s"]
    );
    assert_eq!(format_rate(33.75e6, BandwidthUnit::GigabitsPerS), "270 Mbit/s");
    assert_eq!(format_rate(1536.0, BandwidthUnit::GibibytesPerS), "1.5 KiB/s");
    assert_eq!(rate(f64::NAN), "0 B/s");
}

#[test]
fn place_names_at_most_two_nodes() {
    let place = |shares: &[(u32, f64)]| {
        cells::place(shares.iter().map(|(node, share)| (numaio_machine::ids::NodeId(*node), *share)))
    };
    assert_eq!(place(&[]), "-");
    assert_eq!(place(&[(4, 2.0), (5, 0.0)]), "4");
    assert_eq!(place(&[(4, 1.0), (7, 3.0)]), "7:75% 4:25%");
    assert_eq!(place(&[(4, 1.0), (6, 1.0), (7, 2.0)]), "7:50% 4:25%…");
}

#[test]
fn columns_are_selected_by_rank_and_never_exceed_the_width() {
    let titles = |width| -> Vec<&str> {
        let fitted = fit_columns(&PROGRAM_COLUMNS, width);
        fitted.iter().map(|fit| PROGRAM_COLUMNS[fit.index].title).collect()
    };
    assert_eq!(titles(40), ["PID", "PROGRAM", "CPUS", "REMOTE"]);
    assert_eq!(titles(80), ["PID", "PROGRAM", "CPUS", "RUNS ON", "MEMORY", "MEMORY ON", "REMOTE", "I/O"]);
    assert_eq!(titles(120).len(), PROGRAM_COLUMNS.len());
    for width in 30..200 {
        let fitted = fit_columns(&PROGRAM_COLUMNS, width);
        let used: usize = fitted.iter().map(|fit| fit.width + 1).sum::<usize>() - 1;
        assert!(used <= width, "{used} of {width}");
    }
}

#[test]
fn text_lists_active_programs_and_counts_the_others() {
    let snapshot = snapshot();
    let order: Vec<usize> = (0..snapshot.programs.len()).collect();
    let text = top_text(&snapshot, &order, &TextStyle { width: 140, ..TextStyle::default() });
    let line = |start: &str| {
        let found = text.lines().find(|line| line.trim_start().starts_with(start));
        found.unwrap_or_else(|| panic!("{start}: {text}")).to_owned()
    };
    for part in ["dd", "0.21", "4", "100 %", "37.0 MB/s", "vda", "move to node 7 (vda)"] {
        assert!(line("527").contains(part), "{part}: {text}");
    }
    assert!(line("vda").contains("18.5 MB/s"), "{text}");
    assert!(line("Pressure").contains("I/O 41 %"), "{text}");
    assert!(text.contains("4 idle programs not listed.") && text.contains("memory traffic: "), "{text}");
    assert!(text.contains("job 3") && text.contains("waiting 1"), "{text}");
}

#[test]
fn explanation_states_memory_devices_and_the_remote_share() {
    let snapshot = snapshot();
    let lines = program_explanation(&snapshot.programs[1], BandwidthUnit::GigabytesPerS).join("\n");
    for part in [
        "dd: process 527, user 0",
        "Threads: node 4: 1 thread; uses node 4: 0.21 CPUs; may run on CPUs 8-9",
        "Private memory: node 4: 1 MiB",
        "Device vda on node 7: /dev/vda -> vda",
        "Remote: 100 %. Near its devices (nodes 6-7): 0 % of its threads and 0 % of its memory",
        "Balance: move to node 7 (vda)",
    ] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
}

#[test]
fn explanation_states_the_traffic_of_sockets() {
    let mut program = snapshot().programs[1].clone();
    let lines = |program: &TopProgram| program_explanation(program, BandwidthUnit::default()).join("\n");
    assert!(!lines(&program).contains("TCP"));
    program.network.insert("eth0".to_owned(), TrafficRates { received: 117e6, sent: 2e6 });
    assert!(
        lines(&program).contains("\nTCP: eth0 receives 117 MB/s and sends 2.0 MB/s\n"),
        "{}",
        lines(&program)
    );
    program.io = None;
    assert_eq!(program.io_bytes_per_s(), Some(119e6));
    program.unknown_network = Some(UnknownTraffic::OtherNamespace);
    assert!(lines(&program).contains("TCP: its sockets are invisible in another network namespace"));
}

#[test]
fn hostile_names_cannot_control_a_terminal() {
    let mut snapshot = snapshot();
    let hostile = "\u{1b}[2J\u{202e}x\n";
    snapshot.programs[1].name = hostile.to_owned();
    snapshot.programs[1].devices[0].device = hostile.to_owned();
    snapshot.programs[1].unit = Some(hostile.to_owned());
    snapshot.programs[1].network.insert(hostile.to_owned(), TrafficRates::default());
    snapshot.devices[0].name = hostile.to_owned();
    snapshot.transfers[0].subject = hostile.to_owned();
    let unit = BandwidthUnit::default();
    let mut cells = program_cells(&snapshot.programs[1], unit);
    cells.extend(program_explanation(&snapshot.programs[1], unit));
    cells.extend(device_cells(&snapshot.devices[0], unit));
    cells.extend(transfer_cells(&snapshot.transfers[0], unit));
    assert!(cells.iter().all(|cell| !cell.contains(['\u{1b}', '\u{202e}', '\n'])), "{cells:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rates_are_short(bytes_per_s in 0.0..1e15f64) {
        for unit in BandwidthUnit::ALL {
            let text = format_rate(bytes_per_s, unit);
            prop_assert!(text.len() <= 12, "{text}");
        }
    }
}
