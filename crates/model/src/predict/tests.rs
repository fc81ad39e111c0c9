use super::*;
use crate::testing::{cell, record};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{
    CapSource, Capacities, ClassRepresentative, IoCell, IoRecord, LimitedBy, NodeStreams, Sharing,
};
use proptest::prelude::*;
use Direction::{Read, Write};

fn mix(parts: &[(u32, u32)]) -> Vec<NodeStreams> {
    parts.iter().map(|(node, streams)| NodeStreams { node: NodeId(*node), streams: *streams }).collect()
}

fn fitted(record: &IoRecord, direction: Direction, but: &[(u32, u32)]) -> Capacities {
    let records = [record];
    let basis =
        CapacityInputs { records: &records, model: None, link_bytes_per_s: None, direction, operation: None };
    capacities(&basis, &mix(but)).expect("something was measured")
}

fn fit_of(cells: Vec<IoCell>) -> Capacities {
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

/// The drive of `lab/machines/amd-dl585-g7-disk.json`: paths of 28.8, 28.5 and 18.0 below a cap of
/// 28.8.
#[test]
fn cap_from_one_mix_limits_others() {
    let cells = vec![
        cell(Write, &[(7, 4)], 28.8),
        cell(Write, &[(0, 4)], 28.5),
        cell(Write, &[(2, 4)], 18.0),
        cell(Write, &[(3, 4)], 9.0),
        cell(Write, &[(7, 4), (0, 4), (2, 4)], 28.7),
    ];
    let capacities = fitted(&record(7, cells), Write, &[]);
    assert_eq!((capacities.cap_source, capacities.sharing), (CapSource::Mix, Sharing::MaxMin));
    let found = predict(&capacities, &mix(&[(7, 4), (2, 4)])).expect("a prediction");
    close(gbit(found.limits.bytes_per_s), 28.8);
    assert!(found.flows.iter().all(|flow| flow.limited_by == LimitedBy::Device), "{:?}", found.flows);
    let found = predict(&capacities, &mix(&[(2, 4), (3, 4)])).expect("a prediction");
    close(gbit(found.limits.bytes_per_s), 27.0);
    assert!(found.flows.iter().all(|flow| flow.limited_by == LimitedBy::Path));
    // Node 3 leaves the part of its fair share that exceeds its path.
    let found = predict(&capacities, &mix(&[(7, 4), (3, 4)])).expect("a prediction");
    let rates: Vec<f64> = found.flows.iter().map(|flow| gbit(flow.bytes_per_s).round()).collect();
    assert_eq!(rates, [9.0, 20.0]);
}

/// As in the paper's example: a cap cannot explain a mix below its best node alone.
#[test]
fn one_mix_identifies_a_time_sharing_device() {
    let cells = vec![
        cell(Read, &[(2, 4)], 22.0),
        cell(Read, &[(0, 4)], 18.0),
        cell(Read, &[(4, 4)], 14.0),
        cell(Read, &[(2, 2), (0, 2)], 19.4),
    ];
    let capacities = fit_of(cells);
    let Sharing::Time { factor, interval } = capacities.sharing else { panic!("{capacities:?}") };
    close(factor, 19.4 / 20.0);
    assert!(interval.0 < factor && factor < interval.1);
    let found = predict(&capacities, &mix(&[(2, 1), (4, 3)])).expect("a prediction");
    close(gbit(found.limits.bytes_per_s), (22.0 + 3.0 * 14.0) / 4.0 * 0.97);
    assert_eq!(best_mix(&capacities, 4).expect("a mix").streams, mix(&[(2, 4)]));
}

#[test]
fn assumed_cap_widens_the_interval() {
    let capacities = fit_of(vec![cell(Read, &[(0, 1)], 10.0), cell(Read, &[(1, 1)], 8.0)]);
    assert_eq!(capacities.cap_source, CapSource::Assumed);
    let found = predict(&capacities, &mix(&[(0, 1), (1, 1)])).expect("a prediction");
    close(gbit(found.limits.bytes_per_s), 10.0);
    assert!(gbit(found.limits.high) > 17.9, "the paths may add up: {:?}", found.limits);
}

#[test]
fn additive_mixes_show_no_cap() {
    let cells =
        vec![cell(Read, &[(0, 1)], 10.0), cell(Read, &[(1, 1)], 8.0), cell(Read, &[(0, 1), (1, 1)], 18.0)];
    let capacities = fit_of(cells);
    assert_eq!(capacities.cap_source, CapSource::AtLeast);
    let found = predict(&capacities, &mix(&[(0, 1), (1, 1)])).expect("a prediction");
    close(gbit(found.limits.bytes_per_s), 18.0);
}

#[test]
fn predicted_mix_is_excluded_from_the_fit() {
    let cells =
        vec![cell(Read, &[(0, 1)], 10.0), cell(Read, &[(1, 1)], 8.0), cell(Read, &[(0, 1), (1, 1)], 12.0)];
    let record = record(0, cells);
    assert_eq!(fitted(&record, Read, &[(1, 1), (0, 1)]).cap_source, CapSource::Assumed);
    let learned = fitted(&record, Read, &[(0, 2), (1, 1)]);
    assert_eq!((learned.cap_source, gbit(learned.cap.bytes_per_s).round()), (CapSource::Mix, 12.0));
}

#[test]
fn link_bandwidth_is_an_upper_bound() {
    let record = record(0, vec![cell(Read, &[(0, 1)], 10.0), cell(Read, &[(1, 1)], 8.0)]);
    let records = [&record];
    let link_bytes_per_s = Some(9e9 / 8.0);
    let basis =
        CapacityInputs { records: &records, model: None, link_bytes_per_s, direction: Read, operation: None };
    let capacities = capacities(&basis, &[]).expect("capacities");
    let found = predict(&capacities, &mix(&[(0, 1), (1, 1)])).expect("a prediction");
    close(gbit(found.limits.bytes_per_s), 9.0);
    assert!(gbit(found.limits.high) <= 9.0);
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
    record.method.represented = vec![ClassRepresentative { direction: Read, by: NodeId(0), nodes }];
    let capacities = fitted(&record, Read, &[]);
    let known: Vec<(u32, u32)> = capacities.nodes.iter().map(|node| (node.node.0, node.measured.0)).collect();
    assert_eq!(known, [(0, 0), (1, 0), (4, 0), (7, 7)]);
    let found = predict(&capacities, &mix(&[(4, 2)])).expect("a prediction");
    close(gbit(found.limits.bytes_per_s), 20.0);
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
    };
    let error = super::capacities(&basis, &[]).expect_err("nothing").to_string();
    assert_eq!(error, "no device read of the device was measured");
}

