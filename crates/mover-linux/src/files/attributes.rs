//! Attributes of files: owners, modes, times, extended attributes.

use super::fault::fault;
use super::path::resolver::{ResolvedName, Resolver};
use super::stat::file_stat;
use super::Roots;
use numaio_mover::port::{
    is_root_only_xattr, Attributes, Fault, FaultKind, FileKind, FilePath, FileStat, Xattr,
};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, UTIME_OMIT};
use rustix::io::Errno;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

/// File whose attributes are set.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// An open regular file.
    Open(BorrowedFd<'a>),
    /// A name; for a symbolic link the link itself.
    Named(ResolvedName<'a>),
}

/// Extended attribute with the access ACL of a file.
const ACCESS_ACL: &str = "system.posix_acl_access";
/// Extended attribute with the ACL that new entries of a directory inherit.
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Tags of ACL entries (include/uapi/linux/posix_acl.h).
const OWNER: u8 = 0x01;
const GROUP: u8 = 0x04;
const MASK: u8 = 0x10;
const OTHERS: u8 = 0x20;

/// Mode bits that make a program run as its owner or group (inode(7)).
const SET_ID: u32 = 0o6000;
/// Set-group-ID bit of a mode.
pub const SET_GROUP_ID: u32 = 0o2000;
/// Write permission of the owner.
pub const OWNER_WRITES: u32 = 0o200;

/// Result of setting the user and group of a file.
enum OwnerChange {
    /// The owner was correct, or none was requested.
    Unchanged,
    /// The owner was changed.
    Changed,
    /// This user may not set the requested group, so the file keeps another one.
    GroupNotPermitted,
}

/// Returns the mode bits that a directory's [`DEFAULT_ACL`] leaves to new entries (acl(5), "object
/// creation and default ACLs"): those of the owner, of the group (or the mask, if any), and of
/// others. None without a default ACL.
pub fn default_bits(directory: BorrowedFd<'_>) -> Option<u32> {
    let mut acl = Vec::new();
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    fill(&mut acl, |buffer| rustix::fs::getxattr(&path, DEFAULT_ACL, buffer)).ok()?;
    acl_mode_bits(&acl)
}

/// Returns the mode bits of an ACL.
fn acl_mode_bits(acl: &[u8]) -> Option<u32> {
    let entries = entries(acl)?;
    let bits = |tag| entries.clone().find(|entry| entry.0 == tag).map(|entry| entry.1);
    let group = bits(MASK).or_else(|| bits(GROUP))?;
    Some(bits(OWNER)? << 6 | group << 3 | bits(OTHERS)?)
}

/// Returns the mode bits that a file may keep if its ACL cannot be set. With an ACL the group bits
/// are the maximum of all named entries; without it, the owning group must have only its own
/// permissions.
fn bits_without_acl(acl: &[u8]) -> u32 {
    let bits = |tag| entries(acl)?.find(|entry| entry.0 == tag).map(|entry| entry.1);
    let group = bits(GROUP).unwrap_or(0) & bits(MASK).unwrap_or(0o7);
    !0o070 | group << 3
}

/// Parses tags and permissions of an ACL in the kernel's format
/// (include/uapi/linux/posix_acl_xattr.h): a version, then entries of tag, permissions and id.
fn entries(acl: &[u8]) -> Option<impl Iterator<Item = (u8, u32)> + Clone + '_> {
    let entries = acl.strip_prefix(&[2, 0, 0, 0])?;
    Some(entries.chunks_exact(8).map(|entry| (entry[0], u32::from(entry[2]) & 0o7)))
}

fn acl_in(xattrs: &[Xattr]) -> Option<&[u8]> {
    xattrs.iter().find(|(name, _)| **name == *ACCESS_ACL.as_bytes()).map(|(_, value)| &**value)
}

/// Returns whether a transfer preserves an extended attribute: user attributes, ACLs, and as root
/// also root's.
pub fn is_preserved(name: &[u8], super_user: bool) -> bool {
    let acl = matches!(name, b"system.posix_acl_access" | b"system.posix_acl_default");
    name.starts_with(b"user.") || acl || (super_user && is_root_only_xattr(name))
}

