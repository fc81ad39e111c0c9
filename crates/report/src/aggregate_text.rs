//! Formats I/O of several devices at the same time as text.

use crate::io_text;
use crate::record_header;
use crate::sheet_text;
use crate::sheets;
use crate::style::TextStyle;
use crate::text_page::TextPage;
use numaio_schema::AggregateRecord;

/// Formats a record: a table for each direction and block size.
pub fn aggregate_text(record: &AggregateRecord, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let names: Vec<String> = record.devices.iter().map(io_text::device_name).collect();
    let what = format!("I/O of {} on", names.join(" and "));
    let mut paragraphs = vec![io_text::method_sentence(&record.method, &record.cells)];
    paragraphs.extend(record.devices.iter().map(io_text::device_sentence));
    record_header::write(&mut page, &what, &record.provenance, &paragraphs);
    for note in &record.method.notes {
        page.paragraph(0, 2, &format!("Note: {note}"));
    }
    sheets::aggregate_sheets(record, style.unit).iter().for_each(|sheet| sheet_text::write(&mut page, sheet));
    page.into_text()
}
