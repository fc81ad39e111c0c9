//! Short (8.3) names, by which FAT also finds files with long names but does not list them: a
//! transfer would mistake them for other files (fs/fat/namei_vfat.c, `vfat_create_shortname`).

use super::beneath::directory;
use super::resolved_name::ResolvedName;
use crate::files::fault::fault;
use crate::files::filesystem::{is_filesystem, FAT};
use numaio_mover::port::{Fault, FaultKind};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

/// Rejects a name that is the short name of a file with a long one.
///
/// # Errors
/// [`FaultKind::Exists`] for such a name; other faults if it cannot be determined.
pub fn reject_short_name(place: ResolvedName<'_>) -> Result<(), Fault> {
    match is_short(place).map_err(fault("look up"))? {
        false => Ok(()),
        true => Err(Fault::new(FaultKind::Exists, "name is the short name of another file")),
    }
}

/// Rejects a directory that was `found` by a path with a short name, since another one is meant.
pub fn reject_short_path(root: BorrowedFd<'_>, name: &[u8], found: OwnedFd) -> Result<OwnedFd, Errno> {
    let mut start = 0;
    for part in name.split(|&byte| byte == b'/') {
        if may_be_short(part) {
            let above = match start {
                0 => None,
                start => Some(directory(root, &name[..start - 1])?),
            };
            if is_short(ResolvedName { directory: above.as_ref().map_or(root, AsFd::as_fd), name: part })? {
                return Err(Errno::EXIST);
            }
        }
        start += part.len() + 1;
    }
    Ok(found)
}

/// Returns whether a name is the short name of a file with a long one.
fn is_short(place: ResolvedName<'_>) -> Result<bool, Errno> {
    Ok(may_be_short(place.name) && is_filesystem(place.directory, &[FAT]) && !is_listed(place)?)
}

/// Returns whether a name has the form of a short one: up to eight characters ending with a tilde
/// and a number, and an extension of up to three. Short names without these differ from the long
/// name only in case, or in characters that FAT does not list.
fn may_be_short(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(without_dots(name));
    let (base, extension) = name.split_once('.').unwrap_or((&name, ""));
    let counted = base.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_counted = counted.len() < base.len() && counted.ends_with('~');
    is_counted && base.chars().count() <= 8 && extension.chars().count() <= 3 && !extension.contains('.')
}

/// Removes trailing dots, which FAT ignores.
fn without_dots(name: &[u8]) -> &[u8] {
    &name[..name.iter().rposition(|&byte| byte != b'.').map_or(0, |last| last + 1)]
}

/// Returns whether a directory lists a name, ignoring case, or the name does not exist.
fn is_listed(place: ResolvedName<'_>) -> Result<bool, Errno> {
    match rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(true),
        found => found?,
    };
    let directory =
        ResolvedName { name: b".", ..place }.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    let folded = |name: &[u8]| String::from_utf8_lossy(name).to_lowercase();
    let wanted = folded(without_dots(place.name));
    for entry in Dir::new(directory)? {
        if folded(entry?.file_name().to_bytes()) == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_recognized_by_form() {
        for short in [
            "LONGFI~1.TXT",
            "longd~12",
            "A~1",
            "a1f2c~1.h",
            "\u{c4}\u{d6}\u{dc}~1.txt",
            "~1",
            "A~1.TXT.",
            "A~1..",
        ] {
            assert!(may_be_short(short.as_bytes()), "{short}");
        }
        for long in
            ["longfile~1.txt", "longdi~12", "a~", "a~b", "~", "a1", "a~1.text", "a~1.b.c", "file.txt~1", ""]
        {
            assert!(!may_be_short(long.as_bytes()), "{long}");
        }
    }
}
