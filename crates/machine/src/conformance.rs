//! Conformance checks that every implementation of the machine traits runs.

use crate::control::{Change, Control, ControlError};
use crate::counters::Counter;
use crate::devices::{MmioRegister, PciAddress};
use crate::ids::{CpuId, NodeId};
use crate::locate::{
    DeviceNumber, Locate, LocateAnswer, LocateError, LocateExt, LocateQuery, PathFacts, PathKind, RouteFacts,
};
use crate::probe::{
    CopyOutcome, CountedOutcome, IoGroupOutcome, IoOutcome, LatencyOutcome, Outcome, Probe, ProbeError,
    ProbeExt, Residency, StreamOutcome, ToolExit,
};
use crate::set::CpuSet;
use crate::sysfs::{ReadError, ReadErrorKind, Sysfs, SysfsExt};
use crate::workload::{
    CopyLoop, CopyWorkload, CountedTarget, CountedWorkload, Flow, IoWorkload, LatencyWorkload, LoadWorkload,
    LoadedWorkload, MmioWorkload, NeighborLoad, Placement, ProgramWorkload, Sampling, StreamGroup,
    StreamLoad, StreamLoop, StreamOp, StreamWorkload, Workload,
};
use std::net::{IpAddr, Ipv4Addr};

/// A node that no tested machine has: Linux allows 1,024 nodes, and this is the last.
pub const NO_SUCH_NODE: NodeId = NodeId(1023);
/// A CPU that no tested machine has: Linux allows 8,192 CPUs.
pub const NO_SUCH_CPU: CpuId = CpuId(8191);

/// Passes the files that [`sysfs`] expects to a function that adds a file.
pub fn fill(mut file: impl FnMut(&str, &str)) {
    file("/sys/devices/pci0000:00/0000:00:03.0/net/eth0/speed", "1000\n");
    file("/sys/devices/pci0000:00/0000:00:03.0/numa_node", "-1\n");
    file("/sys/devices/system/node/online", "0-1\n");
    file("/proc/version", "Linux\n");
}

/// Passes the links that [`sysfs`] expects to a function that adds a link.
pub fn fill_links(mut link: impl FnMut(&str, &str)) {
    link("/sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0");
    link("/sys/devices/pci0000:00/0000:00:03.0/net/eth0/device", "../../../0000:00:03.0");
    link("/sys/class/outside", "../../../../../../proc/version");
    link("/sys/class/loop", "loop");
}

/// Checks an implementation of [`Sysfs`] whose root contains the output of [`fill`] and
/// [`fill_links`].
///
/// # Panics
/// At the first violation.
pub fn sysfs(root: &dyn Sysfs) {
    let why = |path: &str| root.read(path).expect_err(path).why;
    assert_eq!(root.read("/proc/version").expect("a complete file"), b"Linux\n");
    assert_eq!(root.text("/sys/class/net/eth0/speed").expect("through a link"), "1000");
    assert_eq!(root.text("/sys/class/net/eth0/device/numa_node").expect("through two links"), "-1");
    assert_eq!(why("/sys/absent"), ReadErrorKind::Absent);
    assert_eq!(why("/sys/devices/system/node"), ReadErrorKind::WrongKind);
    assert_eq!(root.list("/proc/version").expect_err("not a directory").why, ReadErrorKind::WrongKind);
    assert_eq!(root.list("/sys/devices/pci0000:00/0000:00:03.0").expect("a directory"), ["net", "numa_node"]);
    assert_eq!(root.list("/sys/class").expect("a directory with links"), ["loop", "net", "outside"]);
    assert_eq!(
        root.resolve("/sys/class/net/eth0/device").expect("links resolve"),
        "/sys/devices/pci0000:00/0000:00:03.0"
    );
    assert_eq!(root.resolve("/sys/absent").expect_err("a missing file").why, ReadErrorKind::Absent);
    assert_eq!(root.text("/sys/class/outside").expect("a link clamped to the root"), "Linux");
    assert!(root.read("/sys/class/loop").is_err(), "a loop of links fails");
    let device = "/sys/devices/pci0000:00/0000:00:03.0";
    assert_eq!(root.link_name("/sys/class/net/eth0/device").expect("a link"), "0000:00:03.0");
    assert_eq!(lines(root, "/proc/version").expect("lines"), ["Linux"]);
    assert_eq!(lines(root, "/sys/absent").expect_err("a missing file").why, ReadErrorKind::Absent);
    assert_eq!(lines(root, device).expect_err("a directory").why, ReadErrorKind::WrongKind);
    assert!(root.hold("/sys/absent").is_none());
    let Some(held) = root.hold(device) else { return };
    let same = |path: &str| {
        assert_eq!(held.read(path), root.read(path), "{path}");
        assert_eq!(held.list(path), root.list(path), "{path}");
        assert_eq!(held.resolve(path), root.resolve(path), "{path}");
        assert_eq!(held.link_name(path).ok(), root.link_name(path).ok(), "{path}");
    };
    [
        "numa_node",
        "absent",
        "net",
        "net/eth0/speed",
        "net/eth0/device",
        "net/eth0/device/numa_node",
        "numa_node/x",
    ]
    .iter()
    .for_each(|below| same(&format!("{device}/{below}")));
    ["", "/", "//numa_node", "/../0000:00:03.0/numa_node", "/../../..", "/net/../numa_node", "-x", "/a\0"]
        .iter()
        .for_each(|after| same(&format!("{device}{after}")));
    ["/proc/version", "/sys/class/outside", "/sys/class/loop", ""].into_iter().for_each(same);
}

