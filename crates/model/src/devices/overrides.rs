//! Configured values, which override all others.

use super::draft::DeviceDraft;
use numaio_machine::set::{format_nodes, NodeSet};
use numaio_machine::topology::Topology;
use numaio_schema::{DeviceBandwidth, DeviceOverride, OmittedDevice, Sourced, ValueSource};

/// Maximum number of devices that an error lists.
const LISTED: usize = 12;

/// A configured table that does not fit the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverrideError {
    /// Line of the table.
    pub line: usize,
    /// The message.
    pub text: String,
}

/// Applies the overrides, and returns the errors of those that do not fit the machine.
pub(super) fn apply(
    drafts: &mut [DeviceDraft],
    topology: &Topology,
    omitted: &[OmittedDevice],
    file: &str,
    overrides: &[DeviceOverride],
) -> Vec<OverrideError> {
    let mut errors = Vec::new();
    let mut configured: Vec<(usize, &str)> = Vec::new();
    for table in overrides {
        let mut error = |text: String| {
            let text = format!("device {:?}: {text}", table.name);
            errors.push(OverrideError { line: table.line, text });
        };
        let named: Vec<usize> =
            (0..drafts.len()).filter(|index| drafts[*index].has_name(&table.name)).collect();
        let index = match named.as_slice() {
            [] => {
                error(absent(drafts, omitted, &table.name));
                continue;
            }
            [index] => *index,
            several => {
                let names: Vec<&str> = several.iter().map(|index| drafts[*index].name.as_str()).collect();
                error(format!("it names several devices: {}; name one of them", names.join(", ")));
                continue;
            }
        };
        if let Some((_, other)) = configured.iter().find(|(known, _)| *known == index) {
            error(format!("[device.{other:?}] configures the same device"));
            continue;
        }
        configured.push((index, &table.name));
        let present: NodeSet = topology.nodes.iter().map(|node| node.id).collect();
        let missing = table.nodes.as_ref().map(|nodes| nodes.difference(&present)).unwrap_or_default();
        if !missing.is_empty() {
            error(format!("nodes: this machine does not have {}", format_nodes(&missing)));
            continue;
        }
        set(&mut drafts[index], table, file);
    }
    errors
}

/// Describes why no device has a name.
fn absent(drafts: &[DeviceDraft], omitted: &[OmittedDevice], name: &str) -> String {
    if let Some(omitted) = omitted.iter().find(|omitted| omitted.name == name) {
        return format!("it cannot carry transfers: {}", omitted.reason);
    }
    let known: Vec<&str> = drafts.iter().map(|draft| draft.name.as_str()).take(LISTED).collect();
    let others = match drafts.len() - known.len() {
        0 => String::new(),
        others => format!(", {others} others that numaio devices lists"),
    };
    format!(
        "this machine does not have it; expected one of {}{others}, or a mount point of one",
        known.join(", ")
    )
}

/// Sets the configured values of a device.
fn set(draft: &mut DeviceDraft, table: &DeviceOverride, file: &str) {
    let source = || ValueSource::Configuration { file: file.to_owned(), line: table.line };
    if let Some(value) = table.kind {
        draft.kind = Sourced { value, source: source() };
        draft.detail = None;
    }
    if let Some(value) = table.purpose {
        draft.purpose = Some(Sourced { value, source: source() });
    }
    if let Some(value) = &table.nodes {
        draft.nodes = Some(Sourced { value: value.clone(), source: source() });
    }
    if let Some(value) = table.threads {
        draft.threads = Some(Sourced { value, source: source() });
    }
    for (bandwidth, configured) in [(&mut draft.read, table.read), (&mut draft.write, table.write)] {
        if let Some(bytes) = configured {
            *bandwidth = DeviceBandwidth::Known { bytes_per_s: bytes as f64, source: source() };
        }
    }
}
