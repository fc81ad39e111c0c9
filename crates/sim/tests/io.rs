//! I/O of simulated devices.

use numaio_machine::conformance;
use numaio_machine::devices::DeviceKind;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, ProbeExt};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{
    Direction, DiskMethod, DiskOrder, DiskPath, IoPath, IoWorkload, Sampling, StreamGroup, TcpPath,
};
use numaio_sim::spec::{IoRates, IoSpec, Misplaced, SharingRule};
use numaio_sim::{shapes, Simulated, Spec};
use proptest::prelude::*;
use Direction::{Read, Write};

fn disk(name: &str) -> IoPath {
    IoPath::Disk(DiskPath {
        path: format!("/dev/{name}"),
        offset: 0,
        bytes: 1 << 30,
        method: DiskMethod::Uring,
        direct: true,
        order: DiskOrder::Sequential,
    })
}

/// Streams of each node's own CPUs.
fn io(spec: &Spec, through: IoPath, groups: &[(u32, u32, Direction)]) -> IoWorkload {
    let group = |(node, streams, direction): &(u32, u32, Direction)| StreamGroup {
        cpus: spec.node(NodeId(*node)).map(|node| node.cpus.clone()).unwrap_or_default(),
        memory: NodeId(*node),
        streams: *streams,
        direction: *direction,
        device: 0,
    };
    IoWorkload {
        path: through,
        others: Vec::new(),
        groups: groups.iter().map(group).collect(),
        block_bytes: 128 << 10,
        depth: 16,
        sampling: Sampling::Window { milliseconds: 100, slices: 5 },
        max_bytes: None,
    }
}

/// In Gbit/s, by group.
fn truth(spec: &Spec, through: IoPath, groups: &[(u32, u32, Direction)]) -> Vec<f64> {
    let machine = Simulated::new(spec.clone()).expect("a machine");
    let rates = machine.io_truth(&io(spec, through, groups)).expect("it runs");
    rates.into_iter().map(|rate| (rate * 8e-9 * 1e6).round() / 1e6).collect()
}

#[test]
fn simulated_io_passes_the_conformance_checks() {
    let spec = shapes::dl585();
    let machine = Simulated::new(spec.clone()).expect("a machine");
    let tcp = IoPath::Tcp(TcpPath {
        peer: "192.0.2.7:5201".into(),
        peer_placement: None,
        congestion: None,
        rail: None,
    });
    for through in [disk("nvme0n1"), tcp] {
        conformance::io(&machine, &io(&spec, through, &[(3, 2, Write)]));
    }
}

#[test]
fn nodes_are_limited_by_their_paths_and_share_the_cap() {
    let spec = shapes::dl585();
    let of = |groups: &[(u32, u32, Direction)]| truth(&spec, disk("nvme0n1"), groups);
    assert_eq!(of(&[(2, 1, Write)]), [18.0]);
    assert_eq!(of(&[(2, 8, Write)]), [18.0]);
    assert_eq!(
        of(&[(7, 3, Write), (0, 1, Write)]),
        [14.4, 14.4],
        "nodes share equally, whatever their streams"
    );
    // Node 4's path carries 18.5 of a cap of 34.7: a third each is below it.
    assert_eq!(of(&[(4, 1, Read), (6, 1, Read)]), [17.35, 17.35]);
    assert_eq!(of(&[(2, 1, Write), (2, 3, Write)]), [4.5, 13.5], "streams of a node share its path");
    assert_eq!(of(&[(2, 1, Write), (2, 1, Read)]), [18.0, 33.1], "directions are independent");
}

#[test]
fn streams_have_individual_limits() {
    let spec = shapes::dl585();
    let tcp = || {
        IoPath::Tcp(TcpPath {
            peer: "192.0.2.7:5201".into(),
            peer_placement: None,
            congestion: None,
            rail: None,
        })
    };
    let of = |groups: &[(u32, u32, Direction)]| truth(&spec, tcp(), groups);
    assert_eq!(of(&[(2, 1, Write)]), [9.0]);
    assert_eq!(of(&[(2, 4, Write)]), [16.0]);
    // The other nodes get what the single stream of node 7 leaves of the cap of 30.
    assert_eq!(of(&[(7, 1, Write), (0, 8, Write)]), [9.0, 21.0]);
}

#[test]
fn rejects_invalid_io() {
    let spec = shapes::dl585();
    let machine = Simulated::new(spec.clone()).expect("a machine");
    let run = |io: &IoWorkload| machine.io(io);
    let absent = io(&spec, disk("nvme7n1"), &[(0, 1, Read)]);
    assert!(matches!(run(&absent), Err(ProbeError::Unsupported { .. })));
    let none = io(&spec, IoPath::Gpu { device: 0 }, &[(0, 1, Read)]);
    assert!(matches!(run(&none), Err(ProbeError::Unsupported { .. })));
    let good = io(&spec, disk("nvme0n1"), &[(0, 1, Read)]);
    let many = IoWorkload {
        groups: vec![StreamGroup { streams: 1 << 20, ..good.groups[0].clone() }],
        ..good.clone()
    };
    assert!(matches!(run(&many), Err(ProbeError::Refused { .. })));
    let foreign = StreamGroup { cpus: CpuSet::parse_list("900").expect("CPUs"), ..good.groups[0].clone() };
    assert!(run(&IoWorkload { groups: vec![foreign], ..good.clone() }).is_err());
    let repeated = IoWorkload { sampling: Sampling::Repetitions { count: 3 }, ..good };
    assert!(matches!(run(&repeated), Err(ProbeError::Refused { .. })));
}

