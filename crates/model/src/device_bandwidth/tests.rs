use super::*;
use crate::fit::tests::{cell as copy, record as copies};
use crate::placement::tests::{machine, paper};
use crate::testing::{cell, record};
use crate::{fit, ClassOptions};
use numaio_machine::devices::{Device, DeviceKind, Locality, LocalitySource, PciAddress, PcieLink};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction::{self, Read, Write};
use numaio_schema::{
    BandwidthDifference, ExpectationSource, IoRecord, Model, UnknownDifference, ValueSource,
};

const PCIE4_X16: PcieLink = PcieLink { gt_per_s: 16.0, lanes: 16, max_gt_per_s: 16.0, max_lanes: 16 };

pub(crate) fn device(name: &str, node: u32, gbit_per_s: Option<f64>) -> Device {
    Device {
        kind: DeviceKind::Network,
        names: vec![name.to_owned()],
        name_classes: Default::default(),
        pci: None,
        path: format!("/sys/devices/{name}"),
        ids: None,
        class: None,
        model: String::new(),
        driver: None,
        locality: Locality {
            node: Some(NodeId(node)),
            nodes: NodeSet::one(NodeId(node)),
            source: LocalitySource::NumaNode,
        },
        link: None,
        upstream: Vec::new(),
        power: None,
        irqs: Vec::new(),
        sriov: None,
        port_bits_per_s: gbit_per_s.map(|rate| (rate * 1e9) as u64),
    }
}

/// Copies of GB/s between node 0 and each node, the same in both directions.
fn model(own: f64, others: &[f64]) -> Model {
    let others = (1..)
        .zip(others)
        .flat_map(|(node, rate)| [copy(node, 0, 0, Some(rate * 1e9)), copy(0, node, 0, Some(rate * 1e9))]);
    let cells = std::iter::once(copy(0, 0, 0, Some(own * 1e9))).chain(others);
    fit(copies(cells.collect()), &machine(8, 4), ClassOptions::default())
}

/// The paper's model with its values in bytes per second.
fn paper_in_bytes() -> Model {
    let mut record = paper().record;
    for summary in record.cells.iter_mut().filter_map(|cell| cell.bytes_copied_per_s.as_mut()) {
        for value in [&mut summary.median, &mut summary.low, &mut summary.high] {
            *value *= 1e9 / 8.0;
        }
    }
    fit(record, &machine(8, 4), ClassOptions::default())
}

fn expect(
    topology: &Topology,
    model: &Model,
    records: &[&IoRecord],
    direction: Direction,
    beside: &[&Device],
) -> numaio_schema::DeviceExpectation {
    let device = &topology.devices[0];
    let evidence = BandwidthEvidence { topology, models: &[model], records };
    expect_bandwidth(evidence, BandwidthSubject::of(device, &device.name()), direction, beside)
}

fn with(devices: Vec<Device>) -> Topology {
    Topology { devices, ..machine(8, 4) }
}

/// Two sockets, each of one node: the path between them carries 38 GB/s.
fn epyc() -> Model {
    model(140.0, &[38.0])
}

#[test]
fn every_node_saturates_a_device_that_is_slower_than_all_paths() {
    let found = expect(&with(vec![device("eth0", 0, Some(100.0))]), &epyc(), &[], Write, &[]);
    assert_eq!(found.difference, BandwidthDifference::None);
    assert_eq!(
        found.clause(),
        "device write: no difference in bandwidth expected: it carries at most 12.5 GB/s (port at 100 Gbit/s), and \
         the slowest path 38.0 GB/s (node 1): every node can saturate it"
    );
    assert!(found.nodes.iter().all(|node| node.class == 1 && node.source == ExpectationSource::Device));
}

