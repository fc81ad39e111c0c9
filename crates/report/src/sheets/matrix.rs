//! Matrices: results per CPU node and memory node with the best of each column marked, and the classes of all
//! pairs, as the NUMA extension of Cbench prints them (Braithwaite et al., 2012).

use super::{Scale, Sheet, Text};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::units::BandwidthUnit;
use numaio_machine::workload::{Direction, Flow, StreamOp};
use numaio_schema::{
    Cell, LatencyRecord, LoadedCurve, Model, PairClasses, Reading, StreamCell, StreamRecord, StreamScope,
};
use std::collections::{BTreeMap, BTreeSet};

/// Who a row of a matrix is about: threads of a node together, or one of its CPUs.
type Row = (NodeId, Option<CpuId>);

/// A figure, and whether it is as precise as was asked for.
type Figure = (Option<f64>, bool);

fn figure(reading: &Reading) -> Figure {
    (reading.median(), reading.settled)
}

pub(super) fn of_stream(record: &StreamRecord, unit: BandwidthUnit) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    for op in StreamOp::ALL {
        let cells: Vec<&StreamCell> = record.cells.iter().filter(|cell| cell.op == op).collect();
        if cells.is_empty() {
            continue;
        }
        sheets.extend(
            record.classes.iter().filter(|classes| classes.op == op).map(|it| pair_classes(it, unit)),
        );
        let alone = record.method.scope == StreamScope::Core;
        let who = if alone { "one core" } else { "threads of one node" };
        let scale = Scale::new(unit, cells.iter().filter_map(|cell| cell.bytes_per_s.median()));
        let readings = cells.iter().map(|cell| {
            let cpu = cell.placement.cpus.first().filter(|_| alone);
            (((cell.cpu_node, cpu), cell.memory_node), figure(&cell.bytes_per_s))
        });
        let matrix = Matrix {
            title: format!("STREAM {op}: results per CPU and memory node, by {who}, medians ({unit})"),
            figures: readings.collect(),
            show: &|value| scale.show(value),
            best: f64::max,
        };
        sheets.push(matrix.sheet());
    }
    sheets
}

/// Copies of all targets; of a single one its classes tell enough.
pub(super) fn of_copies(model: &Model, unit: BandwidthUnit) -> Vec<Sheet> {
    if model.targets.len() < 2 {
        return Vec::new();
    }
    let cells = || model.record.cells.iter();
    let value = |cell: &Cell| cell.bytes_copied_per_s.as_ref().map(|summary| summary.median);
    let scale = Scale::new(unit, cells().filter_map(value));
    let of = |direction: Direction| {
        let figures = cells().filter_map(|cell| {
            let node = match direction {
                Direction::Write => cell.flow.source,
                Direction::Read => cell.flow.sink,
            };
            let belongs = Flow::of(direction, cell.target, node) == cell.flow;
            belongs.then_some((((cell.target, None), node), (value(cell), cell.settled)))
        });
        let matrix = Matrix {
            title: format!("Copies by threads of a target for {}, medians ({unit})", direction.name()),
            figures: figures.collect(),
            show: &|value| scale.show(value),
            best: f64::max,
        };
        matrix.sheet()
    };
    [Direction::Write, Direction::Read].map(of).into_iter().filter(|sheet| !sheet.rows.is_empty()).collect()
}

pub(super) fn of_latency(record: &LatencyRecord, unit: BandwidthUnit) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    let cells = record.cells.iter();
    let figures: BTreeMap<(Row, NodeId), Figure> =
        cells.map(|cell| (((cell.cpu_node, None), cell.memory_node), figure(&cell.ns_per_load))).collect();
    if !figures.is_empty() {
        let title = "Idle latency per CPU and memory node, medians (ns)".to_owned();
        let matrix = Matrix { title, figures, show: &|value| format!("{value:.1}"), best: f64::min };
        sheets.push(matrix.sheet());
    }
    sheets.extend(record.curves.iter().map(|curve| loaded(curve, unit)));
    sheets
}

