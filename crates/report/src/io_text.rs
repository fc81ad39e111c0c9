//! Formats measured I/O as text: bandwidth by node and number of streams, for each direction.

use crate::matrix_text::{cell_text, write_notes};
use crate::number_format::NumberFormat;
use crate::phrases::{count, joined};
use crate::record_header;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::units::format_size;
use numaio_machine::workload::{Direction, DiskMethod, DiskOrder, StreamGroup};
use numaio_schema::{
    differing_settings, ClassRepresentative, IoCell, IoDevice, IoEngine, IoMethod, IoRecord, Reading,
};
use std::collections::BTreeSet;

/// Formats an I/O record as tables by direction, operation and block size.
///
/// Rows are nodes; columns are numbers of streams, or block sizes if these vary and the number of
/// streams does not. Mixes come last. `ranks` are the classes of the cells, in their order, for
/// colors.
pub fn io_text(record: &IoRecord, ranks: &[Option<u32>], style: &TextStyle) -> String {
    let mut page = start_page(record, style);
    let cells: Vec<RankedCell> = record
        .cells
        .iter()
        .enumerate()
        .map(|(index, cell)| (cell, ranks.get(index).copied().flatten()))
        .collect();
    let (uniform, mixes): (Vec<RankedCell>, Vec<RankedCell>) =
        cells.into_iter().partition(|(cell, _)| node_pair(cell).is_some());
    let (duplex, single): (Vec<RankedCell>, Vec<RankedCell>) =
        uniform.iter().copied().partition(|(cell, _)| cell.duplex_placement().is_some());
    write_uniform_cells(&mut page, record, &single);
    if !duplex.is_empty() {
        write_duplex(&mut page, &duplex, &uniform);
    }
    write_savings(&mut page, record, &uniform);
    if !mixes.is_empty() {
        write_mixes(&mut page, &mixes);
    }
    write_notes(&mut page, named_readings(record).into_iter());
    write_processor_time(&mut page, record);
    page.into_text()
}

/// Starts a page with the measured device and the method.
pub(crate) fn start_page(record: &IoRecord, style: &TextStyle) -> TextPage {
    let mut page = TextPage::new(style);
    let what = format!("I/O of {} on", device_name(&record.device));
    record_header::write(
        &mut page,
        &what,
        &record.provenance,
        &[method_sentence(&record.method, &record.cells), device_sentence(&record.device)],
    );
    for note in &record.method.notes {
        page.paragraph(0, 2, &format!("Note: {note}"));
    }
    page
}

/// Formats the ratio of two engines over the cells that both measured; empty without common cells.
pub fn io_agreement(one: &IoRecord, other: &IoRecord, style: &TextStyle) -> String {
    let same_cell = |a: &IoCell, b: &IoCell| {
        a.groups == b.groups && a.block_bytes == b.block_bytes && a.operation == b.operation
    };
    let ratio = |cell: &IoCell| {
        let counterpart = other.cells.iter().find(|counterpart| same_cell(cell, counterpart))?;
        Some(cell.bytes_per_s.median()? / counterpart.bytes_per_s.median()?)
    };
    let ratios: Vec<f64> = one.cells.iter().filter_map(ratio).collect();
    let Some(middle) = numaio_schema::median(&ratios) else { return String::new() };
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let mut page = TextPage::new(style);
    page.paragraph(
        0,
        2,
        &format!(
            "{} / {}, over {}: median {middle:.3}, from {least:.3} to {most:.3}",
            engine_name(&one.method),
            engine_name(&other.method),
            count(ratios.len(), "cell")
        ),
    );
    page.into_text()
}

/// A cell, and the rank of its class.
pub(crate) type RankedCell<'a> = (&'a IoCell, Option<u32>);

/// Returns CPU node and buffer node if all groups of a cell have the same ones.
pub(crate) fn node_pair(cell: &IoCell) -> Option<(NodeId, NodeId)> {
    let first = (*cell.cpu_nodes.first()?, cell.groups.first()?.memory);
    let mut all = cell.cpu_nodes.iter().copied().zip(cell.groups.iter().map(|group| group.memory));
    let streams = cell.groups.first()?.streams;
    (all.all(|nodes| nodes == first) && cell.groups.iter().all(|group| group.streams == streams))
        .then_some(first)
}

