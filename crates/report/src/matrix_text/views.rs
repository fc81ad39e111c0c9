//! Formats the classes of views as text.

use crate::number_format::NumberFormat;
use crate::record_header::percent;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_schema::{View, ViewClass};

/// Writes the views of the targets. A view of a single node offers no choice and is omitted.
pub(crate) fn write(page: &mut TextPage, views: &[View], targets: &NodeSet) {
    for target in targets.iter() {
        let of_target = views.iter().filter(|view| view.target == target && view.nodes.len() > 1);
        let of_target: Vec<&View> = of_target.collect();
        if of_target.is_empty() {
            continue;
        }
        page.heading(&format!("Target node {target}"));
        for view in of_target {
            write_view(page, view);
        }
    }
}

fn write_view(page: &mut TextPage, view: &View) {
    page.blank();
    let incomplete = if view.incomplete { "; INCOMPLETE" } else { "" };
    let level = percent(view.level);
    page.paragraph(2, 2, &format!("{} (classes within {level} %{incomplete})", view.title));
    let figures = NumberFormat::for_view(view, page.style().unit);
    let unit = figures.unit();
    let mut table = Table::new([
        ("CLASS".to_owned(), Align::Right),
        ("NODES".to_owned(), Align::Left),
        (format!("MEAN {unit}"), Align::Right),
        (format!("RANGE {unit}"), Align::Left),
        ("NUMA FACTOR".to_owned(), Align::Left),
    ]);
    for class in &view.classes {
        let rank = Some(class.rank);
        table.row([
            Cell::with_class(class.rank.to_string(), rank),
            Cell::with_class(members(class, view.target), rank),
            figures.format(class.mean).into(),
            figures.range(class.min, class.max).into(),
            factors(view, class).into(),
        ]);
    }
    page.table(4, &table.without_empty_columns());
}

/// Lists the nodes of a class, the target first.
fn members(class: &ViewClass, target: NodeId) -> String {
    let others = class.nodes.difference(&NodeSet::one(target));
    match (class.nodes.contains(target), others.is_empty()) {
        (true, false) => format!("{target}, {others}"),
        (true, true) => target.to_string(),
        (false, _) => others.to_string(),
    }
}

fn factors(view: &View, class: &ViewClass) -> String {
    let with_class = view.nodes.iter().filter(|node| class.nodes.contains(node.node));
    let factors: Vec<f64> = with_class.filter_map(|node| node.factor).collect();
    let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
    let most = factors.iter().copied().fold(0.0, f64::max);
    match (format!("{least:.2}"), format!("{most:.2}")) {
        _ if factors.is_empty() => String::new(),
        (least, most) if least == most => least,
        (least, most) => format!("{least} - {most}"),
    }
}
