//! Content that the store derives from documents: the host, facts, figures, findings and
//! conditions.

use numaio_fleet::store::{ContentFigure, ContentFinding, DocumentContent, HostClaim};
use numaio_machine::conditions::Conditions;
use numaio_machine::findings::{Finding, Severity};
use numaio_machine::tape::Tape;
use numaio_model::fleet;
use numaio_schema::{Document, DocumentError, DocumentSubject, HostReport, HOST_REPORT_SCHEMA};
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
        let measured = document.origin().fingerprint;
        if !measured.is_empty() && measured != fingerprint {
            return Err(format!("documents[{index}] describes machine {measured}, the report another one"));
        }
        found.push(document);
    }
    Ok(found)
}

fn of_document_text(text: &str) -> Result<DocumentContent, String> {
    match Document::from_json(text) {
        Ok(document) => of_document(&document),
        Err(DocumentError::WrongKind { found, .. }) => {
            Err(format!("'{}' is not a document of a host", found.escape_debug()))
        }
        Err(error) => Err(explain(text, &error)),
    }
}

fn of_document(document: &Document) -> Result<DocumentContent, String> {
    match document.kind().subject() {
        DocumentSubject::Host => {}
        DocumentSubject::HostUse => {
            return Err("it describes work of a host, not what was measured on it".to_owned())
        }
        DocumentSubject::Fleet => return Err("it describes many hosts".to_owned()),
    }
    let origin = document.origin();
    let identity = origin.identity();
    let mut content = DocumentContent {
        kind: document.kind().schema().to_owned(),
        numaio: origin.provenance.map(|provenance| provenance.numaio.clone()).unwrap_or_default(),
        host: HostClaim { name: identity.hostname, machine_id: None, fingerprint: identity.fingerprint },
        measured_at: origin.time.unwrap_or(0),
        figures: figures(document),
        conditions: origin.provenance.map(|it| conditions(&it.conditions.0)).unwrap_or_default(),
        ..DocumentContent::default()
    };
    if let Document::Topology(document) = document {
        content.facts = Some(fleet::facts_of_topology(document));
        content.findings = findings(&document.topology.findings);
    }
    if let Document::Diagnosis(diagnosis) = document {
        content.numaio.clone_from(&diagnosis.numaio);
        content.findings = findings(diagnosis.findings.iter().map(|found| &found.finding));
    }
    Ok(content)
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
