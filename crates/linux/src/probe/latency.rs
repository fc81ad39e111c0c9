use crate::Root;
use numaio_machine::probe::{LatencyOutcome, ProbeError};
use numaio_machine::workload::LatencyWorkload;
pub fn latency(
    _root: &Root,
    _limit_bytes: Option<u64>,
    workload: &LatencyWorkload,
) -> Result<LatencyOutcome, ProbeError> {
    Err(ProbeError::Unsupported { what: format!("{workload:?}") })
}
