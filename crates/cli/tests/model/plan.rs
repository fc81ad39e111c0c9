//! Tests of `numaio plan`, and of `place` and `run` with a transfer plan.

use crate::support::{expect, CommandOutput, Home, Limited};
use numaio_machine::set::CpuSet;
use numaio_model::check_plan;
use numaio_schema::{Objective, PlacementPlan, Plan, PlanProblem, SimpleRule, Transfer};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

const DL585: [&str; 6] = ["plan", "--machine", "amd-dl585-g7", "--data", "nvme0n1=2TB", "--nic"];

/// Returns the two-socket server of docs/examples.
fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/two-socket-dtn.toml");
    std::fs::read_to_string(path).expect("the example")
}

fn plan_of(output: CommandOutput) -> Plan {
    let plan = Plan::from_json(&output.ok()).expect("a plan");
    check_plan(&plan).expect("a feasible plan");
    plan
}

/// Plans with the options of [`DL585`] for both NICs, and further options.
fn on_dl585(home: &Home, more: &[&str]) -> Plan {
    plan_of(home.run(&[&DL585[..], &["eth0,eth1", "--json"], more].concat()))
}

fn memory_nodes(plan: &Plan) -> Vec<u32> {
    let mut nodes: Vec<u32> = plan.storage_paths.iter().map(|path| path.memory_node.0).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

#[test]
fn plans_for_the_devices_of_a_machine() {
    let home = Home::new();
    let plan = on_dl585(&home, &[]);
    assert!(plan.proof.optimal && plan.problem.direction == Transfer::Send);
    assert_eq!(plan.problem.total_bytes(), 2_000_000_000_000);
    assert!(plan
        .problem
        .assumptions
        .iter()
        .any(|assumption| assumption.contains("copy model replaces a measurement")));
    for rejected in &plan.rejected {
        let simple = rejected.predicted.as_ref().expect("a prediction");
        assert!(simple.time_s >= plan.predicted.time_s * (1.0 - 1e-9), "{rejected:?}");
    }
    let receive = on_dl585(&home, &["--receive"]);
    assert_eq!(receive.problem.direction, Transfer::Receive);
    let network_paths = |plan: &Plan| {
        let paths = plan.problem.network_paths.iter();
        paths.map(|path| (path.memory_node.0, path.max_bytes_per_s)).collect::<Vec<_>>()
    };
    assert_ne!(network_paths(&plan), network_paths(&receive), "nodes 2 and 3 are slow only for sending");
}

#[test]
fn options_limit_nodes_threads_and_bandwidth() {
    let home = Home::new();
    let pinned = on_dl585(&home, &["--no-threads-on", "7,6,0"]);
    assert!(memory_nodes(&pinned).iter().all(|node| ![7, 6, 0].contains(node)), "{pinned:?}");
    let few = on_dl585(&home, &["--threads-per-node", "4", "--reserve", "7:2,1:2"]);
    assert!(few.problem.nodes.iter().all(|node| node.threads == Some(4)));
    let max_threads = |node: u32| if [1, 7].contains(&node) { 2 } else { 4 };
    assert!((0..8).all(|node| few.threads_on(numaio_machine::ids::NodeId(node)) <= max_threads(node)));
    let slow = on_dl585(&home, &["--capacity", "nvme0n1=50MB,eth0=1GB"]);
    assert!((slow.predicted.bytes_per_s / 50e6 - 1.0).abs() < 1e-6, "{:?}", slow.predicted);
    let slow = on_dl585(&home, &["--thread-bandwidth", "1MB"]);
    assert!(slow.predicted.bytes_per_s < 17e6 && slow.predicted.bytes_per_s > 1e6, "{:?}", slow.predicted);
}

#[test]
fn both_objectives_work() {
    let home = Home::new();
    let sum = on_dl585(&home, &["--objective", "sum"]);
    assert_eq!((sum.problem.objective, sum.proof.value_s), (Objective::Sum, sum.predicted.sum_s));
    // A problem from a file keeps its objective unless an option sets another.
    let problem = home.document("sum.json", &sum.problem);
    assert_eq!(plan_of(home.run(&["plan", "--file", &problem, "--json"])), sum);
    let time = plan_of(home.run(&["plan", "--file", &problem, "--json", "--objective", "time"]));
    assert_eq!(time.problem.objective, Objective::Time);
}

#[test]
fn reads_problems_from_toml_json_plans_and_standard_input() {
    let home = Home::new();
    let toml = home.file("dtn.toml", &example());
    let plan = plan_of(home.run(&["plan", "--file", &toml, "--json"]));
    let problem = home.run(&["plan", "--file", &toml, "--problem"]).ok();
    assert_eq!(PlanProblem::from_json(&problem).expect("a problem"), plan.problem);
    let json = home.file("any-name", &problem);
    assert_eq!(plan_of(home.run(&["plan", "--file", &json, "--json"])), plan);
    let earlier = home.document("plan.json", &plan);
    assert_eq!(plan_of(home.run(&["plan", "--file", &earlier, "--json"])), plan);
    assert_eq!(plan_of(piped(&home, &["plan", "--file", "-", "--json"], &example())), plan);
    let out = home.path("written.json");
    assert_eq!(home.run(&["plan", "--file", &toml, "--json", "-o", &out]).ok(), "");
    assert_eq!(Plan::from_json(&std::fs::read_to_string(out).expect("a file")).expect("a plan"), plan);
}

/// Runs numaio with this standard input.
fn piped(home: &Home, args: &[&str], text: &str) -> CommandOutput {
    let mut command = home.numaio(args);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("numaio");
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("written");
    CommandOutput::of(child.limited_output().expect("ended"))
}

/// The problem in docs/internals/planning.md has different optima for the two objectives.
#[test]
fn solves_the_problem_of_the_documentation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/internals/planning.md")).expect("the documentation");
    let toml = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a problem");
    let home = Home::new();
    let file = home.file("documented.toml", toml);
    let best = |objective: &str| {
        let plan = plan_of(home.run(&["plan", "--file", &file, "--json", "--objective", objective]));
        (plan.predicted.time_s, plan.predicted.sum_s)
    };
    let near = |found: (f64, f64), documented: (f64, f64)| {
        (found.0 - documented.0).abs() < 0.05 && (found.1 - documented.1).abs() < 0.05
    };
    assert!(near(best("time"), (40.0, 115.0)), "{:?}", best("time"));
    assert!(near(best("sum"), (66.66, 91.66)), "{:?}", best("sum"));
}

