//! Tables of network latency: a row for each placement, message size and operation, and matrices of
//! the nodes of both ends.

use super::sheet::{Align, Sheet, Text};
use crate::phrases::{joined, short};
use crate::record_header;
use numaio_machine::ids::NodeId;
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_schema::{IntervalKind, IoRemoteEnd, PingCell, PingRecord, Reading, Striping};
use std::collections::BTreeSet;

/// Text in place of a missing value.
const NONE: &str = "-";

/// Returns the tables of a record.
pub(crate) fn sheets(record: &PingRecord, unit: BandwidthUnit) -> Vec<Sheet> {
    if !record.rails.is_empty() {
        return vec![rail_sheet(record, unit)];
    }
    let mut sheets = matrices(record);
    sheets.push(cell_sheet(record, unit));
    sheets
}

/// Formats nanoseconds as microseconds.
fn microseconds(ns: f64) -> String {
    let decimals = match ns {
        ns if ns >= 1e6 => 0,
        ns if ns >= 1e5 => 1,
        _ => 2,
    };
    format!("{:.decimals$}", ns / 1e3)
}

/// Formats a bandwidth, which is tiny for small messages.
fn bandwidth(bytes_per_s: f64, unit: BandwidthUnit) -> String {
    let value = unit.of(bytes_per_s);
    let decimals = if value < 0.1 { 5 } else { 3 };
    format!("{value:.decimals$}")
}

fn or_none(value: Option<String>) -> Text {
    Text::from(value.unwrap_or_else(|| NONE.to_owned()))
}

fn median(reading: &Reading) -> Option<String> {
    reading.median().map(microseconds)
}

/// Formats a placement: `0`, or `0, memory 1`.
fn place(cpus: &str, memory: Option<NodeId>) -> String {
    match memory.map(|memory| memory.to_string()) {
        Some(memory) if memory != cpus => format!("{cpus}, memory {memory}"),
        _ => cpus.to_owned(),
    }
}

fn remote_place(remote: &IoRemoteEnd) -> String {
    place(&remote.cpu_nodes.to_string(), remote.memory)
}

fn cell_sheet(record: &PingRecord, unit: BandwidthUnit) -> Sheet {
    let title = "Latency of a message (half of a round trip) in µs";
    let unit_name = unit.to_string();
    let head = [
        "Message",
        "Operation",
        "Local",
        "Remote",
        "Median",
        "95 %",
        "99th percentile",
        "Shortest",
        &unit_name,
        "Note",
    ];
    let mut sheet = Sheet::new(title, head, Align::Right);
    sheet.aligned[0] = Align::Right;
    for column in [1, 2, 3, 9] {
        sheet.aligned[column] = Align::Left;
    }
    for cell in &record.cells {
        sheet.row(row(cell, unit));
    }
    sheet.without_empty_columns(&[9, 1]);
    sheet
}

fn row(cell: &PingCell, unit: BandwidthUnit) -> [Text; 10] {
    let summary = cell.latency_ns.summary.as_ref();
    let known = summary.filter(|summary| summary.interval != IntervalKind::Range);
    [
        format_size(cell.message_bytes).into(),
        cell.operation.clone().unwrap_or_default().into(),
        place(&cell.cpu_node.to_string(), Some(cell.memory_node)).into(),
        remote_place(&cell.remote).into(),
        or_none(median(&cell.latency_ns)),
        known.map(crate::matrix_text::half_width).unwrap_or_default().into(),
        or_none(cell.p99_ns.as_ref().map(|summary| microseconds(summary.median))),
        or_none(cell.min_ns.map(microseconds)),
        or_none(cell.bytes_per_s().map(|rate| bandwidth(rate, unit))),
        note(&cell.latency_ns).into(),
    ]
}

fn note(reading: &Reading) -> String {
    let unsettled = reading.summary.is_some() && !reading.settled;
    let failure = reading.failure.as_deref().map(short).unwrap_or_default();
    joined([if unsettled { "unsettled" } else { "" }, &failure], "; ")
}

