//! This machine, as placement sees it.

use super::side_options::SideOptions;
use crate::options::Placement;
use numaio_linux::Kernel;
use numaio_machine::devices::Device;
use numaio_machine::discover::discover;
use numaio_machine::near::{resolve, Handle, ResolveContext, Resolved};
use numaio_machine::topology::Topology;

/// A view of this machine for placement.
#[derive(Debug)]
pub struct MachineView {
    kernel: Kernel,
    pub topology: Topology,
}

impl MachineView {
    /// Reads the topology; `None` if placement is off, or all places are the same.
    pub fn new(options: &SideOptions<'_>) -> Option<Self> {
        let plan = options.plan;
        if plan.is_none() && options.placement == Placement::None {
            return None;
        }
        let kernel = Kernel::new().ok()?;
        let topology = discover(&kernel);
        // With one memory node there is no choice.
        let has_choice = plan.is_some() || topology.memory_nodes().len() > 1;
        has_choice.then_some(Self { kernel, topology })
    }

    /// Resolves a handle to devices and nodes.
    pub fn found(&self, handle: &Handle) -> Resolved {
        resolve(ResolveContext { root: &self.kernel, locate: &self.kernel, topology: &self.topology }, handle)
    }

    /// Returns the resolved devices that carry I/O.
    pub fn devices(&self, found: &Resolved) -> Vec<&Device> {
        found.carrying().filter_map(|near| self.topology.devices.get(near.index)).collect()
    }
}
