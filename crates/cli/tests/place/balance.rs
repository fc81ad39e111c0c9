//! Tests of `numaio balance` on this host, which may have a single node.

use crate::support::{kill, until, CommandOutput, Home, Limited};
use numaio_machine::control::Change;
use numaio_machine::ids::CpuId;
use numaio_machine::process::start_time;
use numaio_machine::programs::read_thread;
use numaio_machine::set::CpuSet;
use numaio_schema::{
    AppliedChange, BalanceEvent, BalanceEventKind, BalanceReason, Receipt, TopologyDocument,
};
use std::fs;
use std::process::{Child, Command, Stdio};

/// A program that is killed at the end of a test.
struct Program(Child);

impl Program {
    fn start(words: &[&str]) -> Self {
        let child = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("a program"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn events(output: &str) -> Vec<BalanceEventKind> {
    output.lines().map(|line| BalanceEvent::from_json(line).expect("an event").event).collect()
}

fn allowed(pid: u32) -> CpuSet {
    let root = numaio_linux::Root::live().expect("/");
    read_thread(&root, pid, pid).and_then(|thread| thread.allowed).expect("a running thread")
}

#[test]
fn decides_about_a_named_program_and_ends() {
    let home = Home::new();
    let program = Program::start(&["sleep", "60"]);
    let output = home.run(&["balance", &program.pid(), "--once", "--every", "0.2", "--json"]).ok();
    let events = events(&output);
    assert!(matches!(&events[0], BalanceEventKind::Started(start) if !start.dry_run), "{output}");
    assert!(matches!(&events[1], BalanceEventKind::Round(round) if round.programs == 1), "{output}");
    let BalanceEventKind::Decision(decision) = &events[2] else { panic!("{output}") };
    assert_eq!((decision.name.as_str(), decision.to), ("sleep", None));
    assert_eq!(decision.reason, BalanceReason::NoDevice);
    let BalanceEventKind::Ended { moves: 0, moved_bytes: 0, reasons } = &events[3] else {
        panic!("{output}")
    };
    assert_eq!(reasons.get("no-device"), Some(&1), "{output}");
    let text = home.run(&["balance", &program.pid(), "--once", "--every", "0.2s", "--explain"]).ok();
    assert!(text.contains("stay: it uses no device whose node is known"), "{text}");
}

#[test]
fn second_balancer_is_rejected_and_a_dry_run_is_not() {
    let home = Home::new();
    let mut first = Program(
        home.numaio(&["balance", "--all", "--every", "0.2"]).stdout(Stdio::null()).spawn().expect("started"),
    );
    let lock = home.0.join("state/numaio/receipts/balance.lock");
    let is_locked = || fs::File::open(&lock).is_ok_and(|file| file.try_lock().is_err());
    until(is_locked, || "the first balancer takes no lock");
    home.run(&["balance", "--all", "--once"]).failed(1, &["another numaio balance is running", "--dry-run"]);
    home.run(&["balance", "--all", "--once", "--dry-run", "--every", "0.2"]).ok();
    // The lock of a killed balancer does not remain.
    first.0.kill().expect("killed");
    first.0.wait().expect("ended");
    home.run(&["balance", "--all", "--once", "--every", "0.2"]).ok();
}

#[test]
fn signal_ends_the_service_with_its_totals_and_metrics() {
    let home = Home::new();
    let metrics = home.path("balance.prom");
    let args = ["balance", "--all", "--every", "0.2", "--json", "--metrics", &metrics];
    let child = home.numaio(&args).stdout(Stdio::piped()).spawn().expect("started");
    until(|| fs::metadata(&metrics).is_ok(), || "no metrics");
    kill("-TERM", child.id());
    let output = CommandOutput::of(child.wait_with_output().expect("ended")).ok();
    assert!(matches!(events(&output).last(), Some(BalanceEventKind::Ended { moves: 0, .. })), "{output}");
    let text = fs::read_to_string(&metrics).expect("metrics");
    assert!(
        text.contains("numaio_balance_moves_total 0") && text.contains("numaio_balance_programs"),
        "{text}"
    );
}

#[test]
fn wrong_selections_and_configurations_are_rejected() {
    let home = Home::new();
    home.run(&["balance"]).failed(2, &["no program is selected", "--all"]);
    home.run(&["balance", "4194304", "--once"]).failed(1, &["process 4194304 not found"]);
    home.run(&["balance", "--all", "--every", "0"]).failed(2, &["expected a time from 100ms to 60m"]);
    home.run(&["balance", "--all", "--once", "--device", "no-such"])
        .failed(2, &["device 'no-such' not found"]);
    let config = home.file("balance.toml", "[deny]\nunit = [\"a\"]\n");
    home.run(&["balance", "--all", "--config", &config]).failed(1, &["balance.toml: line 2: unknown field"]);
    home.run(&["balance", "--all", "--machine", "amd-dl585-g7"])
        .failed(2, &["only be changed on this machine"]);
}

#[test]
fn denied_program_is_not_considered() {
    let home = Home::new();
    let program = Program::start(&["sleep", "60"]);
    let config = home.file("balance.toml", "[deny]\ncommands = [\"sleep\"]\n");
    let args = ["balance", &program.pid(), "--once", "--every", "0.2", "--json", "--config", &config];
    let events = events(&home.run(&args).ok());
    let BalanceEventKind::Decision(decision) = &events[2] else { panic!("{events:?}") };
    assert_eq!(decision.reason, BalanceReason::Excluded { entry: "deny.commands: sleep".into() });
}

/// A balancer was killed during a move: its receipt restores the affinity.
#[test]
fn undo_reverts_an_interrupted_move() {
    let home = Home::new();
    let program = Program::start(&["sleep", "60"]);
    let pid = program.0.id();
    let before = allowed(pid);
    let first = CpuSet::one(before.first().unwrap_or(CpuId(0)));
    let root = numaio_linux::Root::live().expect("/");
    let start = start_time(&root, pid).expect("running");
    let bound =
        Command::new("taskset").args(["-p", "-c", &first.to_string(), &program.pid()]).limited_output();
    assert!(bound.expect("taskset").status.success());
    let at = |cpus: &CpuSet| Change::ThreadAffinity { pid, tid: pid, start_time: start, cpus: cpus.clone() };
    let document = TopologyDocument::from_json(&home.run(&["topology", "--json"]).ok()).expect("a topology");
    let machine = document.topology.identity.fingerprint;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    let applied = vec![AppliedChange { change: at(&first), inverse: at(&before) }];
    let mut receipt = Receipt::planned(&machine, Some(boot.trim().into()), 1, applied);
    receipt.progress = Some(0);
    let folder = home.0.join("state/numaio/receipts");
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(format!("{machine}-balance-1.json"));
    fs::write(&path, serde_json::to_string(&receipt).expect("JSON")).expect("a receipt");
    let list = home.run(&["undo", "--list"]).ok();
    assert!(list.contains("balance-1") && list.contains(&format!("thread {pid} of process {pid}")), "{list}");
    home.run(&["undo"]).ok();
    assert_eq!((allowed(pid), path.exists()), (before, false));
    // A receipt whose program has ended is removed by the next balancer.
    fs::write(&path, serde_json::to_string(&receipt).expect("JSON")).expect("a receipt");
    drop(program);
    home.run(&["balance", "--all", "--once", "--every", "0.2"]).ok();
    assert!(!path.exists());
}
