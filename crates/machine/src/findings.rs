//! What looks wrong on a machine: a partial truth is a value plus findings, not an error.

use serde::{Deserialize, Serialize};

/// How much a finding matters for I/O bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; costs nothing by itself.
    Note,
    /// Probably costs bandwidth, or makes measurements doubtful.
    Warning,
    /// Certainly costs bandwidth, or the machine's description is broken.
    Problem,
}

/// One thing that looks wrong, with what shows it and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Which rule found it, stable across versions, as in `pcie-link-degraded`.
    pub rule: String,
    /// What it is about: `node 3`, `eth0`, `0000:3b:00.0`, `machine`.
    pub subject: String,
    /// One sentence for people.
    pub what: String,
    /// The files and values that show it.
    pub evidence: String,
    /// What to do about it.
    pub remedy: String,
}

/// Finds what looks wrong with the devices and settings of a machine.
pub fn find(
    _topology: &crate::topology::Topology,
    _conditions: &crate::conditions::Conditions,
) -> Vec<Finding> {
    Vec::new()
}
