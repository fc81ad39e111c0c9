//! Tables of sweeps: classes of all cells, figures and best builds, as in Tables 4 and 5 of the
//! NUMA extension of Cbench (Braithwaite et al., 2012).

use super::matrix::{figure, row_name, Matrix, Row, LONGEST};
use super::sheet::{Align, ClassFigures, Sheet};
use crate::number_format::NumberFormat;
use crate::sweep_text::{members, rule_phrase, unit_phrase};
use numaio_machine::ids::NodeId;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::{SweepCell, SweepRecord, SweepScope};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the tables of a sweep.
pub(super) fn sheets(record: &SweepRecord, unit: BandwidthUnit) -> Vec<Sheet> {
    let medians = record.cells.iter().filter_map(|cell| cell.figure.median());
    let figures = NumberFormat::sweep(&record.method, unit, medians);
    let unit = unit_phrase(&record.method, unit, ", in ");
    let scope = if record.method.scope == SweepScope::Cores { " on one core" } else { "" };
    let cells = record.cells.iter().map(|cell| ((row(record, cell), cell.memory_node), figure(&cell.figure)));
    let matrix = Matrix {
        title: format!("{}{scope}: medians per CPU and memory node{unit}", record.method.name),
        rows: "CPU node",
        columns: "Memory node",
        cells: cells.collect(),
        figures,
        best: if record.method.quantity.more_is_better() { f64::max } else { f64::min },
    };
    let mut sheets = vec![classes(record, figures, &unit), matrix.sheet()];
    sheets.extend((record.method.builds.len() > 1).then(|| builds(record)));
    sheets.retain(|sheet| !sheet.rows.is_empty());
    sheets
}

fn row(record: &SweepRecord, cell: &SweepCell) -> Row {
    let is_core = record.method.scope == SweepScope::Cores;
    (cell.cpu_node, cell.placement.cpus.first().filter(|_| is_core))
}

fn classes(record: &SweepRecord, figures: NumberFormat, unit: &str) -> Sheet {
    let rule = rule_phrase(record.classes.rule, record.classes.level);
    let title = format!("{}: classes of all pairs, {rule}{unit}", record.method.name);
    let cpus = if record.method.scope == SweepScope::Cores { "CPUs" } else { "CPU nodes" };
    let head = ["Class", "Range", "Mean", "Pairs"].map(str::to_owned);
    let mut sheet =
        Sheet::new(title, head.into_iter().chain([format!("{cpus}: memory nodes")]), Align::Right);
    (sheet.aligned[1], sheet.aligned[4]) = (Align::Center, Align::Left);
    for class in &record.classes.classes {
        let class_figures = ClassFigures {
            rank: class.rank,
            range: (class.min, class.max),
            mean: class.mean,
            members: class.cells.len(),
        };
        sheet.class(&class_figures, figures, rows_of(members(record, class)));
    }
    sheet
}

/// Joins members into rows of limited length.
fn rows_of(members: Vec<String>) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for member in members {
        match rows.last_mut().filter(|row| row.len() + member.len() <= LONGEST) {
            Some(row) => *row += &format!("; {member}"),
            None => rows.push(member),
        }
    }
    rows
}

/// Returns the number of the best build of each cell.
fn builds(record: &SweepRecord) -> Sheet {
    let best: BTreeMap<(Row, NodeId), Option<u32>> = record
        .cells
        .iter()
        .map(|cell| {
            let build = cell.figure.median().map(|_| cell.build + 1);
            ((row(record, cell), cell.memory_node), build)
        })
        .collect();
    let rows: BTreeSet<Row> = best.keys().map(|(row, _)| *row).collect();
    let columns: BTreeSet<NodeId> = best.keys().map(|(_, column)| *column).collect();
    let head = std::iter::once("CPU node".to_owned()).chain(columns.iter().map(|node| node.to_string()));
    let mut sheet = Sheet::new(format!("{}: best build", record.method.name), head, Align::Right);
    sheet.over = Some("Memory node");
    for row in &rows {
        let builds = columns.iter().map(|column| {
            let build = best.get(&(*row, *column)).copied().flatten();
            build.map_or_else(|| "–".to_owned(), |build| build.to_string())
        });
        sheet.row(std::iter::once(row_name(row)).chain(builds));
    }
    for (index, command) in record.method.builds.iter().enumerate() {
        sheet.note(format!("{}: {}.", index + 1, command.join(" ")));
    }
    sheet
}
