//! Node of a device (`Documentation/ABI/testing/sysfs-bus-pci`, `numa_node`, `local_cpulist`).

use super::device::{Device, Locality, LocalitySource};
use crate::ids::NodeId;
use crate::set::{CpuSet, NodeSet};
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::HashMap;

/// Finds the nodes of devices; caches the nodes of bridges, which many devices share.
pub(super) struct Localities<'a> {
    root: &'a dyn Sysfs,
    nodes: Vec<(NodeId, &'a CpuSet)>,
    cpus: CpuSet,
    bridges: HashMap<String, Option<NodeId>>,
}

impl<'a> Localities<'a> {
    /// Creates a resolver with an empty cache.
    pub fn new(root: &'a dyn Sysfs, nodes: Vec<(NodeId, &'a CpuSet)>) -> Self {
        let cpus = nodes.iter().flat_map(|(_, cpus)| cpus.iter()).collect();
        Self { root, nodes, cpus, bridges: HashMap::new() }
    }

    /// Returns the node of a device, whose locality was read by [`reported`].
    pub fn of(&mut self, device: &Device) -> Locality {
        let (own, path) = (device.locality.node, device.path.as_str());
        if let Some(node) = own.filter(|node| self.exists(*node)) {
            return known(node, LocalitySource::NumaNode);
        }
        if let [(only, _)] = self.nodes[..] {
            return known(only, LocalitySource::OnlyNode);
        }
        // Bridges and local CPUs repeat the firmware's value for this device; they are not
        // independent.
        if own.is_some() {
            return Locality { source: LocalitySource::AbsentNode, ..Locality::default() };
        }
        let above = self.of_parent(path);
        above.or_else(|| self.of_local_cpus(path)).unwrap_or_default()
    }

    /// Returns the node of the nearest bridge or root above.
    fn of_parent(&mut self, path: &str) -> Option<Locality> {
        let mut path = path;
        while let Some((parent, _)) =
            path.rsplit_once('/').filter(|(parent, _)| parent.len() > "/sys/devices".len())
        {
            let reported = match self.bridges.get(parent) {
                Some(reported) => *reported,
                None => {
                    let reported = numa_node(self.root, parent).filter(|node| self.exists(*node));
                    self.bridges.insert(parent.to_owned(), reported);
                    reported
                }
            };
            if let Some(node) = reported {
                return Some(known(node, LocalitySource::ParentBridge));
            }
            path = parent;
        }
        None
    }

    /// Returns the nodes of the local CPUs, if these are some but not all CPUs of the machine.
    fn of_local_cpus(&self, path: &str) -> Option<Locality> {
        let local = local_cpus(self.root, path)?.intersection(&self.cpus);
        if local.is_empty() || local.len() == self.cpus.len() {
            return None;
        }
        let near = |cpus: &CpuSet| local.iter().any(|cpu| cpus.contains(cpu));
        let nodes: NodeSet =
            self.nodes.iter().filter(|(_, cpus)| near(cpus)).map(|(node, _)| *node).collect();
        let node = nodes.first()?;
        let nodes = if nodes.len() > 1 { nodes } else { NodeSet::new() };
        Some(Locality { node: Some(node), nodes, source: LocalitySource::LocalCpus })
    }

    fn exists(&self, node: NodeId) -> bool {
        self.nodes.binary_search_by_key(&node, |(node, _)| *node).is_ok()
    }
}

fn known(node: NodeId, source: LocalitySource) -> Locality {
    Locality { node: Some(node), nodes: NodeSet::new(), source }
}

/// Reads the node that the device at `path` reports, before the nodes are known.
pub(super) fn reported(root: &dyn Sysfs, path: &str) -> Locality {
    numa_node(root, path).map(|node| known(node, LocalitySource::NumaNode)).unwrap_or_default()
}

/// Reads `numa_node`; -1 is unknown.
fn numa_node(root: &dyn Sysfs, path: &str) -> Option<NodeId> {
    root.value(&format!("{path}/numa_node")).ok().map(NodeId)
}

/// Reads `local_cpulist`, or on old kernels `local_cpus`.
fn local_cpus(root: &dyn Sysfs, path: &str) -> Option<CpuSet> {
    let list =
        root.optional(&format!("{path}/local_cpulist")).and_then(|text| CpuSet::parse_list(&text).ok());
    list.or_else(|| CpuSet::parse_mask(&root.optional(&format!("{path}/local_cpus"))?).ok())
}