/// Returns direction and operation of a cell, for the title of its table.
fn table_title(cell: &IoCell) -> String {
    let directions: Vec<&str> = cell.groups.iter().map(|group| group.direction.name()).collect();
    let both = if directions.len() > 1 { " simultaneously" } else { "" };
    let operation = cell.operation.iter().map(|operation| format!(" ({operation})"));
    format!("{}{both}{}", directions.join(" and "), operation.collect::<String>())
}

pub(crate) fn streams(cell: &IoCell) -> u32 {
    cell.groups.first().map_or(0, |group| group.streams)
}

fn write_uniform_cells(page: &mut TextPage, record: &IoRecord, cells: &[RankedCell]) {
    let by_block_size = cells.iter().map(|(cell, _)| streams(cell)).collect::<BTreeSet<u32>>().len() == 1
        && cells.iter().map(|(cell, _)| cell.block_bytes).collect::<BTreeSet<u64>>().len() > 1;
    let table_of = |cell: &IoCell| {
        let rest = if by_block_size { streams(cell).into() } else { cell.block_bytes };
        (table_title(cell), rest)
    };
    let mut tables: Vec<(String, u64)> = Vec::new();
    for (cell, _) in cells {
        if !tables.contains(&table_of(cell)) {
            tables.push(table_of(cell));
        }
    }
    let unit = page.style().unit;
    for (title, rest) in tables {
        let of: Vec<RankedCell> =
            cells.iter().copied().filter(|(cell, _)| table_of(cell) == (title.clone(), rest)).collect();
        let (what, by) = match by_block_size {
            true => (count(rest as usize, "stream"), "block size"),
            false => (format!("blocks of {}", format_size(rest)), "number of streams"),
        };
        page.heading(&format!("{}, {what}: median in {unit} by node (rows) and {by}", capitalized(&title)));
        write_table(page, &of, by_block_size);
        for class in &record.method.represented {
            let has_direction = of.iter().any(|(cell, _)| {
                cell.groups.len() == 1 && cell.groups.iter().all(|group| group.direction == class.direction)
            });
            if has_direction && class.nodes.len() > 1 {
                page.paragraph(2, 2, &representative_note(class));
            }
        }
    }
}

/// Writes both directions at once beside each alone, for the placements of `duplex`.
fn write_duplex(page: &mut TextPage, duplex: &[RankedCell], uniform: &[RankedCell]) {
    let keys: BTreeSet<Option<DirectionsKey>> = duplex.iter().map(|(cell, _)| key(cell)).collect();
    let cells: Vec<RankedCell> =
        uniform.iter().copied().filter(|(cell, _)| keys.contains(&key(cell))).collect();
    let unit = page.style().unit;
    page.heading(&format!("Device write, device read, and BOTH at the same time: median in {unit}"));
    write_directions(page, &cells, &["WRITE", "READ", "BOTH", "BOTH: WRITE", "BOTH: READ"]);
}

fn write_table(page: &mut TextPage, cells: &[RankedCell], by_block_size: bool) {
    let column = |cell: &IoCell| if by_block_size { cell.block_bytes } else { streams(cell).into() };
    let columns: BTreeSet<u64> = cells.iter().map(|(cell, _)| column(cell)).collect();
    let rows: BTreeSet<(NodeId, NodeId)> = cells.iter().filter_map(|(cell, _)| node_pair(cell)).collect();
    let local = rows.iter().all(|(cpu, memory)| cpu == memory);
    let title = |column: &u64| if by_block_size { format_size(*column) } else { column.to_string() };
    let corner = if local { vec!["NODE"] } else { vec!["CPU NODE", "BUFFERS"] };
    let heads = corner.iter().map(|title| ((*title).to_owned(), Align::Right));
    let mut table = Table::new(heads.chain(columns.iter().map(|column| (title(column), Align::Right))));
    let unit = page.style().unit;
    let figures =
        NumberFormat::bandwidth(unit, cells.iter().filter_map(|(cell, _)| cell.bytes_per_s.median()));
    for row in rows {
        let nodes = if local { vec![row.0] } else { vec![row.0, row.1] };
        let names = nodes.into_iter().map(|node| Cell::from(node.to_string()));
        let found = columns.iter().map(|wanted| {
            let found =
                cells.iter().find(|(cell, _)| node_pair(cell) == Some(row) && column(cell) == *wanted);
            let reading = found.map(|(cell, _)| &cell.bytes_per_s);
            let text = cell_text(reading, |reading| reading.median().map(|value| figures.format(value)));
            Cell::with_class(text, found.and_then(|(_, rank)| *rank))
        });
        table.row(names.chain(found));
    }
    page.table(2, &table);
}

