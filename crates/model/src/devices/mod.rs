//! Descriptions of devices, derived from the topology, measured I/O, the copy model and a
//! configuration.
//!
//! A configured value overrides a measured one, a measured one a derived one. A value that nothing
//! supports stays unknown.

mod draft;
mod evidence;
mod found;
mod overrides;
#[cfg(test)]
#[allow(dead_code)]
#[path = "../../../machine/tests/machine/near/machine.rs"]
mod stacks;
#[cfg(test)]
mod tests;
mod threads;

pub use evidence::{DeviceEvidence, NamedDocument};
pub use overrides::OverrideError;
pub use threads::{device_threads, MOST_DEVICE_THREADS};

use draft::DeviceDraft;
use numaio_schema::{DeviceDescription, DeviceOverride, OmittedDevice};

/// Descriptions of the devices of a machine, and the errors of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DescribedDevices {
    /// Storage, then memory, then network devices.
    pub devices: Vec<DeviceDescription>,
    /// Devices that are not described.
    pub omitted: Vec<OmittedDevice>,
    /// Configured tables that do not fit this machine, by line.
    pub errors: Vec<OverrideError>,
}

/// Describes the devices of a machine.
///
/// `file` is the configuration file of the overrides.
pub fn describe_devices(
    evidence: &DeviceEvidence<'_>,
    file: &str,
    overrides: &[DeviceOverride],
) -> DescribedDevices {
    let mut drafts = found::storage(evidence);
    drafts.push(found::memory(evidence));
    let (nics, omitted) = found::network(evidence);
    drafts.extend(nics);
    let errors = overrides::apply(&mut drafts, evidence.topology, &omitted, file, overrides);
    let nodes = evidence.topology.nodes.iter();
    let cores = nodes.map(|node| evidence.topology.cores(node.id).len()).sum();
    let devices = drafts.into_iter().map(|draft: DeviceDraft| draft.finish(cores)).collect();
    DescribedDevices { devices, omitted, errors }
}
