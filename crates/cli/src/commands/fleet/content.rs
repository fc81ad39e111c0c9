//! What the store derives from documents: the host, facts, figures, findings and conditions.

use crate::documents;
use numaio_fleet::store::{ContentFigure, ContentFinding, DocumentContent, HostClaim};
use numaio_machine::conditions::Conditions;
use numaio_machine::findings::{Finding, Severity};
use numaio_machine::tape::Tape;
use numaio_model::fleet;
use numaio_schema::{Diagnosis, Document, DocumentError, HostReport, HOST_REPORT_SCHEMA};
use serde_json::value::RawValue;

/// Derives the content of a document of a host; the error states why it is rejected.
pub fn derive(text: &str) -> Result<DocumentContent, String> {
    match HostReport::with_document_texts(text) {
        Ok(report) => of_report(&report),
        Err(DocumentError::WrongKind { .. }) => of_document_text(text),
        Err(error) => Err(explain(text, &error)),
    }
}

/// Explains why a text is not a document.
fn explain(text: &str, error: &DocumentError) -> String {
    match error {
        DocumentError::NotJson(_) if Tape::parse(text).is_ok() => {
            "expected a document, found a tape: numaio model --machine TAPE --json writes one".to_owned()
        }
        _ => error.to_string(),
    }
}

fn of_report(report: &HostReport<Box<RawValue>>) -> Result<DocumentContent, String> {
    let identity = &report.topology.topology.identity;
    let documents = documents_of(report)?;
    let mut content = DocumentContent {
        kind: HOST_REPORT_SCHEMA.to_owned(),
        numaio: report.numaio.clone(),
        run: report.run.clone(),
        failure: report.failure.clone(),
        host: HostClaim {
            name: report.host.clone(),
            machine_id: report.machine_id.clone(),
            fingerprint: identity.fingerprint.clone(),
        },
        measured_at: report.started_at,
        facts: Some(fleet::facts(report, &documents)),
        findings: findings(&report.topology.topology.findings),
        conditions: conditions(&report.conditions),
        ..DocumentContent::default()
    };
    content.figures.extend(documents.iter().flat_map(figures));
    if let Some(diagnosis) = &report.diagnosis {
        content.findings.extend(findings(diagnosis.findings.iter().map(|found| &found.finding)));
        content.findings.sort_by(|a, b| (&a.rule, &a.subject).cmp(&(&b.rule, &b.subject)));
        content.findings.dedup_by(|a, b| (&a.rule, &a.subject) == (&b.rule, &b.subject));
    }
    Ok(content)
}

/// Reads the documents of a report. Those of other kinds, such as a diagnosis, have no figures.
fn documents_of(report: &HostReport<Box<RawValue>>) -> Result<Vec<Document>, String> {
    let fingerprint = &report.topology.topology.identity.fingerprint;
    let mut found = Vec::new();
    for (index, text) in report.documents.iter().enumerate() {
        let document = match Document::from_json(text.get()) {
            Ok(document) => document,
            Err(DocumentError::WrongKind { .. }) => continue,
            Err(error) => return Err(format!("documents[{index}]: {error}")),
        };
        let measured = documents::identity(&document).fingerprint;
        if !measured.is_empty() && measured != *fingerprint {
            return Err(format!("documents[{index}] describes machine {measured}, the report another one"));
        }
        found.push(document);
    }
    Ok(found)
}

fn of_document_text(text: &str) -> Result<DocumentContent, String> {
    match Document::from_json(text) {
        Ok(document) => of_document(&document),
        Err(DocumentError::WrongKind { .. }) => match Diagnosis::from_json(text) {
            Ok(diagnosis) => Ok(of_diagnosis(&diagnosis)),
            Err(DocumentError::WrongKind { found, .. }) => {
                Err(format!("'{}' is not a document of a host", found.escape_debug()))
            }
            Err(error) => Err(error.to_string()),
        },
        Err(error) => Err(explain(text, &error)),
    }
}

fn of_diagnosis(diagnosis: &Diagnosis) -> DocumentContent {
    DocumentContent {
        kind: diagnosis.schema.clone(),
        numaio: diagnosis.numaio.clone(),
        host: HostClaim {
            name: diagnosis.machine.hostname.clone(),
            machine_id: None,
            fingerprint: diagnosis.machine.fingerprint.clone(),
        },
        measured_at: diagnosis.observed_at.unwrap_or_default(),
        findings: findings(diagnosis.findings.iter().map(|found| &found.finding)),
        ..DocumentContent::default()
    }
}

fn of_document(document: &Document) -> Result<DocumentContent, String> {
    let kind = kind(document).ok_or("it describes work of a host, not what was measured on it")?;
    let identity = documents::identity(document);
    let provenance = documents::provenance(document).map(|(_, provenance)| provenance);
    let topology = match document {
        Document::Topology(topology) => Some(topology),
        _ => None,
    };
    Ok(DocumentContent {
        kind: kind.to_owned(),
        numaio: provenance.map(|provenance| provenance.numaio.clone()).unwrap_or_default(),
        host: HostClaim { name: identity.hostname, machine_id: None, fingerprint: identity.fingerprint },
        measured_at: documents::measured_at(document),
        facts: topology.map(|document| fleet::facts_of_topology(document)),
        figures: figures(document),
        findings: topology.map(|document| findings(&document.topology.findings)).unwrap_or_default(),
        conditions: provenance.map(|provenance| conditions(&provenance.conditions.0)).unwrap_or_default(),
        ..DocumentContent::default()
    })
}

/// Returns the schema of a document that describes a host or measurements on it.
fn kind(document: &Document) -> Option<&str> {
    Some(match document {
        Document::Topology(document) => &document.schema,
        Document::Record(record) => &record.schema,
        Document::Model(model) => &model.schema,
        Document::Stream(record) => &record.schema,
        Document::Latency(record) => &record.schema,
        Document::Sweep(record) => &record.schema,
        Document::Counters(record) => &record.schema,
        Document::Io(record) => &record.schema,
        Document::Aggregate(record) => &record.schema,
        Document::Ping(record) => &record.schema,
        Document::Mmio(record) => &record.schema,
        Document::View(view) => &view.schema,
        Document::Comparison(comparison) => &comparison.schema,
        Document::Validation(validation) => &validation.schema,
        Document::Prediction(prediction) => &prediction.schema,
        _ => return None,
    })
}

/// Returns the figures of a document; values that are no numbers are left out.
fn figures(document: &Document) -> Vec<ContentFigure> {
    let is_finite =
        |(_, _, value, (low, high)): &ContentFigure| [value, low, high].iter().all(|v| v.is_finite());
    fleet::figures(document).into_iter().filter(is_finite).collect()
}

fn findings<'a>(found: impl IntoIterator<Item = &'a Finding>) -> Vec<ContentFinding> {
    let content = |found: &Finding| ContentFinding {
        severity: match found.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        }
        .to_owned(),
        rule: found.rule.clone(),
        subject: found.subject.clone(),
        message: found.message.clone(),
    };
    found.into_iter().map(content).collect()
}

/// Returns the known conditions with their names in documents; text without its quotes.
fn conditions(conditions: &Conditions) -> Vec<(String, String)> {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(conditions) else { return Vec::new() };
    let known = fields.into_iter().filter(|(_, value)| !value.is_null());
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    known.map(|(name, value)| (name, text(value))).collect()
}
