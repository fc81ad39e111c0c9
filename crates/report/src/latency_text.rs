//! Formats latency as text: matrices, views of targets, and curves under load.

use crate::matrix_text::{cell_text, half_width, write_notes, write_stats, write_views, FigureStats, Matrix};
use crate::number_format::NumberFormat;
use crate::phrases::{joined, short};
use crate::record_header;
use crate::style::TextStyle;
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::units::format_size;
use numaio_schema::{IntervalKind, LatencyRecord, LoadPoint, LoadedCurve, Reading, View};
use std::collections::{BTreeMap, BTreeSet};

/// Readings by CPU node and memory node.
type Readings<'a> = BTreeMap<(NodeId, NodeId), &'a Reading>;

/// Formats a reading for a matrix, given the row's CPU node.
type Show<'a> = dyn Fn(NodeId, &Reading) -> Option<String> + 'a;

/// Formats the matrices of idle latency and NUMA factors, the views of `targets`, and the curves
/// under load.
///
/// The color of a cell is its class in the CPU-centric view of its row, if `views` contains it.
pub fn latency_text(record: &LatencyRecord, views: &[View], targets: &NodeSet, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    record_header::write(&mut page, "Latency of", &record.provenance, &[method_sentence(record)]);
    let readings: Readings =
        record.cells.iter().map(|cell| ((cell.cpu_node, cell.memory_node), &cell.ns_per_load)).collect();
    write_matrices(&mut page, &readings, views);
    write_views(&mut page, views, targets);
    for curve in &record.curves {
        write_curve(&mut page, curve, readings.get(&(curve.cpu_node, curve.memory_node)).copied());
    }
    if style.stats {
        write_all_stats(&mut page, record);
    }
    page.into_text()
}

fn write_matrices(page: &mut TextPage, readings: &Readings, views: &[View]) {
    let rows: BTreeSet<NodeId> = readings.keys().map(|(cpu, _)| *cpu).collect();
    let rows: Vec<NodeId> = rows.into_iter().collect();
    let columns: BTreeSet<NodeId> = readings.keys().map(|(_, memory)| *memory).collect();
    let figures = NumberFormat::nanoseconds(readings.values().filter_map(|reading| reading.median()));
    let median = |_: NodeId, reading: &Reading| reading.median().map(|ns| figures.format(ns));
    let best = |_: NodeId, reading: &Reading| {
        reading.smallest().filter(|_| reading.summary.is_some()).map(|ns| figures.format(ns))
    };
    let factor = |cpu: NodeId, reading: &Reading| {
        let local = readings.get(&(cpu, cpu)).and_then(|local| local.median())?;
        Some(format!("{:.2}", reading.median()? / local))
    };
    let shown: [(&str, &Show); 3] = [
        ("Median idle latency in ns", &median),
        ("Best idle latency in ns", &best),
        ("NUMA factors (latency relative to the local node)", &factor),
    ];
    // The factor of a single pair is always 1.
    let shown = shown.into_iter().take(if readings.len() > 1 { 3 } else { 2 });
    for (what, show) in shown {
        page.heading(&format!("{what}: from a core of the row's node to memory of the column's node"));
        let matrix = Matrix {
            rows: rows.iter().map(NodeId::to_string).collect(),
            corner: "CPU NODE",
            columns: columns.iter().copied().collect(),
            cell: &|index, memory| {
                let cpu = rows[index];
                let text = cell_text(readings.get(&(cpu, memory)).copied(), |reading| show(cpu, reading));
                (text, class_in_row(views, cpu, memory))
            },
        };
        matrix.write(page, 2);
    }
    write_notes(page, readings.iter().map(|((cpu, memory), reading)| (pair_name(*cpu, *memory), *reading)));
}

fn class_in_row(views: &[View], cpu: NodeId, memory: NodeId) -> Option<u32> {
    let view = views.iter().find(|view| view.target == cpu && view.name == "latency-cpu-centric")?;
    view.classes.iter().find(|class| class.nodes.contains(memory)).map(|class| class.rank)
}

fn pair_name(cpu: NodeId, memory: NodeId) -> String {
    format!("node {cpu} to {memory}")
}

