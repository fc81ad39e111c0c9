//! `numaio irq` and `numaio undo`, as a user types them. Nothing of the machine that runs them is changed.

use crate::support::{skipped, until, CommandOutput, Home, Limited};
use numaio_machine::control::Change;
use numaio_machine::devices::Device;
use numaio_schema::{AppliedChange, IrqDocument, Receipt, TopologyDocument};
use numaio_sim::{shapes, Simulated};
use std::fs;
use std::process::Stdio;

const TAPE: &str = "amd-dl585-g7";

fn document(said: CommandOutput) -> IrqDocument {
    IrqDocument::from_json(&said.ok()).expect("a document")
}

#[test]
fn a_plan_names_what_is_managed_and_what_may_be_moved() {
    let home = Home::new();
    let text = home.run(&["irq", "plan", "nvme0n1", "--machine", TAPE]).ok();
    for part in ["nvme0q0", "managed", "Plan: 1 change", "14-15", "cannot be moved", "CAP_DAC_OVERRIDE"] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let plan = document(home.run(&["irq", "plan", "nvme0n1", "--machine", TAPE, "--json"]));
    assert_eq!(plan.plan.expect("a plan").changes.len(), 1);
    let shown = document(home.run(&["irq", "show", "--machine", TAPE, "--json"]));
    assert!(shown.plan.is_none() && shown.devices.len() > 1);
    let file = home.path("irq.json");
    home.run(&["irq", "show", "nvme0n1", "--machine", TAPE, "--json", "-o", &file]).ok();
    assert_eq!(
        IrqDocument::from_json(&fs::read_to_string(file).expect("a file")).expect("a document").devices.len(),
        1
    );
}

#[test]
fn tasks_of_a_placement_keep_their_cores() {
    let home = Home::new();
    let file = home.path("plan.json");
    let near =
        ["place", "--machine", TAPE, "--near", "nvme0n1", "--direction", "write", "--tasks", "1", "--json"];
    home.run(&[&near[..], &["-o", &file]].concat()).ok();
    let plan = document(home.run(&["irq", "plan", "nvme0n1", "--machine", TAPE, "--plan", &file, "--json"]));
    let cpus = plan.plan.expect("a plan").cpus;
    assert_eq!(cpus.len(), 1, "the task has the other core of node 7: {cpus}");
    home.run(&["irq", "plan", "nvme0n1", "--machine", "amd-2p", "--plan", &file])
        .failed(1, &["plan for machine"]);
}

#[test]
fn wrong_devices_and_machines_are_refused_with_a_hint() {
    let home = Home::new();
    home.run(&["irq", "plan", "nvme0n9", "--machine", TAPE]).failed(2, &["nvme0n9", "nvme0n1"]);
    home.run(&["irq", "plan", "--machine", TAPE]).failed(2, &["DEV"]);
    home.run(&["irq", "apply", "nvme0n1", "--machine", TAPE]).failed(2, &["only this machine"]);
    home.run(&["undo", "--machine", TAPE]).failed(2, &["only this machine"]);
    home.run(&["irq", "undo", "eth99"]).failed(1, &["nothing about eth99"]);
    home.run(&["undo", "irq-7"]).failed(2, &["irq-7", "changed nothing"]);
    assert!(home.run(&["undo", "--list"]).ok().contains("No changes to undo"));
    home.run(&["undo"]).ok();
}

#[test]
fn controllers_of_one_name_are_told_apart() {
    let home = Home::new();
    let mut tree = Simulated::new(shapes::dl585()).expect("a machine").tree().clone();
    let second = "/sys/devices/pci0000:90/0000:90:00.0";
    tree.link("/sys/bus/pci/devices/0000:90:00.0", second);
    for (file, content) in
        [("class", "0x010802"), ("vendor", "0x8086"), ("device", "0x1"), ("numa_node", "3")]
    {
        tree.file(&format!("{second}/{file}"), format!("{content}\n"));
    }
    tree.file(&format!("{second}/msi_irqs/950"), "msix\n");
    tree.file("/proc/irq/950/smp_affinity_list", "0-31\n");
    tree.dir(&format!("{second}/nvme/nvme4/nvme0c4n1"));
    tree.link("/sys/class/nvme/nvme4", &format!("{second}/nvme/nvme4"));
    tree.link("/sys/class/block/nvme0c4n1", &format!("{second}/nvme/nvme4/nvme0c4n1"));
    let root = home.path("root");
    numaio_sim::write_tree(&tree, std::path::Path::new(&root)).expect("a tree");
    let names = |device: &str| {
        let shown = document(home.run(&["irq", "show", device, "--sysroot", &root, "--json"])).devices;
        shown.into_iter().map(|device| device.device).collect::<Vec<_>>()
    };
    assert_eq!(names("0000:90:00.0"), ["0000:90:00.0"]);
    assert!(names("nvme0n1").iter().all(|name| name.ends_with(":00.0")), "{:?}", names("nvme0n1"));
}

