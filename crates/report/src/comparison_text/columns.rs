//! Nodes as rows, views as columns, in as many blocks as the page is narrow.

use super::title;
use crate::model_text::header::percent;
use crate::number_format::NumberFormat;
use crate::style::{clean, display_width, wrap, TextPage, BREAKS};
use crate::table::{Align, Cell, Table};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::{Comparison, NodeValue, View};

/// Columns of the page that the nodes' names take, with the indent and the gap after them.
const NODE_COLUMNS: usize = 2 + 4 + GAP;
/// Blanks between columns of a table.
const GAP: usize = 2;
/// Longest line of a view's title.
const WIDEST_TITLE: usize = 24;

/// One view's column.
struct Column {
    /// Lines of the title.
    head: Vec<String>,
    /// One for each node: text and class.
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
        "Each column: value, NUMA factor (how many times worse than node {} itself), class (1 is best; {})",
        comparison.target,
        levels(&comparison.views)
    ));
    let unit = page.style().unit;
    let columns: Vec<Column> = comparison.views.iter().map(|view| column(view, &nodes, unit)).collect();
    for block in blocks(&columns, page.style().columns() - NODE_COLUMNS) {
        page.blank();
        page.table(2, &table(&nodes, block));
    }
}

/// How far apart members of a class may be.
fn levels(views: &[View]) -> String {
    let mut levels: Vec<f64> = views.iter().map(|view| view.level).filter(|level| *level > 0.0).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let levels: Vec<String> = levels.iter().map(|level| format!("{} %", percent(*level))).collect();
    match levels.as_slice() {
        [] => "equal values".to_owned(),
        levels => format!("levels of {}, of distances equal ones", levels.join(" or ")),
    }
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

/// A factor with the blank before it.
fn factor(value: &NodeValue) -> String {
    value.factor.map(|factor| format!(" ×{factor:.2}")).unwrap_or_default()
}

/// How the values of a view are written.
pub(super) fn shown(view: &View, unit: BandwidthUnit) -> impl Fn(f64) -> String {
    let figures = NumberFormat::for_view(view, unit);
    move |value| figures.format(value)
}

/// Title and unit, in lines no wider than the cells below or the longest word.
fn head(view: &View, unit: BandwidthUnit, cells: usize) -> Vec<String> {
    let title = clean(&title(view));
    let words = title.split_inclusive(BREAKS).map(|word| display_width(word.trim_end()));
    let mut lines = wrap(&title, words.max().unwrap_or(0).max(cells).min(WIDEST_TITLE));
    let unit = NumberFormat::for_view(view, unit).unit();
    lines.extend((!unit.is_empty()).then(|| unit.to_owned()));
    lines
}

/// As many columns together as fit on the page, at least one.
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
    fn blocks_hold_what_fits_and_one_at_least() {
        let column = |width: usize| Column { head: vec!["x".repeat(width)], cells: Vec::new() };
        let columns = [10, 10, 10, 40, 5].map(column);
        let sizes = |page: usize| blocks(&columns, page).iter().map(|block| block.len()).collect::<Vec<_>>();
        assert_eq!(sizes(34), [3, 1, 1]);
        assert_eq!(sizes(33), [2, 1, 1, 1]);
        assert_eq!(sizes(83), [5]);
    }
}
