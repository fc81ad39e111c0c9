use super::*;
use crate::testing::{cell, record};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{ClassRepresentative, IoCell, IoRecord, LimitedBy, NodeStreams, SharingModel, Summary};
use proptest::prelude::*;
use Direction::{Read, Write};

fn mix(parts: &[(u32, u32)]) -> Vec<NodeStreams> {
    parts.iter().map(|(node, streams)| NodeStreams { node: NodeId(*node), streams: *streams }).collect()
}

fn fitted(record: &IoRecord, direction: Direction, but: &[(u32, u32)]) -> DeviceFit {
    let records = [record];
    let basis = CapacityInputs {
        records: &records,
        model: None,
        link_bytes_per_s: None,
        direction,
        operation: None,
        memory_only: &NodeSet::new(),
    };
    capacities(&basis, &mix(but)).expect("something was measured")
}

fn fit_of(cells: Vec<IoCell>) -> DeviceFit {
    fitted(&record(7, cells), Read, &[])
}

/// In Gbit/s.
fn gbit(bytes_per_s: f64) -> f64 {
    bytes_per_s * 8e-9
}

fn close(found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 1e-9, "{found} is not {wanted}");
}

/// Equation (1) and the example of Li et al., ICPP 2013: two streams on a node of class 2, two on a
/// node of class 3.
#[test]
fn reproduces_the_papers_example() {
    let capacities = fit_of(vec![cell(Read, &[(2, 4)], 21.998), cell(Read, &[(0, 4)], 18.036)]);
    let found = predict(&capacities, &mix(&[(2, 2), (0, 2)])).expect("a prediction");
    assert_eq!(format!("{:.3}", gbit(found.equation_1.bytes_per_s)), "20.017");
    let measured = cell(Read, &[(2, 2), (0, 2)], 19.415);
    let beside = with_measurement(found, &measured.bytes_per_s).measured.expect("measured");
    assert_eq!(format!("{:.1}", beside.equation_1_error * 100.0), "3.1");
}

#[test]
fn shares_of_streams_are_the_weights() {
    let capacities =
        fit_of([(0, 10.0), (1, 20.0), (2, 40.0)].map(|(n, g)| cell(Read, &[(n, 1)], g)).to_vec());
    let found = predict(&capacities, &mix(&[(0, 1), (1, 2), (2, 5)])).expect("a prediction");
    close(gbit(found.equation_1.bytes_per_s), (10.0 + 2.0 * 20.0 + 5.0 * 40.0) / 8.0);
    assert!(found.equation_1.low < found.equation_1.bytes_per_s);
    assert!(found.equation_1.high > found.equation_1.bytes_per_s);
}

/// A mix with the bandwidth of each node, in Gbit/s.
fn mix_cell(direction: Direction, groups: &[(u32, u32, f64)]) -> IoCell {
    let streams: Vec<(u32, u32)> = groups.iter().map(|(node, streams, _)| (*node, *streams)).collect();
    let sum = groups.iter().map(|(.., gbit)| gbit).sum();
    let of_groups = groups.iter().map(|(.., gbit)| Summary::of(&[gbit * 1e9 / 8.0], None)).collect();
    IoCell { group_bytes_per_s: of_groups, ..cell(direction, &streams, sum) }
}

/// Rates of the disks `amd-dl585-g7-disk` and `-disk-time` of the lab, by node of the buffer.
const WRITE: [f64; 8] = [28.5, 28.5, 18.0, 18.0, 28.5, 28.5, 28.8, 28.8];
const READ: [f64; 8] = [30.1, 30.1, 33.1, 33.1, 18.5, 30.1, 34.7, 34.7];

fn alone(direction: Direction, rates: &[f64]) -> Vec<IoCell> {
    let of =
        |(node, rate): (u32, &f64)| [1, 2, 4, 8].map(|streams| cell(direction, &[(node, streams)], *rate));
    (0..).zip(rates).flat_map(of).collect()
}

fn first_model(fit: &DeviceFit) -> SharingModel {
    fit.capacities.sharing[0].model
}

fn predicted(fit: &DeviceFit, parts: &[(u32, u32)]) -> numaio_schema::Estimate {
    predict(fit, &mix(parts)).expect("a prediction").limits.map(gbit)
}

