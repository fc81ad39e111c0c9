//! `numaio place` and `run` on emulated machines: threads and pages are the witnesses.

use crate::support::{measured, Folder, Lab};
use numaio_machine::ids::NodeId;
use numaio_schema::{PlacementPlan, Verification};
use std::fs;

/// Holds 8 MiB and works for a while, so that there is something to look at.
const WORK: &str = "timeout 8 dd if=/dev/zero of=/dev/null bs=8M 2>/dev/null; true";

/// Without a model the device's node comes first, then its package; with the paper's model the class for reading.
#[test]
fn programs_run_where_the_plan_says() {
    measured("programs_run_where_the_plan_says", |lab| {
        let folder = Folder::new("place");
        let line = format!(
            "numaio place --near nvme0n1 --tasks 3 --json -o /out/topology.json && \
         numaio run --near nvme0n1 --tasks 3 --verify --verify-json /out/seen.json -- sh -c '{WORK}' && \
         numaio model --quiet --device nvme0n1 --pause-balancing >/dev/null; \
         numaio place --near nvme0n1 --direction read --spread --tasks 8 --json -o /out/model.json && \
         numaio run --plan /out/model.json --verify --verify-json /out/spread.json -- sh -c '{WORK}'"
        );
        let output = lab.run("amd-dl585-g7", &folder.0, &["sh", "-c", &line]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file that came back");
        let plan = |name: &str| PlacementPlan::from_json(&text(name)).expect("a plan");
        let nodes = |plan: &PlacementPlan| {
            let mut nodes: Vec<u32> =
                plan.tasks.iter().flat_map(|task| task.cpu_nodes.iter().map(|node| node.0)).collect();
            nodes.sort_unstable();
            nodes
        };
        assert_eq!(nodes(&plan("topology.json")), [6, 7, 7]);
        assert_eq!(nodes(&plan("model.json")), [2, 2, 3, 3, 6, 6, 7, 7]);
        for name in ["seen.json", "spread.json"] {
            let seen = Verification::from_json(&text(name)).expect("a verification");
            assert_eq!(seen.time_in_place(), Some(1.0), "{name}: {seen:?}");
            assert!(seen.pages_in_place().is_some_and(|share| share > 0.95), "{name}: {seen:?}");
            assert!(
                seen.tasks.iter().all(|task| task.bytes_in_place.is_some_and(|bytes| bytes > 4 << 20)),
                "{seen:?}"
            );
        }
    });
}

/// Bytes per second that the disk of node 7 moves for eight tasks, by who places them.
const RACE: &str = r#"
    task="timeout 7 dd if=/dev/vda of=/dev/null bs=1M iflag=direct"
    moved() { awk '{print $3}' /sys/block/vda/stat; }
    watch() { sleep 2; a=$(moved); sleep 4; b=$(moved); echo "$1 $((b - a))" >>/out/race; wait; }
    numaio model --quiet --device vda --pause-balancing >/dev/null
    for t in 0 1 2 3 4 5 6 7; do taskset c000 $task 2>/dev/null & done; watch local
    for t in 0 1 2 3 4 5 6 7; do $task 2>/dev/null & done; watch kernel
    numaio run --quiet --near vda --direction read --tasks 8 --spread -- $task 2>/dev/null & watch spread"#;

/// The device shares its time (Li et al., ICPP 2013, Equation 1), so that a task on a slow way costs the others.
#[test]
fn eight_tasks_get_more_where_the_model_spreads_them() {
    measured("eight_tasks_get_more_where_the_model_spreads_them", |lab| {
        let folder = Folder::new("race");
        let output = lab.run("amd-dl585-g7-disk-time", &folder.0, &["sh", "-c", RACE]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(folder.0.join("race")).expect("a file that came back");
        let sectors = |who: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(who)).expect(who);
            line.trim().parse().expect("a number")
        };
        assert!(sectors("spread") > 1.1 * sectors("local"), "{text}");
        assert!(sectors("spread") > 1.02 * sectors("kernel"), "{text}");
    });
}

/// A node of memory alone runs no task, and a program stays inside its cpuset.
#[test]
fn placement_respects_what_a_node_lacks() {
    let Some(lab) = Lab::open("placement_respects_what_a_node_lacks") else { return };
    let folder = Folder::new("place-cxl");
    let line = "numaio place --near nvme0n1 --tasks 2 --json -o /out/plan.json; \
                numaio run --near nvme0n1 --tasks 99 -- true; test $? = 1 && \
                numaio run --near nvme0n1 -- no-such-program; test $? = 127";
    let output = lab.run("cxl-like", &folder.0, &["sh", "-c", line]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plan = fs::read_to_string(folder.0.join("plan.json")).expect("a plan that came back");
    let plan = PlacementPlan::from_json(&plan).expect("a plan");
    let memory_only = NodeId(2);
    assert!(plan.tasks.iter().all(|task| !task.cpu_nodes.contains(memory_only)), "{plan:?}");
}