#[test]
fn what_was_changed_is_taken_back_by_any_name_of_the_device() {
    let home = Home::new();
    let seen = TopologyDocument::from_json(&home.run(&["topology", "--json"]).ok()).expect("a topology");
    let devices = seen.topology.devices;
    let has_two = |it: &&Device| it.pci.is_some_and(|pci| pci.to_string() != it.distinct_name(&devices));
    let Some(device) = devices.iter().find(has_two) else {
        skipped("no device with a name and a PCI address");
        return;
    };
    let both = [device.pci.expect("an address").to_string(), device.distinct_name(&devices)];
    // It may have been known by the other one alone then.
    for (then, now) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let path = leave_receipt(&home, "irq-1", |receipt| receipt.devices = vec![both[then].clone()]);
        home.run(&["irq", "undo", &both[now]]).ok();
        assert!(!path.exists(), "{both:?}: {then} {now}");
    }
    // What is meant by the name that it has now is that alone.
    let [old, new] = ["irq-1", "irq-2"];
    let old = leave_receipt(&home, old, |receipt| receipt.devices = vec![both[0].clone()]);
    let new = leave_receipt(&home, new, |receipt| receipt.devices = vec![both[1].clone()]);
    home.run(&["irq", "undo", &both[1]]).ok();
    assert!(old.exists() && !new.exists());
}

/// This machine's fingerprint, and a receipt of it as an apply that was killed has left it.
fn leave_receipt(home: &Home, id: &str, change: impl FnOnce(&mut Receipt)) -> std::path::PathBuf {
    let machine = document(home.run(&["irq", "show", "--json"])).machine;
    let flows = |entries| Change::SockFlowEntries { entries };
    let applied = vec![AppliedChange { change: flows(32768), inverse: flows(0) }];
    let mut receipt = Receipt::planned(&machine, Some("another start".into()), 1, applied);
    change(&mut receipt);
    let folder = home.0.join("state/numaio/receipts");
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(format!("{machine}-{id}.json"));
    fs::write(&path, serde_json::to_string(&receipt).expect("JSON")).expect("a receipt");
    path
}

#[test]
fn after_a_restart_nothing_is_left_to_take_back() {
    let home = Home::new();
    let path = leave_receipt(&home, "irq-1", |receipt| {
        receipt.devices = vec!["eth0".into()];
        receipt.underway = Some(0);
    });
    let list = home.run(&["undo", "--list"]).ok();
    assert!(list.contains("irq-1 of eth0") && list.contains("Interrupted: 0 of 1"), "{list}");
    assert!(path.exists(), "a list changes nothing");
    let said = home.run(&["undo"]);
    assert!(said.err.contains("started anew"), "{}", said.err);
    assert_eq!((said.code, path.exists()), (Some(0), false));
}

#[test]
fn receipts_that_are_foreign_broken_or_covered_are_not_followed() {
    let home = Home::new();
    let foreign = leave_receipt(&home, "irq-1", |receipt| receipt.machine = "0123456789abcdef".into());
    home.run(&["undo"]).failed(1, &["0123456789abcdef"]);
    assert!(foreign.exists());
    home.run(&["undo", "--forget", "irq-1"]).ok();
    assert!(!foreign.exists(), "what cannot be taken back can be forgotten");
    // A name that would lead out of its folder.
    let escape = leave_receipt(&home, "irq-1", |receipt| {
        receipt.boot = None;
        let flows = |flows| Change::RpsFlows { interface: "../../x".into(), queue: 0, flows };
        receipt.applied = vec![AppliedChange { change: flows(1), inverse: flows(0) }];
    });
    home.run(&["undo"]).failed(1, &["still in force", "--forget"]);
    let broken = escape
        .with_file_name(escape.file_name().expect("a name").to_string_lossy().replace("irq-1", "irq-2"));
    fs::write(&broken, "{").expect("a file");
    assert!(home.run(&["undo", "--list"]).err.contains("irq-2"));
    // Two that set the same thing: the older one waits for the newer.
    leave_receipt(&home, "irq-3", |receipt| receipt.boot = None);
    leave_receipt(&home, "irq-4", |receipt| (receipt.boot, receipt.made_at) = (None, 2));
    home.run(&["undo", "irq-3"])
        .failed(1, &["irq-4 changed some of the same settings", "first numaio undo irq-4"]);
}

#[test]
fn who_waits_for_another_says_so() {
    let home = Home::new();
    let folder = home.0.join("state/numaio/receipts");
    fs::create_dir_all(&folder).expect("a folder");
    let turn = fs::File::open(&folder).expect("a folder");
    if turn.lock().is_err() {
        skipped("a file system without locks");
        return;
    }
    let said = home.path("said");
    let to = fs::File::create(&said).expect("a file");
    let mut undo = home.numaio(&["undo"]).stderr(to).spawn().expect("started");
    let text = || fs::read_to_string(&said).expect("a file");
    until(|| text().contains("waits for another numaio"), text);
    assert!(undo.try_wait().expect("asked").is_none(), "it goes on before its turn");
    drop(turn);
    assert!(undo.limited_status().expect("ended").success());
    assert_eq!(text().lines().count(), 2, "{}", text());
}

