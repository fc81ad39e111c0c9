//! Handles, resolved to devices.

use crate::failure::{self, Failure};
use crate::machine::Machine;
use numaio_machine::devices::Device;
use numaio_machine::near::{self, Ground, Handle, NearDevice, Resolved};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_model::Near;

/// Devices behind a handle, those that stand by left out.
pub fn resolve(machine: &Machine, topology: &Topology, handle: &str) -> Result<Vec<Near>, Failure> {
    let typed: Handle = handle.parse().map_err(Failure::usage)?;
    let found = near::resolve(Ground { root: machine, locate: machine, topology }, &typed);
    let used = found.devices.iter().filter(|device| device.share > 0.0);
    let devices: Vec<Near> = used.map(|device| near_of(topology, &found, device)).collect();
    if devices.is_empty() {
        return Err(failure::nowhere(&found));
    }
    Ok(devices)
}

fn near_of(topology: &Topology, found: &Resolved, device: &NearDevice) -> Near {
    let chain = found.way_to(device).iter().map(|step| step.what.clone()).collect();
    near(&found.handle, chain, &topology.devices[device.index])
}

/// A device as placement sees it.
fn near(handle: &str, chain: Vec<String>, device: &Device) -> Near {
    let serving =
        |irq: &numaio_machine::devices::Irq| irq.effective.clone().unwrap_or_else(|| irq.affinity.clone());
    // An interrupt that may go to any CPU says nothing of where it goes.
    let bound = device.irqs.iter().filter(|irq| irq.effective.is_some() || irq.affinity.len() <= MOST_BOUND);
    let irq_cpus = bound.map(serving).fold(CpuSet::new(), |all, one| all.union(&one));
    let port = device.port_bits_per_s.map(|bits| bits as f64 / 8.0);
    let link = device.link.map(|link| link.bytes_per_s());
    let bytes_per_s = match (port, link) {
        (Some(port), Some(link)) => Some(port.min(link)),
        (port, link) => port.or(link),
    };
    Near {
        handle: handle.to_owned(),
        chain,
        device: device.name(),
        node: device.locality.node,
        irq_cpus,
        bytes_per_s,
    }
}

/// Interrupts that may go to more CPUs than this, and whose effective CPU is not told, are not counted.
const MOST_BOUND: usize = 4;