#[test]
fn byte_limit_ends_a_run_early() {
    let spec = shapes::dl585();
    let machine = Simulated::new(spec.clone()).expect("a machine");
    // 28.8 Gbit/s for 20 ms are 72 MB a slice; the first is the warm-up.
    let limited = |most| {
        let io = IoWorkload { max_bytes: Some(most), ..io(&spec, disk("nvme0n1"), &[(7, 1, Write)]) };
        machine.io(&io).expect("it runs")
    };
    assert_eq!(limited(220_000_000).groups[0].samples.len(), 2);
    assert!(limited(220_000_000).interrupted.is_some_and(|why| why.contains("220000000")));
    assert_eq!((limited(u64::MAX).groups[0].samples.len(), limited(u64::MAX).interrupted), (5, None));
}

#[test]
fn misplaced_pages_are_reported_and_slow() {
    let mut spec = shapes::dl585();
    spec.noise.misplaced = vec![Misplaced { node: NodeId(7), found_on: NodeId(2), share: 0.5 }];
    let [rate] = truth(&spec, disk("nvme0n1"), &[(7, 1, Write)])[..] else { panic!("one group") };
    assert!((rate - 2.0 / (1.0 / 28.8 + 1.0 / 18.0)).abs() < 1e-3, "{rate}");
    let machine = Simulated::new(spec.clone()).expect("a machine");
    let outcome = machine.io(&io(&spec, disk("nvme0n1"), &[(7, 1, Write)])).expect("it runs");
    assert!(outcome.groups[0].residency.pages_misplaced > 0);
}

#[test]
fn rejects_invalid_rates() {
    let with = |change: fn(&mut IoSpec)| {
        let mut spec = shapes::dl585();
        spec.devices.iter_mut().filter_map(|device| device.io.as_mut()).for_each(change);
        spec.check()
    };
    assert!(with(|_| {}).is_ok());
    for change in [
        (|io| io.write.cap = 0.0) as fn(&mut IoSpec),
        |io| io.read.nodes[3] = f64::NAN,
        |io| io.read.stream = Some(-1.0),
        |io| io.write.nodes.truncate(7),
    ] {
        assert!(with(change).is_err());
    }
    let spec = shapes::dl585();
    assert_eq!(Spec::from_json(&spec.to_json()).expect("a description"), spec);
}

/// Stalls of 4 % of the time raise the median of samples by that much, and not their mean.
#[test]
fn stalls_raise_the_median_of_samples_above_the_mean() {
    let mut spec = shapes::dl585();
    for device in spec.devices.iter_mut().filter(|device| device.io.is_some()) {
        let rates = IoRates { stalls: Some(0.04), ..device.io.as_ref().expect("rates").read.clone() };
        device.io = Some(IoSpec { write: rates.clone(), read: rates });
    }
    let machine = Simulated::new(spec.clone()).expect("a machine");
    let mut workload = io(&spec, disk("nvme0n1"), &[(7, 1, Read)]);
    workload.sampling = Sampling::Window { milliseconds: 4000, slices: 40 };
    let truth: f64 = machine.io_truth(&workload).expect("it runs").iter().sum();
    let outcome = machine.io(&workload).expect("it runs");
    let mut samples: Vec<f64> = outcome.groups[0].samples.iter().map(|sample| sample.bytes_per_s()).collect();
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    samples.sort_by(f64::total_cmp);
    assert!((mean / truth - 1.0).abs() < 1e-3, "{mean} {truth}");
    assert!((samples[20] / truth - 1.0 / 0.96).abs() < 1e-3, "{} {truth}", samples[20]);
}