/// Checks the tables of the README: in the simulator, a plan beats all-local and even spread.
#[test]
fn simulated_plans_are_not_slower_than_simple_ones() {
    let home = Home::new();
    let toml = home.file("dtn.toml", &example());
    let dtn = plan_of(home.run(&["plan", "--file", &toml, "--json", "--simulate"]));
    for plan in [dtn, on_dl585(&home, &["--simulate"]), on_dl585(&home, &["--simulate", "--receive"])] {
        let simulated = plan.predicted.simulated_s.expect("a simulated time");
        let ratio = simulated / plan.predicted.time_s;
        assert!((0.999..1.05).contains(&ratio), "predicted {} s, {simulated} s", plan.predicted.time_s);
        let rules: Vec<SimpleRule> = plan.rejected.iter().map(|rejected| rejected.rule).collect();
        assert_eq!(rules, [SimpleRule::AllLocal, SimpleRule::EvenSpread]);
        for rejected in &plan.rejected {
            let other = rejected.predicted.as_ref().and_then(|it| it.simulated_s);
            // The tolerance covers one chunk of the last thread.
            assert!(other.is_none_or(|other| simulated <= other * 1.01), "{simulated} s, {rejected:?}");
        }
    }
    assert!(on_dl585(&home, &[]).predicted.simulated_s.is_none());
}

