//! What is there, compared with what is to be there.

use super::{stamp, Sink};
use crate::entry::{Inode, Kind};
use numaio_machine::port::{is_roots, Attributes, FileKind, Found, Names, Seen, Stamp, Xattr};

/// Bits of a mode (inode(7)).
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const SET_ID: u32 = SET_USER_ID | SET_GROUP_ID;

impl<B: AsRef<[u8]>> Sink<B> {
    /// The attributes that an object gets.
    pub(super) fn attributes(&self, inode: &Inode, there: Option<&Seen>) -> Attributes {
        let keep = self.options.preserve;
        let bits = self.bits(inode);
        let (mode, masked) = match there {
            _ if keep.modes => (bits, false),
            // What is of another kind is replaced, and a symbolic link's bits say nothing.
            Some(seen) if is_alike(&inode.kind, seen.kind) => (seen.mode, false),
            _ => (bits & 0o777, true),
        };
        Attributes {
            mode: Some(mode),
            masked,
            mtime: Some(stamp(inode)),
            user: keep.users.then(|| inode.user.id()),
            group: keep.groups.then(|| inode.group.id()),
            xattrs: self.xattrs(inode),
        }
    }

    /// The mode that an object can have here. Who runs a program with these bits becomes its owner, or of its group: where that is
    /// not the one of the source they would give away the rights of whoever copies it.
    pub(super) fn bits(&self, inode: &Inode) -> u32 {
        let (bits, keep, own) = (inode.mode.bits(), self.options.preserve, &self.options.writer);
        if own.for_others {
            return bits & !SET_ID;
        }
        // That of a directory is about what is made in it, and runs nothing.
        if keep.users || matches!(inode.kind, Kind::Directory) {
            return bits;
        }
        let of_user = if inode.user.id() == own.user { SET_USER_ID } else { 0 };
        let may_group = keep.groups && own.groups.contains(&inode.group.id());
        let of_group = if may_group { SET_GROUP_ID } else { 0 };
        bits & (!SET_ID | of_user | of_group)
    }

    /// The extended attributes that an object gets, if they are kept.
    pub(super) fn xattrs(&self, inode: &Inode) -> Option<Vec<Xattr>> {
        let all = || self.settable(inode).map(|(name, value)| (name.into(), value.into())).collect();
        self.options.preserve.xattrs.then(all)
    }

    /// Those that may be set here.
    fn settable<'a>(&self, inode: &'a Inode) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let is_root = self.options.writer.user == 0;
        inode.xattrs.iter().filter(move |(name, _)| is_root || !is_roots(name))
    }

    /// Whether what is there has the same content, as far as size and time tell, or if asked for `equal` hashes.
    pub(super) fn is_same(&self, inode: &Inode, found: &Found, equal: bool) -> bool {
        let seen = &found.seen;
        match &inode.kind {
            Kind::File(content) => {
                let same = match self.options.checksum {
                    true => equal || seen.size == 0,
                    false => self.is_kept(inode, seen) && !self.options.ignore_times,
                };
                seen.kind == FileKind::File && seen.size == content.size() && same
            }
            Kind::Symlink(target) => {
                seen.kind == FileKind::Symlink && found.target.as_deref() == Some(target.as_bytes())
            }
            kind => is_alike(kind, seen.kind),
        }
    }

    /// Whether attributes differ that are to be kept.
    pub(super) fn differs(&self, inode: &Inode, found: Option<&Found>) -> bool {
        let Some(Found { seen, xattrs, .. }) = found else { return true };
        let keep = self.options.preserve;
        let is_link = seen.kind == FileKind::Symlink;
        let own = &self.options.writer;
        // A directory may have inherited one.
        let compared = if own.for_others { !SET_ID } else { !0 };
        let mode = keep.modes && !is_link && (seen.mode ^ self.bits(inode)) & compared != 0;
        let may_group = keep.users || seen.user == own.user && own.groups.contains(&inode.group.id());
        let owners = keep.users && seen.user != inode.user.id()
            || keep.groups && may_group && seen.group != inode.group.id();
        let there = xattrs.iter().map(|(name, value)| (&**name, &**value));
        let attributes = keep.xattrs && !is_link && !there.eq(self.settable(inode));
        mode || owners || attributes || !self.is_kept(inode, seen)
    }

    /// Whether the time of what is there is the source's, or what was made of that.
    pub(super) fn is_kept(&self, inode: &Inode, seen: &Seen) -> bool {
        // FAT has every second second (`fat_truncate_time` in fs/fat/misc.c).
        let is_even = |stamp: Stamp| stamp.seconds % 2 == 0 && stamp.nanoseconds == 0;
        let may_be_fat = self.options.names == Names::FoldedAndCut && is_even(seen.ctime);
        let time = stamp(inode);
        is_kept_as(time, seen)
            || may_be_fat && seen.mtime == Stamp { seconds: time.seconds & !1, nanoseconds: 0 }
    }
}

