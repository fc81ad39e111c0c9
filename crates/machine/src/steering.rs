//! CPUs that serve a device: interrupt affinity, and packet steering by RPS, RFS and XPS
//! (`Documentation/core-api/irq/irq-affinity.rst`, `Documentation/networking/scaling.rst`,
//! `Documentation/ABI/testing/sysfs-class-net-queues`).

use crate::control::Change;
use crate::devices::{Device, Irq, NameClass};
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Maximum number of queues to read per interface and direction.
const MAX_QUEUES: usize = 4096;

/// Maximum length of an interface name in bytes (`IFNAMSIZ`, without the NUL).
const MAX_NAME_BYTES: usize = 15;

/// File with the number of flows that the machine tracks for receive flow steering.
const SOCK_FLOW_ENTRIES: &str = "/proc/sys/net/core/rps_sock_flow_entries";

/// Words before a queue number in interrupt names of drivers.
///
/// `rxtx` is used by vmxnet3, nfp and nicvf; `rxq` and `txq` by hinic; `blk` and `block` by gVNIC,
/// whose notify blocks serve a queue each.
const QUEUE_WORDS: [&str; 16] = [
    "tx", "rx", "txrx", "rxtx", "rxq", "txq", "comp", "input", "output", "req", "request", "fp", "queue",
    "q", "blk", "block",
];

/// Queues of a network interface and their steering settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NetQueues {
    /// The interface.
    pub interface: String,
    /// Receive queues, ascending.
    pub receive: Vec<ReceiveQueue>,
    /// Transmit queues, ascending.
    pub transmit: Vec<TransmitQueue>,
    /// Receive queue of each entry of the indirection table (RSS), which no file has; `None`
    /// without one, or if it was not queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_table: Option<Vec<u32>>,
}

/// A receive queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ReceiveQueue {
    /// Queue number.
    pub queue: u32,
    /// CPUs of RPS, empty if disabled; `None` if the kernel does not support it.
    pub rps_cpus: Option<CpuSet>,
    /// Flows of RFS, 0 if disabled; `None` if the kernel does not support it.
    pub flows: Option<u32>,
}

/// A transmit queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TransmitQueue {
    /// Queue number.
    pub queue: u32,
    /// CPUs of XPS, empty if disabled; `None` if the kernel does not support it, or with a single
    /// queue.
    pub xps_cpus: Option<CpuSet>,
}

/// Reads the queues of a device's network interfaces.
pub fn queues(root: &dyn Sysfs, device: &Device) -> Vec<NetQueues> {
    let is_net = |name: &&String| match device.name_classes.get(*name) {
        Some(class) => *class == NameClass::Net,
        None => folder(name).is_some_and(|folder| root.exists(&folder)),
    };
    device.names.iter().filter(is_net).filter_map(|name| interface(root, name)).collect()
}

fn interface(root: &dyn Sysfs, name: &str) -> Option<NetQueues> {
    let folder = folder(name)?;
    let names = root.list(&folder).ok()?;
    let numbers = |prefix: &str| {
        let number = |name: &String| name.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<u32> = names.iter().filter_map(number).take(MAX_QUEUES).collect();
        numbers.sort_unstable();
        numbers
    };
    let mask = |path: String| CpuSet::parse_mask(&root.optional(&path)?).ok();
    let receive = numbers("rx-").into_iter().map(|queue| ReceiveQueue {
        queue,
        rps_cpus: mask(format!("{folder}/rx-{queue}/rps_cpus")),
        flows: root.value(&format!("{folder}/rx-{queue}/rps_flow_cnt")).ok(),
    });
    let transmit = numbers("tx-")
        .into_iter()
        .map(|queue| TransmitQueue { queue, xps_cpus: mask(format!("{folder}/tx-{queue}/xps_cpus")) });
    Some(NetQueues {
        interface: name.to_owned(),
        receive: receive.collect(),
        transmit: transmit.collect(),
        receive_table: None,
    })
}

/// Reads the number of flows that the machine tracks; `None` without receive flow steering.
pub fn sock_flow_entries(root: &dyn Sysfs) -> Option<u32> {
    root.value(SOCK_FLOW_ENTRIES).ok()
}

/// Returns the queue of an interrupt by its name: `eth0-TxRx-3`, `virtio1-input.0`,
/// `mlx5_comp7@pci:0000:3b:00.0`, `nvme0q4`.
///
/// `None` for interrupts of the complete device: `nvme0q0` (the admin queue), `virtio1-config`,
/// `mlx5_async0@pci:...`.
pub fn queue_of(name: &str) -> Option<u32> {
    // For a shared interrupt the first name counts.
    let name = name.split([',', '@']).next()?.trim();
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let queue: u32 = name[stem.len()..].parse().ok()?;
    let word = stem.trim_end_matches(['-', '.', '_', ':']);
    let word = word.rsplit(['-', '.', '_', ':']).next()?.to_ascii_lowercase();
    match word.strip_prefix("nvme").and_then(|rest| rest.strip_suffix('q')) {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(queue).filter(|queue| *queue > 0)
        }
        _ => QUEUE_WORDS.contains(&word.as_str()).then_some(queue),
    }
}

