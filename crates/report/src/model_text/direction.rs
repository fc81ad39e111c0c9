//! Formats one target and direction: its classes and nodes.

use crate::listing::class_members;
use crate::number_format::NumberFormat;
use crate::phrases::count;
use crate::record_header::percent;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::units::BandwidthUnit;
use numaio_machine::workload::{Direction, Flow};
use numaio_schema::{
    Class, ClassRule, DirectionModel, IntervalKind, NodeBandwidth, Record, Summary, TargetModel,
};

pub(super) fn write(page: &mut TextPage, record: &Record, target: &TargetModel, model: &DirectionModel) {
    let unit = page.style().unit;
    let figures = NumberFormat::bandwidth(unit, model.nodes.iter().map(|node| node.bytes_copied_per_s));
    page.blank();
    page.paragraph(2, 2, &title(target.target, model));
    if model.classes.is_empty() {
        page.paragraph(2, 2, "No values, so no classes.");
    }
    if let [class] = model.classes.as_slice() {
        page.paragraph(2, 2, &one_class(target.target, model, class));
    } else if !model.classes.is_empty() {
        page.table(4, &classes(target.target, model, &figures));
    }
    if !model.nodes.is_empty() {
        page.blank();
        page.table(4, &nodes(record, target, model, &figures));
        page.paragraph(4, 2, &bus_traffic(record, model, unit));
    }
    for node in model.missing.iter() {
        page.paragraph(
            4,
            2,
            &format!("Node {node} has no value: {}", why_missing(record, target, model, node)),
        );
    }
}

fn title(target: NodeId, model: &DirectionModel) -> String {
    let flow = match model.direction {
        Direction::Write => format!("Device write: from each node's memory to a device on node {target}"),
        Direction::Read => format!("Device read: from a device on node {target} to each node's memory"),
    };
    let rule = match model.rule {
        ClassRule::Measured => format!("within {} %", percent(model.level)),
        ClassRule::Paper => format!("as in the paper, then within {} %", percent(model.level)),
        ClassRule::Kmeans => "by k-means".to_owned(),
    };
    format!("{flow} (classes: {rule})")
}

/// States that only one node of the target has a value.
pub(crate) fn only_figure_note(target: NodeId, class: &Class) -> String {
    let only = class.nodes.first().unwrap_or(target);
    format!("Only node {only} has a value: no placement of buffers can be recommended.")
}

/// Explains the effect of a single class.
fn one_class(target: NodeId, model: &DirectionModel, class: &Class) -> String {
    let complete = model.missing.is_empty();
    if class.nodes.len() == 1 && complete {
        let only = class.nodes.first().unwrap_or(target);
        return format!("Node {only} is the only node with memory, so buffers have no alternative.");
    }
    if class.nodes.len() == 1 {
        return only_figure_note(target, class);
    }
    let spread = 1.0 - class.min_bytes_copied_per_s / class.max_bytes_copied_per_s;
    let spread = if spread.is_finite() { spread.max(0.0) } else { 0.0 };
    let all = if complete { "All nodes" } else { "All measured nodes" };
    if model.rule != ClassRule::Measured && spread > model.level {
        return format!(
            "One class by this rule, but its nodes differ by up to {} %: buffer placement may matter.",
            percent(spread)
        );
    }
    let within = match spread <= model.level {
        true => format!("within {} %", percent(model.level)),
        false => format!("within {} % and noise", percent(model.level)),
    };
    let alike = format!("{all} have the same bandwidth with node {target} ({within})");
    match complete {
        true => format!("{alike}: buffer placement does not matter for {}s.", model.direction.name()),
        // The values of the other nodes are unknown.
        false => format!("{alike}."),
    }
}

fn classes(target: NodeId, model: &DirectionModel, figures: &NumberFormat) -> Table {
    let unit = figures.unit();
    let mut table = Table::new([
        ("CLASS".to_owned(), Align::Right),
        ("NODES".to_owned(), Align::Left),
        (format!("MEAN {unit}"), Align::Right),
        (format!("RANGE {unit}"), Align::Left),
    ]);
    for class in &model.classes {
        let rank = Some(class.rank);
        let range = figures.range(class.min_bytes_copied_per_s, class.max_bytes_copied_per_s);
        table.row([
            Cell::with_class(class.rank.to_string(), rank),
            Cell::with_class(nodes_of(class, target), rank),
            figures.format(class.mean_bytes_copied_per_s).into(),
            range.into(),
        ]);
    }
    table
}

