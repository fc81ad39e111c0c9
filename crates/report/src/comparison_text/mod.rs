//! Formats a comparison of views as text.

mod columns;
mod matrix;
mod stats;
mod verdict;

use crate::phrases::{self, view_title};
use crate::style::TextStyle;
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_schema::{Comparison, View};

/// Formats a comparison: the views, their classes, their agreement with the copy model and with
/// each other.
///
/// Lists the worst misordered pairs of nodes, or all of them with `all_pairs`. With `style.stats`
/// the number of measurements, the interval and the drift of each figure follow.
pub fn comparison_text(comparison: &Comparison, style: &TextStyle, all_pairs: bool) -> String {
    let mut page = TextPage::new(style);
    write_head(&mut page, comparison);
    if comparison.views.is_empty() {
        page.heading("No view of this node exists.");
        return page.into_text();
    }
    columns::write(&mut page, comparison);
    write_classes(&mut page, &comparison.views);
    verdict::write(&mut page, comparison, all_pairs);
    matrix::write(&mut page, comparison);
    if style.stats {
        stats::write(&mut page, &comparison.views);
    }
    page.into_text()
}

fn write_head(page: &mut TextPage, comparison: &Comparison) {
    let identity = &comparison.machine;
    let machine = phrases::joined([phrases::machine_name(identity), phrases::machine_kind(identity)], ", ");
    let devices = match comparison.devices.as_slice() {
        [] => "no devices".to_owned(),
        devices => devices.join(", "),
    };
    page.paragraph(0, 2, &format!("Views of node {} of {machine}", comparison.target));
    page.paragraph(0, 2, &format!("Devices on it: {devices}"));
    let incomplete: Vec<String> =
        comparison.views.iter().filter(|view| view.incomplete).map(view_title).collect();
    if !incomplete.is_empty() {
        let what = "INCOMPLETE: the measurement did not finish; values are missing or unsettled in";
        page.paragraph(0, 2, &format!("{what} {}.", incomplete.join("; ")));
    }
    for warning in &comparison.warnings {
        page.paragraph(0, 2, &format!("Warning: {} [{}]", warning.message, warning.rule));
    }
}

/// Writes the classes of each view, with the number that the agreement matrix uses for it.
fn write_classes(page: &mut TextPage, views: &[View]) {
    page.heading("Classes of nodes, best first");
    let columns = [("VIEW", Align::Right), ("", Align::Left), ("CLASSES", Align::Left)];
    let mut table = Table::new(columns);
    for (index, view) in views.iter().enumerate() {
        let classes: Vec<String> = view.classes.iter().map(|class| class.nodes.to_string()).collect();
        table.row([(index + 1).to_string().into(), view_title(view).into(), classes.join(" | ").into()]);
    }
    page.table(2, &table);
}
