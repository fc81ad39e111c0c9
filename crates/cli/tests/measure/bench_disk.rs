//! `numaio bench disk` on a file on this machine's disk.

use crate::support::{kill, CommandOutput, Home, Limited};
use numaio_schema::{AggregateRecord, IoEngine, IoRecord};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Options for a short campaign: nearly every spread is precise enough.
const SHORT: [&str; 8] = ["--area", "8M", "--streams", "1,2", "--precision", "95", "--window", "50"];

fn bench_disk(home: &Home, more: &[&str]) -> CommandOutput {
    home.run(&[&["bench", "disk", "--file", "."], &SHORT[..], more].concat())
}

fn print_skip(reason: &str) {
    // Bypass the capture of the test harness so that the line is counted.
    let _ = writeln!(std::io::stderr(), "{reason}");
}

/// Returns the files in the home, without numaio's state.
fn files(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(&home.0).expect("a folder").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name != "state").collect()
}

fn has_fio() -> bool {
    Command::new("fio").arg("--version").limited_output().is_ok_and(|output| output.status.success())
}

#[test]
fn measures_a_temporary_file_and_saves_the_record() {
    let home = Home::new();
    let output = bench_disk(&home, &["--output", "record.json"]);
    let text = output.ok();
    for part in
        ["I/O of ", " via .", "built-in disk", "O_DIRECT", "Device write, blocks of 128 KiB", "Device read"]
    {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert_eq!(files(&home), ["record.json"], "the temporary file is removed");
    let json = fs::read_to_string(home.path("record.json")).expect("a record");
    let record = IoRecord::from_json(&json).expect("a record");
    assert_eq!((record.method.engine, record.method.area_bytes), (IoEngine::Disk, Some(8 << 20)));
    let figures = record.cells.iter().filter(|cell| cell.bytes_per_s.median().is_some()).count();
    assert_eq!((record.cells.len() % 4, figures), (0, record.cells.len()));
    assert!(record.cells.iter().all(|cell| cell.cpu_ns_per_byte.is_some_and(|cost| cost >= 0.0)));
    let folder = home.0.join("state/numaio/io").join(&record.provenance.machine.fingerprint);
    let saved = fs::read_dir(folder).expect("a folder").flatten().next().expect("a saved record");
    assert_eq!(fs::read_to_string(saved.path()).expect("a record"), json);
}

#[test]
fn all_methods_and_the_null_engine_measure() {
    let home = Home::new();
    for more in [["--method", "aio"], ["--method", "threads"], ["--engine", "null"]] {
        let json = bench_disk(&home, &[&more[..], &["--json", "--no-save", "--random"]].concat()).ok();
        let record = IoRecord::from_json(&json).expect("a record");
        assert!(record.cells.iter().all(|cell| cell.bytes_per_s.median().is_some()), "{more:?}");
    }
    assert_eq!(files(&home), Vec::<String>::new());
}

#[test]
fn both_directions_at_once_are_measured_beside_each_alone() {
    let home = Home::new();
    let engines = if has_fio() { &["disk", "fio"][..] } else { &["disk"] };
    for engine in engines {
        let file = format!("{engine}.json");
        let more = ["--duplex", "--engine", engine, "--cpu-nodes", "0", "-o", &file];
        let text = bench_disk(&home, &more).ok();
        assert!(text.contains("WRITE  ") && text.contains("BOTH: READ"), "{text}");
        let json = fs::read_to_string(home.path(&file)).expect("a record");
        let record = IoRecord::from_json(&json).expect("a record");
        let duplex = || record.cells.iter().filter(|cell| cell.duplex_placement().is_some());
        assert_eq!((record.cells.len(), duplex().count()), (6, 2), "1 and 2 streams: {json}");
        // On a busy machine the processes of fio do not measure at the same time.
        for cell in duplex().filter(|cell| *engine == "disk" || cell.bytes_per_s.failure.is_none()) {
            let rates: Vec<f64> = cell.group_bytes_per_s.iter().flatten().map(|rate| rate.median).collect();
            assert!(rates.len() == 2 && rates.iter().all(|rate| *rate > 0.0), "{cell:?}");
            let alone = |index| record.cells.iter().find(|alone| alone.is_alone(cell, index));
            assert!(alone(0).is_some() && alone(1).is_some(), "{json}");
        }
    }
    let csv = home.run(&["report", "disk.json", "--format", "csv", "-o", "-"]).ok();
    assert_eq!(csv.lines().filter(|line| line.contains(",io-part,")).count(), 4, "{csv}");
    bench_disk(&home, &["--duplex", "--direction", "read"]).failed(2, &["cannot be used with"]);
    bench_disk(&home, &["--file", ".", "--duplex"]).failed(2, &["several devices", "omit --duplex"]);
}

#[test]
fn fio_and_the_built_in_engine_are_compared() {
    let home = Home::new();
    if !has_fio() {
        return print_skip("skipped: fio: it is not installed (apt-get install fio)");
    }
    let text = bench_disk(&home, &["--engine", "all", "--direction", "read", "--output", "both"]).ok();
    assert!(
        text.contains("fio-") && text.contains(" / fio-") && text.contains("over 2 cells: median "),
        "{text}"
    );
    assert_eq!(files(&home).len(), 2);
    let fio = fs::read_to_string(home.path("both-fio")).expect("fio's record");
    let record = IoRecord::from_json(&fio).expect("a record");
    assert!(record.method.version.starts_with("fio-"));
    assert!(record.cells.iter().all(|cell| cell.bytes_per_s.median().is_some()), "{fio}");
}

#[test]
fn fio_writes_only_the_claimed_file() {
    if !has_fio() {
        return print_skip("skipped: fio: it is not installed (apt-get install fio)");
    }
    let home = Home::new();
    let json = bench_disk(&home, &["--engine", "fio", "--direction", "write", "--json", "--no-save"]).ok();
    let record = IoRecord::from_json(&json).expect("a record");
    assert!(record.cells.iter().all(|cell| cell.bytes_per_s.median().is_some()), "{json}");
    assert_eq!(files(&home), Vec::<String>::new());
}

#[test]
fn missing_fio_error_names_the_package() {
    let home = Home::new();
    let mut command =
        home.numaio(&[&["bench", "disk", "--file", ".", "--engine", "fio"], &SHORT[..]].concat());
    let output = CommandOutput::of(command.env("PATH", &home.0).limited_output().expect("numaio"));
    output.failed(1, &["fio is not installed", "apt-get install fio"]);
    assert_eq!(files(&home), Vec::<String>::new());
}

#[test]
fn rejects_unsafe_or_impossible_targets() {
    let home = Home::new();
    let existing = home.file("mine", "existing content");
    let bench = |args: &[&str]| home.run(&[&["bench", "disk"], args].concat());
    let output = bench(&["--file", &existing]);
    assert!(!output.err.contains("filling"), "{}", output.err);
    output.failed(1, &["exists already", "--direction read"]);
    assert_eq!(fs::read_to_string(&existing).expect("the file"), "existing content");
    bench(&["--device", "sda"]).failed(2, &["destroys its data", "--i-know-this-destroys sda"]);
    bench(&["--device", "sda", "--i-know-this-destroys", "sdb"]).failed(2, &["and --device 'sda'"]);
    bench(&["--device", &existing, "--direction", "read"]).failed(2, &["is not a block device", "--file"]);
    bench(&["--device", "no-such-disk", "--direction", "read"])
        .failed(1, &["No such file", "numaio topology"]);
    bench(&["--file", ".", "--area", "1E"]).failed(1, &[" first: .", "needed", "--area"]);
    bench(&[]).failed(2, &["--device", "--file"]);
    bench(&["--file", ".", "--streams", "0"]).failed(2, &["an integer from 1 to 1024"]);
    bench(&["--file", ".", "--block", "0"]).failed(2, &["greater than 0"]);
    bench(&["--file", ".", "--cpu-nodes", "4000", "--area", "1M"]).failed(2, &["there is no node 4000"]);
    assert_eq!(files(&home), ["mine"]);
}

#[test]
fn reads_an_existing_file_without_changing_it() {
    let home = Home::new();
    let content = "0123456789abcdef".repeat(1 << 16);
    let existing = home.file("mine", &content);
    let json = home
        .run(
            &[
                &["bench", "disk", "--file", &existing, "--direction", "read", "--json", "--no-save"],
                &SHORT[..],
            ]
            .concat(),
        )
        .ok();
    let record = IoRecord::from_json(&json).expect("a record");
    assert_eq!(record.method.area_bytes, Some(1 << 20), "the length of the file");
    assert_eq!(record.device.reached_via.as_deref(), Some(existing.as_str()));
    assert!(fs::read_to_string(&existing).expect("the file") == content);
}

#[test]
fn reports_a_measurement_that_is_not_on_the_tape() {
    let home = Home::new();
    let bench = |args: &[&str]| home.run(&[&["bench", "disk", "--machine", "amd-dl585-g7"], args].concat());
    bench(&["--device", "nvme0n1", "--direction", "read"])
        .failed(1, &["not on the tape", "I/O of 'nvme0n1'"]);
    bench(&["--file", "/no/such/folder"]).failed(1, &["not on the tape"]);
}

/// Starts a long campaign.
fn start_long_campaign(home: &Home) -> std::process::Child {
    let args = [
        "bench",
        "disk",
        "--file",
        ".",
        "--area",
        "8M",
        "--seconds",
        "600",
        "--precision",
        "0.0001",
        "--json",
    ];
    let mut command = home.numaio(&args);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command.spawn().expect("numaio")
}

/// Returns whether the process has opened its unnamed temporary file.
fn has_temporary_file(pid: u32) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.into_iter().any(|link| link.to_string_lossy().contains(".numaio-bench-"))
}