struct Matrix<'a> {
    title: String,
    figures: BTreeMap<(Row, NodeId), Figure>,
    show: &'a dyn Fn(f64) -> String,
    /// The better one of two.
    best: fn(f64, f64) -> f64,
}

impl Matrix<'_> {
    fn sheet(self) -> Sheet {
        let rows: BTreeSet<Row> = self.figures.keys().map(|(row, _)| *row).collect();
        let columns: BTreeSet<NodeId> = self.figures.keys().map(|(_, column)| *column).collect();
        let heads = columns.iter().map(|node| format!("Memory {node}"));
        let mut sheet = Sheet::new(&self.title, std::iter::once("CPUs".to_owned()).chain(heads));
        let value = |row: &Row, column: &NodeId| self.figures.get(&(*row, *column)).and_then(|it| it.0);
        let bests: Vec<Option<f64>> = columns
            .iter()
            .map(|column| rows.iter().filter_map(|row| value(row, column)).reduce(self.best))
            .collect();
        for row in &rows {
            let name = match row {
                (node, Some(cpu)) => format!("Node {node}, CPU {cpu}"),
                (node, None) => format!("Node {node}"),
            };
            let texts = columns.iter().zip(&bests).map(|(column, best)| {
                let value = value(row, column);
                let text = value.map_or_else(|| "–".to_owned(), self.show);
                Text { best: value.is_some() && value == *best, ..Text::from(text) }
            });
            sheet.row(std::iter::once(Text::from(name)).chain(texts));
        }
        sheet.note("The best of each column is marked.");
        let unsettled = self.figures.values().filter(|(value, settled)| value.is_some() && !settled);
        match unsettled.count() {
            0 => {}
            count => sheet.note(format!("{count} of them are less precise than was asked for.")),
        }
        let missing = self.figures.values().filter(|(value, _)| value.is_none()).count();
        if missing > 0 {
            sheet.note(format!("{missing} have no figure (–)."));
        }
        sheet
    }
}

fn pair_classes(classes: &PairClasses, unit: BandwidthUnit) -> Sheet {
    let title =
        format!("STREAM {}: bandwidth classes of all pairs, by {} ({unit})", classes.op, classes.rule);
    let mut sheet = Sheet::new(title, ["Class", "Range", "Mean", "Pairs", "CPU node: memory nodes"]);
    let scale = Scale::new(unit, classes.classes.iter().map(|class| class.max_bytes_per_s));
    for class in &classes.classes {
        let mut by_row: BTreeMap<NodeId, numaio_machine::set::NodeSet> = BTreeMap::new();
        for (cpus, memory) in &class.pairs {
            by_row.entry(*cpus).or_default().insert(*memory);
        }
        let members: Vec<String> = by_row.iter().map(|(cpus, memory)| format!("{cpus}: {memory}")).collect();
        sheet.row([
            Text::from(class.rank.to_string()),
            Text::from(scale.range(class.min_bytes_per_s, class.max_bytes_per_s)),
            Text::from(scale.show(class.mean_bytes_per_s)),
            Text::from(class.pairs.len().to_string()),
            Text::long(members.join("; ")),
        ]);
    }
    sheet
}

fn loaded(curve: &LoadedCurve, unit: BandwidthUnit) -> Sheet {
    let title = format!(
        "Latency under load: CPU {} of node {} to memory of node {}, while CPUs {} read it",
        curve.cpu, curve.cpu_node, curve.memory_node, curve.placement.cpus
    );
    let mut sheet =
        Sheet::new(title, ["Gap (ns)".to_owned(), format!("Read ({unit})"), "Latency (ns)".to_owned()]);
    let loads = curve.points.iter().filter_map(|point| Some(point.load_bytes_read_per_s.as_ref()?.median));
    let scale = Scale::new(unit, loads);
    for point in &curve.points {
        let load = point.load_bytes_read_per_s.as_ref().map(|summary| scale.show(summary.median));
        let latency = point.ns_per_load.median().map(|value| format!("{value:.1}"));
        sheet.row([
            point.gap_ns.to_string(),
            load.unwrap_or_default(),
            latency.unwrap_or_else(|| "–".to_owned()),
        ]);
    }
    sheet
}
