//! `numaio sweep` on this machine and on tapes of simulated machines.

use crate::simulated_tape::{recording, setting};
use crate::support::limits::read_line;
use crate::support::{kill, until, CommandOutput, Home, Limited};
use numaio_machine::discover::discover;
use numaio_measure::sweep::{self, Figure};
use numaio_measure::{Rule, SweepOptions};
use numaio_schema::{ClassRule, Comparison, FigureSource, Quantity, SweepRecord, SweepScope};
use numaio_sim::{shapes, Simulated, SimulatedProgram};
use std::fs;
use std::process::Stdio;
use std::sync::OnceLock;

const FIGURE: &str = "Copy: ([0-9.]+)";

/// Returns a tape of the simulated DL585 with sweeps of `stream` by nodes and by cores, and of the
/// slower build `old`.
fn tape() -> &'static str {
    static TAPE: OnceLock<String> = OnceLock::new();
    TAPE.get_or_init(|| {
        let mut spec = shapes::dl585();
        (spec.noise.sample, spec.noise.run) = (0.01, 0.003);
        let program = |name: &str, efficiency| SimulatedProgram { name: name.to_owned(), efficiency };
        let machine = Simulated::new(spec).expect("a machine");
        let machine = machine.with_program(program("stream", 1.0)).with_program(program("old", 0.8));
        let recording = recording(machine);
        let topology = discover(&recording);
        let setting = setting(&recording, &topology);
        let options = SweepOptions {
            name: "stream".to_owned(),
            builds: ["stream", "old"].map(|name| vec![name.to_owned()]).to_vec(),
            figure: Figure::new(FigureSource::Regex { pattern: FIGURE.to_owned() }).expect("a figure"),
            quantity: Quantity::BytesPerS,
            unit: "MB/s".to_owned(),
            scale: 1e6,
            scope: SweepScope::Pairs,
            around: Default::default(),
            run_limit_s: 600.0,
            rule: Rule { least_visits: 6, time_limit_s: 1e5, ..Rule::default() },
        };
        sweep::run(&setting, &options, &mut |_| {}).expect("a sweep");
        let cores = SweepOptions { scope: SweepScope::Cores, builds: vec![vec!["stream".into()]], ..options };
        sweep::run(&setting, &cores, &mut |_| {}).expect("a sweep by cores");
        recording.tape().to_text()
    })
}

/// Runs a sweep on the tape.
fn on_tape(home: &Home, args: &[&str], command: &[&str]) -> CommandOutput {
    let tape = home.file("sim.tape", tape());
    let figure = ["--figure", FIGURE, "--figure-unit", "MB/s"];
    home.run(&[&["sweep", "--machine", &tape], &figure[..], args, &["--"], command].concat())
}

fn record(text: &str) -> SweepRecord {
    SweepRecord::from_json(text).expect("a sweep")
}

/// Runs a sweep of a shell script on this machine.
fn live(home: &Home, args: &[&str], script: &str) -> CommandOutput {
    let limits = ["--precision", "50", "--time-limit", "5"];
    home.run(&[&["sweep"], &limits[..], args, &["--", "sh", "-c", script]].concat())
}

