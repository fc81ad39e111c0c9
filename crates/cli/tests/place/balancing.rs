//! `--pause-balancing`, with a file of its own in place of the kernel's setting: nothing of the machine that runs them is changed.

use crate::support::{skipped, until, CommandOutput, Home, Limited};
use numaio_machine::control::Change;
use numaio_schema::{AppliedChange, Receipt, TopologyDocument};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const MODEL: [&str; 6] = ["model", "--pause-balancing", "--no-save", "--quiet", "--node", "0"];

/// A home in which the setting is a file; none where that cannot be, as without root.
fn home() -> Option<Home> {
    let home = Home::new();
    home.file("balancing", "1\n");
    let can = command(&home, &["--version"]).stdout(Stdio::null()).stderr(Stdio::null()).limited_status();
    if can.is_ok_and(|status| status.success()) {
        return Some(home);
    }
    skipped("no mount namespace of our own, or a kernel without NUMA balancing");
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
    let quiet = || Stdio::null();
    let child = command(home, &args).stdout(quiet()).stderr(quiet()).spawn().expect("started");
    until(|| mode(home) == "0", || "it does not pause");
    child
}

#[test]
fn one_run_at_a_time_has_balancing_paused() {
    let Some(home) = home() else { return };
    let mut first = start(&home);
    let args = [&MODEL[..], &["--time-limit", "1"]].concat();
    let second = CommandOutput::of(command(&home, &args).limited_output().expect("run"));
    assert_eq!(mode(&home), "0", "it is still paused");
    second.failed(1, &["another run", "leave --pause-balancing out"]);
    // What a killed run has left is taken back, and its turn is over.
    first.kill().expect("killed");
    first.limited_status().expect("ended");
    let third = CommandOutput::of(
        command(&home, &args[..3]).args(["--node", "0", "--time-limit", "1"]).limited_output().expect("run"),
    );
    assert!(third.err.contains("an earlier run was killed"), "{}", third.err);
    assert_eq!((third.code, mode(&home).as_str()), (Some(0), "1"));
}

/// What a pause that was killed leaves.
fn leave(home: &Home, machine: &str, path: &Path, boot: &str) {
    let mode_to = |mode| Change::NumaBalancing { mode };
    let applied = vec![AppliedChange { change: mode_to(0), inverse: mode_to(1) }];
    let left = Receipt::planned(machine, Some(boot.into()), 1, applied);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, serde_json::to_string(&left).expect("JSON")).expect("a receipt");
    home.file("balancing", "0\n");
}

#[test]
fn a_pause_before_the_fingerprint_changed_is_taken_back() {
    let Some(home) = home() else { return };
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("it tells its start");
    let path = receipt(&home).1.with_file_name("0123456789abcdef-balancing.json");
    leave(&home, "0123456789abcdef", &path, boot.trim());
    let run = || {
        let args = ["model", "--pause-balancing", "--no-save", "--node", "0", "--time-limit", "1"];
        CommandOutput::of(command(&home, &args).limited_output().expect("run"))
    };
    // One that has it paused still.
    let turn = fs::File::create(path.with_extension("lock")).expect("a file");
    turn.lock().expect("locked");
    run().failed(1, &["another run"]);
    assert_eq!((mode(&home).as_str(), path.exists()), ("0", true));
    drop(turn);
    let said = run();
    assert!(said.err.contains("an earlier run was killed"), "{}", said.err);
    assert_eq!((said.code, mode(&home).as_str(), path.exists()), (Some(0), "1", false));
}

#[test]
fn a_pause_of_an_earlier_start_of_the_kernel_is_not_taken_back() {
    let Some(home) = home() else { return };
    let (machine, path) = receipt(&home);
    leave(&home, &machine, &path, "another start");
    let said = CommandOutput::of(
        command(&home, &[&MODEL[..], &["--time-limit", "1"]].concat()).limited_output().expect("run"),
    );
    said.ok();
    assert_eq!((mode(&home).as_str(), path.exists()), ("0", false), "it was switched off for good since");
}
