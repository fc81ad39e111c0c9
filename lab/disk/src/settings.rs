//! Settings of the disk, a JSON file that `lab/run` writes.

use crate::rates::Rates;
use serde::Deserialize;
use std::path::PathBuf;

/// A range of the guest's memory and its node, which QEMU does not report.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// First guest-physical address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// NUMA node.
    pub node: usize,
}

/// Settings of one disk.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Socket to which QEMU connects.
    pub socket: PathBuf,
    /// File with the data, whose size is that of the disk.
    pub image: PathBuf,
    /// Serial number; the guest gets the first 20 bytes (virtio 1.2, section 5.2.6).
    pub serial: String,
    /// Bytes of a logical sector: 512 or 4096.
    pub sector_bytes: u32,
    /// Number of request queues.
    pub queues: u16,
    /// Ranges of the guest's memory.
    pub memory: Vec<Memory>,
    /// Rates from the guest to the disk.
    pub write: Rates,
    /// Rates from the disk to the guest.
    pub read: Rates,
    /// Requested bytes after which every transfer fails.
    pub error_after_bytes: Option<u64>,
    /// Requested bytes after which every transfer fails and the lab unplugs the disk.
    pub vanish_after_bytes: Option<u64>,
    /// File that requests the unplug by its existence.
    pub vanished: PathBuf,
}

impl Settings {
    /// Parses settings from JSON.
    ///
    /// # Errors
    ///
    /// A message about invalid settings.
    pub fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        let nodes = self.write.nodes.len();
        for rates in [&self.write, &self.read] {
            rates.check()?;
        }
        if nodes == 0 || self.read.nodes.len() != nodes {
            return Err("read and write need the same number of node rates, at least one".into());
        }
        if let Some(memory) = self.memory.iter().find(|memory| memory.node >= nodes) {
            return Err(format!("no rates for node {}", memory.node));
        }
        if self.memory.iter().any(|memory| memory.start.checked_add(memory.size).is_none()) {
            return Err("memory range exceeds the address space".into());
        }
        if ![512, 4096].contains(&self.sector_bytes) {
            return Err(format!("invalid sector_bytes {}: expected 512 or 4096", self.sector_bytes));
        }
        if !(1..=64).contains(&self.queues) {
            return Err(format!("invalid queues {}: expected 1 to 64", self.queues));
        }
        Ok(())
    }

    /// Returns the memory range that contains a guest-physical address.
    pub fn memory_of(&self, address: u64) -> Option<&Memory> {
        self.memory.iter().find(|memory| address.checked_sub(memory.start).is_some_and(|at| at < memory.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = r#"{"socket": "s", "image": "i", "serial": "lab0", "sector_bytes": 512, "queues": 2, "vanished": "v",
        "memory": [{"start": 0, "size": 4096, "node": 0}, {"start": 8192, "size": 4096, "node": 1}],
        "write": {"nodes": [1.0, 2.0], "cap": 3.0}, "read": {"nodes": [1.0, 2.0], "cap": 3.0}}"#;

    #[test]
    fn addresses_map_to_nodes() {
        let settings = Settings::parse(VALID).expect("valid settings");
        let nodes = [0, 4095, 4096, 8192, 12287, 12288]
            .map(|address| settings.memory_of(address).map(|memory| memory.node));
        assert_eq!(nodes, [Some(0), Some(0), None, Some(1), Some(1), None]);
        assert_eq!(settings.vanish_after_bytes, None);
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let invalid = [
            (r#""cap": 3.0"#, r#""cap": 0.0"#, "above 0"),
            (r#""node": 1"#, r#""node": 2"#, "node 2"),
            ("512", "1024", "1024"),
            (r#""queues": 2"#, r#""queues": 0"#, "queues 0"),
            (r#"{"nodes": [1.0, 2.0]"#, r#"{"nodes": [1.0]"#, "same number"),
            (r#""serial""#, r#""cereal""#, "cereal"),
            (r#""cap": 3.0}"#, r#""cap": 3.0, "stalls": 0.9}"#, "stalls"),
            (r#""cap": 3.0}"#, r#""cap": 3.0, "sharing": {"rule": "turns"}}"#, "turns"),
            (
                r#""cap": 3.0}"#,
                r#""cap": 3.0, "sharing": {"rule": "shared-link", "nodes": [2], "bytes_per_s": 1}}"#,
                "shared-link",
            ),
            (
                r#""cap": 3.0}"#,
                r#""cap": 3.0, "sharing": {"rule": "copies", "bytes_per_s": 1, "copies": [1]}}"#,
                "copies",
            ),
        ];
        for (from, to, message) in invalid {
            let error = Settings::parse(&VALID.replacen(from, to, 1)).expect_err(to);
            assert!(error.contains(message), "{error}");
        }
    }
}
