//! Reading the attributes of one device.

use super::device::{Device, DeviceKind, Sriov};
use super::locality;
use super::names::{Group, Named, Role};
use super::pci_address::PciAddress;
use super::{irqs, link, pci};
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::{BTreeMap, HashMap};

/// PCI vendor of GPUs with CUDA.
const NVIDIA: u16 = 0x10de;

/// Reads PCI functions.
pub(super) struct Reader<'a> {
    root: &'a dyn Sysfs,
    /// Interrupt names by number.
    interrupts: &'a HashMap<u32, String>,
    /// Canonical paths of the parents of functions, by domain and bus.
    buses: HashMap<(u32, u8), String>,
}

impl<'a> Reader<'a> {
    /// Creates a reader of PCI functions.
    pub fn new(root: &'a dyn Sysfs, interrupts: &'a HashMap<u32, String>) -> Self {
        Self { root, interrupts, buses: HashMap::new() }
    }

    /// Reads a PCI function if it moves data; other functions cost a single read.
    ///
    /// Its locality holds the reported node, which is verified once the nodes are known.
    pub fn function(&mut self, address: PciAddress, group: Option<&Group>) -> Option<Device> {
        let root = self.root;
        let (path, card) = self.card(address, group);
        let kind = pci::kind(&card, group)?;
        let path = match path.starts_with(pci::FUNCTIONS) {
            true => root.resolve(&path).ok()?,
            false => path,
        };
        if let Some((bus, _)) = path.rsplit_once('/') {
            self.buses.entry((address.domain, address.bus)).or_insert_with(|| bus.to_owned());
        }
        let held = root.hold(&path);
        let root = held.as_deref().unwrap_or(root);
        let names = group.map_or(&[][..], |group| &group.names);
        let sriov = pci::sriov(root, &path);
        let is_virtual = matches!(sriov, Some(Sriov::Virtual { .. }));
        Some(Device {
            kind,
            names: group.map(Group::shown).unwrap_or_default(),
            name_classes: group.map(Group::classes).unwrap_or_default(),
            pci: Some(address),
            ids: card.ids,
            class: card.class,
            model: model(root, kind, address, &path, names),
            locality: locality::reported(root, &path),
            // A virtual function's link and power registers are zero.
            link: if is_virtual { None } else { link::read(root, &path) },
            upstream: pci::upstream(&path).into_iter().map(|(bridge, _)| bridge).collect(),
            power: if is_virtual { None } else { pci::power(root, &path) },
            // Only a driver allocates message-signaled interrupts.
            irqs: match card.unbound {
                true => Vec::new(),
                false => irqs::read(root, &path, card.driver.is_some(), self.interrupts),
            },
            sriov,
            port_bits_per_s: port_speed(root, names),
            driver: card.driver,
            path,
        })
    }

    /// Returns the path of a function and its identification.
    ///
    /// The path is that of a name below it, or is on the known directory of its bus, which all
    /// functions of a bus share; otherwise it is the link that lists the function.
    fn card(&self, address: PciAddress, group: Option<&Group>) -> (String, pci::Card) {
        if let Some(group) = group {
            return (group.path.clone(), pci::card(self.root, &group.path));
        }
        if let Some(bus) = self.buses.get(&(address.domain, address.bus)) {
            let path = format!("{bus}/{address}");
            if let Some(card) = pci::card_by_uevent(self.root, &path) {
                return (path, card);
            }
        }
        let listed = format!("{}/{address}", pci::FUNCTIONS);
        let card = pci::card(self.root, &listed);
        (listed, card)
    }
}

/// Reads the bridge at a path, if it is one.
pub(super) fn bridge(root: &dyn Sysfs, address: PciAddress, path: &str) -> Option<Device> {
    let card = pci::card(root, path);
    card.class.filter(|class| pci::is_bridge(*class))?;
    let held = root.hold(path);
    let root = held.as_deref().unwrap_or(root);
    Some(Device {
        pci: Some(address),
        ids: card.ids,
        class: card.class,
        driver: card.driver,
        link: link::read(root, path),
        upstream: pci::upstream(path).into_iter().map(|(bridge, _)| bridge).collect(),
        power: pci::power(root, path),
        ..nothing(root, DeviceKind::Bridge, path)
    })
}

/// Reads a device outside of PCI: an interface of a system on a chip, persistent memory, a DASD.
pub(super) fn other(root: &dyn Sysfs, path: &str, group: &Group) -> Option<Device> {
    let kind = match () {
        () if group.has(Role::Net) => DeviceKind::Network,
        () if group.has(Role::Disk) || group.has(Role::DiskBehind) => DeviceKind::Block,
        () if group.has(Role::NvmeController) => DeviceKind::Nvme,
        () if group.has(Role::Accelerator) => DeviceKind::Accelerator,
        () if group.has(Role::Rdma) => DeviceKind::Rdma,
        () => return None,
    };
    Some(Device {
        names: group.shown(),
        name_classes: group.classes(),
        model: disk_model(root, &group.names),
        driver: pci::driver(root, path),
        port_bits_per_s: port_speed(root, &group.names),
        ..nothing(root, kind, path)
    })
}