/// Returns a matrix of local and remote nodes for each size, if both were varied together.
fn matrices(record: &PingRecord) -> Vec<Sheet> {
    let key = |cell: &PingCell| {
        let remote = cell.remote.cpu_nodes.iter().next().filter(|_| cell.remote.cpu_nodes.len() == 1)?;
        let is_local = cell.cpu_node == cell.memory_node && cell.remote.memory == Some(remote);
        is_local.then_some((cell.cpu_node, remote))
    };
    let pairs: BTreeSet<(NodeId, NodeId)> = record.cells.iter().filter_map(key).collect();
    let rows: BTreeSet<NodeId> = pairs.iter().map(|(local, _)| *local).collect();
    let columns: BTreeSet<NodeId> = pairs.iter().map(|(_, remote)| *remote).collect();
    if rows.len() < 2 || columns.len() < 2 {
        return Vec::new();
    }
    let sizes: BTreeSet<(u64, Option<&str>)> =
        record.cells.iter().map(|cell| (cell.message_bytes, cell.operation.as_deref())).collect();
    let matrix = |(bytes, operation): (u64, Option<&str>)| {
        let operation = operation.map(|operation| format!(", {operation}")).unwrap_or_default();
        let title = format!("Latency of {}{operation} in µs, by node", format_size(bytes));
        let head = std::iter::once("Local node".to_owned()).chain(columns.iter().map(NodeId::to_string));
        let mut sheet = Sheet::new(title, head, Align::Right);
        sheet.over = Some("Remote node");
        for local in &rows {
            let cell = |remote: &NodeId| {
                let wanted =
                    |cell: &&PingCell| cell.message_bytes == bytes && key(cell) == Some((*local, *remote));
                or_none(record.cells.iter().find(wanted).and_then(|cell| median(&cell.latency_ns)))
            };
            sheet.row(std::iter::once(Text::from(local.to_string())).chain(columns.iter().map(cell)));
        }
        sheet
    };
    sizes.into_iter().map(matrix).collect()
}

/// Returns a row for each placement and size: each rail alone, both stripings, and the gain.
fn rail_sheet(record: &PingRecord, unit: BandwidthUnit) -> Sheet {
    let rails = record.rails.len();
    let mut head = vec!["Message".to_owned(), "Local".to_owned(), "Remote".to_owned()];
    head.extend(record.rails.iter().map(|rail| rail.device.name.clone()));
    let last = ["Even", "Measured", "Shares %", "Gain", "Over even"];
    head.extend(last.map(str::to_owned));
    head.push(unit.to_string());
    let title = "Latency of a message (half of a round trip) in µs: each rail alone, and striped over all";
    let mut sheet = Sheet::new(title, head, Align::Right);
    sheet.aligned[0] = Align::Right;
    for group in record.cells.chunk_by(same_place) {
        let of = |striping: Striping| group.iter().find(|cell| cell.striping == Some(striping));
        let ns = |cell: Option<&PingCell>| cell.and_then(|cell| cell.latency_ns.median());
        let Some(first) = group.first() else { continue };
        let alone: Vec<Option<f64>> = (0..rails).map(|rail| ns(of(Striping::Single(rail)))).collect();
        let (even, measured) = (ns(of(Striping::Even)), of(Striping::Measured));
        let best = alone.iter().flatten().copied().min_by(f64::total_cmp);
        let gain = |before: Option<f64>| Some(format!("{:.2}", before? / ns(measured)?));
        let mut cells: Vec<Text> = vec![
            format_size(first.message_bytes).into(),
            place(&first.cpu_node.to_string(), Some(first.memory_node)).into(),
            remote_place(&first.remote).into(),
        ];
        let times = alone.iter().copied().chain([even, ns(measured)]);
        cells.extend(times.map(|ns| or_none(ns.map(microseconds))));
        cells.push(or_none(measured.map(shares)));
        cells.extend([gain(best), gain(even)].map(or_none));
        let rate = measured.and_then(PingCell::bytes_per_s).map(|rate| bandwidth(rate, unit));
        cells.push(or_none(rate));
        sheet.row(cells);
    }
    sheet.note("Gain: latency of the best rail alone over that of the measured striping; over even: that of the even striping over it.");
    sheet
}

fn same_place(one: &PingCell, other: &PingCell) -> bool {
    (one.message_bytes, one.cpu_node, one.memory_node, &one.remote)
        == (other.message_bytes, other.cpu_node, other.memory_node, &other.remote)
}

/// Formats the part of each rail in percent.
fn shares(cell: &PingCell) -> String {
    let share = |bytes: &u64| format!("{:.0}", *bytes as f64 * 100.0 / cell.message_bytes.max(1) as f64);
    cell.parts.iter().map(share).collect::<Vec<_>>().join(":")
}

/// Describes the method of a record.
pub(crate) fn method_sentence(record: &PingRecord) -> String {
    let method = &record.method;
    let readings = record.cells.iter().map(|cell| cell.latency_ns.visits.len());
    let engine = (method.engine, method.version.as_str());
    record_header::network_method(
        engine,
        "one message at a time, which the peer returns",
        &method.rounds,
        readings,
    )
}
