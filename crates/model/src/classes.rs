//! Bandwidth classes of nodes, by three rules.

use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_schema::{Class, ClassRule};

/// A node's bandwidth in bytes copied per second, with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The node.
    pub node: NodeId,
    /// Median.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Classifies nodes, best class first. `first` is the target with its neighbors, for rule `paper`.
///
/// `level` is the share of a class's best value by which a member may be lower, from 0 to 1. All
/// values must be finite and positive.
pub fn classify(points: &[Point], rule: ClassRule, level: f64, first: &NodeSet) -> Vec<Class> {
    let mut sorted = points.to_vec();
    // Best first; ties by node ID, so that the order of input does not matter.
    sorted.sort_by(|a, b| b.value.total_cmp(&a.value).then(a.node.cmp(&b.node)));
    let groups = match rule {
        ClassRule::Measured => classify_by_level(&sorted, level),
        ClassRule::Paper => classify_by_paper(&sorted, level, first),
        ClassRule::Kmeans => classify_by_kmeans(&sorted),
    };
    groups.iter().enumerate().map(|(index, group)| class(index as u32 + 1, group)).collect()
}

fn class(rank: u32, members: &[Point]) -> Class {
    let values = || members.iter().map(|point| point.value);
    Class {
        rank,
        nodes: members.iter().map(|point| point.node).collect(),
        min_bytes_copied_per_s: values().fold(f64::INFINITY, f64::min),
        max_bytes_copied_per_s: values().fold(0.0, f64::max),
        mean_bytes_copied_per_s: values().sum::<f64>() / members.len() as f64,
    }
}

/// Rule `paper`: the target and its neighbors are class 1 regardless of their values, the others
/// are classified by level (Li et al., ICPP 2013, section IV).
fn classify_by_paper(sorted: &[Point], level: f64, first: &NodeSet) -> Vec<Vec<Point>> {
    let (near, far): (Vec<Point>, Vec<Point>) = sorted.iter().partition(|point| first.contains(point.node));
    let near = (!near.is_empty()).then_some(near);
    near.into_iter().chain(classify_by_level(&far, level)).collect()
}

/// Rule `measured`: the fewest groups of adjacent values without a member below the group's best by
/// more than the level, and among those the least sum of squares.
///
/// Dynamic program over the ends of groups with the cost (number of groups, sum of squares),
/// compared in that order. O(n^2) steps after prefix sums.
fn classify_by_level(sorted: &[Point], level: f64) -> Vec<Vec<Point>> {
    let squares = SquareSums::new(sorted);
    let reach: Vec<usize> =
        (0..sorted.len()).map(|start| start + similar_count(&sorted[start..], level)).collect();
    // best[end]: lowest cost of the first `end` points, and the start of their last group.
    let mut best: Vec<(usize, f64, usize)> = vec![(0, 0.0, 0)];
    for end in 1..=sorted.len() {
        let cheapest = (0..end)
            .filter(|&start| end <= reach[start])
            .map(|start| (best[start].0 + 1, best[start].1 + squares.within(start, end), start))
            .min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        // A single point is always a valid group.
        best.extend(cheapest);
    }
    let cuts = cuts(sorted.len(), |end| best[end].2);
    cut(sorted, &cuts)
}

/// Relative tolerance of the level: a value exactly at it belongs to the class, whatever the
/// rounding of the product.
const ROUNDING: f64 = 1e-9;

/// Returns how many points from the best on are similar: none is below the best by more than the
/// level and the noise. Some value in its interval is within the level of some value in the best's
/// interval.
fn similar_count(sorted: &[Point], level: f64) -> usize {
    let Some(best) = sorted.first() else { return 0 };
    let is_alike = |member: &&Point| {
        let within = |value: f64, best: f64| value >= (1.0 - level) * best * (1.0 - ROUNDING);
        within(member.value, best.value) || within(member.high, best.low)
    };
    sorted.iter().take_while(is_alike).count()
}