/// Returns the lines of a file, without an empty one at its end.
fn lines(root: &dyn Sysfs, path: &str) -> Result<Vec<String>, ReadError> {
    let mut lines = Vec::new();
    root.lines(path, &mut |line| lines.push(String::from_utf8_lossy(line).into_owned()))?;
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    Ok(lines)
}

/// Duration and slices of the tested windows, and size of each buffer.
const MILLISECONDS: u32 = 30;
const SLICES: u32 = 3;
const WINDOW: Sampling = Sampling::Window { milliseconds: MILLISECONDS, slices: SLICES };
const BYTES: u64 = 4 << 20;

/// Checks an implementation of [`Probe`] on a copy that its machine can run.
///
/// `copy` contains a flow, CPUs and a loop; sizes and sampling are chosen here (4 MiB per thread,
/// some tens of milliseconds per run). STREAM runs on the same CPUs with the memory of the source.
/// The first CPU follows pointers there, alone and while the others load it.
///
/// # Panics
/// At the first violation.
pub fn probe(machine: &dyn Probe, copy: &CopyWorkload) {
    probe_copy(machine, copy);
    probe_stream(machine, copy);
    probe_latency(machine, copy);
    probe_loaded(machine, copy);
}

fn probe_copy(machine: &dyn Probe, copy: &CopyWorkload) {
    let copy = CopyWorkload { bytes_per_thread: BYTES, sampling: WINDOW, ..copy.clone() };
    some_run("a window of copies", || {
        is_window(ran(machine, &copy).samples.iter().map(|sample| (sample.bytes_copied, sample.ns)))
    });
    ran(machine, &copy);

    let repeated = CopyWorkload { sampling: Sampling::Repetitions { count: 4 }, ..copy.clone() };
    let samples = ran(machine, &repeated).samples;
    assert_eq!(samples.len(), 4, "a sample for each repetition");
    let bytes = repeated.bytes_per_thread * repeated.placement.cpus.len() as u64;
    assert!(samples.iter().all(|sample| sample.bytes_copied == bytes), "each thread copies its buffer once");

    probe_refuses(machine, &copy);
    ran(machine, &copy);
}

/// Runs a copy and checks general properties of the outcome.
fn ran(machine: &dyn Probe, copy: &CopyWorkload) -> CopyOutcome {
    let outcome = machine.copy(copy).expect("a valid copy");
    takes_time(outcome.elapsed_ns, outcome.samples.iter().map(|sample| sample.ns));
    resides(&outcome.residency);
    let by_library = copy.copy_loop == CopyLoop::Memcpy;
    assert!(by_library || outcome.c_library.is_none(), "only memcpy belongs to the C library");
    outcome
}

