//! The section of the copy model: classes of nodes for each target and direction.

use super::bars::{self, Bar, BarGroup};
use super::figures::{plus_minus, signed_percent, Figure, Grid};
use super::matrix::{self, Axes};
use super::method;
use super::page::HtmlPage;
use super::targets::{devices, nodes_of, scale_of, targets_by_relevance, worst_to_best_ratio};
use crate::model_text::direction::only_figure_note;
use crate::number_format::{greatest, NumberFormat};
use crate::phrases::{self, count};
use crate::record_header::{date_and_load, percent};
use maud::{html, Markup};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::{Direction, Flow};
use numaio_schema::{Class, ClassRule, DirectionModel, Model, NodeBandwidth, TargetModel};
use std::collections::BTreeSet;

/// The axes of the matrices of targets and nodes.
const AXES: Axes = Axes { row: "Target", column: "node", by_class: true };

/// Writes matrices of all targets if there are several, then each target.
pub(super) fn write(page: &mut HtmlPage, model: &Model) -> Markup {
    page.section(1, "Copy model", |page| content(page, model))
}

fn content(page: &mut HtmlPage, model: &Model) -> Markup {
    let (drawn, left_out) = select_detailed_targets(page, model);
    html! {
        p.how { "Measured " (date_and_load(&model.record.provenance, page.unit)) "." }
        (method::warnings(&model.record.provenance.warnings))
        @if model.targets.len() > 1 {
            @let matrices = [Direction::Write, Direction::Read].map(|direction| targets_matrix(page, model, direction));
            (matrix::stacked(&matrices))
        }
        @for target in drawn { (write_target(page, model, target)) }
        @if !left_out.is_empty() {
            p.how {
                "Targets " (left_out) " have no charts here; the matrices above have their values."
            }
        }
    }
}

/// Returns the targets with charts, those with devices first, and the targets left out to limit the
/// page's size.
fn select_detailed_targets<'m>(page: &mut HtmlPage, model: &'m Model) -> (Vec<&'m TargetModel>, NodeSet) {
    let rows = |target: &TargetModel| target.directions.iter().map(|model| model.nodes.len()).sum();
    let (drawn, left_out): (Vec<_>, Vec<_>) =
        targets_by_relevance(model).into_iter().partition(|target| page.reserve_rows(rows(target)));
    (drawn, left_out.iter().map(|target| target.target).collect())
}

fn targets_matrix(page: &mut HtmlPage, model: &Model, direction: Direction) -> Markup {
    let mut pairs = Vec::new();
    for target in &model.targets {
        for of_target in target.directions.iter().filter(|it| it.direction == direction) {
            let figures =
                of_target.nodes.iter().map(|it| (it.node, Some(figure(model, target, of_target, it))));
            let missing = of_target.missing.iter().map(|node| (node, None));
            pairs.extend(figures.chain(missing).map(|(node, figure)| (target.target, node, figure)));
        }
    }
    let unit = page.unit;
    let (id, what) = (page.id("copy"), format!("{}, all targets", direction.name()));
    let grid = Grid::of_pairs(id, what, |most| NumberFormat::bandwidth(unit, [most]), &pairs);
    if grid.rows.len() < 2 {
        return html! {};
    }
    let caption = format!(
        "{}, {unit}: the row's target and the column's node; the small number is the node's class for that target",
        capital(direction.name())
    );
    matrix::write(page, &grid, &AXES, &caption)
}

fn write_target(page: &mut HtmlPage, model: &Model, target: &TargetModel) -> Markup {
    let scale = scale_of(page, &target.directions);
    let most = greatest(target.directions.iter().flat_map(|it| {
        it.nodes.iter().flat_map(|node| [node.bytes_copied_per_s, node.interval_bytes_copied_per_s.1])
    }));
    let id = page.section_id(2, &format!("Target {}", target.target));
    let title = format!("Target node {}: {}", target.target, devices(target));
    html! {
        section.target aria-labelledby=(id) {
            (page.heading(2, &id, &title))
            @if !target.neighbors.is_empty() {
                p.how { "Neighbors (same package): " (target.neighbors) "." }
            }
            div.pair {
                @for direction in &target.directions { (write_direction(page, model, target, direction, &scale, most)) }
            }
        }
    }
}

