//! Views of firmware data: distances (ACPI SLIT) and performance (ACPI HMAT).

use super::view::{view, Kind, ViewSubject};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::{Access, Node, Topology};
use numaio_schema::{NodeValue, Quantity, View};

/// Returns the hop distances from the target to every node, and those from every node to it if the
/// matrix is asymmetric for the target.
///
/// A distance is a stated rank, so that classes consist of equal distances, regardless of the
/// level.
pub fn slit_views(topology: &Topology, subject: &ViewSubject) -> Vec<View> {
    let Some(distances) = &topology.distances else { return Vec::new() };
    let target = subject.target;
    let subject = ViewSubject { level: 0.0, ..*subject };
    let values = |between: &dyn Fn(NodeId) -> Option<u32>| -> Vec<NodeValue> {
        let stated = |node: &NodeId| stated(*node, f64::from(between(*node)?));
        distances.nodes.iter().filter_map(stated).collect()
    };
    let row = values(&|node| distances.between(target, node));
    let column = values(&|node| distances.between(node, target));
    let asymmetric = row != column;
    let kind = |name: &str, title: String| Kind {
        name: name.to_owned(),
        title,
        direction: None,
        quantity: Quantity::Distance,
    };
    let title = if asymmetric { format!("SLIT distance from node {target}") } else { "SLIT distance".into() };
    let from = view(&subject, kind("slit", title), row, false);
    let to = kind("slit-memory-centric", format!("SLIT distance to node {target}"));
    let to = if asymmetric { view(&subject, to, column, false) } else { None };
    from.into_iter().chain(to).collect()
}

/// Selects a value of HMAT.
type Figure = fn(&Access) -> Option<f64>;

const FIGURES: [(&str, &str, Quantity, Figure); 4] = [
    ("hmat-read-latency", "HMAT read latency", Quantity::NsPerLoad, |access| {
        access.read_latency_ns.map(|ns| ns as f64)
    }),
    ("hmat-write-latency", "HMAT write latency", Quantity::NsPerLoad, |access| {
        access.write_latency_ns.map(|ns| ns as f64)
    }),
    ("hmat-read-bandwidth", "HMAT read bandwidth", Quantity::BytesPerS, |access| access.read_bytes_per_s),
    ("hmat-write-bandwidth", "HMAT write bandwidth", Quantity::BytesPerS, |access| access.write_bytes_per_s),
];

/// Returns the HMAT values of every node's memory for the target as initiator.
///
/// The kernel keeps values only for the nearest initiators of each node (`numaperf.rst`), so most
/// machines have values of the target's own memory and of nearby memory without CPUs. Values of
/// CPUs (access class 1) take precedence over those of any initiator (class 0). A single node makes
/// no view.
pub fn hmat_views(topology: &Topology, subject: &ViewSubject) -> Vec<View> {
    let views = FIGURES.iter().filter_map(|(name, title, quantity, figure)| {
        let value = |node: &Node| stated(node.id, figure_of(node, subject.target, *figure)?);
        let kind =
            Kind { name: (*name).into(), title: (*title).into(), direction: None, quantity: *quantity };
        view(subject, kind, topology.nodes.iter().filter_map(value).collect(), false)
    });
    views.filter(|view| view.nodes.len() > 1).collect()
}

fn figure_of(node: &Node, target: NodeId, figure: Figure) -> Option<f64> {
    let of_target = node.access.iter().filter(|access| access.initiators.contains(target));
    let values = of_target.filter_map(|access| Some((access.class, figure(access)?)));
    values.max_by_key(|(class, _)| *class).map(|(_, figure)| figure)
}

fn stated(node: NodeId, value: f64) -> Option<NodeValue> {
    let possible = value.is_finite() && value > 0.0;
    possible.then_some(NodeValue { node, value, interval: None, n: 0, drift: 0.0, factor: None })
}