/// Requires one of several runs to succeed: on a real machine other programs can occupy the CPUs
/// for a complete window or longer.
const TRIES: u32 = 10;

fn some_run(what: &str, goes_well: impl Fn() -> bool) {
    assert!((0..TRIES).any(|_| goes_well()), "{what}: none of {TRIES} runs succeeded");
}

/// Checks samples in nanoseconds, independent of the machine's load.
fn takes_time(elapsed_ns: u64, mut ns: impl Iterator<Item = u64> + Clone) {
    let sampled: u64 = ns.clone().sum();
    assert!(ns.all(|ns| ns > 0), "samples have a duration");
    assert!(elapsed_ns >= sampled, "{elapsed_ns} ns in all, {sampled} ns of samples");
}

/// Returns whether slices of work and nanoseconds form a window: each contains work, and the total
/// time is not much longer than requested. The number of slices and the minimum time are checked
/// for every run.
fn is_window(slices: impl ExactSizeIterator<Item = (u64, u64)> + Clone) -> bool {
    assert_eq!(slices.len(), SLICES as usize, "a sample for each slice");
    let wanted_ns = u64::from(MILLISECONDS) * 1_000_000;
    let window_ns: u64 = slices.clone().map(|(_, ns)| ns).sum();
    assert!(window_ns >= wanted_ns / 2, "{window_ns} ns are too short for a window of {MILLISECONDS} ms");
    window_ns <= wanted_ns * 2 && slices.into_iter().all(|(work, _)| work > 0)
}

/// Checks a residency.
fn resides(residency: &Residency) {
    let checked = residency.pages_checked.unwrap_or(0);
    assert!(residency.pages_misplaced <= checked, "more misplaced pages than checked pages");
    assert_eq!(
        residency.misplaced_on.is_some(),
        residency.pages_misplaced > 0,
        "a node of misplaced pages only if there are some"
    );
}

/// Checks that an impossible workload fails.
fn probe_refuses(machine: &dyn Probe, copy: &CopyWorkload) {
    let run = |copy: CopyWorkload| machine.copy(&copy);
    let flows = [
        Flow { source: NO_SUCH_NODE, ..copy.flow },
        Flow { sink: NO_SUCH_NODE, ..copy.flow },
        Flow { source: NO_SUCH_NODE, sink: NO_SUCH_NODE },
    ];
    for flow in flows {
        assert!(run(CopyWorkload { flow, ..copy.clone() }).is_err(), "{flow}: missing node");
    }
    for cpus in absent_cpus(&copy.placement.cpus) {
        let what = format!("CPUs {cpus:?}");
        assert!(run(CopyWorkload { placement: Placement { cpus }, ..copy.clone() }).is_err(), "{what}");
    }
    assert!(run(CopyWorkload { bytes_per_thread: 0, ..copy.clone() }).is_err(), "zero bytes");
    assert!(run(CopyWorkload { bytes_per_thread: u64::MAX, ..copy.clone() }).is_err(), "overflowing sizes");
    match run(CopyWorkload { bytes_per_thread: 1 << 46, ..copy.clone() }) {
        Err(ProbeError::NoMemory { node, needed_bytes, free_bytes }) => {
            assert!(
                [copy.flow.source, copy.flow.sink].contains(&node),
                "the copy does not use memory of node {node}"
            );
            assert!(needed_bytes > free_bytes, "{needed_bytes} bytes fit into {free_bytes}");
        }
        other => panic!("expected NoMemory for 64 TiB per thread, got {other:?}"),
    }
}

/// Returns sets of CPUs that are empty or contain a missing CPU.
fn absent_cpus(of: &CpuSet) -> [CpuSet; 3] {
    let mut one_absent = of.clone();
    one_absent.insert(NO_SUCH_CPU);
    [CpuSet::new(), CpuSet::one(NO_SUCH_CPU), one_absent]
}

/// Sizes that no machine has.
const TOO_MUCH: [u64; 3] = [0, 1 << 46, u64::MAX];

