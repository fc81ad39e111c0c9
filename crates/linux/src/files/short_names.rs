//! Short names (8.3), by which FAT finds files that have long ones. It lists them nowhere: to a transfer they are names of something
//! else (fs/fat/namei_vfat.c, `vfat_create_shortname`).

use super::fault::fault;
use super::filesystem::{is_filesystem, FAT};
use super::resolve::{directory, ResolvedName};
use numaio_machine::port::{Fault, Why};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

/// # Errors
/// [`Why::Exists`] if a name leads to a file that has another one; or the kernel's, if that cannot be told.
pub fn reject_short_name(place: ResolvedName<'_>) -> Result<(), Fault> {
    match is_short(place).map_err(fault("look for it"))? {
        false => Ok(()),
        true => Err(Fault::new(Why::Exists, "here it is the short name of another file")),
    }
}

/// A directory below a root that was `found` by a name: it is another one than is meant if a part of the name is a short one.
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

/// Whether a name leads to a file that has another one.
fn is_short(place: ResolvedName<'_>) -> Result<bool, Errno> {
    Ok(may_be_short(place.name) && is_filesystem(place.directory, &[FAT]) && !is_listed(place)?)
}

/// Up to eight characters of which the last are a tilde and a number, and an extension of up to three. A file whose long name has a short
/// one without that differs from it in case alone, or in what FAT does not list at all.
fn may_be_short(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(without_dots(name));
    let (base, extension) = name.split_once('.').unwrap_or((&name, ""));
    let counted = base.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_counted = counted.len() < base.len() && counted.ends_with('~');
    is_counted && base.chars().count() <= 8 && extension.chars().count() <= 3 && !extension.contains('.')
}

/// FAT finds names without the dots at their end.
fn without_dots(name: &[u8]) -> &[u8] {
    &name[..name.iter().rposition(|&byte| byte != b'.').map_or(0, |last| last + 1)]
}

/// Whether a directory lists a name, in whatever case, or has nothing of it.
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
    fn names_that_fat_makes_are_known() {
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
