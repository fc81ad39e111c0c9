//! Content that the store derives from a document.

use numaio_schema::{Fact, FigureKey};

/// The content of a document in the store's derived tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DocumentContent {
    /// The schema of the document, such as `numaio/host-report/1`.
    pub kind: String,
    /// Version of numaio that wrote it; empty if unknown.
    pub numaio: String,
    /// The fleet run; empty outside of one.
    pub run: String,
    /// Why its command failed.
    pub failure: Option<String>,
    /// The host.
    pub host: HostClaim,
    /// Time of measurement or discovery, in seconds since 1970 by the host's clock; 0 if unknown.
    pub measured_at: u64,
    /// The facts, if the document describes the host.
    pub facts: Option<Vec<Fact>>,
    /// The figures.
    pub figures: Vec<ContentFigure>,
    /// The findings.
    pub findings: Vec<ContentFinding>,
    /// Settings and load during the measurement, by name.
    pub conditions: Vec<(String, String)>,
}

/// A figure: its key, time of measurement in seconds since 1970, value and 95 % interval.
pub type ContentFigure = (FigureKey, u64, f64, (f64, f64));

/// How a document names its host. Unknown fields are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostClaim {
    /// The name that the fleet uses.
    pub name: String,
    /// Hash of the machine-id, which distinguishes hosts of one name.
    pub machine_id: Option<String>,
    /// The fingerprint. Identical hosts share it.
    pub fingerprint: String,
}

/// A finding of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentFinding {
    /// `note`, `warning` or `problem`.
    pub severity: String,
    /// The rule.
    pub rule: String,
    /// The affected object.
    pub subject: String,
    /// One sentence.
    pub message: String,
}

/// Derives the content of a document from its text; the error states why it is rejected.
pub type Derive<'a> = &'a (dyn Fn(&str) -> Result<DocumentContent, String> + Sync);
