//! Devices that move data, and where they hang.

mod counters;
mod discovery;
mod irqs;
mod link;
mod locality;
mod names;
mod pci;
mod read;

pub use counters::bytes_moved;
pub use discovery::read;
pub(crate) use discovery::{Bridges, Scan};
pub use irqs::interrupt_names;
pub(crate) use pci::FUNCTIONS;

use crate::ids::NodeId;
use crate::set::{CpuSet, NodeSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A device, or a bridge on the way to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// What it is.
    pub kind: DeviceKind,
    /// Names a user knows, the most usual first: `eth0`, `nvme0n1`, `mlx5_0`, `cuda:0`. May be empty.
    pub names: Vec<String>,
    /// What each name stands for, where sysfs tells; documents written before this was kept tell nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub name_classes: BTreeMap<String, NameClass>,
    /// PCI address; none for what is not on PCI.
    pub pci: Option<PciAddress>,
    /// Canonical path in sysfs.
    pub path: String,
    /// PCI vendor and device id.
    pub ids: Option<(u16, u16)>,
    /// PCI class code, 24 bits.
    pub class: Option<u32>,
    /// What it is called: model of a disk, name from the driver; may be empty.
    pub model: String,
    /// Kernel driver bound to it.
    pub driver: Option<String>,
    /// The node it hangs on, and how that is known.
    pub locality: Locality,
    /// Its PCI Express link.
    pub link: Option<PcieLink>,
    /// Bridges from the device up to the root port, nearest first.
    pub upstream: Vec<PciAddress>,
    /// PCI power state now (`D0`, `D3cold`) and runtime status (`active`, `suspended`), where known.
    pub power: Option<String>,
    /// Interrupts.
    pub irqs: Vec<Irq>,
    /// SR-IOV, if the device is a physical or virtual function.
    pub sriov: Option<Sriov>,
    /// Speed of a network or RDMA port in bits per second; none while the link is down or unknown.
    pub port_bits_per_s: Option<u64>,
}

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// Network interface card.
    Network,
    /// NVMe drive.
    Nvme,
    /// Block device that is not NVMe: virtio disk, persistent memory, disk behind an HBA.
    Block,
    /// Storage controller: SATA, SAS, RAID, Fibre Channel HBA.
    StorageController,
    /// Graphics processor.
    Gpu,
    /// Other accelerator.
    Accelerator,
    /// RDMA host channel adapter.
    Rdma,
    /// DMA engine.
    Dma,
    /// PCI bridge or switch port; moves nothing of its own.
    Bridge,
}

/// What a name of a device stands for: the class directory of sysfs that lists it
/// (`Documentation/admin-guide/sysfs-rules.rst`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameClass {
    /// `net`: network interface.
    Net,
    /// `block`: disk.
    Block,
    /// `nvme`: controller of NVMe namespaces.
    Nvme,
    /// `infiniband`: RDMA device, over InfiniBand, Ethernet or what else.
    Infiniband,
    /// `drm`: graphics card, or its render node.
    Drm,
    /// `accel`, `mic`, `ve`: accelerator.
    Accelerator,
    /// `dma`, or the bus `dsa`: DMA engine, or a channel of one.
    Dma,
}

/// A PCI address, `0000:3b:00.0`; the domain may have 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, 5 bits.
    pub device: u8,
    /// Function, 3 bits.
    pub function: u8,
}

/// The node a device hangs on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locality {
    /// The node; none if unknown.
    pub node: Option<NodeId>,
    /// Nodes it is equally near to, where that is more than one (local CPUs of several nodes).
    pub nodes: NodeSet,
    /// How it is known.
    pub source: LocalitySource,
}

/// How a device's node is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocalitySource {
    /// The device's `numa_node`.
    NumaNode,
    /// `numa_node` of the bridge or root complex above it, as its own says -1.
    ParentBridge,
    /// The nodes of its local CPU list, as `numa_node` says -1.
    LocalCpus,
    /// The machine has one node.
    OnlyNode,
    /// Not known: `numa_node` names a node that the machine does not have, or that is offline.
    AbsentNode,
    /// Not known.
    #[default]
    Unknown,
}