#[test]
fn devices_at_once_share_a_path_that_each_alone_cannot_fill() {
    let names = ["eth0", "eth1", "eth2", "eth3"];
    let topology = with(names.map(|name| device(name, 0, Some(100.0))).to_vec());
    let model = epyc();
    let devices: Vec<&Device> = topology.devices.iter().collect();
    let evidence = BandwidthEvidence { topology: &topology, models: &[&model], records: &[] };
    let first = first_difference(evidence, &devices, Read).expect("all four exceed the path");
    assert_eq!((first.node, first.count, first.slowest), (NodeId(0), 4, NodeId(1)));
    assert_eq!(first.clause(), "all 4 at once: 24 % less on node 1");
    let machine = expect_machine(evidence);
    assert_eq!((machine.devices.len(), machine.at_once.len()), (8, 2), "both directions");
    assert!(machine.devices.iter().all(|of| of.difference == BandwidthDifference::None));
    assert!((first.loss - 0.24).abs() < 1e-9, "{first:?}");
    assert_eq!(first_difference(evidence, &devices[..3], Read), None);
    // Devices of another node use other paths.
    let elsewhere = device("eth4", 1, Some(400.0));
    let found = expect(&topology, &model, &[], Read, &[&elsewhere]);
    assert_eq!((found.difference, found.beside.len()), (BandwidthDifference::None, 0));
}

#[test]
fn functions_below_one_bridge_share_its_link() {
    let address = |text: &str| text.parse::<PciAddress>().ok();
    let below = |name| Device {
        upstream: address("0000:00:01.0").into_iter().collect(),
        link: Some(PCIE4_X16),
        ..device(name, 0, Some(200.0))
    };
    let bridge = Device {
        kind: DeviceKind::Bridge,
        pci: address("0000:00:01.0"),
        link: Some(PCIE4_X16),
        ..device("bridge", 0, None)
    };
    let topology = with(vec![below("eth0"), below("eth1"), bridge]);
    // Each alone: 25 GB/s of a path of 38. Both: 15 GB/s each, the link, not half of the path.
    let found = expect(&topology, &epyc(), &[], Read, &[&topology.devices[1]]);
    assert_eq!(found.difference, BandwidthDifference::None);
    let best = found.best_bytes_per_s().expect("a value");
    assert!((best - PCIE4_X16.max_data_bytes_per_s() / 2.0).abs() < 1.0, "{best}");
}

#[test]
fn path_below_the_limit_bounds_the_device() {
    let topology = with(vec![device("eth0", 0, Some(2640.0))]);
    let found = expect(&topology, &model(339.0, &[110.0]), &[], Read, &[]);
    assert_eq!(found.difference, BandwidthDifference::Some);
    let model = model(339.0, &[110.0]);
    let evidence = BandwidthEvidence { topology: &topology, models: &[&model], records: &[] };
    assert_eq!(expect_machine(evidence).at_once, [], "one device alone differs already");
    assert_eq!(found.slowest(), Some((NodeId(1), 110.0 / 330.0)));
    assert_eq!(found.clause(), "device read: at most 330 GB/s from node 0, at most 110 GB/s from node 1");
}

/// A copy within a node moves each byte twice through its memory.
#[test]
fn own_node_is_not_worse_than_the_fastest_copy() {
    let topology = with(vec![device("eth0", 0, Some(400.0))]);
    let found = expect(&topology, &model(40.0, &[60.0, 20.0]), &[], Read, &[]);
    let rates: Vec<f64> = found.nodes.iter().map(|node| node.bytes_per_s / 1e9).collect();
    assert_eq!(rates, [50.0, 50.0, 20.0]);
}

#[test]
fn copies_slower_than_the_device_bound_nothing() {
    let topology = with(vec![device("eth0", 0, Some(440.0))]);
    let found = expect(&topology, &model(43.0, &[38.0]), &[], Read, &[]);
    let reason = UnknownDifference::PathsNotSaturated { fastest_bytes_copied_per_s: 43e9 };
    assert_eq!(found.difference, BandwidthDifference::Unknown { reason });
    assert!(found.nodes.is_empty() && found.clause().contains("at least that"), "{}", found.clause());
}

