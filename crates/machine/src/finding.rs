//! A finding: a suspicious condition, with its evidence and remedy.

use serde::{Deserialize, Serialize};

/// Importance of a finding for I/O bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Informative; no cost by itself.
    Note,
    /// Likely costs bandwidth, or makes measurements unreliable.
    Warning,
    /// Certainly costs bandwidth, or the machine's description is inconsistent.
    Problem,
}

/// A suspicious condition with its evidence and remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Importance.
    pub severity: Severity,
    /// Rule that produced it, stable across versions: `pcie-link-degraded`.
    pub rule: String,
    /// Affected object: `node 3`, `eth0`, `0000:3b:00.0`, `machine`.
    pub subject: String,
    /// One sentence that describes it.
    pub message: String,
    /// Files and values that show it.
    pub evidence: String,
    /// Suggested action.
    pub remedy: String,
}

impl Finding {
    /// Creates a finding.
    pub fn new(
        severity: Severity,
        rule: &str,
        subject: impl Into<String>,
        message: impl Into<String>,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            rule: rule.to_owned(),
            subject: subject.into(),
            message: message.into(),
            evidence: evidence.into(),
            remedy: remedy.into(),
        }
    }
}
