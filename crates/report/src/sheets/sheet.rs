//! Tables with a caption.

use crate::number_format::NumberFormat;

/// Tables on one subject.
pub(crate) struct Section {
    /// Heading of the section.
    pub title: &'static str,
    /// Its tables.
    pub sheets: Vec<Sheet>,
}

/// A table with a caption.
pub(crate) struct Sheet {
    /// The caption.
    pub title: String,
    /// Sentences below the table.
    pub notes: Vec<String>,
    /// Heading above all columns except the first, if their titles are only numbers.
    pub over: Option<&'static str>,
    /// Titles of the columns.
    pub head: Vec<String>,
    /// Alignment of each column.
    pub aligned: Vec<Align>,
    /// Rows; each has a text for each column.
    pub rows: Vec<Vec<Text>>,
}

/// The figures of a class.
pub(super) struct ClassFigures {
    /// The rank; 1 is best.
    pub rank: u32,
    /// Lowest and highest figure.
    pub range: (f64, f64),
    /// Mean of the figures.
    pub mean: f64,
    /// Number of members.
    pub members: usize,
}

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// For names and sentences.
    Left,
    /// For numbers with equal decimals.
    Right,
    /// For sets and ranges above numbers.
    Center,
}

/// A text in a table.
pub(crate) struct Text {
    /// The text.
    pub text: String,
    /// Whether it is the best value of its column.
    pub best: bool,
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self { text, best: false }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Sheet {
    /// Creates a table with a left-aligned first column; `others` is the alignment of the rest.
    pub(super) fn new<T: Into<String>>(
        title: impl Into<String>,
        head: impl IntoIterator<Item = T>,
        others: Align,
    ) -> Self {
        let head: Vec<String> = head.into_iter().map(Into::into).collect();
        let mut aligned = vec![others; head.len()];
        aligned[..1.min(head.len())].fill(Align::Left);
        Self { title: title.into(), notes: Vec::new(), over: None, head, aligned, rows: Vec::new() }
    }

    pub(super) fn row<T: Into<Text>>(&mut self, texts: impl IntoIterator<Item = T>) {
        self.rows.push(texts.into_iter().map(Into::into).collect());
    }

    /// Removes those of these columns, in descending order, that have no content.
    pub(super) fn without_empty_columns(&mut self, columns: &[usize]) {
        for column in columns.iter().copied() {
            if self.rows.iter().all(|row| row[column].text.is_empty()) {
                self.head.remove(column);
                self.aligned.remove(column);
                self.rows.iter_mut().for_each(|row| drop(row.remove(column)));
            }
        }
    }

    /// Adds the rows of a class: its range, mean and number of members in the first one, members in
    /// each.
    pub(super) fn class(&mut self, class: &ClassFigures, figures: NumberFormat, members: Vec<String>) {
        let first = [
            class.rank.to_string(),
            range(figures, class.range.0, class.range.1),
            figures.format(class.mean),
            class.members.to_string(),
        ];
        for (index, members) in members.into_iter().enumerate() {
            let first = if index == 0 { first.clone() } else { Default::default() };
            self.row(first.into_iter().chain([members]));
        }
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// Formats a range as `26.0–27.3`, or as one number if both ends have the same text.
pub(super) fn range(figures: NumberFormat, min: f64, max: f64) -> String {
    let (min, max) = (figures.format(min), figures.format(max));
    if min == max {
        min
    } else {
        format!("{min}–{max}")
    }
}
