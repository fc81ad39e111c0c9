//! Stored documents, read from files.

use crate::failure::{self, Failure};
use crate::input;
use numaio_schema::Document;
use std::path::Path;

/// Reads a document of any kind.
pub fn read(path: &Path) -> Result<Document, Failure> {
    let text = input::text(path)?;
    Document::from_json(&text).map_err(|error| failure::not_that_document(path, &error))
}

/// Fingerprint of the machine that a document is about.
pub fn machine_of(document: &Document) -> String {
    match document {
        Document::Topology(document) => document.topology.identity.fingerprint.clone(),
        Document::Record(record) => record.provenance.machine.fingerprint.clone(),
        Document::Model(model) => model.record.provenance.machine.fingerprint.clone(),
        Document::Stream(record) => record.provenance.machine.fingerprint.clone(),
        Document::Latency(record) => record.provenance.machine.fingerprint.clone(),
        Document::Io(record) => record.provenance.machine.fingerprint.clone(),
        Document::View(view) => view.machine.clone(),
        Document::Comparison(comparison) => comparison.machine.fingerprint.clone(),
        Document::Placement(plan) => plan.machine.fingerprint.clone(),
        Document::Receipt(receipt) => receipt.machine.clone(),
    }
}
