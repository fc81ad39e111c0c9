//! Tables of views: values of a target, agreement and misordered pairs.

use super::sheet::{Align, Sheet, Text};
use crate::number_format::NumberFormat;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::{Agreement, Comparison, Inversion, Quantity, View};

/// Maximum number of misordered pairs listed for two views.
const MOST_PAIRS: usize = 12;

/// Returns the tables of a comparison.
pub(super) fn sheets(comparison: &Comparison, unit: BandwidthUnit) -> Vec<Sheet> {
    let views: Vec<&View> = comparison.views.iter().collect();
    let mut sheets = vec![values(comparison.target, &views, unit), agreement(comparison)];
    sheets.extend(inversions(comparison));
    sheets
}

/// Returns tables of views outside comparisons, one for each target.
pub(super) fn uncompared_views(views: &[View], unit: BandwidthUnit) -> Vec<Sheet> {
    let targets: NodeSet = views.iter().map(|view| view.target).collect();
    let of = |target: NodeId| {
        let views: Vec<&View> = views.iter().filter(|view| view.target == target).collect();
        values(target, &views, unit)
    };
    targets.iter().map(of).collect()
}

/// Returns the table of values and classes: a row for each node, a column for each view.
fn values(target: NodeId, views: &[&View], unit: BandwidthUnit) -> Sheet {
    let heads = views.iter().map(|view| match view.quantity {
        Quantity::Distance | Quantity::Score | Quantity::Cost => view.title.clone(),
        Quantity::NsPerLoad | Quantity::Nanoseconds => format!("{} (ns)", view.title),
        Quantity::BytesPerS => format!("{} ({unit})", view.title),
    });
    let title = format!("Views of target node {target}: value and [class]");
    let mut sheet = Sheet::new(title, std::iter::once("Node".to_owned()).chain(heads), Align::Right);
    let nodes: NodeSet = views.iter().flat_map(|view| view.nodes.iter().map(|node| node.node)).collect();
    for node in nodes.iter() {
        let texts = views.iter().map(|view| cell(view, node, unit));
        sheet.row(std::iter::once(Text::from(node.to_string())).chain(texts));
    }
    sheet.note("Values of class 1 are marked.");
    for view in views.iter().filter(|view| view.incomplete) {
        sheet.note(format!("From an unfinished measurement: {}.", view.title));
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
    sheet.note("1: same order; -1: reverse order; =: same classes.");
    if comparison.agreements.iter().any(|agreement| agreement.tau_b.is_none()) {
        sheet.note("–: one of the views does not distinguish any nodes.");
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

/// Returns the table of misordered pairs, if there are any.
fn inversions(comparison: &Comparison) -> Option<Sheet> {
    let title = format!("Pairs of nodes in opposite order in two views, target node {}", comparison.target);
    let head = ["First view", "Second view", "Pairs", "Nodes and factors"];
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
        "1/0 by 1.4/1.2: node 1 is 1.4 times better than node 0 in the first view; node 0 is 1.2 times better than \
         node 1 in the second. Most significant pairs first.",
    );
    (!sheet.rows.is_empty()).then_some(sheet)
}

/// Lists the most significant pairs: those with the greatest smaller factor.
fn listed(inversions: &[Inversion]) -> String {
    let significance = |pair: &Inversion| pair.factor_in_first.min(pair.factor_in_second);
    let mut pairs: Vec<&Inversion> = inversions.iter().collect();
    pairs.sort_by(|a, b| significance(b).total_cmp(&significance(a)));
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
