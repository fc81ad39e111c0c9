//! Inputs of a plan of guests.

use crate::placement::{RankingSources, TargetDevice};
use numaio_machine::devices::PciAddress;
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_schema::GuestRequest;
use std::collections::BTreeMap;

/// Inputs of a plan of guests.
pub struct GuestPlanInputs<'a> {
    /// The host.
    pub topology: &'a Topology,
    /// The basis of the nodes' ranking.
    pub sources: RankingSources<'a>,
    /// The guests.
    pub requests: &'a [GuestRequest],
    /// The devices that the requests name.
    pub targets: &'a [GuestTarget],
    /// CPUs that are not available, such as those of other guests.
    pub occupied: &'a CpuSet,
    /// Memory that the guests hold already, by page size (`None` for ordinary pages) and node:
    /// it is available to them.
    pub released: &'a BTreeMap<Option<u64>, BTreeMap<NodeId, u64>>,
    /// Whether virtual CPUs get hardware threads, not cores.
    pub hardware_threads: bool,
    /// Whether each guest gets a virtual function of its first device that has one.
    pub functions: bool,
}

/// A device of the requests.
#[derive(Debug, Clone)]
pub struct GuestTarget {
    /// The device.
    pub device: TargetDevice,
    /// Its PCI address.
    pub pci: Option<PciAddress>,
    /// Whether it is a network interface.
    pub network: bool,
    /// Its free virtual functions.
    pub free_functions: Vec<PciAddress>,
}
