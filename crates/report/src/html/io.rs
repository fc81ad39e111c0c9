//! Sections of measured I/O, network latency and MMIO reads: tables for each device and engine.

use super::method;
use super::page::HtmlPage;
use crate::phrases::count;
use crate::record_header::date_and_load;
use crate::sheets::{self, Align, Sheet};
use maud::{html, Markup};
use numaio_schema::{AggregateRecord, IoRecord, MmioRecord, PingRecord, Provenance};

/// The maximum numbers of table rows and notes, which limit the size of the page.
const MOST_ROWS: usize = 1000;
const MOST_NOTES: usize = 50;

/// Writes a record of I/O.
pub(super) fn write(page: &mut HtmlPage, record: &IoRecord) -> Markup {
    let sheet = sheets::io_sheet(record, page.unit);
    section(page, &format!("Measured I/O of {}", record.device.name), &record.provenance, &[sheet])
}

/// Writes a record of several devices at the same time.
pub(super) fn write_aggregate(page: &mut HtmlPage, record: &AggregateRecord) -> Markup {
    let sheets = sheets::aggregate_sheets(record, page.unit);
    section(page, &format!("Measured I/O of {}", record.names()), &record.provenance, &sheets)
}

/// Writes a record of network latency.
pub(super) fn write_pings(page: &mut HtmlPage, record: &PingRecord) -> Markup {
    let sheets = sheets::ping_sheets(record, page.unit);
    section(page, &format!("Latency of {}", record.device.name), &record.provenance, &sheets)
}

/// Writes a record of reads of a register.
pub(super) fn write_mmio(page: &mut HtmlPage, record: &MmioRecord) -> Markup {
    let sheet = sheets::mmio_sheet(record);
    section(page, &format!("MMIO reads of {}", record.device.name), &record.provenance, &[sheet])
}

fn section(page: &mut HtmlPage, title: &str, provenance: &Provenance, sheets: &[Sheet]) -> Markup {
    page.section(1, title, |page| {
        html! {
            p.how { "Measured " (date_and_load(provenance, page.unit)) "." }
            (method::warnings(&provenance.warnings))
            @for sheet in sheets { (table(title, sheet)) }
        }
    })
}

fn table(title: &str, sheet: &Sheet) -> Markup {
    let left_out = sheet.rows.len().saturating_sub(MOST_ROWS);
    let class = |column: usize| match sheet.aligned[column] {
        Align::Left => "text",
        _ => "number",
    };
    html! {
        div.scroll role="region" aria-label=(title) tabindex="0" {
            table {
                caption { (sheet.title) }
                thead { tr { @for title in &sheet.head { th scope="col" { (title) } } } }
                tbody {
                    @for row in sheet.rows.iter().take(MOST_ROWS) {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 {
                                    th scope="row" { (cell.text) }
                                } @else {
                                    td.(class(column)) { (cell.text) }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if left_out > 0 { p.how { (count(left_out, "more row")) " in the documents (use --format json)." } }
        @for note in sheet.notes.iter().take(MOST_NOTES) { p.how { (note) } }
    }
}
