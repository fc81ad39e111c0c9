//! hwloc's object tree of a machine.
//!
//! hwloc nests packages, dies, groups, caches, cores and hardware threads by their CPUs, and
//! attaches nodes and devices to the object with their local CPUs. An object that partly overlaps
//! another is left out, as in hwloc.

use super::attributes::MemoryAttribute;
use super::bitmap;
use super::devices;
use super::element::Element;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::{Cache, Cpu, Node, Topology};
use std::collections::BTreeMap;

/// An object of the tree.
pub struct Object {
    kind: ObjectKind,
    cpus: CpuSet,
    children: Vec<usize>,
    /// Nodes attached to the object.
    nodes: Vec<NodeId>,
}

/// Kinds of objects, in nesting order for equal CPU sets.
enum ObjectKind {
    Machine,
    Package(u32),
    Die(u32),
    Group,
    Cache(Cache),
    Core(u32),
    Pu(u32),
}

/// The tree of objects; the first object is the machine.
pub struct ObjectTree {
    objects: Vec<Object>,
}

impl ObjectTree {
    /// Builds the tree of a machine.
    pub fn new(topology: &Topology) -> Self {
        let online: CpuSet = topology.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
        let machine =
            Object { kind: ObjectKind::Machine, cpus: online, children: Vec::new(), nodes: Vec::new() };
        let mut tree = Self { objects: vec![machine] };
        let mut objects = objects(topology);
        // Largest first, so that containing objects are inserted earlier. The stable sort keeps the
        // order of kinds.
        objects.sort_by_key(|(_, cpus)| std::cmp::Reverse(cpus.len()));
        for (kind, cpus) in objects {
            tree.insert(kind, cpus);
        }
        for node in &topology.nodes {
            let parent = tree.attachment_point(&near(topology, node));
            tree.objects[parent].nodes.push(node.id);
        }
        tree
    }

    fn insert(&mut self, kind: ObjectKind, cpus: CpuSet) {
        let parent = self.smallest_around(&cpus);
        let overlaps = |child: &usize| {
            let shared = self.objects[*child].cpus.intersection(&cpus);
            !shared.is_empty()
        };
        let alike = matches!(kind, ObjectKind::Group) && parent != 0 && self.objects[parent].cpus == cpus;
        if alike || self.objects[parent].children.iter().any(overlaps) {
            return;
        }
        let index = self.objects.len();
        self.objects.push(Object { kind, cpus, children: Vec::new(), nodes: Vec::new() });
        self.objects[parent].children.push(index);
    }

    /// Returns the innermost object that contains these CPUs.
    fn smallest_around(&self, cpus: &CpuSet) -> usize {
        let mut object_index = 0;
        loop {
            let inside = |child: &&usize| cpus.is_subset(&self.objects[**child].cpus);
            match self.objects[object_index].children.iter().find(inside) {
                Some(child) => object_index = *child,
                None => return object_index,
            }
        }
    }

    /// Returns the object to which memory or a device near these CPUs is attached.
    ///
    /// It is the smallest object around the CPUs; of several with equal CPUs, the outermost below
    /// the machine.
    pub fn attachment_point(&self, cpus: &CpuSet) -> usize {
        let mut object_index = 0;
        if cpus.is_empty() {
            return object_index;
        }
        loop {
            let inside = |child: &&usize| cpus.is_subset(&self.objects[**child].cpus);
            let Some(child) = self.objects[object_index].children.iter().find(inside) else {
                return object_index;
            };
            if object_index != 0 && self.objects[object_index].cpus == self.objects[*child].cpus {
                return object_index;
            }
            object_index = *child;
        }
    }
}

