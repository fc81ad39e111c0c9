//! Formats the changes of a host since an earlier measurement.

use crate::fleet::{nodes, percent_from, quantity, with_unit};
use crate::phrases;
use crate::record_header::date;
use crate::style::{short, TextStyle};
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_machine::set::NodeSet;
use numaio_schema::BaselineComparison;

/// Formats changed classes and figures, worst first.
pub fn baseline_text(comparison: &BaselineComparison, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let (classes, figures) = (comparison.classes.len(), comparison.figures.len());
    let machine = phrases::machine_name(&comparison.machine);
    let verdict = match (classes, figures) {
        (0, 0) => format!("no change in {} figures.", comparison.compared),
        _ => format!(
            "{figures} of {} figures changed, and classes of {classes} targets and directions.",
            comparison.compared
        ),
    };
    page.paragraph(0, 2, &format!("{machine}: {verdict}"));
    for documents in &comparison.documents {
        let (before, after) = (date(documents.before_at), date(documents.after_at));
        page.paragraph(2, 4, &format!("{}: {before} compared with {after}", short(&documents.kind)));
    }
    if !comparison.classes.is_empty() {
        page.blank();
        page.heading("Changed classes");
        for change in &comparison.classes {
            let ranks = |sets: &[NodeSet]| {
                sets.iter().map(|nodes| format!("{{{nodes}}}")).collect::<Vec<_>>().join(" > ")
            };
            let (before, after) = (ranks(&change.before), ranks(&change.after));
            let text =
                format!("node {}, {}: {before} became {after}", change.target, change.direction.name());
            page.paragraph(2, 4, &text);
        }
    }
    if !comparison.figures.is_empty() {
        page.blank();
        page.heading("Changed figures");
        figure_table(&mut page, comparison);
    }
    page.into_text()
}

fn figure_table(page: &mut TextPage, comparison: &BaselineComparison) {
    let columns = [
        ("QUANTITY", Align::Left),
        ("NODES", Align::Left),
        ("BEFORE", Align::Right),
        ("NOW", Align::Right),
        ("CHANGE %", Align::Right),
    ];
    let style = *page.style();
    let mut table = Table::new(columns).shrink_first("QUANTITY");
    for change in &comparison.figures {
        table.row([
            quantity(&change.key).into(),
            nodes(&change.key).into(),
            with_unit(&change.key, change.before, &style).into(),
            with_unit(&change.key, change.after, &style).into(),
            percent_from(change.after, change.before).into(),
        ]);
    }
    page.table(2, &table);
}
