//! Comparison of existing objects with received entries, as far as the options ask for it.

use super::options::SinkOptions;
use crate::entry::{Inode, Kind};
use crate::port::{
    is_root_only_xattr, is_security_label, Attributes, FileInfo, FileKind, FileStat, NameMatching, Stamp,
    Xattr,
};

/// Mode bits (inode(7)).
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const SET_ID: u32 = SET_USER_ID | SET_GROUP_ID;

impl SinkOptions {
    /// Returns the attributes to set on an object.
    pub(super) fn attributes(&self, inode: &Inode, there: Option<&FileStat>) -> Attributes {
        let keep = self.preserve;
        let bits = self.bits(inode);
        let (mode, masked) = match there {
            _ if keep.modes => (bits, false),
            // An object of another kind is replaced, and the mode of a symbolic link has no
            // meaning.
            Some(metadata) if is_alike(&inode.kind, metadata.kind) => (metadata.mode, false),
            _ => (bits & 0o777, true),
        };
        Attributes {
            mode: Some(mode),
            masked,
            mtime: keep.time_of(&inode.kind).then(|| stamp(inode)),
            user: keep.users.then(|| inode.user.id()),
            group: keep.groups.then(|| inode.group.id()),
            xattrs: self.xattrs(inode),
        }
    }

    /// Returns the mode that an object may have here. A set-ID program runs with the rights of its
    /// owner or group: unless these are the source's, the bits would give away the rights of the
    /// copier.
    pub(super) fn bits(&self, inode: &Inode) -> u32 {
        let (bits, keep, own) = (inode.mode.bits(), self.preserve, &self.writer);
        if own.for_others {
            return bits & !SET_ID;
        }
        // On directories these bits affect new entries, and run nothing.
        if keep.users || matches!(inode.kind, Kind::Directory) {
            return bits;
        }
        let of_user = if inode.user.id() == own.user { SET_USER_ID } else { 0 };
        let may_group = keep.groups && own.groups.contains(&inode.group.id());
        let of_group = if may_group { SET_GROUP_ID } else { 0 };
        bits & (!SET_ID | of_user | of_group)
    }

    /// Returns the extended attributes to set, if they are preserved.
    pub(super) fn xattrs(&self, inode: &Inode) -> Option<Vec<Xattr>> {
        let all = || self.settable(inode).map(|(name, value)| (name.into(), value.into())).collect();
        self.preserve.xattrs.then(all)
    }

    /// Iterates over the extended attributes that this user may set.
    pub(super) fn settable<'a>(&self, inode: &'a Inode) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        // Capabilities would give a program rights of the copier, as set-ID bits do.
        let is_root = self.writer.user == 0 && !self.writer.for_others;
        inode.xattrs.iter().filter(move |(name, _)| is_root || !is_root_only_xattr(name))
    }

    /// Returns whether an existing object has the same content, by size and mtime, or by `equal`
    /// hashes.
    pub(super) fn is_same(&self, inode: &Inode, found: &FileInfo, equal: bool) -> bool {
        let metadata = &found.metadata;
        match &inode.kind {
            Kind::File(content) => {
                let same = match self.checksum {
                    true => equal || metadata.size == 0,
                    false => self.is_kept(inode, metadata) && !self.ignore_times,
                };
                metadata.kind == FileKind::File && metadata.size == content.size() && same
            }
            Kind::Symlink(target) => {
                metadata.kind == FileKind::Symlink && found.target.as_deref() == Some(target.as_bytes())
            }
            kind => is_alike(kind, metadata.kind),
        }
    }

    /// Returns whether preserved attributes differ.
    pub(super) fn differs(&self, inode: &Inode, found: Option<&FileInfo>) -> bool {
        let Some(FileInfo { metadata, xattrs, .. }) = found else { return true };
        let keep = self.preserve;
        let is_link = metadata.kind == FileKind::Symlink;
        let own = &self.writer;
        // Directories may inherit set-group-ID.
        let compared = if own.for_others { !SET_ID } else { !0 };
        let mode = keep.modes && !is_link && (metadata.mode ^ self.bits(inode)) & compared != 0;
        let may_group = self.may_set_group(inode, metadata);
        let owners = keep.users && metadata.user != inode.user.id()
            || keep.groups && may_group && metadata.group != inode.group.id();
        let there = xattrs.iter().map(|(name, value)| (&**name, &**value));
        // A label of the security module here stays unless the source has one.
        let is_sent = |name: &[u8]| inode.xattrs.iter().any(|(sent, _)| sent == name);
        let there = there.filter(|(name, _)| !is_security_label(name) || is_sent(name));
        let attributes = keep.xattrs && !is_link && !there.eq(self.settable(inode));
        mode || owners || attributes || !self.is_kept(inode, metadata)
    }

    /// Returns whether the group of an existing object can be set to the source's.
    pub(super) fn may_set_group(&self, inode: &Inode, metadata: &FileStat) -> bool {
        let own = &self.writer;
        self.preserve.users || metadata.user == own.user && own.groups.contains(&inode.group.id())
    }

    /// Returns whether an mtime equals the source's, up to the rounding of the file system.
    pub(super) fn is_kept(&self, inode: &Inode, metadata: &FileStat) -> bool {
        if !self.preserve.time_of(&inode.kind) {
            return true;
        }
        // FAT stores even seconds only (`fat_truncate_time` in fs/fat/misc.c).
        let is_even = |stamp: Stamp| stamp.seconds % 2 == 0 && stamp.nanoseconds == 0;
        let may_be_fat = self.names == NameMatching::CaseInsensitiveTrimmed && is_even(metadata.ctime);
        let time = stamp(inode);
        is_kept_as(time, metadata)
            || may_be_fat && metadata.mtime == Stamp { seconds: time.seconds & !1, nanoseconds: 0 }
    }
}