fn write_direction(
    page: &mut HtmlPage,
    model: &Model,
    target: &TargetModel,
    direction: &DirectionModel,
    scale: &NumberFormat,
    most: f64,
) -> Markup {
    let nodes = &direction.nodes;
    let grid = Grid {
        id: page.id("bars"),
        what: direction.direction.name().to_owned(),
        scale: *scale,
        rows: vec![target.target.0],
        columns: nodes.iter().map(|node| node.node.0).collect(),
        cells: nodes.iter().map(|node| Some(figure(model, target, direction, node))).collect(),
    };
    page.add_grid(&grid);
    let label = format!(
        "Bar chart of {} bandwidth by node, for a device on node {}; {} The values are in the table below.",
        direction.direction.name(),
        target.target,
        verdict(target, direction)
    );
    let groups = groups(model, target, direction);
    html! {
        div.direction {
            figure {
                figcaption {
                    strong { (capital(direction.direction.name())) }
                    span.dim { " " (flow_description(direction.direction, target.target)) }
                }
                p { (verdict(target, direction)) }
                @if !nodes.is_empty() { (bars::write(&groups, scale, most, &label, &grid.id)) }
            }
            details {
                summary { "Values" }
                (figures_table(model, target, direction, &grid))
            }
            @if !direction.missing.is_empty() {
                p.how { strong { "No value: " } "nodes " (direction.missing) ". " (why_missing(model, target, direction)) }
            }
        }
    }
}