fn probe_stream(machine: &dyn Probe, copy: &CopyWorkload) {
    let stream = StreamWorkload {
        op: StreamOp::Triad,
        stream_loop: StreamLoop::Ordinary,
        memory: copy.flow.source,
        placement: copy.placement.clone(),
        bytes_per_array: BYTES,
        pages: copy.pages,
        sampling: WINDOW,
    };
    some_run("a window of STREAM", || {
        is_window(ran_stream(machine, &stream).samples.iter().map(|sample| (sample.bytes, sample.ns)))
    });
    for op in StreamOp::ALL {
        let sampling = Sampling::Repetitions { count: 2 };
        let samples = ran_stream(machine, &StreamWorkload { op, sampling, ..stream.clone() }).samples;
        let bytes = BYTES * u64::from(op.arrays()) * stream.placement.cpus.len() as u64;
        assert_eq!(samples.len(), 2, "a sample for each repetition");
        assert!(samples.iter().all(|sample| sample.bytes == bytes), "{op}: each array counts once");
    }
    let refuses = |stream: StreamWorkload| assert!(machine.stream(&stream).is_err(), "{stream:?}");
    refuses(StreamWorkload { memory: NO_SUCH_NODE, ..stream.clone() });
    absent_cpus(&stream.placement.cpus)
        .into_iter()
        .for_each(|cpus| refuses(StreamWorkload { placement: Placement { cpus }, ..stream.clone() }));
    TOO_MUCH
        .into_iter()
        .for_each(|bytes_per_array| refuses(StreamWorkload { bytes_per_array, ..stream.clone() }));
    ran_stream(machine, &stream);
}

/// Runs STREAM and checks general properties of the outcome.
fn ran_stream(machine: &dyn Probe, stream: &StreamWorkload) -> StreamOutcome {
    let outcome = machine.stream(stream).expect("a valid workload");
    takes_time(outcome.elapsed_ns, outcome.samples.iter().map(|sample| sample.ns));
    resides(&outcome.residency);
    outcome
}

fn probe_latency(machine: &dyn Probe, copy: &CopyWorkload) {
    let Some(cpu) = copy.placement.cpus.first() else { return };
    let idle = LatencyWorkload {
        cpu,
        memory: copy.flow.source,
        bytes: BYTES,
        stride_bytes: 256,
        pages: copy.pages,
        milliseconds: MILLISECONDS,
        slices: SLICES,
        load: None,
    };
    let chase =
        |outcome: &LatencyOutcome| is_window(outcome.samples.iter().map(|sample| (sample.loads, sample.ns)));
    some_run("a window of loads", || chase(&ran_latency(machine, &idle)));
    let others: CpuSet = copy.placement.cpus.iter().filter(|other| *other != cpu).collect();
    let load = LoadWorkload {
        placement: Placement { cpus: others.clone() },
        memory: copy.flow.source,
        bytes_per_thread: BYTES,
        gap_ns: 0,
    };
    let loaded = |load: LoadWorkload| LatencyWorkload { load: Some(load), ..idle.clone() };
    if !others.is_empty() {
        for gap_ns in [0, 100_000] {
            let loaded = loaded(LoadWorkload { gap_ns, ..load.clone() });
            some_run("a window of loads under load", || {
                let outcome = ran_latency(machine, &loaded);
                let sampled: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
                let load = outcome.load.as_ref();
                let counted = load.filter(|load| load.bytes_read > 0).map(|load| load.ns);
                chase(&outcome) && counted.is_some_and(|ns| ns >= sampled / 2 && ns <= sampled * 2)
            });
        }
    }
    let refuses = |latency: LatencyWorkload| assert!(machine.latency(&latency).is_err(), "{latency:?}");
    refuses(LatencyWorkload { cpu: NO_SUCH_CPU, ..idle.clone() });
    refuses(LatencyWorkload { memory: NO_SUCH_NODE, ..idle.clone() });
    refuses(LatencyWorkload { stride_bytes: 0, ..idle.clone() });
    refuses(LatencyWorkload { slices: 0, ..idle.clone() });
    TOO_MUCH.into_iter().for_each(|bytes| refuses(LatencyWorkload { bytes, ..idle.clone() }));
    refuses(loaded(LoadWorkload { memory: NO_SUCH_NODE, ..load.clone() }));
    absent_cpus(&others)
        .into_iter()
        .chain([CpuSet::one(cpu)])
        .for_each(|cpus| refuses(loaded(LoadWorkload { placement: Placement { cpus }, ..load.clone() })));
    ran_latency(machine, &idle);
}

