//! Roles of the threads of a hypervisor, by their names.

use super::configuration::Hypervisor;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The role of a thread of a guest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum ThreadRole {
    /// Runs a virtual CPU.
    Vcpu {
        /// Its number.
        number: u32,
    },
    /// Runs all virtual CPUs in turn, as QEMU without KVM can.
    AllVcpus,
    /// Serves disks or network queues.
    Io {
        /// Name of the I/O thread or queue.
        io_thread: String,
    },
    /// Moves packets in the kernel (vhost).
    Vhost,
    /// Everything else of the hypervisor.
    Emulator,
}

impl ThreadRole {
    /// Returns whether the thread runs virtual CPUs.
    pub fn is_vcpu(&self) -> bool {
        matches!(self, Self::Vcpu { .. } | Self::AllVcpus)
    }
}

impl fmt::Display for ThreadRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vcpu { number } => write!(f, "vCPU {number}"),
            Self::AllVcpus => f.write_str("all vCPUs"),
            Self::Io { io_thread } => write!(f, "I/O {io_thread}"),
            Self::Vhost => f.write_str("vhost"),
            Self::Emulator => f.write_str("emulator"),
        }
    }
}

/// Returns the role of a thread by its name, of which the kernel keeps 15 bytes.
///
/// QEMU names its threads only with `-name ...,debug-threads=on`, which libvirt passes; without,
/// every thread looks like the emulator.
pub fn role(hypervisor: Hypervisor, name: &str) -> ThreadRole {
    if name.starts_with("vhost-") {
        return ThreadRole::Vhost;
    }
    let found = match hypervisor {
        Hypervisor::Qemu => qemu(name),
        Hypervisor::CloudHypervisor => cloud_hypervisor(name),
        Hypervisor::Firecracker => {
            name.strip_prefix("fc_vcpu ").and_then(number).map(|number| ThreadRole::Vcpu { number })
        }
    };
    found.unwrap_or(ThreadRole::Emulator)
}

/// `CPU 3/KVM`, `CPU 3/TCG`, `ALL CPUs/TCG`, `IO iothread1` (QEMU, `accel/` and `iothread.c`).
fn qemu(name: &str) -> Option<ThreadRole> {
    if name.starts_with("ALL CPUs/") {
        return Some(ThreadRole::AllVcpus);
    }
    if let Some(rest) = name.strip_prefix("CPU ") {
        let digits = rest.split('/').next()?;
        return number(digits).map(|number| ThreadRole::Vcpu { number });
    }
    let io = name.strip_prefix("IO ")?;
    // It serves the monitor, not the guest's I/O.
    (io != "mon_iothread").then(|| ThreadRole::Io { io_thread: io.to_owned() })
}

/// `vcpu3`, `_disk0_q0`, `_net1_qp0` (Cloud Hypervisor, `vmm/src/cpu.rs` and `virtio-devices`).
fn cloud_hypervisor(name: &str) -> Option<ThreadRole> {
    if let Some(number) = name.strip_prefix("vcpu").and_then(number) {
        return Some(ThreadRole::Vcpu { number });
    }
    let is_io = ["_disk", "_net", "_fs", "_pmem"].iter().any(|kind| name.starts_with(kind));
    is_io.then(|| ThreadRole::Io { io_thread: name.trim_start_matches('_').to_owned() })
}

/// Parses decimal digits only.
fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_thread_names_of_each_hypervisor() {
        use Hypervisor::{CloudHypervisor, Firecracker, Qemu};
        let io = |name: &str| ThreadRole::Io { io_thread: name.into() };
        let vcpu = |number| ThreadRole::Vcpu { number };
        for (hypervisor, name, wanted) in [
            (Qemu, "CPU 0/KVM", vcpu(0)),
            (Qemu, "CPU 127/TCG", vcpu(127)),
            (Qemu, "ALL CPUs/TCG", ThreadRole::AllVcpus),
            (Qemu, "IO iothread1", io("iothread1")),
            (Qemu, "IO mon_iothread", ThreadRole::Emulator),
            (Qemu, "qemu-system-x86", ThreadRole::Emulator),
            (Qemu, "CPU +1/KVM", ThreadRole::Emulator),
            (Qemu, "CPU 99999999999", ThreadRole::Emulator),
            (Qemu, "vhost-4711", ThreadRole::Vhost),
            (Qemu, "vcpu0", ThreadRole::Emulator),
            (CloudHypervisor, "vcpu12", vcpu(12)),
            (CloudHypervisor, "_disk0_q1", io("disk0_q1")),
            (CloudHypervisor, "_net1_qp0", io("net1_qp0")),
            (CloudHypervisor, "vmm", ThreadRole::Emulator),
            (Firecracker, "fc_vcpu 3", vcpu(3)),
            (Firecracker, "fc_api", ThreadRole::Emulator),
        ] {
            assert_eq!(role(hypervisor, name), wanted, "{name}");
        }
    }
}
