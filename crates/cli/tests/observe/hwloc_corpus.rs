//! Recorded machines exported as hwloc XML, against what hwloc itself makes of the same files.
//!
//! Where the machines come from is told in crates/machine/tests/machine/corpus.rs. Every difference stands in
//! [`DELIBERATE`] with its reason; one that is not there fails, and so does one there that no longer shows (with
//! the version of hwloc it was found by).

use crate::recorded::witness::{attributes, lstopo, KNOWN_VERSION};
use crate::recorded::{machines, say};
use crate::support::{Home, Limited, Said};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Differences on purpose: machine, what differs, why.
const DELIBERATE: &[(&str, &str, &str)] = &[
    (
        "16ia64-8n2s",
        "Package",
        "two CPUs of one physical_package_id name only themselves as core_siblings: hwloc makes two packages of \
         the same number; we go by the number",
    ),
    ("20s390-2g6s4c", "Package", "physical_package_id is -1: hwloc makes packages without a number of it"),
    ("256ppc-8n8s4t", "Package", "the same: hwloc makes one of every four threads"),
    (
        "2pa-pcidomain32bits",
        "remarks",
        "hwloc as it is built by default has PCI domains of 16 bits, and leaves the bus with another one out",
    ),
    ("2pa-pcidomain32bits", "OSDev", "card0 is exported; of graphics cards hwloc names no nodes unless told --whole-io"),
    ("2ps3-2t", "Core", "there is no core_id: hwloc makes a core of the threads, and we say nothing of cores"),
    ("32em64t-2n8c+dax+nvme+mic+dimms", "OSDev", "hwloc 2 does not name Xeon Phi cards (mic0); DAX is memory, no device of ours"),
    ("fakeheteromemtiers", "OSDev", "DAX is memory that programs map, no device that moves data"),
    (
        "40intel64-4n10c+pci-conflicts",
        "Package",
        "core_siblings of CPU 3 was falsified by hand; we go by physical_package_id, and hwloc drops package 3",
    ),
    (
        "64amd64-4s2n4ca2co",
        "Core",
        "the threads of a module of AMD's family 15h share its pipeline's front end: the kernel calls them \
         siblings, as we do, and hwloc calls each a core",
    ),
    (
        "8em64t-2s2ca2c-buggynuma",
        "NUMANode",
        "eight nodes claim the same CPUs: hwloc drops all but the first; we keep them and find a problem",
    ),
    ("fakeheterocpunuma", "NUMANode", "nodes 3, 4 and 5 overlap: hwloc drops 4 and 5; we keep them"),
];

/// Types of objects that are compared, and what tells two of a type apart.
const COMPARED: [(&str, &[&str]); 6] = [
    ("NUMANode", &["os_index", "local_memory"]),
    ("Package", &["os_index"]),
    ("Core", &["cpuset"]),
    ("PU", &["os_index"]),
    ("PCIDev", &["pci_busid"]),
    ("OSDev", &["osdev_type", "name"]),
];

/// Objects of each type, sorted.
type Objects = BTreeMap<&'static str, Vec<String>>;

