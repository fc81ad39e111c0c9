//! Devices that move data, and their position in the machine.

mod bar;
mod counters;
mod device;
mod discovery;
mod irqs;
mod link;
mod locality;
mod matrix;
mod names;
mod pci;
mod pci_address;
mod pci_ids;
mod read;
mod register;

pub use bar::{bar_file, Bar, BarRegion};
pub use counters::{busy_ms, bytes_moved, moved_bytes, DeviceCounters, MovedBytes};
pub use device::{Device, DeviceKind, Irq, Locality, LocalitySource, NameClass, PcieLink, Sriov};
pub use discovery::read;
pub(crate) use discovery::{Bridges, Scan};
pub use irqs::interrupt_names;
pub use matrix::{DeviceMatrix, Shared};
pub(crate) use pci::FUNCTIONS;
pub use pci_address::PciAddress;
pub use pci_ids::name_by_pci_ids;
pub use register::{
    function_exists, function_node, MmioRegister, RegisterChoice, RegisterError, RegisterRequest,
};
