//! Formats what the devices of a machine can transfer with buffers on each node.

use crate::number_format::NumberFormat;
use crate::record_header::date;
use crate::style::{short, TextStyle};
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_machine::units::{format_significant, BandwidthUnit};
use numaio_schema::{
    BandwidthDifference, DeviceBandwidth, DeviceExpectation, MachineExpectation, UnknownDifference,
    ValueSource,
};

/// Titles of the columns of [`rows`].
pub(crate) const COLUMNS: [&str; 6] = ["Device", "Node", "Direction", "At most", "Limited by", "Nodes"];

/// Formats a table of devices: the limit of each with its source, and whether its nodes differ.
/// Devices that exceed a path only together follow. A blank line parts it from a text above; empty
/// without devices.
pub fn expectation_text(expected: &MachineExpectation, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    if expected.devices.is_empty() {
        return String::new();
    }
    page.heading(&format!("Devices: bandwidth in {}, and what nodes cost", style.unit));
    let align = [Align::Left, Align::Right, Align::Left, Align::Right, Align::Left, Align::Left];
    let mut table = Table::new(COLUMNS.map(str::to_uppercase).into_iter().zip(align));
    for row in rows(expected, style.unit) {
        table.row(row.map(Into::into));
    }
    page.table(2, &table);
    at_once(expected).iter().for_each(|sentence| page.paragraph(2, 2, sentence));
    format!("\n{}", page.into_text())
}

/// Returns a row for each device and direction; one for both directions if they are equal.
pub(crate) fn rows(expected: &MachineExpectation, unit: BandwidthUnit) -> Vec<[String; 6]> {
    let mut rows: Vec<[String; 6]> = Vec::new();
    for of in &expected.devices {
        let node = of.node.map_or_else(|| "unknown".to_owned(), |node| node.to_string());
        let (limit, source) = limit(&of.limit, unit);
        let row = [short(&of.device), node, of.direction.name().to_owned(), limit, source, difference(of)];
        match rows.last_mut() {
            Some(last) if last[0] == row[0] && last[3..] == row[3..] => {
                last[2] = "both directions".to_owned()
            }
            _ => rows.push(row),
        }
    }
    rows
}

/// Returns a sentence for each node whose devices exceed a path only together.
pub(crate) fn at_once(expected: &MachineExpectation) -> Vec<String> {
    let sentence = |of: &numaio_schema::DifferenceAtOnce| {
        format!("Devices of node {}, {}: {}.", of.node, of.direction.name(), of.clause())
    };
    expected.at_once.iter().map(sentence).collect()
}

/// Returns the limit of a device and its source.
fn limit(limit: &DeviceBandwidth, unit: BandwidthUnit) -> (String, String) {
    match limit {
        DeviceBandwidth::Unknown { measure } => ("unknown".to_owned(), format!("measure it: {measure}")),
        DeviceBandwidth::Known { bytes_per_s, source } => {
            let source = match source {
                ValueSource::Link { link } => link.clone(),
                ValueSource::Measured { measured_at, .. } => format!("measured {}", date(*measured_at)),
                ValueSource::Configuration { .. } => "configuration".to_owned(),
                ValueSource::Model { .. } => "copy model".to_owned(),
                ValueSource::Discovered { .. } => "kernel".to_owned(),
                ValueSource::Assumed { reason } => reason.clone(),
            };
            (NumberFormat::bandwidth(unit, [*bytes_per_s]).format(*bytes_per_s), source)
        }
    }
}

/// Returns whether the nodes of a device differ: `35 % less on node 3`.
fn difference(of: &DeviceExpectation) -> String {
    let measured = of.measured_at().map(|at| format!(" (measured {})", date(at))).unwrap_or_default();
    match of.difference {
        BandwidthDifference::None if measured.is_empty() => "no difference expected".to_owned(),
        BandwidthDifference::None => format!("no difference{measured}"),
        BandwidthDifference::Some => {
            let slowest = of.slowest().map(|(node, of_best)| {
                format!("{:.0} % less on node {node}{measured}", (1.0 - of_best) * 100.0)
            });
            slowest.unwrap_or_default()
        }
        BandwidthDifference::Unknown { reason } => match reason {
            UnknownDifference::LimitUnknown => "unknown without a limit".to_owned(),
            UnknownDifference::PathsNotMeasured => "unknown: paths not measured".to_owned(),
            UnknownDifference::PathsNotSaturated { fastest_bytes_copied_per_s } => format!(
                "unknown: paths carry at least {} GB/s",
                format_significant(fastest_bytes_copied_per_s / 1e9)
            ),
            UnknownDifference::LatencyBound => "unknown: latency decides".to_owned(),
            UnknownDifference::LoadsAndStores { .. } => "unknown: CPUs load and store".to_owned(),
            UnknownDifference::PeerToPeer => "unknown: between devices".to_owned(),
            UnknownDifference::WithinCaches => "unknown: within the caches".to_owned(),
        },
    }
}
