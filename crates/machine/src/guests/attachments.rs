//! Devices of the host that a guest uses: functions it owns, and those below its virtual disks and
//! network interfaces.

use super::configuration::Attachment;
use super::Guest;
use crate::devices::{PciAddress, Sriov};
use crate::ids::NodeId;
use crate::locate::{LocateExt, OpenFile, OpenedFacts, PathKind};
use crate::near::{resolve, Handle, ResolveContext, Resolved};
use crate::sysfs::SysfsExt;
use serde::{Deserialize, Serialize};

/// Maximum number of attachments to resolve.
const MAX_ATTACHMENTS: usize = 512;

/// A device of the host that a guest uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestDevice {
    /// How the guest uses it.
    pub kind: GuestDeviceKind,
    /// The attached object: a PCI address, an interface, a path.
    pub attached: String,
    /// The path from it to the device, one line for each device; empty if it leads to none.
    pub reached_via: Vec<String>,
    /// Name of the device; `None` if it leads to none.
    pub device: Option<String>,
    /// Index in [`Topology::devices`](crate::topology::Topology::devices).
    #[serde(skip)]
    pub index: Option<usize>,
    /// Node of the device, if known.
    pub node: Option<NodeId>,
    /// Physical function, if it is a virtual function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_function: Option<String>,
    /// Why it leads to no device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unresolved: Option<String>,
}

/// How a guest uses a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GuestDeviceKind {
    /// It owns the device (VFIO).
    Passthrough,
    /// A virtual network interface leads to it.
    Network,
    /// A virtual disk is stored on it.
    Disk,
}

impl GuestDeviceKind {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough",
            Self::Network => "network",
            Self::Disk => "disk",
        }
    }
}

/// Returns the devices that a guest uses, by its configuration and its open files.
pub fn guest_devices(context: ResolveContext<'_>, guest: &Guest) -> Vec<GuestDevice> {
    let opened = context.locate.opened(guest.pid).unwrap_or_default();
    let mut attachments = guest.configuration.attachments.clone();
    attachments.extend(from_open_files(&opened, &attachments));
    let mut devices: Vec<GuestDevice> = Vec::new();
    for attachment in attachments.iter().take(MAX_ATTACHMENTS) {
        for device in follow(context, guest.pid, &opened, attachment) {
            let is_known = |known: &GuestDevice| {
                let is_same_attachment = known.attached == device.attached && known.device == device.device;
                let is_same_function =
                    known.kind == GuestDeviceKind::Passthrough && known.index == device.index;
                known.kind == device.kind
                    && (is_same_attachment || is_same_function && device.index.is_some())
            };
            if !devices.iter().any(is_known) {
                devices.push(device);
            }
        }
    }
    devices.sort_by(|a, b| (a.kind, &a.attached).cmp(&(b.kind, &b.attached)));
    devices
}

/// Returns attachments that only open files reveal: VFIO groups, taps, and disks of a hypervisor
/// that was configured over its socket.
fn from_open_files(opened: &OpenedFacts, configured: &[Attachment]) -> Vec<Attachment> {
    let is_disk = |attachment: &Attachment| matches!(attachment, Attachment::Disk { .. });
    let is_owned = |attachment: &Attachment| {
        matches!(attachment, Attachment::PciFunction { .. } | Attachment::SysfsDevice { .. })
    };
    let is_interface = |attachment: &Attachment| matches!(attachment, Attachment::Interface { .. });
    let (has_disks, has_owned) = (configured.iter().any(is_disk), configured.iter().any(is_owned));
    let has_interfaces = configured.iter().any(is_interface);
    let mut found = Vec::new();
    for file in &opened.files {
        let target = file.target.as_str();
        if let Some(group) = target.strip_prefix("/dev/vfio/").and_then(|name| name.parse().ok()) {
            // A group may contain functions of others; the configuration is exact.
            found.extend((!has_owned).then_some(Attachment::VfioGroup { group }));
        } else if let Some(name) = target.strip_prefix("/dev/vfio/devices/") {
            found.extend((!has_owned).then(|| Attachment::VfioDevice { name: name.to_owned() }));
        } else if target == "/dev/net/tun" || target.starts_with("/dev/tap") {
            found.extend((!has_interfaces).then_some(Attachment::InterfaceDescriptor { fd: file.fd }));
        } else if !has_disks && is_stored(file) {
            found.push(Attachment::Disk { path: target.to_owned() });
        }
    }
    found
}

/// Returns whether an open file can hold a disk: a block device, or a file that is not memory.
fn is_stored(file: &OpenFile) -> bool {
    let is_memory = ["/memfd:", "/dev/shm/", "/dev/hugepages", "/proc/", "/sys/", "/run/"]
        .iter()
        .any(|prefix| file.target.starts_with(prefix));
    let kind = file.facts.as_ref().map(|facts| facts.kind);
    let is_log = file.target.ends_with(".log") || file.target.ends_with(".pid");
    file.fd > 2 && !is_memory && !is_log && matches!(kind, Some(PathKind::File | PathKind::Block))
}

