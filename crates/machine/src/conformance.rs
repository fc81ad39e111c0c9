//! What every implementation of the seam must do; each crate that implements it runs these checks.

use crate::control::{Change, Control, ControlError};
use crate::ids::{CpuId, NodeId};
use crate::probe::{CopyOutcome, Probe, ProbeError, ProbeExt};
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt, WhyUnread};
use crate::workload::{CopyWorkload, Flow, Placement, Sampling};

/// A node that no machine has under test: Linux allows 1,024, and this is the last.
pub const NO_SUCH_NODE: NodeId = NodeId(1023);
/// A CPU that no machine has under test: Linux allows 8,192.
pub const NO_SUCH_CPU: CpuId = CpuId(8191);

/// Writes the files that [`sysfs`] expects, by a function that adds one.
pub fn fill(mut file: impl FnMut(&str, &str)) {
    file("/sys/devices/pci0000:00/0000:00:03.0/net/eth0/speed", "1000\n");
    file("/sys/devices/pci0000:00/0000:00:03.0/numa_node", "-1\n");
    file("/sys/devices/system/node/online", "0-1\n");
    file("/proc/version", "Linux\n");
}

/// Writes the links that [`sysfs`] expects, by a function that adds one.
pub fn fill_links(mut link: impl FnMut(&str, &str)) {
    link("/sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0");
    link("/sys/devices/pci0000:00/0000:00:03.0/net/eth0/device", "../../../0000:00:03.0");
    link("/sys/class/outside", "../../../../../../proc/version");
    link("/sys/class/loop", "loop");
}

/// Checks an implementation of [`Sysfs`] whose root holds what [`fill`] and [`fill_links`] wrote.
///
/// # Panics
/// At the first rule that is broken.
pub fn sysfs(root: &dyn Sysfs) {
    let why = |path: &str| root.read(path).expect_err(path).why;
    assert_eq!(root.read("/proc/version").expect("a file is read whole"), b"Linux\n");
    assert_eq!(root.text("/sys/class/net/eth0/speed").expect("through a link"), "1000");
    assert_eq!(root.text("/sys/class/net/eth0/device/numa_node").expect("through two links"), "-1");
    assert_eq!(why("/sys/absent"), WhyUnread::Absent);
    assert_eq!(why("/sys/devices/system/node"), WhyUnread::WrongKind);
    assert_eq!(root.list("/proc/version").expect_err("a file is no directory").why, WhyUnread::WrongKind);
    assert_eq!(root.list("/sys/devices/pci0000:00/0000:00:03.0").expect("a directory"), ["net", "numa_node"]);
    assert_eq!(root.list("/sys/class").expect("links are listed"), ["loop", "net", "outside"]);
    assert_eq!(
        root.resolve("/sys/class/net/eth0/device").expect("links resolve"),
        "/sys/devices/pci0000:00/0000:00:03.0"
    );
    assert_eq!(root.resolve("/sys/absent").expect_err("it must exist").why, WhyUnread::Absent);
    assert_eq!(root.text("/sys/class/outside").expect("never above the root"), "Linux");
    assert!(root.read("/sys/class/loop").is_err(), "a loop of links ends");
}

/// Checks an implementation of [`Probe`] on a copy that its machine can run: `copy` names a flow, CPUs and a
/// loop; sizes and sampling are chosen here (4 MiB a thread, some tens of milliseconds a run).
///
/// # Panics
/// At the first rule that is broken.
pub fn probe(machine: &dyn Probe, copy: &CopyWorkload) {
    let copy = CopyWorkload {
        bytes_per_thread: 4 << 20,
        sampling: Sampling::Window { milliseconds: 30, slices: 3 },
        ..copy.clone()
    };
    let first = ran(machine, &copy);
    assert_eq!(first.samples.len(), 3, "as many samples as slices");
    let wanted_ns = 30_000_000;
    let window_ns: u64 = first.samples.iter().map(|sample| sample.ns).sum();
    assert!(
        window_ns >= wanted_ns / 2 && window_ns <= wanted_ns * 2,
        "{window_ns} ns are no window of 30 ms"
    );
    ran(machine, &copy);

    let repeated = CopyWorkload { sampling: Sampling::Repetitions { count: 4 }, ..copy.clone() };
    let samples = ran(machine, &repeated).samples;
    assert_eq!(samples.len(), 4, "as many samples as repetitions");
    let bytes = repeated.bytes_per_thread * repeated.placement.cpus.len() as u64;
    assert!(samples.iter().all(|sample| sample.bytes_copied == bytes), "each thread copies its buffer once");

    probe_refuses(machine, &copy);
    ran(machine, &copy);
}