/// Returns a device with only its path known.
pub(super) fn nothing(root: &dyn Sysfs, kind: DeviceKind, path: &str) -> Device {
    Device {
        kind,
        names: Vec::new(),
        name_classes: BTreeMap::new(),
        pci: None,
        path: path.to_owned(),
        ids: None,
        class: None,
        model: String::new(),
        driver: None,
        locality: locality::reported(root, path),
        link: None,
        upstream: Vec::new(),
        power: None,
        irqs: Vec::new(),
        sriov: None,
        port_bits_per_s: None,
    }
}

/// Sets the virtual functions of physical functions, and their shared link.
pub(super) fn join_virtual_functions(functions: &mut BTreeMap<PciAddress, Device>) {
    let pairs: Vec<(PciAddress, PciAddress)> = functions
        .iter()
        .filter_map(|(address, device)| match device.sriov {
            Some(Sriov::Virtual { physical_function: of }) => Some((*address, of)),
            _ => None,
        })
        .collect();
    for (virtual_function, physical) in pairs {
        let Some(physical) = functions.get_mut(&physical) else { continue };
        let link = physical.link;
        if let Some(Sriov::Physical { functions, .. }) = &mut physical.sriov {
            functions.push(virtual_function);
        }
        if let Some(device) = functions.get_mut(&virtual_function) {
            device.link = link;
        }
    }
}

/// Names the GPUs as CUDA does with `CUDA_DEVICE_ORDER=PCI_BUS_ID`: by address, counting those with
/// NVIDIA's driver (CUDA C++ Programming Guide, environment variables).
pub(super) fn name_cuda_devices(functions: &mut BTreeMap<PciAddress, Device>) {
    let of_cuda = |device: &&mut Device| {
        let of_driver = device.driver.as_deref() == Some("nvidia");
        device.kind == DeviceKind::Gpu && of_driver && device.ids.is_some_and(|(vendor, _)| vendor == NVIDIA)
    };
    for (number, device) in functions.values_mut().filter(of_cuda).enumerate() {
        device.names.insert(0, format!("cuda:{number}"));
    }
}

/// Returns the model of a device from its driver.
fn model(root: &dyn Sysfs, kind: DeviceKind, address: PciAddress, path: &str, names: &[Named]) -> String {
    match kind {
        DeviceKind::Gpu => gpu_model(root, address, path).unwrap_or_default(),
        _ => disk_model(root, names),
    }
}

/// Reads the model from NVIDIA's driver, or the product name from AMD's.
fn gpu_model(root: &dyn Sysfs, address: PciAddress, path: &str) -> Option<String> {
    let nvidia = root.optional(&format!("/proc/driver/nvidia/gpus/{address}/information"));
    let model = nvidia.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("Model:")));
    model.map(|model| model.trim().to_owned()).or_else(|| root.optional(&format!("{path}/product_name")))
}

/// Reads the model of a single disk or NVMe controller; a controller of several disks has none.
fn disk_model(root: &dyn Sysfs, names: &[Named]) -> String {
    let text = |path: &str| root.optional(path).unwrap_or_default();
    if let Some(controller) = names.iter().find(|named| named.role == Role::NvmeController) {
        return text(&format!("{}/model", controller.path));
    }
    let mut disks = names.iter().filter(|named| matches!(named.role, Role::Disk | Role::DiskBehind));
    match (disks.next(), disks.next()) {
        (Some(disk), None) => {
            let [vendor, model] =
                ["vendor", "model"].map(|file| text(&format!("{}/device/{file}", disk.path)));
            // A virtio disk has a numeric vendor and no model.
            if model.is_empty() {
                model
            } else {
                format!("{vendor} {model}").trim().to_owned()
            }
        }
        _ => String::new(),
    }
}

/// Returns the speed of a device's fastest port in bits per second, from its network interfaces
/// (`Documentation/ABI/testing/sysfs-class-net`, `speed` in Mbit/s), or else from its RDMA ports.
fn port_speed(root: &dyn Sysfs, names: &[Named]) -> Option<u64> {
    let of_role = |role| names.iter().filter(move |named| named.role == role);
    let net = of_role(Role::Net).filter_map(|named| net_speed(root, &named.path)).max();
    net.or_else(|| of_role(Role::Rdma).filter_map(|named| rdma_speed(root, &named.path)).max())
}

fn net_speed(root: &dyn Sysfs, path: &str) -> Option<u64> {
    let megabits: u64 = root.value(&format!("{path}/speed")).ok()?;
    // Old kernels report -1 (unknown) as an unsigned number of 16 or 32 bits.
    let unknown = [0, u64::from(u16::MAX), u64::from(u32::MAX)].contains(&megabits);
    if unknown {
        None
    } else {
        megabits.checked_mul(1_000_000)
    }
}

/// Returns the speed of an RDMA device's fastest active port
/// (`Documentation/ABI/stable/sysfs-class-infiniband`).
fn rdma_speed(root: &dyn Sysfs, path: &str) -> Option<u64> {
    let port_speed = |port: &String| {
        let text = |file: &str| root.optional(&format!("{path}/ports/{port}/{file}"));
        text("state")?.ends_with("ACTIVE").then_some(())?;
        rdma_rate(&text("rate")?)
    };
    root.names(&format!("{path}/ports")).iter().filter_map(port_speed).max()
}

/// Parses `100 Gb/sec (4X EDR)` to bits per second.
fn rdma_rate(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let gigabits: f64 = number.parse().ok().filter(|rate| (0.0..1e6).contains(rate))?;
    unit.starts_with("Gb/sec").then_some((gigabits * 1e9) as u64)
}
