//! Tests with a real guest: QEMU without an operating system, whose memory is allocated at once.

use crate::support::{skipped, until, CommandOutput, Home};
use numaio_machine::guests::ThreadRole;
use numaio_machine::process;
use numaio_machine::set::CpuSet;
use numaio_schema::{GuestPlan, GuestStatus, GuestsDocument, TopSnapshot, TopologyDocument};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

const QEMU: &str = "qemu-system-x86_64";

/// Held by tests that pin a guest, since its CPUs are not free for guests of other tests.
pub static PINNING: Mutex<()> = Mutex::new(());

/// A running guest, killed when dropped.
struct RunningGuest(Child);

impl Drop for RunningGuest {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl RunningGuest {
    /// Starts a guest with two vCPUs and 64 MiB; `None` without QEMU.
    fn start(test: &str, more: &[&str]) -> Option<Self> {
        let mut command = Command::new(QEMU);
        command
            .args([
                "-accel",
                "tcg,thread=multi",
                "-display",
                "none",
                "-m",
                "64",
                "-smp",
                "2",
                "-mem-prealloc",
            ])
            .args(["-S", "-nodefaults", "-serial", "none", "-monitor", "none"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => Some(Self(child)),
            Err(error) => {
                skipped(format!("{test}: {QEMU}: {error}"));
                None
            }
        }
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until the guest has its threads and memory.
    fn shown(&self, home: &Home) -> GuestStatus {
        let pid = self.pid().to_string();
        let read = || {
            let output = home.run(&["vm", "show", &pid, "--json"]);
            let document = GuestsDocument::from_json(&output.out).ok()?;
            document.guests.into_iter().next().filter(|guest| {
                let on = guest.bytes_on.clone().unwrap_or_default();
                on.values().sum::<u64>() >= 60 << 20
            })
        };
        until(|| read().is_some(), || format!("guest {pid} has no memory"));
        read().expect("a guest")
    }
}

fn named(test: &str, name: &str) -> Option<RunningGuest> {
    RunningGuest::start(test, &["-name", &format!("guest={name},debug-threads=on")])
}

fn vcpus(guest: &GuestStatus) -> Vec<u32> {
    let vcpu = |role: &ThreadRole| match role {
        ThreadRole::Vcpu { number } => Some(*number),
        _ => None,
    };
    guest.threads.iter().filter_map(|thread| vcpu(&thread.role)).collect()
}

/// Returns the name of a device of this machine that moves data and has a node.
pub fn located_device(home: &Home) -> Option<String> {
    let document = TopologyDocument::from_json(&home.run(&["topology", "--json"]).ok()).expect("a topology");
    let devices = &document.topology.devices;
    let found = devices.iter().find(|device| device.moves_data() && device.locality.node.is_some());
    found.map(|device| device.distinct_name(devices))
}

#[test]
fn lists_and_shows_a_guest() {
    let Some(running) = named("lists_and_shows_a_guest", "web;x") else { return };
    let home = Home::new();
    let guest = running.shown(&home);
    assert_eq!((guest.name.as_str(), vcpus(&guest)), ("web;x", vec![0, 1]));
    assert_eq!(guest.configuration.accelerator.as_deref(), Some("tcg"));
    let regions = &guest.memory.as_ref().expect("our own process").regions;
    assert_eq!(regions.iter().map(|region| region.bytes).sum::<u64>(), 64 << 20, "{regions:?}");
    assert!(!guest.pinned && guest.threads.iter().any(|thread| thread.role == ThreadRole::Emulator));
    let list = home.run(&["vm", "list"]);
    assert!(list.out.contains("web;x") && list.out.contains("QEMU, tcg"), "{}", list.out);
    let shown = home.run(&["vm", "show", "web;x"]);
    assert!(shown.out.contains("vCPU 1") && shown.out.contains("64 MiB"), "{}{}", shown.out, shown.err);
    home.run(&["vm", "show", "no such guest"]).failed(2, &["no such guest", "web;x"]);
}

#[test]
fn applies_verifies_and_undoes_a_placement() {
    let test = "applies_verifies_and_undoes_a_placement";
    let _pinning = PINNING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(running) = named(test, "mover") else { return };
    let home = Home::new();
    let Some(device) = located_device(&home) else {
        return skipped(format!("{test}: no device with a node"));
    };
    let before = running.shown(&home);
    let pid = running.pid();
    let file = home.path("plan.json");
    let placed = home.run(&["vm", "place", &pid.to_string(), "--near", &device, "--json", "-o", &file]);
    if placed.err.contains("does not fit") {
        return skipped(format!("{test}: {}", placed.err.trim()));
    }
    placed.ok();
    let plan = GuestPlan::from_json(&std::fs::read_to_string(&file).expect("a plan")).expect("a plan");
    let planned = plan.guests[0].vcpus().iter().map(|pinned| pinned.cpus.clone()).collect::<Vec<CpuSet>>();
    let root = numaio_linux::Root::live().expect("a root");
    let allowed = || -> Vec<CpuSet> {
        let threads = before.threads.iter().filter(|thread| thread.role.is_vcpu());
        threads.filter_map(|thread| process::allowed_cpus(&root, pid, thread.tid)).collect()
    };
    let start = allowed();
    let dry = home.run(&["vm", "apply", "mover", "--plan", &file, "--dry-run"]).ok();
    assert_eq!(allowed(), start, "a dry run changes nothing: {dry}");
    let applied = home.run(&["vm", "apply", "mover", "--plan", &file]);
    assert!(applied.err.contains("numaio undo vm-1 reverts them"), "{}", applied.err);
    assert!(applied.err.contains("threads are on their CPUs"), "{}", applied.err);
    assert_eq!((applied.code, allowed()), (Some(0), planned), "{}", applied.err);
    let again = home.run(&["vm", "apply", "mover", "--plan", &file]);
    assert!(again.err.contains("already where it should be"), "{}", again.err);
    assert!(home.run(&["undo", "--list"]).ok().contains("vm-1"));
    home.run(&["undo"]).ok();
    assert_eq!(allowed(), start);
}

#[test]
fn undo_after_the_guest_ended_succeeds() {
    let test = "undo_after_the_guest_ended_succeeds";
    let _pinning = PINNING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(running) = named(test, "ender") else { return };
    let home = Home::new();
    let Some(device) = located_device(&home) else {
        return skipped(format!("{test}: no device with a node"));
    };
    running.shown(&home);
    let applied = home.run(&["vm", "apply", "ender", "--near", &device]);
    if applied.code != Some(0) {
        return skipped(format!("{test}: {}", applied.err.trim()));
    }
    drop(running);
    home.run(&["undo"]).ok();
    assert!(home.run(&["undo", "--list"]).ok().contains("No changes to undo"));
    home.run(&["vm", "apply", "ender", "--near", &device]).failed(2, &["guest 'ender' not found"]);
}

#[test]
fn monitor_identifies_threads_without_names() {
    let test = "monitor_identifies_threads_without_names";
    let home = Home::new();
    let socket = home.path("qmp");
    let Some(running) = RunningGuest::start(test, &["-qmp", &format!("unix:{socket},server=on,wait=off")])
    else {
        return;
    };
    let guest = running.shown(&home);
    assert_eq!(vcpus(&guest), [0, 1], "{:?}", guest.threads);
    // Without names and monitor, the guest is shown, but cannot be pinned.
    let Some(unnamed) = RunningGuest::start(test, &[]) else { return };
    let guest = unnamed.shown(&home);
    if vcpus(&guest).is_empty() {
        let rules: Vec<&str> = guest.findings.iter().map(|found| found.finding.rule.as_str()).collect();
        assert!(rules.contains(&"guest-threads-unnamed"), "{rules:?}");
        let device = located_device(&home).unwrap_or_default();
        let pid = unnamed.pid().to_string();
        home.run(&["vm", "apply", &pid, "--near", &device])
            .failed(1, &["cannot be identified", "debug-threads"]);
    }
}

#[test]
fn equal_names_are_selected_by_process() {
    let test = "equal_names_are_selected_by_process";
    let (Some(one), Some(_other)) = (named(test, "twin"), named(test, "twin")) else { return };
    let home = Home::new();
    let guest = one.shown(&home);
    home.run(&["vm", "show", "twin"]).failed(2, &["2 guests are named 'twin'", &guest.pid.to_string()]);
}

#[test]
fn rejects_recorded_machines_and_shows_this_one() {
    let home = Home::new();
    for command in [&["vm", "list"][..], &["vm", "show", "x"]] {
        let args = [command, &["--machine", "amd-dl585-g7"]].concat();
        home.run(&args).failed(2, &["no running guests"]);
    }
    home.run(&["vm", "apply", "x", "--machine", "amd-dl585-g7"])
        .failed(2, &["only be changed on this machine"]);
    let output: CommandOutput = home.run(&["vm", "show", "self", "--json"]);
    match output.code {
        Some(0) => {
            let given = GuestsDocument::from_json(&output.out).expect("a document").given.expect("a guest");
            assert!(given.cpus > 0 && !given.unknown.is_empty());
        }
        _ => output.failed(1, &["this machine is not a guest"]),
    }
}

/// A guest is one of the programs of `status` and `top`, by its own name.
#[test]
fn status_and_top_name_the_guest() {
    let Some(guest) = named("status_and_top_name_the_guest", "shown-by-name") else { return };
    let home = Home::new();
    guest.shown(&home);
    let status = home.run(&["status", &guest.pid().to_string()]).ok();
    assert!(status.contains("shown-by-name (guest)"), "{status}");
    let json = home.run(&["top", "--once", "--json"]).ok();
    let top: TopSnapshot = serde_json::from_str(&json).expect("a snapshot");
    let program = top.programs.iter().find(|program| program.pid == guest.pid());
    // An idle guest may not be inspected within the time of a sample.
    let inspected = program.filter(|program| program.memory.is_some());
    assert!(inspected.is_none_or(|program| program.guest.as_deref() == Some("shown-by-name")), "{json}");
}
