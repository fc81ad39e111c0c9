//! The section of views: values of each target, and the agreement between views.

use super::figures::{plus_minus, signed_percent, Figure, Grid};
use super::method;
use super::page::HtmlPage;
use crate::number_format::NumberFormat;
use crate::phrases::{self, count};
use crate::record_header::date;
use maud::{html, Markup};
use numaio_machine::ids::NodeId;
use numaio_schema::{Agreement, Comparison, View};
use std::collections::BTreeSet;

/// The maximum number of misordered pairs listed for two views.
const MOST_PAIRS: usize = 20;

pub(super) fn write(page: &mut HtmlPage, comparisons: &[Comparison], uncompared: &[View]) -> Markup {
    page.section(1, "Views compared", |page| content(page, comparisons, uncompared))
}

fn content(page: &mut HtmlPage, comparisons: &[Comparison], uncompared: &[View]) -> Markup {
    let targets: BTreeSet<NodeId> = uncompared.iter().map(|view| view.target).collect();
    html! {
        p.how {
            "A view has a value for every node by one method, as seen from a target. Number and color mark the "
            "class; \u{d7} is the factor by which a node is worse than the target itself."
        }
        @for comparison in comparisons { (compared_section(page, comparison)) }
        @for target in targets { (uncompared_section(page, target, uncompared)) }
    }
}

/// Writes the views of a target that are in no comparison.
fn uncompared_section(page: &mut HtmlPage, target: NodeId, uncompared: &[View]) -> Markup {
    let views: Vec<&View> = uncompared.iter().filter(|view| view.target == target).collect();
    let dates = views
        .iter()
        .filter_map(|it| Some(format!("{}: {}", phrases::short(&it.title), date(it.measured_at?))));
    let dates = phrases::joined(dates, "; ");
    let id = page.section_id(2, &format!("Views of node {target}"));
    html! {
        section aria-labelledby=(id) {
            (page.heading(2, &id, &format!("Views of target node {target}")))
            @if !dates.is_empty() { p.how { "Measured " (dates) "." } }
            (table(page, target, &views))
        }
    }
}

fn compared_section(page: &mut HtmlPage, comparison: &Comparison) -> Markup {
    let target = comparison.target;
    let id = page.section_id(2, &format!("Target {target} compared"));
    let devices = phrases::joined(comparison.devices.iter().take(12).map(|name| phrases::short(name)), ", ");
    let devices = if devices.is_empty() { "no devices".to_owned() } else { devices };
    let views: Vec<&View> = comparison.views.iter().collect();
    html! {
        section aria-labelledby=(id) {
            (page.heading(2, &id, &format!("Target node {target}: {devices}")))
            (method::warnings(&comparison.warnings))
            (table(page, target, &views))
            (agreement(comparison))
        }
    }
}

/// Writes the table of values: a column for each view, a row for each node.
fn table(page: &mut HtmlPage, target: NodeId, views: &[&View]) -> Markup {
    let nodes: BTreeSet<NodeId> = views.iter().flat_map(|view| view.nodes.iter().map(|it| it.node)).collect();
    let grids: Vec<Grid> = views.iter().map(|view| grid(page, view)).collect();
    for grid in &grids {
        page.add_grid(grid);
    }
    let detailed = page.reserve_rows(nodes.len() * views.len());
    html! {
        div.scroll role="region" aria-label={ "Views of node " (target) } tabindex="0" {
            table.views style={ "--ems:" (table_width(views.len())) } {
                caption { "Values of each view, as seen from node " (target) }
                thead { tr {
                    th scope="col" { "Node" }
                    @for (view, grid) in views.iter().zip(&grids) {
                        th scope="col" { (phrases::short(&view.title)) @if !grid.scale.unit().is_empty() { small { (grid.scale.unit()) } } }
                    }
                } }
                tbody {
                    @for node in &nodes {
                        tr {
                            th scope="row" { (node) @if *node == target { small { " local" } } }
                            @for (view, grid) in views.iter().zip(&grids) { (cell(view, grid, *node)) }
                        }
                    }
                }
            }
        }
        @if detailed {
            details {
                summary { "Values with n, interval and drift" }
                (long_table(views, &grids))
            }
        }
        @if let Some(doubtful) = incomplete(views) { p.how { strong { "Incomplete: " } (doubtful) "." } }
    }
}

/// Returns the width of a table with a column for each view in em, for its font size on paper.
fn table_width(views: usize) -> usize {
    10 + 8 * views
}

fn incomplete(views: &[&View]) -> Option<String> {
    let titles = views.iter().filter(|view| view.incomplete).map(|view| phrases::short(&view.title));
    Some(phrases::joined(titles, ", ")).filter(|titles| !titles.is_empty())
}

fn grid(page: &mut HtmlPage, view: &View) -> Grid {
    let class =
        |node: NodeId| view.classes.iter().find(|class| class.nodes.contains(node)).map(|class| class.rank);
    Grid {
        id: page.id("view"),
        what: view.name.clone(),
        scale: NumberFormat::for_view(view, page.unit),
        rows: vec![view.target.0],
        columns: view.nodes.iter().map(|node| node.node.0).collect(),
        cells: view.nodes.iter().map(|node| Some(Figure::stated(node, class(node.node)))).collect(),
    }
}

