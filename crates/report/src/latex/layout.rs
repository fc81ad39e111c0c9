//! Table layout: font size, column widths, and splitting of tables that exceed a page.

use super::text::width;
use crate::sheets::{Align, Sheet, Text};
use crate::style::wrap;

/// Line width in points: A4 with margins of 16 mm.
const LINE: f64 = 505.0;
/// Width of each of two tables side by side, in points.
const HALF: f64 = 244.0;
/// Maximum height of caption, rows and notes together, in points.
const PAGE: f64 = 670.0;
/// Minimum width of a wrapped column, in points.
const NARROWEST: f64 = 90.0;
/// Preferred minimum width of a wrapped column, in points: a smaller font is tried first, to keep
/// names on a line.
const NARROW: f64 = 130.0;
/// Maximum number of characters in a line of a column title.
const TITLE: usize = 14;
/// Maximum number of lines in a column title; guards against hostile files.
const TITLE_LINES: usize = 8;
/// Ratio of line height to font size.
const LEADING: f64 = 1.25;
/// Ratio of bold to regular letter width.
const BOLD: f64 = 1.18;
/// Blank at the end of wrapped lines, in points.
const RAGGED: f64 = 20.0;

/// A font size of LaTeX.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FontSize {
    /// The LaTeX command.
    pub command: &'static str,
    /// Font size in points.
    points: f64,
    /// Letter width relative to a 10-point font; small fonts are relatively wider.
    scale: f64,
    /// Margin left and right of a column, in points.
    pub gap: f64,
}

/// Font sizes, largest first.
const SIZES: [FontSize; 3] = [
    FontSize { command: "\\small", points: 9.0, scale: 0.93, gap: 5.0 },
    FontSize { command: "\\footnotesize", points: 8.0, scale: 0.85, gap: 4.0 },
    FontSize { command: "\\scriptsize", points: 7.0, scale: 0.80, gap: 2.5 },
];

/// A table split into parts: each page of rows has each block of columns.
pub struct Layout<'a> {
    /// The font size of all parts.
    pub size: FontSize,
    /// Blocks of columns; each starts with the table's first column.
    pub blocks: Vec<Vec<Column>>,
    /// The rows of each page.
    pub pages: Vec<&'a [Vec<Text>]>,
}

/// A column of a block.
pub struct Column {
    /// Index in the sheet.
    pub index: usize,
    /// Alignment of its texts.
    pub align: Align,
    /// The lines of its title.
    pub title: Vec<String>,
    /// Width without margins, in points.
    pub width: f64,
    /// Whether texts are wrapped to this width.
    pub wrapped: bool,
}

impl<'a> Layout<'a> {
    /// Chooses the largest font with which the table fits on a page, else the largest with which
    /// all columns fit, else the smallest.
    pub fn for_sheet(sheet: &'a Sheet) -> Self {
        let titles: Vec<Vec<String>> = (0..sheet.head.len()).map(|index| title(sheet, index)).collect();
        let widest = |(index, title): (usize, &Vec<String>)| {
            let title = title.iter().map(|line| width(line)).fold(0.0, f64::max);
            widest(sheet, index).max(title)
        };
        let widest: Vec<f64> = titles.iter().enumerate().map(widest).collect();
        let fits = |size: &&FontSize| {
            let least = widest.iter().map(|width| (width * size.scale).min(NARROW) + 2.0 * size.gap);
            least.sum::<f64>() <= LINE
        };
        let with = |size: &FontSize| Self::with(sheet, &titles, &widest, *size);
        let mut fitting = SIZES.iter().filter(fits).map(with);
        let first = fitting.next().unwrap_or_else(|| with(&SIZES[SIZES.len() - 1]));
        match first.pages.len() {
            1 => first,
            _ => fitting.find(|layout| layout.pages.len() == 1).unwrap_or(first),
        }
    }

    fn with(sheet: &'a Sheet, titles: &[Vec<String>], widest: &[f64], size: FontSize) -> Self {
        let natural: Vec<f64> = widest.iter().map(|width| width * size.scale).collect();
        let block = |indexes: Vec<usize>| -> Vec<Column> {
            let widths: Vec<f64> = indexes.iter().map(|index| natural[*index]).collect();
            let most = most(&widths, LINE - 2.0 * size.gap * widths.len() as f64);
            let column = |index: usize| Column {
                index,
                align: sheet.aligned[index],
                title: titles[index].clone(),
                width: natural[index].min(most),
                wrapped: natural[index] > most,
            };
            indexes.into_iter().map(column).collect()
        };
        let blocks: Vec<Vec<Column>> = blocks(&natural, size).into_iter().map(block).collect();
        let pages = pages(sheet, &blocks, size);
        Self { size, blocks, pages }
    }

    /// Returns whether two tables like this fit side by side.
    pub fn is_narrow(&self) -> bool {
        let width = |block: &Vec<Column>| -> f64 {
            block.iter().map(|column| column.width + 2.0 * self.size.gap).sum()
        };
        self.pages.len() == 1 && self.blocks.iter().map(width).sum::<f64>() <= HALF
    }
}

/// Returns the width of a column's widest text, in a 10-point font.
fn widest(sheet: &Sheet, index: usize) -> f64 {
    let texts = sheet.rows.iter().filter_map(|row| row.get(index));
    texts.map(|text| width(&text.text) * if text.best { BOLD } else { 1.0 }).fold(0.0, f64::max)
}

