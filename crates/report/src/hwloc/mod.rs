//! Exports a machine and its measurements to hwloc.
//!
//! hwloc (Broquedis et al., PDP 2010) models bandwidth and latency as memory attributes from an
//! initiator's CPUs to a target node. Firmware (HMAT) states them at best for the nearest memory;
//! measurements cover all pairs. The XML format is that of hwloc 2.x (`hwloc2.dtd`), which 3.x also
//! reads.

mod annotate;
mod attributes;
mod bitmap;
mod devices;
mod element;
mod tree;
mod writer;

pub use attributes::MeasurementSet;

use element::Element;
use numaio_machine::topology::Topology;

/// Formats a machine as hwloc XML for `lstopo -i`: objects, devices, distances and, as memory
/// attributes, the measurements.
pub fn hwloc_xml(topology: &Topology, measured: MeasurementSet) -> String {
    let tree = tree::ObjectTree::new(topology);
    let mut root = Element::new("topology").with("version", "2.0");
    let mut objects = writer::ElementWriter::new(&tree, topology);
    root.add(objects.machine());
    if let Some(distances) = distances(topology) {
        root.add(distances);
    }
    for attribute in attributes::collect(measured) {
        root.add(objects.attribute(&attribute));
    }
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n";
    root.document(head)
}

/// Formats the same attributes as a shell script of `hwloc-annotate` commands for an XML file from
/// `lstopo`.
pub fn hwloc_annotate(topology: &Topology, measured: MeasurementSet) -> String {
    annotate::script(topology, &attributes::collect(measured))
}

/// Returns the SLIT distances, if the kernel reports them.
fn distances(topology: &Topology) -> Option<Element> {
    /// `HWLOC_DISTANCES_KIND_FROM_OS | HWLOC_DISTANCES_KIND_MEANS_LATENCY`
    const FROM_OS_LATENCY: u32 = 1 | 4;
    let distances = topology.distances.as_ref().filter(|distances| distances.nodes.len() > 1)?;
    let list = |numbers: &mut dyn Iterator<Item = u32>| -> String {
        numbers.map(|number| format!("{number} ")).collect()
    };
    let text = |name, text: String| Element::new(name).with("length", text.len()).text(text);
    let mut element = Element::new("distances2")
        .with("type", "NUMANode")
        .with("nbobjs", distances.nodes.len())
        .with("kind", FROM_OS_LATENCY)
        .with("name", "NUMALatency")
        .with("indexing", "os");
    element.add(text("indexes", list(&mut distances.nodes.iter().map(|node| node.0))));
    element.add(text("u64values", list(&mut distances.rows.iter().flatten().copied())));
    Some(element)
}
