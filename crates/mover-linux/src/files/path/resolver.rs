//! Resolution of names below a root.

use super::short_names::reject_short_path;
use crate::files::attributes::default_bits;
use crate::files::fault::fault;
use numaio_mover::port::{Fault, FaultKind, FilePath};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Resolves the names of one operation, many of which share a directory.
pub struct Resolver<'a> {
    roots: &'a [OwnedFd],
    /// Most recently used directory.
    last: Option<Last>,
    /// Whether no other user can enter it; cached.
    is_private: Option<bool>,
    /// Most recently used directory with a default ACL query, and the mode bits that the ACL
    /// leaves.
    default_bits: Option<(u32, Box<[u8]>, Option<u32>)>,
    /// Whether the operation only reads, so that a missing directory stays missing.
    read_only: bool,
}

/// A root, a directory name below it, and the open directory or the error.
type Last = (u32, Box<[u8]>, Result<OwnedFd, Errno>);

/// A name resolved to its open directory.
#[derive(Clone, Copy)]
pub struct ResolvedName<'a> {
    /// Open directory.
    pub directory: BorrowedFd<'a>,
    /// Name in the directory; `.` for a root itself.
    pub name: &'a [u8],
}

impl<'a> Resolver<'a> {
    /// Creates a resolver for the names of one operation.
    pub fn new(roots: &'a [OwnedFd], read_only: bool) -> Self {
        Self { roots, last: None, is_private: None, default_bits: None, read_only }
    }

    /// Resolves a file to its directory and name.
    pub fn resolve<'b>(&'b mut self, at: &'b FilePath) -> Result<ResolvedName<'b>, Fault> {
        self.resolve_or_errno(at).map_err(fault("open directory"))
    }

    /// Returns whether only this user and root can enter the file's directory, below the root: true
    /// for directories created by this transfer until it ends.
    pub fn is_private(&mut self, at: &FilePath, user: u32) -> bool {
        if !at.name.contains(&b'/') || self.resolve_or_errno(at).is_err() {
            return false;
        }
        let Some((_, _, Ok(directory))) = &self.last else { return false };
        *self.is_private.get_or_insert_with(|| {
            rustix::fs::fstat(directory).is_ok_and(|stat| stat.st_mode & 0o077 == 0 && stat.st_uid == user)
        })
    }

    /// Returns the mode bits that the default ACL of the file's directory leaves to new entries, if
    /// any.
    pub fn default_bits(&mut self, at: &FilePath) -> Option<u32> {
        let parent =
            at.name.iter().rposition(|&byte| byte == b'/').map_or(&[][..], |slash| &at.name[..slash]);
        match &self.default_bits {
            Some((root, known, bits)) if *root == at.root && **known == *parent => *bits,
            _ => {
                let bits = self.resolve_or_errno(at).ok().and_then(|place| default_bits(place.directory));
                self.default_bits = Some((at.root, parent.into(), bits));
                bits
            }
        }
    }

    /// As [`Resolver::resolve`], with the errno.
    pub fn resolve_or_errno<'b>(&'b mut self, at: &'b FilePath) -> Result<ResolvedName<'b>, Errno> {
        // The root does not exist yet, in a dry run: it has no entries.
        let root = self.roots.get(at.root as usize).ok_or(Errno::NOENT)?.as_fd();
        if at.name.is_empty() {
            return Ok(ResolvedName { directory: root, name: b"." });
        }
        let Some(slash) = at.name.iter().rposition(|&byte| byte == b'/') else {
            return Ok(ResolvedName { directory: root, name: &at.name });
        };
        let (parent, name) = (&at.name[..slash], &at.name[slash + 1..]);
        let known = self.last.as_ref().is_some_and(|(root, last, found)| {
            *root == at.root && **last == *parent && (found.is_ok() || self.read_only)
        });
        if !known {
            let found = directory(root, parent).and_then(|found| reject_short_path(root, parent, found));
            self.last = Some((at.root, parent.into(), found));
            self.is_private = None;
        }
        match &self.last {
            Some((_, _, Ok(directory))) => Ok(ResolvedName { directory: directory.as_fd(), name }),
            Some((_, _, Err(errno))) => Err(*errno),
            None => Err(Errno::BADF),
        }
    }
}

/// Opens a directory below a root without following symbolic links.
pub fn directory(root: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, name, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => walk(root, name, flags),
        result => result,
    }
}

/// Fallback for kernels before 5.6 and sandboxes without openat2(2). Rejects `..`.
pub fn walk(root: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    for component in name.split(|&byte| byte == b'/') {
        if matches!(component, b"" | b"." | b"..") {
            return Err(Errno::XDEV);
        }
        let above = at.as_ref().map_or(root, AsFd::as_fd);
        at = Some(rustix::fs::openat(above, component, flags, Mode::empty())?);
    }
    at.ok_or(Errno::NOENT)
}

impl ResolvedName<'_> {
    /// Opens the file without following a symbolic link. Does not wait for the other end of a FIFO,
    /// but for the holder of a lease (fcntl(2), `F_SETLEASE`), such as a file server.
    pub fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        match rustix::fs::openat(self.directory, self.name, flags | OFlags::NONBLOCK, mode) {
            Err(Errno::AGAIN) => self.open_leased(flags),
            opened => opened,
        }
    }

    /// Opens a leased regular file through an O_PATH descriptor, so that nothing can replace it
    /// while waiting.
    fn open_leased(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::openat(self.directory, self.name, path, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&held)?.st_mode) != FileType::RegularFile {
            return Err(Errno::AGAIN);
        }
        let flags = flags - OFlags::NOFOLLOW - OFlags::CREATE;
        rustix::fs::open(format!("/proc/self/fd/{}", held.as_raw_fd()), flags, Mode::empty())
    }

    /// Rejects the root itself, which stays a directory.
    pub fn not_the_root(&self) -> Result<(), Fault> {
        match self.name {
            b"." => Err(Fault::new(FaultKind::Exists, "the root of the transfer must remain a directory")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_links_and_dot_dot_with_and_without_openat2() {
        let dir = std::env::temp_dir().join(format!("numaio-beneath-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("a/b")).expect("directories");
        std::os::unix::fs::symlink("/", dir.join("a/out")).expect("a link");
        std::os::unix::fs::symlink("b", dir.join("a/in")).expect("a link");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&dir, flags, Mode::empty()).expect("a root");
        let plain = flags | OFlags::NOFOLLOW;
        for open in [|root: BorrowedFd<'_>, name: &[u8], _| directory(root, name), walk] {
            assert!(open(root.as_fd(), b"a/b", plain).is_ok());
            for bad in [&b"a/out"[..], b"a/in", b"a/out/etc", b"..", b"a/../..", b"/etc", b"a/b/c"] {
                assert!(open(root.as_fd(), bad, plain).is_err(), "{}", bad.escape_ascii());
            }
        }
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
