//! hwloc's view of a machine, with what was measured on it.
//!
//! hwloc (Broquedis et al., PDP 2010) knows bandwidth and latency as memory attributes, from an initiator's
//! CPUs to a target node. Firmware's HMAT gives them for near memory at best; measurements give all pairs.
//! The XML is that of hwloc 2.x (`hwloc2.dtd`), which 3.x reads too.

mod annotate;
mod attributes;
mod devices;
mod element;
mod tree;

use element::Element;
use numaio_machine::set::IdSet;
use numaio_machine::topology::Topology;
use numaio_schema::{LatencyRecord, Model, StreamRecord};

/// What was measured on a machine, as far as it was.
#[derive(Debug, Clone, Copy, Default)]
pub struct MeasurementSet<'a> {
    /// STREAM.
    pub stream: Option<&'a StreamRecord>,
    /// Latency.
    pub latency: Option<&'a LatencyRecord>,
    /// Copies.
    pub model: Option<&'a Model>,
}

/// A machine as hwloc XML that `lstopo -i` reads: its objects, devices and distances, and as memory attributes
/// what was measured.
pub fn hwloc_xml(topology: &Topology, measured: MeasurementSet) -> String {
    let tree = tree::ObjectTree::new(topology);
    let mut root = Element::new("topology").with("version", "2.0");
    let mut objects = tree::ElementWriter::new(&tree, topology);
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

/// The same attributes as a shell script of `hwloc-annotate` commands, for an XML file that `lstopo` wrote.
pub fn hwloc_annotate(topology: &Topology, measured: MeasurementSet) -> String {
    annotate::script(topology, &attributes::collect(measured))
}

/// SLIT distances; none if the kernel tells none.
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

/// A set as hwloc writes it: words of 32 bits, the highest first.
fn bitmap<T: numaio_machine::ids::Id>(set: &IdSet<T>) -> String {
    let mut words: Vec<u32> = vec![0];
    for id in set.iter() {
        let (word, bit) = ((id.number() / 32) as usize, id.number() % 32);
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << bit;
    }
    let words: Vec<String> = words.iter().rev().map(|word| format!("0x{word:08x}")).collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::CpuId;

    #[test]
    fn sets_are_written_by_words() {
        let set = |ids: &[u32]| bitmap(&ids.iter().map(|id| CpuId(*id)).collect::<IdSet<CpuId>>());
        assert_eq!(set(&[]), "0x00000000");
        assert_eq!(set(&[0, 1, 31]), "0x80000003");
        assert_eq!(set(&[33, 64]), "0x00000001,0x00000002,0x00000000");
    }
}
