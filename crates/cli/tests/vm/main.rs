//! End-to-end tests of `numaio vm`, with QEMU that emulates the CPU where it is installed.

mod forms;
mod libvirt;
mod libvirt_daemon;
mod platform_forms;
mod running;
#[path = "../support/mod.rs"]
mod support;
mod variants;
