//! Memory of the machine and of its nodes: meminfo, huge pages and device memory.

use super::directory::Dir;
use crate::spec::{NodeSpec, Spec};
use numaio_machine::interleave;
use numaio_machine::topology::HugePages;
use numaio_machine::tree::Tree;
use std::collections::BTreeMap;

pub(super) fn render(spec: &Spec, tree: &mut Tree) {
    let sum = |of: fn(&NodeSpec) -> u64| spec.nodes.iter().map(of).fold(0, u64::saturating_add) >> 10;
    let (total, free) = (sum(|node| node.memory_bytes), sum(|node| node.free_bytes));
    tree.file(
        "/proc/meminfo",
        format!(
            "MemTotal:       {total:8} kB\nMemFree:        {free:8} kB\nMemAvailable:   {free:8} kB\n\
             Buffers:               0 kB\nCached:                0 kB\nSwapTotal:             0 kB\n\
             SwapFree:              0 kB\nHugepagesize:       2048 kB\n"
        ),
    );
    for node in spec.memory_nodes() {
        tree.file(&interleave::path(node.id), "1\n");
    }
    for node in &spec.nodes {
        let path = format!("/sys/devices/system/node/node{}", node.id);
        tree.file(&format!("{path}/meminfo"), meminfo(node));
        for pool in &node.huge_pages {
            render_pool(pool, &path, tree);
        }
    }
    render_whole_pools(spec, tree);
    render_transparent(spec, tree);
    for (index, node) in spec.memory_nodes().filter(|node| node.memory_kind != "DRAM").enumerate() {
        render_device_memory(index, node, tree);
    }
    render_tiers(spec, tree);
}

fn meminfo(node: &NodeSpec) -> String {
    let (total, free) = (node.memory_bytes >> 10, node.free_bytes >> 10);
    let huge: u64 =
        node.huge_pages.iter().filter(|pool| pool.page_bytes == 2 << 20).map(|pool| pool.total).sum();
    let huge_free: u64 =
        node.huge_pages.iter().filter(|pool| pool.page_bytes == 2 << 20).map(|pool| pool.free).sum();
    let lines = [
        ("MemTotal", total),
        ("MemFree", free),
        ("MemUsed", total - free.min(total)),
        ("Active", 0),
        ("Inactive", 0),
        ("Active(file)", 0),
        ("Inactive(file)", 0),
        ("Dirty", 0),
        ("FilePages", 0),
        ("AnonPages", total - free.min(total)),
        ("Shmem", 0),
        ("KReclaimable", 0),
        ("SReclaimable", 0),
    ];
    let id = node.id;
    let mut text: String =
        lines.iter().map(|(name, kb)| format!("Node {id} {:15} {kb:8} kB\n", format!("{name}:"))).collect();
    for (name, pages) in [("Total", huge), ("Free", huge_free), ("Surp", 0)] {
        text += &format!("Node {id} HugePages_{name}: {pages:5}\n");
    }
    text
}

fn render_pool(pool: &HugePages, path: &str, tree: &mut Tree) {
    Dir::new(tree, format!("{path}/hugepages/hugepages-{}kB", pool.page_bytes >> 10))
        .value("nr_hugepages", pool.total)
        .value("free_hugepages", pool.free)
        .value("surplus_hugepages", 0);
}

/// The pools of all nodes together (`Documentation/admin-guide/mm/hugetlbpage.rst`).
fn render_whole_pools(spec: &Spec, tree: &mut Tree) {
    let mut pools: BTreeMap<u64, (u64, u64)> = BTreeMap::from([(2 << 20, (0, 0))]);
    for pool in spec.nodes.iter().flat_map(|node| &node.huge_pages) {
        let sum = pools.entry(pool.page_bytes).or_default();
        *sum = (sum.0 + pool.total, sum.1 + pool.free);
    }
    for (page_bytes, (total, free)) in pools {
        Dir::new(tree, format!("/sys/kernel/mm/hugepages/hugepages-{}kB", page_bytes >> 10))
            .value("nr_hugepages", total)
            .value("free_hugepages", free)
            .value("resv_hugepages", 0)
            .value("surplus_hugepages", 0);
    }
}

fn render_transparent(spec: &Spec, tree: &mut Tree) {
    let chosen = spec.conditions.transparent_huge_pages.as_str();
    let choices = ["always", "madvise", "never"].map(|choice| match choice == chosen {
        true => format!("[{choice}]"),
        false => choice.to_owned(),
    });
    Dir::new(tree, "/sys/kernel/mm/transparent_hugepage")
        .value("enabled", choices.join(" "))
        .value("hpage_pmd_size", 2 << 20);
}

/// Memory that a driver onlined: the parent of its dax device shows its origin
/// (`Documentation/ABI/testing/sysfs-bus-dax`).
fn render_device_memory(index: usize, node: &NodeSpec, tree: &mut Tree) {
    let parent = match node.memory_kind.as_str() {
        "CXL" => format!("platform/ACPI0017:00/root0/decoder0.0/region{index}/dax_region{index}"),
        "PMEM" => format!("LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region{index}/dax{index}.0"),
        _ => format!("platform/hmem.{index}"),
    };
    let place = format!("/sys/devices/{parent}/dax{index}.0");
    Dir::new(tree, &place)
        .value("target_node", node.id)
        .value("numa_node", node.id)
        .value("size", node.memory_bytes);
    Dir::new(tree, "/sys/bus/dax/devices").link(&format!("dax{index}.0"), &place);
}

/// Memory tiers, fast before slow (`Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers`).
fn render_tiers(spec: &Spec, tree: &mut Tree) {
    let tier = |node: &&NodeSpec| if matches!(node.memory_kind.as_str(), "DRAM" | "HBM") { 4 } else { 22 };
    for number in [4, 22] {
        let nodes: numaio_machine::set::NodeSet =
            spec.memory_nodes().filter(|node| tier(node) == number).map(|node| node.id).collect();
        if !nodes.is_empty() {
            let place = format!("/sys/devices/virtual/memory_tiering/memory_tier{number}");
            Dir::new(tree, place).value("nodelist", nodes);
        }
    }
}
