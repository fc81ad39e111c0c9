//! Tables of a machine: identity, measurements, findings and warnings.

use super::sheet::{Align, Sheet};
use super::{mmio, ping};
use crate::bundle::MachineDocuments;
use crate::expectation_text::{self, COLUMNS};
use crate::record_header::{self, beside_load, conditions, date};
use crate::{io_text, latency_text, phrases, stream_text, sweep_text};
use numaio_machine::units::BandwidthUnit;
use numaio_schema::{MachineSource, Provenance};

/// Returns the tables of a machine.
pub(super) fn sheets(machine: &MachineDocuments, unit: BandwidthUnit) -> Vec<Sheet> {
    let mut sheets = vec![about(machine, unit)];
    sheets.extend(expected(machine, unit));
    sheets.extend(findings(machine));
    sheets.extend(warnings(machine));
    sheets
}

/// A measurement: its subject, provenance and method.
struct Measurement<'a> {
    subject: &'static str,
    provenance: &'a Provenance,
    method: String,
}

fn measurements(machine: &MachineDocuments) -> Vec<Measurement<'_>> {
    let models = machine.models.iter().map(|model| Measurement {
        subject: "Copies",
        provenance: &model.record.provenance,
        method: record_header::method(&model.record),
    });
    let streams = machine.streams.iter().map(|record| Measurement {
        subject: "STREAM",
        provenance: &record.provenance,
        method: stream_text::method_sentence(record),
    });
    let sweeps = machine.sweeps.iter().map(|record| Measurement {
        subject: "Program",
        provenance: &record.provenance,
        method: format!("{}: {}", record.method.name, sweep_text::method_sentence(record)),
    });
    let latencies = machine.latencies.iter().map(|record| Measurement {
        subject: "Latency",
        provenance: &record.provenance,
        method: latency_text::method_sentence(record),
    });
    let ios = machine.ios.iter().map(|record| Measurement {
        subject: "I/O",
        provenance: &record.provenance,
        method: format!(
            "{}: {}",
            record.device.name,
            io_text::method_sentence(&record.method, &record.cells)
        ),
    });
    let aggregates = machine.aggregates.iter().map(|record| Measurement {
        subject: "I/O",
        provenance: &record.provenance,
        method: format!("{}: {}", record.names(), io_text::method_sentence(&record.method, &record.cells)),
    });
    let pings = machine.pings.iter().map(|record| Measurement {
        subject: "Network latency",
        provenance: &record.provenance,
        method: format!("{}: {}", record.device.name, ping::method_sentence(record)),
    });
    let mmios = machine.mmios.iter().map(|record| Measurement {
        subject: "MMIO reads",
        provenance: &record.provenance,
        method: format!("{}: {}", record.device.name, mmio::method_sentence(record)),
    });
    models
        .chain(streams)
        .chain(sweeps)
        .chain(latencies)
        .chain(ios)
        .chain(aggregates)
        .chain(pings)
        .chain(mmios)
        .collect()
}

/// Returns what the devices can transfer, and what nodes cost them.
fn expected(machine: &MachineDocuments, unit: BandwidthUnit) -> Option<Sheet> {
    let rows = expectation_text::rows(&machine.expected, unit);
    let mut sheet =
        Sheet::new(format!("Devices: bandwidth in {unit}, and what nodes cost"), COLUMNS, Align::Left);
    sheet.notes = expectation_text::at_once(&machine.expected);
    rows.into_iter().for_each(|row| sheet.row(row));
    (!sheet.rows.is_empty()).then_some(sheet)
}

fn about(machine: &MachineDocuments, unit: BandwidthUnit) -> Sheet {
    let mut sheet = Sheet::new("Machine and measurements", ["", ""], Align::Left);
    let mut row = |name: &str, text: String| {
        if !text.is_empty() {
            sheet.row([name.to_owned(), text]);
        }
    };
    if let Some(identity) = machine.identity() {
        row("Machine", phrases::machine_name(identity));
        row("Kind", phrases::machine_kind(identity));
    }
    if let Some(topology) = &machine.topology {
        row("Size", phrases::machine_size(topology));
        row("Discovered", machine.observed_at.map(date).unwrap_or_default());
    }
    row("Fingerprint", machine.fingerprint.clone());
    let measurements = measurements(machine);
    let mut listed: Vec<String> = Vec::new();
    for Measurement { subject, provenance, method } in &measurements {
        row(subject, format!("{}; {method}", measured(machine, provenance, unit)));
        for (name, text) in
            [("Source", source(provenance)), ("Conditions", conditions(&provenance.conditions.0))]
        {
            // Usually equal for all measurements.
            if !listed.contains(&text) {
                row(name, text.clone());
                listed.push(text);
            }
        }
    }
    sheet
}

fn measured(machine: &MachineDocuments, provenance: &Provenance, unit: BandwidthUnit) -> String {
    let complete = if provenance.complete { "" } else { ", incomplete" };
    let host = machine.other_host(provenance).map(|host| format!(" on host {}", phrases::short(host)));
    let (when, host) = (date(provenance.measured_at), host.unwrap_or_default());
    let load = beside_load(provenance, unit);
    format!("measured {when}{host} by numaio {}{complete}{load}", provenance.numaio)
}

fn source(provenance: &Provenance) -> String {
    match &provenance.source {
        MachineSource::Live => String::new(),
        MachineSource::Simulated => "simulated: these values are not from a real machine".to_owned(),
        MachineSource::Tape { name, note } if note.is_empty() => format!("the tape {name}"),
        MachineSource::Tape { name, note } => format!("the tape {name}: {note}"),
    }
}

fn findings(machine: &MachineDocuments) -> Option<Sheet> {
    let found = &machine.topology.as_ref()?.findings;
    let head = ["Severity", "Finding", "Evidence", "Remedy"];
    let mut sheet = Sheet::new("Findings", head, Align::Left);
    for finding in phrases::group_findings(found) {
        sheet.row([
            phrases::severity(finding.severity).to_owned(),
            finding.sentence(),
            phrases::joined(&finding.evidence, "; "),
            finding.remedy.clone(),
        ]);
    }
    (!sheet.rows.is_empty()).then_some(sheet)
}

fn warnings(machine: &MachineDocuments) -> Option<Sheet> {
    let mut sheet = Sheet::new("Warnings", ["Measurement", "Warning"], Align::Left);
    for Measurement { subject, provenance, .. } in measurements(machine) {
        for warning in &provenance.warnings {
            sheet.row([subject.to_owned(), warning.message.clone()]);
        }
    }
    // A comparison repeats the warnings of its measurements.
    let own: Vec<String> = sheet.rows.iter().map(|row| row[1].text.clone()).collect();
    for warning in machine.comparisons.iter().flat_map(|comparison| &comparison.warnings) {
        if !own.iter().any(|own| warning.message.ends_with(own)) {
            sheet.row(["Comparison".to_owned(), warning.message.clone()]);
        }
    }
    (!sheet.rows.is_empty()).then_some(sheet)
}