/// The key of a row; nodes first, so that the sizes of one node pair are adjacent.
type DirectionsKey = ((NodeId, NodeId), u64, u32);

fn key(cell: &IoCell) -> Option<DirectionsKey> {
    Some((node_pair(cell)?, cell.block_bytes, streams(cell)))
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

    fn is_of(self, cell: &IoCell) -> bool {
        match (self, cell.groups.as_slice()) {
            (Self::One(direction), [group]) => group.direction == direction,
            (Self::Both | Self::OfBoth(_), [_, _]) => cell.duplex_placement().is_some(),
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

/// Writes a row for each pair of nodes, size and number of streams, with a column for each
/// direction, and for both at once; `titles` are those of [`Column::ALL`].
pub(crate) fn write_directions(page: &mut TextPage, cells: &[RankedCell], titles: &[&str; 5]) {
    let keys: BTreeSet<DirectionsKey> = cells.iter().filter_map(|(cell, _)| key(cell)).collect();
    let several = |count: usize| count > 1;
    let separate = keys.iter().any(|((cpu, memory), ..)| cpu != memory);
    let sizes = several(keys.iter().map(|(_, size, _)| size).collect::<BTreeSet<_>>().len());
    let numbers = several(keys.iter().map(|(.., streams)| streams).collect::<BTreeSet<_>>().len());
    let mut heads = if separate { vec!["CPU NODE", "BUFFERS"] } else { vec!["NODE"] };
    heads.extend(sizes.then_some("SIZE"));
    heads.extend(numbers.then_some("STREAMS"));
    let is_measured = |(column, _): &(Column, &str)| cells.iter().any(|(cell, _)| column.is_of(cell));
    let (columns, titles): (Vec<Column>, Vec<&str>) =
        Column::ALL.into_iter().zip(titles.iter().copied()).filter(is_measured).unzip();
    let titles = heads.into_iter().chain(titles);
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

/// States which nodes a measured node represents.
pub(crate) fn representative_note(class: &ClassRepresentative) -> String {
    let others = class.nodes.iter().filter(|node| **node != class.node).map(NodeId::to_string);
    format!("Node {} represents {} (one class of the model).", class.node, joined(others, ", "))
}

/// Writes how many measurements were saved by measuring one node of each class.
pub(crate) fn write_savings(page: &mut TextPage, record: &IoRecord, cells: &[RankedCell]) {
    let saved: usize = record
        .method
        .represented
        .iter()
        .map(|class| {
            let represented = cells.iter().filter(|(cell, _)| {
                node_pair(cell).is_some_and(|(_, memory)| memory == class.node)
                    && cell.groups.iter().all(|group| group.direction == class.direction)
            });
            represented.count() * class.nodes.len().saturating_sub(1)
        })
        .sum();
    if saved > 0 {
        let all = saved + cells.len();
        page.blank();
        page.paragraph(
            0,
            2,
            &format!(
                "One node per class of the model: {} of {all} measured, {:.0} % saved.",
                count(cells.len(), "cell"),
                saved as f64 * 100.0 / all as f64
            ),
        );
    }
}

pub(crate) fn write_mixes(page: &mut TextPage, cells: &[RankedCell]) {
    let unit = page.style().unit;
    page.heading(&format!("Mixes of streams: median of the total in {unit}, and of each part"));
    let figures =
        NumberFormat::bandwidth(unit, cells.iter().filter_map(|(cell, _)| cell.bytes_per_s.median()));
    let mut table = Table::new([
        ("MIX".to_owned(), Align::Left),
        (unit.to_string(), Align::Right),
        ("PARTS".to_owned(), Align::Left),
    ]);
    for (cell, _) in cells {
        let total =
            cell_text(Some(&cell.bytes_per_s), |reading| reading.median().map(|value| figures.format(value)));
        let parts = cell
            .group_bytes_per_s
            .iter()
            .map(|part| part.as_ref().map_or_else(|| "-".to_owned(), |part| figures.format(part.median)));
        table.row([Cell::from(cell_name(cell)), Cell::from(total), Cell::from(joined(parts, " + "))]);
    }
    page.table(2, &table);
}

pub(crate) fn write_processor_time(page: &mut TextPage, record: &IoRecord) {
    // Nanoseconds per byte equal seconds per gigabyte.
    let costs: Vec<f64> = record.cells.iter().filter_map(|cell| cell.cpu_ns_per_byte).collect();
    let (least, most) =
        (costs.iter().copied().fold(f64::INFINITY, f64::min), costs.iter().copied().fold(0.0, f64::max));
    if let Some(middle) = numaio_schema::median(&costs) {
        page.blank();
        page.paragraph(
            0,
            2,
            &format!(
                "CPU time per GB moved (10^9 bytes): median {middle:.3} s, from {least:.3} to {most:.3} s"
            ),
        );
    }
}

/// Returns all readings with names that differ.
pub(crate) fn named_readings(record: &IoRecord) -> Vec<(String, &Reading)> {
    let cells = &record.cells;
    let settings: Vec<_> = cells.iter().map(|cell| (cell.operation.as_deref(), cell.block_bytes)).collect();
    let names =
        cells.iter().zip(differing_settings(&settings)).map(|(cell, differing)| cell_name(cell) + &differing);
    names.zip(cells.iter().map(|cell| &cell.bytes_per_s)).collect()
}

/// Describes the streams of a cell.
pub(crate) fn cell_name(cell: &IoCell) -> String {
    let part = |(group, cpu_node): (&StreamGroup, &NodeId)| {
        let on = match group.memory == *cpu_node {
            true => format!("node {cpu_node}"),
            false => format!("node {cpu_node}, buffers on {}", group.memory),
        };
        format!("{} of {} on {on}", count(group.streams as usize, "stream"), group.direction.name())
    };
    joined(cell.groups.iter().zip(&cell.cpu_nodes).map(part), " + ")
}

pub(crate) fn engine_name(method: &IoMethod) -> String {
    match method.version.as_str() {
        "" => method.engine.title().to_owned(),
        version if version.starts_with(method.engine.name()) => version.to_owned(),
        version => format!("{} {version}", method.engine.title()),
    }
}

pub(crate) fn method_sentence(method: &IoMethod, cells: &[IoCell]) -> String {
    let how = method.disk.map(|(how, order)| {
        let cache = if method.direct == Some(true) { "O_DIRECT" } else { "through the page cache" };
        let order = match order {
            DiskOrder::Sequential => "sequential blocks",
            DiskOrder::Random => "random blocks",
        };
        let how = match how {
            DiskMethod::Uring => "io_uring",
            DiskMethod::Aio => "Linux AIO",
            DiskMethod::Threads => "one thread per request",
        };
        format!("{how}, {cache}, {order}")
    });
    let visits = record_header::visits_per_cell(cells.iter().map(|cell| cell.bytes_per_s.visits.len()));
    joined(
        [
            engine_name(method),
            how.unwrap_or_default(),
            in_flight(method),
            method.area_bytes.map(|bytes| format!("{} touched", format_size(bytes))).unwrap_or_default(),
            record_header::rounds_until_precise(method.rounds.rounds, method.rounds.precision),
            visits,
            format!("{:.0} s in total", method.rounds.elapsed_s),
        ],
        "; ",
    )
}

/// States the requests in flight; nvbandwidth chooses them itself.
fn in_flight(method: &IoMethod) -> String {
    match method.engine {
        IoEngine::Nvbandwidth => String::new(),
        _ => format!("{} in flight per stream", count(method.depth as usize, "request")),
    }
}

pub(crate) fn device_name(device: &IoDevice) -> String {
    match &device.reached_via {
        Some(path) => format!("{} via {path}", device.name),
        None => device.name.clone(),
    }
}

/// Describes a device: model, address, node and interrupts.
pub(crate) fn device_sentence(device: &IoDevice) -> String {
    let node = device.node.map_or("node unknown".to_owned(), |node| format!("node {node}"));
    let served = device.irqs.iter().filter_map(|irq| irq.effective.as_ref());
    let cpus = served.fold(CpuSet::new(), |all, cpus| all.union(cpus));
    let irqs = match (device.irqs.len(), cpus.is_empty()) {
        (0, _) => String::new(),
        (irqs, true) => count(irqs, "interrupt"),
        (irqs, false) => format!("{} on CPUs {cpus}", count(irqs, "interrupt")),
    };
    let pci = device.pci.as_deref().filter(|pci| *pci != device.name).unwrap_or_default();
    joined([format!("Device: {}", device.name).as_str(), device.model.as_str(), pci, &node, &irqs], ", ")
}

/// Returns the text with a capital first letter.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