fn write_curve(page: &mut TextPage, curve: &LoadedCurve, idle: Option<&Reading>) {
    let LoadedCurve { cpu_node, cpu, placement, memory_node, points } = curve;
    let loaders = match placement.cpus.len() {
        1 => format!("CPU {} reads", placement.cpus),
        _ => format!("CPUs {} read", placement.cpus),
    };
    page.heading(&format!(
        "Under load: CPU {cpu} (node {cpu_node}) to memory of node {memory_node}, while {loaders} the same memory"
    ));
    let unit = page.style().unit;
    let loads = points.iter().filter_map(|point| Some(point.load_bytes_read_per_s.as_ref()?.median));
    let (loads, ns) = (
        NumberFormat::bandwidth(unit, loads),
        NumberFormat::nanoseconds(points.iter().filter_map(|point| point.ns_per_load.median())),
    );
    let mut table = Table::new([
        ("GAP ns".to_owned(), Align::Right),
        (format!("LOAD {unit}"), Align::Right),
        ("LATENCY ns".to_owned(), Align::Right),
        ("95 %".to_owned(), Align::Right),
        ("NOTE".to_owned(), Align::Left),
    ]);
    let mut row = |gap: String, load: String, reading: &Reading| {
        let latency = reading.median().map_or_else(|| "-".to_owned(), |value| ns.format(value));
        // The range of a few visits is not a 95 % interval.
        let known = reading.summary.as_ref().filter(|summary| summary.interval != IntervalKind::Range);
        let interval = known.map(half_width).unwrap_or_default();
        table.row([gap, load, latency, interval, note(reading)].map(Into::into));
    };
    if let Some(idle) = idle {
        row("no load".to_owned(), loads.format(0.0), idle);
    }
    for LoadPoint { gap_ns, load_bytes_read_per_s, ns_per_load } in points {
        let load =
            load_bytes_read_per_s.as_ref().map_or_else(|| "-".to_owned(), |load| loads.format(load.median));
        row(gap_ns.to_string(), load, ns_per_load);
    }
    page.table(2, &table.without_empty_columns());
}

fn note(reading: &Reading) -> String {
    let unsettled = reading.summary.is_some() && !reading.settled;
    let failure = reading.failure.as_deref().map(short).unwrap_or_default();
    joined([if unsettled { "unsettled" } else { "" }, &failure], "; ")
}

fn write_all_stats(page: &mut TextPage, record: &LatencyRecord) {
    let idle = record.cells.iter();
    let mut stats: Vec<FigureStats> = idle
        .map(|cell| FigureStats::from_reading(pair_name(cell.cpu_node, cell.memory_node), &cell.ns_per_load))
        .collect();
    let points =
        || record.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    let at = |curve: &LoadedCurve, gap: u32| {
        format!("{}, gap {gap} ns", pair_name(curve.cpu_node, curve.memory_node))
    };
    stats.extend(
        points().map(|(curve, point)| FigureStats::from_reading(at(curve, point.gap_ns), &point.ns_per_load)),
    );
    let medians = stats.iter().filter_map(|stat| stat.summary).map(|summary| summary.median);
    let figures = NumberFormat::nanoseconds(medians);
    write_stats(page, "All latencies: number of visits, interval and drift", &stats, &figures);
    let loads: Vec<FigureStats> = points()
        .map(|(curve, point)| FigureStats {
            name: at(curve, point.gap_ns),
            summary: point.load_bytes_read_per_s.as_ref(),
            // Rounds stop when the latency is precise enough; the load is only recorded.
            settled: true,
            failure: None,
        })
        .collect();
    if !loads.is_empty() {
        let medians = loads.iter().filter_map(|stat| stat.summary).map(|summary| summary.median);
        let figures = NumberFormat::bandwidth(page.style().unit, medians);
        write_stats(page, "All loads: number of visits, interval and drift", &loads, &figures);
    }
}

/// Describes the method of a latency record.
pub(crate) fn method_sentence(record: &LatencyRecord) -> String {
    let method = &record.method;
    let buffers = record_header::size_range(method.bytes.iter().map(|(_, bytes)| *bytes));
    let points = record.curves.iter().flat_map(|curve| &curve.points).map(|point| &point.ns_per_load);
    let readings = record.cells.iter().map(|cell| &cell.ns_per_load).chain(points);
    joined(
        [
            "one thread follows a chain of pointers (one random cycle)".to_owned(),
            format!("buffer of {buffers}, stride {}", format_size(u64::from(method.stride_bytes))),
            record_header::page_kind(method.pages).to_owned(),
            record_header::rounds_until_precise(method.rounds.rounds, method.rounds.precision),
            record_header::visits_per_cell(readings.map(|reading| reading.visits.len())),
            format!("{:.0} s in total", method.rounds.elapsed_s),
        ],
        "; ",
    )
}