/// Runs a latency workload and checks general properties of the outcome.
fn ran_latency(machine: &dyn Probe, latency: &LatencyWorkload) -> LatencyOutcome {
    let outcome = machine.latency(latency).expect("a valid workload");
    takes_time(outcome.elapsed_ns, outcome.samples.iter().map(|sample| sample.ns));
    resides(&outcome.residency);
    assert_eq!(outcome.load.is_some(), latency.load.is_some(), "an outcome of the load if there is a load");
    if let Some(load) = &outcome.load {
        resides(&load.residency);
    }
    outcome
}

/// Checks a copy with STREAM threads beside it, on the same CPUs: more threads than CPUs.
fn probe_loaded(machine: &dyn Probe, copy: &CopyWorkload) {
    let threads = copy.placement.cpus.len() as u32 + 1;
    let load = StreamLoad {
        placement: copy.placement.clone(),
        threads,
        memory: copy.flow.source,
        bytes_per_array: BYTES,
    };
    let copy = CopyWorkload { bytes_per_thread: BYTES, sampling: WINDOW, ..copy.clone() };
    let beside = |workload: Workload, loads: &[StreamLoad]| LoadedWorkload {
        loads: loads.iter().cloned().map(NeighborLoad::Stream).collect(),
        workload: Box::new(workload),
    };
    let of_copy = |loads: &[StreamLoad]| beside(Workload::Copy(copy.clone()), loads);
    some_run("a window of copies under load", || {
        let outcome = machine.loaded(&of_copy(&[load.clone(), load.clone()])).expect("a valid workload");
        assert_eq!(outcome.loads.len(), 2, "an outcome for each load");
        outcome.loads.iter().for_each(|load| resides(&load.residency));
        let Outcome::Copy(copied) = *outcome.outcome else { panic!("the outcome of the workload") };
        outcome.loads.iter().all(|load| load.bytes.is_some_and(|bytes| bytes > 0) && load.ns > 0)
            && is_window(copied.samples.iter().map(|sample| (sample.bytes_copied, sample.ns)))
    });
    let refuses = |loaded: LoadedWorkload| assert!(machine.loaded(&loaded).is_err(), "{loaded}");
    refuses(of_copy(&[]));
    refuses(of_copy(&[StreamLoad { threads: 0, ..load.clone() }]));
    refuses(of_copy(&[StreamLoad { memory: NO_SUCH_NODE, ..load.clone() }]));
    absent_cpus(&copy.placement.cpus)
        .into_iter()
        .for_each(|cpus| refuses(of_copy(&[StreamLoad { placement: Placement { cpus }, ..load.clone() }])));
    TOO_MUCH
        .into_iter()
        .for_each(|bytes_per_array| refuses(of_copy(&[StreamLoad { bytes_per_array, ..load.clone() }])));
    refuses(beside(Workload::Loaded(of_copy(std::slice::from_ref(&load))), std::slice::from_ref(&load)));
    let absent = CopyWorkload { flow: Flow { source: NO_SUCH_NODE, ..copy.flow }, ..copy.clone() };
    refuses(beside(Workload::Copy(absent), std::slice::from_ref(&load)));
    ran(machine, &copy);
}

