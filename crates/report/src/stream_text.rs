//! STREAM as text: matrices, views of targets, and whether cores of one node agree.

use crate::matrix_text::{figure, write_notes, write_stats, write_views, FigureStats, Matrix};
use crate::model_text::header;
use crate::number_format::NumberFormat;
use crate::phrases::{count, joined};
use crate::style::{TextPage, TextStyle};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::workload::StreamOp;
use numaio_schema::{Reading, StreamCell, StreamRecord, StreamScope, Summary, View};
use std::collections::{BTreeMap, BTreeSet};

/// Where threads run: a node, or one core of it.
type Row = (NodeId, Option<CpuSet>);

/// The matrix of each operation, median and best; of single cores whether those of a node agree; and the views
/// of these targets.
///
/// Bandwidth is as STREAM counts it, in the unit of `style`.
pub fn stream_text(record: &StreamRecord, views: &[View], targets: &NodeSet, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    header::write(&mut page, "STREAM on", &record.provenance, &[method_sentence(record), counting(record)]);
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
            .map(|cell| FigureStats::from_reading(name(record, cell), &cell.bytes_per_s))
            .collect();
        let medians = record.cells.iter().filter_map(|cell| cell.bytes_per_s.median());
        let figures = NumberFormat::bandwidth(style.unit, medians);
        write_stats(&mut page, "Every figure: number of visits, interval and drift", &stats, &figures);
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
            let text = figure(reading, |reading| of(reading).map(|value| figures.format(value)));
            (text, classes.get(&(row.0, memory)).copied())
        }
    };
    let who = match record.method.scope {
        StreamScope::Node { .. } | StreamScope::HardwareThreads => "threads of a node",
        StreamScope::Core => "one core alone",
    };
    for (what, of) in [("Median", Reading::median as fn(&Reading) -> Option<f64>), ("Best", best)] {
        page.heading(&format!(
            "{what} of STREAM {op} in {unit}: by {who} (rows), memory of a node (columns)"
        ));
        let matrix = Matrix {
            rows: rows.iter().map(row_name).collect(),
            corner: "CPU NODE",
            columns: columns.iter().copied().collect(),
            cell: &show(of),
        };
        matrix.write(page, 2);
    }
    write_notes(page, cells.iter().map(|cell| (name(record, cell), &cell.bytes_per_s)));
    if record.method.scope == StreamScope::Core {
        write_agreement(page, record, cells, &figures);
    }
}

/// The best visit's best sample, where there is a figure at all.
fn best(reading: &Reading) -> Option<f64> {
    reading.largest().filter(|_| reading.summary.is_some())
}

fn row(record: &StreamRecord, cell: &StreamCell) -> Row {
    let alone = record.method.scope == StreamScope::Core;
    (cell.cpu_node, alone.then(|| cell.placement.cpus.clone()))
}

fn row_name((node, cpu): &Row) -> String {
    cpu.as_ref().map_or_else(|| node.to_string(), |cpu| format!("{node}, CPU {cpu}"))
}

fn name(record: &StreamRecord, cell: &StreamCell) -> String {
    let who = match record.method.scope {
        StreamScope::Node { .. } | StreamScope::HardwareThreads => format!("node {}", cell.cpu_node),
        StreamScope::Core => format!("CPU {}", cell.placement.cpus),
    };
    format!("{} by {who} on {}", cell.op, cell.memory_node)
}

/// Whether the cores of each node agree on each node's memory.
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
            page.paragraph(
                2,
                2,
                &format!("Node {cpu_node} has {}: nothing to agree with.", count(cores, "core")),
            );
            continue;
        }
        let precision = record.method.rounds.precision;
        let apart: Vec<String> = by_memory
            .iter()
            .filter_map(|(memory, cells)| Some((memory, apart(cells, precision)?)))
            .map(|(memory, (slow, fast))| {
                let of = |cell: &StreamCell| {
                    let median = cell.bytes_per_s.median().unwrap_or(0.0);
                    format!("CPU {} {}", cell.placement.cpus, figures.format(median))
                };
                format!("memory of {memory}: {}, {} {}", of(slow), of(fast), figures.unit())
            })
            .collect();
        let cores = count(cores, "core");
        let without = by_memory.values().flatten().filter(|cell| cell.bytes_per_s.summary.is_none()).count();
        let of_those = if without == 0 { String::new() } else { format!(" ({without} without a figure)") };
        page.paragraph(
            2,
            2,
            &match apart.is_empty() {
                true => format!("The {cores} of node {cpu_node} agree: not distinguishable{of_those}."),
                false => {
                    format!("The {cores} of node {cpu_node} do not agree{of_those}: {}.", joined(apart, "; "))
                }
            },
        );
    }
}

/// Two cores that differ the most, if any two can be told apart: their intervals share no value, and their
/// medians are farther apart than the precision that was asked for.
fn apart<'c>(cells: &[&'c StreamCell], precision: f64) -> Option<(&'c StreamCell, &'c StreamCell)> {
    let figures: Vec<(&StreamCell, &Summary)> =
        cells.iter().filter_map(|cell| Some((*cell, cell.bytes_per_s.summary.as_ref()?))).collect();
    let pairs = figures.iter().flat_map(|slow| figures.iter().map(move |fast| (slow, fast)));
    let told = pairs.filter(|((_, slow), (_, fast))| {
        slow.high < fast.low && fast.median > slow.median * (1.0 + precision)
    });
    let ratio = |slow: &Summary, fast: &Summary| fast.median / slow.median;
    let most = told.max_by(|a, b| ratio(a.0 .1, a.1 .1).total_cmp(&ratio(b.0 .1, b.1 .1)));
    most.map(|(slow, fast)| (slow.0, fast.0))
}

pub(crate) fn method_sentence(record: &StreamRecord) -> String {
    let method = &record.method;
    let loops: Vec<String> = method.loops.iter().map(|(op, one)| format!("{op} by {one}")).collect();
    let ran = method.trials.iter().filter(|trial| trial.bytes_per_s.is_some());
    let tried: BTreeSet<_> = ran.map(|trial| trial.stream_loop).collect();
    let trial = header::loop_trial_note(tried.len());
    let threads = match method.scope {
        StreamScope::Core => "each core alone".to_owned(),
        StreamScope::HardwareThreads => "a thread on each hardware thread of the CPU node".to_owned(),
        StreamScope::Node { threads: None } => "a thread on each core of the CPU node".to_owned(),
        StreamScope::Node { threads: Some(threads) } => {
            count(threads as usize, "thread") + " of the CPU node"
        }
    };
    let arrays = header::size_range(method.bytes_per_array.iter().map(|(_, bytes)| *bytes));
    let visits = header::visits_per_cell(record.cells.iter().map(|cell| cell.bytes_per_s.visits.len()));
    joined(
        [
            format!("{}{trial}", loops.join(", ")),
            format!("{threads}, arrays of {arrays} for each thread"),
            header::page_kind(method.pages).to_owned(),
            header::rounds_until_precise(method.rounds.rounds, method.rounds.precision),
            visits,
            format!("{:.0} s on the machine", method.rounds.elapsed_s),
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
        "Bandwidth counts what a loop reads and writes, as STREAM does; the memory bus carries, in bytes, {}.",
        joined(traffic, ", ")
    )
}
