//! Table of reads of a device's register: a row for each node.

use super::sheet::{Align, Sheet, Text};
use crate::phrases::{joined, short};
use crate::record_header;
use numaio_machine::devices::RegisterChoice;
use numaio_schema::{IntervalKind, MmioCell, MmioRecord};

/// Text in place of a missing value.
const NONE: &str = "-";

/// Returns the table of a record.
pub(crate) fn sheet(record: &MmioRecord) -> Sheet {
    let head = ["Node", "CPU", "Shortest", "Median", "95 %", "99th percentile", "Factor", "Note"];
    let title = format!("Time of a read of {} in ns", record.device.name);
    let mut sheet = Sheet::new(title, head, Align::Right);
    sheet.aligned[7] = Align::Left;
    for cell in &record.cells {
        sheet.row(row(record, cell));
    }
    sheet.without_empty_columns(&[7]);
    match record.cells.iter().any(|cell| record.factor(cell).is_some()) {
        true => sheet.note("Factor: the median over that of the device's node."),
        false => sheet.note("No factors: the device's node is unknown, or was not measured."),
    }
    sheet
}

fn row(record: &MmioRecord, cell: &MmioCell) -> [Text; 8] {
    let local = if Some(cell.cpu_node) == record.device.node { " (local)" } else { "" };
    let known = cell.ns.summary.as_ref().filter(|summary| summary.interval != IntervalKind::Range);
    let ns = |value: Option<f64>| or_none(value.map(|ns| format!("{ns:.0}")));
    let unsettled = cell.ns.summary.is_some() && !cell.ns.settled;
    let failure = cell.ns.failure.as_deref().map(short).unwrap_or_default();
    [
        format!("{}{local}", cell.cpu_node).into(),
        cell.cpu.to_string().into(),
        ns(cell.min_ns),
        ns(cell.ns.median()),
        known.map(crate::matrix_text::half_width).unwrap_or_default().into(),
        ns(cell.p99_ns.as_ref().map(|summary| summary.median)),
        or_none(record.factor(cell).map(|factor| format!("{factor:.2}"))),
        joined([if unsettled { "unsettled" } else { "" }, &failure], "; ").into(),
    ]
}

fn or_none(value: Option<String>) -> Text {
    Text::from(value.unwrap_or_else(|| NONE.to_owned()))
}

/// Describes the register of a record.
pub(crate) fn register_sentence(record: &MmioRecord) -> String {
    let choice = match record.choice {
        RegisterChoice::NvmeVersion => "the version register of an NVMe controller, which is read-only",
        RegisterChoice::Prefetchable => "begin of prefetchable memory, whose reads have no side effects",
        RegisterChoice::Requested => "requested by --bar or --offset",
    };
    format!("BAR {} at {:#x}: {choice}", record.bar, record.offset)
}

/// Describes the method of a record.
pub(crate) fn method_sentence(record: &MmioRecord) -> String {
    let rounds = &record.method.rounds;
    joined(
        [
            format!("{} reads of 4 bytes per visit, one at a time", record.method.reads),
            record_header::rounds_until_precise(rounds.rounds, rounds.precision),
            record_header::visits_per_cell(record.cells.iter().map(|cell| cell.ns.visits.len())),
            format!("{:.0} s in total", rounds.elapsed_s),
        ],
        "; ",
    )
}
