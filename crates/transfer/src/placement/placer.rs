//! The interface of placement to a model of the machine.

use super::plan::SidePlan;
use numaio_machine::topology::Topology;
use numaio_mover::wire::Side;
use numaio_mover_linux::port::GroupLoad;
use numaio_schema::{DeviceDescription, PlacementPlan};
use std::path::Path;

/// Decides placements that need a model of the machine.
pub trait Placer {
    /// Places a task that reads or writes a path, by the saved model.
    ///
    /// # Errors
    /// Why it has no placement.
    fn by_model(&self, topology: &Topology, path: String, side: Side) -> Result<PlacementPlan, String>;

    /// Describes the storage devices that hold each path; none where they are unknown.
    fn storage_devices(&self, paths: &[&Path]) -> Vec<Vec<DeviceDescription>>;

    /// Reads a plan that another host sent for threads of this one.
    ///
    /// # Errors
    /// Why it is not a valid plan of this machine.
    fn plan(&self, text: &str) -> Result<SidePlan, String>;

    /// Returns the function that chooses the group which an idle group helps, given the loads of
    /// all groups and the index of the idle one.
    fn group_to_help(&self) -> fn(&[GroupLoad], usize) -> Option<usize>;
}

/// Leaves all placement to the kernel.
pub struct KernelPlacer;

impl Placer for KernelPlacer {
    fn by_model(&self, _: &Topology, _: String, _: Side) -> Result<PlacementPlan, String> {
        Err("there is no model".to_owned())
    }

    fn storage_devices(&self, _: &[&Path]) -> Vec<Vec<DeviceDescription>> {
        Vec::new()
    }

    fn plan(&self, _: &str) -> Result<SidePlan, String> {
        Err("there are no plans".to_owned())
    }

    fn group_to_help(&self) -> fn(&[GroupLoad], usize) -> Option<usize> {
        |_, _| None
    }
}