#[test]
fn tape_replays_a_sweep_with_classes_and_views() {
    let home = Home::new();
    let text = on_tape(&home, &["--node", "7"], &["stream"]).ok();
    for part in ["Median of stream in GB/s", "Classes of all pairs", "Target node 7", "stream, CPU-centric"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let all = record(&on_tape(&home, &["--json"], &["stream"]).ok());
    assert_eq!((all.cells.len(), all.provenance.complete), (64, true));
    assert_eq!(all.classes.rule, ClassRule::Measured);
    let cores = record(&on_tape(&home, &["--json", "--cores", "--classes", "kmeans"], &["stream"]).ok());
    assert_eq!((cores.cells.len(), cores.classes.rule), (cores.cells.len() / 8 * 8, ClassRule::Kmeans));
    assert!(cores.cells.iter().all(|cell| cell.placement.cpus.len() == 1));
    let paper = record(&on_tape(&home, &["--json", "--classes", "paper"], &["stream"]).ok());
    assert_eq!(paper.classes.classes[0].cells.len(), 16, "two nodes for each package");
    on_tape(&home, &[], &["other"]).failed(1, &["not on the tape", "numaio record --sweep"]);
}

#[test]
fn best_build_wins_every_pair() {
    let home = Home::new();
    let args = ["--best-of", "stream"];
    let text = on_tape(&home, &args, &["old"]).ok();
    assert!(text.contains("Best build") && text.contains("1: old") && text.contains("2: stream"), "{text}");
    let record = record(&on_tape(&home, &[&args[..], &["--json"]].concat(), &["old"]).ok());
    assert!(record.cells.iter().all(|cell| cell.build == 1 && cell.other_builds.len() == 1));
    assert_eq!(record.method.name, "old");
}

#[test]
fn saved_sweep_is_classified_again_compared_and_reported() {
    let home = Home::new();
    let args = ["--json", "--best-of", "old", "--name", "STREAM copy"];
    let saved = home.file("sweep.json", &on_tape(&home, &args, &["stream"]).ok());
    let again = home.run(&["sweep", "--from", &saved, "--classes", "kmeans", "--json"]).ok();
    assert_eq!(record(&again).classes.rule, ClassRule::Kmeans);
    let comparison = home.run(&["compare", "--from", &saved, "--node", "7", "--json"]).ok();
    let comparison = Comparison::from_json(&comparison).expect("a comparison");
    let names: Vec<&str> = comparison.views.iter().map(|view| view.name.as_str()).collect();
    assert_eq!(names, ["sweep-stream-copy-cpu-centric", "sweep-stream-copy-memory-centric"]);
    let report = |format: &str| home.run(&["report", &saved, "--format", format, "-o", "-"]).ok();
    let csv = report("csv");
    assert_eq!(csv.lines().filter(|line| line.contains(",sweep,STREAM copy: stream,")).count(), 64, "{csv}");
    assert_eq!(csv.lines().filter(|line| line.contains(",sweep,STREAM copy: old,")).count(), 64);
    let latex = report("latex");
    for part in ["STREAM copy: classes of all pairs", "STREAM copy: medians", "STREAM copy: best build"] {
        assert!(latex.contains(part), "{part}: {latex}");
    }
    assert!(report("html").contains("Classes of all pairs, best first"));
    assert!(report("markdown").contains("STREAM copy: best build"));
}

#[test]
fn figures_of_this_machine_are_saved_and_found_again() {
    let home = Home::new();
    let script = "grep Cpus_allowed_list: /proc/self/status >&2; echo 'score: 42'";
    let args = ["--figure", "score: ([0-9]+)", "--figure-unit", "points", "--json"];
    let measured = record(&live(&home, &args, script).ok());
    assert!(measured.cells.iter().all(|cell| cell.figure.median() == Some(42.0)));
    assert_eq!((measured.method.quantity, measured.method.unit.as_str()), (Quantity::Score, "points"));
    let report = home.run(&["report", "--format", "csv", "-o", "-"]).ok();
    assert!(report.contains(",sweep,sh,") && report.contains(",points,42"), "{report}");
}

#[test]
fn wall_time_and_json_are_figures() {
    let home = Home::new();
    let time = record(&live(&home, &["--json"], "sleep 0.2").ok());
    assert_eq!((&time.method.figure, time.method.quantity), (&FigureSource::WallTime, Quantity::Cost));
    assert!(time.cells.iter().all(|cell| cell.figure.median().is_some_and(|seconds| seconds >= 0.2)));
    let args = ["--json-path", "/jobs/0/ms", "--figure-unit", "ms", "--json"];
    let json = record(&live(&home, &args, "echo note; echo '{\"jobs\": [{\"ms\": 2.5}]}'").ok());
    assert_eq!(json.method.quantity, Quantity::Cost, "a unit of time");
    assert!(json.cells.iter().all(|cell| cell.figure.median() == Some(2.5)));
}

#[test]
fn failing_programs_report_the_reason() {
    let home = Home::new();
    let figure = ["--figure", "([0-9]+)"];
    live(&home, &figure, "echo broken >&2; exit 3").failed(1, &["sh: it exited with status 3: broken"]);
    live(&home, &figure, "kill -9 $$").failed(1, &["killed by signal 9"]);
    live(&home, &figure, "echo none").failed(1, &["no match of '([0-9]+)'"]);
    live(&home, &figure, "echo 1 2").failed(1, &["several matches", "'1' and '2'"]);
    live(&home, &figure, "echo 0").failed(1, &["'0' is not above 0"]);
    live(&home, &["--json-path", "/x"], "echo {}").failed(1, &["has no '/x'"]);
    live(&home, &["--run-limit", "0.2"], "sleep 100").failed(1, &["exceeded the time limit of a run"]);
    home.run(&["sweep", "--", "no-such-program"])
        .failed(127, &["cannot execute 'no-such-program': no such program", "path such as ./stream"]);
    let file = home.file("no-program", "");
    home.run(&["sweep", "--", &file]).failed(1, &["Permission denied"]);
}

#[test]
fn wrong_options_are_rejected_before_a_run() {
    let home = Home::new();
    let wrong = |args: &[&str], parts: &[&str]| {
        home.run(&[&["sweep"], args, &["--", "touch", "ran"]].concat()).failed(2, parts);
    };
    wrong(&["--figure", "(a"], &["--figure <REGEX>", "not a regular expression"]);
    wrong(&["--figure", "a"], &["one group, got 0 groups"]);
    wrong(&["--figure", "(a)(b)"], &["one group, got 2 groups"]);
    wrong(&["--json-path", "a.b"], &["JSON Pointer", "/jobs/0/read/bw"]);
    wrong(&["--figure", "(a)", "--json-path", "/a"], &["cannot be used with"]);
    wrong(&["--figure-unit", "MB/s"], &["--figure <REGEX>"]);
    wrong(&["--less-is-better"], &["--figure <REGEX>"]);
    wrong(
        &["--figure", "(a)", "--figure-unit", "MB/s", "--less-is-better"],
        &["--less-is-better cannot be combined"],
    );
    wrong(&["--pairs", "--cores"], &["cannot be used with"]);
    wrong(&["--best-of", "'a"], &["a quote is not closed"]);
    wrong(&["--best-of", " "], &["expected a command"]);
    wrong(&["--name", "..."], &["a letter or digit"]);
    wrong(&["--run-limit", "0"], &["expected a number of seconds above 0"]);
    wrong(&["--run-limit", "1e9"], &["at most 1000000"]);
    wrong(&["--classes", "best"], &["measured, paper, kmeans"]);
    wrong(&["--node", "9999"], &["there is no node 9999"]);
    wrong(&["--device", "nothing"], &["there is no device 'nothing'"]);
    wrong(&["--from", "x.json"], &["cannot be used with"]);
    home.run(&["sweep"]).failed(2, &["<COMMAND>..."]);
    home.run(&["sweep", "--from", "absent.json"]).failed(1, &["absent.json"]);
    let other = home.file("other.json", "{\"schema\": \"numaio/stream/1\"}");
    home.run(&["sweep", "--from", &other]).failed(1, &["numaio/sweep/1", "numaio sweep --json"]);
    let newer = home.file("newer.json", "{\"schema\": \"numaio/sweep/2\"}");
    home.run(&["sweep", "--from", &newer]).failed(1, &["a newer numaio"]);
    home.run(&["sweep", "--sysroot", "/", "--", "true"])
        .failed(2, &["a copied file tree cannot be measured"]);
    home.run(&["record", "-o", "x.tape", "--sweep", "--figure 'a -- true"])
        .failed(2, &["a quote is not closed"]);
    assert!(fs::metadata(home.path("ran")).is_err(), "the program ran");
}

/// Starts a sweep of a program with a child, and returns it with the process ID of the child.
fn start_with_grandchild(home: &Home) -> (std::process::Child, u32) {
    let file = home.path("child");
    let script = format!("sleep 1000 & echo $! > {file}.new; mv {file}.new {file}; wait");
    let mut command = home.numaio(&["sweep", "--no-save", "--", "sh", "-c", &script]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("numaio");
    until(|| fs::metadata(&file).is_ok(), || "the program did not start");
    let grandchild = fs::read_to_string(&file).expect("a process").trim().parse().expect("a number");
    (child, grandchild)
}

fn is_running(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn interrupt_ends_the_program_and_its_children() {
    let home = Home::new();
    let (mut numaio, grandchild) = start_with_grandchild(&home);
    kill("-INT", numaio.id());
    let message = read_line(numaio.stderr.take().expect("stderr"));
    assert_eq!(numaio.limited_status().expect("ended").code(), Some(130), "{message}");
    until(|| !is_running(grandchild), || "a child of the program survived");
}

#[test]
fn killed_sweep_leaves_no_program_behind() {
    let home = Home::new();
    let (mut numaio, grandchild) = start_with_grandchild(&home);
    kill("-KILL", numaio.id());
    numaio.limited_status().expect("ended");
    until(|| !is_running(grandchild), || "a child of the program survived");
}

#[test]
fn recorded_sweep_is_replayed_and_reported() {
    let home = Home::new();
    let line = "--figure 'value ([0-9]+)' -- sh -c 'echo value 7'";
    let limits = ["--no-baselines", "--time-limit", "4", "--precision", "50"];
    let recorded = home.run(&[&["record", "-o", "host.tape", "--sweep", line], &limits[..]].concat());
    assert_eq!(recorded.code, Some(0), "{}", recorded.err);
    let args = ["sweep", "--machine", "host.tape", "--figure", "value ([0-9]+)", "--json"];
    let replayed = record(&home.run(&[&args[..], &["--", "sh", "-c", "echo value 7"]].concat()).ok());
    assert!(replayed.cells.iter().all(|cell| cell.figure.median() == Some(7.0)));
    let csv = home.run(&["report", "--machine", "host.tape", "--format", "csv", "-o", "-"]).ok();
    assert!(csv.contains(",sweep,sh,"), "{csv}");
}
