use super::*;
use crate::views::derived;
use numaio_machine::workload::Direction;
use numaio_schema::{Quantity, VIEW_SCHEMA};
use proptest::prelude::*;

fn value(node: u32, value: f64, interval: Option<(f64, f64)>) -> NodeValue {
    NodeValue { node: NodeId(node), value, interval, n: 0, drift: 0.0, factor: None }
}

fn view_of(name: &str, quantity: Quantity, target: u32, nodes: Vec<NodeValue>) -> View {
    derived(View {
        schema: VIEW_SCHEMA.to_owned(),
        name: name.to_owned(),
        title: name.to_owned(),
        machine: "0123456789abcdef".to_owned(),
        target: NodeId(target),
        direction: None,
        quantity,
        nodes,
        level: 0.1,
        classes: Vec::new(),
        incomplete: false,
        measured_at: None,
    })
}

/// A stated view with values of nodes 0, 1, 2 and so on; more is better.
fn stated(values: &[f64]) -> View {
    let nodes = values.iter().zip(0..).map(|(number, node)| value(node, *number, None)).collect();
    view_of("stated", Quantity::BytesPerS, 0, nodes)
}

/// Medians with a half width relative to them.
fn measured(name: &str, noise: f64, values: &[(u32, f64)]) -> View {
    let interval = |number: f64| Some((number * (1.0 - noise), number * (1.0 + noise)));
    let nodes = values.iter().map(|(node, number)| value(*node, *number, interval(*number))).collect();
    view_of(name, Quantity::BytesPerS, 7, nodes)
}

fn tau(first: &[f64], second: &[f64]) -> Option<f64> {
    agreement(&stated(first), &stated(second)).tau_b
}

fn close(found: Option<f64>, wanted: f64) -> bool {
    found.is_some_and(|found| (found - wanted).abs() < 1e-9)
}

fn pairs(inversions: &[Inversion]) -> Vec<(u32, u32)> {
    inversions.iter().map(|pair| (pair.better_in_first.0, pair.better_in_second.0)).collect()
}

#[test]
fn tau_b_of_published_examples() {
    // Hollander and Wolfe, Nonparametric Statistical Methods, example 8.1, as in R's `cor.test`.
    let lightness = [44.4, 45.9, 41.9, 53.3, 44.7, 44.1, 50.7, 45.2, 60.1];
    let panel = [2.6, 3.1, 2.5, 5.0, 3.6, 4.0, 5.2, 2.8, 3.8];
    assert!(close(tau(&lightness, &panel), 0.444_444_444_4));
    // With ties in both: the example of `scipy.stats.kendalltau`, all values increased by 1.
    let found = tau(&[13.0, 3.0, 2.0, 13.0, 3.0], &[2.0, 5.0, 8.0, 2.0, 1.0]);
    assert!(close(found, -0.471_404_520_791_031_7), "{found:?}");
}

#[test]
fn pair_counts_match_a_manual_count() {
    // 0-1 tied in the first, 2-3 tied in both, 0-2 and 0-3 alike, 1-2 and 1-3 reversed.
    let (first, second) = (stated(&[9.0, 9.0, 5.0, 5.0]), stated(&[8.0, 2.0, 4.0, 4.0]));
    let found = agreement(&first, &second);
    assert_eq!((found.concordant, found.tied_in_one, found.tied_in_both), (2, 1, 1));
    assert_eq!(pairs(&found.inversions), [(1, 2), (1, 3)]);
    let Inversion { factor_in_first, factor_in_second, .. } = found.inversions[0];
    assert_eq!((factor_in_first, factor_in_second), (1.8, 2.0));
    assert_eq!((found.tau_b, found.same_classes), (Some(0.0), false));
}

#[test]
fn view_without_order_has_no_agreement() {
    assert_eq!(tau(&[4.0, 4.0, 4.0], &[1.0, 2.0, 3.0]), None);
    assert_eq!(tau(&[4.0], &[1.0]), None);
    assert_eq!(tau(&[], &[]), None);
    let uniform = agreement(&stated(&[4.0, 4.0]), &stated(&[9.0, 9.0]));
    assert!(uniform.same_classes && uniform.tied_in_both == 1);
}

