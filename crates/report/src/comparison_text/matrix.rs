//! The matrix of agreement between all views.

use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_schema::{Agreement, Comparison};
use std::collections::BTreeMap;

/// Agreements, by the names of their views.
type ByNames<'a> = BTreeMap<(&'a str, &'a str), &'a Agreement>;

/// Page columns of the row numbers, and of a figure, with indent and gap.
const HEAD_COLUMNS: usize = 2 + 4 + 2;
const FIGURE_COLUMNS: usize = 6 + 2;

pub(super) fn write(page: &mut TextPage, comparison: &Comparison) {
    let number = comparison.views.len();
    if number < 2 {
        return;
    }
    page.heading(
        "Agreement of all views, by their numbers above: Kendall's tau-b (1: same order, -1: reverse order); \
         =: same classes; -: not distinguishable",
    );
    let per_block = ((page.style().columns() - HEAD_COLUMNS) / FIGURE_COLUMNS).max(1);
    let by_names: ByNames = comparison
        .agreements
        .iter()
        .map(|pair| ((pair.first.as_str(), pair.second.as_str()), pair))
        .collect();
    let all: Vec<usize> = (0..number).collect();
    for columns in all.chunks(per_block) {
        page.blank();
        page.table(2, &table(comparison, &by_names, columns));
    }
}

fn table(comparison: &Comparison, by_names: &ByNames, columns: &[usize]) -> Table {
    let name = |index: usize| comparison.views[index].name.as_str();
    let titles = columns.iter().map(|column| ((column + 1).to_string(), Align::Right));
    let mut table = Table::new(std::iter::once(("VIEW".to_owned(), Align::Right)).chain(titles));
    for row in 0..comparison.views.len() {
        let figures = columns.iter().map(|column| {
            let [row, column] = [row, *column].map(name);
            let pair = by_names.get(&(row, column)).or_else(|| by_names.get(&(column, row)));
            Cell::from(pair.map(|pair| figure(pair)).unwrap_or_default())
        });
        table.row(std::iter::once(Cell::from((row + 1).to_string())).chain(figures));
    }
    table
}

fn figure(pair: &Agreement) -> String {
    let same = if pair.same_classes && pair.nodes.len() > 1 { "=" } else { "" };
    match pair.tau_b {
        Some(tau) => format!("{same}{tau:.2}"),
        None => format!("{same}-"),
    }
}
