//! The configuration of a guest, from the command line of its hypervisor.

use crate::set::NodeSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A program that runs guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Hypervisor {
    /// QEMU, with or without KVM.
    Qemu,
    /// Cloud Hypervisor.
    CloudHypervisor,
    /// Firecracker.
    Firecracker,
}

impl Hypervisor {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qemu => "QEMU",
            Self::CloudHypervisor => "Cloud Hypervisor",
            Self::Firecracker => "Firecracker",
        }
    }
}

impl fmt::Display for Hypervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The configuration of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestConfiguration {
    /// The hypervisor.
    pub hypervisor: Hypervisor,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Whether libvirt started it, and changes it through its own interface.
    pub libvirt: bool,
    /// Accelerator, such as `kvm` or `tcg`; `None` for the default of the hypervisor.
    pub accelerator: Option<String>,
    /// Number of virtual CPUs at the start.
    pub vcpus: Option<u32>,
    /// Memory in bytes at the start.
    pub memory_bytes: Option<u64>,
    /// Sources of its memory.
    pub backends: Vec<MemoryBackend>,
    /// Its NUMA nodes; empty without.
    pub cells: Vec<GuestCell>,
    /// Whether the hypervisor locks all memory.
    pub locked: bool,
    /// Ids of its I/O threads.
    pub io_threads: Vec<String>,
    /// PCI expander buses by the guest node that they are attached to.
    pub expander_buses: Vec<u32>,
    /// Attached devices.
    pub attachments: Vec<Attachment>,
    /// Unix sockets of its QMP monitors that accept connections.
    pub monitors: Vec<String>,
}

/// A source of guest memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MemoryBackend {
    /// Its id.
    pub id: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Host nodes of its policy; empty without.
    pub host_nodes: NodeSet,
    /// Memory policy: `bind`, `preferred`, `interleave`; `None` for the default.
    pub policy: Option<String>,
    /// Directory or file that holds it, such as a mount of huge pages.
    pub path: Option<String>,
}

/// A NUMA node of a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestCell {
    /// Its number.
    pub id: u32,
    /// Virtual CPUs, as a list.
    pub vcpus: Vec<u32>,
    /// Id of its memory backend.
    pub backend: Option<String>,
    /// Memory in bytes, if known.
    pub bytes: Option<u64>,
}

/// A device of the host that is attached to a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "attached", rename_all = "kebab-case")]
pub enum Attachment {
    /// A PCI function that the guest owns, by its address.
    PciFunction {
        /// The address, as given.
        address: String,
    },
    /// A mediated device or another device by its path in sysfs.
    SysfsDevice {
        /// The path.
        path: String,
    },
    /// A VFIO group, whose functions the guest owns.
    VfioGroup {
        /// Number of the group.
        group: u32,
    },
    /// A VFIO character device.
    VfioDevice {
        /// Its name, such as `vfio0`.
        name: String,
    },
    /// A network interface of the host, such as a tap or macvtap.
    Interface {
        /// Its name.
        name: String,
    },
    /// A descriptor of a tap or macvtap that the starting program opened.
    InterfaceDescriptor {
        /// The descriptor.
        fd: u32,
    },
    /// A file or block device that backs a disk.
    Disk {
        /// Its path.
        path: String,
    },
}

impl GuestConfiguration {
    /// Returns the name of the guest that a process runs: the configured one, or the hypervisor and
    /// process id.
    pub fn guest_name(&self, pid: u32) -> String {
        let unnamed = || format!("{}-{pid}", self.hypervisor.name().to_lowercase()).replace(' ', "-");
        self.name.clone().unwrap_or_else(unnamed)
    }

    /// Creates an empty configuration.
    pub(super) fn new(hypervisor: Hypervisor) -> Self {
        Self {
            hypervisor,
            name: None,
            libvirt: false,
            accelerator: None,
            vcpus: None,
            memory_bytes: None,
            backends: Vec::new(),
            cells: Vec::new(),
            locked: false,
            io_threads: Vec::new(),
            expander_buses: Vec::new(),
            attachments: Vec::new(),
            monitors: Vec::new(),
        }
    }

    /// Returns whether the guest owns a device of the host, whose DMA pins all guest memory.
    pub fn owns_device(&self) -> bool {
        self.attachments.iter().any(|attachment| {
            matches!(
                attachment,
                Attachment::PciFunction { .. }
                    | Attachment::SysfsDevice { .. }
                    | Attachment::VfioGroup { .. }
                    | Attachment::VfioDevice { .. }
            )
        })
    }
}

/// Parses a list of numbers such as `0-3,8`, as of guest CPUs; at most 4,096 of them.
pub(super) fn numbers(text: &str) -> Vec<u32> {
    const MOST: usize = 4096;
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (Ok(low), Ok(high)) = (low.trim().parse::<u32>(), high.trim().parse::<u32>()) else { continue };
        numbers.extend((low..=high).take(MOST - numbers.len()));
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
