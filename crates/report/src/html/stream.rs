//! STREAM: a matrix of CPU nodes and memory nodes for each operation.

use super::figures::{greatest, Figure, Grid, Scale};
use super::matrix::{self, Axes};
use super::method;
use super::model::capital;
use super::page::Page;
use crate::model_text::head::date;
use maud::{html, Markup};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::StreamOp;
use numaio_schema::{median, StreamCell, StreamRecord, StreamScope};
use std::collections::BTreeSet;

/// Rows and columns of matrices of CPUs and memory.
pub(super) const AXES: Axes = Axes { row: "CPU", column: "memory" };

pub(super) fn write(page: &mut Page, stream: &StreamRecord) -> Markup {
    page.section(1, "STREAM", |page| content(page, stream))
}

fn content(page: &mut Page, stream: &StreamRecord) -> Markup {
    let mut matrices = Vec::new();
    for op in StreamOp::ALL {
        let cells: Vec<&StreamCell> = stream.cells.iter().filter(|cell| cell.op == op).collect();
        if !cells.is_empty() {
            matrices.push(matrix_of(page, stream, op, &cells));
        }
    }
    let columns: BTreeSet<NodeId> = stream.cells.iter().map(|cell| cell.memory_node).collect();
    html! {
        p.how { "Measured " (date(stream.provenance.measured_at)) "." }
        (method::warnings(&stream.provenance.warnings))
        (matrix::abreast(columns.len(), &matrices))
    }
}

fn matrix_of(page: &mut Page, stream: &StreamRecord, op: StreamOp, cells: &[&StreamCell]) -> Markup {
    let rows: BTreeSet<NodeId> = cells.iter().map(|cell| cell.cpu_node).collect();
    let columns: BTreeSet<NodeId> = cells.iter().map(|cell| cell.memory_node).collect();
    let most = greatest(cells.iter().filter_map(|cell| cell.bytes_per_s.median()));
    let scale = Scale::bandwidth(page.unit, most);
    let alone = stream.method.scope == StreamScope::Core;
    let mut figures = vec![Vec::new(); rows.len() * columns.len()];
    let (row_ids, column_ids): (Vec<NodeId>, Vec<NodeId>) =
        (rows.into_iter().collect(), columns.into_iter().collect());
    for cell in cells {
        let row = row_ids.binary_search(&cell.cpu_node);
        let column = column_ids.binary_search(&cell.memory_node);
        if let (Ok(row), Ok(column)) = (row, column) {
            figures[row * column_ids.len() + column].extend(Figure::reading(&cell.bytes_per_s));
        }
    }
    let grid = Grid {
        id: page.id("stream"),
        what: format!("STREAM {op}"),
        scale: if column_ids.len() > 20 { scale.compact(most) } else { scale },
        rows: row_ids.iter().map(|node| node.0).collect(),
        columns: column_ids.iter().map(|node| node.0).collect(),
        cells: figures.iter().map(|figures| of_cores(figures)).collect(),
    };
    let who = if alone { "each core of the row's node alone" } else { "threads of the row's node together" };
    let caption = format!("{}, {}: {who}, arrays on the column's node", capital(op.name()), grid.scale.unit);
    let missing =
        matrix::missing(cells.iter().map(|cell| (cell.cpu_node, cell.memory_node, &cell.bytes_per_s)));
    html! {
        div {
            (matrix::write(page, &grid, &AXES, &caption))
            @if alone {
                p.how { "A figure is the median of the node's cores, its interval their range, n their number." }
            }
            (missing)
        }
    }
}

/// The figure of a node: its only one, or what its cores gave one by one.
fn of_cores(figures: &[Figure]) -> Option<Figure> {
    if let [one] = figures {
        return Some(*one);
    }
    let values: Vec<f64> = figures.iter().map(|figure| figure.value).collect();
    Some(Figure {
        value: median(&values)?,
        low: values.iter().copied().fold(f64::INFINITY, f64::min),
        high: greatest(values.iter().copied()),
        n: figures.len() as u32,
        drift: median(&figures.iter().map(|figure| figure.drift).collect::<Vec<_>>())?,
        range_only: false,
        settled: figures.iter().all(|figure| figure.settled),
        class: None,
    })
}
