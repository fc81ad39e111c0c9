//! Formats STREAM results as text: matrices, views of targets, and agreement of a node's cores.

use crate::matrix_text::{cell_text, write_notes, write_stats, write_views, FigureStats, Matrix};
use crate::number_format::NumberFormat;
use crate::phrases::{count, joined};
use crate::record_header;
use crate::style::TextStyle;
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::workload::StreamOp;
use numaio_schema::{Reading, StreamCell, StreamRecord, StreamScope, Summary, View};
use std::collections::{BTreeMap, BTreeSet};

/// The key of a row: a node, or one of its cores.
type Row = (NodeId, Option<CpuSet>);

/// Formats the matrices of each operation, the agreement of cores, and the views of `targets`.
///
/// Bandwidth is counted as by STREAM, in the unit of `style`.
pub fn stream_text(record: &StreamRecord, views: &[View], targets: &NodeSet, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    record_header::write(
        &mut page,
        "STREAM on",
        &record.provenance,
        &[method_sentence(record), counting(record)],
    );
    for op in StreamOp::ALL {
        let cells: Vec<&StreamCell> = record.cells.iter().filter(|cell| cell.op == op).collect();
        if !cells.is_empty() {
            write_op(&mut page, record, op, &cells);
        }
    }
    write_views(&mut page, views, targets);
    if style.stats {
        let stats: Vec<FigureStats> = record
            .cells
            .iter()
            .map(|cell| FigureStats::from_reading(cell_name(record, cell), &cell.bytes_per_s))
            .collect();
        let medians = record.cells.iter().filter_map(|cell| cell.bytes_per_s.median());
        let figures = NumberFormat::bandwidth(style.unit, medians);
        write_stats(&mut page, "All values: number of visits, interval and drift", &stats, &figures);
    }
    page.into_text()
}

fn write_op(page: &mut TextPage, record: &StreamRecord, op: StreamOp, cells: &[&StreamCell]) {
    let unit = page.style().unit;
    let readings: BTreeMap<(Row, NodeId), &Reading> =
        cells.iter().map(|cell| ((row(record, cell), cell.memory_node), &cell.bytes_per_s)).collect();
    let rows: BTreeSet<Row> = readings.keys().map(|(row, _)| row.clone()).collect();
    let rows: Vec<Row> = rows.into_iter().collect();
    let columns: BTreeSet<NodeId> = readings.keys().map(|(_, memory)| *memory).collect();
    let classes: BTreeMap<(NodeId, NodeId), u32> = record
        .classes
        .iter()
        .filter(|classes| classes.op == op)
        .flat_map(|classes| &classes.classes)
        .flat_map(|class| class.pairs.iter().map(move |pair| (*pair, class.rank)))
        .collect();
    let figures = NumberFormat::bandwidth(unit, readings.values().filter_map(|reading| reading.largest()));
    let show = |of: fn(&Reading) -> Option<f64>| {
        let (readings, rows, classes) = (&readings, &rows, &classes);
        move |index: usize, memory: NodeId| {
            let row = &rows[index];
            let reading = readings.get(&(row.clone(), memory)).copied();
            let text = cell_text(reading, |reading| of(reading).map(|value| figures.format(value)));
            (text, classes.get(&(row.0, memory)).copied())
        }
    };
    let threads = match record.method.scope {
        StreamScope::Node { .. } | StreamScope::HardwareThreads => "threads of the row's node",
        StreamScope::Core => "one core at a time",
    };
    for (what, of) in [("Median", Reading::median as fn(&Reading) -> Option<f64>), ("Best", best)] {
        page.heading(&format!("{what} of {} in {unit}: {threads}, memory of the column's node", op.title()));
        let matrix = Matrix {
            rows: rows.iter().map(row_name).collect(),
            corner: "CPU NODE",
            columns: columns.iter().copied().collect(),
            cell: &show(of),
        };
        matrix.write(page, 2);
    }
    write_notes(page, cells.iter().map(|cell| (cell_name(record, cell), &cell.bytes_per_s)));
    if record.method.scope == StreamScope::Core {
        write_agreement(page, record, cells, &figures);
    }
}

/// Returns the best sample of all visits, if the reading has a value.
fn best(reading: &Reading) -> Option<f64> {
    reading.largest().filter(|_| reading.summary.is_some())
}

fn row(record: &StreamRecord, cell: &StreamCell) -> Row {
    let by_core = record.method.scope == StreamScope::Core;
    (cell.cpu_node, by_core.then(|| cell.placement.cpus.clone()))
}

fn row_name((node, cpu): &Row) -> String {
    cpu.as_ref().map_or_else(|| node.to_string(), |cpu| format!("{node}, CPU {cpu}"))
}

fn cell_name(record: &StreamRecord, cell: &StreamCell) -> String {
    let threads = match record.method.scope {
        StreamScope::Node { .. } | StreamScope::HardwareThreads => format!("node {}", cell.cpu_node),
        StreamScope::Core => format!("CPU {}", cell.placement.cpus),
    };
    format!("{} by {threads} on {}", cell.op, cell.memory_node)
}

