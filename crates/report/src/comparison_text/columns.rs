//! The table of values: a row for each node, a column for each view, split to fit the page.

use crate::number_format::NumberFormat;
use crate::phrases::view_title;
use crate::record_header::percent;
use crate::style::{clean, display_width, wrap, BREAKS};
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::{Comparison, NodeValue, Quantity, View};

/// Page columns taken by the node ids, with their indent and gap.
const NODE_COLUMNS: usize = 2 + 4 + GAP;
/// Blanks between columns of a table.
const GAP: usize = 2;
/// The longest line of a view's title, in page columns.
const WIDEST_TITLE: usize = 24;

/// The column of a view.
struct Column {
    /// The lines of the title.
    head: Vec<String>,
    /// Text and class of each node.
    cells: Vec<(String, Option<u32>)>,
}

impl Column {
    fn width(&self) -> usize {
        let texts = self.head.iter().chain(self.cells.iter().map(|(text, _)| text));
        texts.map(|text| display_width(text)).max().unwrap_or(0)
    }
}

pub(super) fn write(page: &mut TextPage, comparison: &Comparison) {
    let nodes: NodeSet =
        comparison.views.iter().flat_map(|view| view.nodes.iter().map(|value| value.node)).collect();
    page.heading(&format!(
        "Each column: value, NUMA factor (× worse than node {} itself), class (1 is best; {})",
        comparison.target,
        tolerances(&comparison.views)
    ));
    let unit = page.style().unit;
    let columns: Vec<Column> = comparison.views.iter().map(|view| column(view, &nodes, unit)).collect();
    if let Some(note) = level_note(&comparison.views) {
        page.paragraph(2, 2, &note);
    }
    for block in blocks(&columns, page.style().columns() - NODE_COLUMNS) {
        page.blank();
        page.table(2, &table(&nodes, block));
    }
}

/// Describes how much values of one class may differ.
fn tolerances(views: &[View]) -> String {
    let mut tolerances: Vec<f64> =
        views.iter().map(|view| view.level).filter(|tolerance| *tolerance > 0.0).collect();
    tolerances.sort_by(f64::total_cmp);
    tolerances.dedup();
    let tolerances: Vec<String> = tolerances.iter().map(|share| format!("{} %", percent(*share))).collect();
    match tolerances.as_slice() {
        [] => "equal values".to_owned(),
        tolerances => format!("values within {}; equal distances", tolerances.join(" or ")),
    }
}

/// Explains what the tolerance of a class permits beyond its percentage.
fn level_note(views: &[View]) -> Option<String> {
    let measured =
        || views.iter().filter(|view| view.level > 0.0 && view.nodes.iter().any(|v| v.interval.is_some()));
    let level = measured().map(|view| view.level).fold(0.0, f64::max);
    let latency = measured().any(|view| matches!(view.quantity, Quantity::NsPerLoad | Quantity::Nanoseconds));
    let slower = 1.0 / (1.0 - level) - 1.0;
    let of_latency = match latency {
        true => format!(" A latency within {} % is at most {:.1} % longer.", percent(level), slower * 100.0),
        false => String::new(),
    };
    (level > 0.0).then(|| {
        format!(
            "Of measured values, an interval that reaches the tolerance suffices, so noise adds to it.{of_latency}"
        )
    })
}

fn column(view: &View, nodes: &NodeSet, unit: BandwidthUnit) -> Column {
    let shown = shown(view, unit);
    let number = |value: &NodeValue| shown(value.value);
    let widest = |text: &dyn Fn(&NodeValue) -> String| {
        view.nodes.iter().map(|value| display_width(&text(value))).max().unwrap_or(0)
    };
    let (number_width, factor_width) = (widest(&number), widest(&factor));
    let cell = |node: NodeId| {
        let Some(value) = view.node(node) else { return ("-".to_owned(), None) };
        let class = view.classes.iter().find(|class| class.nodes.contains(node)).map(|class| class.rank);
        let rank = class.map(|rank| format!("({rank})")).unwrap_or_default();
        (format!("{:>number_width$}{:>factor_width$} {rank}", number(value), factor(value)), class)
    };
    let cells: Vec<(String, Option<u32>)> = nodes.iter().map(cell).collect();
    let widest_cell = cells.iter().map(|(text, _)| display_width(text)).max().unwrap_or(0);
    Column { head: head(view, unit, widest_cell), cells }
}

/// Formats a NUMA factor, with a leading blank.
fn factor(value: &NodeValue) -> String {
    value.factor.map(|factor| format!(" ×{factor:.2}")).unwrap_or_default()
}

/// Returns the function that formats the values of a view.
pub(super) fn shown(view: &View, unit: BandwidthUnit) -> impl Fn(f64) -> String {
    let figures = NumberFormat::for_view(view, unit);
    move |value| figures.format(value)
}

/// Breaks title and unit into lines no wider than the cells below or the longest word.
fn head(view: &View, unit: BandwidthUnit, cells: usize) -> Vec<String> {
    let title = clean(&view_title(view));
    let words = title.split_inclusive(BREAKS).map(|word| display_width(word.trim_end()));
    let mut lines = wrap(&title, words.max().unwrap_or(0).max(cells).min(WIDEST_TITLE));
    let unit = NumberFormat::for_view(view, unit).unit();
    lines.extend((!unit.is_empty()).then(|| unit.to_owned()));
    lines
}

/// Splits the columns into blocks that fit on the page, at least one column in each.
fn blocks(columns: &[Column], page: usize) -> Vec<&[Column]> {
    let mut blocks = Vec::new();
    let mut rest = columns;
    while !rest.is_empty() {
        let mut width = 0;
        let fitting = rest.iter().take_while(|column| {
            width += column.width() + GAP;
            width <= page + GAP
        });
        let (block, others) = rest.split_at(fitting.count().max(1));
        blocks.push(block);
        rest = others;
    }
    blocks
}

fn table(nodes: &NodeSet, columns: &[Column]) -> Table {
    let height = columns.iter().map(|column| column.head.len()).max().unwrap_or(0);
    let line = |column: &Column, index: usize| column.head.get(index).cloned().unwrap_or_default();
    let titles = columns.iter().map(|column| (line(column, 0), Align::Right));
    let mut table = Table::new(std::iter::once(("NODE".to_owned(), Align::Right)).chain(titles));
    for index in 1..height {
        let line = columns.iter().map(|column| Cell::from(line(column, index)));
        table.row(std::iter::once(Cell::from("")).chain(line));
    }
    for (index, node) in nodes.iter().enumerate() {
        let cells = columns.iter().map(|column| {
            let (text, class) = &column.cells[index];
            Cell::with_class(text.as_str(), *class)
        });
        table.row(std::iter::once(Cell::from(node.to_string())).chain(cells));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_the_page_and_have_at_least_one_column() {
        let column = |width: usize| Column { head: vec!["x".repeat(width)], cells: Vec::new() };
        let columns = [10, 10, 10, 40, 5].map(column);
        let sizes = |page: usize| blocks(&columns, page).iter().map(|block| block.len()).collect::<Vec<_>>();
        assert_eq!(sizes(34), [3, 1, 1]);
        assert_eq!(sizes(33), [2, 1, 1, 1]);
        assert_eq!(sizes(83), [5]);
    }
}
