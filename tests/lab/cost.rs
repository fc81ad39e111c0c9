//! `numaio cost` on an emulated machine, checked by the program's own rate before and after it
//! moved.

use numaio_lab::{measure, note_value, Folder};
use numaio_schema::ProgramCost;
use std::fs;

/// A program allocates its buffer on node 3 and then computes on node 0. Its rate is measured on
/// both nodes by the bytes that it read.
const SCRIPT: &str = r#"
    echo 0 >/proc/sys/kernel/numa_balancing
    numaio stream --quiet --time-limit 30 >/dev/null
    numaio latency --quiet --time-limit 30 >/dev/null
    taskset -c 6 dd if=/dev/zero of=/dev/null bs=32M 2>/dev/null &
    program=$!
    bytes() { awk '/^rchar/ {print $2}' /proc/$program/io; }
    rate() { a=$(bytes); sleep 4; b=$(bytes); echo "$1 $((b - a))" >>/out/rates; }
    sleep 3; rate local
    taskset -pc 0 $program >/dev/null; sleep 1; rate remote
    numaio cost $program --seconds 3 --json >/out/cost.json
    numaio cost $program --seconds 3 >/out/cost.txt
    kill $program"#;

#[test]
fn cost_contains_the_slowdown_of_a_program_with_remote_memory() {
    measure("cost_contains_the_slowdown_of_a_program_with_remote_memory", |lab| {
        let folder = Folder::new("cost");
        let output = lab.run("amd-dl585-g7", &folder.0, &["sh", "-c", SCRIPT]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file of results");
        let cost = ProgramCost::from_json(&text("cost.json")).expect("a cost");
        let most =
            |on: Vec<(u32, f64)>| on.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(node, _)| node);
        let nodes = |on: &std::collections::BTreeMap<numaio_machine::ids::NodeId, f64>| {
            on.iter().map(|(node, value)| (node.0, *value)).collect::<Vec<_>>()
        };
        assert_eq!(most(nodes(&cost.traffic.cpus_on)), Some(0), "{cost:?}");
        assert_eq!(most(nodes(&cost.traffic.bytes_on)), Some(3), "{cost:?}");
        let memory = cost.memory.as_ref().expect("a cost of memory");
        assert!(memory.access.expected.is_some_and(|factor| factor > 1.1), "{memory:?}");
        let rate = |name: &str| -> f64 {
            let rates = text("rates");
            let line = rates.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
            line.expect(name).trim().parse().expect("a number")
        };
        let slowdown = rate("local") / rate("remote");
        let predicted = memory.slowdown;
        note_value(
            "slowdown",
            format_args!("{slowdown:.3}, predicted {:.3} to {:.3}", predicted.low, predicted.high),
        );
        assert!(
            slowdown > predicted.low - 0.05 && slowdown < predicted.high + 0.05,
            "measured {slowdown}, predicted {predicted:?}"
        );
    });
}
