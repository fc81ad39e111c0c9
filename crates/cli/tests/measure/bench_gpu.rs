//! `numaio bench gpu` with a CUDA driver without GPU (../../linux/tests/support/fake_cuda.c), built
//! here, and a fake nvbandwidth.

use crate::support::{CommandOutput, Home, Limited};
use numaio_machine::workload::Direction;
use numaio_schema::{IoCell, IoEngine, IoRecord};
use std::io::Write;
use std::process::Command;

/// Builds the driver in a home. Returns false, and reports why, if that is not possible.
fn build_driver(home: &Home, definitions: &[&str]) -> bool {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../linux/tests/support/fake_cuda.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-pthread", "-O1", "-o", &home.path("libcuda.so.1"), source]);
    cc.args(definitions.iter().map(|definition| format!("-D{definition}")));
    let reason = match cc.limited_output() {
        _ if cfg!(target_feature = "crt-static") => "skipped: a static program loads no library",
        Err(_) => "skipped: no C compiler to build a driver without a GPU",
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            return true;
        }
    };
    let _ = writeln!(std::io::stderr(), "{reason}");
    false
}

/// Runs `numaio bench gpu` with the driver and programs of the home, and with loose precision.
fn bench(home: &Home, args: &[&str]) -> CommandOutput {
    let mut command = home.numaio(&["bench", "gpu", "--window", "60", "--seconds", "60"]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.args(args).env("LD_LIBRARY_PATH", &home.0).env("PATH", format!("{}:{path}", home.0.display()));
    CommandOutput::of(command.limited_output().expect("numaio"))
}

fn write_script(home: &Home, name: &str, lines: &str) {
    home.script(name, &format!("#!/bin/sh\n{lines}\n"));
}

fn median(record: &IoRecord, is: impl Fn(&IoCell) -> bool) -> f64 {
    let cell = record.cells.iter().find(|cell| is(cell)).expect("a cell");
    cell.bytes_per_s.median().expect("a figure")
}

fn has_direction(direction: Direction) -> impl Fn(&IoCell) -> bool {
    move |cell| cell.groups.len() == 1 && cell.groups[0].direction == direction
}

#[test]
fn measures_download_readback_and_both_at_once() {
    let home = Home::new();
    if !build_driver(&home, &["WRITE_RATE=200e6", "READ_RATE=40e6"]) {
        return;
    }
    let output = bench(
        &home,
        &["--duplex", "--sizes", "1M", "--precision", "99", "--json", "--cpu-nodes", "0", "-d", "cuda:1"],
    );
    let record = IoRecord::from_json(&output.ok()).expect("a record");
    assert_eq!((record.method.engine, record.device.name.as_str()), (IoEngine::Cuda, "cuda:1"));
    assert_eq!(record.device.pci.as_deref(), Some("0000:f1:00.0"));
    assert_eq!((record.device.model.as_str(), record.cells.len()), ("Fake GPU B", 3));
    let (download, readback) =
        (median(&record, has_direction(Direction::Write)), median(&record, has_direction(Direction::Read)));
    // The driver limits the rates; a busy machine may get less.
    assert!(download < 220e6 && readback < 44e6, "{download} {readback}");
    let both = record.cells.iter().find(|cell| cell.groups.len() == 2).expect("both at once");
    assert_eq!(both.group_bytes_per_s.len(), 2);
    assert!(both.bytes_per_s.median().expect("a figure") < 264e6);
}

#[test]
fn prints_a_column_for_each_direction() {
    let home = Home::new();
    if !build_driver(&home, &[]) {
        return;
    }
    let args = ["--sizes", "512K,1M", "--precision", "99", "--cpu-nodes", "0", "--device", "0000:f0:00.0"];
    let output = bench(&home, &[&args[..], &["--duplex"]].concat());
    let page = output.ok();
    assert!(page.contains("Device: cuda:0, Fake GPU A, 0000:f0:00.0"), "{page}");
    let titles = page.lines().find(|line| line.contains("DOWNLOAD")).expect("a table");
    let titles: Vec<&str> = titles.split_whitespace().collect();
    assert_eq!(titles, ["NODE", "SIZE", "DOWNLOAD", "READBACK", "BOTH", "BOTH:", "DOWN", "BOTH:", "BACK"]);
    let rows = page.lines().filter(|line| line.contains(" KiB  ") || line.contains(" MiB  "));
    assert_eq!(rows.filter(|line| line.split_whitespace().count() == 8).count(), 2, "{page}");
    let page = bench(&home, &["--direction", "read", "--precision", "99", "--sizes", "1M"]).ok();
    assert!(page.contains("READBACK") && !page.contains("DOWNLOAD") && !page.contains("BOTH"), "{page}");
    let page = bench(&home, &args).ok();
    assert!(page.contains("READBACK") && page.contains("DOWNLOAD") && !page.contains("BOTH"), "{page}");
}

#[test]
fn reports_a_lost_gpu() {
    let home = Home::new();
    if !build_driver(&home, &["LOST_AFTER=3"]) {
        return;
    }
    let output = bench(&home, &["--sizes", "1M", "--precision", "99"]);
    assert_eq!(output.code, Some(1), "{}", output.out);
    assert!(output.err.contains("CUDA_ERROR_UNKNOWN"), "{}", output.err);
}

#[test]
fn unknown_gpu_is_rejected_with_the_list_of_gpus() {
    let home = Home::new();
    if !build_driver(&home, &[]) {
        return;
    }
    for wrong in ["cuda:2", "eth0", "0000:f2:00.0", "cuda:x", ""] {
        let output = bench(&home, &["--device", wrong]);
        assert_eq!(output.code, Some(2), "{}", output.err);
        assert!(output.err.contains("available: cuda:0, cuda:1"), "{}", output.err);
    }
    assert!(bench(&home, &["--precision", "99", "--sizes", "1M"]).err.contains("found cuda:0, cuda:1"));
}

#[test]
fn distinguishes_missing_library_device_and_permission() {
    let cases: [(&[&str], &str); 3] = [
        (&["DEVICES=0"], "no GPU found: the CUDA driver library finds no device"),
        (&["INIT_CODE=100"], "no GPU found: the CUDA driver library finds no device"),
        (&["INIT_CODE=800"], "no permission to use the GPU: cuInit: CUDA_ERROR_NOT_PERMITTED"),
    ];
    for (definitions, message) in cases {
        let home = Home::new();
        if !build_driver(&home, definitions) {
            return;
        }
        let output = bench(&home, &[]);
        assert_eq!(output.code, Some(1));
        assert!(output.err.contains(message) && output.err.contains("hint: "), "{}", output.err);
    }
    // An empty library file hides a driver that this machine may have.
    let home = Home::new();
    home.file("libcuda.so.1", "");
    let output = bench(&home, &[]);
    assert!(output.err.contains("no GPU found: cannot load the CUDA driver library"), "{}", output.err);
}

#[test]
fn nvbandwidth_is_compared_with_the_built_in_engine() {
    let home = Home::new();
    if !build_driver(&home, &[]) {
        return;
    }
    home.file("capture.json", include_str!("../../../measure/tests/nvbandwidth/readme-0.8.json"));
    let version = "case \"$*\" in --help) echo 'nvbandwidth Version: v0.8'; exit;; esac";
    // Every cell gets the two measurements of the capture, as for both directions at once.
    write_script(&home, "nvbandwidth", &format!("{version}\ncat {}", home.path("capture.json")));
    let args = ["--duplex", "--sizes", "1M", "--precision", "99", "--cpu-nodes", "0"];
    let page = bench(&home, &[&args[..], &["--engine", "nvbandwidth"]].concat()).ok();
    assert!(page.contains("Method: nvbandwidth v0.8; ") && !page.contains("in flight"), "{page}");
    let row = page.lines().find(|line| line.trim_start().starts_with("0 ")).expect("node 0");
    let both = ["44.59", "26.03", "18.56"];
    assert!(row.split_whitespace().collect::<Vec<&str>>().ends_with(&both), "{page}");
    let page = bench(&home, &[&args[..], &["--engine", "all"]].concat()).ok();
    assert!(page.contains("built-in CUDA") && page.contains("over 3 cells: median"), "{page}");
}

#[test]
fn reports_a_missing_or_failing_nvbandwidth() {
    let home = Home::new();
    if !build_driver(&home, &[]) {
        return;
    }
    let output = bench(&home, &["--engine", "nvbandwidth"]);
    if !output.out.is_empty() {
        let _ = writeln!(std::io::stderr(), "skipped: this machine has an nvbandwidth");
        return;
    }
    assert!(output.err.contains("nvbandwidth"), "{}", output.err);
    assert!(output.err.contains("https://github.com/NVIDIA/nvbandwidth"), "{}", output.err);
    let loader = "error while loading shared libraries: libnvidia-ml.so.1";
    write_script(&home, "nvbandwidth", &format!("echo '{loader}' >&2; exit 127"));
    let output = bench(&home, &["--engine", "nvbandwidth"]);
    assert!(output.code == Some(1) && output.err.contains(loader), "{}", output.err);
}

#[test]
fn invalid_options_are_wrong_usage() {
    let home = Home::new();
    let wrong: [&[&str]; 6] = [
        &["--sizes", "0"],
        &["--sizes", "2M..1M"],
        &["--sizes", "17G"],
        &["--depth", "0"],
        &["--engine", "fio"],
        &["--duplex", "--direction", "read"],
    ];
    for args in wrong {
        assert_eq!(bench(&home, args).code, Some(2), "{args:?}");
    }
    let output = bench(&home, &["--machine", "amd-2p"]);
    assert!(output.code == Some(1) && output.err.contains("not on the tape"), "{}", output.err);
}
