//! Formats network I/O as text: a table for each direction and operation.

use crate::io_text;
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
use numaio_schema::{IntervalKind, IoCell, IoDevice, IoRecord, IoRemoteEnd, NetworkSettings};
use std::collections::BTreeSet;

/// Formats a record as tables of message size, streams, placement at both ends, bandwidth and CPU
/// time.
pub fn net_text(record: &IoRecord, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let peer = record.device.reached_via.as_deref().unwrap_or("a peer");
    let what = format!("I/O through {} with {peer}, on", record.device.name);
    let mut paragraphs = vec![method_sentence(record), format!("Local: {}", device_sentence(&record.device))];
    paragraphs.extend(record.remote.as_ref().map(|there| format!("Remote: {}", device_sentence(there))));
    paragraphs.extend(record.method.network.as_ref().map(network_sentence));
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
        let cells = || record.cells.iter().filter(|cell| table_title(cell) == name);
        write_matrices(&mut page, &cells().collect::<Vec<_>>());
        write_table(&mut page, record, cells());
    }
    page.into_text()
}

/// Returns direction and operation of a cell, the title of its table.
pub(crate) fn table_title(cell: &IoCell) -> String {
    let operation = cell.operation.as_ref().map(|operation| format!(", {operation}")).unwrap_or_default();
    if cell.duplex_placement().is_some() {
        return format!("Both directions at once{operation}, with this number of streams in each");
    }
    let directions: Vec<&str> = cell
        .groups
        .iter()
        .map(|group| match group.direction {
            Direction::Write => "Device write (this machine sends)",
            Direction::Read => "Device read (this machine receives)",
        })
        .collect();
    format!("{}{operation}", directions.join(" and "))
}