/// Returns all objects except the machine, by kind.
fn objects(topology: &Topology) -> Vec<(ObjectKind, CpuSet)> {
    let online = || topology.cpus.iter().filter(|cpu| cpu.online);
    let mut objects = Vec::new();
    let mut sets = |key: &dyn Fn(&Cpu) -> Option<(u32, u32)>, kind: &dyn Fn(u32) -> ObjectKind| {
        let mut found: BTreeMap<(u32, u32), CpuSet> = BTreeMap::new();
        for cpu in online() {
            if let Some(key) = key(cpu) {
                found.entry(key).or_default().insert(cpu.id);
            }
        }
        objects.extend(found.into_iter().map(|((_, index), cpus)| (kind(index), cpus)));
    };
    sets(&|cpu| Some((0, cpu.package?.0)), &ObjectKind::Package);
    if several_dies(topology) {
        sets(&|cpu| Some((cpu.package?.0, cpu.die?)), &ObjectKind::Die);
    }
    let nodes = topology.nodes.iter().filter(|node| !node.cpus.is_empty());
    objects.extend(nodes.map(|node| (ObjectKind::Group, node.cpus.clone())));
    let mut caches: Vec<&Cache> = topology.caches.iter().collect();
    caches.sort_by_key(|cache| (std::cmp::Reverse(cache.level), cache.kind == "Instruction"));
    // hwloc supports cache levels 1 to 5.
    let caches = caches.into_iter().filter(|cache| (1..=5).contains(&cache.level) && !cache.cpus.is_empty());
    objects.extend(caches.map(|cache| (ObjectKind::Cache(cache.clone()), cache.cpus.clone())));
    let mut cores: BTreeMap<CpuSet, u32> = BTreeMap::new();
    for cpu in online() {
        let threads: CpuSet =
            cpu.siblings.iter().filter(|id| topology.cpu(*id).is_some_and(|cpu| cpu.online)).collect();
        if let (Some(core), true) = (cpu.core, threads.contains(cpu.id)) {
            cores.entry(threads).or_insert(core);
        }
    }
    objects.extend(cores.into_iter().map(|(cpus, core)| (ObjectKind::Core(core), cpus)));
    objects.extend(online().map(|cpu| (ObjectKind::Pu(cpu.id.0), CpuSet::one(cpu.id))));
    objects
}

/// Returns whether a package has more than one die; hwloc shows dies only then.
fn several_dies(topology: &Topology) -> bool {
    let mut first: BTreeMap<u32, u32> = BTreeMap::new();
    topology
        .cpus
        .iter()
        .filter_map(|cpu| Some((cpu.package?.0, cpu.die?)))
        .any(|(package, die)| *first.entry(package).or_insert(die) != die)
}

/// Returns the CPUs near a node: its own, else those of its HMAT initiators, else those of its
/// packages.
fn near(topology: &Topology, node: &Node) -> CpuSet {
    if !node.cpus.is_empty() {
        return node.cpus.clone();
    }
    let of_nodes = |nodes: &NodeSet| -> CpuSet {
        nodes.iter().filter_map(|id| topology.node(id)).flat_map(|node| node.cpus.iter()).collect()
    };
    let initiators = node.access.first().map(|access| of_nodes(&access.initiators)).unwrap_or_default();
    if !initiators.is_empty() {
        return initiators;
    }
    let packaged =
        |cpu: &&Cpu| cpu.online && cpu.package.is_some_and(|package| node.packages.contains(&package));
    topology.cpus.iter().filter(packaged).map(|cpu| cpu.id).collect()
}

/// A counter of unique object indexes (`gp_index`).
#[derive(Default)]
pub struct Indexes(u64);

impl Indexes {
    /// Returns the next index.
    pub fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// Converts objects to XML elements.
pub struct ElementWriter<'a> {
    tree: &'a ObjectTree,
    topology: &'a Topology,
    devices: devices::DeviceTree<'a>,
    indexes: Indexes,
    nodes: BTreeMap<NodeId, u64>,
}

impl<'a> ElementWriter<'a> {
    /// Creates the writer of a tree.
    pub fn new(tree: &'a ObjectTree, topology: &'a Topology) -> Self {
        let devices = devices::DeviceTree::new(topology, tree);
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
        .filter(|node| node.memory_allowed || node.memory.is_none())
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
