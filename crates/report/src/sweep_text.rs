//! Formats the figures of a program as text: a matrix, classes of all cells, and views of targets.

use crate::matrix_text::{cell_text, write_notes, write_stats, write_views, FigureStats, Matrix};
use crate::number_format::NumberFormat;
use crate::phrases::{count, joined};
use crate::record_header::{self, percent};
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::units::BandwidthUnit;
use numaio_schema::{
    ClassRule, FigureSource, Quantity, Reading, SweepCell, SweepClass, SweepMethod, SweepRecord, SweepScope,
    View,
};
use std::collections::{BTreeMap, BTreeSet};

/// The key of a row: a node, or one of its cores.
type Row = (NodeId, Option<CpuSet>);

/// Formats the matrix of figures, the best builds, the classes, and the views of `targets`.
///
/// Bandwidth is in the unit of `style`, other figures in their own.
pub fn sweep_text(record: &SweepRecord, views: &[View], targets: &NodeSet, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let title = format!("{} on", record.method.name);
    record_header::write(&mut page, &title, &record.provenance, &[method_sentence(record)]);
    let medians = record.cells.iter().filter_map(|cell| cell.figure.median());
    let figures = NumberFormat::sweep(&record.method, style.unit, medians);
    write_matrix(&mut page, record, &figures);
    if record.method.builds.len() > 1 {
        write_builds(&mut page, record);
    }
    write_classes(&mut page, record, &figures);
    write_views(&mut page, views, targets);
    if style.stats {
        let cells = record.cells.iter();
        let stats: Vec<FigureStats> =
            cells.map(|cell| FigureStats::from_reading(cell_name(record, cell), &cell.figure)).collect();
        write_stats(&mut page, "All values: number of visits, interval and drift", &stats, &figures);
    }
    page.into_text()
}

fn write_matrix(page: &mut TextPage, record: &SweepRecord, figures: &NumberFormat) {
    let unit = unit_phrase(&record.method, page.style().unit, " in ");
    let cpus = match record.method.scope {
        SweepScope::Pairs => "CPUs of the row's node",
        SweepScope::Cores => "one core at a time",
    };
    page.heading(&format!("Median of {}{unit}: {cpus}, memory of the column's node", record.method.name));
    write_cells(page, record, &|index, cell| {
        let text = cell_text(Some(&cell.figure), |reading: &Reading| {
            reading.median().map(|value| figures.format(value))
        });
        (text, record.rank(index))
    });
    write_notes(page, record.cells.iter().map(|cell| (cell_name(record, cell), &cell.figure)));
}

/// Writes which build is the best one in each cell.
fn write_builds(page: &mut TextPage, record: &SweepRecord) {
    page.heading("Best build");
    for (index, command) in record.method.builds.iter().enumerate() {
        page.paragraph(2, 2, &format!("{}: {}", index + 1, command.join(" ")));
    }
    page.blank();
    write_cells(page, record, &|_, cell| {
        let build = cell.figure.median().map(|_| (cell.build + 1).to_string());
        (build.unwrap_or_else(|| "-".to_owned()), None)
    });
}

/// Returns the text and the class of a cell, given its index.
type CellText<'a> = dyn Fn(usize, &SweepCell) -> (String, Option<u32>) + 'a;

/// Writes a matrix with the text and class of each cell, which is given with its index.
fn write_cells(page: &mut TextPage, record: &SweepRecord, text: &CellText<'_>) {
    let by_core = record.method.scope == SweepScope::Cores;
    let row = |cell: &SweepCell| (cell.cpu_node, by_core.then(|| cell.placement.cpus.clone()));
    let cells: BTreeMap<(Row, NodeId), usize> =
        (0..).zip(&record.cells).map(|(index, cell)| ((row(cell), cell.memory_node), index)).collect();
    let rows: BTreeSet<&Row> = cells.keys().map(|(row, _)| row).collect();
    let rows: Vec<&Row> = rows.into_iter().collect();
    let columns: BTreeSet<NodeId> = cells.keys().map(|(_, memory)| *memory).collect();
    let matrix = Matrix {
        rows: rows.iter().map(|row| row_name(row)).collect(),
        corner: "CPU NODE",
        columns: columns.into_iter().collect(),
        cell: &|row, memory| match cells.get(&(rows[row].clone(), memory)) {
            Some(index) => text(*index, &record.cells[*index]),
            None => ("-".to_owned(), None),
        },
    };
    matrix.write(page, 2);
}

fn row_name((node, cpu): &Row) -> String {
    cpu.as_ref().map_or_else(|| node.to_string(), |cpu| format!("{node}, CPU {cpu}"))
}

fn cell_name(record: &SweepRecord, cell: &SweepCell) -> String {
    match record.method.scope {
        SweepScope::Pairs => format!("node {} on {}", cell.cpu_node, cell.memory_node),
        SweepScope::Cores => format!("CPU {} on {}", cell.placement.cpus, cell.memory_node),
    }
}