#[test]
fn unknown_limit_leaves_the_paths() {
    let topology = with(vec![device("eth0", 7, None)]);
    let found = expect(&topology, &paper(), &[], Write, &[]);
    assert_eq!(found.difference, BandwidthDifference::Unknown { reason: UnknownDifference::LimitUnknown });
    let classes: Vec<String> = found.classes().iter().map(NodeSet::to_string).collect();
    assert_eq!(classes, ["7", "0-1,4-6", "2-3"]);
    let without = expect(&with(vec![device("eth0", 5, Some(10.0))]), &paper(), &[], Write, &[]);
    assert_eq!(
        without.difference,
        BandwidthDifference::Unknown { reason: UnknownDifference::PathsNotMeasured }
    );
}

/// The paper's `RDMA_WRITE` (Table IV): the paths of nodes 2 and 3 carry more than the adapter,
/// which reaches less there than elsewhere. Its own measurement shows it.
#[test]
fn measured_bandwidth_outranks_the_bound() {
    let topology = with(vec![Device { names: vec!["nvme0n1".into()], ..device("nvme0n1", 7, Some(25.6)) }]);
    let model = paper_in_bytes();
    assert_eq!(expect(&topology, &model, &[], Write, &[]).difference, BandwidthDifference::None);
    let cells = [(7, 23.3), (0, 23.2), (2, 17.1)].map(|(node, rate)| cell(Write, &[(node, 4)], rate));
    let measured = record(7, cells.to_vec());
    let found = expect(&topology, &model, &[&measured], Write, &[]);
    assert_eq!(found.difference, BandwidthDifference::Some);
    assert_eq!(found.class(2).to_string(), "2-3");
    let represented = found.of(NodeId(3)).expect("a value").source;
    assert_eq!(represented, ExpectationSource::Represented { by: NodeId(2), measured_at: 1 });
    assert!(found.of_best(NodeId(3)).is_some_and(|share| (share - 17.1 / 23.3).abs() < 1e-3));
    assert!(found.limit.bytes_per_s().is_some_and(|limit| (limit * 8e-9 - 23.3).abs() < 0.1));
}

/// Beside others, what was measured with the device alone is an upper bound like the paths.
#[test]
fn measured_alone_bounds_the_device_beside_others() {
    let names = ["nvme0n1", "eth1", "eth2", "eth3"];
    let topology = with(names.map(|name| device(name, 0, Some(100.0))).to_vec());
    let measured =
        record(0, [(0, 96.0), (1, 94.0)].map(|(node, rate)| cell(Read, &[(node, 4)], rate)).to_vec());
    let alone = expect(&topology, &epyc(), &[&measured], Read, &[]);
    assert_eq!(alone.clause(), "device read: no difference in bandwidth (measured with it on 1970-01-01)");
    let beside: Vec<&Device> = topology.devices[1..].iter().collect();
    let found = expect(&topology, &epyc(), &[&measured], Read, &beside);
    let rates: Vec<f64> = found.nodes.iter().map(|node| node.bytes_per_s / 1e9).collect();
    assert_eq!((rates, found.difference), (vec![12.0, 9.5], BandwidthDifference::Some));
    assert_eq!(
        found.clause(),
        "device read with 3 more at once: at most 12.0 GB/s from node 0, at most 9.50 GB/s from node 1"
    );
}

/// A virtio device of a hypervisor reports one lane of 2.5 GT/s.
#[test]
fn links_of_a_virtual_machine_limit_nothing() {
    let mut topology = with(vec![device("eth0", 0, Some(1.0))]);
    topology.surroundings.virtual_machine = true;
    let found = expect(&topology, &epyc(), &[], Read, &[]);
    assert_eq!(found.difference, BandwidthDifference::Unknown { reason: UnknownDifference::LimitUnknown });
}