#[test]
fn lower_distances_are_better() {
    let nodes = |values: &[f64]| values.iter().zip(0..).map(|(v, node)| value(node, *v, None)).collect();
    let distance = view_of("slit", Quantity::Distance, 0, nodes(&[10.0, 16.0, 22.0]));
    let found = agreement(&distance, &stated(&[50.0, 20.0, 40.0]));
    assert_eq!((found.concordant, pairs(&found.inversions)), (2, vec![(1, 2)]));
    assert_eq!((found.inversions[0].factor_in_first, found.inversions[0].factor_in_second), (1.375, 2.0));
    let classes: Vec<String> = distance.classes.iter().map(|class| class.nodes.to_string()).collect();
    assert_eq!(classes, ["0", "1", "2"]);
    assert_eq!(distance.nodes[2].factor, Some(2.2));
}

#[test]
fn intervals_that_share_a_value_are_ties() {
    let figures = |noise: f64| measured("a", noise, &[(0, 100.0), (1, 98.0), (2, 96.0)]);
    let order = stated(&[1.0, 2.0, 3.0]);
    let inversions = |noise: f64| agreement(&figures(noise), &order).inversions.len();
    // 98 and 100 are distinct below about 1 % noise, 96 and 100 below about 2 %.
    assert_eq!([0.005, 0.015, 0.03].map(inversions), [3, 1, 0]);
    let touching = [value(0, 10.0, Some((9.0, 11.0))), value(1, 12.0, Some((11.0, 13.0)))];
    let touching = view_of("t", Quantity::BytesPerS, 0, touching.to_vec());
    assert_eq!(agreement(&touching, &stated(&[1.0, 2.0])).tau_b, None);
}

#[test]
fn only_common_nodes_count() {
    let other = measured("b", 0.0, &[(1, 5.0), (2, 3.0), (9, 1.0)]);
    let found = agreement(&stated(&[3.0, 2.0, 1.0]), &other);
    assert_eq!((found.nodes.to_string().as_str(), found.concordant), ("1-2", 1));
    assert_eq!(agreement(&stated(&[1.0]), &other).nodes, NodeSet::new());
}

fn about() -> ComparisonContext {
    ComparisonContext {
        numaio: "0".to_owned(),
        machine: Identity::default(),
        measured_at: 1,
        target: NodeId(7),
        devices: Vec::new(),
        warnings: Vec::new(),
    }
}

#[test]
fn every_pair_is_compared_once_under_a_unique_name() {
    let names = ["a", "a", "a-2", "a"].map(|name| measured(name, 0.0, &[(0, 1.0), (1, 2.0)]));
    let comparison = compare(about(), names.to_vec());
    let names: Vec<&str> = comparison.views.iter().map(|view| view.name.as_str()).collect();
    assert_eq!(names, ["a", "a-2", "a-2-2", "a-3"]);
    let pairs: BTreeSet<(&str, &str)> =
        comparison.agreements.iter().map(|pair| (pair.first.as_str(), pair.second.as_str())).collect();
    assert_eq!((comparison.agreements.len(), pairs.len()), (6, 6));
    let text = serde_json::to_string(&comparison).expect("a document");
    assert_eq!(Comparison::from_json(&text).expect("the same"), comparison);
}

