//! Devices that command lines name.

use crate::failure::Failure;
use numaio_machine::devices::Device;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;

/// Returns a device that moves data, which is selected by name or PCI address.
pub fn device_of_data<'a>(topology: &'a Topology, name: &str) -> Result<&'a Device, Failure> {
    let devices = || topology.devices.iter().filter(|device| device.moves_data());
    devices().find(|device| device.has_name(name)).ok_or_else(|| {
        let names: Vec<String> = devices().map(|device| device.name()).collect();
        let hint = if names.is_empty() {
            "this machine has no devices that move data".into()
        } else {
            format!("devices: {}", names.join(", "))
        };
        Failure::usage(format!("there is no device '{name}'")).hint(hint)
    })
}

/// Returns the node of a device, which is selected by name or PCI address.
pub fn node_of_device(topology: &Topology, name: &str) -> Result<NodeId, Failure> {
    let device = device_of_data(topology, name)?;
    device.locality.node.ok_or_else(|| {
        Failure::new(format!("the kernel does not report the NUMA node of '{name}'"))
            .hint("select the target with --node K; the board's manual lists the socket of each slot")
    })
}
