//! Formats network latency as text.

use crate::net_text;
use crate::record_header;
use crate::sheets::{self, Align};
use crate::style::TextStyle;
use crate::table::{self, Table};
use crate::text_page::TextPage;
use numaio_schema::PingRecord;

/// Formats a record: matrices of both ends if both were varied, and a table of all cells; with
/// several rails a table of rails and stripings.
pub fn ping_text(record: &PingRecord, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let peer = record.device.reached_via.as_deref().unwrap_or("a peer");
    let names: Vec<&str> = match record.rails.as_slice() {
        [] => vec![record.device.name.as_str()],
        rails => rails.iter().map(|rail| rail.device.name.as_str()).collect(),
    };
    let what = format!("Latency through {} with {peer}, on", names.join(" and "));
    let mut paragraphs = vec![sheets::ping_method(record)];
    match record.rails.as_slice() {
        [] => paragraphs.push(format!("Local: {}", net_text::device_sentence(&record.device))),
        rails => paragraphs.extend(
            rails
                .iter()
                .map(|rail| format!("Rail {}: {}", rail.rail, net_text::device_sentence(&rail.device))),
        ),
    }
    let remote = record.remote.iter().map(|there| format!("Remote: {}", net_text::device_sentence(there)));
    paragraphs.extend(remote);
    record_header::write(&mut page, &what, &record.provenance, &paragraphs);
    for sheet in sheets::ping_sheets(record, style.unit) {
        let over = sheet.over.map(|over| format!("; columns: {}", over.to_lowercase())).unwrap_or_default();
        page.heading(&format!("{}{over}", sheet.title));
        let align = |align: &Align| match align {
            Align::Left => table::Align::Left,
            Align::Right | Align::Center => table::Align::Right,
        };
        let columns = sheet.head.iter().zip(&sheet.aligned).map(|(title, side)| (title, align(side)));
        let mut table = Table::new(columns.map(|(title, side)| (title.to_uppercase(), side)));
        for row in &sheet.rows {
            table.row(row.iter().map(|cell| cell.text.as_str().into()));
        }
        page.table(2, &table);
        for note in &sheet.notes {
            page.paragraph(2, 4, note);
        }
    }
    page.into_text()
}