/// Cbench's rule (Braithwaite et al., 2012): k-means for K from 2 to sqrt(n/2), and the K with the
/// smallest ratio of the clusters' mean radius to the mean distance between their centers. In one
/// dimension the optimum is a partition of the sorted values, found exactly by dynamic programming,
/// without a random start. For fewer than eight nodes that range is empty, and K is 2. K is at most
/// the number of distinct values: equal values are one class.
fn classify_by_kmeans(sorted: &[Point]) -> Vec<Vec<Point>> {
    let n = sorted.len();
    if n < 2 || sorted[0].value == sorted[n - 1].value {
        return classify_by_level(sorted, 1.0);
    }
    let distinct = 1 + sorted.windows(2).filter(|pair| pair[0].value != pair[1].value).count();
    let most = ((n as f64 / 2.0).sqrt() as usize).max(2).min(distinct);
    let squares = SquareSums::new(sorted);
    let tables = kmeans_tables(&squares, n, most);
    let partitions = (2..=most).map(|k| {
        let mut groups = k;
        let cuts = cuts(n, |end| {
            groups -= 1;
            tables[groups][end].1
        });
        cut(sorted, &cuts)
    });
    let scored = partitions.map(|groups| (cluster_ratio(&groups), groups));
    // The first of ties: the fewest clusters.
    scored
        .reduce(|best, next| if next.0 < best.0 { next } else { best })
        .map(|(_, groups)| groups)
        .unwrap_or_default()
}

/// `tables[k-1][end]`: least sum of squares of the first `end` points in `k` clusters, and the
/// start of the last cluster.
fn kmeans_tables(squares: &SquareSums, n: usize, most: usize) -> Vec<Vec<(f64, usize)>> {
    let mut tables: Vec<Vec<(f64, usize)>> = vec![(0..=n).map(|end| (squares.within(0, end), 0)).collect()];
    for k in 2..=most {
        let previous = &tables[k - 2];
        let row = (0..=n)
            .map(|end| {
                (k - 1..end)
                    .map(|start| (previous[start].0 + squares.within(start, end), start))
                    .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
                    .unwrap_or((f64::INFINITY, 0))
            })
            .collect();
        tables.push(row);
    }
    tables
}

/// Returns the mean radius of the clusters (greatest distance of a member from the center) over the
/// mean distance between their centers.
fn cluster_ratio(groups: &[Vec<Point>]) -> f64 {
    let center = |group: &[Point]| group.iter().map(|point| point.value).sum::<f64>() / group.len() as f64;
    let centers: Vec<f64> = groups.iter().map(|group| center(group)).collect();
    let radius = |(group, center): (&Vec<Point>, &f64)| {
        group.iter().map(|point| (point.value - center).abs()).fold(0.0, f64::max)
    };
    let radii: f64 = groups.iter().zip(&centers).map(radius).sum();
    let pairs =
        centers.iter().enumerate().flat_map(|(i, a)| centers[i + 1..].iter().map(move |b| (a - b).abs()));
    let (distance, count) = pairs.fold((0.0, 0), |(sum, count), distance| (sum + distance, count + 1));
    (radii / groups.len() as f64) / (distance / f64::from(count.max(1)))
}

/// Collects the starts of groups from the last point to the first.
fn cuts(n: usize, mut start_of_group_ending: impl FnMut(usize) -> usize) -> Vec<usize> {
    let mut cuts = vec![n];
    let mut end = n;
    while end > 0 {
        end = start_of_group_ending(end);
        cuts.push(end);
    }
    cuts.reverse();
    cuts
}

fn cut(sorted: &[Point], cuts: &[usize]) -> Vec<Vec<Point>> {
    cuts.windows(2).map(|ends| sorted[ends[0]..ends[1]].to_vec()).collect()
}

/// Sums of squares around the mean of any range of sorted points in constant time. Values are
/// scaled by the first one, so that squares of bytes per second do not cancel differences.
struct SquareSums {
    sums: Vec<(f64, f64)>,
}

impl SquareSums {
    fn new(sorted: &[Point]) -> Self {
        let scale = sorted.first().map_or(1.0, |point| point.value);
        let mut sums = vec![(0.0, 0.0)];
        for point in sorted {
            let (sum, squares) = sums[sums.len() - 1];
            let value = point.value / scale - 1.0;
            sums.push((sum + value, squares + value * value));
        }
        Self { sums }
    }

