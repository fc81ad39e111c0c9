//! End-to-end tests of `numaio irq` and `numaio undo`. They do not change the machine.

use crate::support::{skipped, until, CommandOutput, Home, Limited};
use numaio_machine::control::Change;
use numaio_machine::devices::Device;
use numaio_schema::{AppliedChange, IrqDocument, Receipt, TopologyDocument};
use numaio_sim::{shapes, Simulated};
use std::fs;
use std::process::Stdio;

const TAPE: &str = "amd-dl585-g7";

fn document(output: CommandOutput) -> IrqDocument {
    IrqDocument::from_json(&output.ok()).expect("a document")
}

#[test]
fn plan_lists_managed_and_movable_interrupts() {
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
fn plan_leaves_cores_to_placed_tasks() {
    let home = Home::new();
    let file = home.path("plan.json");
    let near =
        ["place", "--machine", TAPE, "--near", "nvme0n1", "--direction", "write", "--tasks", "1", "--json"];
    home.run(&[&near[..], &["-o", &file]].concat()).ok();
    let plan = document(home.run(&["irq", "plan", "nvme0n1", "--machine", TAPE, "--plan", &file, "--json"]));
    let cpus = plan.plan.expect("a plan").cpus;
    assert_eq!(cpus.len(), 1, "the task uses the other core of node 7: {cpus}");
    home.run(&["irq", "plan", "nvme0n1", "--machine", "amd-2p", "--plan", &file])
        .failed(1, &["plan for machine"]);
}

#[test]
fn rejects_unknown_devices_and_recorded_machines() {
    let home = Home::new();
    home.run(&["irq", "plan", "nvme0n9", "--machine", TAPE]).failed(2, &["nvme0n9", "nvme0n1"]);
    home.run(&["irq", "plan", "--machine", TAPE]).failed(2, &["DEV"]);
    home.run(&["irq", "apply", "nvme0n1", "--machine", TAPE]).failed(2, &["only be changed on this machine"]);
    home.run(&["undo", "--machine", TAPE]).failed(2, &["only be changed on this machine"]);
    home.run(&["irq", "undo", "eth99"]).failed(1, &["to device 'eth99'"]);
    home.run(&["undo", "irq-7"]).failed(2, &["irq-7", "no changes to revert"]);
    assert!(home.run(&["undo", "--list"]).ok().contains("No changes to undo"));
    home.run(&["undo"]).ok();
}

#[test]
fn controllers_with_equal_names_get_distinct_ones() {
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
fn undo_accepts_every_name_of_a_device() {
    let home = Home::new();
    let document = TopologyDocument::from_json(&home.run(&["topology", "--json"]).ok()).expect("a topology");
    let devices = document.topology.devices;
    let has_two = |it: &&Device| it.pci.is_some_and(|pci| pci.to_string() != it.distinct_name(&devices));
    let Some(device) = devices.iter().find(has_two) else {
        skipped("no device with a name and a PCI address");
        return;
    };
    let both = [device.pci.expect("an address").to_string(), device.distinct_name(&devices)];
    // At the time of the change, the device may have had only the other name.
    for (then, now) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let path = leave_receipt(&home, "irq-1", |receipt| receipt.devices = vec![both[then].clone()]);
        home.run(&["irq", "undo", &both[now]]).ok();
        assert!(!path.exists(), "{both:?}: {then} {now}");
    }
    // The present name of a device selects only the receipt with that name.
    let [old, new] = ["irq-1", "irq-2"];
    let old = leave_receipt(&home, old, |receipt| receipt.devices = vec![both[0].clone()]);
    let new = leave_receipt(&home, new, |receipt| receipt.devices = vec![both[1].clone()]);
    home.run(&["irq", "undo", &both[1]]).ok();
    assert!(old.exists() && !new.exists());
}

/// Writes the receipt of a killed `apply` on this machine, modified by `change`; returns its path.
fn leave_receipt(home: &Home, id: &str, change: impl FnOnce(&mut Receipt)) -> std::path::PathBuf {
    let machine = document(home.run(&["irq", "show", "--json"])).machine;
    let flows = |entries| Change::SockFlowEntries { entries };
    let applied = vec![AppliedChange { change: flows(32768), inverse: flows(0) }];
    let mut receipt = Receipt::planned(&machine, Some("another boot".into()), 1, applied);
    change(&mut receipt);
    let folder = home.0.join("state/numaio/receipts");
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(format!("{machine}-{id}.json"));
    fs::write(&path, serde_json::to_string(&receipt).expect("JSON")).expect("a receipt");
    path
}

#[test]
fn undo_after_reboot_only_removes_the_receipt() {
    let home = Home::new();
    let path = leave_receipt(&home, "irq-1", |receipt| {
        receipt.devices = vec!["eth0".into()];
        receipt.progress = Some(0);
    });
    let list = home.run(&["undo", "--list"]).ok();
    assert!(list.contains("irq-1 of eth0") && list.contains("Interrupted: 0 of 1"), "{list}");
    assert!(path.exists(), "a list changes nothing");
    let output = home.run(&["undo"]);
    assert!(output.err.contains("a reboot has already reverted it"), "{}", output.err);
    assert_eq!((output.code, path.exists()), (Some(0), false));
}

#[test]
fn undo_rejects_foreign_broken_and_superseded_receipts() {
    let home = Home::new();
    let foreign = leave_receipt(&home, "irq-1", |receipt| receipt.machine = "0123456789abcdef".into());
    home.run(&["undo"]).failed(1, &["0123456789abcdef"]);
    assert!(foreign.exists());
    home.run(&["undo", "--forget", "irq-1"]).ok();
    assert!(!foreign.exists(), "a receipt that cannot be undone can be removed");
    // The name of the interface escapes its directory.
    let escape = leave_receipt(&home, "irq-1", |receipt| {
        receipt.boot = None;
        let flows = |flows| Change::RpsFlows { interface: "../../x".into(), queue: 0, flows };
        receipt.applied = vec![AppliedChange { change: flows(1), inverse: flows(0) }];
    });
    home.run(&["undo"]).failed(1, &["cannot restore", "--forget"]);
    let broken = escape
        .with_file_name(escape.file_name().expect("a name").to_string_lossy().replace("irq-1", "irq-2"));
    fs::write(&broken, "{").expect("a file");
    assert!(home.run(&["undo", "--list"]).err.contains("irq-2"));
    // Of two receipts with the same setting, the newer must be undone first.
    leave_receipt(&home, "irq-3", |receipt| receipt.boot = None);
    leave_receipt(&home, "irq-4", |receipt| (receipt.boot, receipt.created_at) = (None, 2));
    home.run(&["undo", "irq-3"])
        .failed(1, &["irq-4 changed some of the same settings", "run numaio undo irq-4 first"]);
}

#[test]
fn undo_reports_that_it_waits_for_another_process() {
    let home = Home::new();
    let folder = home.0.join("state/numaio/receipts");
    fs::create_dir_all(&folder).expect("a folder");
    let lock = fs::File::open(&folder).expect("a folder");
    if lock.lock().is_err() {
        skipped("a file system without locks");
        return;
    }
    let log = home.path("stderr");
    let stderr = fs::File::create(&log).expect("a file");
    let mut undo = home.numaio(&["undo"]).stderr(stderr).spawn().expect("started");
    let text = || fs::read_to_string(&log).expect("a file");
    until(|| text().contains("waiting for another numaio"), text);
    assert!(undo.try_wait().expect("a status").is_none(), "undo does not wait for the lock");
    drop(lock);
    assert!(undo.limited_status().expect("ended").success());
    assert_eq!(text().lines().count(), 2, "{}", text());
}

#[test]
fn undo_continues_after_a_failed_receipt() {
    let home = Home::new();
    let leave_three = || {
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
        let paths = leave_three();
        let output = home.run(undo);
        assert!(output.err.contains("irq-1: a reboot has already reverted it"), "{}", output.err);
        output.failed(1, &["irq-2: cannot restore", "irq-3: cannot restore"]);
        assert_eq!(paths.map(|path| path.exists()), [false, true, true]);
    }
}

#[test]
fn receipt_of_this_boot_matches_under_another_fingerprint() {
    let home = Home::new();
    let Ok(boot) = fs::read_to_string("/proc/sys/kernel/random/boot_id") else {
        skipped("this kernel has no boot id");
        return;
    };
    // The interface does not exist, so that nothing is changed.
    let flows = |flows| Change::RpsFlows { interface: "../../x".into(), queue: 0, flows };
    let leave_foreign = |id: &str, boot: &str| {
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
    let path = leave_foreign("irq-1", &boot);
    leave_foreign("irq-2", "another boot");
    let list = home.run(&["undo", "--list"]).ok();
    assert!(list.contains("irq-1") && !list.contains("irq-2"), "{list}");
    home.run(&["undo"]).failed(1, &["cannot restore"]);
    home.run(&["irq", "undo", "eth0"]).failed(1, &["cannot restore"]);
    home.run(&["undo", "--forget", "irq-1"]).ok();
    assert!(!path.exists());
}

#[test]
fn undo_skips_interrupt_that_belongs_to_another_device() {
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
    let output = home.run(&["undo"]);
    let words = format!(
        "kept interrupt {}: it belonged to 'another's', and now belongs to '{}'",
        irq.number, irq.name
    );
    assert!(output.err.contains(&words) && output.err.contains("0 settings"), "{}", output.err);
    assert_eq!((output.code, path.exists()), (Some(0), false));
}

#[test]
fn apply_without_privileges_changes_nothing_and_names_them() {
    let home = Home::new();
    let shown = document(home.run(&["irq", "show", "--json"]));
    let movable = shown.devices.iter().find(|it| it.irqs.iter().any(|irq| irq.fixed.is_none()));
    let name = movable.map(|it| it.device.clone()).unwrap_or_default();
    let plan = || document(home.run(&["irq", "plan", &name, "--json"])).plan.expect("a plan").changes;
    let unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let can_run = home.command_by(&unprivileged, &["--version"]).stderr(Stdio::null()).limited_status();
    if name.is_empty() || !can_run.is_ok_and(|status| status.success()) || plan().is_empty() {
        skipped("no interrupt to move, or cannot drop privileges");
        return;
    }
    let before = plan();
    let apply = ["irq", "apply", &name, "--despite-irqbalance"];
    CommandOutput::of(home.command_by(&unprivileged, &apply).limited_output().expect("setpriv"))
        .failed(1, &["ermission denied", "CAP_DAC_OVERRIDE", "nothing was changed"]);
    assert_eq!(plan(), before);
    assert!(home.run(&["undo", "--list"]).ok().contains("No changes to undo"));
}
