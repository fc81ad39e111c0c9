//! Extended attributes that a transfer preserves.

use super::path::ResolvedName;
use super::xattr_buffer::fill;
use numaio_mover::port::{is_root_only_xattr, Xattr};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

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
    if names.peek().is_none() {
        return Ok(Default::default());
    }
    let path = place.proc_path()?;
    values_of(names, |name, buffer| rustix::fs::lgetxattr(&path, name, buffer))
}

/// Returns extended attributes of an object that may be open without access (`O_PATH`), as
/// [`xattrs_of`] does.
pub fn xattrs_of_open(file: &OwnedFd, kept: impl Fn(&[u8]) -> bool) -> Result<(Vec<Xattr>, bool), Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut names = Vec::new();
    match fill(&mut names, |buffer| rustix::fs::listxattr(&path, buffer)) {
        Err(Errno::NOTSUP) => return Ok(Default::default()),
        result => result?,
    }
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty() && kept(name));
    values_of(names, |name, buffer| rustix::fs::getxattr(&path, name, buffer))
}

/// Reads the values of extended attributes.
fn values_of<'a>(
    names: impl Iterator<Item = &'a [u8]>,
    get: impl Fn(&[u8], &mut [u8]) -> Result<usize, Errno>,
) -> Result<(Vec<Xattr>, bool), Errno> {
    let (mut found, mut has_hidden_xattrs) = (Vec::new(), false);
    for name in names {
        let mut value = Vec::new();
        match fill(&mut value, |buffer| get(name, buffer)) {
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
