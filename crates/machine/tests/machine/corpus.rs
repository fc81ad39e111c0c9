//! Topologies of recorded machines, compared with hwloc.
//!
//! hwloc's test suite contains trees of /sys and /proc of real machines, which are not part of this
//! repository: the tests read them from `NUMAIO_CORPUS`, or from `../shared/data/hwloc-machines`
//! beside it. Without them, `tar` or `lstopo` the tests log a message and pass. [`DELIBERATE`]
//! lists every intended difference with its reason; unlisted differences and obsolete entries fail
//! (with hwloc 2.9).

use crate::support::witness::{self, Witness};
use crate::support::{machines, print_note};
use numaio_machine::conditions;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::tape::{Recording, Replay, Tape, TapeHeader, TAPE_SCHEMA};
use numaio_machine::topology::{self, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Intended differences: machine, property, reason.
///
/// A property matches up to the colon: `allowed CPUs`, `memory of node 3`.
const DELIBERATE: &[(&str, &str, &str)] = &[
    (
        "128ia64-17n4s2c",
        "packages near node 16",
        "node 16 is equally far (14) from every node with CPUs: numaio lists all as nearest, hwloc none",
    ),
    (
        "20s390-2g6s4c",
        "packages",
        "physical_package_id is -1: hwloc reports packages without a number; numaio numbers them by first CPU",
    ),
    ("256ppc-8n8s4t", "packages", "the same"),
    (
        "40intel64-4n10c+pci-conflicts",
        "packages",
        "core_siblings of CPU 3 was falsified by hand; numaio uses physical_package_id, and hwloc drops package 3",
    ),
    (
        "40intel64-4n10c+pci-conflicts",
        "caches",
        "shared_cpu_map of two L3 caches was falsified by hand, and hwloc drops what overlaps",
    ),
    (
        "8em64t-2s2ca2c-buggynuma",
        "nodes",
        "eight nodes claim the same CPUs: hwloc drops all but the first, and with them memory that is there; we keep \
         the nodes, give the CPUs to the first, and find a problem",
    ),
    ("8em64t-2s2ca2c-buggynuma", "allowed nodes", "as its nodes"),
    (
        "fakeheterocpunuma",
        "nodes",
        "nodes 3, 4 and 5 overlap: hwloc drops 4 and 5; numaio keeps them with the CPUs of no lower node",
    ),
    ("fakeheterocpunuma", "allowed nodes", "as its nodes"),
    (
        "nvidiagpunumanodes",
        "allowed CPUs",
        "the cpuset is configured for 0-175, but is effectively 0-87: hwloc 2.9 reads the configured set",
    ),
    ("nvidiagpunumanodes", "allowed nodes", "the same: configured 0,8,250-255, effectively 0"),
];

#[test]
fn recorded_machines_are_consistent() {
    for (name, root) in machines() {
        let tree = crate::support::load(&root);
        let machine = topology::read(&tree);
        assert!(!machine.nodes.is_empty(), "{name}: no nodes");
        assert!(!machine.confinement.cpus.is_empty(), "{name}: no CPUs");
        let mut seen = BTreeSet::new();
        for node in &machine.nodes {
            assert!(node.cpus.iter().all(|cpu| seen.insert(cpu)), "{name}: a CPU is on two nodes");
            assert!(node
                .cpus
                .iter()
                .all(|cpu| machine.cpu(cpu).is_some_and(|cpu| cpu.node == Some(node.id))));
        }
        for cpu in &machine.cpus {
            assert!(cpu.siblings.contains(cpu.id), "{name}: CPU {} is not its own sibling", cpu.id);
        }
        let stored = serde_json::to_string(&machine).expect("a serialized topology");
        assert_eq!(serde_json::from_str::<Topology>(&stored).expect("a topology"), machine, "{name}");
        assert_eq!(topology::fingerprint(&machine).len(), 16, "{name}");
        let has_model =
            std::fs::read_to_string(root.join("proc/cpuinfo")).is_ok_and(|text| !text.trim().is_empty());
        assert_eq!(!machine.identity.cpu_model.is_empty(), has_model, "{name}: CPU model");
    }
}

#[test]
fn tape_of_a_recorded_machine_replays_it() {
    for (name, root) in machines() {
        let header = TapeHeader {
            tape: TAPE_SCHEMA.to_owned(),
            numaio: "test".to_owned(),
            name: name.clone(),
            note: String::new(),
            recorded_at: 0,
        };
        let recording = Recording::new(crate::support::load(&root), header);
        let machine = topology::read(&recording);
        let conditions = conditions::read(&recording);
        let tape = Tape::parse(&recording.tape().to_text()).expect("a tape");
        let replay = Replay::new(tape);
        assert_eq!(topology::read(&replay), machine, "{name}");
        assert_eq!(conditions::read(&replay), conditions, "{name}");
    }
}

#[test]
fn topology_matches_hwloc() {
    let mut differences: BTreeSet<(String, String)> = BTreeSet::new();
    let mut figures_of = BTreeMap::new();
    let mut compared = 0;
    let Some((lstopo, version)) = witness::lstopo() else {
        print_note("skipped: no lstopo (hwloc) to compare recorded machines with");
        return;
    };
    for (name, root) in machines() {
        compared += 1;
        let witness = witness::ask(lstopo, &root);
        let machine = topology::read(&crate::support::load(&root));
        for (what, figures) in compare(&machine, &witness) {
            figures_of.insert((name.clone(), what.clone()), figures);
            differences.insert((name.clone(), what));
        }
    }
    if compared == 0 {
        return;
    }
    print_note(&format!(
        "{compared} recorded machines compared with hwloc {version}, {} deliberate differences",
        DELIBERATE.len()
    ));
    let known: BTreeSet<(String, String)> =
        DELIBERATE.iter().map(|(name, what, _)| (name.to_string(), what.to_string())).collect();
    let list = |set: BTreeSet<&(String, String)>| -> String {
        set.iter()
            .map(|key| {
                format!("\n  {}: {}: {}", key.0, key.1, figures_of.get(*key).map_or("", String::as_str))
            })
            .collect()
    };
    let new = list(differences.difference(&known).collect());
    let obsolete = list(known.difference(&differences).collect());
    // Another version of hwloc may agree.
    let obsolete = if version.starts_with(witness::KNOWN_VERSION) { obsolete } else { String::new() };
    assert!(
        new.is_empty() && obsolete.is_empty(),
        "differences not listed:{new}\nlisted but absent:{obsolete}"
    );
}

/// Returns the differing properties with both values.
fn compare(ours: &Topology, witness: &Witness) -> Vec<(String, String)> {
    let mut differences = Vec::new();
    let mut check = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            differences.push((what.to_owned(), format!("{ours}, hwloc {theirs}")));
        }
    };
    let online: CpuSet = ours.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    let all: CpuSet = ours.cpus.iter().map(|cpu| cpu.id).collect();
    check("online CPUs", online.to_string(), witness.cpus.to_string());
    check("CPUs", all.to_string(), witness.complete_cpus.to_string());
    check(
        "allowed CPUs",
        ours.confinement.cpus.to_string(),
        witness.allowed_cpus.intersection(&online).to_string(),
    );
    let allowed = witness.allowed_nodes.intersection(&ours.memory_nodes());
    check("allowed nodes", ours.confinement.nodes.to_string(), allowed.to_string());
    let ids: NodeSet = ours.nodes.iter().map(|node| node.id).collect();
    check("nodes", ids.to_string(), witness.nodes.keys().copied().collect::<NodeSet>().to_string());
    for node in &ours.nodes {
        let Some(theirs) = witness.nodes.get(&node.id) else { continue };
        let id = node.id;
        let bytes = node.memory.map_or(0, |memory| memory.total_bytes);
        check(&format!("memory of node {id}"), bytes.to_string(), theirs.memory_bytes.to_string());
        if node.cpus.is_empty() {
            // hwloc lists the CPUs near a node without CPUs; numaio lists their packages.
            let near = packages_of(ours, &theirs.cpus);
            check(&format!("packages near node {id}"), format!("{:?}", node.packages), format!("{near:?}"));
        } else {
            check(&format!("CPUs of node {id}"), node.cpus.to_string(), theirs.cpus.to_string());
        }
    }
    let texts = |packages: &BTreeMap<u32, CpuSet>| -> String {
        packages.iter().map(|(id, cpus)| format!("{id}={cpus} ")).collect()
    };
    check("packages", texts(&packages(ours)), texts(&witness.packages));
    let caches: BTreeSet<String> = ours
        .caches
        .iter()
        .map(|cache| format!("L{} {} {} of {}", cache.level, cache.kind, cache.bytes, cache.cpus))
        .collect();
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| -> String {
        a.difference(b).take(3).map(|cache| format!("{cache}; ")).collect()
    };
    check("caches", only(&caches, &witness.caches), only(&witness.caches, &caches));
    differences
}

fn packages(machine: &Topology) -> BTreeMap<u32, CpuSet> {
    let mut packages: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for cpu in machine.cpus.iter().filter(|cpu| cpu.online) {
        if let Some(package) = cpu.package {
            packages.entry(package.0).or_default().insert(cpu.id);
        }
    }
    packages
}

fn packages_of(machine: &Topology, cpus: &CpuSet) -> Vec<numaio_machine::ids::PackageId> {
    let found: BTreeSet<_> = cpus.iter().filter_map(|cpu| machine.cpu(cpu)?.package).collect();
    found.into_iter().collect()
}
