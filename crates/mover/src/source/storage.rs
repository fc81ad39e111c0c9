//! The storage devices of a source: each has its own listings, reads and part of the window.

use super::read_order::ReadOrder;

/// A storage device that holds files of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceDevice {
    /// Maximum read operations in flight, at least one.
    pub reads: usize,
    /// The order in which requested files are read.
    pub order: ReadOrder,
}

/// The storage devices of a source, and which of them holds each root.
///
/// Invariant: there is a device, and each root is on one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceStorage {
    devices: Vec<SourceDevice>,
    of_roots: Vec<usize>,
}

impl SourceStorage {
    /// Creates the storage of roots on a single device.
    pub fn single(device: SourceDevice) -> Self {
        Self { devices: vec![device], of_roots: Vec::new() }
    }

    /// Creates the storage of roots on several devices, given the index of each root's device.
    /// Roots without one are on the first; `None` without devices, or if an index is out of range.
    pub fn new(devices: Vec<SourceDevice>, of_roots: Vec<usize>) -> Option<Self> {
        let is_valid = !devices.is_empty() && of_roots.iter().all(|device| *device < devices.len());
        is_valid.then_some(Self { devices, of_roots })
    }

    /// Returns the devices.
    pub fn devices(&self) -> &[SourceDevice] {
        &self.devices
    }

    /// Returns the index of the device that holds a root.
    pub fn device_of(&self, root: u32) -> usize {
        self.of_roots.get(root as usize).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_root_is_on_a_device() {
        let device = |reads| SourceDevice { reads, order: ReadOrder::Inode };
        assert_eq!(SourceStorage::new(Vec::new(), Vec::new()), None);
        assert_eq!(SourceStorage::new(vec![device(1)], vec![0, 1]), None);
        let storage = SourceStorage::new(vec![device(1), device(4)], vec![1, 0]).expect("valid");
        assert_eq!([0, 1, 2].map(|root| storage.device_of(root)), [1, 0, 0]);
        assert_eq!(SourceStorage::single(device(1)).device_of(7), 0);
    }
}