fn follow(
    context: ResolveContext<'_>,
    pid: u32,
    opened: &OpenedFacts,
    attachment: &Attachment,
) -> Vec<GuestDevice> {
    match attachment {
        Attachment::PciFunction { address } => vec![function(context, address)],
        Attachment::SysfsDevice { path } => vec![by_sysfs_path(context, path)],
        Attachment::VfioGroup { group } => {
            let folder = format!("/sys/kernel/iommu_groups/{group}/devices");
            let functions = context.root.names(&folder);
            functions.iter().map(|address| function(context, address)).collect()
        }
        Attachment::VfioDevice { name } => {
            vec![by_sysfs_path(context, &format!("/sys/class/vfio-dev/{name}/device"))]
        }
        Attachment::Interface { name } => interface(context, name),
        Attachment::InterfaceDescriptor { fd } => {
            interface_of(context, pid, opened, *fd).map(|name| interface(context, &name)).unwrap_or_default()
        }
        Attachment::Disk { path } => {
            handle(context, GuestDeviceKind::Disk, path, &Handle::Path(path.clone()))
        }
    }
}

/// Returns the PCI function with an address, which the guest owns.
fn function(context: ResolveContext<'_>, address: &str) -> GuestDevice {
    let parsed: Option<PciAddress> = address.parse().ok();
    let index = context.topology.devices.iter().position(|device| parsed.is_some() && device.pci == parsed);
    let missing = "the topology has no device of this address that moves data";
    owned(context, address, index, index.is_none().then(|| missing.to_owned()))
}

/// Returns the device at a path in sysfs, or the device whose part it is.
fn by_sysfs_path(context: ResolveContext<'_>, path: &str) -> GuestDevice {
    let resolved = context.root.resolve(path).ok();
    let index = resolved.as_deref().and_then(|path| context.topology.device_at(path));
    let attached = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    let name = match (&resolved, attached) {
        (Some(resolved), "device") => resolved.rsplit('/').next().unwrap_or(attached).to_owned(),
        _ => attached.to_owned(),
    };
    owned(
        context,
        &name,
        index,
        index.is_none().then(|| format!("{path} leads to no device that moves data")),
    )
}

fn owned(
    context: ResolveContext<'_>,
    attached: &str,
    index: Option<usize>,
    unresolved: Option<String>,
) -> GuestDevice {
    let devices = &context.topology.devices;
    let device = index.and_then(|index| devices.get(index));
    let physical = device.and_then(|device| match &device.sriov {
        Some(Sriov::Virtual { physical_function: of }) => Some(*of),
        _ => None,
    });
    let parent = physical.and_then(|address| devices.iter().find(|device| device.pci == Some(address)));
    let name_of = |device: &crate::devices::Device| device.distinct_name(devices);
    let reached_via = device.map(|device| match (&parent, physical) {
        (Some(parent), Some(address)) => {
            format!("{} -> virtual function of {} ({address})", name_of(device), name_of(parent))
        }
        _ => name_of(device),
    });
    GuestDevice {
        kind: GuestDeviceKind::Passthrough,
        attached: attached.to_owned(),
        reached_via: reached_via.into_iter().collect(),
        device: device.map(name_of),
        index,
        node: device.and_then(|device| device.locality.node).or(parent.and_then(|it| it.locality.node)),
        physical_function: parent.map(name_of).or(physical.map(|address| address.to_string())),
        unresolved,
    }
}

/// Returns the interface of an open tap (`iff` in fdinfo) or macvtap (`/dev/tapN`, N its index).
fn interface_of(context: ResolveContext<'_>, pid: u32, opened: &OpenedFacts, fd: u32) -> Option<String> {
    let info = context.root.optional(&format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let tap = info.lines().find_map(|line| line.strip_prefix("iff:")).map(|name| name.trim().to_owned());
    tap.filter(|name| !name.is_empty()).or_else(|| {
        let file = opened.files.iter().find(|file| file.fd == fd)?;
        let index = file.target.strip_prefix("/dev/tap")?;
        let names = context.root.names("/sys/class/net");
        names.into_iter().find(|name| {
            context.root.optional(&format!("/sys/class/net/{name}/ifindex")).as_deref() == Some(index)
        })
    })
}

fn interface(context: ResolveContext<'_>, name: &str) -> Vec<GuestDevice> {
    // A hypervisor's argument is not a path: `../x` must not leave the directory of interfaces.
    match name.parse::<Handle>() {
        Ok(parsed @ Handle::Name(_)) => handle(context, GuestDeviceKind::Network, name, &parsed),
        _ => vec![unresolved(GuestDeviceKind::Network, name, "it is not the name of an interface")],
    }
}

fn unresolved(kind: GuestDeviceKind, attached: &str, why: &str) -> GuestDevice {
    GuestDevice {
        kind,
        attached: attached.to_owned(),
        reached_via: Vec::new(),
        device: None,
        index: None,
        node: None,
        physical_function: None,
        unresolved: Some(why.to_owned()),
    }
}

fn handle(
    context: ResolveContext<'_>,
    kind: GuestDeviceKind,
    attached: &str,
    handle: &Handle,
) -> Vec<GuestDevice> {
    let found: Resolved = resolve(context, handle);
    if found.devices.is_empty() {
        let why = found.findings.first().map_or("it leads to no device", |finding| finding.message.as_str());
        return vec![unresolved(kind, attached, why)];
    }
    let lines = found.lines();
    let device = |near: &crate::near::NearDevice| GuestDevice {
        kind,
        attached: attached.to_owned(),
        reached_via: lines.clone(),
        device: Some(near.name.clone()),
        index: Some(near.index),
        node: near.nodes.first(),
        physical_function: None,
        unresolved: None,
    };
    found.carrying().map(device).collect()
}