#[test]
fn saturating_mix_keeps_every_node_busy() {
    let cells = vec![
        cell(Read, &[(0, 1)], 9.0),
        cell(Read, &[(0, 4)], 24.0),
        cell(Read, &[(0, 16)], 24.1),
        cell(Read, &[(1, 1)], 20.0),
    ];
    let nodes = |list: &str| NodeSet::parse_list(list).expect("nodes");
    let capacities = fit_of(cells);
    assert_eq!(saturating_mix(&capacities, &nodes("0-7")), mix(&[(0, 4), (1, 1)]));
    assert!(saturating_mix(&capacities, &nodes("1-7")).is_empty());
}

#[test]
fn best_mix_uses_the_fewest_nodes() {
    let cells = vec![
        cell(Read, &[(0, 1)], 10.0),
        cell(Read, &[(1, 1)], 12.0),
        cell(Read, &[(7, 1)], 11.0),
        cell(Read, &[(2, 1)], 4.0),
        cell(Read, &[(0, 1), (1, 1), (7, 1)], 20.0),
    ];
    let capacities = fit_of(cells);
    let found = best_mix(&capacities, 5).expect("a mix");
    let used: Vec<u32> = found.streams.iter().map(|flow| flow.node.0).collect();
    assert_eq!((used, gbit(found.limits.bytes_per_s).round()), (vec![1, 7], 20.0));
    assert_eq!(best_mix(&capacities, 1).expect("a mix").streams, mix(&[(1, 1)]));
}

