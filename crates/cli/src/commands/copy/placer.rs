//! Placement by the saved models of this machine, for transfers.

use super::work_sharing::pick_group_to_help;
use crate::commands::device_discovery::DiscoveredDevices;
use crate::commands::placement::{self, PlacementArgs};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{Common, Directions};
use numaio_linux::Kernel;
use numaio_machine::discover::discover;
use numaio_machine::near::Handle;
use numaio_machine::topology::Topology;
use numaio_mover::wire::Side;
use numaio_mover_linux::port::GroupLoad;
use numaio_schema::{DeviceDescription, PlacementPlan};
use numaio_transfer::placement::{Placer, SidePlan};
use std::path::Path;

/// Places as `numaio run --near file:PATH` does.
pub struct ModelPlacer;

impl Placer for ModelPlacer {
    fn by_model(&self, topology: &Topology, path: String, side: Side) -> Result<PlacementPlan, String> {
        plan(topology, path, side).map_err(|failure| failure.message)
    }

    fn storage_devices(&self, paths: &[&Path]) -> Vec<Vec<DeviceDescription>> {
        let Ok(kernel) = Kernel::new() else { return Vec::new() };
        let machine = Machine::Live(kernel);
        let discovered = DiscoveredDevices::read(&Common::silent(), &machine, None);
        let of_path = |path: &&Path| {
            let names = path.to_str().and_then(|path| discovered.devices_of_path(&machine, path).ok());
            let all = discovered.described.devices.iter();
            all.filter(|device| names.iter().flatten().any(|name| *name == device.name)).cloned().collect()
        };
        paths.iter().map(of_path).collect()
    }

    fn plan(&self, text: &str) -> Result<SidePlan, String> {
        remote_plan(text).map_err(|failure| failure.message)
    }

    fn group_to_help(&self) -> fn(&[GroupLoad], usize) -> Option<usize> {
        pick_group_to_help
    }
}

/// Reads a plan that another host sent, as `--plan` reads a file.
fn remote_plan(text: &str) -> Result<SidePlan, Failure> {
    let machine = Machine::Live(Kernel::new().map_err(Failure::new)?);
    let topology = discover(&machine);
    let (plan, placement) = placement::parse_transfer(&machine, &topology, (Path::new("the plan"), text))?;
    Ok(SidePlan::new(plan, placement))
}

fn plan(topology: &Topology, path: String, side: Side) -> Result<PlacementPlan, Failure> {
    let direction = match side {
        Side::Source => Directions::Read,
        Side::Sink => Directions::Write,
    };
    let args = PlacementArgs::of(Handle::Path(path), direction);
    // Models are looked up for a live machine; remarks are printed with the placement.
    let machine = Machine::Live(Kernel::new().map_err(Failure::new)?);
    placement::plan(&Common::silent(), &machine, topology, &args)
}
