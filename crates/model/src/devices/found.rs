//! The devices of a machine, as found: storage, memory and network.

use super::draft::DeviceDraft;
use super::evidence::{BothWays, DeviceEvidence, MeasuredName};
use crate::device_bandwidth::{bench_command, link_limit, port_limit};
use numaio_machine::devices::{Device, DeviceKind, LocalitySource};
use numaio_machine::inventory::{BlockDevice, FileSystem, LinkState, Media, NetworkInterface};
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{DeviceBandwidth, OmittedDevice, Sourced, TransferDeviceKind, ValueSource};

/// Name of the device that stands for the memory of the machine.
const MEMORY: &str = "memory";

/// Returns disks, volumes, and file systems without them.
pub(super) fn storage(evidence: &DeviceEvidence<'_>) -> Vec<DeviceDraft> {
    let disks = evidence.inventory.disks.iter().map(|disk| of_disk(evidence, disk));
    let mut drafts: Vec<DeviceDraft> = disks.collect();
    for found in &evidence.inventory.file_systems {
        let Some(name) = name_of_file_system(found) else { continue };
        // A network file system may be mounted several times, also with other options.
        match drafts.iter_mut().find(|draft| draft.name == name) {
            Some(draft) => add_mounts(&mut draft.mounts, &found.mounts),
            None => drafts.push(of_file_system(evidence, found, name)),
        }
    }
    drafts
}

/// Returns the memory of the machine, which holds file systems such as tmpfs.
pub(super) fn memory(evidence: &DeviceEvidence<'_>) -> DeviceDraft {
    let mounts = mounts_of(evidence, |media| *media == Media::Memory);
    let names = MeasuredName { is_cached: true, ..MeasuredName::default() };
    let measured = evidence.measured(&names, &mounts).map(|rate| rate.or_else(|| evidence.memory()));
    DeviceDraft {
        kind: Sourced::discovered(TransferDeviceKind::Memory, "the memory of the nodes"),
        nodes: Some(Sourced::discovered(evidence.topology.data_nodes(), "the memory of the nodes")),
        mounts,
        ..draft(MEMORY.to_owned(), TransferDeviceKind::Memory, measured, "numaio model --all")
    }
}

/// Returns the network interfaces, and those without a link.
pub(super) fn network(evidence: &DeviceEvidence<'_>) -> (Vec<DeviceDraft>, Vec<OmittedDevice>) {
    let interfaces = || evidence.inventory.interfaces.iter();
    let down = interfaces().filter(|interface| interface.link == LinkState::Down);
    let omitted =
        down.map(|interface| OmittedDevice { name: interface.name.clone(), reason: "no link".to_owned() });
    let up = interfaces().filter(|interface| interface.link != LinkState::Down);
    (up.map(|interface| of_interface(evidence, interface)).collect(), omitted.collect())
}

/// Creates a draft with bandwidths, and a command that measures unknown ones.
fn draft(name: String, kind: TransferDeviceKind, rates: BothWays, measure: &str) -> DeviceDraft {
    let unknown = || DeviceBandwidth::Unknown { measure: measure.to_owned() };
    let [read, write] = rates.map(|rate| rate.unwrap_or_else(unknown));
    DeviceDraft {
        name,
        aliases: Vec::new(),
        kind: Sourced::discovered(kind, "sysfs"),
        detail: None,
        purpose: None,
        nodes: None,
        read,
        write,
        threads: None,
        members: Vec::new(),
        mounts: Vec::new(),
    }
}

/// Adds mount points that are missing.
fn add_mounts(mounts: &mut Vec<String>, more: &[String]) {
    for mount in more {
        if !mounts.contains(mount) {
            mounts.push(mount.clone());
        }
    }
}

/// Returns the mount points of file systems on some media.
fn mounts_of(evidence: &DeviceEvidence<'_>, is_held: impl Fn(&Media) -> bool) -> Vec<String> {
    let mut mounts: Vec<String> = Vec::new();
    let held = evidence.inventory.file_systems.iter().filter(|found| is_held(&found.media));
    held.for_each(|found| add_mounts(&mut mounts, &found.mounts));
    mounts
}

fn device_of<'e>(evidence: &'e DeviceEvidence<'_>, index: Option<usize>) -> Option<&'e Device> {
    evidence.topology.devices.get(index?)
}

