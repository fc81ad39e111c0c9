//! How to treat a received entry, given the existing object of its name.

use super::case_folding;
use super::compare::{is_alike, stamp};
use super::options::SinkOptions;
use crate::entry::{Content, Inode, Kind};
use crate::name::Name;
use crate::own_files::is_own_file;
use crate::port::{Attributes, Fault, FaultKind, FileInfo, FileKind, NameMatching, Object, Stamp};

/// How to treat an entry that is neither a directory nor a hard link.
pub(super) enum Decision {
    /// Leave the existing object unchanged; `is_newer` if only because it is newer.
    Keep { is_newer: bool },
    /// Set the attributes of an object whose data is the same.
    SetAttributes(Attributes),
    /// Receive the data of a regular file.
    Receive(Content, Attributes),
    /// Create a special file.
    Create(Object, Attributes),
    /// It cannot be created.
    Fail(Fault),
}

/// Rejects names that are reserved for the sink and case-insensitive duplicates.
pub(super) fn check_name(name: &Name, is_duplicate: bool, names: NameMatching) -> Result<(), Fault> {
    match (case_folding::key(names, name).split(|&byte| byte == b'/').any(is_own_file), is_duplicate) {
        (true, _) => Err(Fault::new(FaultKind::Unsupported, "this name is reserved for numaio")),
        (_, true) => Err(Fault::new(
            FaultKind::Exists,
            "it is a case-insensitive duplicate of another name in the source",
        )),
        (false, false) => Ok(()),
    }
}

/// Returns the size and mtime of a new object unless the old one has both: they then show whether
/// the new one exists.
pub(super) fn expected_state(
    to_be: (u64, Option<Stamp>),
    found: Option<&FileInfo>,
) -> Option<(u64, Option<Stamp>)> {
    let had = found.map(|found| (found.metadata.size, Some(found.metadata.mtime)));
    (had != Some(to_be)).then_some(to_be)
}

impl SinkOptions {
    /// Decides on an entry. `equal` reports whether the hashes of both files are equal.
    pub(super) fn decide(&self, inode: &Inode, found: Option<&FileInfo>, equal: bool) -> Decision {
        let attributes = self.attributes(inode, found.map(|found| &found.metadata));
        let same = found.is_some_and(|found| self.is_same(inode, found, equal));
        let is_newer = self.update && is_newer_file(found, inode);
        if self.is_size_excluded(&inode.kind) || is_newer || same && !self.differs(inode, found) {
            return Decision::Keep { is_newer: is_newer && !same };
        }
        if same {
            // Data taken for unchanged must not get a more precise mtime, or later runs would not
            // recognize it as rounded.
            let is_kept = found.is_some_and(|found| self.is_kept(inode, &found.metadata));
            let mtime = attributes.mtime.filter(|_| !is_kept);
            return Decision::SetAttributes(Attributes { mtime, ..attributes });
        }
        match &inode.kind {
            Kind::File(content) => Decision::Receive(content.clone(), attributes),
            kind => match port_object(kind, self.devices) {
                Ok(object) => Decision::Create(object, attributes),
                Err(fault) => Decision::Fail(fault),
            },
        }
    }

    /// Returns whether an object is a regular file that is skipped because of its size.
    pub(super) fn is_size_excluded(&self, kind: &Kind) -> bool {
        matches!(kind, Kind::File(content) if !self.sizes.contains(&content.size()))
    }

    /// Returns whether an object would be created in place of a directory that blocks it.
    pub(super) fn would_create(&self, kind: &Kind) -> bool {
        match kind {
            _ if self.existing.ignore_existing => false,
            Kind::Directory => false,
            Kind::File(_) => !self.is_size_excluded(kind),
            kind => port_object(kind, self.devices).is_ok(),
        }
    }

    /// Returns why an existing object cannot be replaced: it is a directory, or a special file that
    /// the user named as the destination of a file (`numaio copy FILE /dev/null`).
    pub(super) fn blocking_fault(&self, wanted: &Kind, found: &FileInfo) -> Option<Fault> {
        let there = &found.metadata;
        if found.is_link_destination {
            return Some(blocked("this link points to the object that it would replace, or into it"));
        }
        let is_named = self.alias.is_some() && !is_alike(wanted, there.kind);
        let what = match there.kind {
            FileKind::Directory => return Some(self.blocked_by_directory()),
            FileKind::BlockDevice(..) | FileKind::CharacterDevice(..) if is_named => "a device",
            FileKind::Fifo if is_named => "a pipe",
            FileKind::Socket if is_named => "a socket",
            _ => return None,
        };
        Some(blocked(&format!("{what} with this name exists")))
    }

    /// Returns the fault for a directory that blocks another object.
    pub(super) fn blocked_by_directory(&self) -> Fault {
        blocked(match self.delete && self.keeps_excluded() {
            true => "a directory with this name exists, and filter rules may protect its contents",
            false => "a directory with this name exists",
        })
    }
}

/// Returns whether both are regular files and the existing one is newer.
fn is_newer_file(found: Option<&FileInfo>, inode: &Inode) -> bool {
    let is_newer =
        |found: &FileInfo| found.metadata.kind == FileKind::File && found.metadata.mtime > stamp(inode);
    matches!(inode.kind, Kind::File(_)) && found.is_some_and(is_newer)
}

/// Returns the fault for an object that must not be replaced.
fn blocked(text: &str) -> Fault {
    Fault::new(FaultKind::Exists, text)
}

fn port_object(kind: &Kind, devices: bool) -> Result<Object, Fault> {
    Ok(match kind {
        Kind::Symlink(target) => Object::Symlink(target.as_bytes().into()),
        Kind::Fifo => Object::Fifo,
        Kind::CharacterDevice(device) if devices => Object::CharacterDevice(device.major(), device.minor()),
        Kind::BlockDevice(device) if devices => Object::BlockDevice(device.major(), device.minor()),
        Kind::CharacterDevice(_) | Kind::BlockDevice(_) => {
            return Err(Fault::new(FaultKind::Unsupported, "device files are not created here"));
        }
        Kind::File(_) | Kind::Directory => return Err(Fault::new(FaultKind::Other, "not a special file")),
    })
}
