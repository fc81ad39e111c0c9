//! Measurements by which nodes are ranked.

use numaio_schema::{CounterRecord, Model};

/// Measurements by which nodes are ranked for a device.
///
/// A model comes first: it measures bandwidth. Scheduling factors (Eq. 3.2) rank the nodes without
/// bandwidths; without both, packages and hop distances decide.
#[derive(Debug, Clone, Copy, Default)]
pub struct RankingSources<'a> {
    /// Models, newest first.
    pub models: &'a [&'a Model],
    /// Counted events with scheduling factors.
    pub counters: Option<&'a CounterRecord>,
}

impl<'a> From<&'a [&'a Model]> for RankingSources<'a> {
    fn from(models: &'a [&'a Model]) -> Self {
        Self { models, counters: None }
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
