//! Formats network latency as text.

use crate::net_text;
use crate::record_header;
use crate::sheet_text;
use crate::sheets;
use crate::style::TextStyle;
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
        sheet_text::write(&mut page, &sheet);
    }
    page.into_text()
}
