//! Tables of matrices: results per CPU node and memory node, and the classes of all pairs, in the
//! format of the NUMA extension of Cbench (Braithwaite et al., 2012).

use super::sheet::{Align, ClassFigures, Sheet, Text};
use crate::number_format::NumberFormat;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::NodeSet;
use numaio_machine::units::BandwidthUnit;
use numaio_machine::workload::{Direction, Flow, StreamOp};
use numaio_schema::{
    Cell, LatencyRecord, LoadPoint, LoadedCurve, Model, PairClasses, Reading, StreamCell, StreamRecord,
    StreamScope,
};
use std::collections::{BTreeMap, BTreeSet};

/// The key of a row: a node, or one of its CPUs.
pub(super) type Row = (NodeId, Option<CpuId>);

/// A value, and whether it is as precise as requested.
pub(super) type Figure = (Option<f64>, bool);

/// Returns the figure of a reading.
pub(super) fn figure(reading: &Reading) -> Figure {
    (reading.median(), reading.settled)
}

/// Returns the matrices and classes of a STREAM record.
pub(super) fn stream_sheets(record: &StreamRecord, unit: BandwidthUnit) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    for op in StreamOp::ALL {
        let cells: Vec<&StreamCell> = record.cells.iter().filter(|cell| cell.op == op).collect();
        if cells.is_empty() {
            continue;
        }
        sheets.extend(
            record.classes.iter().filter(|classes| classes.op == op).map(|it| pair_classes(it, unit)),
        );
        let by_core = record.method.scope == StreamScope::Core;
        let scope = if by_core { " on one core" } else { "" };
        let readings = cells.iter().map(|cell| {
            let cpu = cell.placement.cpus.first().filter(|_| by_core);
            (((cell.cpu_node, cpu), cell.memory_node), figure(&cell.bytes_per_s))
        });
        let matrix = Matrix {
            title: format!("{}{scope}: medians per CPU and memory node ({unit})", op.title()),
            rows: "CPU node",
            columns: "Memory node",
            cells: readings.collect(),
            figures: NumberFormat::bandwidth(unit, cells.iter().filter_map(|cell| cell.bytes_per_s.median())),
            best: f64::max,
        };
        sheets.push(matrix.sheet());
    }
    sheets
}

/// Returns the matrices of all targets; for a single target its classes suffice.
pub(super) fn copy_sheets(model: &Model, unit: BandwidthUnit) -> Vec<Sheet> {
    if model.targets.len() < 2 {
        return Vec::new();
    }
    let cells = || model.record.cells.iter();
    let value = |cell: &Cell| cell.bytes_copied_per_s.as_ref().map(|summary| summary.median);
    let of = |direction: Direction| {
        let readings = cells().filter_map(|cell| {
            let node = match direction {
                Direction::Write => cell.flow.source,
                Direction::Read => cell.flow.sink,
            };
            let belongs = Flow::of(direction, cell.target, node) == cell.flow;
            belongs.then_some((((cell.target, None), node), (value(cell), cell.settled)))
        });
        let matrix = Matrix {
            title: format!("Copies for {}, all targets ({unit})", direction.name()),
            rows: "Target",
            columns: "Memory node",
            cells: readings.collect(),
            figures: NumberFormat::bandwidth(unit, cells().filter_map(value)),
            best: f64::max,
        };
        matrix.sheet()
    };
    [Direction::Write, Direction::Read].map(of).into_iter().filter(|sheet| !sheet.rows.is_empty()).collect()
}

/// Returns the matrix and curves of a latency record.
pub(super) fn latency_sheets(record: &LatencyRecord, unit: BandwidthUnit) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    if !record.cells.is_empty() {
        let cells = || record.cells.iter();
        let readings =
            cells().map(|cell| (((cell.cpu_node, None), cell.memory_node), figure(&cell.ns_per_load)));
        let matrix = Matrix {
            title: "Idle latency: medians per CPU and memory node (ns)".to_owned(),
            rows: "CPU node",
            columns: "Memory node",
            cells: readings.collect(),
            figures: NumberFormat::nanoseconds(cells().filter_map(|cell| cell.ns_per_load.median())),
            best: f64::min,
        };
        sheets.push(matrix.sheet());
    }
    sheets.extend(record.curves.iter().map(|curve| loaded(curve, unit)));
    sheets
}

/// A table with a row for each node or CPU, and a column for each node.
pub(super) struct Matrix {
    /// Caption.
    pub title: String,
    /// Title of the rows.
    pub rows: &'static str,
    /// Title of the columns.
    pub columns: &'static str,
    /// Figures by row and column.
    pub cells: BTreeMap<(Row, NodeId), Figure>,
    /// Format of the figures.
    pub figures: NumberFormat,
    /// Returns the better of two values.
    pub best: fn(f64, f64) -> f64,
}

