//! The one-line verdict on a machine: where its devices are, and which nodes to use for them.

use crate::phrases;
use crate::subjects;
use numaio_machine::devices::Device;
use numaio_machine::findings::Severity;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{DirectionModel, Model};
use std::cmp::Reverse;

/// Number of device nodes that are named.
const MOST_NODES: usize = 3;
/// Number of device names for a node.
const MOST_DEVICES: usize = 3;
/// Share of the best class's bandwidth below which a class is never used.
const NEVER: f64 = 0.75;

/// Returns the verdict: `nvme0n1 is on node 7: write from nodes 6-7, never from 2-3; read ...`.
///
/// Where a node has no model it names the command that measures one. `None` on a machine whose
/// devices all are equally near to every node.
pub fn verdict(topology: &Topology, models: &[Model]) -> Option<String> {
    if topology.cpu_nodes().len() < 2 {
        return None;
    }
    let mut nodes: Vec<(NodeId, Vec<&Device>)> =
        topology.nodes.iter().map(|node| (node.id, devices_of(topology, node.id))).collect();
    nodes.retain(|(_, devices)| !devices.is_empty());
    let more = nodes.len().saturating_sub(MOST_NODES);
    let advised: Vec<(String, Option<String>)> = nodes
        .iter()
        .take(MOST_NODES)
        .map(|(node, devices)| {
            let is = if devices.len() == 1 { "is" } else { "are" };
            (format!("{} {is} on node {node}", names(devices)), advice(models, *node))
        })
        .collect();
    let unmeasured = advised.iter().any(|(_, advice)| advice.is_none());
    let part = |(place, advice): (String, Option<String>)| match advice {
        Some(advice) => format!("{place}: {advice}"),
        None => place,
    };
    let mut text = advised.into_iter().map(part).collect::<Vec<_>>().join("; ");
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

fn names(devices: &[&Device]) -> String {
    let more = devices.len().saturating_sub(MOST_DEVICES);
    let names =
        subjects::joined(devices.iter().take(MOST_DEVICES).map(|device| phrases::device_name(device)));
    match more {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// Returns the nodes to use, from the newest model of the node; `None` without one.
fn advice(models: &[Model], target: NodeId) -> Option<String> {
    let fit = models.iter().filter(|model| model.record.provenance.is_fit_for_placement());
    let newest = fit
        .filter(|model| model.targets.iter().any(|it| it.target == target))
        .min_by_key(|model| Reverse(model.record.provenance.measured_at))?;
    let directions = &newest.targets.iter().find(|it| it.target == target)?.directions;
    let by_direction: Vec<(Direction, String)> =
        directions.iter().map(|direction| (direction.direction, nodes_to_use(direction))).collect();
    let verb = |direction: &Direction| match direction {
        Direction::Write => "write",
        Direction::Read => "read",
    };
    match by_direction.as_slice() {
        [] => None,
        [(_, write), (_, read)] if write == read => Some(format!("write and read {write}")),
        each => {
            let each = each.iter().map(|(direction, nodes)| format!("{} {nodes}", verb(direction)));
            Some(each.collect::<Vec<_>>().join("; "))
        }
    }
}

/// Returns `from nodes 6-7, never from 2-3`.
fn nodes_to_use(model: &DirectionModel) -> String {
    let mean = |class: &numaio_schema::Class| class.mean_bytes_copied_per_s;
    let best = model.classes.iter().map(mean).fold(0.0, f64::max);
    let of = |keep: &dyn Fn(f64) -> bool| -> NodeSet {
        let classes = model.classes.iter().filter(|class| keep(mean(class)));
        classes.flat_map(|class| class.nodes.iter()).collect()
    };
    let (good, never) = (of(&|mean| mean >= best), of(&|mean| mean < best * NEVER));
    let never = if never.is_empty() { String::new() } else { format!(", never from {never}") };
    format!("from {}{never}", subjects::joined(good.iter().map(|node| format!("node {node}"))))
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
