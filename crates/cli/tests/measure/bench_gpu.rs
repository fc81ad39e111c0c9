//! `numaio bench gpu`, with a driver that has no GPU (../../linux/tests/support/fake_cuda.c), built here, and a feigned
//! nvbandwidth. It has not been tried on a real GPU.

use crate::support::{Home, Limited, Said};
use numaio_machine::workload::Direction;
use numaio_schema::{IoCell, IoEngine, IoRecord};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Builds the driver in a home; false, with the reason told, where it cannot be.
fn driver(home: &Home, definitions: &[&str]) -> bool {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../linux/tests/support/fake_cuda.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-pthread", "-O1", "-o", &home.path("libcuda.so.1"), source]);
    cc.args(definitions.iter().map(|definition| format!("-D{definition}")));
    let why = match cc.limited_output() {
        _ if cfg!(target_feature = "crt-static") => "skipped: a static program loads no library",
        Err(_) => "skipped: no C compiler to build a driver without a GPU",
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            return true;
        }
    };
    let _ = writeln!(std::io::stderr(), "{why}");
    false
}

/// `numaio bench gpu`, which finds the home's driver and programs first, and is content with any figure.
fn bench(home: &Home, args: &[&str]) -> Said {
    let mut command = home.numaio(&["bench", "gpu", "--window", "60", "--seconds", "60"]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.args(args).env("LD_LIBRARY_PATH", &home.0).env("PATH", format!("{}:{path}", home.0.display()));
    Said::of(command.limited_output().expect("numaio"))
}

fn script(home: &Home, name: &str, lines: &str) {
    home.file(name, &format!("#!/bin/sh\n{lines}\n"));
    std::fs::set_permissions(home.path(name), std::fs::Permissions::from_mode(0o755)).expect("a program");
}

fn median(record: &IoRecord, is: impl Fn(&IoCell) -> bool) -> f64 {
    let cell = record.cells.iter().find(|cell| is(cell)).expect("a cell");
    cell.bytes_per_s.median().expect("a figure")
}

fn is_of(direction: Direction) -> impl Fn(&IoCell) -> bool {
    move |cell| cell.groups.len() == 1 && cell.groups[0].direction == direction
}

#[test]
fn download_readback_and_both_at_once_are_measured() {
    let home = Home::new();
    if !driver(&home, &["WRITE_RATE=200e6", "READ_RATE=40e6"]) {
        return;
    }
    let said =
        bench(&home, &["--sizes", "1M", "--precision", "99", "--json", "--cpu-nodes", "0", "-d", "cuda:1"]);
    let record = IoRecord::from_json(&said.ok()).expect("a record");
    assert_eq!((record.method.engine, record.device.name.as_str()), (IoEngine::Cuda, "cuda:1"));
    assert_eq!(record.device.pci.as_deref(), Some("0000:f1:00.0"));
    assert_eq!((record.device.model.as_str(), record.cells.len()), ("Fake GPU B", 3));
    let (down, back) = (median(&record, is_of(Direction::Write)), median(&record, is_of(Direction::Read)));
    // The driver moves no more than its rates; a busy machine may see less.
    assert!(down < 220e6 && back < 44e6, "{down} {back}");
    let both = record.cells.iter().find(|cell| cell.groups.len() == 2).expect("both at once");
    assert_eq!(both.of_groups.len(), 2);
    assert!(both.bytes_per_s.median().expect("a figure") < 264e6);
}

#[test]
fn the_table_has_a_column_for_each_way() {
    let home = Home::new();
    if !driver(&home, &[]) {
        return;
    }
    let asked = ["--sizes", "512K,1M", "--precision", "99", "--cpu-nodes", "0", "--device", "0000:f0:00.0"];
    let said = bench(&home, &asked);
    let page = said.ok();
    assert!(page.contains("Device: cuda:0, Fake GPU A, 0000:f0:00.0"), "{page}");
    let titles = page.lines().find(|line| line.contains("DOWNLOAD")).expect("a table");
    let titles: Vec<&str> = titles.split_whitespace().collect();
    assert_eq!(titles, ["NODE", "SIZE", "DOWNLOAD", "READBACK", "BOTH", "BOTH:", "DOWN", "BOTH:", "BACK"]);
    let rows = page.lines().filter(|line| line.contains(" KiB  ") || line.contains(" MiB  "));
    assert_eq!(rows.filter(|line| line.split_whitespace().count() == 8).count(), 2, "{page}");
    let page = bench(&home, &["--direction", "read", "--precision", "99", "--sizes", "1M"]).ok();
    assert!(page.contains("READBACK") && !page.contains("DOWNLOAD") && !page.contains("BOTH"), "{page}");
    let page = bench(&home, &["--both-at-once", "--precision", "99", "--sizes", "1M"]).ok();
    assert!(page.contains("BOTH") && !page.contains("DOWNLOAD"), "{page}");
}

#[test]
fn a_gpu_that_is_lost_is_said() {
    let home = Home::new();
    if !driver(&home, &["LOST_AFTER=3"]) {
        return;
    }
    let said = bench(&home, &["--sizes", "1M", "--precision", "99"]);
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert!(said.err.contains("CUDA_ERROR_UNKNOWN"), "{}", said.err);
}

#[test]
fn a_gpu_that_is_not_there_is_named_with_those_that_are() {
    let home = Home::new();
    if !driver(&home, &[]) {
        return;
    }
    for wrong in ["cuda:2", "eth0", "0000:f2:00.0", "cuda:x", ""] {
        let said = bench(&home, &["--device", wrong]);
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains("available: cuda:0, cuda:1"), "{}", said.err);
    }
    assert!(bench(&home, &["--precision", "99", "--sizes", "1M"]).err.contains("found cuda:0, cuda:1"));
}