/// A PCI Express link, now and at best (`Documentation/ABI/testing/sysfs-bus-pci`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PcieLink {
    /// Transfers per second and lane now, in GT/s.
    pub gt_per_s: f64,
    /// Lanes now.
    pub lanes: u32,
    /// The device's best, in GT/s.
    pub max_gt_per_s: f64,
    /// The device's most lanes.
    pub max_lanes: u32,
}

/// An interrupt of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Irq {
    /// Its number.
    pub number: u32,
    /// Name from /proc/interrupts.
    pub name: String,
    /// CPUs it may go to (`smp_affinity_list`).
    pub affinity: CpuSet,
    /// CPUs it goes to (`effective_affinity_list`), where the kernel tells.
    pub effective: Option<CpuSet>,
}

/// SR-IOV.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Sriov {
    /// A physical function.
    Physical {
        /// Virtual functions it could have.
        total: u32,
        /// Virtual functions it has.
        functions: Vec<PciAddress>,
    },
    /// A virtual function.
    Virtual {
        /// Its physical function.
        of: PciAddress,
    },
}

impl Device {
    /// Whether it moves data of its own, that is, is not a bridge.
    pub fn moves_data(&self) -> bool {
        self.kind != DeviceKind::Bridge
    }

    /// The name for people: its usual name, or its PCI address, or its path.
    pub fn name(&self) -> String {
        let pci = || self.pci.map(|pci| pci.to_string());
        self.names.first().cloned().or_else(pci).unwrap_or_else(|| self.path.clone())
    }

    /// A name that no other of these devices has: its name for people, or its PCI address where another one answers to
    /// that name, as of the two controllers of a drive.
    pub fn distinct_name(&self, devices: &[Self]) -> String {
        let name = self.name();
        match self.pci {
            Some(pci) if devices.iter().filter(|other| other.has_name(&name)).count() > 1 => pci.to_string(),
            _ => name,
        }
    }

    /// Whether a user who typed `text` means this device: one of its names, or its PCI address with or
    /// without the domain.
    pub fn has_name(&self, text: &str) -> bool {
        let pci = self.pci.map(|pci| pci.to_string());
        self.names.iter().any(|name| name == text)
            || pci
                .is_some_and(|pci| pci.eq_ignore_ascii_case(text) || pci.strip_prefix("0000:") == Some(text))
    }
}

impl Irq {
    /// CPUs it goes to; where the kernel does not tell, those it may go to.
    pub fn delivery_cpus(&self) -> &CpuSet {
        self.effective.as_ref().unwrap_or(&self.affinity)
    }
}

impl DeviceKind {
    /// For people: `NIC`, `NVMe`, `GPU` and so on.
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "NIC",
            Self::Nvme => "NVMe",
            Self::Block => "block device",
            Self::StorageController => "storage controller",
            Self::Gpu => "GPU",
            Self::Accelerator => "accelerator",
            Self::Rdma => "RDMA",
            Self::Dma => "DMA engine",
            Self::Bridge => "bridge",
        }
    }
}

impl PcieLink {
    /// Bytes per second in one direction now, after line coding (8b/10b up to 5 GT/s, 128b/130b up to 32,
    /// 1b/1b with FLITs, counted as 242/256, from 64), before packet headers.
    pub fn bytes_per_s(&self) -> f64 {
        bytes_per_s(self.gt_per_s, self.lanes)
    }

    /// The same at the device's best.
    pub fn max_bytes_per_s(&self) -> f64 {
        bytes_per_s(self.max_gt_per_s, self.max_lanes)
    }
}

fn bytes_per_s(gt_per_s: f64, lanes: u32) -> f64 {
    let coding = match gt_per_s {
        gt if gt <= 5.0 => 8.0 / 10.0,
        gt if gt <= 32.0 => 128.0 / 130.0,
        _ => 242.0 / 256.0,
    };
    gt_per_s * 1e9 * coding / 8.0 * f64::from(lanes)
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        f.pad(&format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
    }
}

impl FromStr for PciAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            let byte = |text: &str| pci::hex(text).and_then(|number| u8::try_from(number).ok());
            let device = byte(device).filter(|device| *device < 32)?;
            let function = byte(function).filter(|function| *function < 8)?;
            Some(Self { domain: pci::hex(domain)?, bus: byte(bus)?, device, function })
        };
        parse().ok_or_else(|| format!("{text:?} is no PCI address, as 0000:3b:00.0 is"))
    }
}

impl Serialize for PciAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
