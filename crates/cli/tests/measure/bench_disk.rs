//! `numaio bench disk` on this machine's real disk, in a file.

use crate::support::{kill, Home, Limited, Said};
use numaio_schema::{IoEngine, IoRecord};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A small campaign that ends after a few visits: nearly every spread is precise enough.
const SHORT: [&str; 8] = ["--area", "8M", "--streams", "1,2", "--precision", "95", "--window", "50"];

fn disk(home: &Home, more: &[&str]) -> Said {
    home.run(&[&["bench", "disk", "--file", "."], &SHORT[..], more].concat())
}

fn skip(why: &str) {
    // Past the capture of the test harness, so that it is seen and counted.
    let _ = writeln!(std::io::stderr(), "{why}");
}

/// Files in a folder, ours of state apart.
fn files(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(&home.0).expect("a folder").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name != "state").collect()
}

fn has_fio() -> bool {
    Command::new("fio").arg("--version").limited_output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_file_is_measured_shown_saved_and_gone() {
    let home = Home::new();
    let said = disk(&home, &["--output", "record.json"]);
    let text = said.ok();
    for part in
        ["I/O of ", " via .", "built-in disk", "O_DIRECT", "Device write, blocks of 128 KiB", "Device read"]
    {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert_eq!(files(&home), ["record.json"], "the file that was written is gone");
    let json = fs::read_to_string(home.path("record.json")).expect("a record");
    let record = IoRecord::from_json(&json).expect("a record");
    assert_eq!((record.method.engine, record.method.area_bytes), (IoEngine::Disk, Some(8 << 20)));
    let figures = record.cells.iter().filter(|cell| cell.bytes_per_s.median().is_some()).count();
    assert_eq!((record.cells.len() % 4, figures), (0, record.cells.len()));
    assert!(record.cells.iter().all(|cell| cell.cpu_ns_per_byte.is_some_and(|cost| cost >= 0.0)));
    let folder = home.0.join("state/numaio/io").join(&record.provenance.machine.fingerprint);
    let saved = fs::read_dir(folder).expect("a folder").flatten().next().expect("it is saved");
    assert_eq!(fs::read_to_string(saved.path()).expect("a record"), json);
}

#[test]
fn every_method_and_the_null_engine_measure() {
    let home = Home::new();
    for more in [["--method", "aio"], ["--method", "threads"], ["--engine", "null"]] {
        let json = disk(&home, &[&more[..], &["--json", "--no-save", "--random"]].concat()).ok();
        let record = IoRecord::from_json(&json).expect("a record");
        assert!(record.cells.iter().all(|cell| cell.bytes_per_s.median().is_some()), "{more:?}");
    }
    assert_eq!(files(&home), Vec::<String>::new());
}

#[test]
fn fio_and_our_own_engine_check_each_other() {
    let home = Home::new();
    if !has_fio() {
        return skip("skipped: fio: it is not installed (apt-get install fio)");
    }
    let text = disk(&home, &["--engine", "all", "--direction", "read", "--output", "both"]).ok();
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
fn fio_writes_only_what_is_claimed() {
    if !has_fio() {
        return skip("skipped: fio: it is not installed (apt-get install fio)");
    }
    let home = Home::new();
    let json = disk(&home, &["--engine", "fio", "--direction", "write", "--json", "--no-save"]).ok();
    let record = IoRecord::from_json(&json).expect("a record");
    assert!(record.cells.iter().all(|cell| cell.bytes_per_s.median().is_some()), "{json}");
    assert_eq!(files(&home), Vec::<String>::new());
}

#[test]
fn without_fio_its_package_is_named() {
    let home = Home::new();
    let mut command =
        home.numaio(&[&["bench", "disk", "--file", ".", "--engine", "fio"], &SHORT[..]].concat());
    let said = Said::of(command.env("PATH", &home.0).limited_output().expect("numaio"));
    said.failed(1, &["fio is not installed", "apt-get install fio"]);
    assert_eq!(files(&home), Vec::<String>::new());
}

#[test]
fn what_may_not_be_written_is_refused() {
    let home = Home::new();
    let kept = home.file("mine", "what I wrote");
    let of = |args: &[&str]| home.run(&[&["bench", "disk"], args].concat());
    let there = of(&["--file", &kept]);
    assert!(!there.err.contains("filling"), "{}", there.err);
    there.failed(1, &["exists already", "--direction read"]);
    assert_eq!(fs::read_to_string(&kept).expect("it"), "what I wrote");
    of(&["--device", "sda"]).failed(2, &["destroys its data", "--i-know-this-destroys sda"]);
    of(&["--device", "sda", "--i-know-this-destroys", "sdb"]).failed(2, &["and --device 'sda'"]);
    of(&["--device", &kept, "--direction", "read"]).failed(2, &["is not a block device", "--file"]);
    of(&["--device", "no-such-disk", "--direction", "read"]).failed(1, &["No such file", "numaio topology"]);
    of(&["--file", ".", "--area", "1E"]).failed(1, &[" first: .", "needed", "--area"]);
    of(&[]).failed(2, &["--device", "--file"]);
    of(&["--file", ".", "--streams", "0"]).failed(2, &["an integer from 1 to 1024"]);
    of(&["--file", ".", "--block", "0"]).failed(2, &["greater than 0"]);
    of(&["--file", ".", "--cpu-nodes", "4000", "--area", "1M"]).failed(2, &["there is no node 4000"]);
    assert_eq!(files(&home), ["mine"]);
}

#[test]
fn a_file_that_is_there_is_only_read() {
    let home = Home::new();
    let content = "0123456789abcdef".repeat(1 << 16);
    let kept = home.file("mine", &content);
    let json = home
        .run(
            &[&["bench", "disk", "--file", &kept, "--direction", "read", "--json", "--no-save"], &SHORT[..]]
                .concat(),
        )
        .ok();
    let record = IoRecord::from_json(&json).expect("a record");
    assert_eq!(record.method.area_bytes, Some(1 << 20), "its own length");
    assert_eq!(record.device.reached_via.as_deref(), Some(kept.as_str()));
    assert!(fs::read_to_string(&kept).expect("it") == content);
}

#[test]
fn a_tape_without_such_a_measurement_says_so() {
    let home = Home::new();
    let of = |args: &[&str]| home.run(&[&["bench", "disk", "--machine", "amd-dl585-g7"], args].concat());
    of(&["--device", "nvme0n1", "--direction", "read"]).failed(1, &["not on the tape", "I/O of 'nvme0n1'"]);
    of(&["--file", "/no/such/folder"]).failed(1, &["not on the tape"]);
}

/// A campaign that takes long, while it runs.
fn long(home: &Home) -> std::process::Child {
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

/// Whether it has made its file: it holds a descriptor of one that has no name.
fn has_file(pid: u32) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.into_iter().any(|link| link.to_string_lossy().contains(".numaio-bench-"))
}

/// Waits for something that comes for certain.
fn wait_for(what: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !what() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(what());
}

#[test]
fn after_an_interrupt_what_was_measured_is_kept_and_no_file() {
    let home = Home::new();
    let mut child = long(&home);
    let pid = child.id();
    // Streams are threads with a name.
    wait_for(|| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks.into_iter().any(|task| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("io-"))
        })
    });
    // A visit takes 0.6 s: some of them pass.
    std::thread::sleep(Duration::from_secs(3));
    // Not INT: who runs tests in the background has it ignored.
    kill("-TERM", pid);
    let said = Said::of(child.limited_output().expect("it ends"));
    assert_eq!(said.code, Some(130), "{}", said.err);
    let record = IoRecord::from_json(&said.out).expect("what was measured");
    assert!(!record.provenance.complete);
    assert!(record.cells.iter().any(|cell| cell.bytes_per_s.median().is_some()));
    assert_eq!(files(&home), Vec::<String>::new());
}

#[test]
fn even_a_process_that_is_killed_leaves_no_file() {
    let home = Home::new();
    let mut child = long(&home);
    wait_for(|| has_file(child.id()));
    assert_eq!(files(&home), Vec::<String>::new(), "it has no name while it is used");
    kill("-KILL", child.id());
    child.limited_status().expect("it ends");
    assert!(!Path::new(&format!("/proc/{}/fd", child.id())).exists());
    assert_eq!(files(&home), Vec::<String>::new());
}
