//! Devices of recorded machines, compared with hwloc's lstopo.
//!
//! The machines are in the directory `NUMAIO_CORPUS`, or else in `shared/data/hwloc-machines`
//! beside the project. Without them, tar or lstopo the tests log a message and pass.

use crate::support::{load, machine_of, table};
use numaio_machine::devices::{self, Device};
use numaio_machine::findings::{find, Severity};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Intended differences to lstopo: machine, address or name, and reason.
const DELIBERATE: [(&str, &str, &str); 6] = [
    ("2pa-pcidomain32bits", "controlD64", "control nodes of graphics cards serve nothing since Linux 4.15"),
    ("2pa-pcidomain32bits", "10000:00:04.0", "lstopo leaves out PCI domains of 32 bits"),
    ("2pa-pcidomain32bits", "vda", "so its disk hangs on nothing there"),
    ("32em64t-2n8c+1mic", "mic0", "lstopo lists this card without its name"),
    ("32em64t-2n8c+1mic", "dax0.0", "memory that is mapped, not a device that moves data"),
    ("32em64t-2n8c+1mic", "dax1.3", "memory that is mapped, not a device that moves data"),
];

/// Classes whose functions are all devices that move data.
const MOVING: [&str; 6] = ["01", "02", "03", "12", "0b40", "0c06"];

/// A PCI function as reported by lstopo.
#[derive(Debug, Default)]
struct Function {
    class: String,
    nodes: NodeSet,
    names: BTreeSet<String>,
}

/// A machine as reported by lstopo.
#[derive(Debug, Default)]
struct Witness {
    functions: BTreeMap<String, Function>,
    /// Devices outside of PCI.
    others: BTreeSet<String>,
}

#[test]
fn devices_match_lstopo() {
    let machines = match recorded_machines() {
        Ok(machines) => machines,
        Err(why) => return log(&format!("skipped: {why}")),
    };
    let mut compared = 0;
    let mut on_purpose = BTreeSet::new();
    for (folder, tree) in machines {
        let name = folder.file_name().expect("a name").to_string_lossy();
        let mut machine = machine_of(tree);
        machine.devices = devices::read(tree, &machine.cpus_by_node());
        assert!(machine.devices.iter().any(Device::moves_data), "{name} has devices");
        match lstopo(folder) {
            Ok(witness) => {
                let differences = differences(&name, &machine.devices, &witness, &mut on_purpose);
                assert!(differences.is_empty(), "{name}: {differences:#?}\n{}", table(&machine.devices));
                compared += 1;
            }
            Err(why) => log(&format!("{name} not compared: {why}")),
        }
    }
    for (machine, about, _) in DELIBERATE {
        let seen = machines.iter().any(|(folder, _)| folder.ends_with(machine)) && compared == machines.len();
        assert!(!seen || on_purpose.contains(about), "{machine}: {about} does not differ any more");
    }
    log(&format!("{} machines read, {compared} compared with lstopo", machines.len()));
}

#[test]
fn finds_localities_of_recorded_machines() {
    let machines = match recorded_machines() {
        Ok(machines) => machines,
        Err(why) => return log(&format!("skipped: {why}")),
    };
    // Machine, device, node: from numa_node, from local CPUs, unknown, and with meaningless local
    // CPUs.
    let expected = [
        ("32em64t-2n8c+1mic", "ib0", Some(1)),
        ("32em64t-2n8c+1mic", "nvme0n1", Some(0)),
        ("32em64t-2n8c+1mic", "pmem1.1s", Some(1)),
        ("nvidiagpunumanodes", "0035:05:00.0", Some(8)),
        ("40intel64-2g2n4c+pci", "eth0", None),
        ("40intel64-2g2n4c+pci", "qib0", Some(2)),
        ("40intel64-4n10c+pci-conflicts", "sda", None),
        ("fakepcilocalities", "ib0", Some(1)),
    ];
    for (name, device, node) in expected {
        let Some(tree) = tree_of(machines, name) else { continue };
        let devices = devices::read(tree, &machine_of(tree).cpus_by_node());
        assert_eq!(
            crate::support::named(&devices, device).locality.node,
            node.map(NodeId),
            "{name} {device}"
        );
    }
}

