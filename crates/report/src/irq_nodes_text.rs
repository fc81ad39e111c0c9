//! Formats bandwidth by the node of streams and the node of interrupts as text.

use crate::net_text;
use crate::number_format::NumberFormat;
use crate::phrases::count;
use crate::style::TextStyle;
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::units::format_size;
use numaio_schema::{IoCell, IoRecord};

/// Formats records, each measured with the interrupts on the node of the same index: a table for
/// each direction, message size and number of streams, with a row for each placement of streams and
/// a column for each interrupt node (Li et al., ICPP 2013, section V).
pub fn irq_nodes_text(nodes: &[NodeId], records: &[IoRecord], style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let cells = || records.iter().flat_map(|record| &record.cells);
    let figures = NumberFormat::bandwidth(style.unit, cells().filter_map(|cell| cell.bytes_per_s.median()));
    let mut settings: Vec<(String, u64, u32)> = Vec::new();
    let setting = |cell: &IoCell| (net_text::table_title(cell), cell.block_bytes, cell.streams());
    for cell in cells() {
        if !settings.contains(&setting(cell)) {
            settings.push(setting(cell));
        }
    }
    for wanted in settings {
        let (title, bytes, streams) = &wanted;
        let (size, streams) = (format_size(*bytes), count(*streams as usize, "stream"));
        page.heading(&format!("{title}, {size}, {streams}: median in {} by node of interrupts", style.unit));
        let columns = nodes.iter().map(|node| (node.to_string(), Align::Right));
        let first = [("LOCAL".to_owned(), Align::Left), ("REMOTE".to_owned(), Align::Left)];
        let mut table = Table::new(first.into_iter().chain(columns));
        let mut placements: Vec<[String; 2]> = Vec::new();
        for cell in cells().filter(|cell| setting(cell) == wanted) {
            let placement = net_text::both_placements(cell);
            if !placements.contains(&placement) {
                placements.push(placement);
            }
        }
        for placement in placements {
            let value = |record: &IoRecord| {
                let is_wanted =
                    |cell: &&IoCell| setting(cell) == wanted && net_text::both_placements(cell) == placement;
                let median = record.cells.iter().find(is_wanted).and_then(|cell| cell.bytes_per_s.median());
                median.map_or_else(|| "-".to_owned(), |value| figures.format(value))
            };
            let values: Vec<String> = records.iter().map(value).collect();
            table.row(placement.iter().cloned().chain(values).map(Into::into));
        }
        page.table(2, &table);
    }
    page.into_text()
}
