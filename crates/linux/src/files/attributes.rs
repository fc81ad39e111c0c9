//! Attributes of objects: owners, modes, times, extended attributes.

use super::fault::fault;
use super::resolve::{ResolvedName, Resolver};
use super::stat::file_stat;
use super::Roots;
use numaio_machine::port::{is_roots, Attributes, Fault, FileKind, FilePath, Seen, Why, Xattr};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, UTIME_OMIT};
use rustix::io::Errno;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

/// What attributes are set of.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// A regular file that is open.
    Open(BorrowedFd<'a>),
    /// Anything by its name; a symbolic link itself.
    Named(ResolvedName<'a>),
}

/// Who may do what with something.
const ACCESS_ACL: &str = "system.posix_acl_access";
/// What something new in a directory gets as its ACL.
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Tags of entries of an ACL (include/uapi/linux/posix_acl.h).
const OWNER: u8 = 0x01;
const GROUP: u8 = 0x04;
const MASK: u8 = 0x10;
const OTHERS: u8 = 0x20;

/// Bits of a mode by which whoever runs a program becomes its owner, or of its group (inode(7)).
const SET_ID: u32 = 0o6000;
pub const SET_GROUP_ID: u32 = 0o2000;
pub const OWNER_WRITES: u32 = 0o200;

/// What became of an owner, in a file's user and group.
enum OwnerChange {
    /// It was the wanted one, or none was wanted.
    Unchanged,
    /// It was changed.
    Changed,
    /// The group is another one than was wanted, which this user may not give it.
    GroupNotPermitted,
}

/// What [`DEFAULT_ACL`] leaves of the mode of something new (acl(5), "object creation and default ACLs"): its bits for the owner, for
/// the group (the mask, if there is one), and for others. None where there is no such list.
pub fn default_bits(directory: BorrowedFd<'_>) -> Option<u32> {
    let mut acl = Vec::new();
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    fill(&mut acl, |buffer| rustix::fs::getxattr(&path, DEFAULT_ACL, buffer)).ok()?;
    acl_mode_bits(&acl)
}

/// The same of a list.
fn acl_mode_bits(acl: &[u8]) -> Option<u32> {
    let entries = entries(acl)?;
    let bits = |tag| entries.clone().find(|entry| entry.0 == tag).map(|entry| entry.1);
    let group = bits(MASK).or_else(|| bits(GROUP))?;
    Some(bits(OWNER)? << 6 | group << 3 | bits(OTHERS)?)
}

/// Which bits of its mode a file may have without its ACL: those of the group are the most that anybody has whom the ACL names, and the
/// group that owns it has but its own, within that.
fn bits_without_acl(acl: &[u8]) -> u32 {
    let bits = |tag| entries(acl)?.find(|entry| entry.0 == tag).map(|entry| entry.1);
    let group = bits(GROUP).unwrap_or(0) & bits(MASK).unwrap_or(0o7);
    !0o070 | group << 3
}

/// Tags and permissions of a list as the kernel gives it (include/uapi/linux/posix_acl_xattr.h): a version, and entries of a tag,
/// permissions and an id.
fn entries(acl: &[u8]) -> Option<impl Iterator<Item = (u8, u32)> + Clone + '_> {
    let entries = acl.strip_prefix(&[2, 0, 0, 0])?;
    Some(entries.chunks_exact(8).map(|entry| (entry[0], u32::from(entry[2]) & 0o7)))
}

fn acl_in(xattrs: &[Xattr]) -> Option<&[u8]> {
    xattrs.iter().find(|(name, _)| **name == *ACCESS_ACL.as_bytes()).map(|(_, value)| &**value)
}

/// Whether an extended attribute is kept: users' own, ACLs, and for root what is root's.
pub fn is_preserved(name: &[u8], super_user: bool) -> bool {
    let acl = matches!(name, b"system.posix_acl_access" | b"system.posix_acl_default");
    name.starts_with(b"user.") || acl || (super_user && is_roots(name))
}

