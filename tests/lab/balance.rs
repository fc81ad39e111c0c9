//! `numaio balance` on emulated machines: a running program gets faster without a restart.

use numaio_lab::{measure, note_value, skip, Folder};
use numaio_machine::ids::NodeId;
use numaio_machine::programs::parse_program_memory;
use numaio_schema::{
    BalanceDecision, BalanceEvent, BalanceEventKind, BalanceMove, DeviceTraffic, HotMemory, TopSnapshot,
    TrafficSource, UnknownTraffic,
};
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
    measure("slow_running_reader_moves_to_a_fast_node_and_back", |lab| {
        let folder = Folder::new("balance");
        let output = lab.run("amd-dl585-g7-disk", &folder.0, &["sh", "-c", MOVE_DD]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rates = text(&folder, "rates");
        let rate = |name: &str| -> f64 {
            let line = rates.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            line.trim().parse().expect("a number")
        };
        let events = text(&folder, "events");
        note_value("rates", &rates);
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

/// A program on the best node stays, and keeps its rate beside a balancer.
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
    measure("well_placed_reader_stays", |lab| {
        let folder = Folder::new("balance-keep");
        let output = lab.run("amd-dl585-g7-disk", &folder.0, &["sh", "-c", KEEP_DD]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rates = text(&folder, "rates");
        let rate = |name: &str| -> f64 {
            let line = rates.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            line.trim().parse().expect("a number")
        };
        note_value("rates", &rates);
        // The balancer shares the emulator's CPUs with the program, so that rates within 3 % were
        // luck. The worst node has 53 % of the rate; any move is among the events.
        assert!(rate("with ") >= 0.8 * rate("without"), "{rates}");
        let events = text(&folder, "events");
        let last =
            events.lines().last().and_then(|line| BalanceEvent::from_json(line).ok()).expect("an event");
        let unmoved = matches!(last.event, BalanceEventKind::Ended { moves: 0, moved_bytes: 0, .. });
        assert!(unmoved, "{last:?}");
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
    measure("offline_target_node_is_refused_and_a_move_from_it_is_reverted", |lab| {
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

/// A program receives from another network namespace through a bridge, of which the card of node 1
/// is a port; the program there sends.
const RECEIVE: &str = r#"
    unshare -n sleep 1000 & remote=$!
    while [ "$(readlink /proc/$remote/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
    brctl addbr br0; brctl addif br0 eth0
    ip link add v0 type veth; brctl addif br0 v0; ip link set veth0 netns $remote
    for up in lo eth0 v0 br0; do ip link set $up up; done
    ip addr add 10.1.0.1/24 dev br0
    nsenter -t $remote -n ip addr add 10.1.0.2/24 dev veth0; nsenter -t $remote -n ip link set veth0 up
    nsenter -t $remote -n sh -c 'dd if=/dev/zero bs=64k 2>/dev/null | nc -l -p 5000 >/dev/null' & sleep 2
    sleep 1000 | nc 10.1.0.2 5000 >/dev/null & sleep 1
    # Loopback reaches no device.
    sh -c 'dd if=/dev/zero bs=64k 2>/dev/null | nc -l -p 5001 >/dev/null' & sleep 1
    sleep 1000 | nc 127.0.0.1 5001 >/dev/null & sleep 1
    bytes() { cat /sys/class/net/br0/statistics/rx_bytes; }
    before=$(bytes); numaio balance --all --dry-run --once --every 4 --explain --json >/out/events
    echo $(($(bytes) - before)) >/out/received
    numaio top --once --json --every 4s >/out/top
    kill $remote; true"#;

#[test]
fn network_traffic_of_programs_is_known_by_socket_and_card() {
    measure("network_traffic_of_programs_is_known_by_socket_and_card", |lab| {
        let folder = Folder::new("balance-network");
        let modules = ["bridge", "veth", "tcp_diag"];
        let output = lab.run_with_modules(&modules, "uniform-2n", &folder.0, &["sh", "-c", RECEIVE]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let events = text(&folder, "events");
        let decisions: Vec<BalanceDecision> = events
            .lines()
            .filter_map(|line| match BalanceEvent::from_json(line).ok()?.event {
                BalanceEventKind::Decision(decision) => Some(decision),
                _ => None,
            })
            .collect();
        let received: f64 = text(&folder, "received").trim().parse().expect("a number");
        let with_device = decisions.iter().filter(|decision| !decision.traffic.is_empty());
        let traffic: Vec<DeviceTraffic> =
            with_device.filter_map(|decision| decision.traffic.get("eth0").copied()).collect();
        let [traffic] = traffic.as_slice() else { panic!("{events}") };
        assert_eq!(traffic.source, TrafficSource::Sockets);
        // The counter of the bridge includes headers, and the time around the observation.
        let expected = received / 4.0;
        note_value("bytes/s read", traffic.read_bytes_per_s);
        assert!(traffic.read_bytes_per_s > 0.2 * expected, "{traffic:?} {expected}");
        assert!(traffic.read_bytes_per_s < expected, "{traffic:?} {expected}");
        assert!(traffic.write_bytes_per_s < 0.01 * expected, "{traffic:?}");
        let elsewhere = Some(UnknownTraffic::OtherNamespace);
        assert!(decisions.iter().any(|decision| decision.unknown_traffic == elsewhere), "{events}");
        let snapshot = TopSnapshot::from_json(&text(&folder, "top")).expect("a snapshot");
        let of_card: Vec<f64> = snapshot
            .programs
            .iter()
            .filter_map(|program| Some(program.network.get("eth0")?.received))
            .collect();
        assert!(of_card.iter().any(|rate| *rate > 0.0), "{snapshot:?}");
    });
}

/// A program with 32 MiB in use and 300 MiB that it never accesses again reads the disk through the
/// page cache, and computes in another thread.
const MOVE_HOT: &str = r#"
    [ -d /sys/kernel/mm/damon/admin ] || exit 77
    numaio model --quiet --device vda --pause-balancing >/dev/null
    echo 0 >/proc/sys/kernel/numa_balancing
    witness() { cp /proc/$load/numa_maps /out/$1.maps; }
    taskset 300 balance_load 32 300 /tmp/progress /dev/vda buffered & load=$!
    while [ ! -s /tmp/progress ]; do sleep 0.5; done; taskset -p -a ffff $load >/dev/null; witness before
    numaio balance $load --every 2 --explain --json >/out/events & balance=$!
    for try in $(seq 40); do sleep 1; grep -q '"moved"' /out/events && break; done
    cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds >/out/monitors
    kill -9 $balance; wait $balance; witness after
    numaio undo --all >/out/undo; witness undone
    # A balancer that is killed while it monitors leaves a monitor, which the next one stops.
    numaio balance $load --every 10 --json >/out/killed & balance=$!
    for try in $(seq 60); do sleep 0.5; grep -q on /sys/kernel/mm/damon/admin/kdamonds/0/state 2>/dev/null && break; done
    kill -9 $balance; wait $balance
    cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds >/out/left; numaio undo --list >/out/list
    numaio undo access-monitor >/out/stopped; cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds >/out/recovered
    # The monitor of another program stays, and all memory is moved.
    echo 1 >/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds
    numaio balance $load --once --every 3 --explain --json >/out/other
    cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds >/out/kept
    kill $load; true"#;

fn moves(folder: &Folder, name: &str) -> Vec<BalanceMove> {
    let moved = |line: &str| match BalanceEvent::from_json(line).ok()?.event {
        BalanceEventKind::Moved(moved) => Some(moved),
        _ => None,
    };
    text(folder, name).lines().filter_map(moved).collect()
}

/// Needs a kernel with DAMON in sysfs, such as Debian's 6.12; Debian's 6.1 has none.
#[test]
fn only_memory_in_use_is_moved_and_monitors_end() {
    measure("only_memory_in_use_is_moved_and_monitors_end", |lab| {
        let folder = Folder::new("balance-hot");
        let program = folder.0.join("balance_load");
        if !lab.build("only_memory_in_use_is_moved_and_monitors_end", "balance_load.c", &program) {
            return;
        }
        let program = program.to_string_lossy().into_owned();
        let options = ["--add", program.as_str()];
        let machine = "amd-dl585-g7-disk-large";
        let output = lab.run_with_options(&options, machine, &folder.0, &["sh", "-c", MOVE_HOT]);
        if output.status.code() == Some(77) {
            return skip("only_memory_in_use_is_moved_and_monitors_end", "the kernel has no DAMON in sysfs");
        }
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let first = moves(&folder, "events");
        let [moved] = first.as_slice() else { panic!("{}", text(&folder, "events")) };
        let Some(HotMemory::Monitored(hot)) = &moved.hot else { panic!("{moved:?}") };
        note_value("bytes moved", moved.moved_bytes);
        assert!(hot.monitored_bytes > 300 << 20, "{moved:?}");
        assert!((24 << 20..100 << 20).contains(&moved.moved_bytes), "{moved:?}");
        let node = moved.to.0;
        let (there, elsewhere) = private(&folder, "after", node);
        assert!(there > 24 << 20 && elsewhere > 200 << 20, "{there} {elsewhere}");
        assert_eq!(text(&folder, "monitors").trim(), "0");
        let (before, undone) = (private(&folder, "before", 4), private(&folder, "undone", 4));
        assert!(undone.0.abs_diff(before.0) < 1 << 20, "{before:?} {undone:?}");
        assert_eq!((text(&folder, "left").trim(), text(&folder, "recovered").trim()), ("1", "0"));
        assert!(text(&folder, "list").contains("access-monitor"), "{}", text(&folder, "list"));
        assert_eq!(text(&folder, "kept").trim(), "1");
        let other = moves(&folder, "other");
        let [moved] = other.as_slice() else { panic!("{}", text(&folder, "other")) };
        let Some(HotMemory::NotMonitored(why)) = &moved.hot else { panic!("{moved:?}") };
        assert!(why.contains("another program"), "{moved:?}");
        assert!(moved.moved_bytes > 300 << 20, "{moved:?}");
    });
}
