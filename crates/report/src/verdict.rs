//! The one-line verdict on a machine: where its devices are, and which nodes to use for them.

use crate::phrases;
use crate::record_header::date;
use crate::subjects;
use numaio_machine::devices::Device;
use numaio_machine::findings::Severity;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{format_nodes, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::units::format_significant;
use numaio_machine::workload::Direction;
use numaio_schema::{BandwidthDifference, DeviceExpectation, MachineExpectation, UnknownDifference};

/// Number of device nodes that are named.
const MOST_NODES: usize = 3;
/// Number of device names for a node.
const MOST_DEVICES: usize = 3;
/// Share of the best node's bandwidth below which a class is never used.
const NEVER: f64 = 0.75;

/// Returns the verdict: `nvme0n1 is on node 7: write from nodes 6-7, never from 2-3; read ...`, or
/// `eth0 is on node 0: no difference in bandwidth expected (...)`.
///
/// Where the paths of a node were not measured it names the command that does. `None` on a machine
/// whose devices all are equally near to every node.
pub fn verdict(topology: &Topology, expected: &MachineExpectation) -> Option<String> {
    if topology.cpu_nodes().len() < 2 {
        return None;
    }
    let mut nodes: Vec<(NodeId, Vec<&Device>)> =
        topology.nodes.iter().map(|node| (node.id, devices_of(topology, node.id))).collect();
    nodes.retain(|(_, devices)| !devices.is_empty());
    let more = nodes.len().saturating_sub(MOST_NODES);
    let shown = nodes.iter().take(MOST_NODES);
    let advised: Vec<NodeAdvice> = shown
        .flat_map(|(node, devices)| {
            let mut advised = of_node(topology, expected, *node, devices);
            let last = advised.last_mut().and_then(|advice| advice.text.as_mut());
            if let (Some(text), Some(together)) = (last, at_once(expected, *node)) {
                text.push_str(&format!("; {together}"));
            }
            advised
        })
        .collect();
    let unmeasured = advised.iter().any(|advice| advice.text.is_none());
    let mut text = advised.iter().map(NodeAdvice::sentence).collect::<Vec<_>>().join("; ");
    if more > 0 {
        text += &format!("; devices on {}", phrases::count(more, "more node"));
    }
    if unmeasured && !text.is_empty() {
        text += "; numaio model measures which other nodes are as good";
    }
    (!text.is_empty()).then_some(text)
}

/// Counts findings: `1 problem, 2 warnings, 3 notes`, or `no findings`.
pub(crate) fn counts(severities: impl Iterator<Item = Severity>) -> String {
    let all: Vec<Severity> = severities.collect();
    let count = |severity: Severity| {
        let number = all.iter().filter(|it| **it == severity).count();
        if number == 0 {
            String::new()
        } else {
            phrases::count(number, phrases::severity(severity))
        }
    };
    match phrases::joined([Severity::Problem, Severity::Warning, Severity::Note].map(count), ", ") {
        empty if empty.is_empty() => "no findings".to_owned(),
        counts => counts,
    }
}

/// Returns the devices of a node that carry a machine's data.
fn devices_of(topology: &Topology, node: NodeId) -> Vec<&Device> {
    topology.devices_on(node).filter(|device| device.carries_data()).collect()
}

/// Names devices, or counts those of each kind if there are many.
fn names(devices: &[&Device]) -> String {
    if devices.len() <= MOST_DEVICES {
        return subjects::joined(devices.iter().map(|device| phrases::device_name(device)));
    }
    let kinds = phrases::group_devices(devices, 1, |device| device.kind);
    kinds.iter().map(|group| phrases::group_name(group)).collect::<Vec<_>>().join(", ")
}

/// Devices of one node with the same advice.
struct NodeAdvice<'a> {
    node: NodeId,
    devices: Vec<&'a Device>,
    /// `None` if the paths were not measured.
    text: Option<String>,
}

impl NodeAdvice<'_> {
    fn sentence(&self) -> String {
        let is = if self.devices.len() == 1 { "is" } else { "are" };
        let on = format!("{} {is} on node {}", names(&self.devices), self.node);
        self.text.iter().fold(on, |on, text| format!("{on}: {text}"))
    }
}

/// Returns the devices of a node, grouped by their advice.
fn of_node<'a>(
    topology: &Topology,
    expected: &MachineExpectation,
    node: NodeId,
    devices: &[&'a Device],
) -> Vec<NodeAdvice<'a>> {
    let mut groups: Vec<(NodeAdvice, Vec<&DeviceExpectation>)> = Vec::new();
    for device in devices {
        let name = device.distinct_name(&topology.devices);
        let of_device: Vec<&DeviceExpectation> =
            expected.devices.iter().filter(|of| of.device == name).collect();
        let text = advice(&of_device);
        match groups.iter_mut().find(|(group, _)| group.text == text) {
            Some((group, all)) => {
                group.devices.push(device);
                all.extend(of_device);
            }
            None => groups.push((NodeAdvice { node, devices: vec![device], text }, of_device)),
        }
    }
    let with_rates = |(mut group, all): (NodeAdvice<'a>, Vec<&DeviceExpectation>)| {
        if let (Some(text), Some(rates)) = (&mut group.text, equal_rates(&all, group.devices.len())) {
            text.push_str(&rates);
        }
        group
    };
    groups.into_iter().map(with_rates).collect()
}

