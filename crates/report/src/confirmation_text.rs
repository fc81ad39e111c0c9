//! Formats expected and measured bandwidth of a device side by side.

use crate::number_format::NumberFormat;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{format_nodes, NodeSet};
use numaio_schema::{BandwidthDifference, DeviceExpectation, ExpectationSource, ExpectedBandwidth};

/// Part by which a measured value may exceed its bound: the spread of both.
const TOLERANCE: f64 = 0.03;
/// Share of its bound below which a measured value is far from it.
const NEAR: f64 = 0.9;

/// A direction of a device with its expected and its measured bandwidth.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfirmedDirection {
    /// The upper bound, without I/O of the device.
    pub expected: DeviceExpectation,
    /// With I/O of the device.
    pub measured: DeviceExpectation,
}

impl ConfirmedDirection {
    /// Returns whether I/O of the device was measured on any node.
    pub fn is_measured(&self) -> bool {
        self.measured_nodes().next().is_some()
    }

    fn measured_nodes(&self) -> impl Iterator<Item = &ExpectedBandwidth> {
        let is_measured =
            |value: &&ExpectedBandwidth| matches!(value.source, ExpectationSource::Measured { .. });
        self.measured.nodes.iter().filter(is_measured)
    }

    /// Returns the nodes for which a measured one stands, itself included.
    fn represented_by(&self, measured: &ExpectedBandwidth) -> String {
        let stands = |value: &&ExpectedBandwidth| match value.source {
            ExpectationSource::Represented { by, .. } => by == measured.node,
            _ => value.node == measured.node,
        };
        let nodes: NodeSet = self.measured.nodes.iter().filter(stands).map(|value| value.node).collect();
        nodes.to_string()
    }

    /// Returns the upper bound of a node: the path, and the device's limit as it is known now.
    fn bound(&self, node: NodeId) -> Option<f64> {
        let limit = self.measured.limit.bytes_per_s().unwrap_or(f64::INFINITY);
        self.expected.of(node).map(|expected| expected.bytes_per_s.min(limit))
    }

    /// Returns the measured nodes whose share of the bound fulfills a condition.
    fn nodes_where(&self, condition: impl Fn(f64) -> bool) -> NodeSet {
        let fulfills = |value: &&ExpectedBandwidth| {
            self.bound(value.node).is_some_and(|bound| condition(value.bytes_per_s / bound))
        };
        self.measured_nodes().filter(fulfills).map(|value| value.node).collect()
    }
}

/// Formats the expected and the measured bandwidth of a device by node, with a conclusion for each
/// direction.
pub fn confirmation_text(device: &str, directions: &[ConfirmedDirection], style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    page.heading(&format!(
        "{device}: expected and measured bandwidth in {}, one node of each class",
        style.unit.name()
    ));
    if directions.is_empty() {
        page.paragraph(2, 2, "It was measured on one node only, which shows no difference between nodes.");
    }
    let values = directions.iter().flat_map(|one| one.measured_nodes().map(|value| value.bytes_per_s));
    let format = NumberFormat::bandwidth(style.unit, values);
    let titles = ["DIRECTION", "NODE", "STANDS FOR", "AT MOST", "MEASURED", "RATIO"];
    let mut table = Table::new(titles.map(|title| {
        let align = if title == "DIRECTION" { Align::Left } else { Align::Right };
        (title.to_owned(), align)
    }));
    for one in directions {
        for value in one.measured_nodes() {
            let bound = one.bound(value.node);
            let class = Some(value.class);
            table.row([
                Cell::from(one.measured.direction.name()),
                Cell::from(value.node.to_string()),
                Cell::from(one.represented_by(value)),
                Cell::from(bound.map_or("unknown".to_owned(), |bound| format.format(bound))),
                Cell::with_class(format.format(value.bytes_per_s), class),
                Cell::from(bound.map_or(String::new(), |bound| format!("{:.2}", value.bytes_per_s / bound))),
            ]);
        }
    }
    if !directions.is_empty() {
        page.table(2, &table);
    }
    for one in directions {
        page.paragraph(2, 2, &conclusion(one));
    }
    page.into_text()
}

fn conclusion(one: &ConfirmedDirection) -> String {
    let direction = one.measured.direction.name();
    let mut parts = Vec::new();
    let above = one.nodes_where(|ratio| ratio > 1.0 + TOLERANCE);
    let far = one.nodes_where(|ratio| ratio < NEAR);
    match (one.expected.nodes.is_empty(), above.is_empty()) {
        (true, _) => parts.push("the copies bound no node".to_owned()),
        (false, true) => parts.push("no node exceeds its bound".to_owned()),
        (false, false) => parts.push(format!(
            "{} faster than the bound: copies did not saturate the path",
            format_nodes(&above)
        )),
    }
    if !far.is_empty() {
        parts.push(format!("{} more than 10 % below: the device's path is narrower", format_nodes(&far)));
    }
    parts.push(match one.measured.difference {
        BandwidthDifference::None => "the device transfers the same from every node".to_owned(),
        BandwidthDifference::Some | BandwidthDifference::Unknown { .. } => {
            let clause = one.measured.clause();
            clause.strip_prefix(&format!("{direction}: ")).map(str::to_owned).unwrap_or(clause)
        }
    });
    let mut text = format!("{direction}: {}.", parts.join("; "));
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}
