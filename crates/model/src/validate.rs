//! Validation of the copy model by measured I/O, per class (Tables IV and V of Li et al., ICPP
//! 2013).

use crate::classes::{classify, Point};
use crate::compare::agreement;
use crate::views::{compare_nodes, copy_views, point};
use crate::ViewSubject;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{
    ClassRule, Column, DirectionModel, IoRecord, Merge, Model, NodeValue, Quantity, Role, Split, Spread,
    ValidatedClass, ValidatedDirection, Verdict, View,
};
use std::cmp::Ordering;

/// Validates the model of a target against views of measured I/O of its devices, per measured
/// direction.
///
/// `measured` are [`crate::io_views`]; `rivals` are alternative predictors such as hop distance and
/// STREAM. Views of other targets or without common nodes are ignored.
pub fn validate(
    model: &Model,
    subject: &ViewSubject,
    measured: &[View],
    rivals: &[View],
) -> Vec<ValidatedDirection> {
    let Some(of_target) = model.targets.iter().find(|found| found.target == subject.target) else {
        return Vec::new();
    };
    let copies = copy_views(model, subject);
    let of = |direction: &DirectionModel| {
        let copy = copies.iter().find(|view| view.direction == Some(direction.direction))?;
        let of_direction =
            |view: &&View| view.target == subject.target && view.direction == Some(direction.direction);
        let measured: Vec<&View> = measured.iter().filter(of_direction).collect();
        let rivals: Vec<&View> = rivals
            .iter()
            .filter(|view| view.target == subject.target && has_direction(view, direction.direction))
            .collect();
        (!measured.is_empty()).then(|| one_direction(direction, copy, &measured, &rivals))
    };
    of_target.directions.iter().filter_map(of).collect()
}

/// Adds notes about unmeasured nodes that a measured node of their class represents.
pub fn note_represented(directions: &mut [ValidatedDirection], view: &View, record: &IoRecord) {
    let of_direction = directions.iter_mut().filter(|one| Some(one.direction) == view.direction);
    for verdict in of_direction.flat_map(|one| &mut one.verdicts).filter(|it| it.measured == view.name) {
        let wanted = record.method.represented.iter().filter(|class| Some(class.direction) == view.direction);
        let measured = wanted.filter(|class| view.node(class.node).is_some());
        let nodes: NodeSet = measured.flat_map(|class| class.nodes.iter().copied()).collect();
        verdict.represented = verdict.not_measured.intersection(&nodes);
    }
}

fn has_direction(view: &View, direction: Direction) -> bool {
    view.direction.is_none_or(|its| its == direction)
}

fn one_direction(
    model: &DirectionModel,
    copy: &View,
    measured: &[&View],
    rivals: &[&View],
) -> ValidatedDirection {
    let classes: Vec<ValidatedClass> = model
        .classes
        .iter()
        .map(|class| ValidatedClass { rank: class.rank, nodes: class.nodes.clone() })
        .collect();
    let column = |role: Role, view: &View| Column {
        role,
        view: view.clone(),
        classes: classes.iter().map(|class| spread(view, &class.nodes)).collect(),
    };
    let mut columns = vec![column(Role::Model, copy)];
    columns.extend(measured.iter().map(|view| column(Role::Measured, view)));
    columns.extend(rivals.iter().map(|view| column(Role::Baseline, view)));
    let verdicts = columns
        .iter()
        .filter(|column| column.role == Role::Measured)
        .map(|column| verdict(&classes, column, copy, rivals))
        .collect();
    ValidatedDirection {
        direction: model.direction,
        rule: model.rule,
        level: model.level,
        classes,
        columns,
        verdicts,
    }
}

/// Returns the spread of the values of a class, or `None` if it has no value.
fn spread(view: &View, nodes: &NodeSet) -> Option<Spread> {
    let members: Vec<&NodeValue> = view.nodes.iter().filter(|value| nodes.contains(value.node)).collect();
    let mean = |of: &dyn Fn(&NodeValue) -> f64| {
        members.iter().map(|member| of(member)).sum::<f64>() / members.len() as f64
    };
    let ends = |value: &NodeValue| value.interval.unwrap_or((value.value, value.value));
    let stated = members.iter().all(|member| member.interval.is_none());
    (!members.is_empty()).then(|| Spread {
        nodes: members.iter().map(|member| member.node).collect(),
        min: members.iter().map(|member| member.value).fold(f64::INFINITY, f64::min),
        max: members.iter().map(|member| member.value).fold(0.0, f64::max),
        mean: mean(&|member| member.value),
        interval: (!stated).then(|| (mean(&|member| ends(member).0), mean(&|member| ends(member).1))),
    })
}