#[test]
fn reports_no_fault_of_healthy_links() {
    let machines = match recorded_machines() {
        Ok(machines) => machines,
        Err(why) => return log(&format!("skipped: {why}")),
    };
    let Some(tree) = tree_of(machines, "32intel64-2p8co2t+8ve") else { return };
    let mut machine = machine_of(tree);
    machine.devices = devices::read(tree, &machine.cpus_by_node());
    let all = find(&Tree::new(), &machine, &Default::default());
    let about_links: Vec<(&str, &str, Severity)> = all
        .iter()
        .filter(|finding| finding.rule.starts_with("pcie"))
        .map(|finding| (finding.rule.as_str(), finding.subject.as_str(), finding.severity))
        .collect();
    // Two switches connect five cards of sixteen lanes each by sixteen lanes; the slow lane of the
    // chipset's NIC is not a fault.
    let shared = |port| ("pcie-link-shared", port, Severity::Note);
    assert_eq!(about_links, [shared("0000:18:00.0"), shared("0000:3b:00.0")]);
}

fn tree_of<'a>(machines: &'a [Machine], name: &str) -> Option<&'a Tree> {
    let machine = machines.iter().find(|(folder, _)| folder.ends_with(name));
    if machine.is_none() {
        log(&format!("{name} is not in the corpus"));
    }
    machine.map(|(_, tree)| tree)
}

/// The directory of a recorded machine, and its files.
type Machine = (PathBuf, Tree);

/// Recorded machines, loaded once for all tests.
fn recorded_machines() -> Result<&'static [Machine], &'static str> {
    static MACHINES: OnceLock<Result<Vec<Machine>, String>> = OnceLock::new();
    let load_all = || -> Result<Vec<Machine>, String> {
        Ok(unpacked_machines()?.into_iter().map(|folder| (folder.clone(), load(&folder))).collect())
    };
    match MACHINES.get_or_init(load_all) {
        Ok(machines) => Ok(machines),
        Err(why) => Err(why),
    }
}

/// Returns the unpacked machines with devices, or the reason why there are none.
fn unpacked_machines() -> Result<Vec<PathBuf>, String> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/hwloc-machines");
    let folder = std::env::var_os("NUMAIO_CORPUS").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut archives: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    archives.retain(|path| path.to_string_lossy().ends_with(".tar.bz2"));
    archives.sort();
    let mut machines = Vec::new();
    for archive in archives {
        machines.extend(unpacked(&archive)?);
    }
    if machines.is_empty() {
        Err(format!("no machine in {}", folder.display()))
    } else {
        Ok(machines)
    }
}

/// Returns the directory of an archive's content, if it has PCI functions.
fn unpacked(archive: &Path) -> Result<Option<PathBuf>, String> {
    let tar = |arguments: &[&str]| -> Result<String, String> {
        let output = Command::new("tar")
            .args(arguments)
            .arg(archive)
            .output()
            .map_err(|error| format!("tar: {error}"))?;
        let failed = || format!("tar: {}", String::from_utf8_lossy(&output.stderr));
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
            .ok_or_else(failed)
    };
    let content = tar(&["-tjf"])?;
    let has_devices = content.contains("/sys/bus/pci/devices/");
    let Some(top) = content.split('/').next().filter(|_| has_devices) else { return Ok(None) };
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("machines");
    let folder = target.join(top);
    let done = target.join(format!("{top}.unpacked"));
    if !done.exists() {
        std::fs::create_dir_all(&target).map_err(|error| error.to_string())?;
        tar(&["-C", &target.to_string_lossy(), "-xjf"])?;
        std::fs::write(done, "").map_err(|error| error.to_string())?;
    }
    Ok(Some(folder))
}

