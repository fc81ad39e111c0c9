//! Tests of `--pause-balancing`. A file is mounted over the kernel's setting, which is not changed.

use crate::support::{skipped, until, CommandOutput, Home, Limited};
use numaio_machine::control::Change;
use numaio_schema::{AppliedChange, Receipt, TopologyDocument};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const MODEL: [&str; 6] = ["model", "--pause-balancing", "--no-save", "--quiet", "--node", "0"];

/// Creates a home whose balancing setting is a file; `None` without the rights to mount it.
fn home() -> Option<Home> {
    let home = Home::new();
    home.file("balancing", "1\n");
    let status = command(&home, &["--version"]).stdout(Stdio::null()).stderr(Stdio::null()).limited_status();
    if status.is_ok_and(|status| status.success()) {
        return Some(home);
    }
    skipped("cannot create a mount namespace, or the kernel has no NUMA balancing");
    None
}

fn command(home: &Home, args: &[&str]) -> std::process::Command {
    let line =
        format!("mount --bind {} /proc/sys/kernel/numa_balancing && exec \"$@\"", home.path("balancing"));
    home.command_by(&["unshare", "-m", "sh", "-c", &line, "sh"], args)
}

fn mode(home: &Home) -> String {
    fs::read_to_string(home.path("balancing")).expect("the setting").trim().to_owned()
}

fn receipt(home: &Home) -> (String, PathBuf) {
    let document = TopologyDocument::from_json(&home.run(&["topology", "--json"]).ok()).expect("a topology");
    let machine = document.topology.identity.fingerprint;
    let path = home.0.join(format!("state/numaio/receipts/{machine}-balancing.json"));
    (machine, path)
}

fn start(home: &Home) -> Child {
    let args = [&MODEL[..], &["--time-limit", "300", "--precision", "0.0001"]].concat();
    let child = command(home, &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    until(|| mode(home) == "0", || "balancing is not paused");
    child
}

#[test]
fn only_one_run_pauses_balancing_at_a_time() {
    let Some(home) = home() else { return };
    let mut first = start(&home);
    let args = [&MODEL[..], &["--time-limit", "1"]].concat();
    let second = CommandOutput::of(command(&home, &args).limited_output().expect("run"));
    assert_eq!(mode(&home), "0", "the first run is still active");
    second.failed(1, &["another run", "omit --pause-balancing"]);
    // The next run reverts the pause of a killed run, whose lock is released.
    first.kill().expect("killed");
    first.limited_status().expect("ended");
    let third = CommandOutput::of(
        command(&home, &args[..3]).args(["--node", "0", "--time-limit", "1"]).limited_output().expect("run"),
    );
    assert!(third.err.contains("restored NUMA balancing"), "{}", third.err);
    assert_eq!((third.code, mode(&home).as_str()), (Some(0), "1"));
}

/// Leaves the setting and the receipt of a killed run.
fn leave_pause(home: &Home, machine: &str, path: &Path, boot: &str) {
    let mode_to = |mode| Change::NumaBalancing { mode };
    let applied = vec![AppliedChange { change: mode_to(0), inverse: mode_to(1) }];
    let receipt = Receipt::planned(machine, Some(boot.into()), 1, applied);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, serde_json::to_string(&receipt).expect("JSON")).expect("a receipt");
    home.file("balancing", "0\n");
}

#[test]
fn reverts_pause_recorded_under_another_fingerprint() {
    let Some(home) = home() else { return };
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    let path = receipt(&home).1.with_file_name("0123456789abcdef-balancing.json");
    leave_pause(&home, "0123456789abcdef", &path, boot.trim());
    let run = || {
        let args = ["model", "--pause-balancing", "--no-save", "--node", "0", "--time-limit", "1"];
        CommandOutput::of(command(&home, &args).limited_output().expect("run"))
    };
    // The lock of a run that is still active.
    let lock = fs::File::create(path.with_extension("lock")).expect("a file");
    lock.lock().expect("locked");
    run().failed(1, &["another run"]);
    assert_eq!((mode(&home).as_str(), path.exists()), ("0", true));
    drop(lock);
    let output = run();
    assert!(output.err.contains("restored NUMA balancing"), "{}", output.err);
    assert_eq!((output.code, mode(&home).as_str(), path.exists()), (Some(0), "1", false));
}

#[test]
fn does_not_revert_pause_from_before_a_reboot() {
    let Some(home) = home() else { return };
    let (machine, path) = receipt(&home);
    leave_pause(&home, &machine, &path, "another boot");
    let output = CommandOutput::of(
        command(&home, &[&MODEL[..], &["--time-limit", "1"]].concat()).limited_output().expect("run"),
    );
    output.ok();
    assert_eq!(
        (mode(&home).as_str(), path.exists()),
        ("0", false),
        "balancing was disabled permanently after the reboot"
    );
}