/// Returns extended attributes, sorted by name, and whether some are unreadable. Opens no file.
pub fn xattrs_of(place: ResolvedName<'_>, kept: impl Fn(&[u8]) -> bool) -> Result<(Vec<Xattr>, bool), Errno> {
    let mut names = Vec::new();
    match fill(&mut names, |buffer| names_at(place, buffer)) {
        Err(Errno::NOTSUP) => return Ok(Default::default()),
        result => result?,
    }
    let mut names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty() && kept(name)).peekable();
    let (mut found, mut has_hidden_xattrs) = (Vec::new(), false);
    if names.peek().is_none() {
        return Ok((found, has_hidden_xattrs));
    }
    let path = path_of(place)?;
    for name in names {
        let mut value = Vec::new();
        match fill(&mut value, |buffer| rustix::fs::lgetxattr(&path, name, buffer)) {
            Ok(()) => found.push((name.into(), value.into_boxed_slice())),
            // It was removed meanwhile.
            Err(Errno::NODATA) => {}
            Err(Errno::ACCESS | Errno::PERM) => has_hidden_xattrs = true,
            // A FUSE server may list attributes that the kernel does not support, when mounted in a
            // user namespace.
            Err(Errno::NOTSUP) if name.starts_with(b"system.") => {}
            Err(errno) => return Err(errno),
        }
    }
    found.sort_unstable();
    Ok((found, has_hidden_xattrs))
}

/// listxattrat(2), since Linux 6.13; its number is the same on all architectures
/// (scripts/syscall.tbl).
const LISTXATTRAT: libc::c_long = 465;

/// Lists names of extended attributes. Without listxattrat(2) the name is resolved again through
/// its directory, which takes three times as long.
fn names_at(place: ResolvedName<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    static IS_MISSING: AtomicBool = AtomicBool::new(false);
    if !IS_MISSING.load(Ordering::Relaxed) {
        let name = CString::new(place.name).map_err(|_| Errno::INVAL)?;
        // SAFETY: the kernel reads the name up to its zero byte, and writes at most the length of
        // the buffer.
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
                // A sandbox that does not know the call may reject it.
                Some(Errno::NOSYS | Errno::PERM) => IS_MISSING.store(true, Ordering::Relaxed),
                errno => return Err(errno.unwrap_or(Errno::IO)),
            },
        }
    }
    rustix::fs::llistxattr(path_of(place)?, buffer)
}

/// Repeats a call until the buffer is large enough (xattr(7): 64 KiB at most).
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

/// Returns a path through the open directory of a name (proc_pid_fd(5)). Calls that do not follow
/// links do not follow its last component.
fn path_of(place: ResolvedName<'_>) -> Result<CString, Errno> {
    let directory = format!("/proc/self/fd/{}/", place.directory.as_raw_fd());
    CString::new([directory.as_bytes(), place.name].concat()).map_err(|_| Errno::INVAL)
}

