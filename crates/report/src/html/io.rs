//! Sections of measured I/O: a table for each device and engine.

use super::method;
use super::page::HtmlPage;
use crate::phrases::count;
use crate::record_header::date;
use crate::sheets::{self, Align};
use maud::{html, Markup};
use numaio_schema::IoRecord;

/// The maximum numbers of table rows and notes, which limit the size of the page.
const MOST_ROWS: usize = 1000;
const MOST_NOTES: usize = 50;

pub(super) fn write(page: &mut HtmlPage, record: &IoRecord) -> Markup {
    let sheet = sheets::io_sheet(record, page.unit);
    let title = format!("Measured I/O of {}", record.device.name);
    let left_out = sheet.rows.len().saturating_sub(MOST_ROWS);
    let class = |column: usize| match sheet.aligned[column] {
        Align::Left => "text",
        _ => "number",
    };
    page.section(1, &title, |_| {
        html! {
            p.how { "Measured " (date(record.provenance.measured_at)) "." }
            (method::warnings(&record.provenance.warnings))
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
    })
}