#[test]
fn limit_is_measured_on_the_own_node_or_the_narrowest_link() {
    let narrow = PcieLink { gt_per_s: 8.0, lanes: 4, ..PCIE4_X16 };
    let topology = with(vec![Device {
        names: vec!["nvme0n1".into()],
        link: Some(narrow),
        ..device("nvme0n1", 7, Some(100.0))
    }]);
    let limit = |records: &[&IoRecord]| device_limit(&topology, &topology.devices[0], records, Read);
    let numaio_schema::DeviceBandwidth::Known { bytes_per_s, source } = limit(&[]) else { panic!("unknown") };
    assert_eq!(source, ValueSource::Link { link: "PCIe 8 GT/s x4".to_owned() });
    assert!(bytes_per_s < 3.8e9, "headers take their part: {bytes_per_s}");
    let far = record(7, vec![cell(Read, &[(0, 4)], 8.0)]);
    assert_eq!(limit(&[&far]), limit(&[]), "another node may be limited by its path");
    let near = record(7, vec![cell(Read, &[(7, 4)], 8.0)]);
    assert!(limit(&[&near]).bytes_per_s().is_some_and(|rate| rate < 1.1e9));
    let mut single = record(7, vec![cell(Read, &[(7, 1)], 0.8)]);
    single.method.depth = 1;
    assert_eq!(limit(&[&single]), limit(&[]), "one request at a time is limited by latency");
    let mut mix = cell(Read, &[(7, 1), (7, 1)], 0.8);
    mix.groups[1].direction = Write;
    single.cells.push(mix);
    assert_eq!(limit(&[&single]), limit(&[]), "one request of each direction, too");
}

/// A GPU of the same node was faster than all copies: their threads did not saturate the paths.
#[test]
fn faster_device_of_the_node_shows_unsaturated_copies() {
    let topology = with(vec![device("eth0", 0, Some(400.0)), device("eth1", 0, Some(100.0))]);
    let mut gpu = record(0, vec![cell(Write, &[(1, 1)], 8.0 * 60.0)]);
    let of = |device: &Device, records: &[&IoRecord]| {
        let model = model(50.0, &[30.0]);
        let evidence = BandwidthEvidence { topology: &topology, models: &[&model], records };
        expect_bandwidth(evidence, BandwidthSubject::of(device, &device.name()), Read, &[]).difference
    };
    let [fast, slow] = [&topology.devices[0], &topology.devices[1]];
    assert_eq!(of(fast, &[]), BandwidthDifference::Some);
    let why = UnknownDifference::PathsNotSaturated { fastest_bytes_copied_per_s: 50e9 };
    assert_eq!(of(fast, &[&gpu]), BandwidthDifference::Unknown { reason: why });
    assert_eq!(of(slow, &[&gpu]), BandwidthDifference::None, "the paths carry at least the copies");
    gpu.device.node = Some(NodeId(1));
    assert_eq!(of(fast, &[&gpu]), BandwidthDifference::Some, "copies of another node");
}

/// One thread of the node copies less than its threads together.
#[test]
fn copies_that_rise_with_the_threads_show_no_difference() {
    let topology = with(vec![device("eth0", 0, Some(400.0))]);
    let by_threads = |threads: u32, mut model: Model| {
        let cpus: CpuSet = (0..threads).map(CpuId).collect();
        model.record.cells.iter_mut().for_each(|cell| cell.placement.cpus = cpus.clone());
        model
    };
    let of = |models: &[&Model]| {
        let evidence = BandwidthEvidence { topology: &topology, models, records: &[] };
        let subject = BandwidthSubject::of(&topology.devices[0], "eth0");
        expect_bandwidth(evidence, subject, Read, &[]).difference
    };
    let chosen = by_threads(4, model(50.0, &[30.0]));
    let more = by_threads(8, model(60.0, &[59.0]));
    let why = UnknownDifference::PathsNotSaturated { fastest_bytes_copied_per_s: 50e9 };
    assert_eq!(of(&[&chosen, &more]), BandwidthDifference::Unknown { reason: why });
    let as_fast = by_threads(8, model(52.0, &[31.0]));
    assert_eq!(of(&[&chosen, &as_fast]), BandwidthDifference::Some, "more threads copy no more");
    let fewer = by_threads(2, model(60.0, &[59.0]));
    assert_eq!(of(&[&chosen, &fewer]), BandwidthDifference::Some, "other reasons than the threads");
}

