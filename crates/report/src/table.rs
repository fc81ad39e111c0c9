//! Aligned text tables.
//!
//! `comfy-table` is not used, since pages need lines that span the columns, colors without width,
//! and columns that shrink starting with the widest.

use crate::style::{clean, display_width, to_ascii, wrap, TextStyle, BREAKS};

/// Blanks between columns.
const GAP: usize = 2;

/// Extra width attributed to shrink-first columns when choosing the column to shrink.
const SHRINK_FIRST_BONUS: usize = 30;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A cell of a table.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    /// Rank of the class that determines its color.
    class: Option<u32>,
}

impl Cell {
    /// Creates a cell in the color of a class.
    pub(crate) fn with_class(text: impl Into<Cell>, class: Option<u32>) -> Self {
        Self { class, ..text.into() }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text: clean(&text), class: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

enum Row {
    Cells(Vec<Cell>),
    /// A text across all columns, indented.
    Span(usize, String),
}

/// A table: a row of titles, then rows of cells.
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Row>,
    /// Indent of titles and rows, but not of spanning texts.
    inset: usize,
    /// Columns that shrink before others.
    shrink_first: Vec<bool>,
}

impl Table {
    /// Creates a table with these columns.
    pub(crate) fn new<T: AsRef<str>>(columns: impl IntoIterator<Item = (T, Align)>) -> Self {
        let columns = columns.into_iter().map(|(title, align)| (clean(title.as_ref()), align)).collect();
        Self::of_columns(columns)
    }

    fn of_columns(columns: Vec<(String, Align)>) -> Self {
        let shrink_first = vec![false; columns.len()];
        Self { columns, rows: Vec::new(), inset: 0, shrink_first }
    }

    /// Marks a column that shrinks before others, unless they are much wider.
    pub(crate) fn shrink_first(mut self, title: &str) -> Self {
        for (shrink_first, (column_title, _)) in self.shrink_first.iter_mut().zip(&self.columns) {
            *shrink_first |= column_title == title;
        }
        self
    }

    /// Sets the indent of rows below spanning texts.
    pub(crate) fn inset(mut self, inset: usize) -> Self {
        self.inset = inset;
        self
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<Cell> = cells.into_iter().collect();
        cells.resize(self.columns.len(), Cell::from(""));
        self.rows.push(Row::Cells(cells));
    }

    /// Adds a text that spans all columns.
    pub(crate) fn span(&mut self, indent: usize, text: &str) {
        self.rows.push(Row::Span(indent, clean(text)));
    }

    /// Returns the table with typographic characters in ASCII, for other character sets.
    pub(crate) fn to_ascii(&self) -> Self {
        let columns = self.columns.iter().map(|(title, align)| (to_ascii(title), *align)).collect();
        let cell = |cell: &Cell| Cell { text: to_ascii(&cell.text), class: cell.class };
        let rows = self.rows.iter().map(|row| match row {
            Row::Cells(cells) => Row::Cells(cells.iter().map(cell).collect()),
            Row::Span(indent, text) => Row::Span(*indent, to_ascii(text)),
        });
        Self { columns, rows: rows.collect(), inset: self.inset, shrink_first: self.shrink_first.clone() }
    }

    /// Removes columns in which all cells are empty.
    pub(crate) fn without_empty_columns(mut self) -> Self {
        let empty: Vec<bool> = (0..self.columns.len())
            .map(|column| self.cells().all(|cells| cells[column].text.is_empty()))
            .collect();
        let keep = |index: &usize| !empty[*index];
        self.shrink_first = (0..empty.len()).filter(keep).map(|index| self.shrink_first[index]).collect();
        self.columns = (0..empty.len()).filter(keep).map(|index| self.columns[index].clone()).collect();
        for row in &mut self.rows {
            if let Row::Cells(cells) = row {
                *cells = (0..empty.len()).filter(keep).map(|index| cells[index].clone()).collect();
            }
        }
        self
    }

