//! Classes of the cells of a sweep: all pairs of CPUs and memory node, as in Table 4 of Braithwaite
//! et al. (2012).

use crate::classes::{classify, Point};
use crate::fit::ClassOptions;
use crate::views::point;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_schema::{ClassRule, NodeValue, Quantity, SweepClass, SweepClasses, SweepRecord};

/// Classifies the cells that have a figure, best first.
///
/// Rule `paper` puts the cells into class 1 whose CPUs and memory are in one package. Figures that
/// are better when lower are compared by their inverse; k-means uses their distances as they are.
pub fn sweep_classes(record: &SweepRecord, rule: ClassOptions) -> SweepClasses {
    let quantity = record.method.quantity;
    // Points are cells here, numbered by their index.
    let values: Vec<NodeValue> = (0..)
        .zip(&record.cells)
        .filter_map(|(index, cell)| {
            let value = cell.figure.median()?;
            let summary = cell.figure.summary.as_ref()?;
            let interval = Some((summary.low, summary.high));
            Some(NodeValue { node: NodeId(index), value, interval, n: summary.n, drift: 0.0, factor: None })
        })
        .collect();
    let is_near = |value: &&NodeValue| record.cells[value.node.0 as usize].same_package;
    let first: NodeSet = values.iter().filter(is_near).map(|value| value.node).collect();
    let classes = value_classes(quantity, &values, rule, &first);
    SweepClasses { rule: rule.classes, level: rule.level, classes }
}

/// Classifies values, best first; `cells` of a class are the numbers of its nodes.
pub(crate) fn value_classes(
    quantity: Quantity,
    values: &[NodeValue],
    rule: ClassOptions,
    first: &NodeSet,
) -> Vec<SweepClass> {
    let found = classify(&points(quantity, values, rule.classes), rule.classes, rule.level, first);
    let classes = found.into_iter().map(|class| {
        let members = || values.iter().filter(|value| class.nodes.contains(value.node));
        let figures = || members().map(|value| value.value);
        SweepClass {
            rank: class.rank,
            cells: members().map(|value| value.node.0).collect(),
            min: figures().fold(f64::INFINITY, f64::min),
            max: figures().fold(0.0, f64::max),
            mean: figures().sum::<f64>() / class.nodes.len() as f64,
        }
    });
    classes.collect()
}

/// Returns the points of values, the best one the highest.
fn points(quantity: Quantity, values: &[NodeValue], rule: ClassRule) -> Vec<Point> {
    if quantity.more_is_better() || rule != ClassRule::Kmeans {
        return values.iter().map(|value| point(quantity, value)).collect();
    }
    // A mirror image keeps all distances, and the values above 0.
    let ends = values.iter().map(|value| value.value);
    let sum = ends.clone().fold(f64::INFINITY, f64::min) + ends.fold(0.0, f64::max);
    let mirrored = values.iter().map(|value| {
        let value = NodeValue { value: sum - value.value, ..value.clone() };
        Point { node: value.node, value: value.value, low: value.value, high: value.value }
    });
    mirrored.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sweep;
    use proptest::prelude::*;

    fn options(classes: ClassRule) -> ClassOptions {
        ClassOptions { classes, level: 0.1 }
    }

    fn members(record: &SweepRecord, rule: ClassRule) -> Vec<Vec<u32>> {
        sweep_classes(record, options(rule)).classes.into_iter().map(|class| class.cells).collect()
    }

    #[test]
    fn classes_follow_the_rule_and_skip_cells_without_a_figure() {
        // 2 nodes of one package and one of another; the last cell failed.
        let record = sweep(Quantity::Score, &[&[10.0, 6.0, 4.0], &[6.0, 10.0, 4.1], &[4.0, 4.0, 0.0]]);
        assert_eq!(members(&record, ClassRule::Measured), [vec![0, 4], vec![1, 3], vec![2, 5, 6, 7]]);
        assert_eq!(members(&record, ClassRule::Paper), [vec![0, 1, 3, 4], vec![2, 5, 6, 7]]);
        assert_eq!(members(&record, ClassRule::Kmeans), [vec![0, 4], vec![1, 2, 3, 5, 6, 7]]);
        let classes = sweep_classes(&record, options(ClassRule::Measured)).classes;
        assert_eq!((classes[2].min, classes[2].max, classes[2].mean), (4.0, 4.1, 4.025));
        let none = SweepRecord { cells: Vec::new(), ..record };
        assert!(members(&none, ClassRule::Kmeans).is_empty());
    }

    #[test]
    fn the_lowest_cost_is_class_1() {
        let record = sweep(Quantity::Cost, &[&[1.0, 2.0], &[2.1, 1.05]]);
        for rule in [ClassRule::Measured, ClassRule::Kmeans] {
            assert_eq!(members(&record, rule), [vec![0, 3], vec![1, 2]], "{rule}");
        }
    }

    proptest! {
        /// Every cell with a figure is in one class; k-means of costs groups as of scores.
        #[test]
        fn kmeans_groups_costs_as_scores(rows in prop::collection::vec(prop::array::uniform4(1.0..50.0f64), 4)) {
            let rows: Vec<&[f64]> = rows.iter().map(|row| &row[..]).collect();
            let mut of_scores = members(&sweep(Quantity::Score, &rows), ClassRule::Kmeans);
            of_scores.reverse();
            prop_assert_eq!(of_scores.concat().len(), 16);
            prop_assert_eq!(of_scores, members(&sweep(Quantity::Cost, &rows), ClassRule::Kmeans));
        }
    }
}
