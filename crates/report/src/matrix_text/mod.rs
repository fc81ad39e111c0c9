//! Formats matrices of CPU nodes and memory nodes, views, and statistics as text.

mod stats;
mod views;

pub(crate) use stats::{half_width, write as write_stats, FigureStats};
pub(crate) use views::write as write_views;

use crate::style::display_width;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_schema::Reading;
use stats::{UNSETTLED, UNSETTLED_LEGEND};
use std::collections::BTreeSet;

/// Blanks between the columns of a table.
const GAP: usize = 2;
/// Text in place of a missing value.
const MISSING: &str = "-";

/// A matrix: a row for each set of threads, a column for each memory node.
pub(crate) struct Matrix<'a> {
    /// Names of the rows.
    pub rows: Vec<String>,
    /// Title of the first column, which names the rows.
    pub corner: &'a str,
    /// The memory nodes.
    pub columns: Vec<NodeId>,
    /// Returns the text and class of a cell.
    pub cell: &'a dyn Fn(usize, NodeId) -> (String, Option<u32>),
}

impl Matrix<'_> {
    /// Writes the matrix, with its columns in as many blocks as the page width requires.
    pub(crate) fn write(&self, page: &mut TextPage, indent: usize) {
        let texts: Vec<Vec<(String, Option<u32>)>> = (0..self.rows.len())
            .map(|row| self.columns.iter().map(|column| (self.cell)(row, *column)).collect())
            .collect();
        let width = |index: usize| {
            let title = self.columns[index].to_string().len();
            texts.iter().map(|row| display_width(&row[index].0)).max().unwrap_or(0).max(title)
        };
        let names =
            self.rows.iter().map(String::as_str).chain([self.corner]).map(display_width).max().unwrap_or(0);
        let available = page.style().columns().saturating_sub(indent + names);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for block in blocks(&widths, available) {
            let heads = self.columns[block.clone()].iter().map(|column| (column.to_string(), Align::Right));
            let mut table = Table::new(std::iter::once((self.corner.to_owned(), Align::Left)).chain(heads));
            for (name, row) in self.rows.iter().zip(&texts) {
                let cells = row[block.clone()].iter();
                let cells = cells.map(|(text, class)| Cell::with_class(text.as_str(), *class));
                table.row(std::iter::once(Cell::from(name.as_str())).chain(cells));
            }
            page.table(indent, &table);
            page.blank();
        }
    }
}

/// Splits columns into ranges that fit into the available width, at least one column in each.
fn blocks(widths: &[usize], available: usize) -> Vec<std::ops::Range<usize>> {
    let (mut blocks, mut first, mut taken) = (Vec::new(), 0, 0);
    for (index, width) in widths.iter().enumerate() {
        if index > first && taken + GAP + width > available {
            blocks.push(first..index);
            (first, taken) = (index, 0);
        }
        taken += GAP + width;
    }
    if first < widths.len() {
        blocks.push(first..widths.len());
    }
    blocks
}

/// Formats a reading for a matrix, with a mark if it is less precise than requested.
pub(crate) fn cell_text(reading: Option<&Reading>, show: impl Fn(&Reading) -> Option<String>) -> String {
    let Some(reading) = reading else { return MISSING.to_owned() };
    let mark = if reading.settled { "" } else { UNSETTLED };
    show(reading).map_or_else(|| MISSING.to_owned(), |text| format!("{mark}{text}"))
}

/// Writes the legend of the marks, and the reasons for missing values.
pub(crate) fn write_notes<'a>(
    page: &mut TextPage,
    readings: impl Iterator<Item = (String, &'a Reading)> + Clone,
) {
    let has = |reading: &Reading| reading.median().is_some();
    if readings.clone().any(|(_, reading)| has(reading) && !reading.settled) {
        page.paragraph(2, 2, UNSETTLED_LEGEND);
    }
    let missing: Vec<(String, &Reading)> = readings.filter(|(_, reading)| !has(reading)).collect();
    let why = |reading: &Reading| reading.failure.clone().unwrap_or_else(|| "no visit succeeded".to_owned());
    let reasons: BTreeSet<String> = missing.iter().map(|(_, reading)| why(reading)).collect();
    for reason in reasons {
        let of: Vec<&str> = missing
            .iter()
            .filter(|(_, reading)| why(reading) == reason)
            .map(|(name, _)| name.as_str())
            .collect();
        let (named, others) = of.split_at(of.len().min(MOST_NAMED));
        let others = if others.is_empty() { String::new() } else { format!(" and {} others", others.len()) };
        page.paragraph(2, 2, &format!("No value for {}{others}: {reason}", named.join(", ")));
    }
}

/// Maximum number of cells named in a note.
const MOST_NAMED: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::TextStyle;

    #[test]
    fn blocks_fit_the_page_and_have_at_least_one_column() {
        assert_eq!(blocks(&[3, 3, 3], 10), [0..2, 2..3]);
        assert_eq!(blocks(&[3, 3, 3], 15).len(), 1);
        assert_eq!(blocks(&[30, 3], 4), [0..1, 1..2]);
        assert!(blocks(&[], 10).is_empty());
    }

    #[test]
    fn a_wide_matrix_is_split_without_loss() {
        let matrix = Matrix {
            rows: (0..64).map(|row| row.to_string()).collect(),
            corner: "CPUS",
            columns: (0..64).map(NodeId).collect(),
            cell: &|row, column| (format!("{row}.{column}"), Some(1)),
        };
        let mut page = TextPage::new(&TextStyle { width: 80, ..TextStyle::default() });
        matrix.write(&mut page, 2);
        let text = page.into_text();
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        for value in ["0.0", "0.63", "63.0", "63.63"] {
            assert_eq!(text.split_whitespace().filter(|word| *word == value).count(), 1, "{value}");
        }
        assert_eq!(text.matches("CPUS").count(), 7);
    }
}