/// Failure to set extended attributes.
struct XattrFailure {
    fault: Fault,
    /// Whether ACLs were set nevertheless.
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
        self.set(Target::Named(place), &file_stat(&stat.map_err(fault("stat"))?), attributes, mode_mask)
    }

    /// Returns the mode bits that new files may have.
    pub(super) fn mode_mask(&self, resolver: &mut Resolver<'_>, at: &FilePath, wanted: &Attributes) -> u32 {
        if wanted.masked {
            resolver.default_bits(at).unwrap_or(!self.umask)
        } else {
            !0
        }
    }

    /// Sets the attributes that differ from `metadata`, limiting the mode to `mode_mask`. Continues
    /// after a fault and returns the first one.
    pub(super) fn set(
        &self,
        target: Target<'_>,
        metadata: &FileStat,
        wanted: &Attributes,
        mode_mask: u32,
    ) -> Result<(), Fault> {
        let is_link = metadata.kind == FileKind::Symlink;
        let owned = self.set_owner(target, metadata, wanted);
        // Changing the owner clears set-id bits and capabilities, so it comes first.
        let has_xattrs = wanted.xattrs.as_ref().filter(|_| !is_link);
        let xattrs = has_xattrs.map_or(Ok(false), |xattrs| self.set_xattrs_of(target, metadata, xattrs));
        let owner_changed = matches!(owned, Ok(OwnerChange::Changed));
        // Setting or removing an ACL changes the mode.
        let acl = !matches!(xattrs, Ok(false));
        // Set-id bits of a file refer to the requested owner. Those of a directory only affect new
        // entries.
        let bits = match owned {
            Err(_) => !SET_ID,
            Ok(OwnerChange::GroupNotPermitted) if metadata.kind != FileKind::Directory => !SET_GROUP_ID,
            Ok(_) => !0,
        };
        let is_refused = xattrs.as_ref().is_err_and(|not_set| !not_set.acl);
        let refused_acl = has_xattrs.filter(|_| is_refused).and_then(|xattrs| acl_in(xattrs));
        let bits = bits & refused_acl.map_or(!0, bits_without_acl);
        // A directory without a requested group inherits the parent's group and set-group-id bit
        // (inode(7)).
        let is_heir = metadata.kind == FileKind::Directory && wanted.group.is_none();
        let inherited = if is_heir { metadata.mode & SET_GROUP_ID } else { 0 };
        let mode = wanted.mode.map(|mode| (mode & mode_mask | inherited) & bits);
        let mode = mode.filter(|mode| !is_link && (*mode != metadata.mode || owner_changed || acl));
        let mode = mode.map_or(Ok(()), |mode| match set_mode(target, mode) {
            // The mode is a default, and some file systems give all files the same mode.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) if wanted.masked => Ok(()),
            set => set.map_err(fault("set mode")),
        });
        let times = match wanted.mtime {
            Some(mtime) if mtime != metadata.mtime || matches!(target, Target::Open(_)) => {
                set_time(target, mtime.seconds, mtime.nanoseconds).map_err(fault("set time"))
            }
            _ => Ok(()),
        };
        owned.map(drop).and(xattrs.map(drop).map_err(|not_set| not_set.fault)).and(mode).and(times)
    }

    /// Copies the ACL of the file to be replaced, whose mode is kept, or removes the inherited one:
    /// the mode bits depend on it. Returns the mode bits that the file may have. `is_given` states
    /// whether the file inherited an ACL from its directory.
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
                // An ACL that cannot be removed was there before the transfer.
                let _ = rustix::fs::fremovexattr(file, ACCESS_ACL);
                !0
            }
            Err(_) => !0,
        }
    }

    fn set_owner(
        &self,
        target: Target<'_>,
        metadata: &FileStat,
        wanted: &Attributes,
    ) -> Result<OwnerChange, Fault> {
        let user = wanted.user.filter(|user| *user != metadata.user).map(Uid::from_raw);
        let group = wanted.group.filter(|group| *group != metadata.group).map(Gid::from_raw);
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
            // Users other than root may set their own groups. User namespaces without the group and
            // some servers report an invalid argument, sshfs denied access.
            Err(Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
                if user.is_none() && !self.super_user =>
            {
                Ok(OwnerChange::GroupNotPermitted)
            }
            result => result.map(|()| OwnerChange::Changed).map_err(fault("set owner")),
        }
    }

    /// As [`Roots::set_xattrs`]. Only root may set attributes of a read-only file (xattr(7)), so
    /// the file is made writable meanwhile.
    fn set_xattrs_of(
        &self,
        target: Target<'_>,
        metadata: &FileStat,
        wanted: &[Xattr],
    ) -> Result<bool, XattrFailure> {
        let refused = match self.set_xattrs(target, wanted) {
            Err(refused)
                if refused.fault.why == FaultKind::Permission
                    && matches!(metadata.kind, FileKind::File | FileKind::Directory) =>
            {
                refused
            }
            set => return set,
        };
        if metadata.mode & OWNER_WRITES != 0 || set_mode(target, metadata.mode | OWNER_WRITES).is_err() {
            return Err(refused);
        }
        let set = self.set_xattrs(target, wanted);
        set_mode(target, metadata.mode).map_err(fault("set mode")).map_err(XattrFailure::all)?;
        set
    }

    /// Sets extended attributes, and returns whether any changed. Rejects all if one is of a kind
    /// that no source sends: others control the file system or a security module.
    fn set_xattrs(&self, target: Target<'_>, wanted: &[Xattr]) -> Result<bool, XattrFailure> {
        let to_fault = fault("set extended attributes");
        let call = |errno| XattrFailure::all(to_fault(errno));
        if wanted.iter().any(|(name, _)| !is_preserved(name, true)) {
            return Err(call(Errno::PERM));
        }
        let path = match target {
            Target::Open(file) => CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())),
            Target::Named(place) => {
                path_of(place).map_err(fault("resolve name")).map_err(XattrFailure::all).map(Ok)?
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
        // An ACL may revoke the access that the other attributes need.
        let (acls, others): (Vec<_>, Vec<_>) =
            wanted.iter().partition(|(name, _)| name.starts_with(b"system."));
        let set = |(name, value): &Xattr| match target {
            Target::Open(file) => rustix::fs::fsetxattr(file, &**name, value, XattrFlags::empty()),
            Target::Named(_) => rustix::fs::lsetxattr(&path, &**name, value, XattrFlags::empty()),
        };
        let each = |all: Vec<&Xattr>| all.into_iter().map(set).fold(Ok(()), Result::and);
        let (others, acls) = (each(others), each(acls));
        let acl = acls.is_ok();
        others.and(acls).map_err(|errno| XattrFailure { fault: to_fault(errno), acl })?;
        Ok(changed)
    }
}

/// Sets the mode bits of a file, but not of a symbolic link.
pub fn set_mode(target: Target<'_>, bits: u32) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(bits);
    match target {
        Target::Open(file) => rustix::fs::fchmod(file, mode),
        Target::Named(place) => {
            // chmod(2) follows links, and fchmod(2) rejects O_PATH descriptors, so the mode is set
            // through the descriptor's path.
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

/// Sets the modification time of a file.
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
    fn preserved_attributes_exclude_file_system_internals() {
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
