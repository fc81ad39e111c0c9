//! Members of device mapper devices (`Documentation/ABI/testing/sysfs-block-dm`).
//!
//! sysfs has the devices of a mapping and not its table, so only a mapping of one device, and the
//! reserved names of LVM (lvm(8)) decide which device carries data.

use super::members::{Division, Member, Members};
use super::paths;
use crate::sysfs::{Sysfs, SysfsExt};

/// Suffixes of LVM's reserved names for metadata; digits can follow.
const METADATA: [&str; 7] = ["_tmeta", "_cmeta", "_rmeta", "_mlog", "_imeta", "_pmspare", "_lvmlock"];

/// Returns the members of a mapping, `slaves` of the block device at `path`; `None` if it is none.
pub(super) fn members(root: &dyn Sysfs, path: &str, slaves: &[String]) -> Option<Members> {
    let name = root.optional(&format!("{path}/dm/name")).filter(|name| !name.is_empty())?;
    let uuid = root.optional(&format!("{path}/dm/uuid")).unwrap_or_default();
    let kind = kind(&uuid);
    let idle = |slave: &String| {
        let below = format!("{path}/slaves/{slave}");
        match kind {
            "multipath" => paths::idle_disk(root, &below),
            _ => is_metadata(root, &below).then(|| "metadata".to_owned()),
        }
    };
    let members = slaves.iter().map(|slave| Member { name: slave.clone(), idle: idle(slave) }).collect();
    let division = Division::Unpromised(match kind {
        "multipath" => "its path groups and selector are not in sysfs (multipath -ll lists them)",
        _ => "its table is not in sysfs (dmsetup table lists it)",
    });
    Some(Members { members, division, kind: format!("{kind} {name}") })
}

/// Returns the kind of a mapping by the prefix of its UUID.
fn kind(uuid: &str) -> &'static str {
    let mut parts = uuid.split('-');
    match (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) {
        ("LVM", _) => "logical volume",
        ("CRYPT", "VERITY") => "verity",
        ("CRYPT", "INTEGRITY") => "integrity",
        ("CRYPT", _) => "encrypted",
        ("mpath", _) => "multipath",
        (part, _) if part.starts_with("part") => "partition",
        _ => "mapped",
    }
}

/// Returns whether a logical volume holds metadata of the one above it.
fn is_metadata(root: &dyn Sysfs, path: &str) -> bool {
    let text = |file: &str| root.optional(&format!("{path}/dm/{file}")).unwrap_or_default();
    let name = text("name");
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    text("uuid").starts_with("LVM-") && METADATA.iter().any(|suffix| name.ends_with(suffix))
}