/// Checks I/O of an implementation of [`Probe`].
///
/// `io` contains a device of the machine and one group of streams; sampling is chosen here (some
/// tens of milliseconds per run). Impossible workloads are derived from it: without streams, with
/// missing CPUs or nodes, with requests of zero bytes.
///
/// # Panics
/// At the first violation.
pub fn io(machine: &dyn Probe, io: &IoWorkload) {
    let io = IoWorkload { sampling: WINDOW, ..io.clone() };
    some_run("a window of streams", || {
        let groups = ran_io(machine, &io).groups;
        groups.iter().all(|group| {
            group.requests > 0 && is_window(group.samples.iter().map(|sample| (sample.bytes, sample.ns)))
        })
    });
    let twice: Vec<StreamGroup> = io.groups.iter().chain(&io.groups).cloned().collect();
    ran_io(machine, &IoWorkload { groups: twice, ..io.clone() });
    let refuses = |io: IoWorkload| assert!(machine.io(&io).is_err(), "{io:?}");
    refuses(IoWorkload { groups: Vec::new(), ..io.clone() });
    refuses(IoWorkload { block_bytes: 0, ..io.clone() });
    refuses(IoWorkload { depth: 0, ..io.clone() });
    refuses(IoWorkload {
        sampling: Sampling::Window { milliseconds: MILLISECONDS, slices: 0 },
        ..io.clone()
    });
    let Some(group) = io.groups.first() else { return };
    let with = |group: StreamGroup| IoWorkload { groups: vec![group], ..io.clone() };
    refuses(with(StreamGroup { streams: 0, ..group.clone() }));
    refuses(with(StreamGroup { memory: NO_SUCH_NODE, ..group.clone() }));
    for cpus in absent_cpus(&group.cpus) {
        refuses(with(StreamGroup { cpus, ..group.clone() }));
    }
    ran_io(machine, &io);
}

/// Runs I/O and checks general properties of the outcome.
fn ran_io(machine: &dyn Probe, io: &IoWorkload) -> IoOutcome {
    let outcome = machine.io(io).expect("a valid workload");
    assert_eq!(outcome.groups.len(), io.groups.len(), "an outcome for each group");
    assert_eq!(outcome.interrupted, None, "the run is complete");
    let stretches = |group: &IoGroupOutcome| group.samples.iter().map(|sample| sample.ns).collect::<Vec<_>>();
    for group in &outcome.groups {
        takes_time(outcome.elapsed_ns, group.samples.iter().map(|sample| sample.ns));
        assert_eq!(stretches(group), stretches(&outcome.groups[0]), "all groups share the same intervals");
        resides(&group.residency);
    }
    outcome
}

/// Checks reads of a register of an implementation of [`Probe`].
///
/// `mmio` contains a register that the machine has, and a CPU; the numbers of reads are chosen
/// here.
///
/// # Panics
/// At the first violation.
pub fn mmio(machine: &dyn Probe, mmio: &MmioWorkload) {
    let mmio = MmioWorkload { reads: 20, slices: 3, ..mmio.clone() };
    let outcome = machine.mmio(&mmio).expect("a valid workload");
    assert_eq!((outcome.medians_ns.len(), outcome.reads), (3, 60), "all slices with all reads");
    assert!(outcome.medians_ns.iter().all(|median| *median >= outcome.min_ns), "{outcome:?}");
    assert!(outcome.p99_ns >= outcome.min_ns && outcome.elapsed_ns > outcome.p99_ns, "{outcome:?}");
    assert!(outcome.all_ones <= outcome.reads, "{outcome:?}");
    let refuses = |mmio: MmioWorkload| {
        let refused = machine.mmio(&mmio);
        assert!(matches!(refused, Err(ProbeError::Refused { .. })), "{mmio}: {refused:?}");
    };
    let register = mmio.register;
    refuses(MmioWorkload { reads: 0, ..mmio.clone() });
    refuses(MmioWorkload { slices: 0, ..mmio.clone() });
    refuses(MmioWorkload { reads: u32::MAX, slices: u32::MAX, ..mmio.clone() });
    refuses(MmioWorkload { cpu: NO_SUCH_CPU, ..mmio.clone() });
    let other = |register: MmioRegister| refuses(MmioWorkload { register, ..mmio.clone() });
    other(MmioRegister { offset: register.offset + 1, ..register });
    other(MmioRegister { offset: 1 << 40, ..register });
    other(MmioRegister { offset: u64::MAX - 3, ..register });
    other(MmioRegister { bar: 5, ..register });
    other(MmioRegister { pci: PciAddress { domain: 0xabcd, ..register.pci }, ..register });
}

