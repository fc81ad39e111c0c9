//! Formats interleave weights as text.

use crate::phrases;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::interleave::Interleave;
use numaio_schema::InterleaveWeights;

/// Formats recommended weights beside the current ones.
///
/// `now` is `None` for a kernel without weighted interleave, or another machine.
pub fn interleave_text(weights: &InterleaveWeights, now: Option<&Interleave>, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let from = match weights.from {
        Some(node) => format!("the CPUs of node {node}"),
        None => "the fastest CPUs for each memory node".to_owned(),
    };
    page.heading(&format!("Weights for weighted interleave, from STREAM {} on {from}", weights.op));
    let unit = style.unit;
    let columns = [
        "NODE".to_owned(),
        unit.to_string(),
        "WEIGHT".to_owned(),
        "SHARE OF PAGES".to_owned(),
        "ERROR".to_owned(),
        "CURRENT".to_owned(),
    ];
    let mut table = Table::new(columns.map(|title| (title, Align::Right)));
    let all: u32 = weights.nodes.iter().map(|node| node.weight).sum();
    for node in &weights.nodes {
        let before = now.and_then(|now| now.weights.get(&node.node));
        table.row([
            Cell::from(node.node.to_string()),
            Cell::from(phrases::bandwidth(node.bytes_per_s, unit)),
            Cell::from(node.weight.to_string()),
            Cell::from(format!("{:.1} %", f64::from(node.weight) / f64::from(all.max(1)) * 100.0)),
            Cell::from(format!("{:+.1} %", node.error * 100.0)),
            Cell::from(before.map(ToString::to_string).unwrap_or_default()),
        ]);
    }
    page.table(2, &table.without_empty_columns());
    if now.is_some_and(|now| now.automatic == Some(true)) {
        page.paragraph(
            0,
            2,
            "The kernel currently sets the weights automatically, from bandwidth reported by firmware.",
        );
    }
    page.paragraph(
        0,
        2,
        "The weights apply to programs with this policy (numactl --weighted-interleave, MPOL_WEIGHTED_INTERLEAVE), \
         and to pages first touched after the change.",
    );
    page.into_text()
}