/// Li et al., ICPP 2013, node 7 of the DL585 G7: by STREAM nodes 0 and 1 are 43 to 88 % above nodes
/// 2 and 3, as for device writes; for device reads the order is reversed. Gbit/s; STREAM's levels
/// are chosen within those ratios, as in `lab/machines/amd-dl585-g7.json`: the paper shows them in
/// a plot.
#[test]
fn reproduces_the_papers_conclusion() {
    let write = [(7, 51.7), (6, 46.5), (0, 46.9), (1, 44.0), (4, 44.0), (5, 42.9), (2, 27.3), (3, 26.0)];
    let read = [(7, 51.7), (6, 47.1), (2, 50.3), (3, 46.9), (0, 40.9), (1, 40.4), (5, 39.9), (4, 27.9)];
    let cpu = [(7, 51.7), (6, 46.0), (0, 45.1), (1, 43.6), (4, 43.0), (5, 42.3), (2, 27.0), (3, 25.5)];
    let memory = [(7, 51.7), (6, 45.8), (0, 43.9), (1, 44.6), (4, 42.0), (5, 42.8), (2, 28.0), (3, 29.5)];
    let views = [("cpu", &cpu), ("memory", &memory), ("write", &write), ("read", &read)];
    let views = views.map(|(name, values)| measured(name, 0.01, values));
    let comparison = compare(about(), views.to_vec());
    let of = |first: &str, second: &str| {
        let found = comparison.agreements.iter().find(|pair| pair.first == first && pair.second == second);
        found.expect("the pair")
    };
    for stream in ["cpu", "memory"] {
        let with_write = of(stream, "write");
        assert!(with_write.same_classes, "{with_write:?}");
        assert!(with_write.tau_b.is_some_and(|tau| tau > 0.8), "{with_write:?}");
        // Nodes 2 and 3, of one class, may be swapped.
        let lost = with_write.inversions.iter().map(|pair| pair.factor_in_second);
        assert!(lost.fold(1.0, f64::max) < 1.1 && with_write.inversions.len() < 2, "{with_write:?}");
        let with_read = of(stream, "read");
        let wrong = pairs(&with_read.inversions);
        for pair in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            assert!(wrong.contains(&pair), "{stream}: {pair:?} not in {wrong:?}");
        }
        assert!(!with_read.same_classes);
        assert!(with_read.tau_b.is_some_and(|tau| tau < 0.4), "{with_read:?}");
    }
    let wrong = &of("cpu", "read").inversions;
    let lost = wrong.iter().find(|pair| (pair.better_in_first.0, pair.better_in_second.0) == (0, 2));
    let lost = lost.expect("node 0 before node 2");
    assert_eq!(format!("{:.2} {:.2}", lost.factor_in_first, lost.factor_in_second), "1.67 1.23");
    assert!(!of("write", "read").inversions.is_empty(), "the directions differ");
}

/// A few levels, so that ties are common.
fn levels(most: usize) -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((1u8..6, 1u8..6), 0..most)
        .prop_map(|levels| levels.into_iter().map(|(a, b)| (f64::from(a), f64::from(b))).collect())
}

/// Medians with intervals of any width.
fn noisy(name: &'static str) -> impl Strategy<Value = View> {
    prop::collection::vec((10.0..20.0f64, 0.0..0.2f64, 0.0..0.2f64), 2..10).prop_map(move |values| {
        let nodes = values.iter().zip(0..).map(|((middle, below, above), node)| {
            value(node, *middle, Some((middle * (1.0 - below), middle * (1.0 + above))))
        });
        view_of(name, Quantity::BytesPerS, 0, nodes.collect())
    })
}

/// Returns the number of pairs with equal values.
fn ties(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let groups = sorted.chunk_by(|a, b| a == b).map(|group| group.len() as f64);
    groups.map(|size| size * (size - 1.0) / 2.0).sum()
}

