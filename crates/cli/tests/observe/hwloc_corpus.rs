//! Recorded machines exported as hwloc XML, compared with hwloc's own view of the same files.
//!
//! crates/machine/tests/machine/corpus.rs names the source of the machines. [`DELIBERATE`] lists
//! every expected difference with its reason. An unlisted difference fails, and so does a listed
//! one that is absent (with the version of hwloc that it was found with).

use crate::recorded::witness::{attributes, lstopo, KNOWN_VERSION};
use crate::recorded::{machines, print_note};
use crate::support::{CommandOutput, Home, Limited};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Intended differences: machine, what differs, why.
const DELIBERATE: &[(&str, &str, &str)] = &[
    (
        "16ia64-8n2s",
        "Package",
        "two CPUs of one physical_package_id list only themselves as core_siblings: hwloc reports two packages \
         of the same number; numaio groups by the number",
    ),
    ("20s390-2g6s4c", "Package", "physical_package_id is -1: hwloc reports packages without a number; numaio numbers them"),
    ("256ppc-8n8s4t", "Package", "the same: hwloc reports a package for every four threads"),
    (
        "2pa-pcidomain32bits",
        "remarks",
        "hwloc's default build supports PCI domains of 16 bits, and omits the bus with a larger one",
    ),
    ("2pa-pcidomain32bits", "OSDev", "card0 is exported; hwloc omits nodes of graphics cards without --whole-io"),
    ("2ps3-2t", "Core", "core_id is missing: hwloc reports a core for the threads, numaio reports no cores"),
    ("32em64t-2n8c+dax+nvme+mic+dimms", "OSDev", "hwloc 2 does not name Xeon Phi cards (mic0); numaio treats DAX as memory, not as a device"),
    ("fakeheteromemtiers", "OSDev", "DAX is memory that programs map, not a device that moves data"),
    (
        "40intel64-4n10c+pci-conflicts",
        "Package",
        "core_siblings of CPU 3 was modified by hand; numaio uses physical_package_id, and hwloc drops package 3",
    ),
    (
        "64amd64-4s2n4ca2co",
        "Core",
        "the threads of a module of AMD's family 15h share a front end: the kernel and numaio treat them as \
         siblings, and hwloc treats each as a core",
    ),
    (
        "8em64t-2s2ca2c-buggynuma",
        "NUMANode",
        "eight nodes claim the same CPUs: hwloc drops all but the first; numaio keeps them and reports a problem",
    ),
    ("fakeheterocpunuma", "NUMANode", "nodes 3, 4 and 5 overlap: hwloc drops 4 and 5; numaio keeps them"),
];

/// The compared types of objects, and the attributes that identify an object.
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
fn exports_match_the_objects_that_hwloc_discovers() {
    let Some((lstopo, version)) = lstopo() else {
        return print_note("skipped: no lstopo (hwloc) to read exported machines");
    };
    let home = Home::new();
    let mut found: BTreeMap<(String, String), String> = BTreeMap::new();
    let machines = machines();
    for (name, root) in &machines {
        let root_text = root.to_string_lossy();
        let xml = home.run(&["export", "--sysroot", &root_text, "--quiet"]).ok();
        let xml = home.file("machine.xml", &xml);
        let (reexported, remarks) = reexport(&home, lstopo, &xml);
        let reexported = objects(&reexported);
        assert_eq!(counts(&home, &xml), lengths(&reexported), "{name}: hwloc-info and lstopo");
        let mut differs = |what: &str, figures: String| found.insert((name.clone(), what.into()), figures);
        if !remarks.is_empty() {
            differs("remarks", remarks);
        }
        let reference = objects(&discovered_by_hwloc(lstopo, root));
        for (what, _) in COMPARED {
            if reexported.get(what) != reference.get(what) {
                differs(what, format!("{:?}, hwloc {:?}", reexported.get(what), reference.get(what)));
            }
        }
    }
    if machines.is_empty() {
        return;
    }
    print_note(&format!("{} exported machines compared with hwloc {version}", machines.len()));
    let known: BTreeSet<(String, String)> =
        DELIBERATE.iter().map(|(name, what, _)| ((*name).into(), (*what).into())).collect();
    let new: Vec<_> = found.iter().filter(|(key, _)| !known.contains(*key)).collect();
    let absent: Vec<_> = known.iter().filter(|key| !found.contains_key(*key)).collect();
    assert!(new.is_empty(), "differences not listed: {new:#?}");
    // Another version of hwloc may agree with numaio.
    assert!(absent.is_empty() || !version.starts_with(KNOWN_VERSION), "listed but absent: {absent:?}");
}

/// Returns the file as lstopo reads and writes it with consistency checks, and its messages.
fn reexport(home: &Home, lstopo: &str, xml: &str) -> (String, String) {
    let mut command = home.command(lstopo, &["-i", xml, "--of", "xml", "--disallowed", "-"]);
    let checked = command.env("HWLOC_XML_VERBOSE", "1").env("HWLOC_DEBUG_CHECK", "1");
    let output = CommandOutput::of(checked.limited_output().expect("lstopo"));
    let remarks = output.err.clone();
    (output.ok(), remarks)
}

/// Returns the XML that hwloc writes for the files of a machine.
fn discovered_by_hwloc(lstopo: &str, root: &Path) -> String {
    let mut command = Command::new(lstopo);
    let command = command
        .args(["--of", "xml", "--disallowed", "-"])
        .env("HWLOC_FSROOT", root)
        .env("HWLOC_THISSYSTEM", "0")
        .env("HWLOC_COMPONENTS", "linux,stop")
        // Otherwise hwloc hides the memory of GPUs.
        .env("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1");
    CommandOutput::of(command.limited_output().expect("lstopo")).ok()
}

fn objects(xml: &str) -> Objects {
    let mut objects: Objects = COMPARED.iter().map(|(kind, _)| (*kind, Vec::new())).collect();
    for tag in xml.split("<object ").skip(1) {
        let attributes = attributes(tag.split('>').next().unwrap_or_default());
        let text = |name: &str| attributes.get(name).copied().unwrap_or("none");
        let Some((kind, names)) = COMPARED.iter().find(|(kind, _)| *kind == text("type")) else { continue };
        let values: Vec<&str> = names.iter().map(|name| text(name)).collect();
        objects.entry(kind).or_default().push(values.join(" "));
    }
    objects.values_mut().for_each(|of_kind| of_kind.sort());
    objects
}

fn lengths(objects: &Objects) -> BTreeMap<&'static str, usize> {
    objects.iter().map(|(kind, objects)| (*kind, objects.len())).collect()
}

/// Returns the counts of hwloc-info, which prints lines such as ` depth 3:  8 Core (type #2)`.
fn counts(home: &Home, xml: &str) -> BTreeMap<&'static str, usize> {
    let output = home
        .command("hwloc-info", &["--disallowed", "-i", xml])
        .limited_output()
        .expect("hwloc-info, which is packaged with lstopo");
    let text = CommandOutput::of(output).ok();
    let count = |kind: &str| {
        let mut words = text.lines().map(|line| line.split_whitespace().rev().skip(2));
        let of_kind =
            words.find_map(|mut words| (words.next() == Some(kind)).then(|| words.next()).flatten());
        of_kind.map_or(0, |number| number.parse().expect("a count"))
    };
    COMPARED.iter().map(|(kind, _)| (*kind, count(kind))).collect()
}
