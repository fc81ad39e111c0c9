//! A view of one method: order by node, factors and classes.

use crate::classes::{classify, Point};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{ClassRule, NodeValue, Quantity, View, ViewClass, VIEW_SCHEMA};
use std::cmp::Ordering;

/// Machine, target and class level of views.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ViewSubject<'a> {
    /// Fingerprint of the machine.
    pub machine: &'a str,
    /// The target.
    pub target: NodeId,
    /// Share of a class's best value by which members may be lower, from 0 to 1.
    pub level: f64,
}

/// Properties that identify a view.
pub(super) struct Kind {
    pub name: String,
    pub title: String,
    pub direction: Option<Direction>,
    pub quantity: Quantity,
}

/// Builds a view of values, or `None` without values.
pub(super) fn view(
    subject: &ViewSubject,
    kind: Kind,
    nodes: Vec<NodeValue>,
    incomplete: bool,
) -> Option<View> {
    let view = View {
        schema: VIEW_SCHEMA.to_owned(),
        name: kind.name,
        title: kind.title,
        machine: subject.machine.to_owned(),
        target: subject.target,
        direction: kind.direction,
        quantity: kind.quantity,
        nodes,
        level: subject.level,
        classes: Vec::new(),
        incomplete,
        measured_at: None,
    };
    (!view.nodes.is_empty()).then(|| derived(view))
}

/// Recomputes all derived fields of a view: order by node, factors and classes.
///
/// Classes follow the rule `measured` on the quality of a value: the inverse if lower is better.
pub fn derived(mut view: View) -> View {
    view.nodes.sort_by_key(|value| value.node);
    let local = view.node(view.target).cloned();
    for value in &mut view.nodes {
        value.factor = local.as_ref().map(|local| times_better(view.quantity, local, value));
    }
    let points: Vec<Point> = view.nodes.iter().map(|value| point(view.quantity, value)).collect();
    let classes = classify(&points, ClassRule::Measured, view.level, &NodeSet::new());
    view.classes =
        classes.into_iter().map(|class| view_class(class.rank, class.nodes, &view.nodes)).collect();
    view
}

/// Completes a view of another program: like [`derived`], but keeps the view's own classes if each
/// node is in exactly one of them. With a `level`, classes are recomputed with it.
pub fn completed(mut view: View, level: Option<f64>) -> View {
    let mut own = std::mem::take(&mut view.classes);
    view.level = level.unwrap_or(view.level);
    let mut view = derived(view);
    own.sort_by_key(|class| class.rank);
    let mut classified: Vec<NodeId> = own.iter().flat_map(|class| class.nodes.iter()).collect();
    classified.sort();
    let is_complete = classified.iter().copied().eq(view.nodes.iter().map(|value| value.node));
    if level.is_none() && is_complete {
        let ranked = (1..).zip(own).map(|(rank, class)| view_class(rank, class.nodes, &view.nodes));
        view.classes = ranked.collect();
    }
    view
}

/// Returns the interval of a value, or the value itself if it is stated.
pub(super) fn range(value: &NodeValue) -> (f64, f64) {
    value.interval.unwrap_or((value.value, value.value))
}

/// Compares two nodes: `Greater` if the first is better, `Equal` if their intervals overlap.
///
/// This is stricter than a test of the difference at 5 %, so a small real difference may count as
/// equal. It is not an equivalence: of three nodes the middle one may equal both outer ones, which
/// differ. For a node with two levels the interval is that of its larger level.
pub(crate) fn compare_nodes(quantity: Quantity, node: &NodeValue, other: &NodeValue) -> Ordering {
    let ((low, high), (other_low, other_high)) = (range(node), range(other));
    let by_value = match () {
        () if low > other_high => Ordering::Greater,
        () if high < other_low => Ordering::Less,
        () => Ordering::Equal,
    };
    if quantity.more_is_better() {
        by_value
    } else {
        by_value.reverse()
    }
}

/// Returns how many times better a value is than another.
pub(crate) fn times_better(quantity: Quantity, node: &NodeValue, other: &NodeValue) -> f64 {
    if quantity.more_is_better() {
        node.value / other.value
    } else {
        other.value / node.value
    }
}

/// Returns the quality of a value, with its interval.
pub(crate) fn point(quantity: Quantity, value: &NodeValue) -> Point {
    let (low, high) = range(value);
    if quantity.more_is_better() {
        return Point { node: value.node, value: value.value, low, high };
    }
    // The interval may include zero if the noise is high.
    let best = if low > 0.0 { 1.0 / low } else { f64::INFINITY };
    Point { node: value.node, value: 1.0 / value.value, low: 1.0 / high, high: best }
}

fn view_class(rank: u32, nodes: NodeSet, values: &[NodeValue]) -> ViewClass {
    let members = || values.iter().filter(|value| nodes.contains(value.node)).map(|value| value.value);
    let (min, max) = (members().fold(f64::INFINITY, f64::min), members().fold(0.0, f64::max));
    let mean = members().sum::<f64>() / nodes.len() as f64;
    ViewClass { rank, nodes, min, max, mean }
}
