//! A report as plain tables, shared by the LaTeX and Markdown formats.

mod comparison;
mod io;
mod machine;
mod matrix;
mod model;
mod sheet;
mod sweep;

pub(crate) use io::sheet as io_sheet;
pub(crate) use sheet::{Align, Section, Sheet, Text};

use crate::bundle::MachineDocuments;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::View;

/// Returns all tables of a machine, by subject.
pub(crate) fn sections(machine: &MachineDocuments, unit: BandwidthUnit) -> Vec<Section> {
    let views = views(machine);
    let models = machine.models.iter().flat_map(|model| {
        let classes = model::class_sheets(model, &views, unit);
        classes.into_iter().chain(matrix::copy_sheets(model, unit))
    });
    let streams = machine.streams.iter().flat_map(|record| matrix::stream_sheets(record, unit));
    let sweeps = machine.sweeps.iter().flat_map(|record| sweep::sheets(record, unit));
    let latencies = machine.latencies.iter().flat_map(|record| matrix::latency_sheets(record, unit));
    let ios = machine.ios.iter().map(|record| io::sheet(record, unit));
    let compared = machine.comparisons.iter().flat_map(|comparison| comparison::sheets(comparison, unit));
    let uncompared = comparison::uncompared_views(&machine.views, unit);
    let sections = [
        Section { title: "Machine and measurements", sheets: machine::sheets(machine) },
        Section { title: "I/O bandwidth model", sheets: models.collect() },
        Section { title: "STREAM", sheets: streams.collect() },
        Section { title: "Programs", sheets: sweeps.collect() },
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
