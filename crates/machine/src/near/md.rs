//! Members of software RAID: their states, and how each level divides I/O
//! (`Documentation/admin-guide/md.rst`, `drivers/md/md.c`: `state_show`, `slot_show`).

use super::members::{Division, Member, Members};
use crate::sysfs::{Sysfs, SysfsExt};

/// Layouts of RAID 5 and 6 that rotate parity over all members (`drivers/md/raid5.h`).
const ROTATING: [&str; 7] = ["0", "1", "2", "3", "8", "9", "10"];
/// Sizes of members within this part of the largest are equal.
const SAME_SIZE: f64 = 0.01;

/// Role of a member in its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It has its data.
    InSync,
    /// It has failed, or waits for a failure; the state's word.
    Unused(&'static str),
    /// It gets data that other members have: a rebuilt spare, a replacement, a write journal.
    Changing,
}

/// Returns the members of an array, `slaves` of the block device at `path`; `None` if it is none.
pub(super) fn members(root: &dyn Sysfs, path: &str, slaves: &[String]) -> Option<Members> {
    let text = |file: &str| root.optional(&format!("{path}/md/{file}"));
    let level = text("level").filter(|level| !level.is_empty())?;
    let roles: Vec<Role> = slaves.iter().map(|name| role(root, &format!("{path}/md/dev-{name}"))).collect();
    let idle = |role: &Role| match role {
        Role::Unused(state) => Some((*state).to_owned()),
        Role::InSync | Role::Changing => None,
    };
    let members: Vec<Member> = slaves
        .iter()
        .zip(&roles)
        .map(|(name, role)| Member { name: name.clone(), idle: idle(role) })
        .collect();
    let division = match level.as_str() {
        _ if roles.contains(&Role::Changing) => {
            Division::Unpromised("a member is rebuilt or replaced, or is a write journal")
        }
        "raid0" if has_equal_sizes(root, path, &members) => Division::Even,
        "raid0" => Division::Unpromised("the members differ in size, and only the larger ones hold the end"),
        "raid5" | "raid6" if text("layout").is_none_or(|layout| ROTATING.contains(&layout.as_str())) => {
            Division::Even
        }
        "raid4" | "raid5" | "raid6" => Division::Unpromised("a member holds parity only, which reads skip"),
        "raid1" | "raid10" => {
            Division::Unpromised("a read uses the nearest or least busy copy, and a write all copies")
        }
        "linear" => Division::Unpromised("each address is on one member"),
        _ => Division::Unpromised("the kernel does not document how this level divides I/O"),
    };
    Some(Members { members, division, kind: level })
}

/// Reads the role of a member; without a state it counts as one with its data.
fn role(root: &dyn Sysfs, directory: &str) -> Role {
    let state = root.optional(&format!("{directory}/state")).unwrap_or_default();
    let has = |word: &str| state.split([',', ' ']).any(|known| known.trim() == word);
    let slot = root.optional(&format!("{directory}/slot")).unwrap_or_default();
    match () {
        () if has("faulty") => Role::Unused("faulty"),
        () if has("journal") || has("replacement") => Role::Changing,
        // A spare with a slot is being rebuilt.
        () if has("spare") && slot.parse::<u32>().is_ok() => Role::Changing,
        () if has("spare") => Role::Unused("spare"),
        () => Role::InSync,
    }
}

/// Returns whether the members that carry I/O are of equal size, as far as it is known: RAID 0 uses
/// all of each (`drivers/md/raid0.c`: `create_strip_zones`).
fn has_equal_sizes(root: &dyn Sysfs, path: &str, members: &[Member]) -> bool {
    let size = |member: &Member| root.value::<u64>(&format!("{path}/md/dev-{}/size", member.name)).ok();
    let own = |member: &Member| root.value::<u64>(&format!("{path}/slaves/{}/size", member.name)).ok();
    let carrying = members.iter().filter(|member| member.idle.is_none());
    let sizes: Vec<u64> = carrying.filter_map(|member| size(member).or_else(|| own(member))).collect();
    let (least, most) = (sizes.iter().min().copied(), sizes.iter().max().copied());
    let differ = least.zip(most).map_or(0, |(least, most)| most - least);
    differ as f64 <= most.unwrap_or(0) as f64 * SAME_SIZE
}
