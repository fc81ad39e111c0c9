//! Formats measured copies to and from a GPU: download, readback and both at the same time, by
//! node.

use crate::io_text::{self, RankedCell};
use crate::matrix_text::write_notes;
use crate::style::TextStyle;
use numaio_schema::IoRecord;

/// Titles of the directions, for a GPU.
const COLUMNS: [&str; 5] = ["DOWNLOAD", "READBACK", "BOTH", "BOTH: DOWN", "BOTH: BACK"];

/// Formats a GPU record as a table.
///
/// A row is a CPU node and buffer node, with the size and number of streams where these vary.
/// `ranks` are the classes of the cells, in their order, for colors.
pub fn gpu_text(record: &IoRecord, ranks: &[Option<u32>], style: &TextStyle) -> String {
    let mut page = io_text::start_page(record, style);
    let rank = |index: usize| ranks.get(index).copied().flatten();
    let cells: Vec<RankedCell> =
        record.cells.iter().enumerate().map(|(index, cell)| (cell, rank(index))).collect();
    let (uniform, mixes): (Vec<RankedCell>, Vec<RankedCell>) =
        cells.into_iter().partition(|(cell, _)| io_text::node_pair(cell).is_some());
    let unit = page.style().unit;
    let both_note = match uniform.iter().any(|(cell, _)| cell.groups.len() > 1) {
        true => "; BOTH: download and readback at the same time",
        false => "",
    };
    page.heading(&format!("Download (device write) and readback (device read): median in {unit}{both_note}"));
    io_text::write_directions(&mut page, &uniform, &COLUMNS);
    for class in record.method.represented.iter().filter(|class| class.nodes.len() > 1) {
        let of = format!("{}: {}", class.direction.name(), io_text::representative_note(class));
        page.paragraph(2, 2, &of);
    }
    io_text::write_savings(&mut page, record, &uniform);
    if !mixes.is_empty() {
        io_text::write_mixes(&mut page, &mixes);
    }
    write_notes(&mut page, io_text::named_readings(record).into_iter());
    io_text::write_processor_time(&mut page, record);
    page.into_text()
}