#[test]
fn hwloc_counts_in_an_export_what_it_counts_itself() {
    let Some((lstopo, version)) = lstopo() else {
        return say("skipped: no lstopo (hwloc) to read exported machines");
    };
    let home = Home::new();
    let mut found: BTreeMap<(String, String), String> = BTreeMap::new();
    let machines = machines();
    for (name, root) in &machines {
        let root_text = root.to_string_lossy();
        let xml = home.run(&["export", "--sysroot", &root_text, "--quiet"]).ok();
        let xml = home.file("machine.xml", &xml);
        let (drawn, remarks) = drawn(&home, lstopo, &xml);
        let drawn = objects(&drawn);
        assert_eq!(counts(&home, &xml), lengths(&drawn), "{name}: hwloc-info and lstopo");
        let mut differs = |what: &str, figures: String| found.insert((name.clone(), what.into()), figures);
        if !remarks.is_empty() {
            differs("remarks", remarks);
        }
        let witness = objects(&by_hwloc(lstopo, root));
        for (what, _) in COMPARED {
            if drawn.get(what) != witness.get(what) {
                differs(what, format!("{:?}, hwloc {:?}", drawn.get(what), witness.get(what)));
            }
        }
    }
    if machines.is_empty() {
        return;
    }
    say(&format!("{} exported machines compared with hwloc {version}", machines.len()));
    let known: BTreeSet<(String, String)> =
        DELIBERATE.iter().map(|(name, what, _)| ((*name).into(), (*what).into())).collect();
    let new: Vec<_> = found.iter().filter(|(key, _)| !known.contains(*key)).collect();
    let gone: Vec<_> = known.iter().filter(|key| !found.contains_key(*key)).collect();
    assert!(new.is_empty(), "differences not listed: {new:#?}");
    // Another version of hwloc may have come to agree.
    assert!(gone.is_empty() || !version.starts_with(KNOWN_VERSION), "listed but not there: {gone:?}");
}

/// The file as lstopo reads and writes it, and what it remarks; its own checks of consistency are on.
fn drawn(home: &Home, lstopo: &str, xml: &str) -> (String, String) {
    let mut command = home.command(lstopo, &["-i", xml, "--of", "xml", "--disallowed", "-"]);
    let checked = command.env("HWLOC_XML_VERBOSE", "1").env("HWLOC_DEBUG_CHECK", "1");
    let said = Said::of(checked.limited_output().expect("lstopo"));
    let remarks = said.err.clone();
    (said.ok(), remarks)
}

/// What hwloc makes of a machine's own files.
fn by_hwloc(lstopo: &str, root: &Path) -> String {
    let mut command = Command::new(lstopo);
    let of_root = command
        .args(["--of", "xml", "--disallowed", "-"])
        .env("HWLOC_FSROOT", root)
        .env("HWLOC_THISSYSTEM", "0")
        .env("HWLOC_COMPONENTS", "linux,stop")
        // It hides the memory of GPUs otherwise.
        .env("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1");
    Said::of(of_root.limited_output().expect("lstopo")).ok()
}

fn objects(xml: &str) -> Objects {
    let mut objects: Objects = COMPARED.iter().map(|(kind, _)| (*kind, Vec::new())).collect();
    for tag in xml.split("<object ").skip(1) {
        let attributes = attributes(tag.split('>').next().unwrap_or_default());
        let text = |name: &str| attributes.get(name).copied().unwrap_or("none");
        let Some((kind, names)) = COMPARED.iter().find(|(kind, _)| *kind == text("type")) else { continue };
        let told: Vec<&str> = names.iter().map(|name| text(name)).collect();
        objects.entry(kind).or_default().push(told.join(" "));
    }
    objects.values_mut().for_each(|of_kind| of_kind.sort());
    objects
}

fn lengths(objects: &Objects) -> BTreeMap<&'static str, usize> {
    objects.iter().map(|(kind, objects)| (*kind, objects.len())).collect()
}

/// Counts of hwloc-info, which prints lines as ` depth 3:  8 Core (type #2)`.
fn counts(home: &Home, xml: &str) -> BTreeMap<&'static str, usize> {
    let said = home
        .command("hwloc-info", &["--disallowed", "-i", xml])
        .limited_output()
        .expect("hwloc-info, which lstopo comes with");
    let text = Said::of(said).ok();
    let count = |kind: &str| {
        let mut words = text.lines().map(|line| line.split_whitespace().rev().skip(2));
        let of_kind =
            words.find_map(|mut words| (words.next() == Some(kind)).then(|| words.next()).flatten());
        of_kind.map_or(0, |number| number.parse().expect("a count"))
    };
    COMPARED.iter().map(|(kind, _)| (*kind, count(kind))).collect()
}
