//! Views of a target: what each method says of every node, in one form.

mod firmware;
mod io;
mod measured;

pub use firmware::{hmat_views, slit_views};
pub use io::io_views;
pub use measured::{copy_views, latency_views, stream_views};

use crate::classes::{classify, Point};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{ClassRule, NodeValue, Quantity, View, ViewClass, VIEW_SCHEMA};
use std::cmp::Ordering;

/// Of which machine and target views are made, and how their classes are cut.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ViewSubject<'a> {
    /// Fingerprint of the machine.
    pub machine: &'a str,
    /// The target.
    pub target: NodeId,
    /// Share of a class's best by which its members may lie below it, from 0 to 1.
    pub level: f64,
}

/// What tells one view from another.
struct Kind {
    name: String,
    title: String,
    direction: Option<Direction>,
    quantity: Quantity,
}

/// A view of these values; none without a value.
fn view(subject: &ViewSubject, kind: Kind, nodes: Vec<NodeValue>, incomplete: bool) -> Option<View> {
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

/// The same values with everything that follows from them made anew: order by node, factors, classes.
///
/// Classes follow the rule `measured` on how good a value is: of what is better the less it is, the inverse.
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

/// What makes a view from a file no view of a subject. Each names the field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ViewMismatch {
    /// Of another machine.
    #[error("field `machine`: it is of machine {found}, and {wanted} is compared")]
    OtherMachine {
        /// Its fingerprint.
        found: String,
        /// The one wanted.
        wanted: String,
    },
    /// Of another target.
    #[error("field `target`: it is of target {found}, and {wanted} is compared")]
    OtherTarget {
        /// Its target.
        found: NodeId,
        /// The one wanted.
        wanted: NodeId,
    },
    /// A value that cannot be.
    #[error("field `{field}`: {why}")]
    Field {
        /// Path of the field, as in `nodes[3].value`.
        field: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Nodes that Linux can have.
const MAX_NODES: usize = 1024;

/// Whether a view, from whatever tool, can be compared with others of the subject.
///
/// # Errors
/// [`ViewMismatch`], for the first field that is wrong.
pub fn check(view: &View, subject: &ViewSubject) -> Result<(), ViewMismatch> {
    if view.machine != subject.machine {
        let [found, wanted] = [view.machine.as_str(), subject.machine].map(str::to_owned);
        return Err(ViewMismatch::OtherMachine { found, wanted });
    }
    if view.target != subject.target {
        return Err(ViewMismatch::OtherTarget { found: view.target, wanted: subject.target });
    }
    let wrong = |field: String, why| Err(ViewMismatch::Field { field, why });
    if view.name.is_empty() {
        return wrong("name".to_owned(), "a view needs a name");
    }
    if !(0.0..1.0).contains(&view.level) {
        return wrong("level".to_owned(), "a share from 0 to less than 1 is wanted");
    }
    if view.nodes.is_empty() {
        return wrong("nodes".to_owned(), "there is no value");
    }
    if view.nodes.len() > MAX_NODES {
        return wrong("nodes".to_owned(), "no machine has so many");
    }
    for (index, value) in view.nodes.iter().enumerate() {
        if !(1e-30..1e30).contains(&value.value) {
            return wrong(format!("nodes[{index}].value"), "a number above 0 is wanted");
        }
        let (low, high) = range(value);
        if !(low <= value.value && value.value <= high && high.is_finite()) {
            return wrong(format!("nodes[{index}].interval"), "the value is not inside it");
        }
        if view.nodes[..index].iter().any(|other| other.node == value.node) {
            return wrong(format!("nodes[{index}].node"), "the node has a value already");
        }
    }
    Ok(())
}

/// The interval of a value; of what is stated the value itself.
fn range(value: &NodeValue) -> (f64, f64) {
    value.interval.unwrap_or((value.value, value.value))
}

/// How a node compares with another one: `Greater` if it is better, `Equal` if the view cannot tell the two
/// apart, which is when their intervals share a value.
///
/// That is stricter than a test of the difference of two nodes at 5 %, so a small difference that is real may be
/// told as none. It is also no equivalence: of three nodes the middle one may be told from neither, and the
/// outer two from each other. Of a node with two levels the interval is that of its larger level.
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

/// How many times better a value is than another one.
pub(crate) fn times_better(quantity: Quantity, node: &NodeValue, other: &NodeValue) -> f64 {
    if quantity.more_is_better() {
        node.value / other.value
    } else {
        other.value / node.value
    }
}

/// How good a value is, with its interval.
pub(crate) fn point(quantity: Quantity, value: &NodeValue) -> Point {
    let (low, high) = range(value);
    if quantity.more_is_better() {
        return Point { node: value.node, value: value.value, low, high };
    }
    // An interval may reach zero, where noise is large.
    let best = if low > 0.0 { 1.0 / low } else { f64::INFINITY };
    Point { node: value.node, value: 1.0 / value.value, low: 1.0 / high, high: best }
}

fn view_class(rank: u32, nodes: NodeSet, values: &[NodeValue]) -> ViewClass {
    let members = || values.iter().filter(|value| nodes.contains(value.node)).map(|value| value.value);
    let (min, max) = (members().fold(f64::INFINITY, f64::min), members().fold(0.0, f64::max));
    let mean = members().sum::<f64>() / nodes.len() as f64;
    ViewClass { rank, nodes, min, max, mean }
}

#[cfg(test)]
mod tests;