/// Waits for a condition.
fn wait_for(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(condition());
}

#[test]
fn interrupt_keeps_results_and_removes_the_file() {
    let home = Home::new();
    let mut child = start_long_campaign(&home);
    let pid = child.id();
    // Stream threads are named.
    wait_for(|| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks.into_iter().any(|task| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("io-"))
        })
    });
    // A visit takes 0.6 s; wait for some of them.
    std::thread::sleep(Duration::from_secs(3));
    // TERM, because background jobs ignore INT.
    kill("-TERM", pid);
    let output = CommandOutput::of(child.limited_output().expect("an end"));
    assert_eq!(output.code, Some(130), "{}", output.err);
    let record = IoRecord::from_json(&output.out).expect("a partial record");
    assert!(!record.provenance.complete);
    assert!(record.cells.iter().any(|cell| cell.bytes_per_s.median().is_some()));
    assert_eq!(files(&home), Vec::<String>::new());
}

#[test]
fn killed_process_leaves_no_file() {
    let home = Home::new();
    let mut child = start_long_campaign(&home);
    // The file in use has no name, which it loses as soon as it is created.
    wait_for(|| has_temporary_file(child.id()) && files(&home).is_empty());
    kill("-KILL", child.id());
    child.limited_status().expect("an end");
    assert!(!Path::new(&format!("/proc/{}/fd", child.id())).exists());
    assert_eq!(files(&home), Vec::<String>::new());
}

