//! A device: names, PCI address, node, link and interrupts.

use super::pci_address::PciAddress;
use crate::ids::NodeId;
use crate::set::{CpuSet, NodeSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A device, or a bridge above a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Device {
    /// Kind of the device.
    pub kind: DeviceKind,
    /// User-visible names, the most common first: `eth0`, `nvme0n1`, `mlx5_0`, `cuda:0`. May be
    /// empty.
    pub names: Vec<String>,
    /// Class of each name, where sysfs has it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub name_classes: BTreeMap<String, NameClass>,
    /// PCI address, if it is on PCI.
    pub pci: Option<PciAddress>,
    /// Canonical path in sysfs.
    pub path: String,
    /// PCI vendor and device id.
    pub ids: Option<(u16, u16)>,
    /// PCI class code, 24 bits.
    pub class: Option<u32>,
    /// Model of a disk, or product name from the driver; may be empty.
    pub model: String,
    /// Bound kernel driver.
    pub driver: Option<String>,
    /// Its node and the source of this information.
    pub locality: Locality,
    /// Its PCI Express link.
    pub link: Option<PcieLink>,
    /// Bridges from the device up to the root port, nearest first.
    pub upstream: Vec<PciAddress>,
    /// Current PCI power state (`D0`, `D3cold`) and runtime status (`active`, `suspended`), if
    /// known.
    pub power: Option<String>,
    /// Interrupts.
    pub irqs: Vec<Irq>,
    /// SR-IOV, if the device is a physical or virtual function.
    pub sriov: Option<Sriov>,
    /// Speed of a network or RDMA port in bits per second; `None` while the link is down or
    /// unknown.
    pub port_bits_per_s: Option<u64>,
}

/// Kinds of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
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
    /// PCI bridge or switch port; moves no data itself.
    Bridge,
}

/// Class of a device's name: the sysfs class directory that lists it
/// (`Documentation/admin-guide/sysfs-rules.rst`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NameClass {
    /// `net`: network interface.
    Net,
    /// `block`: disk.
    Block,
    /// `nvme`: controller of NVMe namespaces.
    Nvme,
    /// `infiniband`: RDMA device, over InfiniBand, Ethernet or another transport.
    Infiniband,
    /// `drm`: graphics card, or its render node.
    Drm,
    /// `accel`, `mic`, `ve`: accelerator.
    Accelerator,
    /// `dma`, or the bus `dsa`: DMA engine, or a channel of a DMA engine.
    Dma,
}

/// The node of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Locality {
    /// The node, if known.
    pub node: Option<NodeId>,
    /// All nearest nodes, if there are several (local CPUs of several nodes).
    pub nodes: NodeSet,
    /// Source of this information.
    pub source: LocalitySource,
}

/// Sources of a device's node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LocalitySource {
    /// The device's `numa_node`.
    NumaNode,
    /// `numa_node` of the bridge or root complex above it, because its own is -1.
    ParentBridge,
    /// The nodes of its local CPU list, because `numa_node` is -1.
    LocalCpus,
    /// The machine has a single node.
    OnlyNode,
    /// Unknown: `numa_node` is a node that does not exist or is offline.
    AbsentNode,
    /// Unknown.
    #[default]
    Unknown,
}

/// A PCI Express link: current and maximum speed (`Documentation/ABI/testing/sysfs-bus-pci`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PcieLink {
    /// Current transfers per second and lane, in GT/s.
    pub gt_per_s: f64,
    /// Current number of lanes.
    pub lanes: u32,
    /// Maximum of the device, in GT/s.
    pub max_gt_per_s: f64,
    /// Maximum number of lanes of the device.
    pub max_lanes: u32,
}

/// An interrupt of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Irq {
    /// Interrupt number.
    pub number: u32,
    /// Name from /proc/interrupts.
    pub name: String,
    /// Permitted CPUs (`smp_affinity_list`).
    pub affinity: CpuSet,
    /// Current CPUs (`effective_affinity_list`), if reported.
    pub effective: Option<CpuSet>,
}

/// SR-IOV role of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Sriov {
    /// A physical function.
    Physical {
        /// Supported number of virtual functions.
        total: u32,
        /// Enabled virtual functions.
        functions: Vec<PciAddress>,
    },
    /// A virtual function.
    Virtual {
        /// Its physical function.
        physical_function: PciAddress,
    },
}

impl Device {
    /// Returns whether it moves data itself, that is, is not a bridge.
    pub fn moves_data(&self) -> bool {
        self.kind != DeviceKind::Bridge
    }

    /// Returns whether it is an SR-IOV virtual function.
    pub fn is_virtual_function(&self) -> bool {
        matches!(self.sriov, Some(Sriov::Virtual { .. }))
    }

    /// Returns whether it carries a machine's data: a fast one with a name.
    pub fn carries_data(&self) -> bool {
        use DeviceKind::{Block, Gpu, Network, Nvme, Rdma};
        matches!(self.kind, Network | Rdma | Nvme | Gpu | Block)
            && !self.names.is_empty()
            && !self.is_virtual_function()
    }

    /// Returns the display name: the most common name, PCI address, or path.
    pub fn name(&self) -> String {
        let pci = || self.pci.map(|pci| pci.to_string());
        self.names.first().cloned().or_else(pci).unwrap_or_else(|| self.path.clone())
    }

    /// Returns the display name, or the PCI address if another of these devices has the same name,
    /// such as the two controllers of a drive.
    pub fn distinct_name(&self, devices: &[Self]) -> String {
        let name = self.name();
        let address = PciAddress::named(&name);
        match self.pci {
            Some(pci) if devices.iter().filter(|other| other.is_named(&name, address)).count() > 1 => {
                pci.to_string()
            }
            _ => name,
        }
    }

    /// Returns whether a user-supplied text is one of its names or its PCI address, with or without
    /// domain.
    pub fn has_name(&self, text: &str) -> bool {
        self.is_named(text, PciAddress::named(text))
    }

    /// Returns whether a text, which is this PCI address if any, is one of its names.
    fn is_named(&self, text: &str, address: Option<PciAddress>) -> bool {
        (address.is_some() && self.pci == address) || self.names.iter().any(|name| name == text)
    }
}

impl Irq {
    /// Returns the CPUs that serve it, or else the permitted CPUs.
    pub fn delivery_cpus(&self) -> &CpuSet {
        self.effective.as_ref().unwrap_or(&self.affinity)
    }
}

impl DeviceKind {
    /// Returns the display name: `NIC`, `NVMe`, `GPU` and so on.
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
    /// Returns the current bandwidth of one direction in bytes per second.
    ///
    /// Excludes line coding (8b/10b up to 5 GT/s, 128b/130b up to 32, 1b/1b with FLITs from 64,
    /// counted as 242/256), includes packet headers.
    pub fn bytes_per_s(&self) -> f64 {
        bytes_per_s(self.gt_per_s, self.lanes)
    }

    /// Returns an upper bound of the data that one direction carries, in bytes per second.
    ///
    /// Packets of the largest payload that root ports commonly accept, 512 bytes, with 24 bytes of
    /// header and framing (PCI Express Base Specification, transaction layer packets).
    pub fn max_data_bytes_per_s(&self) -> f64 {
        self.bytes_per_s() * 512.0 / (512.0 + 24.0)
    }

    /// Returns the bandwidth at the device's maximum speed and width.
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
