//! The target node of a comparison.

use super::args::CompareArgs;
use super::view_set;
use crate::device_arguments::node_of_device;
use crate::failure::Failure;
use crate::options::Common;
use crate::output;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_schema::Document;
use std::path::PathBuf;

/// Chooses the target node; returns it with its devices.
///
/// # Errors
/// [`Failure`]: an unknown node or device, or documents without a candidate.
pub fn choose(
    common: &Common,
    args: &CompareArgs,
    topology: Option<&Topology>,
    from: &[(PathBuf, Document)],
) -> Result<(NodeId, Vec<String>), Failure> {
    let known: Vec<(NodeId, Vec<String>)> = match topology {
        Some(topology) => {
            let devices = |node| topology.devices_on(node).map(|device| device.name()).collect();
            topology.nodes.iter().map(|node| (node.id, devices(node.id))).collect()
        }
        None => from.iter().flat_map(|(_, document)| view_set::targets(document)).collect(),
    };
    let requested = match (&args.device, topology) {
        (Some(name), Some(topology)) => Some(node_of_device(topology, name)?),
        (Some(name), None) => Some(node_with_device(&known, name)?),
        (None, _) => args.node,
    };
    let devices_of = |node: NodeId| {
        known.iter().find(|(other, _)| *other == node).map(|(_, devices)| devices.clone()).unwrap_or_default()
    };
    match (requested, topology) {
        (Some(node), Some(topology)) if topology.node(node).is_none() => {
            let nodes: NodeSet = topology.nodes.iter().map(|node| node.id).collect();
            Err(Failure::usage(format!("there is no node {node}; this machine has nodes {nodes}")))
        }
        (Some(node), _) => Ok((node, devices_of(node))),
        (None, _) => first_with_devices(common, topology, &known).map(|node| (node, devices_of(node))),
    }
}

fn node_with_device(known: &[(NodeId, Vec<String>)], name: &str) -> Result<NodeId, Failure> {
    let found = known.iter().find(|(_, devices)| devices.iter().any(|device| device == name));
    found.map(|(node, _)| *node).ok_or_else(|| {
        Failure::usage(format!("no model among the documents has a device '{name}'"))
            .hint("name the target by --node K, or add the output of numaio topology --json on that machine")
    })
}

/// Chooses the first node with devices, or with CPUs if no node has devices. Logs the other
/// candidates.
fn first_with_devices(
    common: &Common,
    topology: Option<&Topology>,
    known: &[(NodeId, Vec<String>)],
) -> Result<NodeId, Failure> {
    let with_devices: NodeSet =
        known.iter().filter(|(_, devices)| !devices.is_empty()).map(|(node, _)| *node).collect();
    let all = || topology.map_or_else(|| known.iter().map(|(node, _)| *node).collect(), Topology::cpu_nodes);
    let candidates = if with_devices.is_empty() { all() } else { with_devices };
    let Some(first) = candidates.first() else {
        return Err(Failure::usage("the documents do not contain a node with devices")
            .hint("name the target by --node K"));
    };
    let others = candidates.difference(&NodeSet::one(first));
    if !others.is_empty() {
        let nodes = if others.len() == 1 { "node" } else { "nodes" };
        output::remark(common, &format!("comparing node {first}; --node chooses {nodes} {others} instead"));
    }
    Ok(first)
}