/// Nodes share 28.8 max-min fairly, and two slow ones add up to 27.
#[test]
fn cap_from_one_mix_limits_others() {
    let mut rates = WRITE;
    rates[3] = 9.0;
    let mut cells = alone(Write, &rates);
    cells.push(mix_cell(Write, &[(7, 4, 9.6), (0, 4, 9.6), (2, 4, 9.6)]));
    cells.push(mix_cell(Write, &[(6, 4, 14.4), (2, 4, 14.4)]));
    let fit = fitted(&record(7, cells), Write, &[]);
    assert_eq!((first_model(&fit), fit.capacities.fitted_mixes), (SharingModel::Bytes, 2));
    // Not exactly 28.8: the prediction is the median of all models that two mixes leave possible.
    let found = predicted(&fit, &[(7, 4), (2, 4)]);
    assert!((found.bytes_per_s / 28.8 - 1.0).abs() < 0.02, "{found:?}");
    let found = predicted(&fit, &[(2, 4), (3, 4)]);
    assert!((found.bytes_per_s / 27.0 - 1.0).abs() < 0.02, "{found:?}");
    let flows = predict(&fit, &mix(&[(7, 4), (3, 4)])).expect("a prediction").flows;
    let limits: Vec<LimitedBy> = flows.iter().map(|flow| flow.limited_by).collect();
    assert_eq!(limits, [LimitedBy::Path, LimitedBy::Device]);
    assert!((gbit(flows[0].bytes_per_s) / 9.0 - 1.0).abs() < 0.02);
}

/// The lab's `amd-dl585-g7-disk-time`: the engine's rates are 40/28.8 of the paths, so no mix is
/// below its best node alone, and a cap of all nodes seems to explain the mix of all. Nodes 2 and 3
/// get the mean of their rates, 25.0, and not their sum. After the mix of all, both are possible;
/// the suggested mix decides.
#[test]
fn recognizes_time_sharing_although_no_mix_is_below_its_best_node() {
    for (direction, rates, factor, asked, wanted) in [
        (Write, WRITE, 40.0 / 28.8, vec![(2, 1), (3, 1)], 25.0),
        (Write, WRITE, 40.0 / 28.8, vec![(2, 1), (7, 1)], 23.4 * 40.0 / 28.8),
        (Read, READ, 45.0 / 34.7, vec![(4, 1), (6, 1)], 26.6 * 45.0 / 34.7),
        (Read, READ, 45.0 / 34.7, vec![(0, 2), (4, 2)], 24.3 * 45.0 / 34.7),
    ] {
        let measured = |streams: &[NodeStreams]| {
            let share = factor / streams.len() as f64;
            let of = |flow: &NodeStreams| (flow.node.0, flow.streams, rates[flow.node.0 as usize] * share);
            mix_cell(direction, &streams.iter().map(of).collect::<Vec<_>>())
        };
        let all: Vec<(u32, u32)> = (0..8).map(|node| (node, 1)).collect();
        let mut cells = alone(direction, &rates);
        cells.push(measured(&mix(&all)));
        let fit = fitted(&record(7, cells.clone()), direction, &[]);
        let first = predicted(&fit, &asked);
        assert!(first.low <= wanted && wanted <= first.high, "{asked:?}: {wanted} {first:?}");
        let nodes = NodeSet::parse_list("0-7").expect("nodes");
        let suggested = suggest_mix(&fit, &nodes, &mix(&asked), &[mix(&all)]).expect("a mix");
        cells.push(measured(&suggested.streams));
        let fit = fitted(&record(7, cells), direction, &[]);
        let time = [SharingModel::TimeByNodes, SharingModel::TimeByStreams];
        assert!(time.contains(&first_model(&fit)), "{:?}", fit.capacities.sharing);
        let found = predicted(&fit, &asked);
        assert!((found.bytes_per_s / wanted - 1.0).abs() < 0.05, "{asked:?}: {wanted} {found:?}");
        assert!(found.low <= wanted && wanted <= found.high, "{asked:?}: {wanted} {found:?}");
    }
}

/// The same without the bandwidth of each node: one total does not distinguish the rules, so the
/// interval contains both.
#[test]
fn an_ambiguous_mix_widens_the_interval() {
    let all: Vec<(u32, u32)> = (0..8).map(|node| (node, 1)).collect();
    let mut cells = alone(Write, &WRITE);
    cells.push(cell(Write, &all, 36.0));
    let fit = fitted(&record(7, cells), Write, &[]);
    let found = predict(&fit, &mix(&[(2, 1), (3, 1)])).expect("a prediction");
    let limits = found.limits.map(gbit);
    assert!(limits.low <= 25.0 && limits.high >= 35.9, "{limits:?}");
    assert!(!found.alternatives.is_empty(), "{found:?}");
    let nodes = NodeSet::parse_list("0-7").expect("nodes");
    let suggested = suggest_mix(&fit, &nodes, &mix(&[(2, 1), (3, 1)]), &[mix(&all)]).expect("a mix");
    assert!(suggested.streams.len() == 2 && suggested.streams != mix(&[(2, 1), (3, 1)]), "{suggested:?}");
    assert!(suggested.deviation_after < 0.5 * suggested.deviation_before, "{suggested:?}");
}