fn cell(view: &View, grid: &Grid, node: NodeId) -> Markup {
    let index = view.nodes.iter().position(|value| value.node == node);
    let found = index.and_then(|index| Some((view.nodes.get(index)?, grid.cells.get(index)?.as_ref()?)));
    html! {
        @match found {
            None => td { "–" },
            Some((value, figure)) => {
                td.{ "c" (figure.class.unwrap_or(0).min(5)) } title=(figure.description(&grid.scale)) {
                    (grid.scale.format(figure.value))
                    @if let Some(class) = figure.class { i { (class) } }
                    @if let Some(factor) = value.factor { small { "\u{d7}" (format!("{factor:.2}")) } }
                }
            }
        }
    }
}

fn long_table(views: &[&View], grids: &[Grid]) -> Markup {
    html! {
        div.scroll role="region" aria-label="Values" tabindex="0" {
            table {
                caption { "All values of the views" }
                thead { tr {
                    @for title in ["View", "Node", "Value", "95 % interval", "±", "n", "Drift", "Factor", "Class"] {
                        th scope="col" { (title) }
                    }
                } }
                tbody { @for (view, grid) in views.iter().zip(grids) { @for (value, figure) in view.nodes.iter().zip(grid.figures()) {
                    tr {
                        th scope="row" { (phrases::short(&view.title)) }
                        td.number { (value.node) }
                        td.number { (grid.scale.format(figure.value)) " " (grid.scale.unit()) }
                        @if value.interval.is_some() {
                            td.number { (grid.scale.format(figure.low)) " to " (grid.scale.format(figure.high)) }
                            td.number { (plus_minus(figure.half_width())) }
                            td.number { (figure.n) }
                            td.number { (signed_percent(figure.drift)) }
                        } @else { td { "stated" } td {} td {} td {} }
                        td.number { @if let Some(factor) = value.factor { (format!("{factor:.2}")) } }
                        td.number { @if let Some(class) = figure.class { (class) } }
                    }
                } } }
            }
        }
    }
}

/// Writes the agreement of all pairs of views as a triangle, then the misordered pairs of nodes.
fn agreement(comparison: &Comparison) -> Markup {
    let views = &comparison.views;
    let find = |a: &View, b: &View| {
        comparison.agreements.iter().find(|it| {
            (it.first == a.name && it.second == b.name) || (it.first == b.name && it.second == a.name)
        })
    };
    let misordered: Vec<&Agreement> =
        comparison.agreements.iter().filter(|it| !it.inversions.is_empty()).collect();
    html! {
        @if views.len() > 1 && !comparison.agreements.is_empty() {
            div.scroll role="region" aria-label="Agreement of views" tabindex="0" {
                table.tau style={ "--ems:" (table_width(views.len() - 1)) } {
                    caption {
                        "Agreement in the order of nodes: Kendall's tau-b (1: same order, −1: reverse order); below it the "
                        "number of misordered pairs. –: a view does not distinguish any nodes."
                    }
                    thead { tr {
                        th scope="col" { "View" }
                        @for view in &views[..views.len() - 1] { th scope="col" { (phrases::short(&view.title)) } }
                    } }
                    tbody {
                        @for (index, row) in views.iter().enumerate().skip(1) {
                            tr {
                                th scope="row" { (phrases::short(&row.title)) }
                                @for column in &views[..views.len() - 1] {
                                    @let known = views[..index].iter().any(|view| view.name == column.name);
                                    (tau(find(row, column).filter(|_| known)))
                                }
                            }
                        }
                    }
                }
            }
        }
        @if !misordered.is_empty() {
            details {
                summary { "Misordered pairs of nodes" }
                ul.pairs { @for agreement in misordered { (pairs(comparison, agreement)) } }
            }
        }
    }
}

fn tau(agreement: Option<&Agreement>) -> Markup {
    let Some(agreement) = agreement else { return html! { td.none {} } };
    let wrong = agreement.inversions.len();
    html! {
        @match agreement.tau_b {
            None => td { "–" },
            Some(tau) => td.{ "h" (((1.0 - tau) * 4.5).round().clamp(0.0, 9.0)) } {
                (format!("{tau:.2}").replace('-', "−"))
                small { @if wrong == 0 { "none misordered" } @else { (wrong) " misordered" } }
            },
        }
    }
}

fn pairs(comparison: &Comparison, agreement: &Agreement) -> Markup {
    let title = |name: &str| {
        let view = comparison.views.iter().find(|view| view.name == name);
        phrases::short(view.map_or(name, |view| view.title.as_str()))
    };
    let (first, second) = (title(&agreement.first), title(&agreement.second));
    let more = agreement.inversions.len().saturating_sub(MOST_PAIRS);
    html! {
        li {
            strong { (first) } " vs. " strong { (second) } ": "
            (count(agreement.inversions.len(), "pair"))
            ul { @for pair in agreement.inversions.iter().take(MOST_PAIRS) {
                li {
                    (first) ": node " (pair.better_in_first) " better by " (format!("{:.2}", pair.factor_in_first)) "; "
                    (second) ": node " (pair.better_in_second) " better by " (format!("{:.2}", pair.factor_in_second))
                }
            } }
            @if more > 0 { "and " (more) " more" }
        }
    }
}
