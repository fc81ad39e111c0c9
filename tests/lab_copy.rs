//! `numaio copy --plan` on an emulated machine: threads and pages are the witnesses.

#[path = "support/lab.rs"]
mod support;

use std::fs;
use support::{Folder, Lab};

/// Storage of node 0 that is read by a thread of node 1, which nobody would do without a plan.
const PROBLEM: &str = r#"
threads_per_node = 2
nodes = [{ node = 0 }, { node = 1 }]
storage = [{ device = "disk", node = 0, bytes = 1_000_000_000 }]
nics = [{ device = "net", node = 0 }]
storage_ways = [{ device_node = 0, memory_node = 1, thread_bytes_per_s = 1e9, most_bytes_per_s = 1e9 }]
network_ways = [{ device_node = 0, memory_node = 1, thread_bytes_per_s = 1e9, most_bytes_per_s = 1e9 }]
"#;

/// Copies slowly, and looks at threads and pages as soon as a buffer was used.
const LOOK: &str = "
numaio plan --file /out/problem.toml --json >/out/plan.json || exit 1
dd if=/dev/zero of=/tmp/from bs=1M count=16 2>/dev/null
numaio copy --json --bwlimit 512K --plan /out/plan.json /tmp/from /tmp/to >/out/events &
copy=$!
for try in $(seq 120); do
    grep -q 'bind[^ ]*:1 .* N1=' /proc/$copy/numa_maps && break
    sleep 1
done
cp /proc/$copy/numa_maps /out/pages
for task in /proc/$copy/task/*; do
    echo $(cat $task/comm): $(grep Cpus_allowed_list $task/status)
done >/out/threads
kill $copy
wait $copy
cat /sys/devices/system/node/node1/cpulist >/out/cpus
";

#[test]
fn threads_and_pages_of_a_copy_are_where_the_plan_says() {
    let Some(lab) = Lab::open("threads_and_pages_of_a_copy_are_where_the_plan_says") else { return };
    let folder = Folder::new("copy");
    let script = format!("cat >/out/problem.toml <<'END'\n{PROBLEM}END\n{LOOK}");
    let output = lab.run("uniform-2n", &folder.0, &["sh", "-c", &script]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file that came back");
    assert_eq!(text("cpus").trim(), "2-3", "node 1");
    let threads = text("threads");
    let on = |cpus: &str| {
        let of = format!("Cpus_allowed_list: {cpus}");
        threads.lines().filter(|line| line.starts_with("files ") && line.ends_with(&of)).count()
    };
    assert_eq!(on("2"), 1, "one thread of the plan reads, on the first core of node 1: {threads}");
    let pages = text("pages");
    // numa_maps: an address, the policy with its nodes, and pages by node.
    let policy =
        |line: &&str| line.split(' ').nth(1).is_some_and(|it| it.starts_with("bind") && it.ends_with(":1"));
    let bound: Vec<&str> = pages.lines().filter(policy).collect();
    assert!(bound.iter().any(|line| line.contains(" N1=")), "{pages}");
    assert!(bound.iter().all(|line| !line.contains(" N0=")), "{pages}");
    let first = text("events").lines().next().map(str::to_owned).unwrap_or_default();
    let event: serde_json::Value = serde_json::from_str(&first).expect("an event");
    let crew = &event["crews"][0];
    assert_eq!((&crew["threads"], &crew["cpus"]), (&1.into(), &"2".into()), "{event}");
    assert_eq!(crew["buffers_on"], 1, "{event}");
}
