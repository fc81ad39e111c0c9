//! `numaio irq` and `undo` on an emulated machine.

use numaio_lab::{Folder, Lab};
use numaio_schema::IrqDocument;
use std::fs;

/// Activates the interface, so that its driver requests interrupts, and prints all settings.
const SETUP: &str = "ip link set eth0 up; sleep 1; \
    state() { for file in /proc/irq/[0-9]*/smp_affinity_list /sys/class/net/eth0/queues/*/*ps_cpus \
    /sys/class/net/eth0/queues/*/rps_flow_cnt /proc/sys/net/core/rps_sock_flow_entries; do \
    echo $file $(cat $file 2>/dev/null); done; }; state >/out/before;";

/// The drive's interrupts are managed and stay; the interface's move to CPUs 4 and 5 of its node 2.
#[test]
fn irq_apply_moves_interrupts_and_undo_restores_them() {
    let Some(lab) = Lab::open("irq_apply_moves_interrupts_and_undo_restores_them") else { return };
    let folder = Folder::new("irq");
    let line = format!(
        "{SETUP} numaio irq plan eth0 nvme0n1 --rfs >/out/plan; state >/out/planned; \
         numaio irq apply eth0 nvme0n1 --rfs --json -o /out/applied.json && state >/out/applied && \
         numaio undo --list >/out/list && numaio undo && state >/out/undone && \
         cat /proc/irq/[0-9]*/smp_affinity_list >/dev/null; numaio undo --list >/out/no-changes; \
         numaio irq apply lo; test $? != 0"
    );
    let output = lab.run("amd-2p", &folder.0, &["sh", "-c", &line]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file of results");
    assert_eq!(text("planned"), text("before"), "the plan changed a setting");
    assert_ne!(text("applied"), text("before"));
    assert_eq!(text("undone"), text("before"), "{stderr}");
    let applied = IrqDocument::from_json(&text("applied.json")).expect("a document");
    let device = |name: &str| applied.devices.iter().find(|found| found.device == name).expect("a device");
    let near = |cpus: &numaio_machine::set::CpuSet| {
        !cpus.is_empty() && cpus.iter().all(|cpu| (4..6).contains(&cpu.0))
    };
    for irq in &device("eth0").irqs {
        assert!(near(irq.irq.effective.as_ref().unwrap_or(&irq.irq.affinity)), "{irq:?}");
    }
    let managed = device("nvme0n1").irqs.iter().filter(|irq| irq.fixed.is_some()).count();
    assert_eq!(managed, 8, "one queue per CPU: {:?}", device("nvme0n1").irqs);
    assert!(text("plan").contains("managed") && text("list").contains("irq-1"), "{}", text("list"));
    assert!(text("no-changes").contains("No changes to undo"), "{}", text("no-changes"));
}

/// The command is killed as soon as its receipt exists, and later; undo reverts its changes.
#[test]
fn undo_restores_settings_after_kill_9() {
    let Some(lab) = Lab::open("undo_restores_settings_after_kill_9") else { return };
    let folder = Folder::new("irq-kill");
    // busybox's wait once blocked forever after the command had ended before it was killed.
    let line = format!(
        "{SETUP} for pause in 0 0.05 0.2; do numaio irq apply eth0 --rfs >/dev/null & \
         until ls /out/state/numaio/receipts/*.json >/dev/null 2>&1; do :; done; \
         sleep $pause; kill -9 $! 2>/dev/null; while [ -d /proc/$! ]; do sleep 0.02; done; state >/out/killed-$pause; \
         numaio undo && state >/out/after-$pause; done; ls /out/state/numaio/receipts >/out/receipts"
    );
    let output = lab.run("amd-2p", &folder.0, &["sh", "-c", &line]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file of results");
    let mut changed = 0;
    for pause in ["0", "0.05", "0.2"] {
        changed += usize::from(text(&format!("killed-{pause}")) != text("before"));
        assert_eq!(text(&format!("after-{pause}")), text("before"), "after {pause} s: {stderr}");
    }
    assert!(changed > 0, "no command was killed after a change");
    // A kill during a write may leave a temporary file, which is not read as a receipt.
    assert!(!text("receipts").lines().any(|name| name.ends_with(".json")), "{}", text("receipts"));
}

/// The interrupts move to each node and return after each measurement, after a kill by undo.
#[test]
fn bench_net_measures_interrupts_on_each_node_and_puts_them_back() {
    let Some(lab) = Lab::open("bench_net_measures_interrupts_on_each_node_and_puts_them_back") else {
        return;
    };
    let folder = Folder::new("irq-nodes");
    let bench = "numaio bench net --peer localhost --device eth0 --irq-nodes 0,2 --streams 1 --cpu-nodes 0 \
        --direction write --window 100";
    let line = format!(
        "{SETUP} ip link set lo up; {bench} --precision 90 --seconds 10 --json >/out/records.json; state >/out/measured; \
         ls /out/state/numaio/interrupts/*/ >/out/saved; numaio undo --list >/out/list; \
         {bench} --seconds 60 --precision 0.01 >/dev/null & \
         until ls /out/state/numaio/receipts/*.json >/dev/null 2>&1; do :; done; sleep 0.2; kill -9 $!; \
         while [ -d /proc/$! ]; do sleep 0.02; done; numaio undo; state >/out/after"
    );
    let output = lab.run("amd-2p", &folder.0, &["sh", "-c", &line]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file of results");
    assert_eq!(text("measured"), text("before"), "{stderr}");
    assert_eq!(text("after"), text("before"), "{stderr}");
    assert!(text("list").contains("No changes to undo") && text("saved").lines().count() == 2, "{stderr}");
    let [first, second]: [serde_json::Value; 2] =
        serde_json::from_str(&text("records.json")).expect("two records");
    let cpus = |record: &serde_json::Value| record["device"]["irqs"][0]["affinity"].to_string();
    assert_ne!(cpus(&first), cpus(&second), "{stderr}");
}