/// Table 2 of Bo (2016): throughput of a guest with an SR-IOV NIC by the nodes of its CPUs and its
/// memory and by message size. Both local is best, both remote is worst of the three placements
/// with an order in the paper, and long messages are faster.
#[test]
fn streams_of_a_guest_depend_on_the_nodes_of_its_cpus_and_memory() {
    let mut spec = shapes::uniform(2, 4);
    let mut nic = shapes::device(DeviceKind::Network, shapes::pci(0, 0x3b, 0, 0), 8.0, 8);
    (nic.node, nic.names) = (Some(NodeId(0)), vec!["eth0".to_owned()]);
    let rates = IoRates {
        nodes: vec![12e9; 2],
        cap: 12e9,
        stream: None,
        sharing: SharingRule::Bytes,
        stalls: None,
        copied: true,
    };
    nic.io = Some(IoSpec { write: rates.clone(), read: rates });
    spec.devices.push(nic);
    let machine = Simulated::new(spec.clone()).expect("a machine");
    let (local, remote) = (0, 1);
    let rate = |cpus: u32, memory: u32, direction: Direction, bytes: u64| {
        let tcp =
            TcpPath { peer: "192.0.2.7:5201".into(), peer_placement: None, congestion: None, rail: None };
        let mut workload = io(&spec, IoPath::Tcp(tcp), &[(cpus, 1, direction)]);
        workload.groups[0].memory = NodeId(memory);
        (workload.block_bytes, workload.depth) = (bytes, 1);
        machine.io_truth(&workload).expect("it runs")[0]
    };
    for direction in [Write, Read] {
        let mut last = 0.0;
        for bytes in [1_024, 5_120, 16_384, 51_200, 1_024_000] {
            let [both_local, memory_remote, both_remote] =
                [(local, local), (local, remote), (remote, remote)]
                    .map(|(cpus, memory)| rate(cpus, memory, direction, bytes));
            assert!(
                both_local > memory_remote && memory_remote > both_remote && both_local > last,
                "{direction:?} {bytes}: {both_local:.3e} {memory_remote:.3e} {both_remote:.3e}"
            );
            last = both_local;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No node exceeds its path; the total is at the cap unless every node is at its own limit.
    #[test]
    fn limits_hold_and_the_cap_is_fully_used(
        paths in proptest::collection::vec(1.0f64..50.0, 8),
        cap in 5.0f64..100.0,
        stream in proptest::option::of(1.0f64..20.0),
        streams in proptest::collection::vec(0u32..5, 8),
    ) {
        let groups: Vec<(u32, u32, Direction)> =
            (0..).zip(&streams).filter(|(_, streams)| **streams > 0).map(|(node, n)| (node, *n, Read)).collect();
        prop_assume!(!groups.is_empty());
        let mut spec = shapes::dl585();
        let bytes = |gbit: f64| gbit * 1e9 / 8.0;
        let nodes = paths.iter().map(|path| bytes(*path)).collect();
        let rates = IoRates { nodes, cap: bytes(cap), stream: stream.map(bytes), sharing: SharingRule::Bytes, stalls: None, copied: false };
        spec.devices.iter_mut().filter(|device| device.io.is_some()).for_each(|device| {
            device.io = Some(IoSpec { write: rates.clone(), read: rates.clone() });
        });
        let given = truth(&spec, disk("nvme0n1"), &groups);
        let own = |(node, streams, _): &(u32, u32, Direction)| {
            paths[*node as usize].min(stream.map_or(f64::INFINITY, |stream| stream * f64::from(*streams)))
        };
        for (group, given) in groups.iter().zip(&given) {
            prop_assert!(*given <= own(group) + 1e-5);
        }
        let wanted = groups.iter().map(own).sum::<f64>().min(cap);
        prop_assert!((given.iter().sum::<f64>() - wanted).abs() < 1e-4);
    }
}

/// Two drives on one node, whose buffers are on another one.
#[test]
fn several_devices_share_the_links_to_their_buffers() {
    let mut spec = shapes::dl585();
    let drive =
        spec.devices.iter().find(|device| device.names.contains(&"nvme0n1".to_owned())).expect("a drive");
    let mut second = drive.clone();
    second.names = vec!["nvme9n1".into()];
    second.pci = "0000:aa:00.0".parse().expect("an address");
    spec.devices.push(second);
    let streams = |spec: &Spec, nodes: (u32, u32)| {
        let mut io = io(spec, disk("nvme0n1"), &[(nodes.0, 4, Write), (nodes.1, 4, Write)]);
        io.others = vec![disk("nvme9n1")];
        io.groups[1].device = 1;
        Simulated::new(spec.clone()).expect("a machine").io_truth(&io).expect("it runs")
    };
    let alone = truth(&spec, disk("nvme0n1"), &[(2, 4, Write)])[0] / 8e-9;
    spec.links.iter_mut().for_each(|link| link.bytes_per_s = 1.5 * alone);
    let together = streams(&spec, (2, 2));
    let share = (together[0] + together[1]) / (2.0 * alone);
    assert!(
        (share - 0.75).abs() < 0.01,
        "both share a link of one and a half devices: {together:?}, {alone}"
    );
    spec.links.iter_mut().for_each(|link| link.bytes_per_s = 10.0 * alone);
    let together = streams(&spec, (2, 2));
    assert!(together.iter().all(|rate| (rate / alone - 1.0).abs() < 0.01), "{together:?}");
    let mut unknown = io(&spec, disk("nvme0n1"), &[(2, 1, Write)]);
    unknown.groups[0].device = 1;
    assert!(Simulated::new(spec).expect("a machine").io(&unknown).is_err());
}