#[test]
fn text_has_tables_of_flows_and_rejected_plans() {
    let home = Home::new();
    let toml = home.file("dtn.toml", &example());
    let text = home.run(&["plan", "--file", &toml, "--simulate"]).ok();
    expect("plan-dtn.txt", &text);
    let text = home.run(&[&DL585[..], &["eth0,eth1"]].concat()).ok();
    for words in [
        "proven optimal",
        "Bottleneck",
        "Assumptions",
        "all local",
        "even spread",
        "% more",
        "eth0+eth1 (node 7)",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
}

#[test]
fn draws_the_flows() {
    let home = Home::new();
    let toml = home.file("dtn.toml", &example().replace("nvme0n1", "<b>&\\u001b[2J"));
    let path = home.path("flows.svg");
    let output = home.run(&["plan", "--file", &toml, "--svg", &path]);
    assert!(output.err.contains("wrote the drawing to"), "{}", output.err);
    assert!(output.ok().contains("Bottleneck"));
    let svg = std::fs::read_to_string(path).expect("a drawing");
    let plan = plan_of(home.run(&["plan", "--file", &toml, "--json"]));
    let bands = svg.matches("<path class=\"flow").count();
    assert_eq!(bands, plan.storage_paths.len() + plan.network_paths.len());
    assert!(
        svg.contains("Memory of node 1") && svg.contains("&lt;b&gt;&amp;") && !svg.contains('\u{1b}'),
        "{svg}"
    );
    assert!(is_balanced(&svg), "{svg}");
}

/// Returns whether every opened element is closed.
fn is_balanced(svg: &str) -> bool {
    let opened = svg.matches('<').count() - svg.matches("</").count();
    let closed = svg.matches("</").count() + svg.matches("/>").count();
    opened == closed
}

/// Asserts the parts of the error for a changed example.
fn rejects(home: &Home, from: &str, to: &str, parts: &[&str]) {
    let changed = example().replace(from, to);
    assert_ne!(changed, example(), "{from:?} is in the example");
    let file = home.file("changed.toml", &changed);
    home.run(&["plan", "--file", &file])
        .failed(1, &[parts, &["changed.toml", "docs/internals/planning.md"]].concat());
}

#[test]
fn rejects_invalid_values_in_a_file() {
    let home = Home::new();
    let path = "thread_bytes_per_s = 1.4e9, max_bytes_per_s = 10e9";
    let zero = "thread_bytes_per_s = 0.0, max_bytes_per_s = 10e9";
    rejects(
        &home,
        path,
        zero,
        &["bandwidth of one thread of the storage path between device node 0 and memory node 1 is 0"],
    );
    rejects(&home, path, &zero.replace("0.0", "nan"), &["is NaN", "expected from 1 to 1e18"]);
    rejects(&home, path, &zero.replace("0.0", "inf"), &["is inf"]);
    rejects(&home, path, &zero.replace("0.0", "-3.0"), &["is -3"]);
    rejects(&home, "threads_per_node = 10", "threads_per_node = 3", &["no node may run more than 1"]);
    rejects(&home, "threads_per_node = 10", "threads_per_node = 1", &["2 cores are reserved, but it has 1"]);
    rejects(&home, "threads_per_node = 10", "threads_per_node = 5000", &["5000", "at most 1024"]);
    let excluded = "no_threads_on = [0]\nthreads_per_node = 10";
    rejects(
        &home,
        "threads_per_node = 10",
        &excluded.replace("[0]", "[0, 1]"),
        &["no node may run more than 0"],
    );
    rejects(
        &home,
        "threads_per_node = 10",
        &excluded.replace("[0]", "[4]"),
        &["no_threads_on refers to node 4"],
    );
    let both = "no_threads_on = [0]\nthreads_per_node = 8";
    let contradiction = example()
        .replace("threads_per_node = 10", both)
        .replace("node = 0, reserved = 2 }", "node = 0, threads = 4 }");
    let file = home.file("contradiction.toml", &contradiction);
    home.run(&["plan", "--file", &file])
        .failed(1, &["node 0: no threads may run on it, but it has 4 threads"]);
    rejects(&home, "bytes = 1_250_000_000_000", "bytes = 9_000_000_000_000_000", &["expected below 2^53"]);
    rejects(&home, "\"nvme1n1\"", "\"nvme0n1\"", &["duplicate storage \"nvme0n1\""]);
    rejects(&home, "\"eth1\", node = 1", "\"eth1\", node = 5", &["NIC \"eth1\" refers to node 5"]);
    let duplicate = example().replace("device_node = 1, memory_node", "device_node = 0, memory_node");
    let file = home.file("duplicate.toml", &duplicate);
    home.run(&["plan", "--file", &file]).failed(1, &["duplicate storage path"]);
}

#[test]
fn rejects_unreachable_data_and_missing_data() {
    let home = Home::new();
    let mut problem: PlanProblem = PlanProblem::from_json(
        &home.run(&["plan", "--file", &home.file("dtn.toml", &example()), "--problem"]).ok(),
    )
    .expect("a problem");
    problem.limits.clear();
    problem.network_paths.retain(|path| path.memory_node.0 == 0);
    problem.storage_paths.retain(|path| path.device_node.0 == path.memory_node.0);
    let file = home.document("unreachable.json", &problem);
    home.run(&["plan", "--file", &file]).failed(1, &["data on node 1: no NIC is reached"]);
    problem.storage.iter_mut().for_each(|storage| storage.bytes = 0);
    let file = home.document("empty.json", &problem);
    home.run(&["plan", "--file", &file]).failed(1, &["there is no data"]);
}

#[test]
fn syntax_errors_have_a_line_number() {
    let home = Home::new();
    rejects(
        &home,
        "threads_per_node = 10",
        "threads_per_nodes = 10",
        &["line 5", "threads_per_nodes", "threads_per_node"],
    );
    rejects(&home, "threads_per_node = 10 ", "threads_per_node = ten ", &["line 5"]);
    rejects(&home, "device = \"eth0\", node = 0", "device = \"eth0\", node = -1", &["line 20"]);
    rejects(&home, "bytes = 1_250_000_000_000", "bytes = 99999999999999999999", &["line 13"]);
    rejects(
        &home,
        "\"eth0\", node = 0, bytes_per_s = 12.5e9",
        "\"eth0\", node = 0, bytes_per_s = \"fast\"",
        &["line 20", "f64"],
    );
    rejects(&home, "{ node = 0, reserved = 2 },", "{ node = 0, reserved = 2 ", &["line "]);
    let other = home.file("other.toml", &format!("schema = \"numaio/plan-problem/9\"\n{}", example()));
    home.run(&["plan", "--file", &other]).failed(1, &["numaio/plan-problem/9", "numaio/plan-problem/1"]);
    let none = home.file("none.json", "{\"nodes\": []}");
    home.run(&["plan", "--file", &none]).failed(1, &["no field `schema`", "numaio/plan-problem/1"]);
    let cut = home.file("cut.json", "{\"schema\": \"numaio/plan-problem/1\", ");
    home.run(&["plan", "--file", &cut]).failed(1, &["incomplete JSON", "truncated"]);
    let topology = home.run(&["topology", "--machine", "amd-2p", "--json"]).ok();
    let other = home.file("topology.json", &topology);
    home.run(&["plan", "--file", &other]).failed(1, &["not a planning problem", "--problem"]);
    home.run(&["plan", "--file", "nowhere.toml"]).failed(1, &["nowhere.toml"]);
}

#[test]
fn rejects_invalid_options_with_a_hint() {
    let home = Home::new();
    let dl585 = |more: &[&str]| home.run(&[&DL585[..], &["eth0"], more].concat());
    home.run(&["plan"]).failed(2, &["--data"]);
    home.run(&["plan", "--data", "nvme0n1=2TB"]).failed(2, &["--nic"]);
    home.run(&["plan", "--data", "nvme0n1", "--nic", "eth0"]).failed(2, &["expected HANDLE=SIZE"]);
    home.run(&["plan", "--data", "nvme0n1=2parsecs", "--nic", "eth0"]).failed(2, &["invalid size"]);
    home.run(&["plan", "--data", "nvme0n1=99999999P", "--nic", "eth0"]).failed(2, &["exceeds 2^64"]);
    dl585(&["--data", "nvme0n1=15E"]).failed(1, &["below 2^53"]);
    dl585(&["--data", "nvme7n1=1TB"]).failed(2, &["nvme7n1"]);
    dl585(&["--nic", "eth9"]).failed(2, &["eth9"]);
    dl585(&["--no-threads-on", "9"]).failed(2, &["node 9", "numaio topology"]);
    dl585(&["--reserve", "8:1"]).failed(2, &["node 8", "numaio topology"]);
    dl585(&["--reserve", "7:3"])
        .failed(1, &["node 7: 3 cores are reserved, but it has 2 threads", "--reserve"]);
    dl585(&["--reserve", "seven"]).failed(2, &["expected NODE:CORES"]);
    dl585(&["--threads-per-node", "1"]).failed(1, &["no node may run more than 1", "--threads-per-node"]);
    dl585(&["--no-threads-on", "0,1,2,3,4,5,6,7"]).failed(1, &["no node may run more than 0"]);
    dl585(&["--capacity", "eth0=0"]).failed(1, &["bandwidth of NIC \"eth0\" is 0"]);
    dl585(&["--capacity", "eth1=1GB"]).failed(2, &["'eth1' for --capacity", "nvme0n1, eth0"]);
    dl585(&["--send", "--receive"]).failed(2, &["--receive"]);
    dl585(&["--time-limit", "0"]).failed(2, &["above 0"]);
    dl585(&["--time-limit", "nan"]).failed(2, &["above 0"]);
    dl585(&["--file", "x.toml"]).failed(2, &["--file"]);
    home.run(&["plan", "--file", "x.toml", "--machine", "amd-2p"]).failed(2, &["--machine"]);
    dl585(&["--problem", "--simulate"]).failed(2, &["--simulate"]);
    dl585(&["--json", "-o", "/no/such/folder/plan.json"]).failed(1, &["/no/such/folder"]);
    let zero = ["plan", "--machine", "amd-dl585-g7", "--data", "nvme0n1=0", "--nic", "eth0"];
    home.run(&zero).failed(1, &["there is no data", "--data nvme0n1=2TB"]);
}

#[test]
fn time_limit_returns_the_best_plan_and_its_gap() {
    let home = Home::new();
    let hard = home.document("hard.json", &hard_problem());
    let plan = plan_of(home.run(&["plan", "--file", &hard, "--json", "--time-limit", "0.2"]));
    assert!(!plan.proof.optimal && plan.proof.gap > 1e-6 && plan.proof.gap < 0.5, "{:?}", plan.proof);
    let text = home.run(&["plan", "--file", &hard, "--time-limit", "0.2"]).ok();
    assert!(text.contains("% above the optimum"), "{text}");
}

/// Returns a problem that takes long to solve: eight nodes with storage and a NIC, all with
/// different bandwidths, where only threads are scarce.
fn hard_problem() -> PlanProblem {
    let mut lines = vec!["threads_per_node = 8".to_owned()];
    let rows = |row: &dyn Fn(u64) -> String| (0..8).map(row).collect::<Vec<_>>().join(", ");
    lines.push(format!("nodes = [{}]", rows(&|node| format!("{{ node = {node} }}"))));
    lines.push(format!(
        "storage = [{}]",
        rows(&|node| format!(
            "{{ device = \"d{node}\", node = {node}, bytes = {} }}",
            400_000_000_000 + node * 77_777_777_777
        ))
    ));
    lines.push(format!("nics = [{}]", rows(&|node| format!("{{ device = \"n{node}\", node = {node} }}"))));
    for (kind, step) in [("storage_paths", 7919u64), ("network_paths", 104_729)] {
        let path = |number: u64| {
            let share = |step: u64| (number * step % 1009) as f64 / 1009.0;
            let thread = 0.5e9 + 1.5e9 * share(step);
            let most = thread * (1.0 + 6.0 * share(step * 31));
            let (device, memory) = (number / 8, number % 8);
            format!("{{ device_node = {device}, memory_node = {memory}, thread_bytes_per_s = {thread:.1}, max_bytes_per_s = {most:.1} }}")
        };
        let paths: Vec<String> = (0..64).map(path).collect();
        lines.push(format!("{kind} = [{}]", paths.join(", ")));
    }
    toml::from_str(&lines.join("\n")).expect("a problem")
}

#[test]
fn places_a_plan_on_a_core_per_thread() {
    let home = Home::new();
    let plan = on_dl585(&home, &[]);
    let file = home.document("plan.json", &plan);
    let place = |more: &[&str]| {
        let args = ["place", "--machine", "amd-dl585-g7", "--plan", &file];
        home.run(&[&args[..], more].concat())
    };
    let placement = PlacementPlan::from_json(&place(&["--json"]).ok()).expect("a placement");
    assert_eq!(placement.tasks.len(), 1);
    let task = &placement.tasks[0];
    // Node n has CPUs 2n and 2n + 1, each of which is a core.
    for node in 0..8u32 {
        let cpus = task.cpus.iter().filter(|cpu| cpu.0 / 2 == node).count() as u32;
        assert_eq!(cpus, plan.threads_on(numaio_machine::ids::NodeId(node)).min(2), "node {node}");
    }
    assert_eq!(task.memory.nodes.iter().map(|node| node.0).collect::<Vec<_>>(), memory_nodes(&plan));
    let text = place(&[]).ok();
    assert!(
        text.contains("Placement near eth0, eth1, nvme0n1") && text.contains("for storage and"),
        "{text}"
    );
    assert!(place(&["--format", "numactl"]).ok().contains("--physcpubind"));
    // A placement is also accepted as a plan.
    let file = home.document("placement.json", &placement);
    let again = home.run(&["place", "--machine", "amd-dl585-g7", "--plan", &file, "--json"]).ok();
    assert_eq!(PlacementPlan::from_json(&again).expect("a placement"), placement);
}

#[test]
fn rejects_plans_of_other_machines_and_infeasible_ones() {
    let home = Home::new();
    let plan = on_dl585(&home, &[]);
    let place = |plan: &Plan, parts: &[&str]| {
        let file = home.document("plan.json", plan);
        home.run(&["place", "--machine", "amd-dl585-g7", "--plan", &file]).failed(1, parts);
    };
    let file = home.document("other.json", &plan);
    home.run(&["place", "--machine", "amd-2p", "--plan", &file])
        .failed(1, &["it is a plan for machine", "create it again"]);
    let mut tampered = plan.clone();
    tampered.storage_paths[0].bytes += 1;
    place(&tampered, &["infeasible plan", "numaio plan --json"]);
    let mut tampered = plan.clone();
    tampered.predicted.time_s /= 2.0;
    place(&tampered, &["infeasible plan"]);
    let file = home.document("problem.json", &plan.problem);
    home.run(&["place", "--machine", "amd-dl585-g7", "--plan", &file])
        .failed(1, &["not a plan", "numaio plan --json"]);
    home.run(&["place", "--plan", "x", "--near", "eth0"]).failed(2, &["--near"]);
}

/// The problem names no machine and uses only node 0, which every machine has.
#[test]
fn runs_a_program_on_the_cores_of_a_plan_from_standard_input() {
    let home = Home::new();
    let problem = "threads_per_node = 2\nnodes = [{ node = 0 }]\n\
        storage = [{ device = \"disk\", node = 0, bytes = 1000 }]\nnics = [{ device = \"nic\", node = 0 }]\n\
        storage_paths = [{ device_node = 0, memory_node = 0, thread_bytes_per_s = 1e9, max_bytes_per_s = 1e9 }]\n\
        network_paths = [{ device_node = 0, memory_node = 0, thread_bytes_per_s = 1e9, max_bytes_per_s = 1e9 }]\n";
    let plan = home.run(&["plan", "--file", &home.file("one.toml", problem), "--json"]).ok();
    let script = "grep Cpus_allowed_list /proc/self/status; exit 5";
    let output = piped(&home, &["run", "--plan", "-", "--explain", "--", "sh", "-c", script], &plan);
    assert_eq!(output.code, Some(5), "{}", output.err);
    assert!(output.err.contains("2 threads there, 1 for storage and 1 for the network"), "{}", output.err);
    assert!(output.err.contains("names no machine"), "{}", output.err);
    let list = output.out.trim().rsplit('\t').next().unwrap_or_default();
    let cpus = CpuSet::parse_list(list).expect("a list");
    let topology = numaio_schema::TopologyDocument::from_json(&home.run(&["topology", "--json"]).ok())
        .expect("a topology")
        .topology;
    let node = topology.nodes.iter().find(|node| node.id.0 == 0).expect("node 0");
    let cores = topology.cores(node.id).len().min(2);
    assert!(cpus.len() >= cores && cpus.iter().all(|cpu| node.cpus.contains(cpu)), "{cpus} of {}", node.cpus);
}