    fn within(&self, start: usize, end: usize) -> f64 {
        if end <= start {
            return 0.0;
        }
        let sum = self.sums[end].0 - self.sums[start].0;
        let squares = self.sums[end].1 - self.sums[start].1;
        (squares - sum * sum / (end - start) as f64).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(values: &[f64], noise: f64) -> Vec<Point> {
        let point = |(index, value): (usize, &f64)| Point {
            node: NodeId(index as u32),
            value: *value,
            low: value * (1.0 - noise),
            high: value * (1.0 + noise),
        };
        values.iter().enumerate().map(point).collect()
    }

    fn sets(classes: &[Class]) -> Vec<String> {
        classes.iter().map(|class| class.nodes.to_string()).collect()
    }

    fn classes(values: &[f64], rule: ClassRule, first: &str) -> Vec<String> {
        let first = NodeSet::parse_list(first).expect("a list");
        sets(&classify(&points(values, 0.0), rule, 0.1, &first))
    }

    // Li et al., ICPP 2013, Tables IV and V: toward node 7 of an HP DL585 G7, Gbit/s by node.
    // Values inside the printed ranges are chosen, and the local copy is the same in both
    // directions.
    const WRITE: [f64; 8] = [46.9, 44.0, 27.3, 26.0, 44.0, 42.9, 46.5, 51.7];
    const READ: [f64; 8] = [40.9, 40.4, 50.3, 46.9, 27.9, 39.9, 47.1, 51.7];

    #[test]
    fn paper_rule_reproduces_the_papers_tables() {
        assert_eq!(classes(&WRITE, ClassRule::Paper, "6-7"), ["6-7", "0-1,4-5", "2-3"]);
        assert_eq!(classes(&READ, ClassRule::Paper, "6-7"), ["6-7", "2-3", "0-1,5", "4"]);
    }

    #[test]
    fn measured_rule_classifies_the_papers_values() {
        assert_eq!(classes(&WRITE, ClassRule::Measured, ""), ["7", "0-1,4-6", "2-3"]);
        assert_eq!(classes(&READ, ClassRule::Measured, ""), ["2-3,6-7", "0-1,5", "4"]);
    }

    #[test]
    fn neighbor_at_half_the_bandwidth_misleads_only_the_paper_rule() {
        let values = [100.0, 50.0, 52.0, 51.0];
        assert_eq!(classes(&values, ClassRule::Paper, "0-1"), ["0-1", "2-3"]);
        assert_eq!(classes(&values, ClassRule::Measured, "0-1"), ["0", "1-3"]);
    }

    #[test]
    fn chain_of_small_steps_does_not_join_different_nodes() {
        let chain: Vec<f64> = (0..12).map(|step| 100.0 * 0.95f64.powi(step)).collect();
        let found = classify(&points(&chain, 0.0), ClassRule::Measured, 0.1, &NodeSet::new());
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|class| class.min_bytes_copied_per_s >= 0.9 * class.max_bytes_copied_per_s));
    }

    #[test]
    fn noise_tolerates_a_member_slightly_below_the_level() {
        let narrow = classify(&points(&[100.0, 89.0], 0.001), ClassRule::Measured, 0.1, &NodeSet::new());
        let wide = classify(&points(&[100.0, 89.0], 0.02), ClassRule::Measured, 0.1, &NodeSet::new());
        assert_eq!((narrow.len(), wide.len()), (2, 1));
    }

    /// 0.9 has no exact representation: some products are above the exact value, others below.
    #[test]
    fn a_value_exactly_at_the_level_belongs_to_the_class() {
        for best in [72.9, 81.0, 65.61, 100.0, 0.3, 1e9, 7.7e-9] {
            let edge = best * 9.0 / 10.0;
            assert_eq!(classes(&[best, edge], ClassRule::Measured, ""), ["0-1"], "{best}");
            assert_eq!(classes(&[best, edge * (1.0 - 1e-6)], ClassRule::Measured, ""), ["0", "1"], "{best}");
        }
        assert_eq!(classes(&[72.9, 65.61], ClassRule::Measured, ""), ["0-1"]);
        assert_eq!(classes(&[81.0, 72.9], ClassRule::Measured, ""), ["0-1"]);
        // Latencies are classified by their inverse: 90 ns is within 10 % of 81 ns.
        assert_eq!(classes(&[1.0 / 81.0, 1.0 / 90.0], ClassRule::Measured, ""), ["0-1"]);
    }

    #[test]
    fn kmeans_takes_k_from_2_to_the_root_of_half_the_nodes() {
        assert_eq!(classes(&[10.0, 10.1, 5.0, 5.1], ClassRule::Kmeans, ""), ["0-1", "2-3"]);
        assert_eq!(classes(&[7.0; 4], ClassRule::Kmeans, ""), ["0-3"]);
        let three: Vec<f64> = (0..18).map(|node| [100.0, 60.0, 20.0][node / 6] + node as f64 * 0.1).collect();
        assert_eq!(classes(&three, ClassRule::Kmeans, ""), ["0-5", "6-11", "12-17"]);
        let two: Vec<f64> = (0..18).map(|node| if node < 9 { 2.0 } else { 1.0 }).collect();
        assert_eq!(classes(&two, ClassRule::Kmeans, ""), ["0-8", "9-17"], "not more than distinct values");
    }

    /// Download and readback of a GPU in GB/s by node (Braithwaite et al., 2012, Table 5).
    #[test]
    fn kmeans_classifies_the_rows_of_cbench() {
        for row in [[5.85, 5.32, 2.35, 2.32], [6.58, 5.32, 2.31, 2.28]] {
            assert_eq!(classes(&row, ClassRule::Kmeans, ""), ["0-1", "2-3"]);
        }
    }

    #[test]
    fn classifies_empty_and_single_inputs() {
        for rule in ClassRule::ALL {
            assert!(classes(&[], rule, "").is_empty());
            assert_eq!(classes(&[5.0], rule, "0"), ["0"]);
        }
    }

    /// Returns every division of `n` sorted points into ranges.
    fn partitions(n: usize) -> impl Iterator<Item = Vec<usize>> {
        (0..1u32 << (n - 1)).map(move |bits| {
            let inner = (1..n).filter(|at| bits & (1 << (at - 1)) != 0);
            std::iter::once(0).chain(inner).chain([n]).collect()
        })
    }

    /// Returns all partitions of `n` sorted values into `k` groups, as cuts.
    fn partitions_into(k: usize, n: usize) -> Vec<Vec<usize>> {
        let mut cuts: Vec<Vec<usize>> = vec![vec![0]];
        for group in 1..k {
            let ends = |cuts: Vec<usize>| {
                let last = cuts[cuts.len() - 1];
                (last + 1..=n - (k - group)).map(move |end| [&cuts[..], &[end]].concat())
            };
            cuts = cuts.into_iter().flat_map(ends).collect();
        }
        cuts.into_iter().map(|cuts| [&cuts[..], &[n]].concat()).collect()
    }

    fn cost(groups: &[Vec<Point>]) -> f64 {
        let of = |group: &Vec<Point>| {
            let mean = group.iter().map(|point| point.value).sum::<f64>() / group.len() as f64;
            group.iter().map(|point| (point.value - mean).powi(2)).sum::<f64>()
        };
        groups.iter().map(of).sum()
    }

    proptest! {
        /// Compares with every partition.
        #[test]
        fn by_level_is_optimal(values in prop::collection::vec(10.0..100.0f64, 1..9), noise in 0.0..0.05f64) {
            let mut sorted = points(&values, noise);
            sorted.sort_by(|a, b| b.value.total_cmp(&a.value));
            let found = classify_by_level(&sorted, 0.1);
            prop_assert!(found.iter().all(|group| similar_count(group, 0.1) == group.len()));
            for cuts in partitions(sorted.len()) {
                let other = cut(&sorted, &cuts);
                if other.iter().all(|group| similar_count(group, 0.1) == group.len()) {
                    prop_assert!(found.len() <= other.len());
                    if found.len() == other.len() {
                        prop_assert!(cost(&found) <= cost(&other) * (1.0 + 1e-9) + 1e-9);
                    }
                }
            }
        }

        #[test]
        fn kmeans_is_optimal_for_its_k(values in prop::collection::vec(10.0..100.0f64, 2..9)) {
            let mut sorted = points(&values, 0.0);
            sorted.sort_by(|a, b| b.value.total_cmp(&a.value));
            let found = classify_by_kmeans(&sorted);
            for cuts in partitions(sorted.len()) {
                let other = cut(&sorted, &cuts);
                if other.len() == found.len() {
                    prop_assert!(cost(&found) <= cost(&other) * (1.0 + 1e-9) + 1e-9);
                }
            }
        }

        /// Compares with every partition for each K, and with the ratio of each K.
        #[test]
        fn kmeans_is_optimal_for_every_k_and_takes_the_best_one(values in prop::collection::vec(10.0..100.0f64, 8..40)) {
            let mut sorted = points(&values, 0.0);
            sorted.sort_by(|a, b| b.value.total_cmp(&a.value));
            let found = classify_by_kmeans(&sorted);
            let most = (values.len() as f64 / 2.0).sqrt() as usize;
            let mut ratios = Vec::new();
            for k in 2..=most {
                let partitions = partitions_into(k, sorted.len()).into_iter().map(|cuts| cut(&sorted, &cuts));
                let best = partitions.min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("a partition");
                ratios.push(cluster_ratio(&best));
                if k == found.len() {
                    prop_assert!(cost(&found) <= cost(&best) * (1.0 + 1e-9) + 1e-9);
                }
            }
            let best = ratios.into_iter().fold(f64::INFINITY, f64::min);
            prop_assert!((2..=most).contains(&found.len()) && cluster_ratio(&found) <= best * (1.0 + 1e-6) + 1e-9);
        }

        /// Every node is in one class, and the classes do not depend on the order of nodes.
        #[test]
        fn order_does_not_matter(values in prop::collection::vec(1.0..100.0f64, 1..40), turn in 0usize..40) {
            let straight = points(&values, 0.01);
            let mut turned = straight.clone();
            turned.rotate_left(turn % values.len());
            for rule in ClassRule::ALL {
                let first = NodeSet::one(NodeId(0));
                let found = classify(&straight, rule, 0.1, &first);
                prop_assert_eq!(&found, &classify(&turned, rule, 0.1, &first));
                prop_assert_eq!(found.iter().map(|class| class.nodes.len()).sum::<usize>(), values.len());
            }
        }
    }

    #[test]
    fn ties_are_ordered_by_node_id() {
        let of =
            |node: u32, value: f64, noise: f64| Point { node: NodeId(node), ..points(&[value], noise)[0] };
        let three = [of(0, 100.0, 0.001), of(1, 100.0, 0.3), of(2, 75.0, 0.001)];
        for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
            let points = order.map(|index: usize| three[index]);
            let found = classify(&points, ClassRule::Measured, 0.1, &NodeSet::new());
            assert_eq!(sets(&found), ["0-1", "2"], "{order:?}");
        }
    }

    #[test]
    fn class_has_its_range_and_mean() {
        let found = classify(&points(&[100.0, 98.0, 93.0], 0.0), ClassRule::Measured, 0.1, &NodeSet::new());
        let Class { min_bytes_copied_per_s, max_bytes_copied_per_s, mean_bytes_copied_per_s, .. } = found[0];
        let found = (min_bytes_copied_per_s, max_bytes_copied_per_s, mean_bytes_copied_per_s);
        assert_eq!(found, (93.0, 100.0, 97.0));
    }

    #[test]
    fn cluster_ratio_is_mean_radius_over_mean_distance() {
        let groups = [&[10.0, 8.0][..], &[4.0], &[1.0, 1.0]].map(|values| points(values, 0.0));
        // Centers 9, 4 and 1; radii 1, 0 and 0; distances 5, 8 and 3.
        assert!((cluster_ratio(&groups) - (1.0 / 3.0) / (16.0 / 3.0)).abs() < 1e-12);
        let two: Vec<f64> = (0..18).map(|node| [10.0, 5.0][node / 9]).collect();
        assert_eq!(classes(&two, ClassRule::Kmeans, ""), ["0-8", "9-17"], "of equals the fewest clusters");
    }
}