#[test]
fn several_files_are_measured_alone_and_at_the_same_time() {
    let home = Home::new();
    let args = ["bench", "disk", "--file", "one", "--file", "two", "--direction", "write"];
    let text = home.run(&[&args[..], &SHORT[..], &["--output", "both.json"]].concat()).ok();
    for part in [" and ", "Device write, blocks of 128 KiB", "alone and all at once", "SUM", "OF ALONE"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert_eq!(files(&home), ["both.json"], "the files are removed");
    let json = fs::read_to_string(home.path("both.json")).expect("a record");
    let record = AggregateRecord::from_json(&json).expect("a record");
    let reached: Vec<&str> =
        record.devices.iter().filter_map(|device| device.reached_via.as_deref()).collect();
    assert_eq!(reached, ["one", "two"]);
    let rows: Vec<_> = record.aggregates().collect();
    assert!(!rows.is_empty() && rows.iter().all(|cell| record.share_of_sum(cell).is_some()), "{json}");
    let csv = home.run(&["report", "both.json", "--format", "csv", "-o", "-"]).ok();
    assert!(csv.contains(",io-aggregate,"), "{csv}");
    let html = home.run(&["report", "both.json", "--format", "html", "-o", "-"]).ok();
    assert!(html.contains("alone and all at once"), "no table in the report");
}

#[test]
fn several_disks_are_rejected_where_only_one_is_possible() {
    let home = Home::new();
    let several =
        |more: &[&str]| home.run(&[&["bench", "disk", "--file", "a", "--file", "b"], more].concat());
    several(&["--engine", "fio"]).failed(2, &["built-in engine only", "omit --engine"]);
    several(&["--machine", "amd-dl585-g7"]).failed(1, &["not on the tape", "numaio record --bench"]);
    let devices = ["bench", "disk", "--device", "none1", "--device", "none2"];
    home.run(&[&devices[..], &["--i-know-this-destroys", "none3"]].concat())
        .failed(2, &["'none3'", "'none1' and 'none2'"]);
    home.run(&[&devices[..], &["--i-know-this-destroys", "none1"]].concat()).failed(1, &["'/dev/none1'"]);
}

#[test]
fn tape_keeps_several_files() {
    let home = Home::new();
    let bench = format!("disk --file one --file two {}", SHORT.join(" "));
    home.run(&["record", "-o", "several.tape", "--bench", &bench, "--no-measure", "--quiet"]).ok();
    let text =
        home.run(&["bench", "disk", "--machine", "several.tape", "--file", "one", "--file", "two"]).ok();
    assert!(text.contains("alone and all at once"), "{text}");
}