/// Returns why nodes are equal for devices: ` (at most 12.5 GB/s each, the slowest path 38.0)`,
/// with the fastest of the devices. `None` if a node is slower, or if it was measured.
fn equal_rates(expected: &[&DeviceExpectation], devices: usize) -> Option<String> {
    let is_bound =
        |of: &&DeviceExpectation| of.difference == BandwidthDifference::None && of.measured_at().is_none();
    if !expected.iter().all(is_bound) {
        return None;
    }
    let limit = expected.iter().filter_map(|of| of.limit.bytes_per_s()).reduce(f64::max)?;
    let path = expected.iter().filter_map(|of| of.slowest_path()).map(|(_, path)| path).reduce(f64::min)?;
    let each = if devices > 1 { " each" } else { "" };
    let gb = |rate: f64| format_significant(rate / 1e9);
    Some(format!(" (at most {} GB/s{each}, the slowest path {})", gb(limit), gb(path)))
}

/// Returns the nodes to use for a device, from what is expected of it by direction; `None` if the
/// paths were not measured.
fn advice(expected: &[&DeviceExpectation]) -> Option<String> {
    let by_direction = expected.iter().filter_map(|of| Some((of.direction, nodes_to_use(of)?)));
    let by_direction: Vec<(Direction, String)> = by_direction.collect();
    let verb = |direction: &Direction| match direction {
        Direction::Write => "write",
        Direction::Read => "read",
    };
    let is_unknown = |of: &&DeviceExpectation| {
        of.difference == BandwidthDifference::Unknown { reason: UnknownDifference::LimitUnknown }
    };
    let text = match by_direction.as_slice() {
        [] => return None,
        [(_, write), (_, read)] if write == read && write.starts_with("from") => {
            format!("write and read {write}")
        }
        [(_, write), (_, read)] if write == read => write.clone(),
        each => each
            .iter()
            .map(|(direction, nodes)| format!("{} {nodes}", verb(direction)))
            .collect::<Vec<_>>()
            .join("; "),
    };
    Some(match expected.iter().any(is_unknown) {
        true => format!("by the paths alone (limit unknown), {text}"),
        false => text,
    })
}

/// Returns `from nodes 6-7, never from 2-3`, or that the nodes do not differ.
fn nodes_to_use(of: &DeviceExpectation) -> Option<String> {
    let measured = of.measured_at().map(|at| format!(" (measured {})", date(at))).unwrap_or_default();
    match of.difference {
        BandwidthDifference::Unknown { reason: UnknownDifference::PathsNotMeasured } => return None,
        BandwidthDifference::Unknown { reason: UnknownDifference::PathsNotSaturated { .. } } => {
            return Some("may differ by node: copies were slower than the device may be".to_owned())
        }
        BandwidthDifference::Unknown {
            reason:
                UnknownDifference::LatencyBound
                | UnknownDifference::LoadsAndStores { .. }
                | UnknownDifference::PeerToPeer
                | UnknownDifference::WithinCaches,
        } => return Some("may differ by node, which copies do not show".to_owned()),
        BandwidthDifference::None if measured.is_empty() => {
            return Some("no difference in bandwidth expected".to_owned())
        }
        BandwidthDifference::None => return Some(format!("no difference in bandwidth{measured}")),
        BandwidthDifference::Some
        | BandwidthDifference::Unknown { reason: UnknownDifference::LimitUnknown } => {}
    }
    let mean =
        |class: &NodeSet| class.iter().filter_map(|node| of.of_best(node)).sum::<f64>() / class.len() as f64;
    let classes = of.classes().into_iter().filter(|class| mean(class) < NEVER);
    let never = classes.fold(NodeSet::new(), |all, class| all.union(&class));
    let never = if never.is_empty() { String::new() } else { format!(", never from {never}") };
    Some(format!("from {}{never}{measured}", format_nodes(&of.class(1))))
}

/// Returns from how many devices of a node at once on the nodes differ.
fn at_once(expected: &MachineExpectation, node: NodeId) -> Option<String> {
    let of_node = expected.at_once.iter().filter(|difference| difference.node == node);
    let worst = of_node.max_by(|one, other| one.loss.total_cmp(&other.loss))?;
    Some(worst.clause())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_counted_by_severity() {
        use Severity::{Note, Problem, Warning};
        assert_eq!(counts([Note, Problem, Note, Warning].into_iter()), "1 problem, 1 warning, 2 notes");
        assert_eq!(counts([].into_iter()), "no findings");
    }
}