/// The example of Li et al. (ICPP 2013): 19.4 of 20.0 by Equation 1.
#[test]
fn equation_1_predicts_another_mix_of_a_device_that_shares_its_time() {
    let mut cells = alone(Read, &[18.0, 18.2, 22.0, 22.1, 14.0]);
    cells.push(mix_cell(Read, &[(2, 2, 10.7), (0, 2, 8.7)]));
    cells.push(mix_cell(Read, &[(1, 1, 4.4), (4, 3, 10.2)]));
    let fit = fit_of(cells);
    let found = predicted(&fit, &[(2, 1), (4, 3)]);
    let wanted = (22.0 + 3.0 * 14.0) / 4.0 * 0.97;
    assert!((found.bytes_per_s / wanted - 1.0).abs() < 0.04, "{wanted} {found:?}");
    assert!(fit.capacities.sharing[0].leave_one_out.is_some());
}

#[test]
fn without_a_mix_the_interval_contains_all_models() {
    let fit = fit_of(vec![cell(Read, &[(0, 1)], 10.0), cell(Read, &[(1, 1)], 8.0)]);
    assert_eq!(fit.capacities.fitted_mixes, 0);
    let found = predicted(&fit, &[(0, 1), (1, 1)]);
    assert!(found.low < 9.0 && found.high > 17.5, "{found:?}");
}

#[test]
fn a_shared_link_is_found_by_the_nodes_behind_it() {
    let mut cells = alone(Read, &[20.0, 20.0, 20.0, 24.0]);
    cells.push(mix_cell(Read, &[(0, 2, 11.0), (1, 2, 20.0), (2, 2, 11.0), (3, 2, 24.0)]));
    cells.push(mix_cell(Read, &[(0, 1, 11.0), (2, 1, 11.0)]));
    let fit = fitted(&record(3, cells), Read, &[]);
    let best = &fit.capacities.sharing[0];
    assert_eq!(
        (best.model, best.link_nodes.as_slice()),
        (SharingModel::SharedLink, &[NodeId(0), NodeId(2)][..])
    );
    for (asked, wanted) in [(vec![(0, 3), (2, 1)], 22.0), (vec![(0, 2), (1, 2)], 40.0)] {
        let found = predicted(&fit, &asked);
        assert!((found.bytes_per_s / wanted - 1.0).abs() < 0.03, "{asked:?} {found:?}");
    }
}

#[test]
fn predicted_mix_is_excluded_from_the_fit() {
    let cells =
        vec![cell(Read, &[(0, 1)], 10.0), cell(Read, &[(1, 1)], 8.0), cell(Read, &[(0, 1), (1, 1)], 12.0)];
    let record = record(0, cells);
    assert_eq!(fitted(&record, Read, &[(1, 1), (0, 1)]).capacities.fitted_mixes, 0);
    assert_eq!(fitted(&record, Read, &[(0, 2), (1, 1)]).capacities.fitted_mixes, 1);
}

/// A class of nodes with I/O of 31, in which node 1 was not measured and gets 22.
#[test]
fn an_unmeasured_node_has_a_wider_interval_than_its_representative() {
    let represented = |measured: &[u32]| {
        let mut cells: Vec<IoCell> = measured.iter().map(|node| cell(Read, &[(*node, 4)], 31.0)).collect();
        cells.push(mix_cell(Read, &[(0, 4, 31.0), (7, 4, 31.0)]));
        cells.push(mix_cell(Read, &[(0, 1, 31.0), (7, 4, 31.0)]));
        let mut record = record(7, cells);
        let nodes = vec![NodeId(0), NodeId(1)];
        record.method.represented = vec![ClassRepresentative { direction: Read, node: NodeId(0), nodes }];
        fitted(&record, Read, &[])
    };
    let width = |fit: &DeviceFit, node: u32| {
        let found = predicted(fit, &[(node, 4)]);
        (found.high - found.low) / found.bytes_per_s
    };
    let fit = represented(&[0, 7]);
    assert!(width(&fit, 1) > 0.4 && width(&fit, 0) < 0.05);
    assert!(predicted(&fit, &[(1, 4)]).low < 24.0);
    let mixed = |node: u32| predicted(&fit, &[(node, 3), (7, 3)]);
    assert!(mixed(1).high - mixed(1).low > mixed(0).high - mixed(0).low);
    assert!(width(&represented(&[0, 1, 7]), 1) < 0.05);
}

