//! Opening paths below a root, which neither links nor `..` may leave.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Attempts of openat2(2) when the tree changed concurrently (`EAGAIN`).
const TRIES: usize = 16;

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

/// Opens by openat2(2) with `RESOLVE_BENEATH`, which follows links that stay below.
pub fn find_below(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::PERM) => return walk_below(root, path, flags),
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Fallback for kernels before 5.6 and sandboxes without openat2(2): rejects links and `..`.
pub fn walk_below(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if path.starts_with(b"/") {
        return Err(Errno::XDEV);
    }
    let names: Vec<&[u8]> =
        path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b".")).collect();
    match names.is_empty() {
        true => rustix::fs::openat(root, ".", flags, Mode::empty()),
        false => walk(root, &names.join(&b'/'), flags | OFlags::NOFOLLOW),
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
