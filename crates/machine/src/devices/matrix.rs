//! Shared parts of the path between two devices.
//!
//! Transfers between devices (GPUDirect, NVMe over Fabrics target offload) take the shortest path:
//! within a switch they do not reach the processor, across packages they load its interconnect.

use super::device::{Device, DeviceKind};
use crate::findings::matters;
use crate::topology::Topology;
use serde::{Deserialize, Serialize};

/// Maximum number of devices of a matrix.
const MAX_DEVICES: usize = 256;

/// The nearest part that two devices share, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Shared {
    /// They are one device.
    Itself,
    /// They are functions of one card.
    Card,
    /// A PCI Express switch, below the root port.
    Switch,
    /// A root port.
    RootPort,
    /// A node.
    Node,
    /// A package, with different nodes.
    Package,
    /// The machine only: transfers cross packages.
    Machine,
    /// Unknown, because the node of one is.
    Unknown,
}

/// A device × device matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DeviceMatrix {
    /// Names of the devices, by node, kind and address.
    pub devices: Vec<String>,
    /// `rows[i][j]` is what devices `i` and `j` share; symmetric.
    pub rows: Vec<Vec<Shared>>,
}

impl DeviceMatrix {
    /// Returns the matrix of the GPUs, network and RDMA interfaces, NVMe drives and PCI disks of a
    /// machine, without virtual functions; `None` for fewer than 2 or more than 256 devices.
    pub fn new(topology: &Topology) -> Option<Self> {
        let mut devices: Vec<&Device> = topology.devices.iter().filter(|device| is_listed(device)).collect();
        if devices.len() < 2 || devices.len() > MAX_DEVICES {
            return None;
        }
        devices.sort_by_key(|device| {
            (device.locality.node.map_or(u32::MAX, |node| node.0), device.kind, device.pci)
        });
        let row = |one: &&Device| devices.iter().map(|other| shared(topology, one, other)).collect();
        Some(Self {
            devices: devices.iter().map(|device| device.distinct_name(&topology.devices)).collect(),
            rows: devices.iter().map(row).collect(),
        })
    }
}

fn is_listed(device: &Device) -> bool {
    let kind = matches!(
        device.kind,
        DeviceKind::Gpu
            | DeviceKind::Accelerator
            | DeviceKind::Network
            | DeviceKind::Rdma
            | DeviceKind::Nvme
            | DeviceKind::Block
    );
    kind && matters(device) && device.pci.is_some() && !device.is_virtual_function()
}

/// Returns the nearest part that two devices share.
fn shared(topology: &Topology, one: &Device, other: &Device) -> Shared {
    if one.pci == other.pci {
        return Shared::Itself;
    }
    let card = |device: &Device| device.pci.map(|pci| (pci.domain, pci.bus, pci.device));
    if card(one) == card(other) && !one.upstream.is_empty() {
        return Shared::Card;
    }
    match one.upstream.iter().position(|bridge| other.upstream.contains(bridge)) {
        // The last bridge is the root port.
        Some(index) if index + 1 < one.upstream.len() => return Shared::Switch,
        Some(_) => return Shared::RootPort,
        None => {}
    }
    let (Some(a), Some(b)) = (one.locality.node, other.locality.node) else { return Shared::Unknown };
    if a == b {
        return Shared::Node;
    }
    let packages = |node| topology.node(node).map(|node| node.packages.as_slice()).unwrap_or_default();
    match packages(a).iter().any(|package| packages(b).contains(package)) {
        true => Shared::Package,
        false => Shared::Machine,
    }
}