/// Measured members of a class that differ widen the interval of an unmeasured one.
#[test]
fn the_spread_of_measured_members_counts_for_the_others() {
    let width = |rates: [f64; 4]| {
        let mut record = record(7, alone(Read, &rates));
        let nodes = [0, 1, 2, 3, 5].map(NodeId).to_vec();
        record.method.represented = vec![ClassRepresentative { direction: Read, node: NodeId(0), nodes }];
        let found = predicted(&fitted(&record, Read, &[]), &[(5, 4)]);
        (found.high - found.low) / found.bytes_per_s
    };
    let (alike, different) = (width([30.0, 30.1, 30.0, 29.9]), width([30.0, 22.0, 31.0, 26.0]));
    assert!(alike < 0.7 * different, "{alike} {different}");
}

#[test]
fn link_bandwidth_is_an_upper_bound() {
    let record = record(0, vec![cell(Read, &[(0, 1)], 10.0), cell(Read, &[(1, 1)], 8.0)]);
    let records = [&record];
    let link_bytes_per_s = Some(9e9 / 8.0);
    let basis = CapacityInputs {
        records: &records,
        model: None,
        link_bytes_per_s,
        direction: Read,
        operation: None,
        memory_only: &NodeSet::new(),
    };
    let capacities = capacities(&basis, &[]).expect("capacities");
    let found = predict(&capacities, &mix(&[(0, 1), (1, 1)])).expect("a prediction");
    // Without a mix the value is a median of models below the link; the upper end reaches it.
    assert!(gbit(found.limits.bytes_per_s) <= 9.0 + 1e-9, "{:?}", found.limits);
    close(gbit(found.limits.high), 9.0);
}

#[test]
fn each_stream_has_its_own_limit() {
    let counts = [(1, 9.0), (2, 18.0), (4, 24.0)];
    let mut cells: Vec<IoCell> = counts.iter().map(|(n, g)| cell(Read, &[(0, *n)], *g)).collect();
    cells.push(cell(Read, &[(1, 4)], 20.0));
    let capacities = fit_of(cells);
    let of = |parts: &[(u32, u32)]| predict(&capacities, &mix(parts)).expect("a prediction").limits;
    for (streams, wanted) in [(1, 9.0), (2, 18.0), (3, 24.0), (4, 24.0), (9, 24.0)] {
        close(gbit(of(&[(0, streams)]).bytes_per_s), wanted);
    }
    // Linear interpolation between 18 and 24 yields 21.
    assert!(gbit(of(&[(0, 3)]).low) < 21.0);
    // The bandwidth was still growing and may continue.
    assert!(gbit(of(&[(0, 8)]).high) > 47.0);
    // Fewer streams than measured may need all of it, or only their share.
    let two = of(&[(1, 2)]);
    close(gbit(two.bytes_per_s), 20.0);
    assert!(gbit(two.low) < 10.0);
}

#[test]
fn measured_node_represents_its_class() {
    let mut record = record(7, vec![cell(Read, &[(7, 1)], 30.0), cell(Read, &[(0, 1)], 20.0)]);
    let nodes = [0, 1, 4].map(NodeId).to_vec();
    record.method.represented = vec![ClassRepresentative { direction: Read, node: NodeId(0), nodes }];
    let capacities = fitted(&record, Read, &[]);
    let known: Vec<(u32, u32)> =
        capacities.capacities.nodes.iter().map(|node| (node.node.0, node.measured.0)).collect();
    assert_eq!(known, [(0, 0), (1, 0), (4, 0), (7, 7)]);
    let found = predict(&capacities, &mix(&[(4, 2)])).expect("a prediction");
    close(gbit(found.limits.bytes_per_s), 20.0);
}

