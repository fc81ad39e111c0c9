//! `numaio irq` and `undo` on an emulated machine, where changes do no harm.

use crate::support::{Folder, Lab};
use numaio_schema::IrqDocument;
use std::fs;

/// Brings the interface up, so that its driver asks for interrupts; `state` tells all that may be changed.
const BEGIN: &str = "ip link set eth0 up; sleep 1; \
    state() { for file in /proc/irq/[0-9]*/smp_affinity_list /sys/class/net/eth0/queues/*/*ps_cpus \
    /sys/class/net/eth0/queues/*/rps_flow_cnt /proc/sys/net/core/rps_sock_flow_entries; do \
    echo $file $(cat $file 2>/dev/null); done; }; state >/out/before;";

/// The drive's queues are managed and stay; the interface's interrupts go to its node 2, CPUs 4 and 5.
#[test]
fn interrupts_move_are_read_back_and_undone() {
    let Some(lab) = Lab::open("interrupts_move_are_read_back_and_undone") else { return };
    let folder = Folder::new("irq");
    let line = format!(
        "{BEGIN} numaio irq plan eth0 nvme0n1 --rfs >/out/plan; state >/out/planned; \
         numaio irq apply eth0 nvme0n1 --rfs --json -o /out/applied.json && state >/out/applied && \
         numaio undo --list >/out/list && numaio undo && state >/out/undone && \
         cat /proc/irq/[0-9]*/smp_affinity_list >/dev/null; numaio undo --list >/out/nothing; \
         numaio irq apply lo; test $? != 0"
    );
    let output = lab.run("amd-2p", &folder.0, &["sh", "-c", &line]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file that came back");
    assert_eq!(text("planned"), text("before"), "a plan changes nothing");
    assert_ne!(text("applied"), text("before"));
    assert_eq!(text("undone"), text("before"), "{said}");
    let applied = IrqDocument::from_json(&text("applied.json")).expect("a document");
    let device = |name: &str| applied.devices.iter().find(|it| it.device == name).expect("a device");
    let near = |cpus: &numaio_machine::set::CpuSet| {
        !cpus.is_empty() && cpus.iter().all(|cpu| (4..6).contains(&cpu.0))
    };
    for irq in &device("eth0").irqs {
        assert!(near(irq.irq.effective.as_ref().unwrap_or(&irq.irq.affinity)), "{irq:?}");
    }
    let managed = device("nvme0n1").irqs.iter().filter(|irq| irq.fixed.is_some()).count();
    assert_eq!(managed, 8, "a queue for each CPU: {:?}", device("nvme0n1").irqs);
    assert!(text("plan").contains("managed") && text("list").contains("irq-1"), "{}", text("list"));
    assert!(text("nothing").contains("No changes to undo"), "{}", text("nothing"));
}

/// Killed as soon as its receipt is there, and later: what it had done by then is taken back.
#[test]
fn after_kill_9_undo_restores_what_was() {
    let Some(lab) = Lab::open("after_kill_9_undo_restores_what_was") else { return };
    let folder = Folder::new("irq-kill");
    // Not by wait: busybox's waited for ever once, when the command had ended before it was killed.
    let line = format!(
        "{BEGIN} for pause in 0 0.05 0.2; do numaio irq apply eth0 --rfs >/dev/null & \
         until ls /out/state/numaio/receipts/*.json >/dev/null 2>&1; do :; done; \
         sleep $pause; kill -9 $! 2>/dev/null; while [ -d /proc/$! ]; do sleep 0.02; done; state >/out/killed-$pause; \
         numaio undo && state >/out/after-$pause; done; ls /out/state/numaio/receipts >/out/left"
    );
    let output = lab.run("amd-2p", &folder.0, &["sh", "-c", &line]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file that came back");
    let mut changed = 0;
    for pause in ["0", "0.05", "0.2"] {
        changed += usize::from(text(&format!("killed-{pause}")) != text("before"));
        assert_eq!(text(&format!("after-{pause}")), text("before"), "after {pause} s: {said}");
    }
    assert!(changed > 0, "at least the last was killed after a change");
    // Where it was killed as it wrote one, a file beside it may be left that nobody takes for a receipt.
    assert!(!text("left").lines().any(|name| name.ends_with(".json")), "{}", text("left"));
}