/// Checks programs of an implementation of [`Probe`].
///
/// `program` prints something, succeeds on its CPUs and node, and is not affected by its arguments.
///
/// # Panics
/// At the first violation.
pub fn program(machine: &dyn Probe, program: &ProgramWorkload) {
    let outcome = machine.program(program).expect("a valid workload");
    assert_eq!(outcome.output.exit, ToolExit::Status(0));
    assert!(outcome.elapsed_ns > 0 && !outcome.output.stdout.is_empty(), "{outcome:?}");
    resides(&outcome.residency);
    let refuses = |program: ProgramWorkload| {
        let refused = machine.program(&program);
        assert!(matches!(refused, Err(ProbeError::Refused { .. })), "{program}: {refused:?}");
    };
    refuses(ProgramWorkload { command: Vec::new(), ..program.clone() });
    refuses(ProgramWorkload { memory: NO_SUCH_NODE, ..program.clone() });
    for cpus in [CpuSet::new(), CpuSet::one(NO_SUCH_CPU)] {
        refuses(ProgramWorkload { placement: Placement { cpus }, ..program.clone() });
    }
    let absent = ProgramWorkload { command: vec![NO_SUCH_PATH.to_owned()], ..program.clone() };
    let unsupported = ProbeError::Unsupported { feature: NO_SUCH_PATH.to_owned() };
    assert_eq!(machine.program(&absent), Err(unsupported), "a missing program");
}

/// Checks counted workloads of an implementation of [`Probe`], on a copy that its machine can run.
///
/// Each counter has a count or a reason, whatever the machine can count.
///
/// # Panics
/// At the first violation.
pub fn counted(machine: &dyn Probe, copy: &CopyWorkload) {
    let copy = CopyWorkload { bytes_per_thread: BYTES, sampling: WINDOW, ..copy.clone() };
    let stream = StreamWorkload {
        op: StreamOp::Copy,
        stream_loop: StreamLoop::Ordinary,
        memory: copy.flow.source,
        placement: copy.placement.clone(),
        bytes_per_array: BYTES,
        pages: copy.pages,
        sampling: WINDOW,
    };
    let all = Counter::ALL.to_vec();
    let of = |target| CountedWorkload { counters: all.clone(), target };
    let outcome = ran_counted(machine, &of(CountedTarget::Copy(copy.clone())));
    assert!(matches!(outcome.outcome.as_deref(), Some(Outcome::Copy(_))), "the copy's outcome");
    let outcome = ran_counted(machine, &of(CountedTarget::Stream(stream.clone())));
    assert!(matches!(outcome.outcome.as_deref(), Some(Outcome::Stream(_))), "the outcome of STREAM");
    let few = CountedWorkload {
        counters: vec![Counter::PageFaults, Counter::NumaHit],
        target: CountedTarget::Stream(stream.clone()),
    };
    ran_counted(machine, &few);
    let refuses =
        |target: CountedTarget| assert!(machine.counted(&of(target.clone())).is_err(), "{target:?}");
    refuses(CountedTarget::Stream(StreamWorkload { memory: NO_SUCH_NODE, ..stream }));
    refuses(CountedTarget::Process { pid: NO_SUCH_PROCESS, milliseconds: 1 });
    refuses(CountedTarget::Command { command: Vec::new(), time_limit_ms: 1000 });
    let command = vec![NO_SUCH_PATH.to_owned()];
    refuses(CountedTarget::Command { command, time_limit_ms: 1000 });
}

/// Runs a counted workload and checks general properties of the outcome.
fn ran_counted(machine: &dyn Probe, workload: &CountedWorkload) -> CountedOutcome {
    let outcome = machine.counted(workload).expect("a valid workload");
    assert!(outcome.elapsed_ns >= outcome.counted_ns && outcome.counted_ns > 0, "counted in the run");
    for counter in Counter::ALL {
        let counts = outcome.counts.iter().filter(|count| count.counter == counter).count();
        let reasons = outcome.missing.iter().filter(|missing| missing.counter == counter).count();
        let is_wanted = workload.counters.contains(&counter);
        assert_eq!(is_wanted, (counts > 0) != (reasons > 0), "{counter}: a count or a reason if requested");
        assert!(reasons <= 1, "{counter}: one reason");
    }
    for count in &outcome.counts {
        assert!(count.running_ns <= count.enabled_ns, "{count:?}");
        assert!(!count.event.is_empty(), "{count:?}");
    }
    assert!(outcome.missing.iter().all(|missing| !missing.reason.is_empty()), "{:?}", outcome.missing);
    outcome
}

