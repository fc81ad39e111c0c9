//! Formats network I/O as text: a table for each direction and operation.

use crate::matrix_text::half_width;
use crate::number_format::NumberFormat;
use crate::phrases::{count, joined, short};
use crate::record_header;
use crate::style::TextStyle;
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::units::format_size;
use numaio_machine::workload::Direction;
use numaio_schema::{IntervalKind, IoCell, IoDevice, IoRecord, IoRemoteEnd};

/// Formats a record as tables of message size, streams, placement at both ends, bandwidth and CPU
/// time.
pub fn net_text(record: &IoRecord, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let peer = record.device.reached_via.as_deref().unwrap_or("a peer");
    let what = format!("I/O through {} with {peer}, on", record.device.name);
    let mut paragraphs = vec![method_sentence(record), format!("Local: {}", device_sentence(&record.device))];
    paragraphs.extend(record.remote.as_ref().map(|there| format!("Remote: {}", device_sentence(there))));
    record_header::write(&mut page, &what, &record.provenance, &paragraphs);
    for note in &record.method.notes {
        page.paragraph(0, 2, &format!("Note: {note}"));
    }
    let mut titles: Vec<String> = Vec::new();
    for cell in &record.cells {
        if !titles.contains(&table_title(cell)) {
            titles.push(table_title(cell));
        }
    }
    for name in titles {
        page.heading(&name);
        write_table(&mut page, record.cells.iter().filter(|cell| table_title(cell) == name));
    }
    page.into_text()
}

/// Returns direction and operation of a cell, the title of its table.
fn table_title(cell: &IoCell) -> String {
    let directions: Vec<&str> = cell
        .groups
        .iter()
        .map(|group| match group.direction {
            Direction::Write => "Device write (this machine sends)",
            Direction::Read => "Device read (this machine receives)",
        })
        .collect();
    let operation = cell.operation.as_ref().map(|operation| format!(", {operation}")).unwrap_or_default();
    format!("{}{operation}", directions.join(" and "))
}

fn write_table<'a>(page: &mut TextPage, cells: impl Iterator<Item = &'a IoCell> + Clone) {
    let unit = page.style().unit;
    let figures = NumberFormat::bandwidth(unit, cells.clone().filter_map(|cell| cell.bytes_per_s.median()));
    let mut table = Table::new([
        ("MESSAGE".to_owned(), Align::Right),
        ("STREAMS".to_owned(), Align::Right),
        ("LOCAL".to_owned(), Align::Left),
        ("REMOTE".to_owned(), Align::Left),
        (unit.to_string(), Align::Right),
        ("95 %".to_owned(), Align::Right),
        ("CPU s/GB LOCAL".to_owned(), Align::Right),
        ("REMOTE".to_owned(), Align::Right),
        ("NOTE".to_owned(), Align::Left),
    ]);
    for cell in cells {
        let reading = &cell.bytes_per_s;
        let summary = reading.summary.as_ref();
        let known = summary.filter(|summary| summary.interval != IntervalKind::Range);
        let unsettled = if summary.is_some() && !reading.settled { "unsettled" } else { "" };
        let failure = reading.failure.as_deref().map(short).unwrap_or_default();
        let remote = cell.remote.as_ref();
        let row = [
            format_size(cell.block_bytes),
            cell.streams().to_string(),
            cell.placement()
                .map_or_else(String::new, |(cpu, memory, _)| placement(&cpu.to_string(), Some(memory))),
            remote.map(remote_placement).unwrap_or_default(),
            reading.median().map_or_else(|| "-".to_owned(), |value| figures.format(value)),
            known.map(half_width).unwrap_or_default(),
            cell.cpu_ns_per_byte.map(seconds_per_gb).unwrap_or_default(),
            remote.and_then(|remote| remote.cpu_ns_per_byte).map(seconds_per_gb).unwrap_or_default(),
            joined([unsettled, &failure], "; "),
        ];
        table.row(row.map(Into::into));
    }
    page.table(2, &table.without_empty_columns());
}

/// Formats the placement of one end: `node 0`, or `node 0, memory 1`.
fn placement(cpus: &str, memory: Option<NodeId>) -> String {
    match memory.map(|memory| memory.to_string()) {
        Some(memory) if memory != cpus => format!("node {cpus}, memory {memory}"),
        _ => format!("node {cpus}"),
    }
}

fn remote_placement(remote: &IoRemoteEnd) -> String {
    placement(&remote.cpu_nodes.to_string(), remote.memory)
}

/// Formats nanoseconds per byte, which equal seconds per GB (10^9 bytes).
fn seconds_per_gb(ns_per_byte: f64) -> String {
    format!("{ns_per_byte:.3}")
}

/// Describes the method of a record.
fn method_sentence(record: &IoRecord) -> String {
    let method = &record.method;
    let readings = record.cells.iter().map(|cell| cell.bytes_per_s.visits.len());
    joined(
        [
            format!("{} {}", method.engine.title(), method.version),
            "bytes counted at the receiver".to_owned(),
            record_header::rounds_until_precise(method.rounds.rounds, method.rounds.precision),
            record_header::visits_per_cell(readings),
            format!("{:.0} s in total", method.rounds.elapsed_s),
        ],
        "; ",
    )
}

fn device_sentence(device: &IoDevice) -> String {
    let node = match device.node {
        Some(node) => format!("on node {node}"),
        None => "node unknown".to_owned(),
    };
    let irqs = match device.irqs.len() {
        0 => String::new(),
        number => {
            let cpus = device.irqs.iter().map(|irq| irq.affinity.clone());
            let cpus = cpus.reduce(|all, cpus| all.union(&cpus)).unwrap_or_default();
            format!("{} on CPUs {cpus}", count(number, "interrupt"))
        }
    };
    joined([device.name.clone(), device.model.clone(), node, irqs], ", ")
}