/// A fit of any nodes with 1, 2, 4 and 8 streams each, and possibly a mix.
fn any_fit() -> impl Strategy<Value = Capacities> {
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
        for node in &capacities.nodes {
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
            capacities.nodes.iter().zip(streams).map(|(node, streams)| (node.node.0, streams)).collect();
        let halves: Vec<(u32, u32)> =
            parts.iter().rev().flat_map(|(node, streams)| [(*node, streams - 1), (*node, 1)]).collect();
        prop_assert_eq!(predict(&capacities, &mix(&parts)), predict(&capacities, &mix(&halves)));
    }

    /// Neither predictor predicts less if a path, the cap or the link has a higher bandwidth.
    #[test]
    fn more_capacity_is_never_less(
        capacities in any_fit(),
        streams in prop::collection::vec(1u32..9, 1..6),
        which in 0usize..5,
        more in 1.0f64..2.0,
    ) {
        let parts: Vec<(u32, u32)> =
            capacities.nodes.iter().zip(streams).map(|(node, streams)| (node.node.0, streams)).collect();
        let before = predict(&capacities, &mix(&parts)).expect("a prediction");
        let mut larger = capacities.clone();
        match larger.nodes.get_mut(which) {
            Some(node) => node.streams.iter_mut().for_each(|known| known.estimate = known.estimate.map(|v| v * more)),
            None => larger.cap = larger.cap.map(|cap| cap * more),
        }
        let after = predict(&larger, &mix(&parts)).expect("a prediction");
        for (before, after) in [(before.limits, after.limits), (before.equation_1, after.equation_1)] {
            prop_assert!(after.bytes_per_s >= before.bytes_per_s * (1.0 - 1e-9));
            prop_assert!(after.low >= before.low * (1.0 - 1e-9) && after.high >= before.high * (1.0 - 1e-9));
        }
    }

    #[test]
    fn predictions_lie_in_their_intervals_and_flows_add_up(
        capacities in any_fit(),
        streams in prop::collection::vec(1u32..20, 1..6),
    ) {
        let parts: Vec<(u32, u32)> =
            capacities.nodes.iter().zip(streams).map(|(node, streams)| (node.node.0, streams)).collect();
        let found = predict(&capacities, &mix(&parts)).expect("a prediction");
        for estimate in [found.limits, found.equation_1] {
            prop_assert!(estimate.low <= estimate.bytes_per_s && estimate.bytes_per_s <= estimate.high, "{:?}", estimate);
        }
        let sum: f64 = found.flows.iter().map(|flow| flow.bytes_per_s).sum();
        prop_assert!((sum / found.limits.bytes_per_s - 1.0).abs() < 1e-9);
        prop_assert!(found.flows.iter().all(|flow| flow.bytes_per_s <= flow.alone.bytes_per_s * (1.0 + 1e-9)));
    }

    /// Compares with every distribution.
    #[test]
    fn the_best_mix_is_the_best(capacities in any_fit(), streams in 1u32..7) {
        let found = best_mix(&capacities, streams).expect("a mix");
        let number: u32 = found.streams.iter().map(|flow| flow.streams).sum();
        prop_assert_eq!(number, streams);
        let all = distributions(capacities.nodes.len() as u32, streams);
        let of = |parts: &Vec<(u32, u32)>| predict(&capacities, &mix(parts)).expect("a prediction").limits.bytes_per_s;
        let most = all.iter().map(of).fold(0.0, f64::max);
        prop_assert!(found.limits.bytes_per_s >= most * (1.0 - 1e-9), "{} of {most}", found.limits.bytes_per_s);
        let used = |parts: &Vec<(u32, u32)>| parts.iter().filter(|(_, streams)| *streams > 0).count();
        let fewest = all.iter().filter(|parts| of(parts) >= most * (1.0 - 1e-9)).map(used).min();
        prop_assert_eq!(Some(found.streams.len()), fewest);
    }
}

/// 64 streams over 64 nodes with different paths.
#[test]
fn finds_the_best_mix_of_a_large_machine() {
    let mut cells: Vec<IoCell> =
        (0..64).map(|node| cell(Read, &[(node, 1)], 1.0 + f64::from(node) / 64.0)).collect();
    let all: Vec<(u32, u32)> = (0..64).map(|node| (node, 1)).collect();
    cells.push(cell(Read, &all, 50.0));
    let found = best_mix(&fit_of(cells), 64).expect("a mix");
    // The 28 best paths sum up to 49.7, 29 of them to 51.2.
    assert_eq!(found.streams.len(), 29);
    close(gbit(found.limits.bytes_per_s), 50.0);
}
