//! Formats reads of a device's register as text.

use crate::io_text;
use crate::record_header;
use crate::sheet_text;
use crate::sheets;
use crate::style::TextStyle;
use crate::text_page::TextPage;
use numaio_schema::MmioRecord;

/// Formats a record: the register, and a row for each node.
pub fn mmio_text(record: &MmioRecord, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let what = format!("MMIO reads of {} on", record.device.name);
    let paragraphs = [
        sheets::mmio_method(record),
        io_text::device_sentence(&record.device),
        format!("Register: {}", sheets::mmio_register(record)),
    ];
    record_header::write(&mut page, &what, &record.provenance, &paragraphs);
    sheet_text::write(&mut page, &sheets::mmio_sheet(record));
    page.into_text()
}
