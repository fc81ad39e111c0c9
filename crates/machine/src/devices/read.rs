//! Finding the devices.

use super::locality::Localities;
use super::names::{self, Group, Named, Owner, Role};
use super::{irqs, link, pci, Device, DeviceKind, Locality, PciAddress, Sriov};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::Topology;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// PCI vendor of the GPUs that CUDA runs on.
const NVIDIA: u16 = 0x10de;

/// Finds devices that move data and the bridges above them; `topology` lacks devices yet.
///
/// PCI functions come first, by address, then other devices by path. Each PCI function stands there once.
/// Never fails: an attribute that cannot be read, or is no sense, is absent from the device.
pub fn read(root: &dyn Sysfs, topology: &Topology) -> Vec<Device> {
    let mut devices = scan(root);
    locate(root, topology, &mut devices);
    devices
}

/// Fills in on which node each device is.
pub fn locate(root: &dyn Sysfs, topology: &Topology, devices: &mut [Device]) {
    let mut localities = Localities::new(root, topology);
    for device in devices {
        device.locality = localities.of(&device.path);
    }
}

/// The same as [`read`] without nodes, for which no topology is needed.
pub fn scan(root: &dyn Sysfs) -> Vec<Device> {
    let mut groups = names::collect(root);
    let reader = Reader {
        root,
        interrupts: root
            .optional("/proc/interrupts")
            .map(|text| irqs::parse_interrupts(&text))
            .unwrap_or_default(),
    };
    let mut functions: BTreeMap<PciAddress, Device> = BTreeMap::new();
    for address in all_functions(root, &groups) {
        let group = groups.remove(&Owner::Pci(address));
        functions.extend(reader.function(address, group).map(|device| (address, device)));
    }
    reader.bridges(&mut functions);
    join_virtual_functions(&mut functions);
    name_cuda_devices(&mut functions);
    let others = groups.into_iter().filter_map(|(owner, group)| match owner {
        Owner::Pci(_) => None,
        Owner::Other(path) => reader.other(path, &group),
    });
    let others: Vec<Device> = others.collect();
    functions.into_values().chain(others).collect()
}

/// Functions the kernel lists, and those that something named lies below.
fn all_functions(root: &dyn Sysfs, groups: &BTreeMap<Owner, Group>) -> BTreeSet<PciAddress> {
    let named = groups.keys().filter_map(|owner| match owner {
        Owner::Pci(address) => Some(*address),
        Owner::Other(_) => None,
    });
    named.chain(pci::functions(root)).collect()
}

struct Reader<'a> {
    root: &'a dyn Sysfs,
    /// Names of interrupts by number.
    interrupts: HashMap<u32, String>,
}

impl Reader<'_> {
    /// A PCI function, if it moves data. Most do not; these cost the reading of one file.
    fn function(&self, address: PciAddress, group: Option<Group>) -> Option<Device> {
        let root = self.root;
        let listed = format!("{}/{address}", pci::FUNCTIONS);
        let path = group.as_ref().map_or(listed.as_str(), |group| &group.path);
        let card = pci::card(root, path);
        let kind = pci::kind(&card, group.as_ref())?;
        let path = match &group {
            Some(group) => group.path.clone(),
            None => root.resolve(&listed).ok()?,
        };
        let named = group.map(|group| (group.shown(), group.names)).unwrap_or_default();
        let sriov = pci::sriov(root, &path);
        let is_virtual = matches!(sriov, Some(Sriov::Virtual { .. }));
        Some(Device {
            kind,
            names: named.0,
            pci: Some(address),
            ids: card.ids,
            class: card.class,
            model: model(root, kind, address, &path, &named.1),
            locality: Locality::default(),
            // A virtual function has no link and no power of its own: its registers hold zeros.
            link: if is_virtual { None } else { link::read(root, &path) },
            upstream: pci::upstream(&path).into_iter().map(|(bridge, _)| bridge).collect(),
            power: if is_virtual { None } else { pci::power(root, &path) },
            irqs: irqs::read(root, &path, card.driver.is_some(), &self.interrupts),
            sriov,
            port_bits_per_s: port_speed(root, &named.1),
            driver: card.driver,
            path,
        })
    }

    /// Adds the bridges above the functions found.
    fn bridges(&self, functions: &mut BTreeMap<PciAddress, Device>) {
        let mut above: BTreeMap<PciAddress, String> = BTreeMap::new();
        for device in functions.values() {
            for (bridge, path) in pci::upstream(&device.path) {
                above.entry(bridge).or_insert_with(|| path.to_owned());
            }
        }
        for (address, path) in above {
            let bridge = self.bridge(address, path);
            functions.extend(bridge.map(|bridge| (address, bridge)));
        }
    }

    fn bridge(&self, address: PciAddress, path: String) -> Option<Device> {
        let root = self.root;
        let card = pci::card(root, &path);
        card.class.filter(|class| pci::is_bridge(*class))?;
        Some(Device {
            kind: DeviceKind::Bridge,
            pci: Some(address),
            ids: card.ids,
            class: card.class,
            driver: card.driver,
            locality: Locality::default(),
            link: link::read(root, &path),
            upstream: pci::upstream(&path).into_iter().map(|(bridge, _)| bridge).collect(),
            power: pci::power(root, &path),
            ..nothing(DeviceKind::Bridge, path)
        })
    }

    /// A device that is not on PCI: the interface of a system on a chip, persistent memory, a DASD.
    fn other(&self, path: String, group: &Group) -> Option<Device> {
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
            model: disk_model(self.root, &group.names),
            driver: pci::driver(self.root, &path),
            locality: Locality::default(),
            port_bits_per_s: port_speed(self.root, &group.names),
            ..nothing(kind, path)
        })
    }
}

