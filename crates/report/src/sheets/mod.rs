//! A report as plain tables, shared by the LaTeX and Markdown formats.

mod aggregate;
mod comparison;
mod fleet;
mod io;
mod machine;
mod matrix;
mod mmio;
mod model;
mod ping;
mod sheet;
mod sweep;

pub(crate) use aggregate::sheets as aggregate_sheets;
pub(crate) use io::sheet as io_sheet;
pub(crate) use mmio::{
    method_sentence as mmio_method, register_sentence as mmio_register, sheet as mmio_sheet,
};
pub(crate) use ping::{method_sentence as ping_method, sheets as ping_sheets};
pub(crate) use sheet::{Align, Section, Sheet, Text};

use crate::bundle::{Bundle, MachineDocuments};
use crate::phrases::count;
use crate::record_header::beside_load;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::{FleetSummary, GroupSummary, Provenance, View};

/// All tables of a machine or of a group of like hosts.
pub(crate) struct Chapter {
    /// The name of the machine or group.
    pub title: String,
    /// Whether requested values are missing or unsettled.
    pub is_incomplete: bool,
    /// The tables, by subject.
    pub sections: Vec<Section>,
}

/// The remark of an incomplete chapter.
pub(crate) const INCOMPLETE: &str = "Incomplete: some requested values are missing or unsettled.";

/// Returns a chapter for each machine.
pub(crate) fn machine_chapters(bundle: &Bundle, unit: BandwidthUnit) -> Vec<Chapter> {
    let chapter = |machine| Chapter {
        title: machine_title(machine),
        is_incomplete: machine.is_incomplete(),
        sections: sections(machine, unit),
    };
    bundle.machines.iter().map(chapter).collect()
}

/// Returns a chapter for each group of a fleet.
pub(crate) fn fleet_chapters(summary: &FleetSummary, unit: BandwidthUnit) -> Vec<Chapter> {
    let chapter = |group: &GroupSummary| Chapter {
        title: format!("Group {}: {}", group.group.name, count(group.group.hosts.len(), "host")),
        is_incomplete: false,
        sections: fleet::sections(group, unit),
    };
    summary.groups.iter().map(chapter).collect()
}

/// Returns all tables of a machine, by subject.
fn sections(machine: &MachineDocuments, unit: BandwidthUnit) -> Vec<Section> {
    let views = views(machine);
    let models = machine.models.iter().flat_map(|model| {
        let classes = model::class_sheets(model, &views, unit);
        let sheets = classes.into_iter().chain(matrix::copy_sheets(model, unit));
        with_load(&model.record.provenance, unit, sheets.collect())
    });
    let streams = machine
        .streams
        .iter()
        .flat_map(|record| with_load(&record.provenance, unit, matrix::stream_sheets(record, unit)));
    let sweeps = machine
        .sweeps
        .iter()
        .flat_map(|record| with_load(&record.provenance, unit, sweep::sheets(record, unit)));
    let latencies = machine
        .latencies
        .iter()
        .flat_map(|record| with_load(&record.provenance, unit, matrix::latency_sheets(record, unit)));
    let ios = machine
        .ios
        .iter()
        .flat_map(|record| with_load(&record.provenance, unit, vec![io::sheet(record, unit)]));
    let aggregates = machine
        .aggregates
        .iter()
        .flat_map(|record| with_load(&record.provenance, unit, aggregate::sheets(record, unit)));
    let pings = machine
        .pings
        .iter()
        .flat_map(|record| with_load(&record.provenance, unit, ping::sheets(record, unit)));
    let mmios = machine
        .mmios
        .iter()
        .flat_map(|record| with_load(&record.provenance, unit, vec![mmio::sheet(record)]));
    let compared = machine.comparisons.iter().flat_map(|comparison| comparison::sheets(comparison, unit));
    let uncompared = comparison::uncompared_views(&machine.views, unit);
    let sections = [
        Section { title: "Machine and measurements", sheets: machine::sheets(machine, unit) },
        Section { title: "I/O bandwidth model", sheets: models.collect() },
        Section { title: "STREAM", sheets: streams.collect() },
        Section { title: "Programs", sheets: sweeps.collect() },
        Section { title: "Latency", sheets: latencies.collect() },
        Section { title: "Measured I/O", sheets: ios.chain(aggregates).collect() },
        Section { title: "Network latency", sheets: pings.collect() },
        Section { title: "MMIO reads", sheets: mmios.collect() },
        Section { title: "Comparison of views", sheets: compared.chain(uncompared).collect() },
    ];
    sections.into_iter().filter(|section| !section.sheets.is_empty()).collect()
}

/// Adds the load beside a measurement to the titles of its tables.
fn with_load(provenance: &Provenance, unit: BandwidthUnit, mut sheets: Vec<Sheet>) -> Vec<Sheet> {
    let load = beside_load(provenance, unit);
    for sheet in &mut sheets {
        sheet.title.push_str(&load);
    }
    sheets
}

/// Returns the name of a machine for headings.
fn machine_title(machine: &MachineDocuments) -> String {
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
