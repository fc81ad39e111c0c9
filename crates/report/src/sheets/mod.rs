//! A report as plain tables, for every form that is made of them: LaTeX and Markdown.

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
    pub title: &'static str,
    pub sheets: Vec<Sheet>,
}

/// A table with a caption.
pub(crate) struct Sheet {
    pub title: String,
    /// Sentences below the table.
    pub notes: Vec<String>,
    /// What all columns but the first are, where their own titles are mere numbers.
    pub over: Option<&'static str>,
    /// Titles of the columns.
    pub head: Vec<String>,
    /// How the columns stand; one for each title.
    pub aligned: Vec<Align>,
    /// Each row has a text for each title.
    pub rows: Vec<Vec<Text>>,
}

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Names and sentences.
    Left,
    /// Numbers with the same decimals.
    Right,
    /// Sets and ranges above numbers.
    Center,
}

/// A text in a table.
pub(crate) struct Text {
    pub text: String,
    /// Whether it is the best of its column.
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
    /// A table whose first column stands left, and all others as told.
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

/// All tables of a machine, by subject.
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
    let alone = comparison::uncompared_views(&machine.views, unit);
    let sections = [
        Section { title: "Machine and measurements", sheets: machine::sheets(machine) },
        Section { title: "I/O bandwidth model", sheets: models.collect() },
        Section { title: "STREAM", sheets: streams.collect() },
        Section { title: "Latency", sheets: latencies.collect() },
        Section { title: "Measured I/O", sheets: ios.collect() },
        Section { title: "Comparison of views", sheets: compared.chain(alone).collect() },
    ];
    sections.into_iter().filter(|section| !section.sheets.is_empty()).collect()
}

/// What a machine is called in headings.
pub(crate) fn machine_title(machine: &MachineDocuments) -> String {
    machine
        .identity()
        .map_or_else(|| format!("machine {}", machine.fingerprint), crate::phrases::machine_name)
}

/// Views of a machine's targets, those in comparisons and those alone, each once.
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

/// `26.0–27.3`, or one figure where both ends look the same.
fn range(figures: NumberFormat, min: f64, max: f64) -> String {
    let (min, max) = (figures.format(min), figures.format(max));
    if min == max {
        min
    } else {
        format!("{min}–{max}")
    }
}