/// Extended attributes, by name, and whether there are some that may not be read. No file is opened for it.
pub fn xattrs_of(place: ResolvedName<'_>, kept: impl Fn(&[u8]) -> bool) -> Result<(Vec<Xattr>, bool), Errno> {
    let mut names = Vec::new();
    match fill(&mut names, |buffer| names_at(place, buffer)) {
        Err(Errno::NOTSUP) => return Ok(Default::default()),
        result => result?,
    }
    let mut names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty() && kept(name)).peekable();
    let (mut found, mut hides) = (Vec::new(), false);
    if names.peek().is_none() {
        return Ok((found, hides));
    }
    let path = path_of(place)?;
    for name in names {
        let mut value = Vec::new();
        match fill(&mut value, |buffer| rustix::fs::lgetxattr(&path, name, buffer)) {
            Ok(()) => found.push((name.into(), value.into_boxed_slice())),
            // It went away.
            Err(Errno::NODATA) => {}
            Err(Errno::ACCESS | Errno::PERM) => hides = true,
            // What a server lists the kernel may not have: FUSE that is mounted by a user namespace.
            Err(Errno::NOTSUP) if name.starts_with(b"system.") => {}
            Err(errno) => return Err(errno),
        }
    }
    found.sort_unstable();
    Ok((found, hides))
}

/// listxattrat(2), since Linux 6.13; it has one number for all machines (scripts/syscall.tbl).
const LISTXATTRAT: libc::c_long = 465;

/// Names of extended attributes. Where there is no listxattrat(2) the name is resolved once more by way of its directory, which
/// takes three times as long.
fn names_at(place: ResolvedName<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    static IS_MISSING: AtomicBool = AtomicBool::new(false);
    if !IS_MISSING.load(Ordering::Relaxed) {
        let name = CString::new(place.name).map_err(|_| Errno::INVAL)?;
        // SAFETY: the kernel reads the name up to its zero byte, and writes as many bytes as the buffer has at the most.
        let done = unsafe {
            libc::syscall(
                LISTXATTRAT,
                place.directory.as_raw_fd(),
                name.as_ptr(),
                libc::AT_SYMLINK_NOFOLLOW,
                buffer.as_mut_ptr(),
                buffer.len(),
            )
        };
        match usize::try_from(done) {
            Ok(length) => return Ok(length),
            Err(_) => match Errno::from_io_error(&std::io::Error::last_os_error()) {
                // A sandbox that does not know it may not allow it.
                Some(Errno::NOSYS | Errno::PERM) => IS_MISSING.store(true, Ordering::Relaxed),
                errno => return Err(errno.unwrap_or(Errno::IO)),
            },
        }
    }
    rustix::fs::llistxattr(path_of(place)?, buffer)
}