/// Returns the queue as [`queue_of`] does, for an interrupt of a device with these names.
///
/// Some drivers name it by interface and number only (`enp1s0f0-3`: sfc, atlantic).
pub fn queue_of_device(name: &str, device: &[String]) -> Option<u32> {
    queue_of(name).or_else(|| {
        let (interface, queue) = name.split([',', '@']).next()?.trim().rsplit_once('-')?;
        let is_number = !queue.is_empty() && queue.bytes().all(|byte| byte.is_ascii_digit());
        let is_its = is_number && device.iter().any(|name| name == interface);
        is_its.then(|| queue.parse().ok()).flatten()
    })
}

/// Returns why an interrupt cannot be moved; `None` if it probably can.
///
/// The kernel marks managed interrupts only in debugfs (`kernel/irq/debugfs.c`). Without access to
/// it, the driver decides: NVMe queues, virtio disks and virtio SCSI always use managed interrupts.
/// An interrupt without a handler, such as of an interface that is down, has no affinity.
pub fn unmovable_reason(root: &dyn Sysfs, irq: &Irq) -> Option<String> {
    if irq.affinity.is_empty() {
        return Some("not in use".to_owned());
    }
    if let Some(text) = root.optional(&format!("/sys/kernel/debug/irq/irqs/{}", irq.number)) {
        return text.contains("IRQD_AFFINITY_MANAGED").then(|| "managed".to_owned());
    }
    is_managed_by_driver(&irq.name).then(|| "managed, as its driver always asks".to_owned())
}

