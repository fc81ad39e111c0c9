//! The table of the copy model, like Tables IV and V of Li et al. (ICPP 2013): a column for each
//! class with its nodes, copy bandwidth and measured I/O.

use super::sheet::{range, Align, Sheet};
use crate::number_format::NumberFormat;
use numaio_machine::set::NodeSet;
use numaio_machine::units::BandwidthUnit;
use numaio_machine::workload::Direction;
use numaio_schema::{DirectionModel, Model, Quantity, TargetModel, View};

/// Prefix of the names of the copy model's views.
const COPIES: &str = "copy-";

/// Returns a table for each target and direction.
pub(super) fn class_sheets(model: &Model, views: &[&View], unit: BandwidthUnit) -> Vec<Sheet> {
    let each = |target: &TargetModel| -> Vec<Sheet> {
        target.directions.iter().map(|direction| classes(target, direction, views, unit)).collect()
    };
    model.targets.iter().flat_map(each).collect()
}

fn classes(target: &TargetModel, model: &DirectionModel, views: &[&View], unit: BandwidthUnit) -> Sheet {
    let name = match model.direction {
        Direction::Write => "device write",
        Direction::Read => "device read",
    };
    let title = format!("I/O model of node {}, {name} ({unit})", target.target);
    let classes = &model.classes;
    let heads = classes.iter().map(|class| format!("Class {}", class.rank));
    let mut sheet = Sheet::new(title, std::iter::once(String::new()).chain(heads), Align::Center);
    let mut row = |name: String, texts: &mut dyn Iterator<Item = String>| {
        sheet.row(std::iter::once(name).chain(texts));
    };
    row("Nodes".into(), &mut classes.iter().map(|class| class.nodes.to_string()));
    let copies = NumberFormat::bandwidth(unit, model.nodes.iter().map(|node| node.bytes_copied_per_s));
    let ranges =
        classes.iter().map(|class| range(copies, class.min_bytes_copied_per_s, class.max_bytes_copied_per_s));
    row("Copies, range".into(), &mut { ranges });
    let means = classes.iter().map(|class| copies.format(class.mean_bytes_copied_per_s));
    row("Copies, mean".into(), &mut { means });
    for view in views.iter().filter(|view| is_io(view, target, model.direction)) {
        let of = |nodes: &NodeSet| of_nodes(view, nodes, unit);
        let cells = || classes.iter().map(|class| of(&class.nodes).unwrap_or_default());
        row(format!("{}, range", view.title), &mut cells().map(|(range, _)| range));
        row(format!("{}, mean", view.title), &mut cells().map(|(_, mean)| mean));
    }
    notes(&mut sheet, target, model);
    sheet
}

fn notes(sheet: &mut Sheet, target: &TargetModel, model: &DirectionModel) {
    if !target.neighbors.is_empty() {
        sheet.note(format!("Neighbors of the target: {}.", target.neighbors));
    }
    let unsettled: NodeSet = model.nodes.iter().filter(|node| !node.settled).map(|node| node.node).collect();
    if !unsettled.is_empty() {
        sheet.note(format!("Less precise than requested: {unsettled}."));
    }
    if !model.missing.is_empty() {
        sheet.note(format!("No value: {}.", model.missing));
    }
}

/// Returns whether a view is measured I/O of this target and direction.
fn is_io(view: &View, target: &TargetModel, direction: Direction) -> bool {
    view.target == target.target
        && view.direction == Some(direction)
        && view.quantity == Quantity::BytesPerS
        && !view.name.starts_with(COPIES)
}

/// Returns range and mean of a view's values for some nodes, or `None` without values.
fn of_nodes(view: &View, nodes: &NodeSet, unit: BandwidthUnit) -> Option<(String, String)> {
    let figures = NumberFormat::bandwidth(unit, view.nodes.iter().map(|node| node.value));
    let values: Vec<f64> = nodes.iter().filter_map(|node| Some(view.node(node)?.value)).collect();
    let min = values.iter().copied().reduce(f64::min)?;
    let max = values.iter().copied().reduce(f64::max)?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Some((range(figures, min, max), figures.format(mean)))
}
