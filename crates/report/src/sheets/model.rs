//! The I/O bandwidth model as Tables IV and V of Li et al. (ICPP 2013): a column for each class, in it the nodes,
//! what the copy model says of them, and what measured I/O says.

use super::{Scale, Sheet, Text};
use numaio_machine::set::NodeSet;
use numaio_machine::units::BandwidthUnit;
use numaio_machine::workload::Direction;
use numaio_schema::{DirectionModel, Model, Quantity, TargetModel, View};

/// Beginning of the names of the copy model's own views.
const COPIES: &str = "copy-";

pub(super) fn of(model: &Model, views: &[&View], unit: BandwidthUnit) -> Vec<Sheet> {
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
    let title = format!("I/O bandwidth model for {name}, target node {} ({unit})", target.target);
    let heads = model.classes.iter().map(|class| format!("Class {}", class.rank));
    let mut sheet = Sheet::new(title, std::iter::once(String::new()).chain(heads));
    let scale = Scale::new(unit, model.nodes.iter().map(|node| node.bytes_copied_per_s));
    let row = |name: &str, texts: Vec<String>| -> Vec<Text> {
        std::iter::once(name.to_owned()).chain(texts).map(Text::from).collect()
    };
    let classes = &model.classes;
    sheet.row(row("Nodes", classes.iter().map(|class| class.nodes.to_string()).collect()));
    let ranges =
        classes.iter().map(|class| scale.range(class.min_bytes_copied_per_s, class.max_bytes_copied_per_s));
    sheet.row(row("Copies, range", ranges.collect()));
    let means = classes.iter().map(|class| scale.show(class.mean_bytes_copied_per_s));
    sheet.row(row("Copies, mean", means.collect()));
    for view in views.iter().filter(|view| is_io(view, target, model.direction)) {
        let cells: Vec<(String, String)> =
            classes.iter().map(|class| of_nodes(view, &class.nodes, &scale)).collect();
        let (ranges, means) = cells.into_iter().unzip();
        sheet.row(row(&format!("{}, range", view.title), ranges));
        sheet.row(row(&format!("{}, mean", view.title), means));
    }
    if !model.missing.is_empty() {
        sheet.note(format!("No figure for nodes {}.", model.missing));
    }
    let neighbours = &target.neighbours;
    if !neighbours.is_empty() {
        sheet.note(format!("Neighbours of the target: {neighbours}."));
    }
    sheet
}

/// Whether a view is measured I/O of this target and direction.
fn is_io(view: &View, target: &TargetModel, direction: Direction) -> bool {
    view.target == target.target
        && view.direction == Some(direction)
        && view.quantity == Quantity::BytesPerS
        && !view.name.starts_with(COPIES)
}

/// Range and mean of a view's values for some nodes; empty where it has none.
fn of_nodes(view: &View, nodes: &NodeSet, scale: &Scale) -> (String, String) {
    let values: Vec<f64> = nodes.iter().filter_map(|node| Some(view.node(node)?.value)).collect();
    if values.is_empty() {
        return Default::default();
    }
    let (min, max) =
        values.iter().fold((f64::INFINITY, 0.0f64), |(min, max), value| (min.min(*value), max.max(*value)));
    (scale.range(min, max), scale.show(values.iter().sum::<f64>() / values.len() as f64))
}
