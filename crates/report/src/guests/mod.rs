//! Formats guests, plans of guests, and their configurations.

mod bench_text;
mod configuration_parts;
mod domain_edit;
mod edit;
mod expander_buses;
mod libvirt;
mod list_text;
mod other_forms;
mod plan_text;
mod qemu;
#[cfg(test)]
mod tests;

pub use bench_text::guest_bench_text;
pub use domain_edit::guest_domain_from;
pub use libvirt::guest_domain;
pub use list_text::{guest_text, guests_text};
pub use other_forms::{guest_kubevirt, guest_openstack, guest_proxmox};
pub use plan_text::guest_plan_text;
pub use qemu::guest_qemu;
