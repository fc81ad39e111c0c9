//! Objects as XML elements.

use super::attributes::MemoryAttribute;
use super::bitmap::bitmap;
use super::devices::DeviceTree;
use super::element::{Element, Indexes};
use super::tree::{ObjectKind, ObjectTree};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::{Node, Topology};
use std::collections::BTreeMap;

/// Converts objects to XML elements.
pub struct ElementWriter<'a> {
    tree: &'a ObjectTree,
    topology: &'a Topology,
    devices: DeviceTree<'a>,
    indexes: Indexes,
    nodes: BTreeMap<NodeId, u64>,
}

impl<'a> ElementWriter<'a> {
    /// Creates the writer of a tree.
    pub fn new(tree: &'a ObjectTree, topology: &'a Topology) -> Self {
        let devices = DeviceTree::new(topology, tree);
        Self { tree, topology, devices, indexes: Indexes::default(), nodes: BTreeMap::new() }
    }

    /// Returns the element of the machine, with all descendants.
    pub fn machine(&mut self) -> Element {
        self.object(0, &NodeSet::new())
    }

    /// Returns the element of a memory attribute; call [`machine`](Self::machine) first.
    pub fn attribute(&self, attribute: &MemoryAttribute) -> Element {
        let mut element =
            Element::new("memattr").with("name", &attribute.name).with("flags", attribute.flags);
        for ((initiator, target), value) in &attribute.values {
            let cpus = self.topology.node(*initiator).map(|node| &node.cpus);
            let (Some(cpus), Some(index)) = (cpus, self.nodes.get(target)) else { continue };
            element.add(
                Element::new("memattr_value")
                    .with("target_obj_type", "NUMANode")
                    .with("target_obj_gp_index", index)
                    .with("value", value)
                    .with("initiator_cpuset", bitmap(cpus)),
            );
        }
        element
    }

    /// Returns an object with all descendants; `around` are the nodes attached to its ancestors.
    fn object(&mut self, object_index: usize, around: &NodeSet) -> Element {
        let tree = self.tree;
        let object = &tree.objects[object_index];
        let mut local = around.clone();
        local.extend(object.nodes.iter().copied());
        let index = self.indexes.next();
        let nodes = local.union(&self.below(object_index));
        let mut element = sets(kind_element(&object.kind), &object.cpus, &nodes);
        if object_index == 0 {
            element = machine_sets(element, self.topology);
        }
        let mut element = with_cache_attributes(element.with("gp_index", index), &object.kind);
        for (name, value) in infos(&object.kind, self.topology) {
            element.add(Element::new("info").with("name", name).with("value", value));
        }
        for node in object.nodes.iter().filter_map(|id| self.topology.node(*id)) {
            element.add(self.node(node, &object.cpus));
        }
        let mut children = object.children.clone();
        children.sort_by_key(|child| tree.objects[*child].cpus.first());
        for child in children {
            element.add(self.object(child, &local));
        }
        element.add_all(self.devices.elements(object_index, &mut self.indexes, self.topology));
        element
    }

    /// Returns the nodes attached to the descendants of an object.
    fn below(&self, object_index: usize) -> NodeSet {
        let of_child = |child: &usize| {
            let mut nodes = self.below(*child);
            nodes.extend(self.tree.objects[*child].nodes.iter().copied());
            nodes
        };
        self.tree.objects[object_index]
            .children
            .iter()
            .map(of_child)
            .fold(NodeSet::new(), |all, one| all.union(&one))
    }

    fn node(&mut self, node: &Node, cpus: &CpuSet) -> Element {
        let index = self.indexes.next();
        self.nodes.insert(node.id, index);
        let element = Element::new("object").with("type", "NUMANode").with("os_index", node.id.0);
        let mut element = sets(element, cpus, &NodeSet::one(node.id)).with("gp_index", index);
        let bytes = node.memory.map_or(0, |memory| memory.total_bytes);
        element = element.with("local_memory", bytes);
        match node.memory_kind.as_deref().filter(|kind| *kind != "DRAM") {
            Some(kind) => element.with("subtype", kind),
            None => element,
        }
    }
}

fn sets(element: Element, cpus: &CpuSet, nodes: &NodeSet) -> Element {
    let (cpus, nodes) = (bitmap(cpus), bitmap(nodes));
    element
        .with("cpuset", &cpus)
        .with("complete_cpuset", cpus)
        .with("nodeset", &nodes)
        .with("complete_nodeset", nodes)
}

/// Adds the sets that this process may use; hwloc requires at least one node, even one without
/// memory.
fn machine_sets(element: Element, topology: &Topology) -> Element {
    let cpus = topology.cpus.iter().filter(|cpu| cpu.online && cpu.allowed).map(|cpu| cpu.id).collect();
    let nodes = topology
        .nodes
        .iter()
        .filter(|node| node.memory_allowed || !node.has_memory())
        .map(|node| node.id)
        .collect();
    element.with("allowed_cpuset", bitmap::<_>(&cpus)).with("allowed_nodeset", bitmap(&nodes))
}

fn kind_element(kind: &ObjectKind) -> Element {
    let object = Element::new("object");
    match kind {
        ObjectKind::Machine => object.with("type", "Machine").with("os_index", 0),
        ObjectKind::Package(index) => object.with("type", "Package").with("os_index", index),
        ObjectKind::Die(index) => object.with("type", "Die").with("os_index", index),
        // `HWLOC_GROUP_KIND_MEMORY`: a group that carries memory.
        ObjectKind::Group => object.with("type", "Group").with("kind", 1001).with("subkind", 0),
        ObjectKind::Cache(cache) if cache.kind == "Instruction" => {
            object.with("type", format!("L{}iCache", cache.level))
        }
        ObjectKind::Cache(cache) => object.with("type", format!("L{}Cache", cache.level)),
        ObjectKind::Core(index) => object.with("type", "Core").with("os_index", index),
        ObjectKind::Pu(index) => object.with("type", "PU").with("os_index", index),
    }
}

fn with_cache_attributes(element: Element, kind: &ObjectKind) -> Element {
    let ObjectKind::Cache(cache) = kind else { return element };
    let kind = match cache.kind.as_str() {
        "Data" => 1,
        "Instruction" => 2,
        _ => 0,
    };
    element
        .with("cache_size", cache.bytes)
        .with("depth", cache.level)
        .with("cache_linesize", cache.line_bytes)
        // hwloc: 0 is unknown, -1 fully associative. The topology has the number of ways, or
        // nothing.
        .with("cache_associativity", cache.ways.unwrap_or(0))
        .with("cache_type", kind)
}

fn infos(kind: &ObjectKind, topology: &Topology) -> Vec<(&'static str, String)> {
    let identity = &topology.identity;
    let infos = match kind {
        ObjectKind::Machine => vec![
            ("Backend", "numaio".to_owned()),
            ("OSName", "Linux".to_owned()),
            ("OSRelease", identity.kernel.clone()),
            ("HostName", identity.hostname.clone()),
            ("Architecture", identity.architecture.clone()),
            ("DMIProductName", identity.product.clone()),
        ],
        ObjectKind::Package(_) => vec![("CPUModel", identity.cpu_model.clone())],
        _ => Vec::new(),
    };
    infos.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}