/// `bench net` measures further placements at the remote end, which are not those of other nodes.
#[test]
fn network_cells_of_other_remote_placements_do_not_count() {
    let at = |node: u32, remote: u32, gbit: f64| {
        let memory = Some(NodeId(remote));
        let remote = numaio_schema::IoRemoteEnd { memory, ..Default::default() };
        IoCell { remote: Some(remote), ..cell(Read, &[(node, 1)], gbit) }
    };
    let mut record = record(7, vec![at(0, 1, 5.0), at(0, 0, 20.0), at(7, 0, 24.0), at(3, 0, 16.0)]);
    record.method.engine = numaio_schema::IoEngine::Tcp;
    let fit = fitted(&record, Read, &[]);
    let nodes: Vec<u32> = fit.capacities.nodes.iter().map(|node| node.node.0).collect();
    assert_eq!(nodes, [0, 3, 7]);
    assert!((predicted(&fit, &[(0, 1)]).bytes_per_s - 20.0).abs() < 1e-9);
    let both = predicted(&fit, &[(0, 1), (7, 1)]);
    assert!(both.low < 22.0 && both.high > 40.0, "{both:?}");
}

/// A GPU has one stream per node and no mixes: the interval contains all models.
#[test]
fn a_gpu_without_mixes_has_a_wide_interval() {
    let mut record = record(1, vec![cell(Write, &[(0, 1)], 180.0), cell(Write, &[(1, 1)], 210.0)]);
    record.method.engine = numaio_schema::IoEngine::Cuda;
    let found = predicted(&fitted(&record, Write, &[]), &[(0, 1), (1, 1)]);
    assert!(found.low < 195.0 && found.high > 370.0, "{found:?}");
}

/// Rates of the paper's RDMA reads by class (Li et al., ICPP 2013, section V), in Gbit/s: mixes of
/// a network interface are learned as those of a disk. The device shares its time by streams.
#[test]
fn mixes_of_a_network_interface_reveal_how_nodes_share_it() {
    let remote = numaio_schema::IoRemoteEnd { memory: Some(NodeId(0)), ..Default::default() };
    let rates = [21.998, 21.998, 18.036, 18.036];
    let time = |streams: &[(u32, u32)]| -> Vec<(u32, u32, f64)> {
        let all: u32 = streams.iter().map(|(_, streams)| streams).sum();
        let rate = |(node, streams): &(u32, u32)| {
            (*node, *streams, rates[*node as usize] * f64::from(*streams) / f64::from(all))
        };
        streams.iter().map(rate).collect()
    };
    let learned = [time(&[(0, 2), (2, 2)]), time(&[(1, 5), (3, 1)])];
    let cells = alone(Read, &rates).into_iter().chain(learned.map(|mix| mix_cell(Read, &mix)));
    let cells = cells.map(|cell| IoCell { remote: Some(remote.clone()), ..cell });
    let mut record = record(0, cells.collect());
    record.method.engine = numaio_schema::IoEngine::Tcp;
    let fit = fitted(&record, Read, &[]);
    for parts in [[(0, 3), (3, 1)], [(1, 1), (2, 4)], [(0, 1), (1, 2)]] {
        let truth: f64 = time(&parts).iter().map(|(.., gbit)| gbit).sum();
        let found = predicted(&fit, &parts);
        assert!((found.bytes_per_s / truth - 1.0).abs() < 0.03, "{parts:?}: {found:?}, not {truth}");
        assert!(found.low <= truth && truth <= found.high, "{parts:?}: {found:?}, not {truth}");
    }
}

/// Copies to a GPU from several nodes share its link, although each node reaches less alone.
#[test]
fn mixes_of_a_gpu_reveal_its_link() {
    let rates = [90.0, 140.0, 95.0, 180.0];
    let alone = (0..).zip(rates).map(|(node, rate)| cell(Write, &[(node, 1)], rate));
    let mixes = [
        mix_cell(Write, &[(0, 1, 90.0), (1, 1, 100.0)]),
        mix_cell(Write, &[(0, 1, 47.5), (1, 1, 47.5), (2, 1, 47.5), (3, 1, 47.5)]),
    ];
    let mut record = record(3, alone.chain(mixes).collect());
    record.method.engine = numaio_schema::IoEngine::Cuda;
    let fit = fitted(&record, Write, &[]);
    let found = predicted(&fit, &[(1, 1), (3, 1)]);
    assert!((found.bytes_per_s / 190.0 - 1.0).abs() < 0.03 && found.low <= 190.0, "{found:?}");
    let found = predicted(&fit, &[(0, 1), (2, 1)]);
    assert!(found.low <= 185.0 && 185.0 <= found.high, "{found:?}");
}