fn write_table<'a>(page: &mut TextPage, record: &IoRecord, cells: impl Iterator<Item = &'a IoCell> + Clone) {
    let unit = page.style().unit;
    let figures = NumberFormat::bandwidth(unit, cells.clone().filter_map(|cell| cell.bytes_per_s.median()));
    let mut table = Table::new([
        ("MESSAGE".to_owned(), Align::Right),
        ("STREAMS".to_owned(), Align::Right),
        ("LOCAL".to_owned(), Align::Left),
        ("REMOTE".to_owned(), Align::Left),
        (unit.to_string(), Align::Right),
        ("95 %".to_owned(), Align::Right),
        ("SENT".to_owned(), Align::Right),
        ("RECEIVED".to_owned(), Align::Right),
        ("SENT ALONE".to_owned(), Align::Right),
        ("RECEIVED ALONE".to_owned(), Align::Right),
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
        let [here, there] = both_placements(cell);
        let streams = if cell.duplex_placement().is_some() { io_text::streams(cell) } else { cell.streams() };
        let [sent, received, sent_alone, received_alone] =
            rates(record, cell).map(|rate| rate.map(|rate| figures.format(rate)).unwrap_or_default());
        let row = [
            format_size(cell.block_bytes),
            streams.to_string(),
            here,
            there,
            reading.median().map_or_else(|| "-".to_owned(), |value| figures.format(value)),
            known.map(half_width).unwrap_or_default(),
            sent,
            received,
            sent_alone,
            received_alone,
            cell.cpu_ns_per_byte.map(seconds_per_gb).unwrap_or_default(),
            remote.and_then(|remote| remote.cpu_ns_per_byte).map(seconds_per_gb).unwrap_or_default(),
            joined([unsettled, &failure], "; "),
        ];
        table.row(row.map(Into::into));
    }
    page.table(2, &table.without_empty_columns());
}

/// Returns the rates of a cell of both directions at once in bytes per second: sent, received, and
/// each direction alone in the same run. `None` where unknown, and for other cells.
fn rates(record: &IoRecord, cell: &IoCell) -> [Option<f64>; 4] {
    let rates = [Direction::Write, Direction::Read].map(|direction| {
        let index = cell.groups.iter().position(|group| group.direction == direction)?;
        cell.duplex_placement()?;
        let alone = record.cells.iter().find(|alone| alone.is_alone(cell, index));
        let both = cell.group_bytes_per_s.get(index).and_then(Option::as_ref);
        Some((both.map(|summary| summary.median), alone.and_then(|alone| alone.bytes_per_s.median())))
    });
    let [sent, received] = rates.map(Option::unwrap_or_default);
    [sent.0, received.0, sent.1, received.1]
}

/// Returns the nodes of sender and receiver of a cell with local buffers at both ends.
fn sender_and_receiver(cell: &IoCell) -> Option<(NodeId, NodeId)> {
    let (local, memory, direction) = cell.placement()?;
    let remote = cell.remote.as_ref().filter(|remote| remote.cpu_nodes.len() == 1)?;
    let there = remote.cpu_nodes.iter().next().filter(|node| remote.memory == Some(*node))?;
    (local == memory).then_some(match direction {
        Direction::Write => (local, there),
        Direction::Read => (there, local),
    })
}

/// Writes a matrix of the nodes of sender and receiver for each message size and number of streams,
/// if both ends were varied together.
fn write_matrices(page: &mut TextPage, cells: &[&IoCell]) {
    let pairs = cells.iter().filter_map(|cell| sender_and_receiver(cell));
    let (senders, receivers): (BTreeSet<NodeId>, BTreeSet<NodeId>) = pairs.unzip();
    if senders.len() < 2 || receivers.len() < 2 {
        return;
    }
    let unit = page.style().unit;
    let figures = NumberFormat::bandwidth(unit, cells.iter().filter_map(|cell| cell.bytes_per_s.median()));
    let settings: BTreeSet<(u64, u32)> =
        cells.iter().map(|cell| (cell.block_bytes, cell.streams())).collect();
    for (bytes, streams) in settings {
        let (size, streams_text) = (format_size(bytes), count(streams as usize, "stream"));
        page.paragraph(2, 4, &format!("{size}, {streams_text}: median in {unit} by receiver node"));
        let median = |sender: NodeId, receiver: NodeId| {
            let wanted = |cell: &&&IoCell| {
                (cell.block_bytes, cell.streams()) == (bytes, streams)
                    && sender_and_receiver(cell) == Some((sender, receiver))
            };
            cells.iter().find(wanted).and_then(|cell| cell.bytes_per_s.median())
        };
        let columns = receivers.iter().map(|node| (node.to_string(), Align::Right));
        let mut table = Table::new(std::iter::once(("SENDER".to_owned(), Align::Right)).chain(columns));
        for sender in &senders {
            let text = |receiver: &NodeId| {
                median(*sender, *receiver).map_or_else(|| "-".to_owned(), |value| figures.format(value))
            };
            table.row(std::iter::once(sender.to_string()).chain(receivers.iter().map(text)).map(Into::into));
        }
        page.table(2, &table);
        let by_receiver = loss(&receivers, &senders, |receiver, sender| median(sender, receiver));
        if let Some((receiver, sender)) = by_receiver.zip(loss(&senders, &receivers, median)) {
            let [receiver, sender] = [receiver, sender].map(|loss| format!("{:.0} %", loss * 100.0));
            let line = format!("Cost of the worst node, receiver's: {receiver}, sender's: {sender}");
            page.paragraph(2, 4, &line);
        }
        page.blank();
    }
}

/// Returns how far the worst node of one end is below the best, by the means over all nodes of the
/// other end: a share from 0 to 1, `None` if a pair was not measured.
fn loss(
    own: &BTreeSet<NodeId>,
    others: &BTreeSet<NodeId>,
    value: impl Fn(NodeId, NodeId) -> Option<f64>,
) -> Option<f64> {
    let sum = |node: &NodeId| others.iter().map(|other| value(*node, *other)).sum::<Option<f64>>();
    let sums: Vec<f64> = own.iter().map(sum).collect::<Option<_>>()?;
    let best = sums.iter().copied().max_by(f64::total_cmp).filter(|best| *best > 0.0)?;
    Some(1.0 - sums.into_iter().min_by(f64::total_cmp)? / best)
}

/// Formats the placement of one end: `node 0`, or `node 0, memory 1`.
fn placement(cpus: &str, memory: Option<NodeId>) -> String {
    match memory.map(|memory| memory.to_string()) {
        Some(memory) if memory != cpus => format!("node {cpus}, memory {memory}"),
        _ => format!("node {cpus}"),
    }
}

/// Formats the placements of the local and the remote end.
pub(crate) fn both_placements(cell: &IoCell) -> [String; 2] {
    let local = io_text::node_pair(cell).map(|(cpu, memory)| placement(&cpu.to_string(), Some(memory)));
    [local, cell.remote.as_ref().map(remote_placement)].map(Option::unwrap_or_default)
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
    let engine = (method.engine, method.version.as_str());
    record_header::network_method(engine, "bytes counted at the receiver", &method.rounds, readings)
}

/// Describes the settings of both ends: `TCP cubic, MTU 1500; remote: TCP bbr, MTU 9000`.
fn network_sentence(network: &NetworkSettings) -> String {
    let end = |congestion: &Option<String>, mtu: Option<u32>| {
        let congestion = congestion.as_deref().map_or("unknown".to_owned(), short);
        let mtu = mtu.map_or("unknown".to_owned(), |mtu| mtu.to_string());
        format!("congestion control {congestion}, MTU {mtu}")
    };
    let local = end(&network.congestion, network.mtu);
    let remote = end(&network.remote_congestion, network.remote_mtu);
    match local == remote {
        true => format!("Network: {local} at both ends"),
        false => format!("Network: {local}; remote: {remote}"),
    }
}

pub(crate) fn device_sentence(device: &IoDevice) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_of_an_end_is_by_means_over_the_other_end() {
        let nodes: BTreeSet<NodeId> = [NodeId(0), NodeId(1)].into();
        let rates = [[10.0, 7.0], [10.2, 7.4]];
        let rate = |sender: NodeId, receiver: NodeId| Some(rates[sender.0 as usize][receiver.0 as usize]);
        let by_receiver = loss(&nodes, &nodes, |receiver, sender| rate(sender, receiver)).expect("a loss");
        assert!((by_receiver - (1.0 - 14.4 / 20.2)).abs() < 1e-9, "{by_receiver}");
        let by_sender = loss(&nodes, &nodes, rate).expect("a loss");
        assert!((by_sender - (1.0 - 17.0 / 17.6)).abs() < 1e-9, "{by_sender}");
        let one_missing = |sender: NodeId, receiver: NodeId| (sender != receiver).then_some(1.0);
        assert_eq!(loss(&nodes, &nodes, one_missing), None, "an incomplete matrix has no means");
    }
}