fn write_classes(page: &mut TextPage, record: &SweepRecord, figures: &NumberFormat) {
    let classes = &record.classes;
    if classes.classes.is_empty() {
        return;
    }
    let name = if record.method.scope == SweepScope::Cores { "CPUS: MEMORY" } else { "CPU NODES: MEMORY" };
    page.heading(&format!("Classes of all pairs, best first: {}", rule_phrase(classes.rule, classes.level)));
    let mut table = Table::new([
        ("CLASS".to_owned(), Align::Right),
        ("MEAN".to_owned(), Align::Right),
        ("RANGE".to_owned(), Align::Left),
        ("PAIRS".to_owned(), Align::Right),
        (name.to_owned(), Align::Left),
    ]);
    for class in &classes.classes {
        let rank = Some(class.rank);
        table.row([
            Cell::with_class(class.rank.to_string(), rank),
            figures.format(class.mean).into(),
            figures.range(class.min, class.max).into(),
            class.cells.len().to_string().into(),
            Cell::with_class(members(record, class).join("; "), rank),
        ]);
    }
    page.table(2, &table);
}

/// Describes a rule of classification.
pub(crate) fn rule_phrase(rule: ClassRule, level: f64) -> String {
    match rule {
        ClassRule::Measured => format!("within {} % of the best of a class", percent(level)),
        ClassRule::Paper => {
            format!("class 1 is local memory and that of the package, others within {} %", percent(level))
        }
        ClassRule::Kmeans => "k-means".to_owned(),
    }
}

/// Lists the cells of a class: CPU nodes or CPUs that have the same memory nodes in it, such as
/// `0-1: 2-3`.
pub(crate) fn members(record: &SweepRecord, class: &SweepClass) -> Vec<String> {
    let by_core = record.method.scope == SweepScope::Cores;
    let mut memories: BTreeMap<(NodeId, CpuSet), NodeSet> = BTreeMap::new();
    for cell in class.cells.iter().filter_map(|index| record.cells.get(*index as usize)) {
        let row = (cell.cpu_node, cell.placement.cpus.clone());
        memories.entry(row).or_default().insert(cell.memory_node);
    }
    // In the order of the first row of each group.
    let mut groups: Vec<(NodeSet, NodeSet, CpuSet)> = Vec::new();
    for ((node, cpus), memory) in memories {
        match groups.iter_mut().find(|(other, ..)| *other == memory) {
            Some((_, nodes, all)) => {
                nodes.insert(node);
                *all = all.union(&cpus);
            }
            None => groups.push((memory, NodeSet::one(node), cpus)),
        }
    }
    let text = |(memory, nodes, cpus): (NodeSet, NodeSet, CpuSet)| match by_core {
        true => format!("{cpus}: {memory}"),
        false => format!("{nodes}: {memory}"),
    };
    groups.into_iter().map(text).collect()
}

/// Returns the unit of the figures after a text; empty if it is unknown.
pub(crate) fn unit_phrase(method: &SweepMethod, bandwidth: BandwidthUnit, before: &str) -> String {
    let unit = match method.quantity {
        Quantity::BytesPerS => bandwidth.name(),
        _ => method.unit.as_str(),
    };
    if unit.is_empty() {
        String::new()
    } else {
        format!("{before}{unit}")
    }
}

/// Describes the source of the figure.
pub(crate) fn figure_phrase(method: &SweepMethod) -> String {
    let source = match &method.figure {
        FigureSource::Regex { pattern } => format!("match of '{pattern}' in the output"),
        FigureSource::Json { pointer } => format!("'{pointer}' in the JSON output"),
        FigureSource::WallTime => "wall time".to_owned(),
    };
    let better = if method.quantity.more_is_better() { "higher" } else { "lower" };
    format!("{source}; {better} is better")
}

/// Describes the binding of the program.
pub(crate) fn binding_phrase(scope: SweepScope) -> &'static str {
    match scope {
        SweepScope::Pairs => "bound to all CPUs of a node, and strictly to memory of a node",
        SweepScope::Cores => "bound to one core, and strictly to memory of a node",
    }
}

/// Describes the method of a sweep.
pub(crate) fn method_sentence(record: &SweepRecord) -> String {
    let method = &record.method;
    let builds = match method.builds.as_slice() {
        [command] => command.join(" "),
        several => format!("best of {}", count(several.len(), "build")),
    };
    let visits = record_header::visits_per_cell(record.cells.iter().map(|cell| cell.figure.visits.len()));
    joined(
        [
            format!("'{builds}', {}", binding_phrase(method.scope)),
            figure_phrase(method),
            record_header::rounds_until_precise(method.rounds.rounds, method.rounds.precision),
            visits,
            format!("{:.0} s in total", method.rounds.elapsed_s),
        ],
        "; ",
    )
}