fn of_disk(evidence: &DeviceEvidence<'_>, disk: &BlockDevice) -> DeviceDraft {
    let device = device_of(evidence, disk.device);
    let mounts =
        mounts_of(evidence, |media| matches!(media, Media::Disks(disks) if disks.contains(&disk.name)));
    let (kind, detail) = disk_kind(evidence, disk);
    let beside = evidence.inventory.disks.iter().filter(|other| other.device == disk.device).count();
    // A record names the controller by its first disk.
    let of_device = device.filter(|_| beside == 1).map(Device::name);
    let names = [Some(disk.name.as_str()), disk.alias.as_deref(), of_device.as_deref()];
    let names = MeasuredName { names: names.into_iter().flatten().collect(), ..MeasuredName::default() };
    let nodes = nodes_of_disk(evidence, disk);
    let mut rates = evidence.measured(&names, &mounts);
    if let Some(link) =
        device.and_then(|device| device.link).filter(|_| kind.value == TransferDeviceKind::Nvme)
    {
        rates = with_link(evidence, rates, nodes.as_ref(), link_limit(link));
    }
    let measure = match mounts.first() {
        Some(mount) => format!("numaio bench disk --file {mount}"),
        None => bench_command(&disk.name, None),
    };
    let base = draft(disk.name.clone(), kind.value, rates, &measure);
    DeviceDraft {
        aliases: disk.alias.iter().cloned().collect(),
        kind,
        detail,
        nodes,
        members: disk.members.clone(),
        mounts,
        ..base
    }
}

/// Returns the kind of a disk or a volume, with details.
fn disk_kind(
    evidence: &DeviceEvidence<'_>,
    disk: &BlockDevice,
) -> (Sourced<TransferDeviceKind>, Option<String>) {
    use TransferDeviceKind::{Hdd, Memory, Nvme, Other, Ssd};
    if !disk.members.is_empty() {
        let all = evidence.inventory.disks.iter();
        let members = all.filter(|member| disk.members.contains(&member.name) && member.members.is_empty());
        let kinds: Vec<TransferDeviceKind> =
            members.map(|member| disk_kind(evidence, member).0.value).collect();
        let kind = kinds.first().copied().filter(|first| kinds.iter().all(|kind| kind == first));
        let kind = Sourced::discovered(kind.unwrap_or(Other), "the kinds of its members");
        return (kind, disk.stack.clone());
    }
    let driver = disk.name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_nvme = device_of(evidence, disk.device).is_some_and(|device| device.kind == DeviceKind::Nvme);
    let is_virtual = disk.name.starts_with("vd") || disk.name.starts_with("xvd");
    let rotational = "queue/rotational";
    let virtual_disk =
        || (Sourced::discovered(Other, "the hypervisor hides the medium"), Some("virtual disk".to_owned()));
    match (driver, disk.rotational) {
        _ if is_nvme || disk.name.starts_with("nvme") => (Sourced::discovered(Nvme, "its driver"), None),
        ("zram" | "ram" | "pmem", _) => (Sourced::discovered(Memory, "its driver"), Some(driver.to_owned())),
        (_, Some(false)) => (Sourced::discovered(Ssd, rotational), None),
        // A hypervisor presents any storage as a rotational disk.
        (_, Some(true)) if evidence.topology.surroundings.virtual_machine => virtual_disk(),
        _ if is_virtual => virtual_disk(),
        (_, Some(true)) => (Sourced::discovered(Hdd, rotational), None),
        (_, None) => {
            let why = "the recording does not contain queue/rotational";
            (Sourced::assumed(Other, why), Some("disk".to_owned()))
        }
    }
}

/// Returns the nodes of a disk, or of all disks of a volume.
fn nodes_of_disk(evidence: &DeviceEvidence<'_>, disk: &BlockDevice) -> Option<Sourced<NodeSet>> {
    if disk.members.is_empty() {
        return nodes_of(device_of(evidence, disk.device)?);
    }
    let all = evidence.inventory.disks.iter();
    let members = all.filter(|member| disk.members.contains(&member.name));
    let nodes = members.filter_map(|member| nodes_of(device_of(evidence, member.device)?));
    let nodes = nodes.fold(NodeSet::new(), |sum, nodes| sum.union(&nodes.value));
    (!nodes.is_empty()).then(|| Sourced::discovered(nodes, "the nodes of its members"))
}

/// Returns the nearest nodes of a device, if the kernel reports them.
fn nodes_of(device: &Device) -> Option<Sourced<NodeSet>> {
    let locality = &device.locality;
    let nodes = match locality.node {
        Some(node) if locality.nodes.is_empty() => NodeSet::one(node),
        _ => locality.nodes.clone(),
    };
    let by = match locality.source {
        LocalitySource::NumaNode => "numa_node",
        LocalitySource::ParentBridge => "numa_node of the bridge above it",
        LocalitySource::LocalCpus => "local_cpulist",
        LocalitySource::OnlyNode => "the only node",
        LocalitySource::AbsentNode | LocalitySource::Unknown => return None,
    };
    (!nodes.is_empty()).then(|| Sourced::discovered(nodes, by))
}