/// Returns a column title, wrapped if it would widen the column.
fn title(sheet: &Sheet, index: usize) -> Vec<String> {
    let title = &sheet.head[index];
    match width(title) > widest(sheet, index) {
        true => wrap(title, TITLE).into_iter().take(TITLE_LINES).collect(),
        false => vec![title.clone()],
    }
}

/// Splits columns into blocks of similar width that fit on a line, each after the first column.
fn blocks(natural: &[f64], size: FontSize) -> Vec<Vec<usize>> {
    let least: Vec<f64> = natural.iter().map(|width| width.min(NARROWEST) + 2.0 * size.gap).collect();
    let (Some(first), others) = (least.first(), natural.len().saturating_sub(1)) else { return Vec::new() };
    if others == 0 || least.iter().sum::<f64>() <= LINE {
        return vec![(0..natural.len()).collect()];
    }
    let widest = least[1..].iter().copied().fold(1.0, f64::max);
    let fitting = (((LINE - first) / widest) as usize).max(1);
    let in_block = others.div_ceil(others.div_ceil(fitting));
    let indexes: Vec<usize> = (1..natural.len()).collect();
    indexes.chunks(in_block).map(|block| std::iter::once(0).chain(block.iter().copied()).collect()).collect()
}

/// Returns the maximum column width with which all columns fit; wide columns share what narrow ones
/// leave.
fn most(widths: &[f64], available: f64) -> f64 {
    let mut sorted = widths.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut left = available;
    for (index, width) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - index) as f64;
        if *width > share {
            return share;
        }
        left -= width;
    }
    f64::INFINITY
}

/// Splits rows into pages.
fn pages<'a>(sheet: &'a Sheet, blocks: &[Vec<Column>], size: FontSize) -> Vec<&'a [Vec<Text>]> {
    let line = size.points * LEADING;
    let title = blocks.iter().flatten().map(|column| column.title.len()).max().unwrap_or(0);
    let notes: f64 = sheet.notes.iter().map(|note| (width(note) / (LINE - RAGGED)).ceil()).sum();
    let available = PAGE - (title as f64 + 5.0 + notes) * line;
    let mut pages = Vec::new();
    let (mut from, mut used) = (0, 0.0);
    for (index, row) in sheet.rows.iter().enumerate() {
        let lines = blocks.iter().flatten().map(|column| lines(row, column, size)).fold(1.0, f64::max);
        if used + lines * line > available && index > from {
            pages.push(&sheet.rows[from..index]);
            (from, used) = (index, 0.0);
        }
        used += lines * line;
    }
    pages.push(&sheet.rows[from..]);
    pages
}

/// Returns the number of lines that a row takes in a column.
fn lines(row: &[Text], column: &Column, size: FontSize) -> f64 {
    let text = row.get(column.index).filter(|_| column.wrapped);
    text.map_or(1.0, |text| (width(&text.text) * size.scale / (column.width - RAGGED)).ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(columns: usize, rows: usize, text: &str) -> Sheet {
        Sheet {
            title: String::new(),
            notes: Vec::new(),
            over: None,
            head: vec!["x".to_owned(); columns],
            aligned: vec![Align::Left; columns],
            rows: (0..rows).map(|_| (0..columns).map(|_| Text::from(text)).collect()).collect(),
        }
    }

    #[test]
    fn font_shrinks_before_columns_are_split() {
        let shape = |columns| {
            let sheet = sheet(columns, 3, "123.4");
            let layout = Layout::for_sheet(&sheet);
            let widths: Vec<usize> = layout.blocks.iter().map(Vec::len).collect();
            (layout.size.points, widths)
        };
        assert_eq!(shape(5), (9.0, vec![5]));
        assert_eq!(shape(16), (8.0, vec![16]));
        assert_eq!(shape(20), (7.0, vec![20]));
        assert_eq!(shape(65), (7.0, vec![17, 17, 17, 17]), "64 columns, each block with the first");
    }

    #[test]
    fn wide_columns_share_the_remaining_width() {
        assert_eq!(most(&[20.0, 30.0, 500.0, 900.0], 450.0), 200.0);
        assert_eq!(most(&[20.0, 30.0], 450.0), f64::INFINITY);
        let sheet = sheet(2, 1, &"word ".repeat(60));
        let layout = Layout::for_sheet(&sheet);
        assert!(layout.blocks[0].iter().all(|column| column.wrapped && column.width > 230.0));
    }

    #[test]
    fn rows_are_split_into_pages() {
        let rows =
            |sheet: &Sheet| Layout::for_sheet(sheet).pages.iter().map(|page| page.len()).collect::<Vec<_>>();
        assert_eq!(rows(&sheet(65, 64, "123.4")), [64], "a matrix of 64 nodes");
        let many = rows(&sheet(3, 300, "1"));
        assert!(many.len() > 3 && many.iter().sum::<usize>() == 300, "{many:?}");
        assert_eq!(rows(&sheet(3, 0, "1")), [0]);
        let long = rows(&sheet(2, 20, &"word ".repeat(200)));
        assert!(long.iter().all(|page| *page < 8), "{long:?}");
    }
}