/// What can be said of every outcome.
fn ran(machine: &dyn Probe, copy: &CopyWorkload) -> CopyOutcome {
    let outcome = machine.copy(copy).expect("a copy that can run runs");
    assert!(
        outcome.samples.iter().all(|sample| sample.bytes_copied > 0 && sample.ns > 0),
        "samples of something"
    );
    let sampled: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
    assert!(outcome.elapsed_ns >= sampled, "{} ns in all, {sampled} ns of samples", outcome.elapsed_ns);
    let residency = &outcome.residency;
    let checked = residency.pages_checked.unwrap_or(0);
    assert!(residency.pages_misplaced <= checked, "more pages misplaced than looked at");
    assert_eq!(
        residency.found_on.is_some(),
        residency.pages_misplaced > 0,
        "where misplaced pages were found"
    );
    outcome
}

/// What cannot run gives an error, never a number.
fn probe_refuses(machine: &dyn Probe, copy: &CopyWorkload) {
    let run = |copy: CopyWorkload| machine.copy(&copy);
    let flows = [
        Flow { source: NO_SUCH_NODE, ..copy.flow },
        Flow { sink: NO_SUCH_NODE, ..copy.flow },
        Flow { source: NO_SUCH_NODE, sink: NO_SUCH_NODE },
    ];
    for flow in flows {
        assert!(run(CopyWorkload { flow, ..copy.clone() }).is_err(), "{flow}: no such node");
    }
    let mut one_absent = copy.placement.cpus.clone();
    one_absent.insert(NO_SUCH_CPU);
    for cpus in [CpuSet::new(), CpuSet::one(NO_SUCH_CPU), one_absent] {
        let what = format!("CPUs {cpus:?}");
        assert!(run(CopyWorkload { placement: Placement { cpus }, ..copy.clone() }).is_err(), "{what}");
    }
    assert!(run(CopyWorkload { bytes_per_thread: 0, ..copy.clone() }).is_err(), "nothing to copy");
    assert!(run(CopyWorkload { bytes_per_thread: u64::MAX, ..copy.clone() }).is_err(), "sizes that overflow");
    match run(CopyWorkload { bytes_per_thread: 1 << 46, ..copy.clone() }) {
        Err(ProbeError::NoMemory { node, needed_bytes, free_bytes }) => {
            assert!(
                [copy.flow.source, copy.flow.sink].contains(&node),
                "memory of node {node} was not asked for"
            );
            assert!(needed_bytes > free_bytes, "{needed_bytes} bytes do fit into {free_bytes}");
        }
        other => panic!("no machine has 64 TiB for each thread: {other:?}"),
    }
}

/// Checks an implementation of [`Control`] by a change that its machine can make: the inverse that is given
/// back restores what was, and undoing twice changes again.
///
/// # Errors
/// If the first change is refused, as to a process without the right to it: nothing was checked then.
///
/// # Panics
/// At the first rule that is broken.
pub fn control(machine: &dyn Control, change: &Change) -> Result<(), ControlError> {
    let inverse = machine.apply(change)?;
    let again = machine.apply(&inverse).expect("what was changed can be changed back");
    assert_eq!(again, *change, "the inverse of the inverse is the change");
    assert_eq!(
        machine.apply(change).expect("a change can be made again"),
        inverse,
        "the first state was restored"
    );
    machine.apply(&inverse).expect("what was changed can be changed back");
    Ok(())
}