impl Matrix {
    /// Writes the table, with the best figure of each column marked.
    pub fn sheet(self) -> Sheet {
        let rows: BTreeSet<Row> = self.cells.keys().map(|(row, _)| *row).collect();
        let columns: BTreeSet<NodeId> = self.cells.keys().map(|(_, column)| *column).collect();
        let heads = columns.iter().map(|node| node.to_string());
        let head = std::iter::once(self.rows.to_owned()).chain(heads);
        let mut sheet = Sheet::new(&self.title, head, Align::Right);
        sheet.over = Some(self.columns);
        let value = |row: &Row, column: &NodeId| self.cells.get(&(*row, *column)).and_then(|it| it.0);
        let bests: Vec<Option<f64>> = columns
            .iter()
            .map(|column| rows.iter().filter_map(|row| value(row, column)).reduce(self.best))
            .collect();
        for row in &rows {
            let name = row_name(row);
            let texts = columns.iter().zip(&bests).map(|(column, best)| match value(row, column) {
                Some(value) => Text { text: self.figures.format(value), best: *best == Some(value) },
                None => Text::from("–"),
            });
            sheet.row(std::iter::once(Text::from(name)).chain(texts));
        }
        sheet.note("The best of each column is marked.");
        self.doubts(&mut sheet);
        sheet
    }

    fn doubts(&self, sheet: &mut Sheet) {
        let unsettled = self.cells.values().filter(|(value, settled)| value.is_some() && !settled).count();
        if unsettled > 0 {
            sheet.note(format!("{unsettled} of them are less precise than requested."));
        }
        let missing = self.cells.values().filter(|(value, _)| value.is_none()).count();
        if missing > 0 {
            sheet.note(format!("{missing} have no value (–)."));
        }
    }
}

/// Returns the name of a row: `2`, or `2, CPU 17`.
pub(super) fn row_name(row: &Row) -> String {
    match row {
        (node, Some(cpu)) => format!("{node}, CPU {cpu}"),
        (node, None) => node.to_string(),
    }
}

/// Maximum number of characters of class members in a row; rows cannot be split over pages.
pub(super) const LONGEST: usize = 400;

fn pair_classes(classes: &PairClasses, unit: BandwidthUnit) -> Sheet {
    let title =
        format!("{}: bandwidth classes of all pairs, rule {} ({unit})", classes.op.title(), classes.rule);
    let head = ["Class", "Range", "Mean", "Pairs", "CPU node: memory nodes"];
    let mut sheet = Sheet::new(title, head, Align::Right);
    (sheet.aligned[1], sheet.aligned[4]) = (Align::Center, Align::Left);
    let figures = NumberFormat::bandwidth(unit, classes.classes.iter().map(|class| class.max_bytes_per_s));
    for class in &classes.classes {
        let mut by_row: BTreeMap<NodeId, NodeSet> = BTreeMap::new();
        for (cpus, memory) in &class.pairs {
            by_row.entry(*cpus).or_default().insert(*memory);
        }
        let class_figures = ClassFigures {
            rank: class.rank,
            range: (class.min_bytes_per_s, class.max_bytes_per_s),
            mean: class.mean_bytes_per_s,
            members: class.pairs.len(),
        };
        sheet.class(&class_figures, figures, members(&by_row));
    }
    sheet
}

/// Lists pairs as `0: 0-1; 1: 1`, split into rows.
pub(super) fn members(by_row: &BTreeMap<NodeId, NodeSet>) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for (cpus, memory) in by_row {
        let member = format!("{cpus}: {memory}");
        match rows.last_mut().filter(|row| row.len() + member.len() <= LONGEST) {
            Some(row) => *row += &format!("; {member}"),
            None => rows.push(member),
        }
    }
    rows
}

fn loaded(curve: &LoadedCurve, unit: BandwidthUnit) -> Sheet {
    let title = format!(
        "Latency under load: CPU {} (node {}) to memory of node {}, while CPUs {} read the same memory",
        curve.cpu, curve.cpu_node, curve.memory_node, curve.placement.cpus
    );
    let head = ["Gap (ns)".to_owned(), format!("Read ({unit})"), "Latency (ns)".to_owned()];
    let mut sheet = Sheet::new(title, head, Align::Right);
    sheet.aligned[0] = Align::Right;
    let load = |point: &LoadPoint| Some(point.load_bytes_read_per_s.as_ref()?.median);
    let loads = NumberFormat::bandwidth(unit, curve.points.iter().filter_map(load));
    let latency =
        NumberFormat::nanoseconds(curve.points.iter().filter_map(|point| point.ns_per_load.median()));
    for point in &curve.points {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        sheet.row([
            point.gap_ns.to_string(),
            or_none(load(point).map(|value| loads.format(value))),
            or_none(point.ns_per_load.median().map(|value| latency.format(value))),
        ]);
    }
    sheet
}