#[test]
fn no_library_no_device_and_no_permission_are_three_sentences() {
    let ways: [(&[&str], &str); 3] = [
        (&["DEVICES=0"], "no GPU found: the CUDA driver library finds no device"),
        (&["INIT_CODE=100"], "no GPU found: the CUDA driver library finds no device"),
        (&["INIT_CODE=800"], "no permission to use the GPU: cuInit: CUDA_ERROR_NOT_PERMITTED"),
    ];
    for (definitions, sentence) in ways {
        let home = Home::new();
        if !driver(&home, definitions) {
            return;
        }
        let said = bench(&home, &[]);
        assert_eq!(said.code, Some(1));
        assert!(said.err.contains(sentence) && said.err.contains("hint: "), "{}", said.err);
    }
    // An empty file is no library, so that of a driver which this machine may have is not found.
    let home = Home::new();
    home.file("libcuda.so.1", "");
    let said = bench(&home, &[]);
    assert!(said.err.contains("no GPU found: cannot load the CUDA driver library"), "{}", said.err);
}

#[test]
fn nvbandwidth_checks_our_own_engine() {
    let home = Home::new();
    if !driver(&home, &[]) {
        return;
    }
    home.file("capture.json", include_str!("../../../measure/tests/nvbandwidth/readme-0.8.json"));
    let version = "case \"$*\" in --help) echo 'nvbandwidth Version: v0.8'; exit;; esac";
    // The capture has two measurements, as of both at once.
    script(&home, "nvbandwidth", &format!("{version}\ncat {}", home.path("capture.json")));
    let asked = ["--both-at-once", "--sizes", "1M", "--precision", "99", "--cpu-nodes", "0"];
    let page = bench(&home, &[&asked[..], &["--engine", "nvbandwidth"]].concat()).ok();
    assert!(page.contains("Method: nvbandwidth v0.8; ") && !page.contains("in flight"), "{page}");
    let row = page.lines().find(|line| line.trim_start().starts_with("0 ")).expect("node 0");
    assert_eq!(row.split_whitespace().collect::<Vec<&str>>(), ["0", "44.59", "26.03", "18.56"], "{page}");
    let page = bench(&home, &[&asked[..], &["--engine", "all"]].concat()).ok();
    assert!(page.contains("built-in CUDA") && page.contains("over 1 cell: median"), "{page}");
}

#[test]
fn nvbandwidth_that_is_missing_or_fails_is_said() {
    let home = Home::new();
    if !driver(&home, &[]) {
        return;
    }
    let said = bench(&home, &["--engine", "nvbandwidth"]);
    if !said.out.is_empty() {
        let _ = writeln!(std::io::stderr(), "skipped: this machine has an nvbandwidth");
        return;
    }
    assert!(said.err.contains("nvbandwidth"), "{}", said.err);
    assert!(said.err.contains("https://github.com/NVIDIA/nvbandwidth"), "{}", said.err);
    let loader = "error while loading shared libraries: libnvidia-ml.so.1";
    script(&home, "nvbandwidth", &format!("echo '{loader}' >&2; exit 127"));
    let said = bench(&home, &["--engine", "nvbandwidth"]);
    assert!(said.code == Some(1) && said.err.contains(loader), "{}", said.err);
}

#[test]
fn wrong_input_is_wrong_usage() {
    let home = Home::new();
    let wrong: [&[&str]; 6] = [
        &["--sizes", "0"],
        &["--sizes", "2M..1M"],
        &["--sizes", "17G"],
        &["--depth", "0"],
        &["--engine", "fio"],
        &["--both-at-once", "--direction", "read"],
    ];
    for args in wrong {
        assert_eq!(bench(&home, args).code, Some(2), "{args:?}");
    }
    let said = bench(&home, &["--machine", "amd-2p"]);
    assert!(said.code == Some(1) && said.err.contains("not on the tape"), "{}", said.err);
}
