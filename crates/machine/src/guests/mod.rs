//! Guests: virtual machines that run on this one, their threads, memory and devices.
//!
//! Everything is read from the files of the hypervisor's process, so that no hypervisor has to
//! cooperate.

mod attachments;
mod cloud_hypervisor;
mod command_line;
mod configuration;
mod domain;
mod firecracker;
mod functions;
mod guest;
mod inside;
mod memory;
mod monitor;
mod option_text;
mod qemu;
#[cfg(test)]
mod tests;
mod threads;

pub use attachments::{guest_devices, GuestDevice, GuestDeviceKind};
pub use command_line::parse_command_line;
pub use configuration::{Attachment, GuestCell, GuestConfiguration, Hypervisor, MemoryBackend};

pub use domain::{domain_children, parse_domain, DomainCell, DomainError, DomainSummary};
pub use functions::free_functions;
pub use guest::{all, configuration_of, read, Guest, GuestThread};
pub use inside::{GivenTopology, UnknownFact};
pub use memory::{parse_regions, GuestMemory, RamRegion};
pub use monitor::{parse_threads, MonitorThreads, MONITOR_COMMANDS};
pub use threads::{role, ThreadRole};
