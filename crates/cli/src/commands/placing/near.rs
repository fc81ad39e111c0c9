//! Handles, resolved to devices.

use crate::failure::Failure;
use numaio_machine::devices::Device;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_model::Near;

/// Devices behind a handle.
pub fn resolve(topology: &Topology, handle: &str) -> Result<Vec<Near>, Failure> {
    let devices = || topology.devices.iter().filter(|device| device.moves_data());
    let found = devices().find(|device| device.answers_to(handle));
    let device = found.ok_or_else(|| {
        let names: Vec<String> = devices().map(|device| device.name()).collect();
        let hint = match names.is_empty() {
            true => "no device was found here".to_owned(),
            false => format!("there are {}", names.join(", ")),
        };
        Failure::usage(format!("there is no device {handle:?}")).hint(hint)
    })?;
    Ok(vec![near(handle, Vec::new(), device)])
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
