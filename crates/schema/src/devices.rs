//! Descriptions of devices: what each can carry, and the source of every value.

use numaio_machine::set::NodeSet;
use numaio_machine::topology::Identity;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The devices of a machine that carry transfers, as `numaio devices --json` prints them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DevicesDocument {
    /// [`DEVICES_SCHEMA`](crate::DEVICES_SCHEMA).
    pub schema: String,
    /// Version of numaio that wrote the document.
    pub numaio: String,
    /// The machine.
    pub machine: Identity,
    /// The devices: storage, then memory, then network.
    pub devices: Vec<DeviceDescription>,
    /// Devices that are not described, such as a NIC without a link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<OmittedDevice>,
}

/// The capacity of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DeviceDescription {
    /// Unique name: of a block device or interface, `memory`, or the source or mount of a file
    /// system.
    pub name: String,
    /// Other names, such as a device mapper name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Kind of the device.
    pub kind: Sourced<TransferDeviceKind>,
    /// Details of the kind: `virtual disk`, `raid1`, the type of an unknown file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Its use by a transfer.
    pub purpose: Sourced<DevicePurpose>,
    /// Its nodes; `None` if unknown.
    pub nodes: Option<Sourced<NodeSet>>,
    /// Bandwidth from the device to memory: read, or receive.
    pub read: DeviceBandwidth,
    /// Bandwidth from memory to the device: write, or send.
    pub write: DeviceBandwidth,
    /// Threads that read from it, or receive.
    pub read_threads: Sourced<u32>,
    /// Threads that write to it, or send.
    pub write_threads: Sourced<u32>,
    /// Devices that carry its data: disks of a RAID, NICs of a bond or of a network file system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Mount points of its file systems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
}

/// A device that is not described.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct OmittedDevice {
    /// Its name.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// A value with its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "Sourced_{T}"))]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// The source.
    pub source: ValueSource,
}

/// The bandwidth of a device in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum DeviceBandwidth {
    /// A value with its source.
    Known {
        /// Bytes per second.
        bytes_per_s: f64,
        /// The source.
        source: ValueSource,
    },
    /// No value: none was configured, measured or derived.
    Unknown {
        /// The command that measures it.
        measure: String,
    },
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum ValueSource {
    /// A table `[device.NAME]` of a daemon's configuration.
    Configuration {
        /// The file.
        file: String,
        /// The line of the table.
        line: usize,
    },
    /// A measurement.
    Measured {
        /// The document, or the tape that contains it.
        document: String,
        /// Seconds since 1970.
        measured_at: u64,
    },
    /// The copy model of the device's node.
    Model {
        /// The document, or the tape that contains it.
        document: String,
        /// Seconds since 1970.
        measured_at: u64,
    },
    /// The negotiated speed of a link: an upper limit.
    Link {
        /// The link, such as `PCIe 8 GT/s x4` or `eth0 at 10 Gbit/s`.
        link: String,
    },
    /// A fact that the kernel reports.
    Discovered {
        /// The file or property.
        by: String,
    },
    /// An assumption.
    Assumed {
        /// The reason.
        reason: String,
    },
}

/// Kinds of devices that carry transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TransferDeviceKind {
    /// Rotational disk.
    Hdd,
    /// Solid state disk other than NVMe.
    Ssd,
    /// NVMe drive.
    Nvme,
    /// Memory of the machine, for file systems such as tmpfs.
    Memory,
    /// File system of a server.
    NetworkFileSystem,
    /// Network interface.
    Nic,
    /// Any other storage.
    Other,
}

/// The use of a device by a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DevicePurpose {
    /// Reading and writing files.
    Storage,
    /// Sending and receiving.
    Network,
}

