//! Packages and recipes: installed, run and removed by `tools/test-packages`, checked by
//! `tools/test-recipes`, and started by a real systemd (`lab/systemd`).

use numaio_lab::{root, skip, Folder, Processor, AARCH64, X86};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Runs a tool that prints a line for each check, and reports its skipped checks.
fn run_checks(test: &str, (_, variable): Processor, tool: &str, options: &[&str]) {
    let Ok(binary) = std::env::var(variable) else {
        return skip(test, &format!("{variable} names no static binary; make test sets it"));
    };
    let output = Command::new(root().join(tool)).args(options).arg(binary).output().expect("a tool");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    for line in text.lines() {
        if let Some(reason) = line.strip_prefix("skipped: ") {
            skip(test, reason);
        }
    }
    assert!(output.status.success(), "{text}");
    assert!(text.contains("ok: ") || text.contains("skipped: "), "no check ran: {text}");
}

#[test]
#[ignore = "make test-all: package installs in bare chroots"]
fn packages_install_run_and_are_removed_cleanly() {
    run_checks("packages_install_run_and_are_removed_cleanly", X86, "tools/test-packages", &[]);
}

#[test]
#[ignore = "make test-all: aarch64 under emulation"]
fn aarch64_packages_install_run_and_are_removed_cleanly() {
    let test = "aarch64_packages_install_run_and_are_removed_cleanly";
    run_checks(test, AARCH64, "tools/test-packages", &["--arch", "aarch64"]);
}

#[test]
fn recipes_are_accepted_by_the_programs_that_read_them() {
    run_checks("recipes_are_accepted_by_the_programs_that_read_them", X86, "tools/test-recipes", &[]);
}

#[test]
#[ignore = "make test-all: package installs in bare chroots"]
fn units_of_the_package_serve_and_survive_restart_and_upgrade() {
    let test = "units_of_the_package_serve_and_survive_restart_and_upgrade";
    let Ok(binary) = std::env::var("NUMAIO_STATIC") else {
        return skip(test, "NUMAIO_STATIC names no static binary; make test sets it");
    };
    let lab = root().join("lab/systemd");
    let check = Command::new(&lab).arg("--check").output().expect("lab/systemd");
    if !check.status.success() {
        return skip(test, String::from_utf8_lossy(&check.stderr).trim());
    }
    let folder = Folder::new("systemd");
    let dist = Command::new(root().join("tools/dist"))
        .args(["--binary", &binary, "--out"])
        .arg(&folder.0)
        .arg("deb")
        .output()
        .expect("tools/dist");
    let log = String::from_utf8_lossy(&dist.stderr);
    if let Some(reason) = log.lines().find_map(|line| line.strip_prefix("skipped: ")) {
        return skip(test, reason);
    }
    assert!(dist.status.success(), "{log}");
    let is_deb = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "deb");
    let files = fs::read_dir(&folder.0).expect("a folder").flatten().map(|entry| entry.path());
    let deb = files.into_iter().find(is_deb).expect("a package");
    let output = Command::new(&lab).arg(deb).output().expect("lab/systemd");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
