//! Measured latency between a device and the nodes.

use crate::device_bandwidth::BandwidthSubject;
use crate::views::{document_views, ViewSubject};
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
    let of_view = ViewSubject {
        machine: &topology.identity.fingerprint,
        target: subject.node?,
        level: crate::ClassOptions::default().level,
    };
    let is_of_device =
        |name: &str| name.is_empty() || subject.device.is_some_and(|device| device.has_name(name));
    let view = |document: &&Document| {
        let views = document_views(document).filter(|views| is_of_device(views.device))?;
        views.of(&of_view).into_iter().find(|view| view.nodes.len() > 1 && !view.incomplete)
    };
    let kinds: [fn(&Document) -> bool; 3] = [
        |document| matches!(document, Document::Mmio(_)),
        |document| matches!(document, Document::Ping(_)),
        |document| matches!(document, Document::Latency(_)),
    ];
    kinds.into_iter().find_map(|is_kind| documents.iter().filter(|it| is_kind(it)).find_map(view))
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
