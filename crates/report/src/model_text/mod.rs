//! A model as text.

mod direction;
pub(crate) mod head;

use crate::style::{Page, TextStyle};
use numaio_schema::{Model, TargetModel};

/// The classes of each target and direction, the figures they come from, how they were measured and what makes
/// them doubtful.
///
/// Bandwidths are of copied bytes, each counted once, in the unit of `style`; traffic on the memory bus is shown
/// apart, as the derived figure that it is.
pub fn model_text(model: &Model, style: &TextStyle) -> String {
    let mut page = Page::new(style);
    head::write(&mut page, &model.record);
    for target in &model.targets {
        write_target(&mut page, model, target);
    }
    if model.targets.is_empty() {
        page.heading("No target was measured.");
    }
    page.into_text()
}

fn write_target(page: &mut Page, model: &Model, target: &TargetModel) {
    let devices = match target.devices.as_slice() {
        [] => "no devices".to_owned(),
        devices => devices.join(", "),
    };
    let neighbours = match &target.neighbours {
        nodes if nodes.is_empty() => String::new(),
        nodes => format!("; {} {nodes}", if nodes.len() == 1 { "neighbour" } else { "neighbours" }),
    };
    page.heading(&format!("Target node {}: {devices}{neighbours}", target.target));
    for direction in &target.directions {
        direction::write(page, &model.record, target, direction);
    }
    if target.directions.is_empty() {
        page.paragraph(2, 2, "No direction was measured.");
    }
}
