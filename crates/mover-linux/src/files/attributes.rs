//! Attributes of files: owners, modes, times, extended attributes.

use super::acl::{acl_in, bits_without_acl, ACCESS_ACL};
use super::fault::fault;
use super::file_stat::file_stat;
use super::path::{ResolvedName, Resolver};
use super::permissions::{OWNER_WRITES, SET_GROUP_ID, SET_ID};
use super::roots::Roots;
use super::xattr_buffer::fill;
use super::xattrs::is_preserved;
use numaio_mover::port::{
    is_security_label, Attributes, Fault, FaultKind, FileKind, FilePath, FileStat, Xattr,
};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, UTIME_OMIT};
use rustix::io::Errno;
use std::ffi::CString;

/// File whose attributes are set.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// An open regular file.
    Open(BorrowedFd<'a>),
    /// A name; for a symbolic link the link itself.
    Named(ResolvedName<'a>),
}

/// Result of setting the user and group of a file.
enum OwnerChange {
    /// The owner was correct, or none was requested.
    Unchanged,
    /// The owner was changed.
    Changed,
    /// This user may not set the requested group, so the file keeps another one.
    GroupNotPermitted,
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
    /// Returns whether a volume is that of a root on one of the file systems in the kernel that are
    /// known to set each time separately; they also are those without close errors.
    pub(super) fn is_local(&self, volume: u64) -> bool {
        self.no_close_errors.contains(&Some(volume))
    }

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
        // Attributes that FUSE and network file systems cache can be older than the last change.
        let is_local = self.is_local(metadata.volume);
        let is_stale = |mtime| mtime != metadata.mtime || !is_local || matches!(target, Target::Open(_));
        let times = match wanted.mtime {
            Some(mtime) if is_stale(mtime) => {
                let set = if is_local { set_time_alone } else { set_time };
                set(target, mtime.seconds, mtime.nanoseconds).map_err(fault("set time"))
            }
            _ => Ok(()),
        };
        let all = owned.map(drop).and(xattrs.map(drop).map_err(|not_set| not_set.fault)).and(mode).and(times);
        all.map_err(|fault| match fault.why {
            FaultKind::NotKept => fault,
            _ => Fault { why: FaultKind::Attribute, ..fault },
        })
    }

    /// Copies the ACL of the file to be replaced, whose mode is kept, or removes the inherited one:
    /// the mode bits depend on it. Returns the mode bits that the file may have. `is_given` states
    /// whether the file inherited an ACL from its directory.
    pub(super) fn inherit_acl(place: ResolvedName<'_>, file: BorrowedFd<'_>, is_given: bool) -> u32 {
        let mut acl = Vec::new();
        let read = place
            .proc_path()
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
                place.proc_path().map_err(fault("resolve name")).map_err(XattrFailure::all).map(Ok)?
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
        // A label that the security module gave a new file stays.
        let is_ours = |name: &[u8]| is_preserved(name, self.super_user) && !is_security_label(name);
        let there = names.split(|&byte| byte == 0).filter(|name| is_ours(name));
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
        let each = |all: Vec<&Xattr>| {
            let set = |one: &Xattr| set(one).map_err(|errno| xattr_fault(&one.0, errno));
            all.into_iter().map(set).fold(Ok(()), Result::and)
        };
        let (others, acls) = (each(others), each(acls));
        let acl = acls.is_ok();
        others.and(acls).map_err(|fault| XattrFailure { fault, acl })?;
        Ok(changed)
    }
}

/// Returns the fault of an extended attribute that the kernel refuses. Labels belong to the
/// security module, which may keep its own.
fn xattr_fault(name: &[u8], errno: Errno) -> Fault {
    let fault = fault("set extended attributes")(errno);
    match is_security_label(name) {
        true => {
            let text = format!("{} is not kept: {}", name.escape_ascii(), fault.text);
            Fault::new(FaultKind::NotKept, text)
        }
        false => fault,
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

/// Sets the modification time of a file, and its access time to what it is.
///
/// File systems of libfuse 2 (unionfs-fuse, encfs, bindfs) ignore a request to set one of the times
/// only, and report success.
pub fn set_time(target: Target<'_>, seconds: i64, nanoseconds: u32) -> Result<(), Errno> {
    let stat = match target {
        Target::Open(file) => rustix::fs::fstat(file)?,
        Target::Named(place) => rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW)?,
    };
    let access = Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as _ };
    set_times(target, access, seconds, nanoseconds)
}

/// Sets the modification time of a file on a file system that leaves the access time as it is.
fn set_time_alone(target: Target<'_>, seconds: i64, nanoseconds: u32) -> Result<(), Errno> {
    set_times(target, Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, seconds, nanoseconds)
}

fn set_times(target: Target<'_>, access: Timespec, seconds: i64, nanoseconds: u32) -> Result<(), Errno> {
    let times = Timestamps {
        last_access: access,
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
    use super::super::fuse::{Volume, SETATTR, TIME};
    use super::*;
    use numaio_mover::port::Stamp;
    use std::fs::File;
    use std::os::fd::AsFd;

    /// Access time, among the attributes of a FUSE request (`FATTR_ATIME`).
    const ACCESS: u32 = 1 << 4;

    /// libfuse 2 ignores a request with one of the times, and reports success.
    #[test]
    fn fuse_gets_both_times() {
        let Some(volume) = Volume::mount("times", |_, _| 0) else { return };
        let roots = Roots::open(&[volume.path()]).expect("a root");
        let file = File::create(volume.path().join("file")).expect("a file");
        let metadata = file_stat(&rustix::fs::fstat(&file).expect("attributes"));
        let mtime = Some(Stamp { seconds: 1_577_836_800, nanoseconds: 5 });
        let wanted = Attributes { mtime, ..Attributes::default() };
        roots.set(Target::Open(file.as_fd()), &metadata, &wanted, !0).expect("set");
        let sets: Vec<u32> = volume.requests(&[SETATTR]).into_iter().map(|(_, sets)| sets).collect();
        assert!(sets.iter().any(|sets| sets & (TIME | ACCESS) == TIME | ACCESS), "{sets:x?}");
    }
}