fn figures_table(model: &Model, target: &TargetModel, direction: &DirectionModel, grid: &Grid) -> Markup {
    let titles =
        ["Node", grid.scale.unit(), "95 % interval", "±", "n", "Drift", "NUMA factor", "Class", "Note"];
    let rule = match direction.rule {
        ClassRule::Measured => format!("within {} %", percent(direction.level)),
        ClassRule::Paper => format!("as in the paper, then within {} %", percent(direction.level)),
        ClassRule::Kmeans => "by k-means".to_owned(),
    };
    html! {
        div.scroll role="region" aria-label="Values" tabindex="0" {
            table id=(grid.id) {
                caption { (capital(direction.direction.name())) ", target node " (target.target) "; classes: " (rule) }
                thead { tr { @for title in titles { th scope="col" { (title) } } } }
                tbody {
                    @for (node, cell) in direction.nodes.iter().zip(&grid.cells) {
                        @if let Some(cell) = cell {
                            tr {
                                th scope="row" { (node.node) }
                                td.number { (grid.scale.format(cell.value)) }
                                td.number { (grid.scale.format(cell.low)) " to " (grid.scale.format(cell.high)) }
                                td.number { (plus_minus(cell.half_width())) }
                                td.number { (cell.n) }
                                td.number { (signed_percent(cell.drift)) }
                                td.number { @if let Some(factor) = node.numa_factor { (format!("{factor:.2}")) } }
                                td.number { @if let Some(class) = cell.class { (class) } }
                                td { (note(model, target, direction, node, cell, &grid.scale)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn groups(model: &Model, target: &TargetModel, direction: &DirectionModel) -> Vec<BarGroup> {
    let bar = |node: &NodeBandwidth| Bar {
        label: node.node.to_string(),
        aside: locality(target, node.node),
        figure: figure(model, target, direction, node),
    };
    let of = |class: &Class| {
        let mut bars: Vec<Bar> =
            direction.nodes.iter().filter(|node| class.nodes.contains(node.node)).map(bar).collect();
        bars.sort_by(|a, b| b.figure.value.total_cmp(&a.figure.value));
        let range = (class.min_bytes_copied_per_s, class.max_bytes_copied_per_s);
        BarGroup { rank: Some(class.rank), range, bars }
    };
    let mut groups: Vec<BarGroup> = direction.classes.iter().map(of).collect();
    let classless =
        |node: &&NodeBandwidth| !direction.classes.iter().any(|class| class.nodes.contains(node.node));
    let bars: Vec<Bar> = direction.nodes.iter().filter(classless).map(bar).collect();
    if !bars.is_empty() {
        groups.push(BarGroup { rank: None, range: (0.0, 0.0), bars });
    }
    groups
}

/// Returns a node's figure with its class and the statistics from the record.
fn figure(model: &Model, target: &TargetModel, direction: &DirectionModel, node: &NodeBandwidth) -> Figure {
    let flow = Flow::of(direction.direction, target.target, node.node);
    let summary = model.record.cell(target.target, flow).and_then(|cell| cell.bytes_copied_per_s.as_ref());
    let (low, high) = node.interval_bytes_copied_per_s;
    let class =
        direction.classes.iter().find(|class| class.nodes.contains(node.node)).map(|class| class.rank);
    Figure {
        value: node.bytes_copied_per_s,
        low,
        high,
        n: summary.map_or(0, |summary| summary.n),
        drift: summary.map_or(0.0, |summary| summary.drift),
        range_only: summary.is_some_and(|summary| summary.interval == numaio_schema::IntervalKind::Range),
        settled: node.settled,
        class,
    }
}

fn note(
    model: &Model,
    target: &TargetModel,
    direction: &DirectionModel,
    node: &NodeBandwidth,
    figure: &Figure,
    scale: &NumberFormat,
) -> String {
    let mut notes = vec![locality(target, node.node).to_owned()];
    if !node.modes_bytes_copied_per_s.is_empty() {
        let levels = node.modes_bytes_copied_per_s.iter().map(|level| scale.format(*level));
        notes.push(format!("bimodal: {}", phrases::joined(levels, " and ")));
    }
    if !node.settled {
        notes.push("unsettled".to_owned());
    }
    if figure.range_only {
        notes.push("interval is the range".to_owned());
    }
    let flow = Flow::of(direction.direction, target.target, node.node);
    if let Some(cell) = model.record.cell(target.target, flow) {
        let excluded = cell.visits.iter().filter(|visit| visit.excluded.is_some()).count();
        if excluded > 0 {
            notes.push(format!("{excluded} of {} discarded", count(cell.visits.len(), "visit")));
        }
        notes.extend(cell.failure.as_ref().map(|why| format!("visits failed: {why}")));
    }
    phrases::joined(notes, "; ")
}

fn why_missing(model: &Model, target: &TargetModel, direction: &DirectionModel) -> String {
    let why: BTreeSet<String> = direction
        .missing
        .iter()
        .map(|node| {
            let cell = model.record.cell(target.target, Flow::of(direction.direction, target.target, node));
            let why = cell.map(|cell| cell.failure.clone());
            why.map_or("not measured".to_owned(), |why| why.unwrap_or("no visit succeeded".to_owned()))
        })
        .collect();
    phrases::joined(why, "; ")
}

/// Summarizes the effect of the classes in one sentence.
fn verdict(target: &TargetModel, model: &DirectionModel) -> String {
    match (model.classes.as_slice(), worst_to_best_ratio(model)) {
        ([], _) => "No values, so no classes.".to_owned(),
        ([class], _) if class.nodes.len() == 1 => match model.missing.is_empty() {
            true => "Only one node has memory, so buffers have no alternative.".to_owned(),
            false => only_figure_note(target.target, class),
        },
        ([_], _) => one_class(target.target, model),
        (classes, share) => {
            let by_mean =
                |a: &&Class, b: &&Class| a.mean_bytes_copied_per_s.total_cmp(&b.mean_bytes_copied_per_s);
            let name =
                |class: Option<&Class>| class.map_or(String::new(), |class| some_nodes(class, target.target));
            format!(
                "Buffers on {} get {:.0} % of the bandwidth of buffers on {}.",
                name(classes.iter().min_by(by_mean)),
                share.unwrap_or(0.0) * 100.0,
                name(classes.iter().max_by(by_mean)),
            )
        }
    }
}

/// Names the nodes of a class: `node 7`, `nodes 2, 3`.
fn some_nodes(class: &Class, target: NodeId) -> String {
    let nodes = if class.nodes.len() == 1 { "node" } else { "nodes" };
    format!("{nodes} {}", nodes_of(class, target).replace(' ', ", "))
}

fn one_class(target: NodeId, model: &DirectionModel) -> String {
    let values = || model.nodes.iter().map(|node| node.bytes_copied_per_s);
    let spread = 1.0 - values().fold(f64::INFINITY, f64::min) / greatest(values());
    if model.rule != ClassRule::Measured && spread > model.level {
        let spread = percent(spread);
        return format!(
            "One class by this rule, but its nodes differ by up to {spread} %: buffer placement may matter."
        );
    }
    match model.missing.is_empty() {
        true => {
            format!("All nodes have the same bandwidth with node {target}: buffer placement does not matter.")
        }
        // The values of the other nodes are unknown.
        false => format!("All measured nodes have the same bandwidth with node {target}."),
    }
}

fn locality(target: &TargetModel, node: NodeId) -> &'static str {
    if node == target.target {
        "local"
    } else if target.neighbors.contains(node) {
        "neighbor"
    } else {
        ""
    }
}

fn flow_description(direction: Direction, target: NodeId) -> String {
    match direction {
        Direction::Write => format!("from each node's memory to a device on node {target}"),
        Direction::Read => format!("from a device on node {target} to each node's memory"),
    }
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