fn lstopo(folder: &Path) -> Result<Witness, String> {
    let output = Command::new("lstopo")
        .args(["--of", "xml", "--whole-io", "-"])
        .env("HWLOC_FSROOT", folder)
        .env("HWLOC_THISSYSTEM", "0")
        .output()
        .map_err(|error| format!("lstopo: {error}"))?;
    if !output.status.success() {
        return Err(format!("lstopo: {}", output.status));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses lstopo's XML: an object per line, with its children up to `</object>`.
fn parse(xml: &str) -> Witness {
    let mut witness = Witness::default();
    // Function address and nodes of the enclosing objects.
    let mut open: Vec<(Option<String>, NodeSet)> = vec![Default::default()];
    for line in xml.lines().map(str::trim) {
        if line == "</object>" {
            open.pop();
        }
        if !line.starts_with("<object ") {
            continue;
        }
        let (mut function, mut nodes) = open.last().cloned().unwrap_or_default();
        if let Some(mask) = attribute(line, "nodeset") {
            let words: Vec<&str> =
                mask.split(',').map(|word| if word.is_empty() { "0" } else { word }).collect();
            nodes = NodeSet::parse_mask(&words.join(",")).expect("a mask");
        }
        match attribute(line, "type") {
            Some("PCIDev" | "Bridge") => {
                function = attribute(line, "pci_busid").map(str::to_owned);
                if let (Some(address), Some(kind)) = (&function, attribute(line, "pci_type")) {
                    let found = witness.functions.entry(address.clone()).or_default();
                    (found.class, found.nodes) = (kind[..4].to_owned(), nodes.clone());
                }
            }
            Some("OSDev") => {
                let name = attribute(line, "name").expect("a name").to_owned();
                match function.as_ref().and_then(|address| witness.functions.get_mut(address)) {
                    Some(function) => function.names.insert(name),
                    None => witness.others.insert(name),
                };
            }
            _ => {}
        }
        if !line.ends_with("/>") {
            open.push((function, nodes));
        }
    }
    witness
}

fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let start = line.find(&format!(" {name}=\""))? + name.len() + 3;
    line[start..].split('"').next()
}

/// Returns the unintended differences to lstopo, and collects the intended ones.
fn differences(
    machine: &str,
    devices: &[Device],
    witness: &Witness,
    on_purpose: &mut BTreeSet<&'static str>,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |subject: &str, what: &str| match DELIBERATE
        .iter()
        .find(|(of, about, _)| (*of, *about) == (machine, subject))
    {
        Some((_, about, _)) => {
            on_purpose.insert(about);
        }
        None => found.push(format!("{subject}: {what}")),
    };
    let ours: BTreeMap<String, &Device> = devices
        .iter()
        .filter(|device| device.moves_data())
        .filter_map(|device| Some((device.pci?.to_string(), device)))
        .collect();
    for (address, function) in &witness.functions {
        let names = ours.get(address).map(|device| device.names.as_slice()).unwrap_or_default();
        for name in function.names.iter().filter(|name| !names.contains(name)) {
            differ(name, &format!("not a name of {address}"));
        }
        let moves = MOVING.iter().any(|class| function.class.starts_with(class));
        if moves && !ours.contains_key(address) {
            differ(address, "not among our devices");
        }
    }
    for (address, device) in &ours {
        let Some(function) = witness.functions.get(address) else {
            differ(address, "not seen by lstopo");
            continue;
        };
        for name in device.names.iter().filter(|name| !function.names.contains(*name)) {
            differ(name, &format!("not seen by lstopo below {address}"));
        }
        let elsewhere = device.locality.node.is_some_and(|node| !function.nodes.contains(node));
        let lost = device.locality.node.is_none() && function.nodes.len() == 1;
        if elsewhere || lost {
            differ(address, &format!("on {:?}, by lstopo on {}", device.locality.node, function.nodes));
        }
    }
    let others: BTreeSet<&String> =
        devices.iter().filter(|device| device.pci.is_none()).flat_map(|device| &device.names).collect();
    let theirs: BTreeSet<&String> = witness.others.iter().collect();
    others.symmetric_difference(&theirs).for_each(|name| differ(name, "seen by one of us only"));
    found
}

/// Writes a line to standard error.
fn log(what: &str) {
    // A closed standard error is not a failure.
    let _ = writeln!(std::io::stderr(), "devices_corpus: {what}");
}
