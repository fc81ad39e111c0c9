//! hwloc's object tree of a machine.
//!
//! hwloc nests packages, dies, groups, caches, cores and hardware threads by their CPUs, and
//! attaches nodes and devices to the object with their local CPUs. An object that partly overlaps
//! another is left out, as in hwloc.

use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::{Cache, Cpu, Node, Topology};
use std::collections::BTreeMap;

/// An object of the tree.
pub struct Object {
    pub kind: ObjectKind,
    pub cpus: CpuSet,
    pub children: Vec<usize>,
    /// Nodes attached to the object.
    pub nodes: Vec<NodeId>,
}

/// Kinds of objects, in nesting order for equal CPU sets.
pub enum ObjectKind {
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
    pub objects: Vec<Object>,
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
