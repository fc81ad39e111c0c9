//! Resolution of handles to the devices that placement uses.

use crate::failure::{self, Failure};
use crate::machine::Machine;
use numaio_machine::devices::{Device, Irq};
use numaio_machine::near::{resolve, Handle, NearDevice, ResolveContext, Resolved};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_model::TargetDevice;

/// Interrupts without a known effective CPU are ignored if their affinity has more CPUs than this.
const MOST_BOUND: usize = 4;

/// Returns the devices behind a handle that carry its I/O.
///
/// # Errors
/// [`Failure`]: the handle does not resolve to a device.
pub fn devices_of(
    machine: &Machine,
    topology: &Topology,
    handle: &Handle,
) -> Result<Vec<TargetDevice>, Failure> {
    let found = resolve(ResolveContext { root: machine, locate: machine, topology }, handle);
    let carrying: Vec<(&NearDevice, &Device)> =
        found.carrying().filter_map(|near| Some((near, topology.devices.get(near.index)?))).collect();
    if carrying.is_empty() {
        return Err(failure::unresolved(&found));
    }
    // The share of each device applies to the bandwidth of all together; without shares, each has
    // its own bandwidth.
    let total: Option<f64> = carrying.iter().map(|(_, device)| bytes_per_s(device)).sum();
    let rate = |near: &NearDevice, device: &Device| match near.share {
        Some(share) => total.map(|total| total * share.max(f64::MIN_POSITIVE)),
        None => bytes_per_s(device),
    };
    let near = carrying.into_iter().map(|(near, device)| TargetDevice {
        handle: found.handle.clone(),
        chain: steps(&found),
        device: device.name(),
        node: near.nodes.first().or(device.locality.node),
        irq_cpus: irq_cpus(device),
        bytes_per_s: rate(near, device),
        has_unknown_share: near.share.is_none(),
    });
    Ok(near.collect())
}

/// Finds a device of a plan by its name.
pub fn find(topology: &Topology, name: &str) -> Option<TargetDevice> {
    let device = topology.devices.iter().find(|device| device.has_name(name))?;
    Some(TargetDevice {
        handle: name.to_owned(),
        chain: Vec::new(),
        device: name.to_owned(),
        node: device.locality.node,
        irq_cpus: irq_cpus(device),
        bytes_per_s: bytes_per_s(device),
        has_unknown_share: false,
    })
}

/// Returns the resolution path as lines, then the sources it was read from.
fn steps(found: &Resolved) -> Vec<String> {
    let sources = found.chain.iter().filter(|step| !step.source.is_empty());
    let steps = sources.map(|step| format!("{}: {} is {}", step.name, step.source, step.value));
    found.lines().into_iter().chain(steps).collect()
}

/// Returns the CPUs that serve the device's interrupts. A wide affinity does not show which CPU
/// serves an interrupt.
fn irq_cpus(device: &Device) -> CpuSet {
    let serving = |irq: &Irq| irq.effective.clone().unwrap_or_else(|| irq.affinity.clone());
    let bound = device.irqs.iter().filter(|irq| irq.effective.is_some() || irq.affinity.len() <= MOST_BOUND);
    bound.map(serving).fold(CpuSet::new(), |all, cpus| all.union(&cpus))
}

/// Returns the bandwidth of a device: the lower speed of its port and its link.
fn bytes_per_s(device: &Device) -> Option<f64> {
    let port = device.port_bits_per_s.map(|bits| bits as f64 / 8.0);
    let link = device.link.map(|link| link.bytes_per_s());
    match (port, link) {
        (Some(port), Some(link)) => Some(port.min(link)),
        (port, link) => port.or(link),
    }
}