/// Adds the speed of a link where nothing was measured, or what the copy model limits it to.
fn with_link(
    evidence: &DeviceEvidence<'_>,
    measured: BothWays,
    nodes: Option<&Sourced<NodeSet>>,
    (bytes_per_s, link): (f64, String),
) -> BothWays {
    let derived = |direction: Direction| {
        let modeled = nodes.and_then(|nodes| evidence.modeled(&nodes.value, direction));
        match modeled.filter(|(rate, _)| *rate < bytes_per_s) {
            Some((bytes_per_s, source)) => DeviceBandwidth::Known { bytes_per_s, source },
            None => DeviceBandwidth::Known { bytes_per_s, source: ValueSource::Link { link: link.clone() } },
        }
    };
    let [read, write] = measured;
    [(read, Direction::Read), (write, Direction::Write)]
        .map(|(rate, direction)| rate.or_else(|| Some(derived(direction))))
}

fn of_interface(evidence: &DeviceEvidence<'_>, interface: &NetworkInterface) -> DeviceDraft {
    let device = device_of(evidence, interface.device);
    let all = evidence.inventory.interfaces.iter();
    let is_only = all.filter(|other| other.device == interface.device).count() == 1;
    let of_device = device.filter(|_| is_only);
    let device_name = of_device.map(Device::name);
    let names = [Some(interface.name.as_str()), device_name.as_deref()].into_iter().flatten().collect();
    let names = MeasuredName { names, is_network: true, is_cached: false };
    let members =
        evidence.inventory.interfaces.iter().filter(|other| interface.members.contains(&other.name));
    let member_nodes = members.filter_map(|member| nodes_of(device_of(evidence, member.device)?));
    let nodes = match device {
        Some(device) => nodes_of(device),
        None => {
            let nodes = member_nodes.fold(NodeSet::new(), |sum, nodes| sum.union(&nodes.value));
            (!nodes.is_empty()).then(|| Sourced::discovered(nodes, "the nodes of its members"))
        }
    };
    let mut rates = evidence.measured(&names, &[]);
    let port = interface.bits_per_s.or_else(|| of_device?.port_bits_per_s);
    if let Some(link) = network_link(port, device) {
        rates = with_link(evidence, rates, nodes.as_ref(), link);
    }
    let kind = TransferDeviceKind::Nic;
    DeviceDraft {
        detail: (!interface.members.is_empty()).then(|| "bond".to_owned()),
        aliases: device_name.filter(|name| *name != interface.name).into_iter().collect(),
        kind: Sourced::discovered(kind, "the network interfaces"),
        nodes,
        members: interface.members.clone(),
        ..draft(
            interface.name.clone(),
            kind,
            rates,
            &bench_command(&interface.name, Some(DeviceKind::Network)),
        )
    }
}

/// Returns the slower of the port and the PCI Express link of a network device; `None` if the
/// speed of the port is unknown.
fn network_link(bits_per_s: Option<u64>, device: Option<&Device>) -> Option<(f64, String)> {
    let port = port_limit(bits_per_s? as f64);
    let pcie = device.and_then(|device| device.link).map(link_limit);
    Some(pcie.filter(|(rate, _)| *rate < port.0).unwrap_or(port))
}

/// Returns the name of a file system that is a device of its own.
fn name_of_file_system(found: &FileSystem) -> Option<String> {
    let mount = found.mounts.first()?;
    match &found.media {
        Media::Disks(_) | Media::Memory => None,
        Media::Servers { .. } => Some(found.source.clone()),
        Media::Pool(pool) => Some(pool.clone()),
        Media::Unknown => Some(mount.clone()),
    }
}

fn of_file_system(evidence: &DeviceEvidence<'_>, found: &FileSystem, name: String) -> DeviceDraft {
    let mounts = mounts_of(evidence, |media| *media == found.media);
    let mounts = match &found.media {
        Media::Pool(_) => mounts,
        _ => found.mounts.clone(),
    };
    let first = mounts.first().cloned().unwrap_or_default();
    let measure = format!("numaio bench disk --file {first}");
    let names = MeasuredName { names: vec![&name], ..MeasuredName::default() };
    let rates = evidence.measured(&names, &mounts);
    let (kind, members) = match &found.media {
        Media::Servers { interfaces, .. } => (TransferDeviceKind::NetworkFileSystem, interfaces.clone()),
        _ => (TransferDeviceKind::Other, Vec::new()),
    };
    let of_members = evidence.topology.devices.iter().filter(|device| members.contains(&device.name()));
    let nodes = of_members.filter_map(nodes_of).fold(NodeSet::new(), |sum, nodes| sum.union(&nodes.value));
    DeviceDraft {
        kind: Sourced::discovered(kind, "the mounts"),
        detail: Some(found.kind.clone()),
        nodes: (!nodes.is_empty()).then(|| Sourced::discovered(nodes, "the NICs of its routes")),
        members,
        mounts,
        ..draft(name, kind, rates, &measure)
    }
}