/// Nanoseconds to which file systems round times down: NTFS and SMB, others, exFAT, ext4 with small inodes and sshfs.
const GRAINS: [u32; 4] = [100, 1_000, 10_000_000, 1_000_000_000];

/// Whether the time of what is there is what its file system made of another one. A coarse time alone does not tell: with fine ones
/// there, scp, tar or touch may have set it, of other data. But a file system rounds all times of an inode (`timestamp_truncate` in
/// fs/inode.c), and the one of its last change nobody sets: with fine times that is in whole seconds, or 10 ms, by a chance of one in
/// 10^9, or 10^7. In 100 ns it is by one in ten, and in 1 us by one in a thousand; but so soon nobody writes a file, has it copied, and
/// writes it again.
fn is_kept_as(time: Stamp, seen: &Seen) -> bool {
    let there = seen.mtime;
    let rounds = |grain: &u32| seen.ctime.nanoseconds.is_multiple_of(*grain);
    let rounded = |grain| there.nanoseconds == time.nanoseconds / grain * grain;
    there == time || there.seconds == time.seconds && GRAINS.into_iter().filter(rounds).any(rounded)
}

/// Whether an object is of the kind of what is there; a device has to be the same one.
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

    /// A file with a time, last changed at so many nanoseconds beyond some second.
    fn there(mtime: Stamp, changed: u32) -> Seen {
        Seen {
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
    fn a_time_is_what_a_file_system_with_coarser_ones_makes_of_it() {
        let changed =
            [(100, 987_654_300), (1_000, 987_654_000), (10_000_000, 980_000_000), (1_000_000_000, 0)];
        let kept = [(100, 123_456_700), (1_000, 123_456_000), (10_000_000, 120_000_000), (1_000_000_000, 0)];
        for (grain, changed) in changed {
            assert!(is_kept_as(time(123_456_789), &there(time(123_456_789), changed)));
            for (coarse, kept) in kept {
                let is_kept = is_kept_as(time(123_456_789), &there(time(kept), changed));
                assert_eq!(is_kept, coarse <= grain, "{kept} where the last change was at {changed}");
            }
            for other in [123_456_788, 123_456_800, 123_450_000, 130_000_000, 999_999_999] {
                assert!(!is_kept_as(time(123_456_789), &there(time(other), changed)), "{other}");
            }
        }
        let later = Stamp { seconds: SECONDS + 1, ..time(0) };
        assert!(!is_kept_as(time(0), &there(time(1), 0)) && !is_kept_as(time(5), &there(later, 0)));
    }

    #[test]
    fn where_times_are_fine_a_coarse_one_is_another_time() {
        for coarse in [123_456_700, 123_456_000, 120_000_000, 0] {
            assert!(!is_kept_as(time(123_456_789), &there(time(coarse), 987_654_321)), "{coarse}");
        }
        assert!(is_kept_as(time(123_456_789), &there(time(123_456_789), 987_654_321)));
    }
}
