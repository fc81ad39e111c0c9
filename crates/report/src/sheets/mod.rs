//! A report as plain tables, for every form that is made of them: LaTeX and Markdown.

mod comparison;
mod machine;
mod matrix;
mod model;

use crate::bundle::MachineDocuments;
use numaio_machine::units::BandwidthUnit;

/// A table with a caption.
pub(crate) struct Sheet {
    pub title: String,
    /// Sentences below the table.
    pub notes: Vec<String>,
    /// Titles of the columns.
    pub head: Vec<String>,
    pub rows: Vec<Vec<Text>>,
}

/// A text in a table.
pub(crate) struct Text {
    pub text: String,
    /// Whether it is the best of its column.
    pub best: bool,
    /// Whether it is long and may be broken.
    pub long: bool,
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self { text, best: false, long: false }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Text {
    /// A text that may be broken into lines.
    fn long(text: impl Into<String>) -> Self {
        Self { long: true, ..text.into().into() }
    }
}

impl Sheet {
    fn new<T: Into<String>>(title: impl Into<String>, head: impl IntoIterator<Item = T>) -> Self {
        let head = head.into_iter().map(Into::into).collect();
        Self { title: title.into(), notes: Vec::new(), head, rows: Vec::new() }
    }

    /// Whether a column is of names or words and stands left.
    pub fn stands_left(&self, column: usize) -> bool {
        column == 0 || self.rows.iter().any(|row| row.get(column).is_some_and(|text| text.long))
    }

    fn row<T: Into<Text>>(&mut self, texts: impl IntoIterator<Item = T>) {
        self.rows.push(texts.into_iter().map(Into::into).collect());
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// All tables of a machine.
pub(crate) fn of(machine: &MachineDocuments, unit: BandwidthUnit) -> Vec<Sheet> {
    let mut sheets = machine::of(machine);
    for model in &machine.models {
        sheets.extend(model::of(model, &views(machine), unit));
        sheets.extend(matrix::of_copies(model, unit));
    }
    for stream in &machine.streams {
        sheets.extend(matrix::of_stream(stream, unit));
    }
    for latency in &machine.latencies {
        sheets.extend(matrix::of_latency(latency, unit));
    }
    for comparison in &machine.comparisons {
        sheets.extend(comparison::of(comparison, unit));
    }
    sheets
}

/// What a machine is called in headings.
pub(crate) fn name(machine: &MachineDocuments) -> String {
    machine.identity().map_or_else(|| format!("machine {}", machine.fingerprint), crate::words::machine_name)
}

/// Views of a machine's targets, those in comparisons and those alone.
fn views(machine: &MachineDocuments) -> Vec<&numaio_schema::View> {
    machine.comparisons.iter().flat_map(|comparison| &comparison.views).chain(&machine.views).collect()
}

/// A figure in a unit of bandwidth, with as many decimals as the largest of its table needs.
struct Scale {
    unit: BandwidthUnit,
    decimals: usize,
}

impl Scale {
    fn new(unit: BandwidthUnit, bytes_per_s: impl IntoIterator<Item = f64>) -> Self {
        let most = bytes_per_s.into_iter().map(|value| unit.of(value)).fold(0.0, f64::max);
        let decimals = match most {
            most if most >= 1000.0 => 0,
            most if most >= 100.0 => 1,
            most if most >= 1.0 => 2,
            _ => 3,
        };
        Self { unit, decimals }
    }

    fn show(&self, bytes_per_s: f64) -> String {
        format!("{:.*}", self.decimals, self.unit.of(bytes_per_s))
    }

    /// `26.0–27.3`, or one figure where both ends look the same.
    fn range(&self, min: f64, max: f64) -> String {
        let (min, max) = (self.show(min), self.show(max));
        if min == max {
            min
        } else {
            format!("{min}–{max}")
        }
    }
}
