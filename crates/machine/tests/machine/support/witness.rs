//! Topologies of recorded machines by hwloc's lstopo.

use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// A machine as reported by hwloc.
#[derive(Debug, Default)]
pub struct Witness {
    pub cpus: CpuSet,
    pub complete_cpus: CpuSet,
    pub allowed_cpus: CpuSet,
    pub allowed_nodes: NodeSet,
    pub nodes: BTreeMap<NodeId, WitnessNode>,
    /// By the kernel's number; packages with the same number are merged.
    pub packages: BTreeMap<u32, CpuSet>,
    /// `L2 Unified 1048576 of 0-1`.
    pub caches: BTreeSet<String>,
}

#[derive(Debug)]
pub struct WitnessNode {
    pub cpus: CpuSet,
    pub memory_bytes: u64,
}

/// Version whose differences the tests list exactly.
pub const KNOWN_VERSION: &str = "2.9.";

/// Returns the program and its version, if installed.
pub fn lstopo() -> Option<(&'static str, String)> {
    ["lstopo-no-graphics", "lstopo"].into_iter().find_map(|program| {
        let output = Command::new(program).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Some((program, text.split_whitespace().last()?.to_owned()))
    })
}

/// Runs lstopo on the machine below `root`.
pub fn ask(program: &str, root: &Path) -> Witness {
    let output = Command::new(program)
        .args([
            "--of",
            "xml",
            "--disallowed",
            "--no-io",
            "--filter",
            "cache:all",
            "--filter",
            "icache:all",
            "-",
        ])
        .env("HWLOC_FSROOT", root)
        .env("HWLOC_THISSYSTEM", "0")
        .env("HWLOC_COMPONENTS", "linux,stop")
        // Otherwise it hides the memory of GPUs.
        .env("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1")
        .output()
        .expect("lstopo runs");
    assert!(output.status.success(), "lstopo failed on {}", root.display());
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn parse(xml: &str) -> Witness {
    let mut witness = Witness::default();
    for tag in xml.split("<object ").skip(1) {
        let attributes = attributes(tag.split('>').next().unwrap_or_default());
        let text = |name: &str| attributes.get(name).copied().unwrap_or_default();
        let number = |name: &str| text(name).parse::<u64>().ok();
        let index = number("os_index").map(|index| index as u32);
        let cpus = mask(text("cpuset"));
        match text("type") {
            "Machine" => {
                witness.cpus = cpus;
                witness.complete_cpus = mask(text("complete_cpuset"));
                witness.allowed_cpus = mask(text("allowed_cpuset"));
                let nodes = mask(text("allowed_nodeset"));
                witness.allowed_nodes = nodes.iter().map(|id| NodeId(id.0)).collect();
            }
            "NUMANode" => {
                let node = WitnessNode { cpus, memory_bytes: number("local_memory").unwrap_or(0) };
                witness.nodes.insert(NodeId(index.expect("nodes have numbers")), node);
            }
            "Package" => {
                if let Some(index) = index {
                    witness.packages.entry(index).or_default().extend(cpus.iter());
                }
            }
            kind if kind.ends_with("Cache") && kind.starts_with('L') => {
                let level = text("depth");
                let kind = ["Unified", "Data", "Instruction"][number("cache_type").unwrap_or(0) as usize];
                witness.caches.insert(format!("L{level} {kind} {} of {cpus}", text("cache_size")));
            }
            _ => {}
        }
    }
    assert!(!witness.cpus.is_empty(), "lstopo gave no machine");
    witness
}

/// Returns the attributes of an XML tag.
pub fn attributes(tag: &str) -> BTreeMap<&str, &str> {
    let mut attributes = BTreeMap::new();
    let mut rest = tag;
    while let Some((name, after)) = rest.split_once("=\"") {
        let Some((value, after)) = after.split_once('"') else { break };
        attributes.insert(name.trim(), value);
        rest = after;
    }
    attributes
}

/// Parses hwloc's masks, which omit empty words: `0xff,,0x0`.
fn mask(text: &str) -> CpuSet {
    let words: Vec<&str> = text.split(',').map(|word| if word.is_empty() { "0" } else { word }).collect();
    CpuSet::parse_mask(&words.join(",")).unwrap_or_default()
}
