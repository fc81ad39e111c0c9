//! Tables `[device.NAME]`: values that override what is found about a device.

use super::table_reader::{Located, TableReader};
use numaio_machine::set::NodeSet;
use numaio_machine::units::parse_size;
use numaio_schema::DeviceOverride;

/// Maximum number of configured threads of a device.
const MAX_THREADS: u32 = 128;

/// Reads all tables, in the order of their lines.
pub fn device_overrides(fields: &mut TableReader<'_, '_>) -> Vec<DeviceOverride> {
    let tables = fields.tables("device").into_iter();
    let mut overrides: Vec<DeviceOverride> = tables.map(|(name, fields)| read(name, fields)).collect();
    overrides.sort_by_key(|table| table.line);
    overrides
}

fn read(name: &str, mut fields: TableReader<'_, '_>) -> DeviceOverride {
    let line = fields.line();
    let is_empty = !FIELDS.iter().any(|field| fields.has(field));
    if name.is_empty() || name.chars().any(char::is_control) {
        fields.error_at(line, "expected the name of a device, HOST:/EXPORT, or a mount point");
    }
    let table = DeviceOverride {
        name: name.to_owned(),
        line,
        kind: value(fields.parsed("kind", str::parse)),
        purpose: value(fields.parsed("purpose", str::parse)),
        read: value(fields.parsed("read", rate)),
        write: value(fields.parsed("write", rate)),
        threads: fields.has("threads").then(|| fields.number("threads", 1..=MAX_THREADS, 1)),
        nodes: value(fields.parsed("nodes", nodes)),
    };
    if is_empty {
        fields.error_at(line, &format!("it sets nothing: expected one of {}", FIELDS.join(", ")));
    }
    fields.end();
    table
}

/// The fields of a table.
const FIELDS: [&str; 6] = ["kind", "purpose", "read", "write", "threads", "nodes"];

fn value<T>(located: Option<Located<T>>) -> Option<T> {
    located.map(|located| located.value)
}

/// Parses bytes per second.
fn rate(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("expected more than 0; remove it to use what was found".to_owned()),
        size => Ok(size),
    }
}

fn nodes(text: &str) -> Result<NodeSet, String> {
    let nodes = NodeSet::parse_list(text).ok().filter(|nodes| !nodes.is_empty());
    nodes.ok_or_else(|| format!("expected a list of nodes such as \"0\" or \"0,2-3\", got {text:?}"))
}
