//! `numaio balance` on emulated machines: a running program gets faster without a restart.

use crate::support::{with_retries, Folder};
use numaio_machine::ids::NodeId;
use numaio_machine::programs::parse_program_memory;
use numaio_schema::{BalanceEvent, BalanceEventKind};
use std::fs;

/// Starts `dd` on node 4, the slowest for reads, and then allows all CPUs. Measures its rate
/// before, during and after balancing and undo, with affinity and pages as witnesses.
const MOVE_DD: &str = r#"
    rate() { a=$(sed -n 's/^read_bytes: //p' /proc/$1/io); sleep 5; b=$(sed -n 's/^read_bytes: //p' /proc/$1/io)
        echo "$2 $(((b - a) / 5))" >>/out/rates; }
    witness() { cp /proc/$1/numa_maps /out/$2.maps; sed -n 's/^Cpus_allowed_list:\t//p' /proc/$1/status >/out/$2.cpus; }
    numaio model --quiet --device vda --pause-balancing >/dev/null
    echo 0 >/proc/sys/kernel/numa_balancing
    taskset 300 dd if=/dev/vda of=/dev/null bs=1M 2>/dev/null & dd=$!
    sleep 2; taskset -p ffff $dd >/dev/null
    rate $dd before; witness $dd before
    numaio balance $dd --every 1 --json >/out/events & balance=$!
    sleep 8; rate $dd after; witness $dd after
    kill -9 $balance; wait $balance
    numaio undo --list >/out/receipts; numaio undo --all && witness $dd undone
    kill $dd; true"#;

/// Bytes of private memory on a node, and elsewhere.
fn private(folder: &Folder, name: &str, node: u32) -> (u64, u64) {
    let text = fs::read_to_string(folder.0.join(format!("{name}.maps"))).expect("pages");
    let on = parse_program_memory(&text).private;
    let there = on.get(&NodeId(node)).copied().unwrap_or(0);
    (there, on.values().sum::<u64>() - there)
}

fn text(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.0.join(name)).expect("a file of results")
}

