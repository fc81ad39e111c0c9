//! This machine as a guest: the topology that it was given, and what it cannot find out.

use crate::ids::NodeId;
use crate::set::NodeSet;
use crate::surroundings::GuestPlatform;
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::Topology;
use serde::{Deserialize, Serialize};

/// The topology that a hypervisor gave to this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GivenTopology {
    /// The hypervisor or cloud, by DMI or the kernel; `None` if neither names it.
    pub hypervisor: Option<String>,
    /// Nodes with CPUs.
    pub nodes: NodeSet,
    /// Online CPUs.
    pub cpus: u32,
    /// Whether CPUs are hardware threads of common cores.
    pub hardware_threads: bool,
    /// Devices that move data, with their node as the guest sees it.
    pub devices: Vec<(String, Option<NodeId>)>,
    /// Facts unknown to the guest, and requests to the host.
    pub unknown: Vec<UnknownFact>,
}

/// A fact about the host that a guest cannot find out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct UnknownFact {
    /// The fact.
    pub fact: String,
    /// Requests to the operator of the host.
    pub request: String,
}

impl GivenTopology {
    /// Returns the topology of this machine as a guest; `None` if it is not a virtual machine.
    pub fn read(root: &dyn Sysfs, topology: &Topology) -> Option<Self> {
        if !topology.surroundings.virtual_machine {
            return None;
        }
        let online = topology.cpus.iter().filter(|cpu| cpu.online);
        let moving = topology.devices.iter().filter(|device| device.moves_data());
        let devices: Vec<_> =
            moving.map(|device| (device.distinct_name(&topology.devices), device.locality.node)).collect();
        let mut given = Self {
            hypervisor: hypervisor(root, topology.surroundings.hypervisor),
            nodes: topology.cpu_nodes(),
            cpus: u32::try_from(online.clone().count()).unwrap_or(u32::MAX),
            hardware_threads: online.clone().any(|cpu| cpu.siblings.len() > 1),
            devices,
            unknown: Vec::new(),
        };
        given.unknown = given.unknown_facts(topology);
        Some(given)
    }

    fn unknown_facts(&self, topology: &Topology) -> Vec<UnknownFact> {
        let fact = |fact: &str, request: &str| UnknownFact { fact: fact.into(), request: request.into() };
        let mut facts = vec![fact(
            "which CPUs and nodes of the host run its vCPUs, and whether they stay there",
            "pin the vCPUs to cores near the device (vcpupin), and its memory to the same nodes (numatune, strict); \
             numaio vm show on the host shows both",
        )];
        if self.nodes.len() < 2 {
            facts.push(fact(
                "whether its memory is on one node of the host: it sees a single node",
                "a guest NUMA node for each node of the host that holds its memory, with distances (numaio vm place)",
            ));
        }
        let on_its_only_node = self.nodes.len() < 2 && !self.devices.is_empty();
        if on_its_only_node || self.devices.iter().any(|(_, node)| node.is_none()) {
            facts.push(fact(
                "the node of the host that its devices are attached to",
                "a pcie-expander-bus on the guest node of the device, and a virtual function behind it",
            ));
        }
        if !self.hardware_threads && topology.cpus.len() > 1 {
            facts.push(fact(
                "whether its CPUs are cores or hardware threads of the host",
                "vCPUs pinned to cores, or threads='2' in the guest's CPU topology if they are hardware threads",
            ));
        }
        facts
    }
}

/// Names the hypervisor by DMI (`Documentation/ABI/testing/sysfs-class-dmi` of dmi-sysfs) or
/// the hypervisor of the surroundings.
fn hypervisor(root: &dyn Sysfs, found: Option<GuestPlatform>) -> Option<String> {
    let read = |path: &str| root.optional(path).filter(|text| !text.is_empty());
    let vendor = read("/sys/class/dmi/id/sys_vendor");
    let product = read("/sys/class/dmi/id/product_name");
    let dmi = match (vendor, product) {
        (Some(vendor), Some(product)) => Some(format!("{vendor} {product}")),
        (vendor, product) => vendor.or(product),
    };
    dmi.or_else(|| found.and_then(GuestPlatform::name).map(str::to_owned))
}
