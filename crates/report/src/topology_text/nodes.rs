//! Formats the table of nodes, and the memory attributes reported by firmware.

use crate::phrases;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::{Access, Node, Topology};
use numaio_machine::units::{format_size, BandwidthUnit};

/// Writes a row for each node.
pub(super) fn write(page: &mut TextPage, topology: &Topology) {
    page.heading("Nodes");
    let mut table = Table::new([
        ("NODE", Align::Right),
        ("PACKAGE", Align::Right),
        ("CPUS", Align::Left),
        ("CORES/THREADS", Align::Right),
        ("LAST-LEVEL CACHE", Align::Left),
        ("MEMORY", Align::Right),
        ("FREE", Align::Right),
        ("HUGE PAGES", Align::Left),
        ("DEVICES", Align::Right),
        ("NOTE", Align::Left),
    ]);
    let is_empty = |node: &Node| node.cpus.is_empty() && !node.has_memory();
    let rows = topology.nodes.chunk_by(|a, b| is_empty(a) && is_empty(b) && a.packages == b.packages);
    for same in rows {
        let ids: NodeSet = same.iter().map(|node| node.id).collect();
        table.row(row(topology, &same[0], &ids).map(Cell::from));
    }
    page.table(2, &table.without_empty_columns());
}

/// Writes the kinds of cores, on a machine with several.
pub(super) fn write_core_kinds(page: &mut TextPage, topology: &Topology) {
    let kinds = phrases::core_kinds(topology);
    if kinds.is_empty() {
        return;
    }
    page.heading("Kinds of cores, fastest first");
    kinds.iter().for_each(|kind| page.paragraph(2, 2, kind));
}

/// Formats a node, or several placeholders that differ in their ids alone.
fn row(topology: &Topology, node: &Node, ids: &NodeSet) -> [String; 10] {
    let packages = node.packages.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let near = if node.cpus.is_empty() && !packages.is_empty() { "near " } else { "" };
    let cores = phrases::cores_of(topology, &node.cpus);
    let cores = if cores == 0 { String::new() } else { format!("{cores}/{}", node.cpus.len()) };
    let devices = topology.devices_on(node.id).count();
    [
        ids.to_string(),
        format!("{near}{packages}"),
        node.cpus.to_string(),
        cores,
        phrases::last_cache(topology, &node.cpus),
        node.memory.map(|memory| format_size(memory.total_bytes)).unwrap_or_default(),
        node.memory.map(|memory| format_size(memory.free_bytes)).unwrap_or_default(),
        huge_pages(node),
        if devices == 0 { String::new() } else { devices.to_string() },
        phrases::node_notes(node).join(", "),
    ]
}

fn huge_pages(node: &Node) -> String {
    let reserved = node.huge_pages.iter().filter(|pool| pool.total > 0);
    let pool = reserved
        .map(|pool| format!("{} of {} free, {}", pool.free, pool.total, format_size(pool.page_bytes)));
    phrases::joined(pool, "; ")
}

/// The initiators of an access: the node itself, or a set of nodes.
#[derive(PartialEq)]
enum Origin {
    Itself,
    Nodes(NodeSet),
}

/// Writes the memory attributes from firmware (HMAT), with nodes of equal values in one row.
pub(super) fn write_access(page: &mut TextPage, topology: &Topology) {
    let unit = page.style().unit;
    let mut rows: Vec<(NodeSet, Origin, [String; 5])> = Vec::new();
    for node in &topology.nodes {
        for access in without_duplicates(&node.access) {
            let from = origin(node.id, &access.initiators);
            let figures = figures(access, unit);
            match rows.iter_mut().find(|(_, its_from, its)| *its_from == from && *its == figures) {
                Some((nodes, ..)) => drop(nodes.insert(node.id)),
                None => rows.push((NodeSet::one(node.id), from, figures)),
            }
        }
    }
    if rows.is_empty() {
        return;
    }
    page.heading("Memory attributes reported by firmware (HMAT)");
    let titles = ["MEMORY OF", "FROM NODES", "INITIATORS", "READ", "WRITE", "READ LATENCY", "WRITE LATENCY"];
    let mut table = Table::new(titles.map(|title| {
        (
            title,
            if title.starts_with("READ") || title.starts_with("WRITE") { Align::Right } else { Align::Left },
        )
    }));
    for (nodes, from, figures) in rows {
        let from = match from {
            Origin::Itself => "itself".to_owned(),
            Origin::Nodes(nodes) => nodes.to_string(),
        };
        table.row([nodes.to_string(), from].into_iter().chain(figures).map(Cell::from));
    }
    page.table(2, &table.without_empty_columns());
}

/// Removes access class 1 if it equals class 0.
fn without_duplicates(access: &[Access]) -> impl Iterator<Item = &Access> {
    let repeats = |one: &&Access, other: &Access| Access { class: one.class, ..other.clone() } == **one;
    access.iter().filter(move |access_1| {
        access_1.class == 0 || !access.iter().any(|class_0| class_0.class == 0 && repeats(access_1, class_0))
    })
}

fn origin(node: NodeId, initiators: &NodeSet) -> Origin {
    match initiators {
        initiators if *initiators == NodeSet::one(node) => Origin::Itself,
        initiators => Origin::Nodes(initiators.clone()),
    }
}

fn figures(access: &Access, unit: BandwidthUnit) -> [String; 5] {
    let bandwidth =
        |value: Option<f64>| value.map(|value| phrases::bandwidth(value, unit)).unwrap_or_default();
    let latency = |value: Option<u64>| value.map(|value| format!("{value} ns")).unwrap_or_default();
    [
        if access.class == 0 { "nearest" } else { "nearest with CPUs" }.to_owned(),
        bandwidth(access.read_bytes_per_s),
        bandwidth(access.write_bytes_per_s),
        latency(access.read_latency_ns),
        latency(access.write_latency_ns),
    ]
}