/// Returns whether the name is that of an interrupt whose driver always requests a managed one.
pub fn is_managed_by_driver(name: &str) -> bool {
    let Some(queue) = queue_of(name) else { return false };
    let digits = |text: &str, before: &str, after: &str| {
        let digits =
            text.strip_prefix(before).and_then(|rest| rest.split_once(after)).map(|(number, _)| number);
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    digits(name, "nvme", &format!("q{queue}"))
        || digits(name, "virtio", "-req.")
        || digits(name, "virtio", "-request")
}

/// Returns the file of a setting and the text to write; `None` for other changes and invalid
/// interfaces.
pub fn setting_file(change: &Change) -> Option<(String, String)> {
    Some(match change {
        Change::IrqAffinity { irq, cpus } => (format!("/proc/irq/{irq}/smp_affinity_list"), cpus.to_string()),
        Change::RpsCpus { interface, queue, cpus } => {
            (format!("{}/rx-{queue}/rps_cpus", folder(interface)?), mask(cpus))
        }
        Change::RpsFlows { interface, queue, flows } => {
            (format!("{}/rx-{queue}/rps_flow_cnt", folder(interface)?), flows.to_string())
        }
        Change::XpsCpus { interface, queue, cpus } => {
            (format!("{}/tx-{queue}/xps_cpus", folder(interface)?), mask(cpus))
        }
        Change::SockFlowEntries { entries } => (SOCK_FLOW_ENTRIES.to_owned(), entries.to_string()),
        _ => return None,
    })
}

/// Parses the content of a setting's file into the same kind of change.
pub fn parse_setting(change: &Change, text: &str) -> Option<Change> {
    let mut read = change.clone();
    match &mut read {
        Change::IrqAffinity { cpus, .. } => *cpus = CpuSet::parse_list(text).ok()?,
        Change::RpsCpus { cpus, .. } | Change::XpsCpus { cpus, .. } => {
            *cpus = CpuSet::parse_mask(text).ok()?;
        }
        Change::RpsFlows { flows: number, .. } | Change::SockFlowEntries { entries: number } => {
            *number = text.parse().ok()?;
        }
        _ => return None,
    }
    Some(read)
}

/// Returns the queue directory of an interface.
///
/// A receipt on disk can contain any name: invalid interface names (`dev_valid_name` in the kernel)
/// are rejected.
fn folder(interface: &str) -> Option<String> {
    let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    let valid = (1..=MAX_NAME_BYTES).contains(&interface.len())
        && !matches!(interface, "." | "..")
        && !interface.contains(bad);
    valid.then(|| format!("/sys/class/net/{interface}/queues"))
}

/// Formats the mask format: 32-bit words in hexadecimal, most significant first.
fn mask(cpus: &CpuSet) -> String {
    let words = cpus.iter().next_back().map_or(1, |last| last.0 / 32 + 1);
    let mut bits = vec![0u32; words as usize];
    for cpu in cpus.iter() {
        bits[(cpu.0 / 32) as usize] |= 1 << (cpu.0 % 32);
    }
    let mut text = String::new();
    for (index, word) in bits.iter().rev().enumerate() {
        let _ = write!(text, "{}{word:08x}", if index == 0 { "" } else { "," });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse_list(list).expect("a list")
    }

    #[test]
    fn parses_queues_from_names() {
        let queues = [
            ("eth0-TxRx-3", Some(3)),
            ("i40e-eth0-TxRx-12", Some(12)),
            ("eth0-rx-0", Some(0)),
            ("ens192-rxtx-0", Some(0)),
            ("gve-ntfy-blk5@pci:0000:00:03.0", Some(5)),
            ("gve-mgmnt@pci:0000:00:03.0", None),
            ("eth0-ntfy-block.2", Some(2)),
            ("eth0_rxq3", Some(3)),
            ("eth0_txq4", Some(4)),
            ("enp1s0f0-0", None),
            ("virtio1-input.0", Some(0)),
            ("virtio1-req.7", Some(7)),
            ("virtio0-request", None),
            ("mlx5_comp7@pci:0000:3b:00.0", Some(7)),
            ("mlx5_async0@pci:0000:3b:00.0", None),
            ("nvme0q4", Some(4)),
            ("nvme0q0", None),
            ("nvme0q0, nvme0q1", None),
            ("virtio1-config", None),
            ("eth0", None),
            ("", None),
            ("99999999999", None),
            ("ahci[0000:00:1f.2]", None),
        ];
        for (name, queue) in queues {
            assert_eq!(queue_of(name), queue, "{name}");
        }
    }

    #[test]
    fn parses_queues_of_interfaces_of_the_device() {
        let device = ["enp1s0f0".to_owned(), "enp1s0f1".to_owned()];
        let queues = [
            ("enp1s0f0-0", Some(0)),
            ("enp1s0f1-12", Some(12)),
            ("enp1s0f1-rx-3", Some(3)),
            ("enp1s0f0", None),
            ("enp1s0f0-", None),
            ("enp1s0f0-+1", None),
            ("enp1s0f0-ptp", None),
            ("enp2s0-0", None),
        ];
        for (name, queue) in queues {
            assert_eq!(queue_of_device(name, &device), queue, "{name}");
        }
    }

    #[test]
    fn finds_managed_interrupts_by_debugfs_or_name() {
        let managed = ["nvme0q1", "nvme12q33", "virtio3-req.0"];
        let movable = ["nvme0q0", "nvme0q0, nvme0q1", "eth0-rx-1", "virtio1-input.0", "xnvme0q1"];
        managed.iter().for_each(|name| assert!(is_managed_by_driver(name), "{name}"));
        movable.iter().for_each(|name| assert!(!is_managed_by_driver(name), "{name}"));
        let irq = |name: &str, list: &str| Irq {
            number: 70,
            name: name.into(),
            affinity: cpus(list),
            effective: None,
        };
        let mut tree = Tree::new();
        assert!(unmovable_reason(&tree, &irq("nvme0q1", "0")).is_some());
        assert!(unmovable_reason(&tree, &irq("eth0-rx-1", "")).is_some());
        tree.file("/sys/kernel/debug/irq/irqs/70", "handler:  handle_edge_irq\ndstate:   0x1\n");
        assert_eq!(unmovable_reason(&tree, &irq("nvme0q1", "0")), None);
        tree.file("/sys/kernel/debug/irq/irqs/70", "dstate:   0x1\n            IRQD_AFFINITY_MANAGED\n");
        assert!(unmovable_reason(&tree, &irq("eth0-rx-1", "0")).is_some());
    }

    #[test]
    fn settings_round_trip() {
        let (interface, queue) = ("eth0".to_owned(), 3);
        let changes = [
            (Change::IrqAffinity { irq: 7, cpus: cpus("0-3,40") }, "0-3,40"),
            (
                Change::RpsCpus { interface: interface.clone(), queue, cpus: cpus("0,33") },
                "00000002,00000001",
            ),
            (Change::XpsCpus { interface: interface.clone(), queue, cpus: CpuSet::new() }, "00000000"),
            (Change::RpsFlows { interface, queue, flows: 4096 }, "4096"),
            (Change::SockFlowEntries { entries: 32768 }, "32768"),
        ];
        for (change, text) in changes {
            let (path, written) = setting_file(&change).expect("a setting");
            assert_eq!(written, text, "{path}");
            assert_eq!(parse_setting(&change, text), Some(change.clone()));
            assert_eq!(parse_setting(&change, "x"), None);
        }
    }

    #[test]
    fn rejects_names_that_leave_the_directory() {
        for interface in ["", ".", "..", "../x", "a/b", "a b", "sixteen-bytes-ab", "a\n"] {
            let change = Change::RpsFlows { interface: interface.into(), queue: 0, flows: 0 };
            assert_eq!(setting_file(&change), None, "{interface:?}");
        }
    }
}