/// Node 9 has memory and no CPUs, so that streams on its buffers run on node 7.
#[test]
fn a_memory_only_node_is_measured_by_streams_of_another_node() {
    let remote =
        |memory: u32, gbit: f64| IoCell { cpu_nodes: vec![NodeId(7)], ..cell(Read, &[(memory, 1)], gbit) };
    let record = record(7, vec![cell(Read, &[(7, 1)], 30.0), remote(9, 12.0), remote(3, 20.0)]);
    let records = [&record];
    let memory_only = NodeSet::one(NodeId(9));
    let basis = CapacityInputs {
        records: &records,
        model: None,
        link_bytes_per_s: None,
        direction: Read,
        operation: None,
        memory_only: &memory_only,
    };
    let fit = capacities(&basis, &[]).expect("capacities");
    assert!((predicted(&fit, &[(9, 1)]).bytes_per_s - 12.0).abs() < 1e-9);
    // Node 3 has CPUs, so remote buffers do not count for it.
    assert!(predict(&fit, &mix(&[(3, 1)])).is_err());
}

#[test]
fn errors_name_the_cause() {
    let capacities = fit_of(vec![cell(Read, &[(0, 1)], 10.0), cell(Read, &[(3, 1)], 8.0)]);
    let why =
        |parts: &[(u32, u32)]| predict(&capacities, &mix(parts)).expect_err("no prediction").to_string();
    assert_eq!(
        why(&[(5, 1)]),
        "node 5 was not measured, and no measured node is of its class; known are nodes 0,3"
    );
    assert_eq!(why(&[]), "the mix has no streams");
    assert_eq!(why(&[(0, 0)]), "the mix has no streams");
    assert_eq!(why(&[(0, 4000), (3, 97)]), "too many streams: 4097, expected at most 4096");
    assert_eq!(best_mix(&capacities, 0), Err(PredictError::NoStreams));
    assert!(matches!(best_mix(&capacities, 129), Err(PredictError::TooMany { most: 128, .. })));
    let record = record(0, vec![cell(Write, &[(0, 1)], 10.0)]);
    let records = [&record];
    let basis = CapacityInputs {
        records: &records,
        model: None,
        link_bytes_per_s: None,
        direction: Read,
        operation: None,
        memory_only: &NodeSet::new(),
    };
    let error = super::capacities(&basis, &[]).expect_err("nothing").to_string();
    assert_eq!(error, "no device read of the device was measured");
}

/// A fit of any nodes with 1, 2, 4 and 8 streams each, and possibly a mix.
fn any_fit() -> impl Strategy<Value = DeviceFit> {
    let node = (5.0f64..50.0, 2.0f64..30.0);
    let mixed = prop::option::of(0.3f64..1.0);
    (prop::collection::vec(node, 1..6), mixed).prop_map(|(nodes, mixed)| {
        let mut cells = Vec::new();
        let mut sum = 0.0;
        for (node, (path, stream)) in (0..).zip(&nodes) {
            for streams in [1, 2, 4, 8] {
                cells.push(cell(Read, &[(node, streams)], path.min(stream * f64::from(streams))));
            }
            sum += path.min(stream * 4.0);
        }
        if let Some(share) = mixed.filter(|_| nodes.len() > 1) {
            let parts: Vec<(u32, u32)> = (0..nodes.len() as u32).map(|node| (node, 4)).collect();
            cells.push(cell(Read, &parts, sum * share));
        }
        fit_of(cells)
    })
}

