//! A comparison as text.

mod columns;
mod matrix;
mod stats;
mod verdict;

use crate::phrases;
use crate::style::{TextPage, TextStyle};
use crate::table::{Align, Table};
use numaio_schema::{Comparison, View};

/// The views beside each other, their classes, which of them agree with what the copy model measured and which
/// pairs of nodes they misorder, and how far all agree with each other.
///
/// Of the misordered pairs the worst few are shown, or all with `all_pairs`; number, interval and drift of
/// every figure where the style asks for them.
pub fn comparison_text(comparison: &Comparison, style: &TextStyle, all_pairs: bool) -> String {
    let mut page = TextPage::new(style);
    write_head(&mut page, comparison);
    if comparison.views.is_empty() {
        page.heading("There is no view of this node.");
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
    page.paragraph(0, 2, &format!("Attached to it: {devices}"));
    let incomplete: Vec<String> = comparison.views.iter().filter(|view| view.incomplete).map(title).collect();
    if !incomplete.is_empty() {
        let what = "INCOMPLETE: the measurement was not finished, and figures are missing or not settled, of";
        page.paragraph(0, 2, &format!("{what} {}.", incomplete.join("; ")));
    }
    for warning in &comparison.warnings {
        page.paragraph(0, 2, &format!("Warning: {} [{}]", warning.what, warning.rule));
    }
}

/// Every view has a number here, by which the matrix names it.
fn write_classes(page: &mut TextPage, views: &[View]) {
    page.heading("Classes of nodes, best first");
    let columns = [("VIEW", Align::Right), ("", Align::Left), ("CLASSES", Align::Left)];
    let mut table = Table::new(columns);
    for (index, view) in views.iter().enumerate() {
        let classes: Vec<String> = view.classes.iter().map(|class| class.nodes.to_string()).collect();
        table.row([(index + 1).to_string().into(), title(view).into(), classes.join(" | ").into()]);
    }
    page.table(2, &table);
}

/// The name of a view for people; a document from elsewhere may have none.
fn title(view: &View) -> String {
    match phrases::short(&view.title) {
        title if title.is_empty() => phrases::short(&view.name),
        title => title,
    }
}
