//! Command lines of hypervisors.

use super::configuration::{GuestConfiguration, Hypervisor};
use super::{cloud_hypervisor, firecracker, qemu};

/// Maximum number of arguments to parse.
const MAX_ARGUMENTS: usize = 20_000;

/// Parses `/proc/PID/cmdline` (proc_pid_cmdline(5)); `None` if the program is not a hypervisor with
/// a guest.
///
/// `program` is the file of the program, which the first argument may not name.
pub fn parse_command_line(bytes: &[u8], program: Option<&str>) -> Option<GuestConfiguration> {
    let text = String::from_utf8_lossy(bytes);
    let arguments: Vec<&str> = text.split('\0').take(MAX_ARGUMENTS).collect();
    let (first, rest) = arguments.split_first()?;
    let hypervisor = of_program(first).or_else(|| of_program(program?))?;
    match hypervisor {
        Hypervisor::Qemu => qemu::parse(rest),
        Hypervisor::CloudHypervisor => cloud_hypervisor::parse(rest),
        Hypervisor::Firecracker => firecracker::parse(rest),
    }
}

/// Returns the hypervisor of a program, by the name of its file.
fn of_program(path: &str) -> Option<Hypervisor> {
    let name = path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default();
    match name {
        "qemu-kvm" | "kvm" | "qemu" => Some(Hypervisor::Qemu),
        _ if name.starts_with("qemu-system-") => Some(Hypervisor::Qemu),
        _ if name.starts_with("cloud-hypervisor") => Some(Hypervisor::CloudHypervisor),
        _ if name.starts_with("firecracker") => Some(Hypervisor::Firecracker),
        _ => None,
    }
}
