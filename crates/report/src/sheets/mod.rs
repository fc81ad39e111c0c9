//! A report as plain tables, shared by the LaTeX and Markdown formats.

mod comparison;
mod io;
mod machine;
mod matrix;
mod model;

pub(crate) use io::sheet as io_sheet;

use crate::bundle::MachineDocuments;
use crate::number_format::NumberFormat;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::View;

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
    fn new<T: Into<String>>(
        title: impl Into<String>,
        head: impl IntoIterator<Item = T>,
        others: Align,
    ) -> Self {
        let head: Vec<String> = head.into_iter().map(Into::into).collect();
        let mut aligned = vec![others; head.len()];
        aligned[..1.min(head.len())].fill(Align::Left);
        Self { title: title.into(), notes: Vec::new(), over: None, head, aligned, rows: Vec::new() }
    }

    fn row<T: Into<Text>>(&mut self, texts: impl IntoIterator<Item = T>) {
        self.rows.push(texts.into_iter().map(Into::into).collect());
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// Returns all tables of a machine, by subject.
pub(crate) fn sections(machine: &MachineDocuments, unit: BandwidthUnit) -> Vec<Section> {
    let views = views(machine);
    let models = machine.models.iter().flat_map(|model| {
        let classes = model::class_sheets(model, &views, unit);
        classes.into_iter().chain(matrix::copy_sheets(model, unit))
    });
    let streams = machine.streams.iter().flat_map(|record| matrix::stream_sheets(record, unit));
    let latencies = machine.latencies.iter().flat_map(|record| matrix::latency_sheets(record, unit));
    let ios = machine.ios.iter().map(|record| io::sheet(record, unit));
    let compared = machine.comparisons.iter().flat_map(|comparison| comparison::sheets(comparison, unit));
    let uncompared = comparison::uncompared_views(&machine.views, unit);
    let sections = [
        Section { title: "Machine and measurements", sheets: machine::sheets(machine) },
        Section { title: "I/O bandwidth model", sheets: models.collect() },
        Section { title: "STREAM", sheets: streams.collect() },
        Section { title: "Latency", sheets: latencies.collect() },
        Section { title: "Measured I/O", sheets: ios.collect() },
        Section { title: "Comparison of views", sheets: compared.chain(uncompared).collect() },
    ];
    sections.into_iter().filter(|section| !section.sheets.is_empty()).collect()
}

/// Returns the name of a machine for headings.
pub(crate) fn machine_title(machine: &MachineDocuments) -> String {
    machine
        .identity()
        .map_or_else(|| format!("machine {}", machine.fingerprint), crate::phrases::machine_name)
}

/// Returns each view of a machine once, in or outside comparisons.
fn views(machine: &MachineDocuments) -> Vec<&View> {
    let mut views: Vec<&View> = Vec::new();
    let compared = machine.comparisons.iter().flat_map(|comparison| &comparison.views);
    for view in machine.views.iter().chain(compared) {
        if !views.iter().any(|known| known.target == view.target && known.name == view.name) {
            views.push(view);
        }
    }
    views
}

/// Formats a range as `26.0–27.3`, or as one number if both ends have the same text.
fn range(figures: NumberFormat, min: f64, max: f64) -> String {
    let (min, max) = (figures.format(min), figures.format(max));
    if min == max {
        min
    } else {
        format!("{min}–{max}")
    }
}
