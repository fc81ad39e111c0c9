//! Tables of metrics, and their text.

use crate::style::clean;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{prometheus_text, text, DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of series of a family.
const MAX_SERIES: usize = 2000;

/// A format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus, which node_exporter reads.
    Prometheus,
}

/// Names and values of the labels of a series.
pub type Labels = Vec<(&'static str, String)>;

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricValue {
    /// An integer.
    Integer(u64),
    /// A number with a fraction.
    Number(f64),
}

impl MetricValue {
    fn sum(self, other: Self) -> Self {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Self::Integer(a.saturating_add(b)),
            (a, b) => Self::Number(a.as_f64() + b.as_f64()),
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Number(value) => value,
        }
    }
}

impl From<u64> for MetricValue {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for MetricValue {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

/// Metrics of one name.
#[derive(Debug)]
struct MetricFamily {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: MetricType,
    series: BTreeMap<Labels, MetricValue>,
}

/// Families of metrics, in order.
#[derive(Debug, Default)]
pub struct MetricTable {
    families: Vec<MetricFamily>,
    /// Number of series beyond [`MAX_SERIES`].
    dropped: u64,
}

/// The family that values are added to.
pub struct FamilyMut<'t> {
    family: &'t mut MetricFamily,
    dropped: &'t mut u64,
}

impl MetricTable {
    /// Starts a family of counters, whose name without unit gets the suffix `_total`.
    pub fn counter(&mut self, name: &'static str, unit: Option<Unit>, help: &'static str) -> FamilyMut<'_> {
        self.start(MetricType::Counter, name, unit, help)
    }

    /// Starts a family of gauges.
    pub fn gauge(&mut self, name: &'static str, unit: Option<Unit>, help: &'static str) -> FamilyMut<'_> {
        self.start(MetricType::Gauge, name, unit, help)
    }

    fn start(
        &mut self,
        kind: MetricType,
        name: &'static str,
        unit: Option<Unit>,
        help: &'static str,
    ) -> FamilyMut<'_> {
        let at = self.families.len();
        self.families.push(MetricFamily { name, help, unit, kind, series: BTreeMap::new() });
        FamilyMut { family: &mut self.families[at], dropped: &mut self.dropped }
    }

    /// Formats all families that have a value.
    ///
    /// # Errors
    /// None that a string could cause.
    pub fn into_text(mut self, format: MetricsFormat) -> Result<String, fmt::Error> {
        let dropped = self.dropped;
        self.gauge("numaio_dropped_series", None, "Series left out because a family has too many")
            .add(Vec::new(), dropped);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        match format {
            MetricsFormat::OpenMetrics => text::encode(&mut text, &registry)?,
            MetricsFormat::Prometheus => prometheus_text::encode(&mut text, &registry)?,
        }
        Ok(text)
    }
}

/// Replaces control characters in labels.
fn cleaned(labels: Labels) -> Labels {
    labels.into_iter().map(|(name, text)| (name, clean(&text))).collect()
}

impl FamilyMut<'_> {
    /// Sets a series to 1.
    pub fn set(&mut self, labels: Labels) {
        let labels = cleaned(labels);
        // Other objects may have the same labels.
        if !self.family.series.contains_key(&labels) {
            self.add(labels, 1_u64);
        }
    }

    /// Adds a value to a series.
    pub fn add(&mut self, labels: Labels, value: impl Into<MetricValue>) {
        let labels = cleaned(labels);
        let series = &mut self.family.series;
        if series.len() >= MAX_SERIES && !series.contains_key(&labels) {
            *self.dropped += 1;
            return;
        }
        let sum = series.entry(labels).or_insert(MetricValue::Integer(0));
        *sum = sum.sum(value.into());
    }
}

impl Collector for MetricTable {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for MetricFamily { name, help, unit, kind, series } in &self.families {
            if series.is_empty() {
                continue;
            }
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), *kind)?;
            for (labels, value) in series {
                let mut metric = family.encode_family(labels)?;
                let none: Option<&Exemplar<NoLabelSet, f64>> = None;
                match (kind, value) {
                    (MetricType::Counter, MetricValue::Integer(value)) => {
                        metric.encode_counter(value, none)?
                    }
                    (MetricType::Counter, MetricValue::Number(value)) => {
                        metric.encode_counter(value, none)?
                    }
                    (_, MetricValue::Integer(value)) => metric.encode_gauge(value)?,
                    (_, MetricValue::Number(value)) => metric.encode_gauge(value)?,
                }
            }
        }
        Ok(())
    }
}