/// Converts the mtime to the type of ports.
pub(super) fn stamp(inode: &Inode) -> Stamp {
    Stamp { seconds: inode.mtime.seconds(), nanoseconds: inode.mtime.nanoseconds() }
}

/// Time granularities of file systems in ns: NTFS and SMB, others, exFAT, ext4 with small inodes
/// and sshfs.
const GRAINS: [u32; 4] = [100, 1_000, 10_000_000, 1_000_000_000];

/// Returns whether an mtime is `time` rounded by the file system of the object.
///
/// A coarse mtime is not sufficient: on a file system with fine times, scp, tar or touch may have
/// set it for other data. But a file system rounds all times of an inode (`timestamp_truncate` in
/// fs/inode.c), and the ctime cannot be set. With fine times, it is in whole seconds (or 10 ms) by
/// chance once in 10^9 (or 10^7) cases. It is in 100 ns once in ten cases and in 1 us once in a
/// thousand, but files are not written, copied and written again within such times.
fn is_kept_as(time: Stamp, metadata: &FileStat) -> bool {
    let there = metadata.mtime;
    let rounds = |grain: &u32| metadata.ctime.nanoseconds.is_multiple_of(*grain);
    let rounded = |grain| there.nanoseconds == time.nanoseconds / grain * grain;
    there == time || there.seconds == time.seconds && GRAINS.into_iter().filter(rounds).any(rounded)
}

/// Returns whether an object has the same kind as an existing one, and for devices the same number.
pub(super) fn is_alike(kind: &Kind, there: FileKind) -> bool {
    there
        == match kind {
            Kind::File(_) => FileKind::File,
            Kind::Symlink(_) => FileKind::Symlink,
            Kind::Directory => FileKind::Directory,
            Kind::Fifo => FileKind::Fifo,
            Kind::CharacterDevice(device) => FileKind::CharacterDevice(device.major(), device.minor()),
            Kind::BlockDevice(device) => FileKind::BlockDevice(device.major(), device.minor()),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: i64 = 1_700_000_001;

    /// Returns a file with this mtime and a ctime with these nanoseconds.
    fn there(mtime: Stamp, changed: u32) -> FileStat {
        FileStat {
            kind: FileKind::File,
            mode: 0o644,
            user: 0,
            group: 0,
            size: 4,
            mtime,
            ctime: Stamp { seconds: SECONDS + 1_000, nanoseconds: changed },
            inode: 1,
            volume: 1,
            links: 1,
        }
    }

    fn time(nanoseconds: u32) -> Stamp {
        Stamp { seconds: SECONDS, nanoseconds }
    }

    #[test]
    fn recognizes_times_rounded_by_the_file_system() {
        let changed =
            [(100, 987_654_300), (1_000, 987_654_000), (10_000_000, 980_000_000), (1_000_000_000, 0)];
        let kept = [(100, 123_456_700), (1_000, 123_456_000), (10_000_000, 120_000_000), (1_000_000_000, 0)];
        for (grain, changed) in changed {
            assert!(is_kept_as(time(123_456_789), &there(time(123_456_789), changed)));
            for (coarse, kept) in kept {
                let is_kept = is_kept_as(time(123_456_789), &there(time(kept), changed));
                assert_eq!(is_kept, coarse <= grain, "{kept} with a ctime of {changed}");
            }
            for other in [123_456_788, 123_456_800, 123_450_000, 130_000_000, 999_999_999] {
                assert!(!is_kept_as(time(123_456_789), &there(time(other), changed)), "{other}");
            }
        }
        let later = Stamp { seconds: SECONDS + 1, ..time(0) };
        assert!(!is_kept_as(time(0), &there(time(1), 0)) && !is_kept_as(time(5), &there(later, 0)));
    }

    #[test]
    fn coarse_mtime_on_a_fine_file_system_differs() {
        for coarse in [123_456_700, 123_456_000, 120_000_000, 0] {
            assert!(!is_kept_as(time(123_456_789), &there(time(coarse), 987_654_321)), "{coarse}");
        }
        assert!(is_kept_as(time(123_456_789), &there(time(123_456_789), 987_654_321)));
    }
}
