//! Formats a model as text.

pub(crate) mod direction;

use crate::matrix_text;
use crate::number_format::NumberFormat;
use crate::record_header;
use crate::style::TextStyle;
use crate::text_page::TextPage;
use numaio_schema::{Cell, Model, Record, TargetModel};

/// Formats the classes of each target and direction, with values, method and warnings.
///
/// Bandwidth counts each copied byte once, in the unit of `style`; derived memory traffic is listed
/// separately. With `style.stats` the statistics of all values follow.
pub fn model_text(model: &Model, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    record_header::write_model(&mut page, &model.record);
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

/// Writes number of visits, interval and drift of all values.
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
    matrix_text::write_stats(page, "All values: number of visits, interval and drift", &stats, &figures);
}

fn write_target(page: &mut TextPage, model: &Model, target: &TargetModel) {
    let devices = match target.devices.as_slice() {
        [] => "no devices".to_owned(),
        devices => devices.join(", "),
    };
    let neighbors = match &target.neighbors {
        nodes if nodes.is_empty() => String::new(),
        nodes => format!("; {} {nodes}", if nodes.len() == 1 { "neighbor" } else { "neighbors" }),
    };
    page.heading(&format!("Target node {}: {devices}{neighbors}", target.target));
    for direction in &target.directions {
        direction::write(page, &model.record, target, direction);
    }
    if target.directions.is_empty() {
        page.paragraph(2, 2, "No direction was measured.");
    }
}