/// Values of a device that a configuration sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceOverride {
    /// Name, alias, mount point or source of the device.
    pub name: String,
    /// Line of the table in the configuration file.
    pub line: usize,
    /// Kind.
    pub kind: Option<TransferDeviceKind>,
    /// Purpose.
    pub purpose: Option<DevicePurpose>,
    /// Read or receive bandwidth in bytes per second.
    pub read: Option<u64>,
    /// Write or send bandwidth in bytes per second.
    pub write: Option<u64>,
    /// Threads in each direction.
    pub threads: Option<u32>,
    /// Nodes.
    pub nodes: Option<NodeSet>,
}

impl DeviceDescription {
    /// Returns whether a text is its name, an alias, or one of its mount points.
    pub fn has_name(&self, text: &str) -> bool {
        let is_mount =
            |mount: &String| mount == text || (text.len() > 1 && text.trim_end_matches('/') == mount);
        self.name == text
            || self.aliases.iter().any(|alias| alias == text)
            || self.mounts.iter().any(is_mount)
    }
}

impl DeviceDescription {
    /// Returns whether more read threads than described would be slower, or are not wanted: on a
    /// rotational disk, or by the configuration.
    pub fn has_fixed_threads(&self) -> bool {
        self.kind.value == TransferDeviceKind::Hdd
            || matches!(self.read_threads.source, ValueSource::Configuration { .. })
    }
}

impl DeviceBandwidth {
    /// Returns the bandwidth in bytes per second, if it is known.
    pub fn bytes_per_s(&self) -> Option<f64> {
        match self {
            Self::Known { bytes_per_s, .. } => Some(*bytes_per_s),
            Self::Unknown { .. } => None,
        }
    }
}

impl<T> Sourced<T> {
    /// Creates a value that the kernel reports.
    pub fn discovered(value: T, by: impl Into<String>) -> Self {
        Self { value, source: ValueSource::Discovered { by: by.into() } }
    }

    /// Creates an assumed value.
    pub fn assumed(value: T, why: impl Into<String>) -> Self {
        Self { value, source: ValueSource::Assumed { reason: why.into() } }
    }
}

impl TransferDeviceKind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Hdd, Self::Ssd, Self::Nvme, Self::Memory, Self::NetworkFileSystem, Self::Nic, Self::Other];

    /// Returns the name in configurations and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hdd => "hdd",
            Self::Ssd => "ssd",
            Self::Nvme => "nvme",
            Self::Memory => "memory",
            Self::NetworkFileSystem => "network-file-system",
            Self::Nic => "nic",
            Self::Other => "other",
        }
    }

    /// Returns the name for users.
    pub fn title(self) -> &'static str {
        match self {
            Self::Hdd => "HDD",
            Self::Ssd => "SSD",
            Self::Nvme => "NVMe",
            Self::NetworkFileSystem => "network file system",
            Self::Nic => "NIC",
            Self::Memory | Self::Other => self.name(),
        }
    }

    /// Returns the purpose of such a device, unless it is configured.
    pub fn usual_purpose(self) -> DevicePurpose {
        if self == Self::Nic {
            DevicePurpose::Network
        } else {
            DevicePurpose::Storage
        }
    }
}

impl DevicePurpose {
    /// All purposes.
    pub const ALL: [Self; 2] = [Self::Storage, Self::Network];

    /// Returns the name in configurations and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Network => "network",
        }
    }
}

/// Finds the value with a name; the error lists all names.
fn by_name<T: Copy>(all: &[T], name_of: fn(T) -> &'static str, text: &str) -> Result<T, String> {
    let names: Vec<&str> = all.iter().map(|value| name_of(*value)).collect();
    let found = all.iter().copied().find(|value| name_of(*value) == text);
    found.ok_or_else(|| format!("expected one of {}, got {text:?}", names.join(", ")))
}

impl FromStr for TransferDeviceKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::ALL, Self::name, text)
    }
}

impl FromStr for DevicePurpose {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::ALL, Self::name, text)
    }
}

impl fmt::Display for TransferDeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for DevicePurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
