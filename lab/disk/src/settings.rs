//! What the lab tells the disk, as a JSON file.

use crate::share::Rates;
use serde::Deserialize;
use std::path::PathBuf;

/// A part of the guest's memory: the node of an address, which QEMU does not tell.
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

/// The disk as `lab/run` describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where QEMU connects.
    pub socket: PathBuf,
    /// The file that holds the data; its size is the disk's.
    pub image: PathBuf,
    /// At most 20 bytes are told to the guest (virtio 1.2, section 5.2.6).
    pub serial: String,
    /// Bytes of a logical sector: 512 or 4096.
    pub sector_bytes: u32,
    /// Request queues.
    pub queues: u16,
    /// The guest's memory.
    pub memory: Vec<Memory>,
    /// Rates from the guest to the disk.
    pub write: Rates,
    /// Rates from the disk to the guest.
    pub read: Rates,
    /// From here on every transfer fails.
    pub error_after_bytes: Option<u64>,
    /// From here on every transfer fails, and the lab is told to pull the disk out.
    pub vanish_after_bytes: Option<u64>,
    /// The file whose existence tells it.
    pub vanished: PathBuf,
}

impl Settings {
    /// Reads settings from JSON.
    ///
    /// # Errors
    ///
    /// Says what is wrong with them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        let good = |rate: &f64| rate.is_finite() && *rate > 0.0;
        let nodes = self.write.nodes.len();
        for rates in [&self.write, &self.read] {
            if !rates.nodes.iter().chain([&rates.cap]).all(good) {
                return Err("a rate must be above 0".into());
            }
        }
        if nodes == 0 || self.read.nodes.len() != nodes {
            return Err("as many nodes have read rates as write rates, and at least one".into());
        }
        if let Some(memory) = self.memory.iter().find(|memory| memory.node >= nodes) {
            return Err(format!("no rates for node {}", memory.node));
        }
        if self.memory.iter().any(|memory| memory.start.checked_add(memory.size).is_none()) {
            return Err("memory beyond the last address".into());
        }
        if ![512, 4096].contains(&self.sector_bytes) {
            return Err(format!("sectors of {} bytes; 512 and 4096 are possible", self.sector_bytes));
        }
        if !(1..=64).contains(&self.queues) {
            return Err(format!("{} queues; 1 to 64 are possible", self.queues));
        }
        Ok(())
    }

    /// The part of the guest's memory with this guest-physical address.
    pub fn memory_of(&self, address: u64) -> Option<&Memory> {
        self.memory.iter().find(|memory| address.checked_sub(memory.start).is_some_and(|at| at < memory.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"socket": "s", "image": "i", "serial": "lab0", "sector_bytes": 512, "queues": 2, "vanished": "v",
        "memory": [{"start": 0, "size": 4096, "node": 0}, {"start": 8192, "size": 4096, "node": 1}],
        "write": {"nodes": [1.0, 2.0], "cap": 3.0}, "read": {"nodes": [1.0, 2.0], "cap": 3.0}}"#;

    #[test]
    fn addresses_have_nodes() {
        let settings = Settings::parse(GOOD).expect("good settings");
        let nodes = [0, 4095, 4096, 8192, 12287, 12288]
            .map(|address| settings.memory_of(address).map(|memory| memory.node));
        assert_eq!(nodes, [Some(0), Some(0), None, Some(1), Some(1), None]);
        assert_eq!(settings.vanish_after_bytes, None);
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        let bad = [
            (r#""cap": 3.0"#, r#""cap": 0.0"#, "above 0"),
            (r#""node": 1"#, r#""node": 2"#, "node 2"),
            ("512", "1024", "1024"),
            (r#""queues": 2"#, r#""queues": 0"#, "0 queues"),
            (r#"{"nodes": [1.0, 2.0]"#, r#"{"nodes": [1.0]"#, "as many"),
            (r#""serial""#, r#""cereal""#, "cereal"),
        ];
        for (from, to, says) in bad {
            let error = Settings::parse(&GOOD.replacen(from, to, 1)).expect_err(to);
            assert!(error.contains(says), "{error}");
        }
    }
}
