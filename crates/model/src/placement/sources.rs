//! Measurements by which nodes are ranked.

use numaio_machine::devices::Device;
use numaio_schema::{CounterRecord, Document, IoRecord, Model};

/// Measurements by which nodes are ranked for a device.
///
/// I/O of the device comes first, then copies between the nodes, which bound it. Scheduling factors
/// (Eq. 3.2) rank the nodes without bandwidths; without all of them, packages and hop distances
/// decide. Latency ranks nodes if it is requested, and those of equal bandwidth.
#[derive(Debug, Clone, Copy, Default)]
pub struct RankingSources<'a> {
    /// Models, newest first.
    pub models: &'a [&'a Model],
    /// Measured I/O of this machine, newest first.
    pub records: &'a [&'a IoRecord],
    /// Devices that transfer at the same time.
    pub beside: &'a [&'a Device],
    /// Measured latencies of this machine, newest first: register reads, messages and loads.
    pub latencies: &'a [&'a Document],
    /// Counted events with scheduling factors.
    pub counters: Option<&'a CounterRecord>,
}

impl<'a> From<&'a [&'a Model]> for RankingSources<'a> {
    fn from(models: &'a [&'a Model]) -> Self {
        Self { models, ..Self::default() }
    }
}

impl<'a> From<&'a Vec<&'a Model>> for RankingSources<'a> {
    fn from(models: &'a Vec<&'a Model>) -> Self {
        models.as_slice().into()
    }
}

impl<'a, const N: usize> From<&'a [&'a Model; N]> for RankingSources<'a> {
    fn from(models: &'a [&'a Model; N]) -> Self {
        models.as_slice().into()
    }
}
