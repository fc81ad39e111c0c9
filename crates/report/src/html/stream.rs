//! The STREAM section: a matrix of CPU nodes and memory nodes for each operation.

use super::figures::{Figure, Grid, MANY};
use super::matrix::{self, Axes};
use super::method;
use super::model::capital;
use super::page::HtmlPage;
use crate::number_format::NumberFormat;
use crate::phrases::count;
use crate::record_header::date_and_load;
use maud::{html, Markup};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::StreamOp;
use numaio_schema::{PairClass, StreamCell, StreamRecord, StreamScope};
use std::collections::{BTreeMap, BTreeSet};

/// The axes of matrices of CPU nodes and memory nodes.
pub(super) const AXES: Axes = Axes { row: "CPU", column: "memory", by_class: false };

pub(super) fn write(page: &mut HtmlPage, stream: &StreamRecord) -> Markup {
    page.section(1, "STREAM", |page| content(page, stream))
}

fn content(page: &mut HtmlPage, stream: &StreamRecord) -> Markup {
    let mut matrices = Vec::new();
    for op in StreamOp::ALL {
        let cells: Vec<&StreamCell> = stream.cells.iter().filter(|cell| cell.op == op).collect();
        if !cells.is_empty() {
            matrices.push(matrix_of(page, stream, op, &cells));
        }
    }
    html! {
        p.how { "Measured " (date_and_load(&stream.provenance, page.unit)) "." }
        (method::warnings(&stream.provenance.warnings))
        (matrix::stacked(&matrices))
    }
}

fn matrix_of(page: &mut HtmlPage, stream: &StreamRecord, op: StreamOp, cells: &[&StreamCell]) -> Markup {
    let of_op = stream.classes.iter().find(|classes| classes.op == op);
    let classes = of_op.map_or(&[][..], |of_op| &of_op.classes);
    let ranks: BTreeMap<(NodeId, NodeId), u32> =
        classes.iter().flat_map(|class| class.pairs.iter().map(|pair| (*pair, class.rank))).collect();
    let columns: BTreeSet<NodeId> = cells.iter().map(|cell| cell.memory_node).collect();
    let figure = |cell: &StreamCell| {
        let class = ranks.get(&(cell.cpu_node, cell.memory_node)).filter(|_| columns.len() <= MANY).copied();
        Figure::reading(&cell.bytes_per_s).map(|figure| Figure { class, ..figure })
    };
    let pairs: Vec<_> = cells.iter().map(|cell| (cell.cpu_node, cell.memory_node, figure(cell))).collect();
    let unit = page.unit;
    let (id, what) = (page.id("stream"), op.title().to_owned());
    let grid = Grid::of_pairs(id, what, |most| NumberFormat::bandwidth(unit, [most]), &pairs);
    let by_core = stream.method.scope == StreamScope::Core;
    let threads =
        if by_core { "one core of the row's node at a time" } else { "all threads of the row's node" };
    let caption = format!("{}, {unit}: {threads}, arrays on the column's node", capital(op.name()));
    let readings = cells.iter().map(|cell| (cell.cpu_node, cell.memory_node, &cell.bytes_per_s));
    html! {
        div {
            (matrix::write(page, &grid, &AXES, &caption))
            @if by_core {
                p.how { "Each value is the median of the node's cores; the interval is their range, n their number." }
            }
            (class_list(classes, &grid.scale))
            (matrix::missing_notes(readings))
        }
    }
}

/// Writes the classes of all pairs, best first, if there are any.
fn class_list(classes: &[PairClass], scale: &NumberFormat) -> Markup {
    html! {
        @if !classes.is_empty() {
            p.how { "Classes of all pairs (small numbers), with their ranges:" }
            ul.classes {
                @for class in classes {
                    li.{ "c" (class.rank.clamp(1, 5)) } {
                        b { (class.rank) }
                        (scale.format(class.min_bytes_per_s)) " to " (scale.format(class.max_bytes_per_s))
                        small { (count(class.pairs.len(), "pair")) }
                    }
                }
            }
        }
    }
}
