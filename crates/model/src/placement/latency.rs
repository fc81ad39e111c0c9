//! Measured latency between a device and the nodes.

use crate::device_bandwidth::BandwidthSubject;
use crate::views::{document_views, ViewSubject};
use numaio_machine::devices::Device;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_schema::{Document, NodeLatency, TargetLatency, View};

/// Returns the latency of each node for a device, and the classes of the nodes, best first: by
/// reads of its registers, else by messages through it, else by loads from the device's node.
///
/// `documents` are of the machine, newest first. `None` if none has two nodes.
pub(super) fn measured_latency(
    topology: &Topology,
    subject: BandwidthSubject<'_>,
    documents: &[&Document],
) -> Option<View> {
    let target = subject.node?;
    let of_kind = |kind: KindOfLatency| view_of_kind(topology, target, subject.device, documents, kind);
    [is_mmio as KindOfLatency, is_ping, is_loads].into_iter().find_map(of_kind)
}

/// Returns the node of a device as inferred from measured latency, and the evidence for that.
///
/// The node is the only one in the best class of register reads or messages. All nodes with CPUs
/// must have been measured: an unmeasured one could be the device's.
pub(super) fn inferred_node(
    topology: &Topology,
    device: &Device,
    documents: &[&Document],
) -> Option<(NodeId, String)> {
    let any_node = topology.cpu_nodes().first()?;
    let of_kind = |kind: KindOfLatency| view_of_kind(topology, any_node, Some(device), documents, kind);
    let mut views = [is_mmio as KindOfLatency, is_ping].into_iter().filter_map(of_kind);
    views.find_map(|view| nearest_node(topology, &view))
}

/// Returns the only node of the best class of a view with all nodes, and how much lower its latency
/// is than that of any other node.
fn nearest_node(topology: &Topology, view: &View) -> Option<(NodeId, String)> {
    let best = view.classes.first().filter(|class| class.nodes.len() == 1)?.nodes.first()?;
    let has_value = |node: NodeId| view.node(node).is_some();
    let lowest = view.node(best)?.value;
    let others = view.nodes.iter().filter(|value| value.node != best).map(|value| value.value);
    let next = others.min_by(f64::total_cmp)?;
    topology.cpu_nodes().iter().all(has_value).then(|| {
        let times = next / lowest;
        (best, format!("its latency is lowest, the next node's is {times:.2} times as long ({})", view.title))
    })
}

/// A predicate for documents of a kind of latency.
type KindOfLatency = fn(&Document) -> bool;

fn is_mmio(document: &Document) -> bool {
    matches!(document, Document::Mmio(_))
}

fn is_ping(document: &Document) -> bool {
    matches!(document, Document::Ping(_))
}

fn is_loads(document: &Document) -> bool {
    matches!(document, Document::Latency(_))
}

/// Returns the first complete view of a kind with several nodes.
fn view_of_kind(
    topology: &Topology,
    target: NodeId,
    device: Option<&Device>,
    documents: &[&Document],
    is_kind: KindOfLatency,
) -> Option<View> {
    let of_view = ViewSubject {
        machine: &topology.identity.fingerprint,
        target,
        level: crate::ClassOptions::default().level,
    };
    let is_of_device = |name: &str| name.is_empty() || device.is_some_and(|device| device.has_name(name));
    documents.iter().filter(|document| is_kind(document)).find_map(|document| {
        let views = document_views(document).filter(|views| is_of_device(views.device))?;
        views.of(&of_view).into_iter().find(|view| view.nodes.len() > 1 && !view.incomplete)
    })
}

/// Returns the latency of a target as its plan shows it.
pub(super) fn target_latency(view: &View) -> TargetLatency {
    TargetLatency {
        source: view.title.clone(),
        measured_at: view.measured_at,
        nodes: view.nodes.iter().map(|value| NodeLatency { node: value.node, ns: value.value }).collect(),
    }
}

/// Returns the position of a node's class in a view; `None` without a value.
pub(super) fn class_of(view: &View, node: NodeId) -> Option<u32> {
    view.classes.iter().position(|class| class.nodes.contains(node)).map(|class| class as u32 + 1)
}
