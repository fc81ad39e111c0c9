//! Metrics for monitoring: transfers, jobs, devices, findings and the model.
//!
//! Names of users are personal data and numerous, so they are labels on request only.

mod balance;
mod machine;
mod table;
mod transfers;

pub use balance::{balance_metrics_text, BalanceTotals};
pub use table::MetricsFormat;
pub use transfers::DaemonStatus;

use numaio_machine::findings::Finding;
use numaio_machine::topology::Topology;
use numaio_schema::{Job, Model, TransferTotals};
use std::fmt;
use table::MetricTable;

/// The sources of metrics.
#[derive(Debug, Default)]
pub struct MetricSources<'a> {
    /// Version of numaio.
    pub version: &'a str,
    /// Whether names of users are labels.
    pub by_user: bool,
    /// Finished sessions of a daemon, if it keeps records.
    pub transfers: Option<&'a TransferTotals>,
    /// The state of that daemon.
    pub daemon: DaemonStatus<'a>,
    /// Jobs of this user.
    pub jobs: &'a [Job],
    /// The machine.
    pub topology: Option<&'a Topology>,
    /// Bytes that devices have moved, by index in the topology.
    pub device_bytes: &'a [(usize, u64)],
    /// Findings about the machine.
    pub findings: &'a [Finding],
    /// The saved model.
    pub model: Option<&'a Model>,
}

/// Formats metrics.
///
/// # Errors
/// None that a string could cause.
pub fn metrics_text(sources: &MetricSources<'_>, format: MetricsFormat) -> Result<String, fmt::Error> {
    let mut table = MetricTable::default();
    let version = vec![("version", sources.version.to_owned())];
    table.gauge("numaio_build_info", None, "Version of numaio").add(version, 1_u64);
    if let Some(totals) = sources.transfers {
        transfers::add_totals(&mut table, totals, sources.by_user);
    }
    transfers::add_daemon(&mut table, sources.daemon, sources.by_user);
    transfers::add_jobs(&mut table, sources.jobs);
    if let Some(topology) = sources.topology {
        machine::add_devices(&mut table, topology, sources.device_bytes);
        machine::add_findings(&mut table, sources.findings);
    }
    if let Some(model) = sources.model {
        machine::add_model(&mut table, model);
    }
    table.into_text(format)
}

#[cfg(test)]
mod tests;
