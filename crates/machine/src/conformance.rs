//! What every implementation of the seam must do; each crate that implements it runs these checks.

use crate::control::{Change, Control, ControlError};
use crate::ids::{CpuId, NodeId};
use crate::probe::{CopyOutcome, Probe, ProbeError, ProbeExt, Residency};
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt, WhyUnread};
use crate::workload::{
    CopyWorkload, Flow, LatencyWorkload, LoadWorkload, Placement, Sampling, StreamLoop, StreamOp,
    StreamWorkload,
};

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
    probe_stream(machine, &copy);
    probe_latency(machine, &copy);
}

/// What holds of where pages were found.
fn located(residency: &Residency) {
    let checked = residency.pages_checked.unwrap_or(0);
    assert!(residency.pages_misplaced <= checked, "more pages misplaced than looked at");
    assert_eq!(
        residency.found_on.is_some(),
        residency.pages_misplaced > 0,
        "where misplaced pages were found"
    );
}

/// STREAM on the source's node, by the same threads.
fn probe_stream(machine: &dyn Probe, copy: &CopyWorkload) {
    let stream = |op| StreamWorkload {
        op,
        stream_loop: StreamLoop::Ordinary,
        memory: copy.flow.source,
        placement: copy.placement.clone(),
        bytes_per_array: 4 << 20,
        pages: copy.pages,
        sampling: Sampling::Window { milliseconds: 30, slices: 3 },
    };
    for op in StreamOp::ALL {
        let outcome = machine.stream(&stream(op)).expect("STREAM that can run runs");
        assert_eq!(outcome.samples.len(), 3, "{op}: as many samples as slices");
        assert!(outcome.samples.iter().all(|sample| sample.bytes > 0 && sample.ns > 0), "{op}: of something");
        let sampled: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
        assert!(
            outcome.elapsed_ns >= sampled,
            "{op}: {} ns in all, {sampled} of samples",
            outcome.elapsed_ns
        );
        located(&outcome.residency);
    }
    let triad = stream(StreamOp::Triad);
    let sampling = Sampling::Repetitions { count: 2 };
    let repeated = machine.stream(&StreamWorkload { sampling, ..triad.clone() }).expect("it runs");
    let bytes = 3 * triad.bytes_per_array * triad.placement.cpus.len() as u64;
    assert!(repeated.samples.iter().all(|sample| sample.bytes == bytes), "every array counts once a pass");
    let refused = |change: &dyn Fn(&mut StreamWorkload)| {
        let mut stream = triad.clone();
        change(&mut stream);
        assert!(machine.stream(&stream).is_err(), "{stream:?} cannot run");
    };
    refused(&|stream| stream.memory = NO_SUCH_NODE);
    refused(&|stream| stream.placement.cpus = CpuSet::new());
    refused(&|stream| stream.placement.cpus = CpuSet::one(NO_SUCH_CPU));
    refused(&|stream| stream.bytes_per_array = 0);
    refused(&|stream| stream.bytes_per_array = u64::MAX);
    refused(&|stream| stream.bytes_per_array = 1 << 46);
}

/// A chain on the source's node, followed by the first of the threads while the others read.
fn probe_latency(machine: &dyn Probe, copy: &CopyWorkload) {
    let Some(cpu) = copy.placement.cpus.first() else { return };
    let memory = copy.flow.source;
    let idle = LatencyWorkload {
        cpu,
        memory,
        bytes: 4 << 20,
        stride_bytes: 256,
        pages: copy.pages,
        milliseconds: 30,
        slices: 3,
        load: None,
    };
    let others: CpuSet = copy.placement.cpus.iter().filter(|other| *other != cpu).collect();
    let placement = Placement { cpus: others.clone() };
    let load = LoadWorkload { placement, memory, bytes_per_thread: 4 << 20, gap_ns: 1000 };
    let loaded = LatencyWorkload { load: Some(load.clone()), ..idle.clone() };
    for latency in [&idle, &loaded].into_iter().take(if others.is_empty() { 1 } else { 2 }) {
        let outcome = machine.latency(latency).expect("a chase that can run runs");
        assert_eq!(outcome.samples.len(), 3, "as many samples as slices");
        assert!(outcome.samples.iter().all(|sample| sample.loads > 0 && sample.ns > 0), "of something");
        let sampled: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
        assert!(sampled >= 15_000_000 && outcome.elapsed_ns >= sampled, "{sampled} ns of samples");
        located(&outcome.residency);
        assert_eq!(outcome.load.is_some(), latency.load.is_some(), "a load is told of if there was one");
        if let Some(load) = outcome.load {
            assert!(load.bytes_read > 0 && load.ns > 0, "the others read");
            located(&load.residency);
        }
    }
    let refused = |change: &dyn Fn(&mut LatencyWorkload)| {
        let mut latency = idle.clone();
        change(&mut latency);
        assert!(machine.latency(&latency).is_err(), "{latency:?} cannot run");
    };
    refused(&|latency| latency.memory = NO_SUCH_NODE);
    refused(&|latency| latency.cpu = NO_SUCH_CPU);
    refused(&|latency| latency.bytes = 0);
    refused(&|latency| latency.bytes = 1 << 46);
    refused(&|latency| latency.stride_bytes = 0);
    refused(&|latency| latency.slices = 0);
    refused(&|latency| latency.milliseconds = 0);
    let own_cpu = Placement { cpus: CpuSet::one(cpu) };
    refused(&|latency| latency.load = Some(LoadWorkload { placement: own_cpu.clone(), ..load.clone() }));
    refused(&|latency| latency.load = Some(LoadWorkload { memory: NO_SUCH_NODE, ..load.clone() }));
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
    located(&outcome.residency);
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
