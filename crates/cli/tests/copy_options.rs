//! Options of `numaio copy`: where it runs, what it compares, what it takes.

mod support;

use numaio_machine::set::CpuSet;
use numaio_schema::PlacementPlan;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::{Home, Said};

/// Two threads on node 0 with data on the disk, one for storage and one for the network.
const PROBLEM: &str = r#"
threads_per_node = 2
direction = "DIRECTION"
nodes = [{ node = 0 }]
storage = [{ device = "disk", node = 0, bytes = 1_000_000_000 }]
nics = [{ device = "net", node = 0 }]
storage_ways = [{ device_node = 0, memory_node = 0, thread_bytes_per_s = 1e9, most_bytes_per_s = 1e9 }]
network_ways = [{ device_node = 0, memory_node = 0, thread_bytes_per_s = 1e9, most_bytes_per_s = 1e9 }]
"#;

fn copy(home: &Home, args: &[&str]) -> Said {
    home.run(&[&["copy"], args].concat())
}

/// Writes a plan, and gives its path.
fn plan(home: &Home, direction: &str) -> String {
    let problem = home.file("problem.toml", &PROBLEM.replace("DIRECTION", direction));
    let plan = home.run(&["plan", "--file", &problem, "--json"]).ok();
    home.file(&format!("{direction}.json"), &plan)
}

fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Threads that read and write files, and where they may run.
fn workers(pid: u32) -> BTreeSet<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |folder: std::path::PathBuf| {
        let name = fs::read_to_string(folder.join("comm")).ok()?;
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        name.starts_with("files ").then(|| cpus.trim().to_owned())
    };
    tasks.filter_map(|task| of(task.path())).collect()
}

/// Waits until something is so.
fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn threads_and_buffers_are_where_the_plan_says() {
    let home = Home::new();
    fs::write(home.0.join("from"), vec![7; 8 << 20]).expect("a file");
    let (send, receive) = (plan(&home, "send"), plan(&home, "receive"));
    let places = home.run(&["place", "--plan", &send, "--json"]).ok();
    let all = PlacementPlan::from_json(&places).expect("a plan").tasks[0].cpus.clone();
    let first: CpuSet = all.iter().take(1).collect();
    let args = ["copy", "--bwlimit", "1M", "--json", "--plan", &send, "--plan", &receive, "from", "to"];
    let mut command = home.command(env!("CARGO_BIN_EXE_numaio"), &args);
    let mut running = Running(command.stdout(Stdio::piped()).spawn().expect("numaio"));
    let pid = running.0.id();
    let planned = BTreeSet::from([first.to_string()]);
    wait_for("threads are on the plan's first core", || workers(pid) == planned);
    let status = home.run(&["status", &pid.to_string()]).ok();
    assert!(status.contains("numaio") || status.contains(&pid.to_string()), "{status}");
    drop(running.0.kill());
    let mut out = String::new();
    let stdout = running.0.stdout.as_mut().expect("its output");
    std::io::Read::read_to_string(stdout, &mut out).expect("text");
    let placed: Vec<Value> = events(&out).into_iter().filter(|it| it["event"] == "placement").collect();
    let sides: Vec<_> = placed.iter().map(|it| (it["side"].as_str(), it["by"].as_str())).collect();
    assert_eq!(sides, [(Some("source"), Some("the plan")), (Some("destination"), Some("the plan"))]);
    for side in &placed {
        let crews = side["crews"].as_array().expect("crews");
        assert_eq!(crews.len(), 1);
        assert_eq!((&crews[0]["threads"], &crews[0]["cpus"]), (&1.into(), &first.to_string().into()));
    }
}

#[test]
fn a_plan_that_does_not_hold_here_is_refused() {
    let home = Home::new();
    home.file("from", "x");
    let send = plan(&home, "send");
    copy(&home, &["--plan", &send, "--plan", &send, "from", "to"])
        .failed(1, &["a second plan for the same side", "--receive"]);
    copy(&home, &["--plan", &send, "--threads", "2", "from", "to"]).failed(2, &["--threads"]);
    let other = ["plan", "--machine", "amd-dl585-g7", "--data", "nvme0n1=2TB", "--nic", "eth0", "--json"];
    let other = home.file("other.json", &home.run(&other).ok());
    copy(&home, &["--plan", &other, "from", "to"]).failed(1, &["it is a plan for machine", "and this is"]);
    let lie = fs::read_to_string(&send).expect("a plan").replace("\"threads\": 1", "\"threads\": 9");
    let lie = home.file("lie.json", &lie);
    copy(&home, &["--plan", &lie, "from", "to"]).failed(1, &["lie.json"]);
    copy(&home, &["--plan", "from", "from", "to"]).failed(1, &["numaio plan --json writes such files"]);
    assert!(!home.0.join("to").exists());
    let said = copy(&home, &["-nv", "--plan", &send, "from", "to"]);
    assert!(said.err.contains("source, placed by the plan: 1 thread on CPUs "), "{}", said.err);
    assert_eq!(said.ok().lines().next(), Some("would be copied: to"));
}
