//! A description under construction: threads follow from kind and bandwidth at its end.

use super::threads::device_threads;
use numaio_machine::set::NodeSet;
use numaio_schema::{
    DeviceBandwidth, DeviceDescription, DevicePurpose, Sourced, TransferDeviceKind, ValueSource,
};

/// A description without threads.
#[derive(Debug, Clone)]
pub(super) struct DeviceDraft {
    pub name: String,
    pub aliases: Vec<String>,
    pub kind: Sourced<TransferDeviceKind>,
    pub detail: Option<String>,
    /// `None` for the usual purpose of the kind.
    pub purpose: Option<Sourced<DevicePurpose>>,
    pub nodes: Option<Sourced<NodeSet>>,
    pub read: DeviceBandwidth,
    pub write: DeviceBandwidth,
    /// `None` to derive them.
    pub threads: Option<Sourced<u32>>,
    pub members: Vec<String>,
    pub mounts: Vec<String>,
}

impl DeviceDraft {
    /// Completes the description; `cores` is the number of usable cores of the machine.
    pub fn finish(self, cores: usize) -> DeviceDescription {
        let kind = self.kind.value;
        let usual = || {
            let source = match &self.kind.source {
                ValueSource::Assumed { .. } => ValueSource::Assumed { reason: "by its kind".to_owned() },
                _ => ValueSource::Discovered { by: "its kind".to_owned() },
            };
            Sourced { value: kind.usual_purpose(), source }
        };
        let purpose = self.purpose.clone().unwrap_or_else(usual);
        let threads = |bandwidth: &DeviceBandwidth| {
            let derived = || device_threads(kind, bandwidth.bytes_per_s(), self.members.len(), cores);
            self.threads.clone().unwrap_or_else(derived)
        };
        DeviceDescription {
            purpose,
            read_threads: threads(&self.read),
            write_threads: threads(&self.write),
            name: self.name,
            aliases: self.aliases,
            kind: self.kind,
            detail: self.detail,
            nodes: self.nodes,
            read: self.read,
            write: self.write,
            members: self.members,
            mounts: self.mounts,
        }
    }

    /// Returns whether a text names the device.
    pub fn has_name(&self, text: &str) -> bool {
        let path = if text.len() > 1 { text.trim_end_matches('/') } else { text };
        self.name == text
            || self.aliases.iter().any(|alias| alias == text)
            || self.mounts.iter().any(|mount| mount == path)
    }
}