/// Lists the nodes of a class: the target first, or ranges if there are many.
fn nodes_of(class: &Class, target: NodeId) -> String {
    const MANY: usize = 12;
    if class.nodes.len() > MANY {
        class.nodes.to_string()
    } else {
        class_members(class, target)
    }
}

fn nodes(record: &Record, target: &TargetModel, model: &DirectionModel, figures: &NumberFormat) -> Table {
    let mut table = Table::new([
        ("NODE".to_owned(), Align::Right),
        (figures.unit().to_owned(), Align::Right),
        ("95 %".to_owned(), Align::Right),
        ("NUMA FACTOR".to_owned(), Align::Right),
        ("CLASS".to_owned(), Align::Right),
        ("NOTE".to_owned(), Align::Left),
    ]);
    for node in &model.nodes {
        let class =
            model.classes.iter().find(|class| class.nodes.contains(node.node)).map(|class| class.rank);
        table.row([
            node.node.to_string().into(),
            Cell::with_class(figures.format(node.bytes_copied_per_s), class),
            half_width(node).into(),
            node.numa_factor.map(|factor| format!("{factor:.2}")).unwrap_or_default().into(),
            Cell::with_class(class.map(|rank| rank.to_string()).unwrap_or_default(), class),
            note(record, target, model.direction, node, figures).into(),
        ]);
    }
    table.without_empty_columns()
}

/// Formats half the width of the interval, relative to the median.
fn half_width(node: &NodeBandwidth) -> String {
    let (low, high) = node.interval_bytes_copied_per_s;
    let half = (high - low) / 2.0 / node.bytes_copied_per_s * 100.0;
    if half.is_finite() {
        format!("±{half:.1} %")
    } else {
        String::new()
    }
}

fn note(
    record: &Record,
    target: &TargetModel,
    direction: Direction,
    node: &NodeBandwidth,
    figures: &NumberFormat,
) -> String {
    let mut notes = Vec::new();
    if node.node == target.target {
        notes.push("local".to_owned());
    } else if target.neighbors.contains(node.node) {
        notes.push("neighbor".to_owned());
    }
    if !node.modes_bytes_copied_per_s.is_empty() {
        notes.push(format!("bimodal: {}", levels(node, figures)));
    }
    if !node.settled {
        notes.push("unsettled".to_owned());
    }
    if let Some(cell) = record.cell(target.target, Flow::of(direction, target.target, node.node)) {
        let range = |summary: &&Summary| summary.interval == IntervalKind::Range;
        let too_few = cell.bytes_copied_per_s.as_ref().filter(range);
        notes.extend(
            too_few.map(|summary| format!("interval is the range of {}", count(summary.n as usize, "visit"))),
        );
        let excluded = cell.visits.iter().filter(|visit| visit.excluded.is_some()).count();
        if excluded > 0 {
            notes.push(format!("{excluded} of {} discarded", count(cell.visits.len(), "visit")));
        }
        notes.extend(cell.failure.as_ref().map(|why| format!("visits failed: {why}")));
    }
    notes.join("; ")
}

/// Formats the levels of a bimodal value, with their shares if the document has them.
fn levels(node: &NodeBandwidth, figures: &NumberFormat) -> String {
    let shares = node.mode_shares.iter().map(|share| format!(" ({:.0} %)", share * 100.0));
    let shares = shares.chain(std::iter::repeat(String::new()));
    let levels = node.modes_bytes_copied_per_s.iter().zip(shares);
    levels.map(|(level, share)| figures.format(*level) + &share).collect::<Vec<_>>().join(" and ")
}

fn bus_traffic(record: &Record, model: &DirectionModel, unit: BandwidthUnit) -> String {
    let times = record.method.bus_bytes_per_byte;
    let fastest = model.nodes.iter().max_by(|a, b| a.bytes_copied_per_s.total_cmp(&b.bytes_copied_per_s));
    let Some(fastest) = fastest else { return String::new() };
    let traffic = unit.of(fastest.bytes_copied_per_s * f64::from(times));
    format!(
        "Derived memory traffic: at most {traffic:.1} {unit} (node {}, {times} bytes per copied byte)",
        fastest.node
    )
}

fn why_missing(record: &Record, target: &TargetModel, model: &DirectionModel, node: NodeId) -> String {
    let cell = record.cell(target.target, Flow::of(model.direction, target.target, node));
    match cell.map(|cell| cell.failure.clone()) {
        Some(Some(why)) => why,
        Some(None) => "no visit succeeded".to_owned(),
        None => "not measured".to_owned(),
    }
}