/// Calls until the buffer is large enough (xattr(7): 64 KiB at most).
fn fill(buffer: &mut Vec<u8>, call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<(), Errno> {
    for size in [256, 4_096, 65_536] {
        buffer.resize(size, 0);
        match call(buffer) {
            Err(Errno::RANGE) => {}
            Ok(length) => {
                buffer.truncate(length);
                return Ok(());
            }
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::RANGE)
}

/// A path to a place by way of its open directory (proc_pid_fd(5)); its last component is not followed by calls
/// that do not follow.
fn path_of(place: ResolvedName<'_>) -> Result<CString, Errno> {
    let directory = format!("/proc/self/fd/{}/", place.directory.as_raw_fd());
    CString::new([directory.as_bytes(), place.name].concat()).map_err(|_| Errno::INVAL)
}

/// Why extended attributes were not set as they were to be.
struct XattrFailure {
    fault: Fault,
    /// Whether ACLs were all the same.
    acl: bool,
}

impl XattrFailure {
    fn all(fault: Fault) -> Self {
        Self { fault, acl: false }
    }
}

impl Roots {
    pub(super) fn set_attributes(
        &self,
        resolver: &mut Resolver<'_>,
        at: &FilePath,
        attributes: &Attributes,
    ) -> Result<(), Fault> {
        let mode_mask = self.mode_mask(resolver, at, attributes);
        let place = resolver.resolve(at)?;
        let stat = rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW);
        self.set(Target::Named(place), &file_stat(&stat.map_err(fault("look at it"))?), attributes, mode_mask)
    }

    /// Which bits of a mode are set.
    pub(super) fn mode_mask(&self, resolver: &mut Resolver<'_>, at: &FilePath, wanted: &Attributes) -> u32 {
        if wanted.masked {
            resolver.default_bits(at).unwrap_or(!self.umask)
        } else {
            !0
        }
    }

    /// Sets what differs from what was seen, and only those bits of a mode that are left. The first fault is told, and the rest set
    /// all the same.
    pub(super) fn set(
        &self,
        target: Target<'_>,
        seen: &Seen,
        wanted: &Attributes,
        mode_mask: u32,
    ) -> Result<(), Fault> {
        let is_link = seen.kind == FileKind::Symlink;
        let owned = self.set_owner(target, seen, wanted);
        // An owner that changed takes the set-id bits, and capabilities: so it comes first.
        let has_xattrs = wanted.xattrs.as_ref().filter(|_| !is_link);
        let xattrs = has_xattrs.map_or(Ok(false), |xattrs| self.set_xattrs_of(target, seen, xattrs));
        let owner_changed = matches!(owned, Ok(OwnerChange::Changed));
        // An ACL that was set or removed has its say in the mode.
        let acl = !matches!(xattrs, Ok(false));
        // Its set-id bits are about the owner that it was to have. That of a directory is about what is made in it, and runs nothing.
        let bits = match owned {
            Err(_) => !SET_ID,
            Ok(OwnerChange::GroupNotPermitted) if seen.kind != FileKind::Directory => !SET_GROUP_ID,
            Ok(_) => !0,
        };
        let is_refused = xattrs.as_ref().is_err_and(|not_set| !not_set.acl);
        let refused_acl = has_xattrs.filter(|_| is_refused).and_then(|xattrs| acl_in(xattrs));
        let bits = bits & refused_acl.map_or(!0, bits_without_acl);
        // A directory whose group is not chosen has that of the one above, and with it the bit that hands it on (inode(7)).
        let is_heir = seen.kind == FileKind::Directory && wanted.group.is_none();
        let inherited = if is_heir { seen.mode & SET_GROUP_ID } else { 0 };
        let mode = wanted.mode.map(|mode| (mode & mode_mask | inherited) & bits);
        let mode = mode.filter(|mode| !is_link && (*mode != seen.mode || owner_changed || acl));
        let mode = mode.map_or(Ok(()), |mode| match set_mode(target, mode) {
            // Nobody asked for this one, and there are file systems that give all files theirs.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) if wanted.masked => Ok(()),
            set => set.map_err(fault("set its mode")),
        });
        let times = match wanted.mtime {
            Some(mtime) if mtime != seen.mtime || matches!(target, Target::Open(_)) => {
                set_time(target, mtime.seconds, mtime.nanoseconds).map_err(fault("set its time"))
            }
            _ => Ok(()),
        };
        owned.map(drop).and(xattrs.map(drop).map_err(|not_set| not_set.fault)).and(mode).and(times)
    }

    /// A file that is to take another one's place, and keep its mode, gets its ACL, too, or none: bits of the mode are about that. Tells
    /// which of them it may have. `is_given` tells whether it has one, of its directory.
    pub(super) fn inherit_acl(place: ResolvedName<'_>, file: BorrowedFd<'_>, is_given: bool) -> u32 {
        let mut acl = Vec::new();
        let read = path_of(place)
            .and_then(|path| fill(&mut acl, |buffer| rustix::fs::lgetxattr(&path, ACCESS_ACL, buffer)));
        match read {
            Ok(()) => match rustix::fs::fsetxattr(file, ACCESS_ACL, &acl, XattrFlags::empty()) {
                Ok(()) => !0,
                Err(_) => bits_without_acl(&acl),
            },
            Err(Errno::NODATA) if is_given => {
                // What cannot be removed was there before, too.
                let _ = rustix::fs::fremovexattr(file, ACCESS_ACL);
                !0
            }
            Err(_) => !0,
        }
    }

    fn set_owner(&self, target: Target<'_>, seen: &Seen, wanted: &Attributes) -> Result<OwnerChange, Fault> {
        let user = wanted.user.filter(|user| *user != seen.user).map(Uid::from_raw);
        let group = wanted.group.filter(|group| *group != seen.group).map(Gid::from_raw);
        let own = |user, group| match target {
            Target::Open(file) => rustix::fs::fchown(file, user, group),
            Target::Named(place) => {
                rustix::fs::chownat(place.directory, place.name, user, group, AtFlags::SYMLINK_NOFOLLOW)
            }
        };
        if user.is_none() && group.is_none() {
            return Ok(OwnerChange::Unchanged);
        }
        match own(user, group) {
            // Others than root set the groups that they are in. A user namespace without such a number and servers that do not know it
            // say that it is invalid, and sshfs that access is denied.
            Err(Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
                if user.is_none() && !self.super_user =>
            {
                Ok(OwnerChange::GroupNotPermitted)
            }
            result => result.map(|()| OwnerChange::Changed).map_err(fault("set its owner")),
        }
    }

    /// As [`Roots::set_xattrs`]. Who is not root sets those of files and directories that may be written to (xattr(7)): others are, for
    /// that long.
    fn set_xattrs_of(&self, target: Target<'_>, seen: &Seen, wanted: &[Xattr]) -> Result<bool, XattrFailure> {
        let refused = match self.set_xattrs(target, wanted) {
            Err(refused)
                if refused.fault.why == Why::Permission
                    && matches!(seen.kind, FileKind::File | FileKind::Directory) =>
            {
                refused
            }
            set => return set,
        };
        if seen.mode & OWNER_WRITES != 0 || set_mode(target, seen.mode | OWNER_WRITES).is_err() {
            return Err(refused);
        }
        let set = self.set_xattrs(target, wanted);
        set_mode(target, seen.mode).map_err(fault("set its mode")).map_err(XattrFailure::all)?;
        set
    }

    /// Tells whether anything was to be changed. Nothing is set if there is one that nobody sends who keeps to what is kept: others
    /// change what the file system does with a file, or what a security module thinks of it.
    fn set_xattrs(&self, target: Target<'_>, wanted: &[Xattr]) -> Result<bool, XattrFailure> {
        let told = fault("set its extended attributes");
        let call = |errno| XattrFailure::all(told(errno));
        if wanted.iter().any(|(name, _)| !is_preserved(name, true)) {
            return Err(call(Errno::PERM));
        }
        let path = match target {
            Target::Open(file) => CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())),
            Target::Named(place) => {
                path_of(place).map_err(fault("name it")).map_err(XattrFailure::all).map(Ok)?
            }
        };
        let path = path.unwrap_or_default();
        let mut names = Vec::new();
        let listed = fill(&mut names, |buffer| match target {
            Target::Open(file) => rustix::fs::flistxattr(file, buffer),
            Target::Named(_) => rustix::fs::llistxattr(&path, buffer),
        });
        match listed {
            Err(Errno::NOTSUP) if wanted.is_empty() => return Ok(false),
            result => result.map_err(&call)?,
        }
        let there = names.split(|&byte| byte == 0).filter(|name| is_preserved(name, self.super_user));
        let mut changed = !wanted.is_empty();
        for name in there.filter(|name| !wanted.iter().any(|(wanted, _)| **wanted == **name)) {
            changed = true;
            let removed = match target {
                Target::Open(file) => rustix::fs::fremovexattr(file, name),
                Target::Named(_) => rustix::fs::lremovexattr(&path, name),
            };
            removed.map_err(&call)?;
        }
        // An ACL may take from the owner what the others need.
        let (acls, others): (Vec<_>, Vec<_>) =
            wanted.iter().partition(|(name, _)| name.starts_with(b"system."));
        let set = |(name, value): &Xattr| match target {
            Target::Open(file) => rustix::fs::fsetxattr(file, &**name, value, XattrFlags::empty()),
            Target::Named(_) => rustix::fs::lsetxattr(&path, &**name, value, XattrFlags::empty()),
        };
        let each = |all: Vec<&Xattr>| all.into_iter().map(set).fold(Ok(()), Result::and);
        let (others, acls) = (each(others), each(acls));
        let acl = acls.is_ok();
        others.and(acls).map_err(|errno| XattrFailure { fault: told(errno), acl })?;
        Ok(changed)
    }
}

