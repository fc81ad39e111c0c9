//! `numaio place` and `run` on emulated machines, checked by threads and pages.

use numaio_lab::{measure, note_value, Folder, Lab};
use numaio_machine::ids::NodeId;
use numaio_schema::{PlacementPlan, Verification};
use std::fs;

/// Uses 8 MiB of memory and CPU time for some seconds, so that --verify can observe it.
const WORK: &str = "timeout 8 dd if=/dev/zero of=/dev/null bs=8M 2>/dev/null; true";

/// Without a model, tasks use the device's node, then its package; with one, the best read class.
#[test]
fn programs_run_on_the_planned_nodes() {
    measure("programs_run_on_the_planned_nodes", |lab| {
        let folder = Folder::new("place");
        let line = format!(
            "numaio place --near nvme0n1 --tasks 3 --json -o /out/topology.json && \
         numaio run --near nvme0n1 --tasks 3 --verify --verify-json /out/topology-run.json -- sh -c '{WORK}' && \
         numaio model --quiet --device nvme0n1 --pause-balancing >/dev/null; \
         numaio place --near nvme0n1 --direction read --spread --tasks 8 --json -o /out/model.json && \
         numaio run --plan /out/model.json --verify --verify-json /out/spread.json -- sh -c '{WORK}'"
        );
        let output = lab.run("amd-dl585-g7", &folder.0, &["sh", "-c", &line]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file of results");
        let plan = |name: &str| PlacementPlan::from_json(&text(name)).expect("a plan");
        let nodes = |plan: &PlacementPlan| {
            let mut nodes: Vec<u32> =
                plan.tasks.iter().flat_map(|task| task.cpu_nodes.iter().map(|node| node.0)).collect();
            nodes.sort_unstable();
            nodes
        };
        assert_eq!(nodes(&plan("topology.json")), [6, 7, 7]);
        assert_eq!(nodes(&plan("model.json")), [2, 2, 3, 3, 6, 6, 7, 7]);
        for name in ["topology-run.json", "spread.json"] {
            let found = Verification::from_json(&text(name)).expect("a verification");
            assert_eq!(found.time_in_place(), Some(1.0), "{name}: {found:?}");
            assert!(found.pages_in_place().is_some_and(|share| share > 0.95), "{name}: {found:?}");
            assert!(
                found.tasks.iter().all(|task| task.bytes_in_place.is_some_and(|bytes| bytes > 4 << 20)),
                "{found:?}"
            );
        }
    });
}

/// Measures the sectors that eight tasks read from the disk of node 7, for three placements.
const PLACEMENTS: &str = r#"
    task="timeout 7 dd if=/dev/vda of=/dev/null bs=1M iflag=direct"
    sectors_read() { awk '{print $3}' /sys/block/vda/stat; }
    watch() { sleep 2; a=$(sectors_read); sleep 4; b=$(sectors_read); echo "$1 $((b - a))" >>/out/sectors; wait; }
    numaio model --quiet --device vda --pause-balancing >/dev/null
    for t in 0 1 2 3 4 5 6 7; do taskset c000 $task 2>/dev/null & done; watch local
    for t in 0 1 2 3 4 5 6 7; do $task 2>/dev/null & done; watch kernel
    numaio run --quiet --near vda --direction read --tasks 8 --spread -- $task 2>/dev/null & watch spread"#;

/// The device shares its time (Li et al., ICPP 2013, Equation 1), so a task on a slow path slows
/// the others.
#[test]
fn spreading_by_the_model_beats_local_and_kernel_placement() {
    measure("spreading_by_the_model_beats_local_and_kernel_placement", |lab| {
        let folder = Folder::new("placements");
        let output = lab.run("amd-dl585-g7-disk-time", &folder.0, &["sh", "-c", PLACEMENTS]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(folder.0.join("sectors")).expect("a file of results");
        let sectors = |placement: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(placement)).expect(placement);
            line.trim().parse().expect("a number")
        };
        note_value("sectors", &text);
        assert!(sectors("spread") > 1.1 * sectors("local"), "{text}");
        assert!(sectors("spread") > 1.02 * sectors("kernel"), "{text}");
    });
}

/// Tasks are not placed on memory-only nodes, and failures to start set the exit status.
#[test]
fn placement_skips_memory_only_nodes() {
    let Some(lab) = Lab::open("placement_skips_memory_only_nodes") else { return };
    let folder = Folder::new("place-cxl");
    let line = "numaio place --near nvme0n1 --tasks 2 --json -o /out/plan.json; \
                numaio run --near nvme0n1 --tasks 99 -- true; test $? = 1 && \
                numaio run --near nvme0n1 -- no-such-program; test $? = 127";
    let output = lab.run("cxl-like", &folder.0, &["sh", "-c", line]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plan = fs::read_to_string(folder.0.join("plan.json")).expect("a file of results");
    let plan = PlacementPlan::from_json(&plan).expect("a plan");
    let memory_only = NodeId(2);
    assert!(plan.tasks.iter().all(|task| !task.cpu_nodes.contains(memory_only)), "{plan:?}");
}
