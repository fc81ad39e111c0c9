//! Sentences that state how well each view agrees with the copy model.

use crate::phrases::{count, view_title};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{Agreement, Comparison, View};

/// The number of misordered pairs shown for each view, unless all are requested.
const WORST: usize = 3;

pub(super) fn write(page: &mut TextPage, comparison: &Comparison, all_pairs: bool) {
    for (direction, name) in [(Direction::Write, "copy-write"), (Direction::Read, "copy-read")] {
        let Some(copy) = comparison.views.iter().find(|view| view.name == name) else { continue };
        let same_direction =
            |view: &&View| view.name != copy.name && view.direction.is_none_or(|other| other == direction);
        let others: Vec<&View> = comparison.views.iter().filter(same_direction).collect();
        if others.is_empty() {
            continue;
        }
        let name = direction.name();
        let capital = name[..1].to_uppercase() + &name[1..];
        page.heading(&format!("{capital}: agreement of each view with the copy model"));
        for view in others {
            if let Some(pair) = ViewComparison::of(comparison, view, copy) {
                write_view(page, &pair, all_pairs);
            }
        }
    }
}

/// A view compared with the copy model.
struct ViewComparison<'a> {
    view: &'a View,
    copy: &'a View,
    agreement: &'a Agreement,
    /// Misordered pairs, most costly first.
    misordered: Vec<Misordered>,
}

/// A pair of nodes that the view and the copy model rank in opposite order.
struct Misordered {
    first_in_view: NodeId,
    factor_in_view: f64,
    first_in_copy: NodeId,
    factor_in_copy: f64,
}

impl<'a> ViewComparison<'a> {
    fn of(comparison: &'a Comparison, view: &'a View, copy: &'a View) -> Option<Self> {
        let names = [(&view.name, &copy.name), (&copy.name, &view.name)];
        let is_this = |pair: &&Agreement| names.contains(&(&pair.first, &pair.second));
        let agreement = comparison.agreements.iter().find(is_this)?;
        let view_is_first = agreement.first == view.name;
        let pairs = agreement.inversions.iter().map(|pair| {
            let first = (pair.better_in_first, pair.factor_in_first);
            let second = (pair.better_in_second, pair.factor_in_second);
            let (of_view, of_copy) = if view_is_first { (first, second) } else { (second, first) };
            Misordered {
                first_in_view: of_view.0,
                factor_in_view: of_view.1,
                first_in_copy: of_copy.0,
                factor_in_copy: of_copy.1,
            }
        });
        let mut misordered: Vec<Misordered> = pairs.collect();
        misordered.sort_by(|a, b| b.factor_in_copy.total_cmp(&a.factor_in_copy));
        Some(Self { view, copy, agreement, misordered })
    }
}

fn write_view(page: &mut TextPage, compared: &ViewComparison, all_pairs: bool) {
    page.paragraph(2, 2, &format!("{}: {}", view_title(compared.view), sentence(compared)));
    let shown = if all_pairs { compared.misordered.len() } else { WORST };
    for pair in compared.misordered.iter().take(shown) {
        let text = format!(
            "Ranks node {} above node {} by {:.2}; the copy model ranks node {} above by {:.2}.",
            pair.first_in_view,
            pair.first_in_copy,
            pair.factor_in_view,
            pair.first_in_copy,
            pair.factor_in_copy,
        );
        page.paragraph(4, 2, &text);
    }
    let left = compared.misordered.len().saturating_sub(shown);
    if left > 0 {
        page.paragraph(4, 2, &format!("{} not shown (use --all-pairs).", count(left, "other pair")));
    }
}

fn sentence(compared: &ViewComparison) -> String {
    let Agreement { nodes, tau_b, concordant, tied_in_one, tied_in_both, same_classes, .. } =
        compared.agreement;
    if nodes.len() < 2 {
        return format!("not comparable: only {} in common.", count(nodes.len(), "node"));
    }
    let Some(tau_b) = tau_b else {
        return format!("not distinguishable: {}.", tie_reason(compared));
    };
    let wrong = compared.misordered.len();
    let tied = tied_in_one + tied_in_both;
    let pairs = count(*concordant as usize + tied as usize + wrong, "pair");
    let verdict = match (wrong, same_classes) {
        (0, true) => format!("agrees: tau-b {tau_b:.2}, same classes, no pair in another order"),
        (0, false) => {
            format!("agrees in order: tau-b {tau_b:.2}, no pair in another order, but different classes")
        }
        // Pairs from different classes are in the same order, since both views have the same
        // classes.
        (_, true) => format!(
            "agrees in classes: tau-b {tau_b:.2}, {wrong} of {pairs} in another order, all within a class"
        ),
        (_, false) => {
            format!("disagrees: tau-b {tau_b:.2}, different classes, {wrong} of {pairs} in the wrong order")
        }
    };
    match tied {
        0 => format!("{verdict}."),
        tied if wrong > 0 => format!("{verdict}, {tied} not distinguishable."),
        tied => format!("{verdict}; {tied} of {pairs} not distinguishable."),
    }
}

/// Explains why tau-b is undefined.
fn tie_reason(compared: &ViewComparison) -> &'static str {
    let nodes = &compared.agreement.nodes;
    match (ties_all(compared.view, nodes), ties_all(compared.copy, nodes)) {
        (true, true) => "neither this view nor the copy model distinguishes these nodes",
        (false, true) => "the copy model does not distinguish these nodes",
        _ => "this view does not distinguish these nodes",
    }
}

/// Returns whether a view distinguishes no two of these nodes: all their intervals share a value.
fn ties_all(view: &View, nodes: &NodeSet) -> bool {
    let ranges = view.nodes.iter().filter(|value| nodes.contains(value.node));
    let ranges = ranges.map(|value| value.interval.unwrap_or((value.value, value.value)));
    let (low, high) = ranges
        .fold((f64::NEG_INFINITY, f64::INFINITY), |(low, high), range| (low.max(range.0), high.min(range.1)));
    low <= high
}
