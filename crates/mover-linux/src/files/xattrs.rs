//! Extended attributes that a transfer preserves.

use super::path::ResolvedName;
use super::xattr_buffer::fill;
use numaio_mover::port::{is_root_only_xattr, is_security_label, Xattr};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns whether a transfer preserves an extended attribute: user attributes, ACLs, properties of
/// Btrfs, and as root also root's.
pub fn is_preserved(name: &[u8], super_user: bool) -> bool {
    let acl = matches!(name, b"system.posix_acl_access" | b"system.posix_acl_default");
    let is_users = name.starts_with(b"user.") || name.starts_with(b"btrfs.");
    is_users || acl || (super_user && is_root_only_xattr(name))
}

/// Returns whether the loss of an attribute that is not preserved is worth a report: not for a copy
/// of an ACL, nor for labels that a security module sets on all files.
fn is_reported(name: &[u8]) -> bool {
    !name.starts_with(b"trusted.SGI_ACL_") && !is_security_label(name)
}

/// Extended attributes of an object.
#[derive(Debug, Default)]
pub struct FoundXattrs {
    /// The preserved ones, sorted by name.
    pub preserved: Vec<Xattr>,
    /// Names of others whose loss is worth a report.
    pub others: Vec<Box<[u8]>>,
    /// Whether some are unreadable.
    pub has_hidden: bool,
}

/// Returns the extended attributes of an object. Opens no file.
pub fn xattrs_of(place: ResolvedName<'_>, super_user: bool) -> Result<FoundXattrs, Errno> {
    let mut names = Vec::new();
    if let Err(errno) = fill(&mut names, |buffer| names_at(place, buffer)) {
        return not_listed(errno);
    }
    if names.is_empty() {
        return Ok(FoundXattrs::default());
    }
    let path = place.proc_path()?;
    values_of(&names, super_user, |name, buffer| rustix::fs::lgetxattr(&path, name, buffer))
}

/// Returns extended attributes of an object that may be open without access (`O_PATH`), as
/// [`xattrs_of`] does.
pub fn xattrs_of_open(file: &OwnedFd, super_user: bool) -> Result<FoundXattrs, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut names = Vec::new();
    if let Err(errno) = fill(&mut names, |buffer| rustix::fs::listxattr(&path, buffer)) {
        return not_listed(errno);
    }
    values_of(&names, super_user, |name, buffer| rustix::fs::getxattr(&path, name, buffer))
}

/// Returns the extended attributes of an object that does not list them: some file systems without
/// extended attributes report an I/O error (rclone). The data is copied all the same.
fn not_listed(errno: Errno) -> Result<FoundXattrs, Errno> {
    match errno {
        Errno::NOTSUP | Errno::NOSYS => Ok(FoundXattrs::default()),
        Errno::IO => Ok(FoundXattrs { others: vec![(*b"(not listed)").into()], ..FoundXattrs::default() }),
        errno => Err(errno),
    }
}

/// Reads the values of preserved extended attributes, given all names, each with a zero byte.
fn values_of(
    names: &[u8],
    super_user: bool,
    get: impl Fn(&[u8], &mut [u8]) -> Result<usize, Errno>,
) -> Result<FoundXattrs, Errno> {
    let mut found = FoundXattrs::default();
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        if !is_preserved(name, super_user) {
            found.others.extend(is_reported(name).then(|| name.into()));
            continue;
        }
        let mut value = Vec::new();
        match fill(&mut value, |buffer| get(name, buffer)) {
            Ok(()) => found.preserved.push((name.into(), value.into_boxed_slice())),
            // It was removed meanwhile.
            Err(Errno::NODATA) => {}
            Err(Errno::ACCESS | Errno::PERM) => found.has_hidden = true,
            // A FUSE server may list attributes that the kernel does not support, when mounted in a
            // user namespace.
            Err(Errno::NOTSUP) if name.starts_with(b"system.") => {}
            Err(errno) => return Err(errno),
        }
    }
    found.preserved.sort_unstable();
    Ok(found)
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
    rustix::fs::llistxattr(place.proc_path()?, buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preserved_attributes_exclude_file_system_internals() {
        for name in [&b"user.x"[..], b"system.posix_acl_access", b"system.posix_acl_default"] {
            assert!(is_preserved(name, false) && is_preserved(name, true));
        }
        for name in [&b"trusted.x"[..], b"security.capability", b"security.selinux", b"security.ima"] {
            assert!(!is_preserved(name, false) && is_preserved(name, true));
        }
        for name in [&b"trusted.SGI_ACL_FILE"[..], b"trusted.SGI_ACL_DEFAULT", b"system.nfs4_acl"] {
            assert!(!is_preserved(name, true));
        }
        let reported =
            [&b"system.nfs4_acl"[..], b"security.capability", b"trusted.SGI_ACL_FILE", b"security.selinux"]
                .map(is_reported);
        assert_eq!(reported, [true, true, false, false]);
    }
}
