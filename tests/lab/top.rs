//! `numaio top` on an emulated machine: its decisions are those of `balance`, and it moves a
//! program after a confirmation.

use numaio_lab::{measure, Folder};
use numaio_machine::ids::NodeId;
use numaio_machine::programs::parse_program_memory;
use numaio_schema::{BalanceEvent, BalanceEventKind, BalanceReason, TopSnapshot};
use std::fs;

/// Keys are typed in a terminal: `m` and `y` move `dd`, `u` and `y` revert that. The last view
/// meets a running balancer.
const SCRIPT: &str = r#"
    mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
    witness() { cp /proc/$dd/numa_maps /out/$1.maps; sed -n 's/^Cpus_allowed_list:\t//p' /proc/$dd/status >/out/$1.cpus; }
    echo 0 >/proc/sys/kernel/numa_balancing
    taskset 300 dd if=/dev/vda of=/dev/null bs=1M 2>/dev/null & dd=$!
    sleep 2; taskset -p ffff $dd >/dev/null
    numaio top --once --json --filter $dd >/out/unmodeled.json
    numaio model --quiet --device vda >/dev/null
    numaio top --once --json --filter $dd >/out/top.json
    numaio balance $dd --once --dry-run --explain --json >/out/events
    pty_keys 6 e 1 m 2 y 6 q -- numaio top --filter $dd --every 1 >/out/move.screen; witness moved
    numaio undo --list >/out/receipts
    pty_keys 4 u 2 y 4 q -- numaio top --filter $dd --every 1 >/out/undo.screen; witness undone
    numaio balance $$ --every 1 >/dev/null & balance=$!
    pty_keys 6 m 2 y 3 q -- numaio top --filter $dd --every 1 >/out/locked.screen; witness locked
    kill $balance; wait $balance; kill $dd; true"#;

#[test]
fn top_moves_a_program_as_balance_would_and_reverts_it() {
    let test = "top_moves_a_program_as_balance_would_and_reverts_it";
    measure(test, |lab| {
        let folder = Folder::new("top");
        let program = folder.0.join("pty_keys");
        if !lab.build(test, "pty_keys.c", &program) {
            return;
        }
        let add = program.to_string_lossy().into_owned();
        let options = ["--add", &add, "--disk", "mib=8192"];
        let output = lab.run_with_options(&options, "amd-dl585-g7-disk", &folder.0, &["sh", "-c", SCRIPT]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = |name: &str| {
            let bytes = fs::read(folder.0.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let program = |name: &str| {
            let snapshot = TopSnapshot::from_json(&text(name)).expect("a snapshot");
            (snapshot.programs.into_iter().next().expect("dd"), snapshot.unknown)
        };
        let (unmodeled, unknown) = program("unmodeled.json");
        let balance = unmodeled.balance.expect("a decision");
        assert!(balance.is_unmodeled() && unmodeled.advice.is_some(), "{balance:?}");
        assert!(unknown.iter().any(|value| value.reason.contains("only nearness is known")), "{unknown:?}");
        let (shown, _) = program("top.json");
        let shown = shown.balance.expect("a decision");
        assert_eq!(shown.to, Some(NodeId(7)), "{shown:?}");
        assert!(matches!(shown.reason, BalanceReason::Gain { .. }), "{shown:?}");
        let decided =
            text("events").lines().filter_map(|line| BalanceEvent::from_json(line).ok()).find_map(|event| {
                match event.event {
                    BalanceEventKind::Decision(decision) => Some(decision.to),
                    _ => None,
                }
            });
        assert_eq!(decided, Some(shown.to), "{}", text("events"));
        let private = |name: &str, node: u32| {
            let on = parse_program_memory(&text(&format!("{name}.maps"))).private;
            let there = on.get(&NodeId(node)).copied().unwrap_or(0);
            (there, on.values().sum::<u64>() - there)
        };
        let is_on = |name: &str, node: u32| {
            let (there, elsewhere) = private(name, node);
            there > 1 << 20 && elsewhere < there / 20
        };
        assert!(is_on("moved", 7), "{:?} {}", private("moved", 7), text("move.screen"));
        assert_eq!(text("moved.cpus").trim(), "14-15");
        assert!(text("receipts").contains("balance-1"), "{}", text("receipts"));
        assert!(is_on("undone", 4), "{:?} {}", private("undone", 4), text("undo.screen"));
        assert_eq!(text("undone.cpus").trim(), "0-15");
        // A screen is drawn in parts, so that only single words are certain to be in order.
        assert!(
            text("locked.screen").contains("another numaio balance is running"),
            "{}",
            text("locked.screen")
        );
        assert_eq!(text("locked.cpus").trim(), "0-15");
    });
}