proptest! {
    /// Compares with Kendall's formula by the sizes of groups of ties.
    #[test]
    fn tau_b_is_kendalls(values in levels(12)) {
        let (x, y): (Vec<f64>, Vec<f64>) = values.iter().copied().unzip();
        let n = x.len() as f64;
        let mut s = 0.0;
        for i in 0..x.len() {
            for j in 0..x.len() {
                let sign = |d: f64| if d == 0.0 { 0.0 } else { d.signum() };
                s += sign(x[i] - x[j]) * sign(y[i] - y[j]) / 2.0;
            }
        }
        let all = n * (n - 1.0) / 2.0;
        let below = ((all - ties(&x)) * (all - ties(&y))).sqrt();
        match tau(&x, &y) {
            Some(found) => prop_assert!((found - s / below).abs() < 1e-9, "{} {}", found, s / below),
            None => prop_assert!(below <= 0.0 || n == 0.0),
        }
    }

    #[test]
    fn agreement_is_symmetric(a in noisy("a"), b in noisy("b")) {
        let (there, back) = (agreement(&a, &b), agreement(&b, &a));
        prop_assert_eq!(there.tau_b, back.tau_b);
        prop_assert_eq!(there.same_classes, back.same_classes);
        prop_assert_eq!(there.inversions.len(), back.inversions.len());
        for (one, other) in there.inversions.iter().zip(&back.inversions) {
            prop_assert_eq!(one.better_in_first, other.better_in_second);
            prop_assert_eq!(one.factor_in_first, other.factor_in_second);
        }
        prop_assert!(there.tau_b.is_none_or(|tau| (-1.0..=1.0).contains(&tau)));
    }

    /// Every pair is counted once, and inversions are exactly the pairs with disjoint intervals and
    /// opposite orders.
    #[test]
    fn inversions_are_the_discordant_pairs(a in noisy("a"), b in noisy("b")) {
        let found = agreement(&a, &b);
        let nodes: Vec<NodeId> = found.nodes.iter().collect();
        let pairs = nodes.len() * nodes.len().saturating_sub(1) / 2;
        let counted = (found.concordant + found.tied_in_one + found.tied_in_both) as usize;
        prop_assert_eq!(counted + found.inversions.len(), pairs);
        let beats = |view: &View, node: NodeId, other: NodeId| {
            let of = |node| view.node(node).and_then(|value| value.interval).expect("an interval");
            of(node).0 > of(other).1
        };
        for one in &nodes {
            for other in &nodes {
                let discordant = beats(&a, *one, *other) && beats(&b, *other, *one);
                let inversions: Vec<&Inversion> = found.inversions.iter()
                    .filter(|pair| (pair.better_in_first, pair.better_in_second) == (*one, *other)).collect();
                prop_assert_eq!(inversions.len(), usize::from(discordant));
                prop_assert!(inversions.iter().all(|pair| pair.factor_in_first > 1.0 && pair.factor_in_second > 1.0));
            }
        }
    }

    #[test]
    fn a_view_agrees_with_itself_and_not_with_its_reverse(a in noisy("a")) {
        let itself = agreement(&a, &a);
        prop_assert!(itself.same_classes && itself.inversions.is_empty());
        prop_assert!(itself.tau_b.is_none_or(|tau| tau == 1.0));
        let reversed = derived(View { quantity: Quantity::NsPerLoad, ..a.clone() });
        let found = agreement(&a, &reversed);
        prop_assert_eq!(found.concordant, 0);
        prop_assert!(found.tau_b.is_none_or(|tau| tau == -1.0));
    }

    /// Only the order counts: an increasing function of the values changes nothing.
    #[test]
    fn increasing_functions_change_nothing(a in noisy("a"), b in noisy("b")) {
        let risen = |number: f64| number.powi(3) / 7.0;
        let mut other = a.clone();
        for value in &mut other.nodes {
            value.value = risen(value.value);
            value.interval = value.interval.map(|(low, high)| (risen(low), risen(high)));
        }
        let (before, after) = (agreement(&a, &b), agreement(&other, &b));
        prop_assert_eq!(before.tau_b, after.tau_b);
        prop_assert_eq!(pairs(&before.inversions), pairs(&after.inversions));
    }
}

#[test]
fn directions_do_not_affect_agreement() {
    let write = View { direction: Some(Direction::Write), ..stated(&[1.0, 2.0]) };
    assert_eq!(agreement(&write, &stated(&[1.0, 2.0])).tau_b, Some(1.0));
}
