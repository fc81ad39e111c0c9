//! Devices of the daemon's host, and the resources of the broker that stand for them.

use numaio_broker::{Resource, ResourceId};
use numaio_schema::TransferDirection;

/// The capacity of a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceCapacity {
    /// Its name.
    pub name: String,
    /// From the device to memory: read, or receive.
    pub read: DirectionCapacity,
    /// From memory to the device: write, or send.
    pub write: DirectionCapacity,
    /// Maximum number of transfers in both directions at once; `None` without a limit.
    pub transfers: Option<u32>,
    /// Names of the roots on it.
    pub roots: Vec<String>,
    /// Its file systems, as `st_dev` of stat(2).
    pub file_systems: Vec<u64>,
    /// Network interfaces whose data it carries.
    pub interfaces: Vec<String>,
}

/// The capacity of a device in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectionCapacity {
    /// Bandwidth in bytes/s; `None` if it is unknown.
    pub bandwidth: Option<u64>,
    /// Whether the bandwidth is configured, and limits also a transfer that does not share the
    /// device: the page cache may be faster than what was measured.
    pub is_configured: bool,
    /// Threads.
    pub threads: u32,
}

impl Default for DirectionCapacity {
    fn default() -> Self {
        Self { bandwidth: None, is_configured: false, threads: 1 }
    }
}

/// Resources of a device: both directions, and the number of transfers.
const RESOURCES: usize = 3;

/// Returns the resources of devices.
pub fn resources(devices: &[DeviceCapacity]) -> Vec<Resource> {
    let of = |device: &DeviceCapacity| {
        let one = |direction: &DirectionCapacity| Resource {
            bandwidth: direction.bandwidth,
            threads: direction.threads.max(1),
            tasks: u32::MAX,
        };
        let tasks = device.transfers.unwrap_or(u32::MAX).max(1);
        [one(&device.read), one(&device.write), Resource { bandwidth: None, threads: 1, tasks }]
    };
    devices.iter().flat_map(of).collect()
}

/// Returns the resources of a device that a transfer in some direction uses; the first one has its
/// bandwidth and threads.
pub fn resources_of(index: usize, direction: TransferDirection) -> [ResourceId; 2] {
    let offset = match direction {
        TransferDirection::Read => 0,
        TransferDirection::Write => 1,
    };
    [ResourceId(RESOURCES * index + offset), ResourceId(RESOURCES * index + 2)]
}

/// Returns the device of a resource, with the direction if it stands for one.
pub fn device_of(
    devices: &[DeviceCapacity],
    resource: ResourceId,
) -> (&DeviceCapacity, Option<TransferDirection>) {
    let direction = match resource.0 % RESOURCES {
        0 => Some(TransferDirection::Read),
        1 => Some(TransferDirection::Write),
        _ => None,
    };
    (&devices[resource.0 / RESOURCES], direction)
}

impl DeviceCapacity {
    /// Returns its capacity in a direction.
    pub fn direction(&self, direction: TransferDirection) -> &DirectionCapacity {
        match direction {
            TransferDirection::Read => &self.read,
            TransferDirection::Write => &self.write,
        }
    }
}
