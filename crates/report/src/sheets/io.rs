//! The table of measured I/O: a row for each placement, direction, block size and number of
//! streams.

use super::sheet::{Align, Sheet, Text};
use crate::io_text;
use crate::number_format::NumberFormat;
use crate::phrases::joined;
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_schema::{IoCell, IoRecord};

/// Text in place of a missing value.
const NONE: &str = "–";

/// Returns all cells of a record as one table, in their order.
pub(crate) fn sheet(record: &IoRecord, unit: BandwidthUnit) -> Sheet {
    let medians = record.cells.iter().filter_map(|cell| cell.bytes_per_s.median());
    let figures = NumberFormat::bandwidth(unit, medians);
    let title = format!(
        "I/O of {} with {}: medians ({unit})",
        io_text::device_name(&record.device),
        io_text::engine_name(&record.method)
    );
    let head = ["Streams", "Operation", "Block", "Median", "95 % interval", "n", "Parts of a mix"];
    let mut sheet = Sheet::new(title, head, Align::Right);
    for column in [1, 4, 6] {
        sheet.aligned[column] = Align::Left;
    }
    for cell in &record.cells {
        sheet.row(row(cell, figures));
    }
    sheet.without_empty_columns(&[6, 1]);
    sheet.note(format!("{}.", io_text::device_sentence(&record.device)));
    sheet.notes.extend(record.method.notes.iter().map(|note| format!("Note: {note}")));
    let several = record.method.represented.iter().filter(|class| class.nodes.len() > 1);
    sheet.notes.extend(
        several.map(|class| format!("{}: {}", class.direction.name(), io_text::representative_note(class))),
    );
    doubts(&mut sheet, record);
    sheet
}

fn row(cell: &IoCell, figures: NumberFormat) -> [Text; 7] {
    let reading = &cell.bytes_per_s;
    let summary = reading.summary.as_ref().filter(|_| reading.median().is_some());
    let or_missing = |text: Option<String>| Text::from(text.unwrap_or_else(|| NONE.to_owned()));
    let parts = cell.group_bytes_per_s.iter().map(|part| match part {
        Some(part) => figures.format(part.median),
        None => NONE.to_owned(),
    });
    [
        io_text::cell_name(cell).into(),
        cell.operation.clone().unwrap_or_default().into(),
        format_size(cell.block_bytes).into(),
        or_missing(summary.map(|it| figures.format(it.median))),
        or_missing(summary.map(|it| format!("{} to {}", figures.format(it.low), figures.format(it.high)))),
        or_missing(summary.map(|it| it.n.to_string())),
        joined(parts, " + ").into(),
    ]
}

fn doubts(sheet: &mut Sheet, record: &IoRecord) {
    let readings = io_text::named_readings(record);
    let unsettled = readings.iter().filter(|(_, it)| it.median().is_some() && !it.settled).count();
    if unsettled > 0 {
        sheet.note(format!("{unsettled} of them are less precise than requested."));
    }
    for (name, reading) in readings.iter().filter(|(_, reading)| reading.median().is_none()) {
        let why = reading.failure.as_deref().unwrap_or("no visit succeeded");
        sheet.note(format!("No value for {name}: {why}"));
    }
}