pub fn set_mode(target: Target<'_>, bits: u32) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(bits);
    match target {
        Target::Open(file) => rustix::fs::fchmod(file, mode),
        Target::Named(place) => {
            // chmod(2) follows links, and fchmod(2) takes no O_PATH descriptor: so by way of one that is no link.
            let file = rustix::fs::openat(
                place.directory,
                place.name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            if file_stat(&rustix::fs::fstat(&file)?).kind == FileKind::Symlink {
                return Err(Errno::LOOP);
            }
            rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)
        }
    }
}

pub fn set_time(target: Target<'_>, seconds: i64, nanoseconds: u32) -> Result<(), Errno> {
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps {
        last_access: omit,
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
    };
    match target {
        Target::Open(file) => rustix::fs::futimens(file, &times),
        Target::Named(place) => {
            rustix::fs::utimensat(place.directory, place.name, &times, AtFlags::SYMLINK_NOFOLLOW)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_has_set_is_kept_and_what_xfs_shows_of_acls_is_not() {
        for name in [&b"user.x"[..], b"system.posix_acl_access", b"system.posix_acl_default"] {
            assert!(is_preserved(name, false) && is_preserved(name, true));
        }
        for name in [&b"trusted.x"[..], b"security.capability"] {
            assert!(!is_preserved(name, false) && is_preserved(name, true));
        }
        for name in
            [&b"trusted.SGI_ACL_FILE"[..], b"trusted.SGI_ACL_DEFAULT", b"btrfs.compression", b"security.ima"]
        {
            assert!(!is_preserved(name, true));
        }
    }
}
