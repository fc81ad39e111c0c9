//! Memory that is plugged in and offline (`Documentation/admin-guide/mm/memory-hotplug.rst`,
//! `Documentation/ABI/testing/sysfs-devices-memory`).

use super::files::numbered;
use super::parts::Node;
use crate::finding::{Finding, Severity};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::units::format_size;

/// Rule of the finding.
pub(crate) const RULE: &str = "memory-offline";
/// Directory of memory blocks.
const BLOCKS: &str = "/sys/devices/system/memory";
/// Blocks whose states are always read; a terabyte can have 8,192.
const MAX_ALWAYS_READ: u64 = 256;
/// Part of a node's blocks that can be missing in its total with all blocks online: the page
/// descriptors and what the kernel reserves at boot.
const RESERVED: f64 = 1.0 / 32.0;

/// Reports the offline blocks of a node, which are listed in a directory.
pub(super) fn find(root: &dyn Sysfs, directory: &str, node: &Node) -> Option<Finding> {
    let mut blocks: Vec<u32> =
        root.names(directory).iter().filter_map(|name| numbered(name, "memory")).collect();
    let size = root.optional(&format!("{BLOCKS}/block_size_bytes")).filter(|_| !blocks.is_empty())?;
    let block_bytes = u64::from_str_radix(size.trim_start_matches("0x"), 16).ok()?;
    let plugged = (blocks.len() as u64).checked_mul(block_bytes)?;
    let online = node.memory.map_or(0, |memory| memory.total_bytes);
    let missing = plugged.saturating_sub(online) as f64;
    if blocks.len() as u64 > MAX_ALWAYS_READ && missing <= plugged as f64 * RESERVED {
        return None;
    }
    let is_offline = |block: &u32| {
        root.optional(&format!("{directory}/memory{block}/state")).is_some_and(|state| state == "offline")
    };
    blocks.retain(is_offline);
    blocks.sort_unstable();
    let (first, last) = (*blocks.first()?, *blocks.last()?);
    let command = match (last - first) as usize + 1 == blocks.len() {
        true => format!("chmem --enable --blocks {first}-{last}"),
        false => format!("for state in {directory}/memory*/state; do echo online > $state; done"),
    };
    // Firmware of some machines plugs in more memory than the kernel uses, as on s390.
    let has_only_cpus = node.memory.is_none() && !node.cpus.is_empty();
    Some(Finding::new(
        if has_only_cpus { Severity::Warning } else { Severity::Note },
        RULE,
        format!("node {}", node.id),
        format!(
            "{} of its memory are plugged in and offline: no program can use them.",
            format_size(blocks.len() as u64 * block_bytes)
        ),
        format!(
            "{directory}/memory{first}/state: offline; {} of {} blocks",
            blocks.len(),
            plugged / block_bytes
        ),
        format!("Set it online as root: {command}; for CXL memory: daxctl online-memory all."),
    ))
}

/// Returns whether a node's memory is plugged in and offline.
pub(crate) fn is_reported(findings: &[Finding], node: &Node) -> bool {
    let subject = format!("node {}", node.id);
    findings.iter().any(|finding| finding.rule == RULE && finding.subject == subject)
}
