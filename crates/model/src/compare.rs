//! Comparison of views: the agreement of each pair.

use crate::views::{compare_nodes, times_better};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Identity;
use numaio_schema::{Agreement, Comparison, Inversion, NodeValue, View, Warning, COMPARISON_SCHEMA};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Context of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparisonContext {
    /// Version of numaio.
    pub numaio: String,
    /// The machine.
    pub machine: Identity,
    /// Seconds since 1970 of the newest measurement among the views.
    pub measured_at: u64,
    /// The target node.
    pub target: NodeId,
    /// Names of the devices attached to the target.
    pub devices: Vec<String>,
    /// Warnings about missing or doubtful data.
    pub warnings: Vec<Warning>,
}

/// Compares every pair of views of one target, in the given order.
///
/// Names are made unique first: the second `slit` becomes `slit-2`.
pub fn compare(about: ComparisonContext, mut views: Vec<View>) -> Comparison {
    make_names_unique(&mut views);
    let pairs = views
        .iter()
        .enumerate()
        .flat_map(|(index, first)| views[index + 1..].iter().map(move |b| (first, b)));
    let agreements = pairs.map(|(first, second)| agreement(first, second)).collect();
    let ComparisonContext { numaio, machine, measured_at, target, devices, warnings } = about;
    let schema = COMPARISON_SCHEMA.to_owned();
    Comparison { schema, numaio, machine, measured_at, target, devices, views, agreements, warnings }
}

fn make_names_unique(views: &mut [View]) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for view in views {
        let name = std::mem::take(&mut view.name);
        let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
        view.name = free.unwrap_or(name);
        taken.insert(view.name.clone());
    }
}

/// Computes the agreement of two views over the nodes that both contain.
///
/// The rank agreement is Kendall's tau-b (Kendall, 1945): S / sqrt(A B), with S the concordant
/// pairs less the discordant ones, and A and B the pairs that the first and the second view
/// distinguish. A pair is a tie in a view with equal stated values or overlapping 95 % intervals.
/// Such ties are not an equivalence (see `compare_nodes`), which the formula does not need: it is
/// the correlation of two antisymmetric tables of -1, 0 and 1, and stays between -1 and 1.
pub fn agreement(first: &View, second: &View) -> Agreement {
    let both: Vec<(&NodeValue, &NodeValue)> =
        first.nodes.iter().filter_map(|value| Some((value, second.node(value.node)?))).collect();
    let nodes: NodeSet = both.iter().map(|(value, _)| value.node).collect();
    let (mut concordant, mut only_first, mut only_second, mut tied_in_both) = (0, 0, 0, 0);
    let mut inversions = Vec::new();
    for (index, a) in both.iter().enumerate() {
        for b in &both[index + 1..] {
            let in_first = compare_nodes(first.quantity, a.0, b.0);
            let in_second = compare_nodes(second.quantity, a.1, b.1);
            match (in_first, in_second) {
                (Ordering::Equal, Ordering::Equal) => tied_in_both += 1,
                (_, Ordering::Equal) => only_first += 1,
                (Ordering::Equal, _) => only_second += 1,
                (one, other) if one == other => concordant += 1,
                (Ordering::Greater, _) => inversions.push(inversion(first, second, *a, *b)),
                (Ordering::Less, _) => inversions.push(inversion(first, second, *b, *a)),
            }
        }
    }
    Agreement {
        first: first.name.clone(),
        second: second.name.clone(),
        tau_b: tau_b(concordant, inversions.len() as u32, only_first, only_second),
        concordant,
        tied_in_one: only_first + only_second,
        tied_in_both,
        inversions,
        same_classes: classes_of(first, &nodes) == classes_of(second, &nodes),
        nodes,
    }
}

/// Returns the inversion of a pair: `a` is better in the first view, `b` in the second.
fn inversion(
    first: &View,
    second: &View,
    a: (&NodeValue, &NodeValue),
    b: (&NodeValue, &NodeValue),
) -> Inversion {
    Inversion {
        better_in_first: a.0.node,
        better_in_second: b.0.node,
        factor_in_first: times_better(first.quantity, a.0, b.0),
        factor_in_second: times_better(second.quantity, b.1, a.1),
    }
}

/// Returns tau-b, or `None` if a view distinguishes no pair.
fn tau_b(concordant: u32, discordant: u32, only_first: u32, only_second: u32) -> Option<f64> {
    let [concordant, discordant, only_first, only_second] =
        [concordant, discordant, only_first, only_second].map(f64::from);
    let distinct = concordant + discordant;
    let (in_first, in_second) = (distinct + only_first, distinct + only_second);
    let tau = (concordant - discordant) / (in_first * in_second).sqrt();
    (in_first > 0.0 && in_second > 0.0).then(|| tau.clamp(-1.0, 1.0))
}

/// Returns the classes of a view, best first, restricted to some nodes.
fn classes_of(view: &View, nodes: &NodeSet) -> Vec<NodeSet> {
    let known = view.classes.iter().map(|class| class.nodes.intersection(nodes));
    known.filter(|nodes| !nodes.is_empty()).collect()
}

#[cfg(test)]
mod tests;
