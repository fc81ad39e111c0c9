use super::*;
use numaio_machine::counters::{Counter, CounterSource, FileCount, KernelCounts, MissingCounter};
use numaio_machine::devices::{Device, DeviceCounters, DeviceKind, MovedBytes};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::programs::{
    IoRates, ObservedProgram, ProgramDetails, ProgramMemory, ProgramRates, ProgramSample, ThreadSample,
};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_schema::{
    CapacityState, DeviceUse, LentCapacity, Nearness, QueuedTransfer, RemoteFrom, TopProgram, TopSnapshot,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Two CPUs on each node.
fn node_of(cpu: CpuId) -> Option<NodeId> {
    Some(NodeId(cpu.0 / 2))
}

fn thread(tid: u32, cpu: u32) -> ThreadSample {
    ThreadSample {
        tid,
        start_time: 1,
        cpu: CpuId(cpu),
        ticks: 1,
        state: 'R',
        is_real_time: false,
        allowed: Some(CpuSet::one(CpuId(cpu))),
    }
}

fn observed(pid: u32, cpus: f64) -> ObservedProgram {
    let details = ProgramDetails {
        threads: vec![thread(pid, 2), thread(pid + 1, 6)],
        control_group: Some("/system.slice/db.service".to_owned()),
        ..ProgramDetails::default()
    };
    let sample = ProgramSample {
        pid,
        start_time: 5,
        parent: 1,
        name: "db".to_owned(),
        is_kernel_thread: false,
        ticks: 1,
        cpu: CpuId(2),
        io: None,
        details: Some(details),
        memory: None,
    };
    let rates = ProgramRates { seconds: 2.0, cpus, ..ProgramRates::default() };
    ObservedProgram { sample, rates: Some(rates), is_active: cpus > 0.05 }
}

fn inspection(private: &[(u32, u64)]) -> ProgramInspection {
    let private = private.iter().map(|(node, bytes)| (NodeId(*node), *bytes)).collect();
    ProgramInspection {
        memory: Some(ProgramMemory { private, ..ProgramMemory::default() }),
        ..ProgramInspection::default()
    }
}

fn used_device() -> DeviceUse {
    DeviceUse {
        device: "sda".to_owned(),
        node: Some(NodeId(3)),
        share: Some(1.0),
        reached_via: String::new(),
    }
}

fn nearness(threads: f64, memory: Option<f64>) -> Option<Nearness> {
    Some(Nearness { near: NodeSet::one(NodeId(3)), threads: Some(threads), memory, bandwidth_loss: None })
}

#[test]
fn remote_share_weighs_memory_by_the_cpu_time_of_nodes() {
    // Half of the threads on node 1, half on node 3; three quarters of the memory on node 1.
    let program = top_program(&observed(7, 1.0), Some(&inspection(&[(1, 300), (3, 100)])), &node_of);
    let remote = program.remote.expect("a place");
    assert_eq!((remote.share, remote.from), (0.5, RemoteFrom::Memory));
    assert_eq!(program.unit.as_deref(), Some("db.service"));
    assert_eq!(program.allowed.as_ref().map(CpuSet::len), Some(2));
    // All CPU time on node 1: then only memory on other nodes is remote.
    let mut busy = observed(7, 1.0);
    busy.rates.as_mut().expect("rates").cpus_on = [(NodeId(1), 1.0)].into_iter().collect();
    let program = top_program(&busy, Some(&inspection(&[(1, 300), (3, 100)])), &node_of);
    assert_eq!(program.remote.expect("a place").share, 0.25);
    // Without permission to read memory the share is unknown.
    assert_eq!(top_program(&busy, None, &node_of).remote, None);
}

#[test]
fn remote_share_of_a_program_with_devices_is_the_larger_one() {
    let inspected = ProgramInspection {
        devices: vec![used_device()],
        nearness: nearness(0.75, Some(0.25)),
        ..inspection(&[(1, 3), (3, 1)])
    };
    let mut program = top_program(&observed(7, 1.0), Some(&inspected), &node_of);
    let remote = program.remote.expect("a place");
    assert_eq!((remote.share, remote.from), (0.75, RemoteFrom::Devices));
    assert_eq!(remote_advice(&program).as_deref(), Some("move to node 3 (sda)"));
    program.nearness = nearness(1.0, Some(0.5));
    assert_eq!(remote_advice(&program).as_deref(), Some("move memory to node 3 (sda)"));
    program.nearness.as_mut().expect("a device").bandwidth_loss = Some(0.0);
    assert_eq!(remote_advice(&program), None, "a move gains nothing");
    program.nearness = nearness(1.0, None);
    assert_eq!(remote_advice(&program), None, "near");
}

fn program(pid: u32, cpus: Option<f64>, io: f64) -> TopProgram {
    let io = Some(IoRates { storage_read: io, ..IoRates::default() });
    TopProgram { pid, name: format!("Prog{pid}"), cpus, io, ..TopProgram::default() }
}

fn snapshot() -> TopSnapshot {
    let mut programs = vec![
        program(1, Some(0.0), 0.0),
        program(2, Some(0.5), 9.0),
        program(3, None, 10.0),
        program(4, Some(0.5), 8.0),
    ];
    programs[3].devices.push(used_device());
    programs[2].unit = Some("backup.service".to_owned());
    TopSnapshot { programs, ..TopSnapshot::default() }
}

fn arranged(sort: ProgramSort, filter: &str) -> Vec<u32> {
    let snapshot = snapshot();
    let order = arrange(&snapshot, sort, &ProgramFilter::new(filter));
    order.into_iter().map(|index| snapshot.programs[index].pid).collect()
}

#[test]
fn programs_are_sorted_with_unknown_values_last() {
    assert_eq!(arranged(ProgramSort::Cpu, ""), [2, 4, 1, 3]);
    assert_eq!(arranged(ProgramSort::Io, ""), [3, 2, 4, 1]);
    assert_eq!(arranged(ProgramSort::Pid, ""), [1, 2, 3, 4]);
    assert_eq!(arranged(ProgramSort::Remote, ""), [2, 4, 1, 3], "all unknown: by CPU time");
    assert_eq!(ProgramSort::Pid.next(), ProgramSort::Cpu);
}

#[test]
fn filter_searches_names_units_devices_and_process_ids() {
    assert_eq!(arranged(ProgramSort::Pid, " PROG "), [1, 2, 3, 4]);
    assert_eq!(arranged(ProgramSort::Pid, "backup"), [3]);
    assert_eq!(arranged(ProgramSort::Pid, "sda"), [4]);
    assert_eq!(arranged(ProgramSort::Pid, "2"), [2]);
    assert!(arranged(ProgramSort::Pid, "xyz").is_empty());
}

#[test]
fn recordings_omit_and_count_idle_programs() {
    let mut snapshot = snapshot();
    snapshot.programs[2].io = None;
    let kept = without_idle_programs(snapshot);
    let pids: Vec<u32> = kept.programs.iter().map(|program| program.pid).collect();
    assert_eq!((pids, kept.omitted_programs), (vec![2, 4], 2));
}

#[test]
fn inspection_starts_with_visible_programs_and_is_bounded() {
    let observed: Vec<ObservedProgram> =
        [(1, 0.0), (2, 0.3), (3, 0.9), (4, 0.6)].into_iter().map(|(pid, cpus)| observed(pid, cpus)).collect();
    let order = |focus: &[u32], fresh: &[u32], most| {
        inspection_order(&observed, focus, &fresh.iter().copied().collect::<BTreeSet<u32>>(), most)
    };
    assert_eq!(order(&[1, 99, 2], &[], 9), [1, 2, 3, 4]);
    assert_eq!(order(&[1], &[3], 2), [1, 4]);
    assert_eq!(order(&[], &[], 1), [3]);
}

#[test]
fn device_rates_are_unknown_after_a_reset() {
    let device = |kind, name: &str| Device { kind, ..test_device(name) };
    let devices = [device(DeviceKind::Block, "sdb"), device(DeviceKind::Network, "eth0")];
    let counters = |moved: [(u64, u64); 2]| -> DeviceCounters {
        moved.into_iter().map(|(read, write)| Some(MovedBytes { read, write })).collect()
    };
    let (before, after) = (counters([(100, 0), (50, 50)]), counters([(300, 10), (20, 60)]));
    let found = top_devices(&devices, Some(&before), &after, 2.0);
    let rates: Vec<_> = found
        .iter()
        .map(|device| (device.name.as_str(), device.read_bytes_per_s, device.write_bytes_per_s))
        .collect();
    assert_eq!(rates, [("eth0", None, Some(5.0)), ("sdb", Some(100.0), Some(5.0))]);
    assert_eq!(top_devices(&devices, None, &after, 0.0)[0].read_bytes_per_s, None);
}

fn test_device(name: &str) -> Device {
    Device {
        kind: DeviceKind::Block,
        names: vec![name.to_owned()],
        name_classes: Default::default(),
        pci: None,
        path: String::new(),
        ids: None,
        class: None,
        model: String::new(),
        driver: None,
        locality: Default::default(),
        link: None,
        upstream: Vec::new(),
        power: None,
        irqs: Vec::new(),
        sriov: None,
        port_bits_per_s: None,
    }
}

#[test]
fn traffic_is_a_rate_or_has_a_reason() {
    let counts = |value: u64| {
        let count = FileCount { source: CounterSource::Resctrl, event: String::new(), value };
        let mut counts = KernelCounts::default();
        counts.counts.insert((Counter::MbmTotalBytes, Some(NodeId(1))), count);
        counts
    };
    let (traffic, unknown) = node_traffic(Some(&counts(100)), &counts(500), 2.0);
    assert_eq!((traffic[&NodeId(1)].total_bytes_per_s, unknown), (Some(200.0), None));
    assert!(node_traffic(None, &counts(500), 0.0).0.is_empty());
    let mut none = KernelCounts::default();
    none.missing.push(MissingCounter {
        counter: Counter::MbmTotalBytes,
        source: CounterSource::Resctrl,
        reason: "no resctrl".to_owned(),
    });
    assert_eq!(node_traffic(None, &none, 1.0).1.expect("a reason").reason, "no resctrl");
}

#[test]
fn transfers_get_rates_only_since_their_own_earlier_count() {
    let queued = |what: &str, bytes: u64| {
        daemon_transfer(&QueuedTransfer {
            user: "ada".to_owned(),
            subject: what.to_owned(),
            devices: vec!["sda (read)".to_owned()],
            bytes,
            capacity: LentCapacity { state: CapacityState::Transferring, ..LentCapacity::default() },
        })
    };
    let mut after = [queued("data", 300), queued("new", 100), queued("old", 5)];
    add_transfer_rates(&[queued("old", 50), queued("data", 100)], &mut after, 2.0);
    assert_eq!(after.map(|transfer| transfer.bytes_per_s), [Some(100.0), None, None]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn remote_share_is_a_share(memory in prop::collection::vec((0u32..4, 0u64..u64::MAX), 0..6)) {
        let program = top_program(&observed(7, 1.0), Some(&inspection(&memory)), &node_of);
        if let Some(remote) = program.remote {
            prop_assert!((0.0..=1.0).contains(&remote.share));
        }
    }
}

#[test]
fn move_commands_name_cpus_of_the_device_and_the_reversal() {
    let topology = crate::placement::tests::machine(4, 2);
    let inspected = ProgramInspection {
        devices: vec![used_device()],
        nearness: nearness(0.5, Some(0.5)),
        ..inspection(&[(1, 3), (3, 1)])
    };
    let program = top_program(&observed(7, 1.0), Some(&inspected), &node_of);
    let found = move_commands(&topology, &program).expect("a move");
    assert_eq!(found.commands, ["taskset -a -p -c 6-7,14-15 7", "migratepages 7 1 3"]);
    assert_eq!(found.undo, ["taskset -a -p -c 2,6 7", "migratepages 7 3 1"]);
    let without = TopProgram { devices: Vec::new(), ..program.clone() };
    assert!(move_commands(&topology, &without).is_err());
    assert!(move_commands(&Topology::default(), &program).expect_err("no CPUs").contains("no usable CPUs"));
}
