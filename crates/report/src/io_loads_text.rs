//! Formats the bandwidth of a device by node under several loads (Tan Li's dissertation, Fig. 5-4).

use crate::io_text::{capitalized, node_pair, streams};
use crate::number_format::NumberFormat;
use crate::phrases::count;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::units::format_size;
use numaio_schema::{IoCell, IoRecord, Summary};
use std::collections::BTreeSet;

/// Cells that differ only in their node: directions, operation, block size and streams.
type SeriesKey = (Vec<String>, Option<String>, u64, u32);

/// Formats a table for each direction, operation and block size, with the largest number of
/// streams. Rows are nodes, columns are the loads of the records; `*` marks the best node of a
/// load, and nodes whose interval overlaps with it.
pub fn io_loads_text(records: &[IoRecord], style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    for key in series(records) {
        let title = format!(
            "{}, blocks of {}, {}: median in {} by node (rows) and load",
            key.0.join(" and "),
            format_size(key.2),
            count(key.3 as usize, "stream"),
            style.unit
        );
        page.heading(&capitalized(&title));
        page.table(2, &table(records, &key, style));
    }
    page.paragraph(0, 2, "* best node of a load, and nodes that do not differ from it.");
    page.into_text()
}

fn key(cell: &IoCell) -> SeriesKey {
    let directions = cell.groups.iter().map(|group| group.direction.name().to_owned()).collect();
    (directions, cell.operation.clone(), cell.block_bytes, streams(cell))
}

/// Returns the series of all records, each with its largest number of streams.
fn series(records: &[IoRecord]) -> Vec<SeriesKey> {
    let mut found: Vec<SeriesKey> = Vec::new();
    for cell in records.iter().flat_map(|record| &record.cells).filter(|cell| node_pair(cell).is_some()) {
        let new = key(cell);
        match found.iter_mut().find(|known| (&known.0, &known.1, known.2) == (&new.0, &new.1, new.2)) {
            Some(known) => known.3 = known.3.max(new.3),
            None => found.push(new),
        }
    }
    found
}

fn table(records: &[IoRecord], key: &SeriesKey, style: &TextStyle) -> Table {
    let cells: Vec<Vec<&IoCell>> = records
        .iter()
        .map(|record| record.cells.iter().filter(|cell| &self::key(cell) == key).collect())
        .collect();
    let rows: BTreeSet<(NodeId, NodeId)> =
        cells.iter().flatten().filter_map(|cell| node_pair(cell)).collect();
    let is_local = rows.iter().all(|(cpus, memory)| cpus == memory);
    let corner: &[&str] = if is_local { &["NODE"] } else { &["CPU NODE", "BUFFERS"] };
    let heads = corner.iter().map(|title| (*title).to_owned()).chain(records.iter().map(column_title));
    let mut table = Table::new(heads.map(|title| (title, Align::Right)));
    let medians = cells.iter().flatten().filter_map(|cell| cell.bytes_per_s.median());
    let figures = NumberFormat::bandwidth(style.unit, medians);
    for row in rows {
        let nodes = if is_local { vec![row.0] } else { vec![row.0, row.1] };
        let names = nodes.into_iter().map(|node| Cell::from(node.to_string()));
        let values = cells.iter().map(|cells| {
            let of_row = cells.iter().find(|cell| node_pair(cell) == Some(row));
            let Some(summary) = of_row.and_then(|cell| cell.bytes_per_s.summary.as_ref()) else {
                return Cell::from("-");
            };
            let mark = if is_best(summary, cells) { "*" } else { " " };
            Cell::from(format!("{}{mark}", figures.format(summary.median)))
        });
        table.row(names.chain(values));
    }
    table
}

/// Names the load of a record; several engines are distinguished.
fn column_title(record: &IoRecord) -> String {
    record.provenance.load_label().map_or_else(|| "NO LOAD".to_owned(), |load| format!("LOAD {load}"))
}

/// Returns whether no node of the column is better beyond the intervals.
fn is_best(summary: &Summary, cells: &[&IoCell]) -> bool {
    let others = cells.iter().filter_map(|cell| cell.bytes_per_s.summary.as_ref());
    others.into_iter().all(|other| other.low <= summary.high || other.median <= summary.median)
}