#[test]
fn one_that_cannot_be_taken_back_does_not_keep_the_others() {
    let home = Home::new();
    let leave = || {
        ["irq-1", "irq-2", "irq-3"].map(|id| {
            leave_receipt(&home, id, |receipt| {
                receipt.devices = vec!["eth0".into()];
                if id != "irq-1" {
                    receipt.boot = None;
                    let flows = |flows| Change::RpsFlows { interface: format!("../{id}"), queue: 0, flows };
                    receipt.applied = vec![AppliedChange { change: flows(1), inverse: flows(0) }];
                }
            })
        })
    };
    for undo in [&["undo", "--all"][..], &["irq", "undo"]] {
        let paths = leave();
        let said = home.run(undo);
        assert!(said.err.contains("irq-1: the machine was started anew since"), "{}", said.err);
        said.failed(1, &["irq-2: still in force", "irq-3: still in force"]);
        assert_eq!(paths.map(|path| path.exists()), [false, true, true]);
    }
}

#[test]
fn a_receipt_of_this_start_of_the_kernel_is_this_machines_whatever_its_fingerprint() {
    let home = Home::new();
    let Ok(boot) = fs::read_to_string("/proc/sys/kernel/random/boot_id") else {
        skipped("this kernel does not tell its start");
        return;
    };
    // It leads nowhere, so that nothing is changed here.
    let flows = |flows| Change::RpsFlows { interface: "../../x".into(), queue: 0, flows };
    let before = |id: &str, boot: &str| {
        let path = leave_receipt(&home, id, |receipt| {
            receipt.machine = "0123456789abcdef".into();
            receipt.boot = Some(boot.trim().into());
            receipt.devices = vec!["eth0".into()];
            receipt.applied = vec![AppliedChange { change: flows(1), inverse: flows(0) }];
        });
        let name = path.with_file_name(format!("0123456789abcdef-{id}.json"));
        fs::rename(path, &name).expect("renamed");
        name
    };
    let path = before("irq-1", &boot);
    before("irq-2", "another start");
    let list = home.run(&["undo", "--list"]).ok();
    assert!(list.contains("irq-1") && !list.contains("irq-2"), "{list}");
    home.run(&["undo"]).failed(1, &["still in force"]);
    home.run(&["irq", "undo", "eth0"]).failed(1, &["still in force"]);
    home.run(&["undo", "--forget", "irq-1"]).ok();
    assert!(!path.exists());
}

#[test]
fn an_interrupt_that_is_another_devices_by_now_is_left_alone() {
    let home = Home::new();
    let shown = document(home.run(&["irq", "show", "--json"]));
    let mut irqs = shown.devices.iter().flat_map(|device| &device.irqs).map(|irq| &irq.irq);
    let Some(irq) = irqs.find(|irq| !irq.name.is_empty() && !irq.affinity.is_empty()) else {
        skipped("no interrupt with a name");
        return;
    };
    let path = leave_receipt(&home, "irq-1", |receipt| {
        let at = Change::IrqAffinity { irq: irq.number, cpus: irq.affinity.clone() };
        receipt.boot = None;
        receipt.applied = vec![AppliedChange { change: at.clone(), inverse: at }];
        receipt.handlers = [(irq.number, "another's".into())].into();
    });
    let said = home.run(&["undo"]);
    let words = format!("interrupt {} is left alone: it was another's, and is {} now", irq.number, irq.name);
    assert!(said.err.contains(&words) && said.err.contains("0 settings"), "{}", said.err);
    assert_eq!((said.code, path.exists()), (Some(0), false));
}

#[test]
fn without_rights_nothing_is_changed_and_the_rights_are_named() {
    let home = Home::new();
    let shown = document(home.run(&["irq", "show", "--json"]));
    let movable = shown.devices.iter().find(|it| it.irqs.iter().any(|irq| irq.fixed.is_none()));
    let name = movable.map(|it| it.device.clone()).unwrap_or_default();
    let plan = || document(home.run(&["irq", "plan", &name, "--json"])).plan.expect("a plan").changes;
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let can_run = home.command_by(&nobody, &["--version"]).stderr(Stdio::null()).limited_status();
    if name.is_empty() || !can_run.is_ok_and(|status| status.success()) || plan().is_empty() {
        skipped("no interrupt to move, or no way to become nobody");
        return;
    }
    let before = plan();
    let apply = ["irq", "apply", &name, "--despite-irqbalance"];
    CommandOutput::of(home.command_by(&nobody, &apply).limited_output().expect("setpriv"))
        .failed(1, &["ermission denied", "CAP_DAC_OVERRIDE", "nothing is changed"]);
    assert_eq!(plan(), before);
    assert!(home.run(&["undo", "--list"]).ok().contains("No changes to undo"));
}