fn verdict(classes: &[ValidatedClass], column: &Column, copy: &View, rivals: &[&View]) -> Verdict {
    let view = &column.view;
    let known: NodeSet = view.nodes.iter().map(|value| value.node).collect();
    let all: NodeSet = classes.iter().flat_map(|class| class.nodes.iter()).collect();
    let values = || view.nodes.iter().filter(|value| all.contains(value.node)).map(|value| value.value);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let measured_classes = column.classes.iter().flatten().count();
    let mut verdict = Verdict {
        measured: view.name.clone(),
        not_measured: all.difference(&known),
        represented: NodeSet::new(),
        classes_in_order: 0,
        classes_reversed: Vec::new(),
        classes_tied: 0,
        agreements: std::iter::once(&copy).chain(rivals).map(|rival| agreement(rival, view)).collect(),
        spread: if most > 0.0 { 1.0 - least / most } else { 0.0 },
        device_bound: measured_classes > 1 && levels(view, &all.intersection(&known)).len() == 1,
        splits: classes.iter().filter_map(|class| split(view, class)).collect(),
        merges: merges(classes, view),
    };
    order(classes, column, &mut verdict);
    verdict
}

/// Counts the pairs of classes whose order the I/O confirms.
fn order(classes: &[ValidatedClass], column: &Column, verdict: &mut Verdict) {
    let known: Vec<(u32, NodeValue)> = classes
        .iter()
        .zip(&column.classes)
        .filter_map(|(class, spread)| Some((class.rank, value(spread.as_ref()?))))
        .collect();
    for (index, (better_rank, better)) in known.iter().enumerate() {
        for (rank, worse) in &known[index + 1..] {
            match compare_nodes(column.view.quantity, better, worse) {
                Ordering::Greater => verdict.classes_in_order += 1,
                Ordering::Less => verdict.classes_reversed.push((*better_rank, *rank)),
                Ordering::Equal => verdict.classes_tied += 1,
            }
        }
    }
}

/// Converts the mean of a class to the value of a node.
fn value(spread: &Spread) -> NodeValue {
    NodeValue {
        node: spread.nodes.first().unwrap_or(NodeId(0)),
        value: spread.mean,
        interval: spread.interval,
        n: 0,
        drift: 0.0,
        factor: None,
    }
}

/// Returns the levels of some nodes' I/O, best first, by the rule `measured`.
fn levels(view: &View, nodes: &NodeSet) -> Vec<NodeSet> {
    let members = view.nodes.iter().filter(|value| nodes.contains(value.node));
    let points: Vec<Point> = members.map(|value| point(Quantity::BytesPerS, value)).collect();
    let found = classify(&points, ClassRule::Measured, view.level, &NodeSet::new());
    found.into_iter().map(|class| class.nodes).collect()
}

fn split(view: &View, class: &ValidatedClass) -> Option<Split> {
    let parts = levels(view, &class.nodes);
    (parts.len() > 1).then_some(Split { rank: class.rank, parts })
}

/// Returns the longest ranges of adjacent classes whose measured nodes are on one level. An
/// unmeasured class ends a range.
fn merges(classes: &[ValidatedClass], view: &View) -> Vec<Merge> {
    let measured = |class: &ValidatedClass| -> NodeSet {
        view.nodes.iter().map(|value| value.node).filter(|node| class.nodes.contains(*node)).collect()
    };
    let mut runs: Vec<Merge> = Vec::new();
    let mut ended = true;
    for class in classes {
        let nodes = measured(class);
        if nodes.is_empty() {
            ended = true;
            continue;
        }
        let joined = runs
            .last()
            .filter(|_| !ended)
            .map(|run| run.nodes.iter().chain(nodes.iter()).collect::<NodeSet>());
        match (runs.last_mut(), joined) {
            (Some(run), Some(joined)) if levels(view, &joined).len() == 1 => {
                run.ranks.push(class.rank);
                run.nodes = joined;
            }
            _ => runs.push(Merge { ranks: vec![class.rank], nodes }),
        }
        ended = false;
    }
    runs.retain(|run| run.ranks.len() > 1);
    runs
}

#[cfg(test)]
mod tests;
