//! What a machine is, what looks wrong with it, and how it was measured.

use super::{Sheet, Text};
use crate::bundle::MachineDocuments;
use crate::model_text::head::date;
use crate::words;
use numaio_schema::{MachineSource, Provenance};

pub(super) fn of(machine: &MachineDocuments) -> Vec<Sheet> {
    let mut sheets = vec![about(machine)];
    sheets.extend(findings(machine));
    sheets.extend(warnings(machine));
    sheets
}

fn about(machine: &MachineDocuments) -> Sheet {
    let mut sheet = Sheet::new("Machine and measurements", ["", ""]);
    if let Some(identity) = machine.identity() {
        sheet.row([Text::from("Machine"), Text::long(words::machine_name(identity))]);
        sheet.row([Text::from("Kind"), Text::long(words::machine_kind(identity))]);
        sheet.row([Text::from("Kernel"), Text::long(identity.kernel.clone())]);
    }
    if let Some(topology) = &machine.topology {
        sheet.row([Text::from("Size"), Text::long(words::machine_size(topology))]);
    }
    sheet.row([Text::from("Fingerprint"), Text::from(machine.fingerprint.clone())]);
    for (what, provenance) in provenances(machine) {
        sheet.row([Text::from(what), Text::long(measured(provenance))]);
    }
    sheet
}

/// Each measurement, and where it comes from.
fn provenances(machine: &MachineDocuments) -> Vec<(&'static str, &Provenance)> {
    let models = machine.models.iter().map(|model| ("Copies", &model.record.provenance));
    let streams = machine.streams.iter().map(|record| ("STREAM", &record.provenance));
    let latencies = machine.latencies.iter().map(|record| ("Latency", &record.provenance));
    models.chain(streams).chain(latencies).collect()
}

fn measured(provenance: &Provenance) -> String {
    let time = date(provenance.measured_at);
    let source = match &provenance.source {
        MachineSource::Live => String::new(),
        MachineSource::Simulated => ", simulated".to_owned(),
        MachineSource::Tape { name, note } if note.is_empty() => format!(", recorded as {name}"),
        MachineSource::Tape { name, note } => format!(", recorded as {name} ({note})"),
    };
    let complete = if provenance.complete { "" } else { "; incomplete" };
    format!("measured {time} by numaio {}{source}{complete}", provenance.numaio)
}

fn findings(machine: &MachineDocuments) -> Option<Sheet> {
    let found = &machine.topology.as_ref()?.findings;
    let mut sheet = Sheet::new("What looks wrong", ["Severity", "Finding", "Evidence", "Remedy"]);
    for finding in words::same_findings(found) {
        let about = format!("{}: {}", words::joined(&finding.subjects, ", "), finding.what);
        let [about, evidence, remedy] =
            [about, words::joined(&finding.evidence, "; "), finding.remedy.clone()].map(Text::long);
        sheet.row([Text::from(words::severity(finding.severity)), about, evidence, remedy]);
    }
    (!sheet.rows.is_empty()).then_some(sheet)
}

fn warnings(machine: &MachineDocuments) -> Option<Sheet> {
    let mut sheet = Sheet::new("What makes figures doubtful", ["Measurement", "Warning"]);
    for (what, provenance) in provenances(machine) {
        for warning in &provenance.warnings {
            sheet.row([Text::from(what), Text::long(warning.what.clone())]);
        }
    }
    for warning in machine.comparisons.iter().flat_map(|comparison| &comparison.warnings) {
        sheet.row([Text::from("Comparison"), Text::long(warning.what.clone())]);
    }
    (!sheet.rows.is_empty()).then_some(sheet)
}