#[test]
fn methods_that_paths_do_not_bound_have_no_expectation() {
    let topology = with(vec![device("eth0", 0, Some(400.0))]);
    let of = |method, model: &Model| {
        let evidence = BandwidthEvidence { topology: &topology, models: &[model], records: &[] };
        let subject = BandwidthSubject { method, ..BandwidthSubject::of(&topology.devices[0], "eth0") };
        expect_bandwidth(evidence, subject, Read, &[])
    };
    let (differing, alike) = (model(140.0, &[30.0]), model(140.0, &[70.0]));
    let unknown = |why| BandwidthDifference::Unknown { reason: why };
    for (method, why) in [
        (TransferMethod::LatencyBound, UnknownDifference::LatencyBound),
        (TransferMethod::PeerToPeer, UnknownDifference::PeerToPeer),
    ] {
        let found = of(method, &alike);
        assert_eq!((found.difference, found.nodes.len()), (unknown(why), 0), "{}", found.clause());
    }
    let cached = |model| of(TransferMethod::DmaWithinCaches, model).difference;
    assert_eq!(cached(&differing), unknown(UnknownDifference::WithinCaches));
    assert_eq!(cached(&alike), BandwidthDifference::None);
}

/// Latencies of 100 and 139 ns: at most 28 % less, as a fixed number of lines is in flight.
#[test]
fn loads_and_stores_lie_between_latencies_and_paths() {
    let topology = with(vec![device("pmem0", 0, Some(400.0))]);
    let model = model(140.0, &[45.0]);
    let evidence = BandwidthEvidence { topology: &topology, models: &[&model], records: &[] };
    let of = |method| {
        let subject = BandwidthSubject { method, ..BandwidthSubject::of(&topology.devices[0], "pmem0") };
        expect_bandwidth(evidence, subject, Read, &[])
    };
    let latencies = [(NodeId(0), 100.0), (NodeId(1), 139.0)];
    let found = of(TransferMethod::LoadsAndStores { latency_ns: &latencies });
    assert!(found.clause().contains("the slowest node has 0.72 to 0.90"), "{}", found.clause());
    let near = [(NodeId(0), 100.0), (NodeId(1), 105.0)];
    let found = of(TransferMethod::LoadsAndStores { latency_ns: &near });
    assert_eq!(found.difference, BandwidthDifference::None, "within the level either way");
    let without = UnknownDifference::LoadsAndStores { slowest_of_best: None };
    for latency_ns in [&[][..], &latencies[..1]] {
        let found = of(TransferMethod::LoadsAndStores { latency_ns });
        assert_eq!(found.difference, BandwidthDifference::Unknown { reason: without });
    }
}

#[test]
fn persistent_memory_is_loaded_and_stored_unless_it_was_measured() {
    let pmem = Device { kind: DeviceKind::Block, ..device("pmem0", 7, Some(100.0)) };
    let topology = with(vec![pmem]);
    let why = UnknownDifference::LoadsAndStores { slowest_of_best: None };
    let found = expect(&topology, &paper_in_bytes(), &[], Write, &[]);
    assert_eq!(found.difference, BandwidthDifference::Unknown { reason: why });
    let mut measured =
        record(7, [(7, 23.3), (2, 17.1)].map(|(node, rate)| cell(Write, &[(node, 4)], rate)).to_vec());
    measured.device.name = "pmem0".to_owned();
    let found = expect(&topology, &paper_in_bytes(), &[&measured], Write, &[]);
    assert_eq!(found.difference, BandwidthDifference::Some);
}

/// Copies at 43 GB/s classify both nodes alike, while the device carries 55 from its own node.
#[test]
fn one_measured_node_does_not_represent_others_by_unsaturated_copies() {
    let topology = with(vec![Device { names: vec!["nvme0n1".into()], ..device("nvme0n1", 0, None) }]);
    let measured = record(0, vec![cell(Read, &[(0, 4)], 8.0 * 55.0)]);
    let found = expect(&topology, &model(43.0, &[42.0]), &[&measured], Read, &[]);
    let why = UnknownDifference::PathsNotSaturated { fastest_bytes_copied_per_s: 43e9 };
    assert_eq!(found.difference, BandwidthDifference::Unknown { reason: why });
}