/// A path that no machine has.
const NO_SUCH_PATH: &str = "/no/such/path";
/// A process id that no machine has: Linux allows 2^22.
const NO_SUCH_PROCESS: u32 = u32::MAX;
/// The loopback address.
const SELF: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Passes the answers that [`locate`] expects of every machine to a function that adds an answer.
pub fn fill_answers(mut answer: impl FnMut(LocateQuery, Result<LocateAnswer, LocateError>)) {
    let on = DeviceNumber { major: 8, minor: 1 };
    let path = |canonical: &str, kind, is| {
        Ok(LocateAnswer::Path(PathFacts {
            canonical: canonical.to_owned(),
            kind,
            dev: on,
            rdev: is,
            mount: Some(27),
        }))
    };
    let at = |path: &str| LocateQuery::Path { path: path.to_owned() };
    let null = DeviceNumber { major: 1, minor: 3 };
    answer(at("/"), path("/", PathKind::Directory, None));
    answer(at("/dev/../dev/null"), path("/dev/null", PathKind::Character, Some(null)));
    answer(at(NO_SUCH_PATH), Err(LocateError::Absent(format!("path {NO_SUCH_PATH}"))));
    answer(LocateQuery::Addresses { host: SELF.to_string() }, Ok(LocateAnswer::Addresses(vec![SELF])));
    let (interface, source) = ("lo".to_owned(), Some(SELF));
    let route = RouteFacts { interface, gateway: None, source, table: 255, weight: 1 };
    answer(LocateQuery::Routes { destination: SELF }, Ok(LocateAnswer::Routes(vec![route])));
    let pid = NO_SUCH_PROCESS;
    answer(LocateQuery::Opened { pid }, Err(LocateError::Absent(format!("process {pid}"))));
}

/// Checks an implementation of [`Locate`] with queries that every machine answers.
///
/// An implementation without a kernel contains the output of [`fill_answers`].
///
/// # Panics
/// At the first violation.
pub fn locate(machine: &dyn Locate) {
    let root = machine.path("/").expect("every machine has a root");
    assert_eq!((root.canonical.as_str(), root.kind, root.rdev), ("/", PathKind::Directory, None));
    let null = machine.path("/dev/../dev/null").expect("every machine has /dev/null");
    assert_eq!(null.canonical, "/dev/null", "the path is canonical");
    assert_eq!(null.kind, PathKind::Character);
    assert_eq!(null.rdev.expect("a device file has a number").to_string(), "1:3");
    let absent = machine.path(NO_SUCH_PATH).expect_err(NO_SUCH_PATH);
    assert!(matches!(absent, LocateError::Absent(_)), "{absent:?}");

    assert_eq!(machine.addresses("127.0.0.1").expect("a literal address"), [SELF]);
    let routes = machine.routes(SELF).expect("a route to itself");
    assert_eq!(routes.len(), 1, "{routes:?}");
    assert_eq!(routes[0].interface, "lo", "local traffic uses the loopback interface");
    assert!(routes[0].weight >= 1, "weights start at 1");
    assert_eq!(routes[0].gateway, None);

    let absent = machine.opened(NO_SUCH_PROCESS).expect_err("no such process");
    assert!(matches!(absent, LocateError::Absent(_)), "{absent:?}");
}

/// Checks an implementation of [`Control`] with a change that its machine supports: the returned
/// inverse restores the previous state, and its own inverse is the change.
///
/// # Errors
/// The first change failed, for example for lack of privileges; nothing was checked.
///
/// # Panics
/// At the first violation.
pub fn control(machine: &dyn Control, change: &Change) -> Result<(), ControlError> {
    let inverse = machine.apply(change)?;
    let again = machine.apply(&inverse).expect("the inverse change");
    assert_eq!(again, *change, "the inverse of the inverse is the change");
    assert_eq!(machine.apply(change).expect("the change again"), inverse, "the first state was restored");
    machine.apply(&inverse).expect("the inverse change");
    Ok(())
}
