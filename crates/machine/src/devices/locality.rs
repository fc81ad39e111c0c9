//! Which node a device hangs on (`Documentation/ABI/testing/sysfs-bus-pci`, `numa_node`, `local_cpulist`).

use super::{Device, Locality, LocalitySource};
use crate::ids::NodeId;
use crate::set::{CpuSet, NodeSet};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::Topology;
use std::collections::HashMap;

/// Finds the nodes of devices; remembers what bridges said, as many devices ask the same ones.
pub(super) struct Localities<'a> {
    root: &'a dyn Sysfs,
    nodes: Vec<(NodeId, &'a CpuSet)>,
    cpus: CpuSet,
    said: HashMap<String, Option<NodeId>>,
}

impl<'a> Localities<'a> {
    pub fn new(root: &'a dyn Sysfs, topology: &'a Topology) -> Self {
        let nodes: Vec<(NodeId, &CpuSet)> = topology.nodes.iter().map(|node| (node.id, &node.cpus)).collect();
        let cpus = nodes.iter().flat_map(|(_, cpus)| cpus.iter()).collect();
        Self { root, nodes, cpus, said: HashMap::new() }
    }

    /// The node of a device whose locality is what it [`told`].
    pub fn of(&mut self, device: &Device) -> Locality {
        let (own, path) = (device.locality.node, device.path.as_str());
        if let Some(node) = own.filter(|node| self.exists(*node)) {
            return known(node, LocalitySource::NumaNode);
        }
        if let [(only, _)] = self.nodes[..] {
            return known(only, LocalitySource::OnlyNode);
        }
        // Bridges and local CPUs repeat what firmware said of this device: no second opinion.
        if own.is_some() {
            return Locality { source: LocalitySource::AbsentNode, ..Locality::default() };
        }
        let above = self.of_parent(path);
        above.or_else(|| self.of_local_cpus(path)).unwrap_or_default()
    }

    /// What the nearest bridge or root above says.
    fn of_parent(&mut self, path: &str) -> Option<Locality> {
        let mut path = path;
        while let Some((parent, _)) =
            path.rsplit_once('/').filter(|(parent, _)| parent.len() > "/sys/devices".len())
        {
            let said = match self.said.get(parent) {
                Some(said) => *said,
                None => {
                    let said = numa_node(self.root, parent).filter(|node| self.exists(*node));
                    self.said.insert(parent.to_owned(), said);
                    said
                }
            };
            if let Some(node) = said {
                return Some(known(node, LocalitySource::ParentBridge));
            }
            path = parent;
        }
        None
    }

    /// The nodes of its local CPUs, if these are some of the machine's and not all.
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

/// What the device at `path` says of itself, before it is known which nodes there are.
pub(super) fn told(root: &dyn Sysfs, path: &str) -> Locality {
    numa_node(root, path).map(|node| known(node, LocalitySource::NumaNode)).unwrap_or_default()
}

/// What `numa_node` says, if it says anything: -1 stands for unknown.
fn numa_node(root: &dyn Sysfs, path: &str) -> Option<NodeId> {
    root.value(&format!("{path}/numa_node")).ok().map(NodeId)
}

/// `local_cpulist`, on old kernels `local_cpus` alone.
fn local_cpus(root: &dyn Sysfs, path: &str) -> Option<CpuSet> {
    let list =
        root.optional(&format!("{path}/local_cpulist")).and_then(|text| CpuSet::parse_list(&text).ok());
    list.or_else(|| CpuSet::parse_mask(&root.optional(&format!("{path}/local_cpus"))?).ok())
}