    fn cells(&self) -> impl Iterator<Item = &Vec<Cell>> {
        self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => Some(cells),
            Row::Span(..) => None,
        })
    }

    /// Returns the column widths: as wide as the texts, with the widest shrunk until a line fits.
    fn widths(&self, page: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|(title, _)| display_width(title)).collect();
        for cells in self.cells() {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = display_width(&cell.text).max(*width);
            }
        }
        let gaps = GAP * widths.len().saturating_sub(1);
        let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(page);
        let floors: Vec<usize> = self.columns.iter().map(|(title, _)| longest_word(title)).collect();
        while excess > 0 {
            let can_shrink = |index: &usize| widths[*index] > floors[*index];
            let widest = |index: &usize| {
                widths[*index] + if self.shrink_first[*index] { SHRINK_FIRST_BONUS } else { 0 }
            };
            let Some(index) = (0..widths.len()).filter(can_shrink).max_by_key(widest) else { break };
            widths[index] -= 1;
            excess -= 1;
        }
        widths
    }

    /// Returns the lines of the table, indented; they may end with blanks.
    pub(crate) fn lines(&self, style: &TextStyle, indent: usize) -> Vec<String> {
        let page = style.columns() - indent.min(40);
        let inset = self.inset;
        let widths = self.widths(page - inset);
        let head: Vec<Cell> = self.columns.iter().map(|(title, _)| Cell::from(title.as_str())).collect();
        let inset_lines = |cells: &[Cell]| -> Vec<String> {
            let lines = self.row_lines(cells, &widths, style);
            lines.into_iter().map(|line| format!("{:inset$}{line}", "")).collect()
        };
        let mut lines = inset_lines(&head);
        for row in &self.rows {
            match row {
                Row::Cells(cells) => lines.extend(inset_lines(cells)),
                Row::Span(more, text) => {
                    let wrapped = wrap(text, page.saturating_sub(*more).max(1));
                    lines.extend(wrapped.iter().map(|line| format!("{:more$}{line}", "")));
                }
            }
        }
        lines.into_iter().map(|line| format!("{:indent$}{line}", "")).collect()
    }

    fn row_lines(&self, cells: &[Cell], widths: &[usize], style: &TextStyle) -> Vec<String> {
        let wrapped: Vec<Vec<String>> =
            cells.iter().zip(widths).map(|(cell, width)| wrap(&cell.text, (*width).max(1))).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        let line = |index: usize| {
            let texts = wrapped.iter().zip(cells).zip(&self.columns).zip(widths);
            let padded = texts.map(|(((lines, cell), (_, align)), width)| {
                let text = lines.get(index).map(String::as_str).unwrap_or_default();
                pad(text, *align, *width, cell.class.filter(|_| style.color))
            });
            padded.collect::<Vec<_>>().join(&" ".repeat(GAP))
        };
        (0..height).map(line).collect()
    }
}

/// Returns the width of the longest unbreakable part of a title.
fn longest_word(title: &str) -> usize {
    title.split_inclusive(BREAKS).map(|word| display_width(word.trim_end())).max().unwrap_or(0)
}

fn pad(text: &str, align: Align, width: usize, class: Option<u32>) -> String {
    let blanks = " ".repeat(width.saturating_sub(display_width(text)));
    let text = match class {
        Some(rank) if !text.is_empty() => format!("\x1b[{}m{text}\x1b[0m", color_of_class(rank)),
        _ => text.to_owned(),
    };
    match align {
        Align::Left => text + &blanks,
        Align::Right => blanks + &text,
    }
}

/// Returns the ANSI color code of a class: green, cyan, yellow, magenta, and red for all others.
fn color_of_class(rank: u32) -> u8 {
    match rank {
        0 | 1 => 32,
        2 => 36,
        3 => 33,
        4 => 35,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([("NODE", Align::Right), ("EMPTY", Align::Left), ("WORDS", Align::Left)]);
        table.row(["7".into(), "".into(), "wide 網路 words".into()]);
        table.span(2, "across");
        table.without_empty_columns()
    }

    #[test]
    fn aligns_columns_and_removes_empty_ones() {
        let lines = table().lines(&TextStyle::default(), 0);
        assert_eq!(lines, ["NODE  WORDS          ", "   7  wide 網路 words", "  across"]);
    }

    #[test]
    fn the_widest_column_shrinks() {
        let mut table = Table::new([("A", Align::Left), ("B", Align::Left)]);
        table.row(["word ".repeat(30).into(), "short".into()]);
        let style = TextStyle { width: 76, ..TextStyle::default() };
        let lines = table.lines(&style, 4);
        assert!(lines.iter().all(|line| display_width(line) <= 76), "{lines:#?}");
        assert!(lines.len() > 3);
    }

    #[test]
    fn color_codes_have_no_width() {
        let mut table = Table::new([("A", Align::Left), ("B", Align::Left)]);
        table.row([Cell::with_class("x", Some(1)), "y".into()]);
        let style = TextStyle { color: true, ..TextStyle::default() };
        assert_eq!(table.lines(&style, 0), ["A  B", "\x1b[32mx\x1b[0m  y"]);
    }
}
