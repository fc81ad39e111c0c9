//! The section of a sweep: a matrix of CPU nodes and memory nodes, and classes of all cells.

use super::figures::{Figure, Grid, MANY};
use super::matrix;
use super::method;
use super::page::HtmlPage;
use super::stream::AXES;
use crate::number_format::NumberFormat;
use crate::record_header::date_and_load;
use crate::sweep_text::{figure_phrase, members, rule_phrase, unit_phrase};
use maud::{html, Markup};
use numaio_machine::ids::NodeId;
use numaio_schema::{SweepRecord, SweepScope};
use std::collections::BTreeSet;

pub(super) fn write(page: &mut HtmlPage, sweep: &SweepRecord) -> Markup {
    page.section(1, &sweep.method.name, |page| content(page, sweep))
}

fn content(page: &mut HtmlPage, sweep: &SweepRecord) -> Markup {
    let by_core = sweep.method.scope == SweepScope::Cores;
    let columns: BTreeSet<NodeId> = sweep.cells.iter().map(|cell| cell.memory_node).collect();
    let pairs: Vec<_> = (0..)
        .zip(&sweep.cells)
        .map(|(index, cell)| {
            // The cores of a node may be in several classes.
            let class = sweep.rank(index).filter(|_| columns.len() <= MANY && !by_core);
            let figure = Figure::reading(&cell.figure).map(|figure| Figure { class, ..figure });
            (cell.cpu_node, cell.memory_node, figure)
        })
        .collect();
    let unit = page.unit;
    let (id, what) = (page.id("sweep"), sweep.method.name.clone());
    let grid = Grid::of_pairs(id, what, |most| NumberFormat::sweep(&sweep.method, unit, [most]), &pairs);
    let cpus = if by_core { "one core of the row's node at a time" } else { "all CPUs of the row's node" };
    let unit = unit_phrase(&sweep.method, unit, ", ");
    let caption = format!("{}{unit}: {cpus}, memory of the column's node", sweep.method.name);
    let readings = sweep.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node, &cell.figure));
    html! {
        p.how { "Measured " (date_and_load(&sweep.provenance, page.unit)) ". Figure: " (figure_phrase(&sweep.method)) "." }
        (method::warnings(&sweep.provenance.warnings))
        (matrix::write(page, &grid, &AXES, &caption))
        @if by_core {
            p.how { "Each value is the median of the node's cores; the interval is their range, n their number." }
        }
        (class_table(sweep, &grid.scale))
        (matrix::missing_notes(readings))
    }
}

/// Writes the classes of all cells, best first, if there are any.
fn class_table(sweep: &SweepRecord, scale: &NumberFormat) -> Markup {
    let classes = &sweep.classes;
    html! {
        @if !classes.classes.is_empty() {
            p.how { "Classes of all pairs, best first: " (rule_phrase(classes.rule, classes.level)) "." }
            ul.classes {
                @for class in &classes.classes {
                    li.{ "c" (class.rank.clamp(1, 5)) } {
                        b { (class.rank) }
                        (scale.format(class.min)) " to " (scale.format(class.max))
                        small { (members(sweep, class).join("; ")) }
                    }
                }
            }
        }
    }
}
