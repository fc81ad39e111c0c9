//! Views of a target beside each other, and how far they agree.

use super::{Scale, Sheet, Text};
use numaio_machine::set::NodeSet;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::{Agreement, Comparison, Quantity, View};

pub(super) fn of(comparison: &Comparison, unit: BandwidthUnit) -> Vec<Sheet> {
    let mut sheets = vec![values(comparison, unit), agreement(comparison)];
    sheets.extend(inversions(comparison));
    sheets
}

/// Nodes by rows, views by columns: value and class.
fn values(comparison: &Comparison, unit: BandwidthUnit) -> Sheet {
    let views = &comparison.views;
    let heads = views.iter().map(|view| match view.quantity {
        Quantity::Distance => view.title.clone(),
        Quantity::NsPerLoad => format!("{} (ns)", view.title),
        Quantity::BytesPerS => format!("{} ({unit})", view.title),
    });
    let title = format!("Views of target node {}: value and class", comparison.target);
    let mut sheet = Sheet::new(title, std::iter::once("Node".to_owned()).chain(heads));
    let nodes: NodeSet = views.iter().flat_map(|view| view.nodes.iter().map(|node| node.node)).collect();
    for node in nodes.iter() {
        let texts = views.iter().map(|view| cell(view, node, unit));
        sheet.row(std::iter::once(Text::from(node.to_string())).chain(texts));
    }
    for view in views.iter().filter(|view| view.incomplete) {
        sheet.note(format!("{} comes from a measurement that was not finished.", view.title));
    }
    sheet
}

fn cell(view: &View, node: numaio_machine::ids::NodeId, unit: BandwidthUnit) -> Text {
    let Some(value) = view.node(node).map(|node| node.value) else { return Text::from("–") };
    let shown = match view.quantity {
        Quantity::Distance => format!("{value}"),
        Quantity::NsPerLoad => format!("{value:.1}"),
        Quantity::BytesPerS => Scale::new(unit, view.nodes.iter().map(|node| node.value)).show(value),
    };
    let class = view.classes.iter().find(|class| class.nodes.contains(node));
    let best = class.is_some_and(|class| class.rank == 1);
    match class {
        Some(class) => Text { best, ..Text::from(format!("{shown} [{}]", class.rank)) },
        None => Text::from(shown),
    }
}

fn agreement(comparison: &Comparison) -> Sheet {
    let title = format!("Rank agreement of the views of node {} (Kendall's tau-b)", comparison.target);
    let heads = comparison.views.iter().skip(1).map(|view| view.title.clone());
    let mut sheet = Sheet::new(title, std::iter::once(String::new()).chain(heads));
    let rows = comparison.views.len().saturating_sub(1);
    for (index, first) in comparison.views.iter().enumerate().take(rows) {
        let texts = comparison.views.iter().enumerate().skip(1).map(|(column, second)| {
            let between = |it: &&Agreement| it.first == first.name && it.second == second.name;
            match comparison.agreements.iter().find(between).filter(|_| column > index) {
                Some(it) => tau(it),
                None => String::new(),
            }
        });
        sheet.row(std::iter::once(first.title.clone()).chain(texts));
    }
    sheet.note(
        "1 is the same order, -1 the reverse; = marks the same classes; n.d.: a view tells no nodes apart.",
    );
    sheet
}

fn tau(agreement: &Agreement) -> String {
    let same = if agreement.same_classes { " =" } else { "" };
    match agreement.tau_b {
        Some(tau) => format!("{tau:.2}{same}"),
        None => format!("n.d.{same}"),
    }
}

/// Pairs of nodes that two views put in opposite orders; none if there are none.
fn inversions(comparison: &Comparison) -> Option<Sheet> {
    let title = format!("Pairs of nodes in opposite orders, target node {}", comparison.target);
    let mut sheet = Sheet::new(title, ["View", "puts", "by", "but", "by", "says"].map(str::to_owned));
    let name = |name: &str| {
        let view = comparison.views.iter().find(|view| view.name == name);
        view.map_or_else(|| name.to_owned(), |view| view.title.clone())
    };
    for agreement in &comparison.agreements {
        for pair in &agreement.inversions {
            let order = |first, second| format!("{first} before {second}");
            sheet.row([
                Text::from(name(&agreement.first)),
                Text::from(order(pair.better_in_first, pair.better_in_second)),
                Text::from(format!("{:.2}", pair.factor_in_first)),
                Text::from(order(pair.better_in_second, pair.better_in_first)),
                Text::from(format!("{:.2}", pair.factor_in_second)),
                Text::from(name(&agreement.second)),
            ]);
        }
    }
    (!sheet.rows.is_empty()).then_some(sheet)
}
