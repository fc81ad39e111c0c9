//! Errors of workloads that cannot run as requested.

use numaio_machine::probe::ProbeError;

/// Returns the error for an invalid workload.
pub fn refused<T>(what: &str, why: impl Into<String>) -> Result<T, ProbeError> {
    Err(ProbeError::Refused { call: what.to_owned(), reason: why.into() })
}