/// Returns every distribution of streams over nodes.
fn distributions(nodes: u32, streams: u32) -> Vec<Vec<(u32, u32)>> {
    if nodes == 1 {
        return vec![vec![(0, streams)]];
    }
    let with = |own: u32| {
        let others = distributions(nodes - 1, streams - own);
        others.into_iter().map(move |mut parts| {
            parts.push((nodes - 1, own));
            parts
        })
    };
    (0..=streams).flat_map(with).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_mix_of_one_node_is_its_cell(capacities in any_fit(), streams in 0usize..4) {
        for node in &capacities.capacities.nodes {
            let known = node.streams[streams];
            let found = predict(&capacities, &mix(&[(node.node.0, known.streams)])).expect("a prediction");
            for (found, wanted) in [found.limits, found.equation_1].map(|found| (found, known.estimate)) {
                prop_assert!((found.bytes_per_s / wanted.bytes_per_s - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn the_order_of_parts_does_not_count(capacities in any_fit(), streams in prop::collection::vec(1u32..5, 1..6)) {
        let parts: Vec<(u32, u32)> =
            capacities.capacities.nodes.iter().zip(streams).map(|(node, streams)| (node.node.0, streams)).collect();
        let halves: Vec<(u32, u32)> =
            parts.iter().rev().flat_map(|(node, streams)| [(*node, streams - 1), (*node, 1)]).collect();
        prop_assert_eq!(predict(&capacities, &mix(&parts)), predict(&capacities, &mix(&halves)));
    }

    #[test]
    fn predictions_lie_in_their_intervals_and_flows_add_up(
        capacities in any_fit(),
        streams in prop::collection::vec(1u32..20, 1..6),
    ) {
        let parts: Vec<(u32, u32)> =
            capacities.capacities.nodes.iter().zip(streams).map(|(node, streams)| (node.node.0, streams)).collect();
        let found = predict(&capacities, &mix(&parts)).expect("a prediction");
        for estimate in [found.limits, found.equation_1] {
            prop_assert!(estimate.low <= estimate.bytes_per_s && estimate.bytes_per_s <= estimate.high, "{:?}", estimate);
        }
        let sum: f64 = found.flows.iter().map(|flow| flow.bytes_per_s).sum();
        prop_assert!((sum / found.limits.bytes_per_s - 1.0).abs() < 1e-9);
        prop_assert!(found.flows.iter().all(|flow| flow.bytes_per_s <= flow.alone.bytes_per_s * (1.0 + 1e-9)));
        let probabilities: f64 = capacities.capacities.sharing.iter().map(|fit| fit.probability).sum();
        prop_assert!((probabilities - 1.0).abs() < 1e-6);
    }

    /// No model gives a mix less if one of its nodes is faster, except that copies for a remote
    /// node cost the host more than those for its own.
    #[test]
    fn a_faster_node_is_never_less(
        rates in prop::collection::vec((1.0f64..50.0, 1.0f64..8.0, 0.1f64..1.0), 2..6),
        which in 0usize..5,
        more in 1.0f64..2.0,
        first in 0.3f64..8.0,
        cap in 0.3f64..5.0,
    ) {
        use sharing::{Fairness, MixInputs, MixNode, SharingForm};
        let part = |(node, (own, streams, one)): (u32, &(f64, f64, f64))| MixNode {
            node: NodeId(node), streams: streams.floor(), is_local: node == 0, own: *own, all: *own, one: own * one,
        };
        let parts: Vec<MixNode> = (0..).zip(&rates).map(part).collect();
        let streams = parts.iter().map(|part| part.streams).sum();
        let before = MixInputs { parts, streams, link: f64::INFINITY };
        let mut after = before.clone();
        let faster = which % before.parts.len();
        let part = &mut after.parts[faster];
        (part.own, part.all, part.one) = (part.own * more, part.all * more, part.one * more);
        for model in [
            SharingModel::Bytes, SharingModel::TimeByStreams, SharingModel::TimeByNodes, SharingModel::Requests,
            SharingModel::SharedLink, SharingModel::InFlight, SharingModel::Cores,
        ] {
            for fairness in [Fairness::Streams, Fairness::Nodes] {
                let link = vec![NodeId(1), NodeId(2)];
                let form = SharingForm { link, ..SharingForm::new(model, fairness) };
                let bytes = matches!(model, SharingModel::Bytes | SharingModel::SharedLink);
                let parameters = [if bytes { first * 20.0 } else { first }, cap * 20.0];
                let sum = |mix: &MixInputs| form.rates(&parameters, mix).iter().sum::<f64>();
                prop_assert!(sum(&after) >= sum(&before) * (1.0 - 1e-6), "{model:?} {fairness:?}");
            }
        }
    }

    /// Compares with the lower end of every distribution. Spreading over equal nodes costs 1 %.
    #[test]
    fn the_best_mix_has_the_highest_lower_end(capacities in any_fit(), streams in 1u32..7) {
        let found = best_mix(&capacities, streams).expect("a mix");
        let number: u32 = found.streams.iter().map(|flow| flow.streams).sum();
        prop_assert_eq!(number, streams);
        let all = distributions(capacities.capacities.nodes.len() as u32, streams);
        let of = |parts: &Vec<(u32, u32)>| predict(&capacities, &mix(parts)).expect("a prediction").limits.low;
        let most = all.iter().map(of).fold(0.0, f64::max);
        prop_assert!(found.limits.low >= most * (0.99 - 1e-6), "{} of {most}", found.limits.low);
    }

    /// The search of large cases, on cases that are small enough to compare every distribution.
    #[test]
    fn the_local_search_finds_the_best_mix(capacities in any_fit(), streams in 1u32..9) {
        let search = best_mix::Search::new(&capacities, streams);
        let (local, found) = search.local().expect("known nodes").expect("a mix");
        let (counts, most) = search.exhaustive().expect("known nodes").expect("a mix");
        prop_assert!(found >= most * 0.97, "{found} of {most}: {local:?} and {counts:?}");
    }
}

/// Nodes 0, 1 and 7 are equal within the noise, and any two of them reach the cap.
#[test]
fn the_best_mix_spreads_streams_over_equal_nodes() {
    let mut cells = alone(Read, &[28.7, 28.7, 18.0, 9.0]);
    cells.extend([1, 2, 4, 8].map(|streams| cell(Read, &[(7, streams)], 28.8)));
    cells.push(mix_cell(Read, &[(7, 4, 20.0), (0, 4, 20.0)]));
    cells.push(mix_cell(Read, &[(7, 4, 13.3), (0, 4, 13.3), (1, 4, 13.4)]));
    let fit = fitted(&record(7, cells), Read, &[]);
    assert_eq!(best_mix(&fit, 8).expect("a mix").streams, mix(&[(0, 3), (1, 2), (7, 3)]));
}

/// Nodes 0 and 7 are equal, and each reaches the cap alone: the misfit of the models makes a mix
/// less certain than a node that was measured alone.
#[test]
fn the_best_mix_spreads_no_streams_at_the_cost_of_certainty() {
    let mut cells = alone(Read, &[28.7, 18.0, 18.0, 9.0]);
    cells.extend([1, 2, 4, 8].map(|streams| cell(Read, &[(7, streams)], 28.8)));
    cells.push(mix_cell(Read, &[(7, 4, 14.4), (0, 4, 14.4)]));
    let fit = fitted(&record(7, cells), Read, &[]);
    let spread = predicted(&fit, &[(0, 4), (7, 4)]);
    let best = best_mix(&fit, 8).expect("a mix");
    assert_eq!(best.streams, mix(&[(7, 8)]));
    assert!(spread.low < 0.99 * gbit(best.limits.low), "{spread:?} {best:?}");
}

/// Node 6 has a higher median than the device's node 7, within the noise.
#[test]
fn of_equal_nodes_the_best_mix_uses_the_devices_own() {
    let cells = vec![cell(Read, &[(6, 4)], 28.8), cell(Read, &[(7, 4)], 28.75), cell(Read, &[(0, 4)], 20.0)];
    let found = best_mix(&fitted(&record(7, cells), Read, &[]), 4).expect("a mix");
    assert_eq!(found.streams, mix(&[(7, 4)]));
}

/// A node that was not measured may be slower than its class.
#[test]
fn the_best_mix_prefers_measured_nodes() {
    let mut record = record(7, vec![cell(Read, &[(0, 4)], 30.0), cell(Read, &[(7, 4)], 29.0)]);
    let nodes = vec![NodeId(0), NodeId(1)];
    record.method.represented = vec![ClassRepresentative { direction: Read, node: NodeId(0), nodes }];
    let found = best_mix(&fitted(&record, Read, &[]), 4).expect("a mix");
    assert!(found.streams.iter().all(|flow| flow.node != NodeId(1)), "{:?}", found.streams);
}

/// 64 streams over 64 nodes with different paths, below a cap.
#[test]
fn finds_a_good_mix_of_a_large_machine() {
    let mut cells: Vec<IoCell> =
        (0..64).map(|node| cell(Read, &[(node, 1)], 1.0 + f64::from(node) / 64.0)).collect();
    let all: Vec<(u32, u32, f64)> = (0..64).map(|node| (node, 1, 50.0 / 64.0)).collect();
    cells.push(mix_cell(Read, &all));
    let fit = fit_of(cells);
    let found = best_mix(&fit, 64).expect("a mix");
    let number: u32 = found.streams.iter().map(|flow| flow.streams).sum();
    assert_eq!(number, 64);
    // One stream on each of the best nodes, the others on the best one, and one stream on each.
    for used in [29, 40, 64] {
        let parts: Vec<(u32, u32)> =
            (64 - used..64).map(|node| (node, if node == 63 { 65 - used } else { 1 })).collect();
        let low = predicted(&fit, &parts).low;
        assert!(gbit(found.limits.low) >= 0.99 * low, "{used} nodes: {:?} {low}", found.limits);
    }
}

#[test]
fn suggests_no_mix_of_a_single_node() {
    let fit = fit_of(vec![cell(Read, &[(0, 1)], 10.0)]);
    assert_eq!(suggest_mix(&fit, &NodeSet::parse_list("0-3").expect("nodes"), &[], &[]), None);
}
