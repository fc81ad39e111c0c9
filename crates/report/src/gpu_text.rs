//! Formats measured copies to and from a GPU: download, readback and both at the same time, by
//! node.

use crate::io_text::{self, RankedCell};
use crate::matrix_text::{cell_text, write_notes};
use crate::number_format::NumberFormat;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::units::format_size;
use numaio_machine::workload::Direction;
use numaio_schema::{IoCell, IoRecord};
use std::collections::BTreeSet;

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
    write_table(&mut page, &uniform);
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

/// The key of a row; nodes first, so that the sizes of one node pair are adjacent.
type Key = ((NodeId, NodeId), u64, u32);

fn key(cell: &IoCell) -> Option<Key> {
    Some((io_text::node_pair(cell)?, cell.block_bytes, io_text::streams(cell)))
}

/// The transfer that a column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Column {
    One(Direction),
    Both,
    OfBoth(Direction),
}

impl Column {
    const ALL: [Self; 5] = [
        Self::One(Direction::Write),
        Self::One(Direction::Read),
        Self::Both,
        Self::OfBoth(Direction::Write),
        Self::OfBoth(Direction::Read),
    ];

    fn title(self) -> &'static str {
        match self {
            Self::One(Direction::Write) => "DOWNLOAD",
            Self::One(Direction::Read) => "READBACK",
            Self::Both => "BOTH",
            Self::OfBoth(Direction::Write) => "BOTH: DOWN",
            Self::OfBoth(Direction::Read) => "BOTH: BACK",
        }
    }

    fn is_of(self, cell: &IoCell) -> bool {
        match (self, cell.groups.as_slice()) {
            (Self::One(direction), [group]) => group.direction == direction,
            (Self::Both | Self::OfBoth(_), [_, _]) => true,
            _ => false,
        }
    }

    /// The figure of a cell in bytes per second.
    fn value(self, cell: &IoCell) -> Option<f64> {
        match self {
            Self::One(_) | Self::Both => cell.bytes_per_s.median(),
            Self::OfBoth(direction) => {
                let part = cell.groups.iter().position(|group| group.direction == direction)?;
                Some(cell.group_bytes_per_s.get(part)?.as_ref()?.median)
            }
        }
    }
}

fn write_table(page: &mut TextPage, cells: &[RankedCell]) {
    let keys: BTreeSet<Key> = cells.iter().filter_map(|(cell, _)| key(cell)).collect();
    let several = |count: usize| count > 1;
    let separate = keys.iter().any(|((cpu, memory), ..)| cpu != memory);
    let sizes = several(keys.iter().map(|(_, size, _)| size).collect::<BTreeSet<_>>().len());
    let numbers = several(keys.iter().map(|(.., streams)| streams).collect::<BTreeSet<_>>().len());
    let mut heads = if separate { vec!["CPU NODE", "BUFFERS"] } else { vec!["NODE"] };
    heads.extend(sizes.then_some("SIZE"));
    heads.extend(numbers.then_some("STREAMS"));
    let columns: Vec<Column> =
        Column::ALL.into_iter().filter(|column| cells.iter().any(|(cell, _)| column.is_of(cell))).collect();
    let titles = heads.into_iter().chain(columns.iter().map(|column| column.title()));
    let mut table = Table::new(titles.map(|title| (title, Align::Right)));
    let values = cells.iter().filter_map(|(cell, _)| cell.bytes_per_s.median());
    let figures = NumberFormat::bandwidth(page.style().unit, values);
    for row in &keys {
        let ((cpu, memory), size, streams) = row;
        let mut texts = vec![cpu.to_string()];
        texts.extend(separate.then(|| memory.to_string()));
        texts.extend(sizes.then(|| format_size(*size)));
        texts.extend(numbers.then(|| streams.to_string()));
        let of = |column: &Column| {
            let found = cells.iter().find(|(cell, _)| key(cell) == Some(*row) && column.is_of(cell));
            let text = cell_text(found.map(|(cell, _)| &cell.bytes_per_s), |_| {
                found.and_then(|(cell, _)| column.value(cell)).map(|value| figures.format(value))
            });
            Cell::with_class(text, found.and_then(|(_, rank)| *rank))
        };
        table.row(texts.into_iter().map(Cell::from).chain(columns.iter().map(of)));
    }
    page.table(2, &table);
}
