//! Formats a table with its caption and notes as text.

use crate::sheets::{Align, Sheet};
use crate::table::{self, Table};
use crate::text_page::TextPage;

/// Writes the caption as a heading, the table, and its notes.
pub(crate) fn write(page: &mut TextPage, sheet: &Sheet) {
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
