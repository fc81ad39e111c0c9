//! Placement of guests on the nodes of a host.

use crate::{Basis, DeviceExpectation, MachineSource, RankedNode};
use numaio_machine::devices::PciAddress;
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Identity;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A placement of guests on the nodes of one host, with its proof and simple plans beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestPlan {
    /// [`GUEST_PLAN_SCHEMA`](crate::GUEST_PLAN_SCHEMA).
    pub schema: String,
    /// Version of numaio that created it.
    pub numaio: String,
    /// Time of creation in seconds since 1970.
    pub created_at: u64,
    /// The host.
    pub machine: Identity,
    /// Whether the source was this machine, a tape or a simulation.
    pub source: MachineSource,
    /// The guests to place.
    pub requests: Vec<GuestRequest>,
    /// The nodes of the host.
    pub nodes: Vec<GuestHostNode>,
    /// The devices that the guests use.
    pub devices: Vec<GuestPlanDevice>,
    /// The placement of each guest, in the order of the requests.
    pub guests: Vec<GuestPlacement>,
    /// The value of the placement.
    pub value: GuestPlanValue,
    /// An upper bound of all placements.
    pub bound: GuestPlanValue,
    /// Whether the placement is proven optimal.
    pub proof: GuestPlanProof,
    /// Partial placements that the search examined.
    pub examined: u64,
    /// Simple plans.
    pub baselines: Vec<GuestBaseline>,
    /// Requirements that the placement does not meet, and assumptions, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A guest to place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestRequest {
    /// Its name.
    pub name: String,
    /// Number of virtual CPUs.
    pub vcpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Ids of its I/O threads; libvirt numbers them from 1.
    #[serde(default)]
    pub io_threads: u32,
    /// Size of reserved huge pages for its memory; `None` for ordinary pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge_page_bytes: Option<u64>,
    /// Numbers of its virtual CPUs; empty if they count from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vcpu_ids: Vec<u32>,
    /// Guest nodes that it has already, by number; empty if it may be divided among nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<RequestedCell>,
    /// Devices that it uses.
    pub demands: Vec<GuestDemand>,
}

/// A guest node that stays undivided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RequestedCell {
    /// Numbers of its virtual CPUs.
    pub vcpu_ids: Vec<u32>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Size of reserved huge pages for its memory; `None` for ordinary pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge_page_bytes: Option<u64>,
}

/// A device that a guest uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestDemand {
    /// Name of the device.
    pub device: String,
    /// Wanted bandwidth in bytes per second; `None` for as much as the device has.
    pub bytes_per_s: Option<f64>,
}

/// A node of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestHostNode {
    /// The node.
    pub node: NodeId,
    /// CPUs that virtual CPUs may have; one for each core, unless hardware threads are used.
    pub cpus: CpuSet,
    /// Memory in bytes that guests may have.
    pub memory_bytes: u64,
}

/// A device that guests use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestPlanDevice {
    /// Its name.
    pub device: String,
    /// Its PCI address.
    pub pci: Option<PciAddress>,
    /// Its node; `None` if unknown.
    pub node: Option<NodeId>,
    /// Its bandwidth in bytes per second; `None` if unknown.
    pub bytes_per_s: Option<f64>,
    /// The source of the ranking.
    pub basis: Basis,
    /// The nodes of the host as seen from it, best first.
    pub nodes: Vec<RankedNode>,
    /// Its bandwidth with buffers on each node, by direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<DeviceExpectation>,
    /// CPUs that serve its interrupts.
    pub irq_cpus: CpuSet,
    /// Its free virtual functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub free_functions: Vec<PciAddress>,
}

/// The placement of a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestPlacement {
    /// Its name.
    pub name: String,
    /// Its parts, each on a node of the host; several become guest nodes.
    pub cells: Vec<PlacedCell>,
    /// CPUs of the hypervisor and of its I/O threads.
    pub service_cpus: CpuSet,
    /// Whether these CPUs also run its virtual CPUs, since no core is left.
    pub shares_cpus: bool,
    /// Its share of each device.
    pub demands: Vec<PlacedDemand>,
    /// The virtual function that it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<PlannedFunction>,
}

/// A part of a guest on a node of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PlacedCell {
    /// The node of the host.
    pub node: NodeId,
    /// Its virtual CPUs.
    pub vcpus: Vec<PinnedVcpu>,
    /// Its memory in bytes.
    pub memory_bytes: u64,
}

/// A virtual CPU and its CPU of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PinnedVcpu {
    /// Its number.
    pub vcpu: u32,
    /// CPUs of the host.
    pub cpus: CpuSet,
}

/// The share of a guest in a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PlacedDemand {
    /// The device.
    pub device: String,
    /// Wanted bandwidth in bytes per second; `None` if neither it nor that of the device is known.
    pub wanted_bytes_per_s: Option<f64>,
    /// Max-min share of the wanted bandwidth, from 0 to 1.
    pub share: f64,
}

/// A virtual function for a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PlannedFunction {
    /// Its address.
    pub address: PciAddress,
    /// Its physical function.
    pub physical_function: String,
    /// Its node, if known.
    pub node: Option<NodeId>,
    /// Whether the physical function is a network interface.
    pub network: bool,
}

/// The value of a placement. Values are compared in the order of their fields.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestPlanValue {
    /// The least share of its demand that a guest gets, from 0 to 1.
    pub min_share: f64,
    /// Bandwidth of all demands in bytes per second.
    pub bytes_per_s: f64,
    /// Sum of the ranks of nodes that the guests use, seen from their devices; lower is better.
    pub ranks: f64,
}

/// Whether a placement is optimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum GuestPlanProof {
    /// No placement is better.
    Optimal,
    /// The search was stopped; the bound states what a better placement could reach.
    Gap,
}

/// A simple plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestBaseline {
    /// Its rule.
    pub rule: GuestBaselineRule,
    /// Its value; `None` if the guests do not fit.
    pub value: Option<GuestPlanValue>,
}

/// A rule of a simple plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GuestBaselineRule {
    /// Each guest on the nodes nearest to its first device.
    AllLocal,
    /// Each guest on the next nodes.
    RoundRobin,
    /// libvirt without pinning: threads and memory of each guest spread over all nodes.
    Unpinned,
}

impl GuestBaselineRule {
    /// All rules, in display order.
    pub const ALL: [Self; 3] = [Self::AllLocal, Self::RoundRobin, Self::Unpinned];

    /// Returns the name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllLocal => "all-local",
            Self::RoundRobin => "round-robin",
            Self::Unpinned => "unpinned",
        }
    }
}

impl fmt::Display for GuestBaselineRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl GuestPlacement {
    /// Returns its virtual CPUs, by number.
    pub fn vcpus(&self) -> Vec<&PinnedVcpu> {
        let mut vcpus: Vec<&PinnedVcpu> = self.cells.iter().flat_map(|cell| &cell.vcpus).collect();
        vcpus.sort_by_key(|pinned| pinned.vcpu);
        vcpus
    }

    /// Returns its memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.cells.iter().fold(0, |sum, cell| sum.saturating_add(cell.memory_bytes))
    }
}
