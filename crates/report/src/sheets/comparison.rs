//! Views of a target beside each other, and how far they agree.

use super::{Align, Sheet, Text};
use crate::number_format::NumberFormat;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::{Agreement, Comparison, Inversion, Quantity, View};

/// Pairs of nodes of two views that are listed; of more only the number is told.
const MOST_PAIRS: usize = 12;

pub(super) fn sheets(comparison: &Comparison, unit: BandwidthUnit) -> Vec<Sheet> {
    let views: Vec<&View> = comparison.views.iter().collect();
    let mut sheets = vec![values(comparison.target, &views, unit), agreement(comparison)];
    sheets.extend(inversions(comparison));
    sheets
}

/// Views that stand in no comparison, those of a target together.
pub(super) fn uncompared_views(views: &[View], unit: BandwidthUnit) -> Vec<Sheet> {
    let targets: NodeSet = views.iter().map(|view| view.target).collect();
    let of = |target: NodeId| {
        let views: Vec<&View> = views.iter().filter(|view| view.target == target).collect();
        values(target, &views, unit)
    };
    targets.iter().map(of).collect()
}

/// Nodes by rows, views by columns: value and class.
fn values(target: NodeId, views: &[&View], unit: BandwidthUnit) -> Sheet {
    let heads = views.iter().map(|view| match view.quantity {
        Quantity::Distance => view.title.clone(),
        Quantity::NsPerLoad => format!("{} (ns)", view.title),
        Quantity::BytesPerS => format!("{} ({unit})", view.title),
    });
    let title = format!("Views of target node {target}: value and, in brackets, class");
    let mut sheet = Sheet::new(title, std::iter::once("Node".to_owned()).chain(heads), Align::Right);
    let nodes: NodeSet = views.iter().flat_map(|view| view.nodes.iter().map(|node| node.node)).collect();
    for node in nodes.iter() {
        let texts = views.iter().map(|view| cell(view, node, unit));
        sheet.row(std::iter::once(Text::from(node.to_string())).chain(texts));
    }
    sheet.note("Values of class 1 are marked.");
    for view in views.iter().filter(|view| view.incomplete) {
        sheet.note(format!("Of a measurement that was not finished: {}.", view.title));
    }
    sheet
}

fn cell(view: &View, node: NodeId, unit: BandwidthUnit) -> Text {
    let Some(value) = view.node(node).map(|node| node.value) else { return Text::from("–") };
    let shown = NumberFormat::for_view(view, unit).format(value);
    match view.classes.iter().find(|class| class.nodes.contains(node)) {
        Some(class) => Text { text: format!("{shown} [{}]", class.rank), best: class.rank == 1 },
        None => Text::from(shown),
    }
}

fn agreement(comparison: &Comparison) -> Sheet {
    let views = &comparison.views;
    let title = format!("Rank agreement of the views of node {} (Kendall's tau-b)", comparison.target);
    let heads = views.iter().skip(1).map(|view| view.title.clone());
    let mut sheet = Sheet::new(title, std::iter::once(String::new()).chain(heads), Align::Center);
    for (index, first) in views.iter().enumerate().take(views.len().saturating_sub(1)) {
        let texts = views.iter().enumerate().skip(1).map(|(column, second)| {
            let between = |it: &&Agreement| it.first == first.name && it.second == second.name;
            let found = comparison.agreements.iter().find(between).filter(|_| column > index);
            found.map(tau).unwrap_or_default()
        });
        sheet.row(std::iter::once(first.title.clone()).chain(texts));
    }
    sheet.note("1 is the same order, -1 the reverse; = marks the same classes.");
    if comparison.agreements.iter().any(|agreement| agreement.tau_b.is_none()) {
        sheet.note("–: one of the views tells no nodes apart.");
    }
    sheet
}

fn tau(agreement: &Agreement) -> String {
    let same = if agreement.same_classes { " =" } else { "" };
    match agreement.tau_b {
        Some(tau) => format!("{tau:.2}{same}"),
        None => format!("–{same}"),
    }
}

/// Pairs of nodes that two views put in opposite orders; none if there are none.
fn inversions(comparison: &Comparison) -> Option<Sheet> {
    let title =
        format!("Pairs of nodes that two views put in opposite orders, target node {}", comparison.target);
    let head = ["First view", "Second view", "Pairs", "Which, and by how much"];
    let mut sheet = Sheet::new(title, head, Align::Left);
    sheet.aligned[2] = Align::Right;
    let name = |name: &str| {
        let view = comparison.views.iter().find(|view| view.name == name);
        view.map_or_else(|| name.to_owned(), |view| view.title.clone())
    };
    for agreement in comparison.agreements.iter().filter(|agreement| !agreement.inversions.is_empty()) {
        sheet.row([
            name(&agreement.first),
            name(&agreement.second),
            agreement.inversions.len().to_string(),
            listed(&agreement.inversions),
        ]);
    }
    sheet.note(
        "1/0 by 1.4/1.2: the first view puts node 1 before node 0, 1.4 times better, the second node 0 before \
         node 1, 1.2 times better. The gravest stand first.",
    );
    (!sheet.rows.is_empty()).then_some(sheet)
}

/// The gravest pairs: those about which both views are surest.
fn listed(inversions: &[Inversion]) -> String {
    let gravity = |pair: &Inversion| pair.factor_in_first.min(pair.factor_in_second);
    let mut pairs: Vec<&Inversion> = inversions.iter().collect();
    pairs.sort_by(|a, b| gravity(b).total_cmp(&gravity(a)));
    let text = |pair: &&Inversion| {
        let Inversion { better_in_first, better_in_second, factor_in_first, factor_in_second } = pair;
        format!("{better_in_first}/{better_in_second} by {factor_in_first:.2}/{factor_in_second:.2}")
    };
    let mut texts: Vec<String> = pairs.iter().take(MOST_PAIRS).map(text).collect();
    if pairs.len() > MOST_PAIRS {
        texts.push(format!("and {} more", pairs.len() - MOST_PAIRS));
    }
    texts.join(", ")
}