/// States whether the cores of each node agree, for each memory node.
fn write_agreement(
    page: &mut TextPage,
    record: &StreamRecord,
    cells: &[&StreamCell],
    figures: &NumberFormat,
) {
    let mut groups: BTreeMap<NodeId, BTreeMap<NodeId, Vec<&StreamCell>>> = BTreeMap::new();
    for cell in cells {
        groups.entry(cell.cpu_node).or_default().entry(cell.memory_node).or_default().push(cell);
    }
    for (cpu_node, by_memory) in &groups {
        let cores = by_memory.values().map(Vec::len).max().unwrap_or(0);
        if cores < 2 {
            page.paragraph(2, 2, &format!("Node {cpu_node} has {}: no comparison.", count(cores, "core")));
            continue;
        }
        let precision = record.method.rounds.precision;
        let differing: Vec<String> = by_memory
            .iter()
            .filter_map(|(memory, cells)| Some((memory, most_different(cells, precision)?)))
            .map(|(memory, (slow, fast))| {
                let of = |cell: &StreamCell| {
                    let median = cell.bytes_per_s.median().unwrap_or(0.0);
                    format!("CPU {} {}", cell.placement.cpus, figures.format(median))
                };
                format!("memory of node {memory}: {}, {} {}", of(slow), of(fast), figures.unit())
            })
            .collect();
        let cores = count(cores, "core");
        let without = by_memory.values().flatten().filter(|cell| cell.bytes_per_s.summary.is_none()).count();
        let of_those = if without == 0 { String::new() } else { format!(" ({without} without a value)") };
        page.paragraph(
            2,
            2,
            &match differing.is_empty() {
                true => format!("The {cores} of node {cpu_node} agree: not distinguishable{of_those}."),
                false => {
                    format!("The {cores} of node {cpu_node} differ{of_those}: {}.", joined(differing, "; "))
                }
            },
        );
    }
}

/// Returns the two cores that differ most, if any are distinguishable.
///
/// Their intervals must not overlap, and their medians must differ by more than the requested
/// precision.
fn most_different<'c>(cells: &[&'c StreamCell], precision: f64) -> Option<(&'c StreamCell, &'c StreamCell)> {
    let figures: Vec<(&StreamCell, &Summary)> =
        cells.iter().filter_map(|cell| Some((*cell, cell.bytes_per_s.summary.as_ref()?))).collect();
    let pairs = figures.iter().flat_map(|slow| figures.iter().map(move |fast| (slow, fast)));
    let distinguishable = pairs.filter(|((_, slow), (_, fast))| {
        slow.high < fast.low && fast.median > slow.median * (1.0 + precision)
    });
    let ratio = |slow: &Summary, fast: &Summary| fast.median / slow.median;
    let most = distinguishable.max_by(|a, b| ratio(a.0 .1, a.1 .1).total_cmp(&ratio(b.0 .1, b.1 .1)));
    most.map(|(slow, fast)| (slow.0, fast.0))
}

/// Describes the method of a STREAM record.
pub(crate) fn method_sentence(record: &StreamRecord) -> String {
    let method = &record.method;
    let loops: Vec<String> =
        method.loops.iter().map(|(op, stream_loop)| format!("{op} with {stream_loop}")).collect();
    let ran = method.trials.iter().filter(|trial| trial.bytes_per_s.is_some());
    let tried: BTreeSet<_> = ran.map(|trial| trial.stream_loop).collect();
    let trial = record_header::loop_trial_note(tried.len());
    let threads = match method.scope {
        StreamScope::Core => "one core at a time".to_owned(),
        StreamScope::HardwareThreads => "one thread per hardware thread of the CPU node".to_owned(),
        StreamScope::Node { threads: None } => "one thread per core of the CPU node".to_owned(),
        StreamScope::Node { threads: Some(threads) } => {
            count(threads as usize, "thread") + " of the CPU node"
        }
    };
    let arrays = record_header::size_range(method.bytes_per_array.iter().map(|(_, bytes)| *bytes));
    let visits =
        record_header::visits_per_cell(record.cells.iter().map(|cell| cell.bytes_per_s.visits.len()));
    joined(
        [
            format!("{}{trial}", loops.join(", ")),
            format!("{threads}, arrays of {arrays} per thread"),
            record_header::page_kind(method.pages).to_owned(),
            record_header::rounds_until_precise(method.rounds.rounds, method.rounds.precision),
            visits,
            format!("{:.0} s in total", method.rounds.elapsed_s),
        ],
        "; ",
    )
}

fn counting(record: &StreamRecord) -> String {
    let traffic = record
        .method
        .loops
        .iter()
        .map(|(op, stream_loop)| format!("{op} {} for {}", stream_loop.bus_bytes(*op), op.arrays()));
    format!(
        "Bandwidth counts the bytes read and written, as STREAM does; memory traffic in bytes: {}.",
        joined(traffic, ", ")
    )
}
