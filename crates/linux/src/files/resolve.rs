//! Resolving names below a root.

use super::attributes::default_bits;
use super::fault::fault;
use super::short_names::reject_short_path;
use numaio_machine::port::{Fault, FilePath, Why};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Resolves the names of one operation, of which many lie in the same directory.
pub struct Resolver<'a> {
    roots: &'a [OwnedFd],
    /// The directory that was used last.
    last: Option<Last>,
    /// Whether nobody but us gets into it, if that was asked.
    is_private: Option<bool>,
    /// The directory of which the default ACL was asked for last, and what it leaves.
    default_bits: Option<(u32, Box<[u8]>, Option<u32>)>,
    /// Whether the operation only looks: a directory that is not there will not be there later in it.
    read_only: bool,
}

/// A root, the name of a directory below it, and the directory or why there is none.
type Last = (u32, Box<[u8]>, Result<OwnedFd, Errno>);

/// What a name below its root comes to.
#[derive(Clone, Copy)]
pub struct ResolvedName<'a> {
    /// The directory.
    pub directory: BorrowedFd<'a>,
    /// The name in it; `.` for a root itself.
    pub name: &'a [u8],
}

impl<'a> Resolver<'a> {
    pub fn new(roots: &'a [OwnedFd], read_only: bool) -> Self {
        Self { roots, last: None, is_private: None, default_bits: None, read_only }
    }

    /// The directory that holds a file, and its name there.
    pub fn resolve<'b>(&'b mut self, at: &'b FilePath) -> Result<ResolvedName<'b>, Fault> {
        self.resolve_or_errno(at).map_err(fault("open the directory"))
    }

    /// Whether a file lies in a directory, below the root, into which no other user but root gets: as one is that was made in this
    /// transfer, until its end.
    pub fn is_private(&mut self, at: &FilePath, user: u32) -> bool {
        if !at.name.contains(&b'/') || self.resolve_or_errno(at).is_err() {
            return false;
        }
        let Some((_, _, Ok(directory))) = &self.last else { return false };
        *self.is_private.get_or_insert_with(|| {
            rustix::fs::fstat(directory).is_ok_and(|stat| stat.st_mode & 0o077 == 0 && stat.st_uid == user)
        })
    }

    /// What the default ACL of the directory that holds a file leaves of the mode of something new, if it has one.
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

    /// As [`Resolver::resolve`], with the kernel's error.
    pub fn resolve_or_errno<'b>(&'b mut self, at: &'b FilePath) -> Result<ResolvedName<'b>, Errno> {
        // A root that is not there yet, in a rehearsal: nothing is below it.
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

/// Opens a directory below a root, without following any symbolic link.
pub fn directory(root: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, name, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => walk(root, name, flags),
        result => result,
    }
}

/// The same for kernels before 5.6 and sandboxes without openat2(2). Names have no `..`.
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
    /// Opens the file itself; a symbolic link is not followed. Nobody is waited for who should open the other end of a FIFO, but who
    /// gives up a lease (fcntl(2), `F_SETLEASE`), as file servers do.
    pub fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        match rustix::fs::openat(self.directory, self.name, flags | OFlags::NONBLOCK, mode) {
            Err(Errno::AGAIN) => self.open_leased(flags),
            opened => opened,
        }
    }

    /// Waits for what is held already and is a regular file: nothing else gets into its place.
    fn open_leased(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::openat(self.directory, self.name, path, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&held)?.st_mode) != FileType::RegularFile {
            return Err(Errno::AGAIN);
        }
        let flags = flags - OFlags::NOFOLLOW - OFlags::CREATE;
        rustix::fs::open(format!("/proc/self/fd/{}", held.as_raw_fd()), flags, Mode::empty())
    }

    /// A fault if this is a root, which stays what it is.
    pub fn not_the_root(&self) -> Result<(), Fault> {
        match self.name {
            b"." => Err(Fault::new(Why::Exists, "the root of the transfer is a directory")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_dots_lead_nowhere_with_and_without_openat2() {
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