/// A device of which nothing is known but where it is.
fn nothing(kind: DeviceKind, path: String) -> Device {
    Device {
        kind,
        names: Vec::new(),
        pci: None,
        path,
        ids: None,
        class: None,
        model: String::new(),
        driver: None,
        locality: Default::default(),
        link: None,
        upstream: Vec::new(),
        power: None,
        irqs: Vec::new(),
        sriov: None,
        port_bits_per_s: None,
    }
}

/// Gives physical functions the list of their virtual ones, and these the link that they share.
fn join_virtual_functions(functions: &mut BTreeMap<PciAddress, Device>) {
    let pairs: Vec<(PciAddress, PciAddress)> = functions
        .iter()
        .filter_map(|(address, device)| match device.sriov {
            Some(Sriov::Virtual { of }) => Some((*address, of)),
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

/// Names the GPUs as CUDA does under `CUDA_DEVICE_ORDER=PCI_BUS_ID`: the order of addresses, counting those
/// that its driver has (CUDA C++ Programming Guide, environment variables).
fn name_cuda_devices(functions: &mut BTreeMap<PciAddress, Device>) {
    let of_cuda = |device: &&mut Device| {
        let of_driver = device.driver.as_deref() == Some("nvidia");
        device.kind == DeviceKind::Gpu && of_driver && device.ids.is_some_and(|(vendor, _)| vendor == NVIDIA)
    };
    for (number, device) in functions.values_mut().filter(of_cuda).enumerate() {
        device.names.insert(0, format!("cuda:{number}"));
    }
}

/// What a device is called, by its driver.
fn model(root: &dyn Sysfs, kind: DeviceKind, address: PciAddress, path: &str, names: &[Named]) -> String {
    match kind {
        DeviceKind::Gpu => gpu_model(root, address, path).unwrap_or_default(),
        _ => disk_model(root, names),
    }
}

/// The model by NVIDIA's driver, or the product name by AMD's.
fn gpu_model(root: &dyn Sysfs, address: PciAddress, path: &str) -> Option<String> {
    let nvidia = root.optional(&format!("/proc/driver/nvidia/gpus/{address}/information"));
    let model = nvidia.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("Model:")));
    model.map(|model| model.trim().to_owned()).or_else(|| root.optional(&format!("{path}/product_name")))
}

/// The model of the one disk or NVMe controller; a controller of several disks has none.
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
            // A virtio disk's vendor is a number, and it has no model.
            if model.is_empty() {
                model
            } else {
                format!("{vendor} {model}").trim().to_owned()
            }
        }
        _ => String::new(),
    }
}

/// The fastest port of a device in bits per second: that of its network interfaces
/// (`Documentation/ABI/testing/sysfs-class-net`, `speed` in Mbit/s), else of its RDMA ports.
fn port_speed(root: &dyn Sysfs, names: &[Named]) -> Option<u64> {
    let of_role = |role| names.iter().filter(move |named| named.role == role);
    let net = of_role(Role::Net).filter_map(|named| net_speed(root, &named.path)).max();
    net.or_else(|| of_role(Role::Rdma).filter_map(|named| rdma_speed(root, &named.path)).max())
}

fn net_speed(root: &dyn Sysfs, path: &str) -> Option<u64> {
    let megabits: u64 = root.value(&format!("{path}/speed")).ok()?;
    // Old kernels write -1 for unknown as 16 or 32 bits without sign.
    let unknown = [0, u64::from(u16::MAX), u64::from(u32::MAX)].contains(&megabits);
    if unknown {
        None
    } else {
        megabits.checked_mul(1_000_000)
    }
}

/// The fastest active port of an RDMA device (`Documentation/ABI/stable/sysfs-class-infiniband`).
fn rdma_speed(root: &dyn Sysfs, path: &str) -> Option<u64> {
    let port_speed = |port: &String| {
        let text = |file: &str| root.optional(&format!("{path}/ports/{port}/{file}"));
        text("state")?.ends_with("ACTIVE").then_some(())?;
        rdma_rate(&text("rate")?)
    };
    root.names(&format!("{path}/ports")).iter().filter_map(port_speed).max()
}

/// `100 Gb/sec (4X EDR)` in bits per second.
fn rdma_rate(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let gigabits: f64 = number.parse().ok().filter(|rate| (0.0..1e6).contains(rate))?;
    unit.starts_with("Gb/sec").then_some((gigabits * 1e9) as u64)
}
