//! A model as text.

pub(crate) mod direction;
pub(crate) mod header;

use crate::matrix_text;
use crate::number_format::NumberFormat;
use crate::style::{TextPage, TextStyle};
use numaio_schema::{Cell, Model, Record, TargetModel};

/// The classes of each target and direction, the figures they come from, how they were measured and what makes
/// them doubtful.
///
/// Bandwidths are of copied bytes, each counted once, in the unit of `style`; traffic on the memory bus is shown
/// apart, as the derived figure that it is. With `style.stats` number, interval and drift of every figure follow.
pub fn model_text(model: &Model, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    header::write_model(&mut page, &model.record);
    for target in &model.targets {
        write_target(&mut page, model, target);
    }
    if model.targets.is_empty() {
        page.heading("No target was measured.");
    }
    if style.stats {
        write_stats(&mut page, &model.record);
    }
    page.into_text()
}

/// Number of visits, interval and drift of every figure.
fn write_stats(page: &mut TextPage, record: &Record) {
    let stat = |cell| {
        let Cell { target, flow, bytes_copied_per_s, settled, failure, .. }: &Cell = cell;
        let name = format!("{flow} by node {target}");
        let (summary, failure) = (bytes_copied_per_s.as_ref(), failure.as_deref());
        matrix_text::FigureStats { name, summary, settled: *settled, failure }
    };
    let stats: Vec<matrix_text::FigureStats> = record.cells.iter().map(stat).collect();
    let medians = stats.iter().filter_map(|stat| stat.summary).map(|summary| summary.median);
    let figures = NumberFormat::bandwidth(page.style().unit, medians);
    matrix_text::write_stats(page, "Every figure: number of visits, interval and drift", &stats, &figures);
}

fn write_target(page: &mut TextPage, model: &Model, target: &TargetModel) {
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