#[test]
fn slow_running_reader_moves_to_a_fast_node_and_back() {
    with_retries("slow_running_reader_moves_to_a_fast_node_and_back", |lab| {
        let folder = Folder::new("balance");
        let output = lab.run("amd-dl585-g7-disk", &folder.0, &["sh", "-c", MOVE_DD]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rates = text(&folder, "rates");
        let rate = |name: &str| -> f64 {
            let line = rates.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            line.trim().parse().expect("a number")
        };
        let events = text(&folder, "events");
        // The paths of the two nodes differ by 1.8. A busy host shortens the faster one.
        assert!(rate("after") >= 1.4 * rate("before"), "{rates}\n{events}");
        let moved =
            events.lines().filter_map(|line| BalanceEvent::from_json(line).ok()).find_map(
                |event| match event.event {
                    BalanceEventKind::Moved(moved) => Some(moved),
                    _ => None,
                },
            );
        let moved = moved.expect("a move");
        assert!([2, 3, 6, 7].contains(&moved.to.0), "{moved:?}");
        let (there, elsewhere) = private(&folder, "after", moved.to.0);
        assert!(there > 1 << 20 && elsewhere < there / 20, "{there} {elsewhere}");
        let cpus = moved.to.0 * 2;
        assert_eq!(text(&folder, "after.cpus").trim(), format!("{cpus}-{}", cpus + 1));
        // The balancer was killed: its receipt reverts affinity and pages.
        assert!(text(&folder, "receipts").contains("balance-1"));
        assert_eq!(text(&folder, "undone.cpus").trim(), "0-15");
        let (there, elsewhere) = private(&folder, "undone", 4);
        assert!(there > 1 << 20 && elsewhere < there / 20, "{there} {elsewhere}");
    });
}

/// A program on the best node stays, and its rate is that of a machine without a balancer.
const KEEP_DD: &str = r#"
    rate() { a=$(sed -n 's/^read_bytes: //p' /proc/$1/io); sleep 5; b=$(sed -n 's/^read_bytes: //p' /proc/$1/io)
        echo "$2 $(((b - a) / 5))" >>/out/rates; }
    numaio model --quiet --device vda --pause-balancing >/dev/null
    echo 0 >/proc/sys/kernel/numa_balancing
    taskset c000 dd if=/dev/vda of=/dev/null bs=1M iflag=direct 2>/dev/null & dd=$!
    sleep 2; taskset -p ffff $dd >/dev/null
    rate $dd without
    numaio balance --all --every 1 --json >/out/events & balance=$!
    sleep 4; rate $dd with
    kill $balance; wait $balance; kill $dd; true"#;

#[test]
fn well_placed_reader_stays() {
    with_retries("well_placed_reader_stays", |lab| {
        let folder = Folder::new("balance-keep");
        let output = lab.run("amd-dl585-g7-disk", &folder.0, &["sh", "-c", KEEP_DD]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rates = text(&folder, "rates");
        let rate = |name: &str| -> f64 {
            let line = rates.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            line.trim().parse().expect("a number")
        };
        assert!(rate("with ") >= 0.97 * rate("without"), "{rates}");
        let events = text(&folder, "events");
        let last =
            events.lines().last().and_then(|line| BalanceEvent::from_json(line).ok()).expect("an event");
        assert_eq!(last.event, BalanceEventKind::Ended { moves: 0, moved_bytes: 0 });
    });
}

/// The best node loses its CPUs after the balancer has read the topology, and then after a move
/// to that node.
const OFFLINE: &str = r#"
    start() { taskset 300 dd if=/dev/vda of=/dev/null bs=1M 2>/dev/null & dd=$!
        sleep 2; taskset -p ffff $dd >/dev/null; }
    witness() { cp /proc/$dd/numa_maps /out/$1.maps; sed -n 's/^Cpus_allowed_list:\t//p' /proc/$dd/status >/out/$1.cpus; }
    node7() { for cpu in 14 15; do echo $1 >/sys/devices/system/cpu/cpu$cpu/online; done; }
    numaio model --quiet --device vda --pause-balancing >/dev/null
    echo 0 >/proc/sys/kernel/numa_balancing
    start; numaio balance $dd --every 3 --json >/out/early & balance=$!
    sleep 3; node7 0; sleep 14; witness early
    kill $balance; wait $balance; echo $? >/out/early.status
    numaio undo --all >/out/early.undo; witness early-undone; kill $dd; node7 1
    start; numaio balance $dd --every 1 --json >/out/late & balance=$!
    sleep 8; witness moved; node7 0; sleep 8
    kill $balance; wait $balance; echo $? >/out/late.status
    numaio undo --all >/out/late.undo; echo $? >/out/late-undo.status; witness late-undone; kill $dd; true"#;

#[test]
fn offline_target_node_is_refused_and_a_move_from_it_is_reverted() {
    with_retries("offline_target_node_is_refused_and_a_move_from_it_is_reverted", |lab| {
        let folder = Folder::new("balance-offline");
        let options = ["--disk", "mib=4096"];
        let output = lab.run_with_options(&options, "amd-dl585-g7-disk", &folder.0, &["sh", "-c", OFFLINE]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let events = |name: &str| -> Vec<BalanceEventKind> {
            let parsed = text(&folder, name);
            let parsed: Vec<BalanceEvent> =
                parsed.lines().filter_map(|line| BalanceEvent::from_json(line).ok()).collect();
            parsed.into_iter().map(|event| event.event).collect()
        };
        let targets = |name: &str| -> Vec<u32> {
            let moved = |event| match event {
                BalanceEventKind::Moved(moved) => Some(moved.to.0),
                _ => None,
            };
            events(name).into_iter().filter_map(moved).collect()
        };
        assert!(!targets("early").contains(&7), "{}", text(&folder, "early"));
        // Signals end the balancer; it did not crash before.
        for name in ["early", "late"] {
            assert!(matches!(events(name).last(), Some(BalanceEventKind::Ended { .. })), "{name}");
        }
        assert_eq!(targets("late").first(), Some(&7), "{}", text(&folder, "late"));
        assert_eq!(private(&folder, "moved", 7).1, 0, "all pages were moved");
        assert_eq!(text(&folder, "late-undo.status").trim(), "0", "{}", text(&folder, "late.undo"));
        for name in ["early-undone", "late-undone"] {
            let (there, elsewhere) = private(&folder, name, 4);
            assert!(there > 1 << 20 && elsewhere < there / 20, "{name}: {there} {elsewhere}");
            assert!(text(&folder, &format!("{name}.cpus")).starts_with("0-1"), "{name}");
        }
    });
}
