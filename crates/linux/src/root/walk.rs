//! Path resolution by component, where openat2(2) is missing or forbidden by a sandbox.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// Maximum number of symbolic links in a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Maximum number of components of a path: each holds an open file during the walk.
const MAX_COMPONENTS: usize = 256;

/// A resolved path: the files from the root down, without links.
pub struct WalkedPath<'a> {
    root: BorrowedFd<'a>,
    steps: Vec<(String, OwnedFd)>,
}

/// Resolves a path and all links; `..` of the root is the root, and absolute links begin there.
pub fn walk<'a>(root: BorrowedFd<'a>, path: &str) -> Result<WalkedPath<'a>, Errno> {
    let mut found = WalkedPath { root, steps: Vec::new() };
    let mut rest = Vec::new();
    push(&mut rest, path)?;
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == ".." {
            found.steps.pop();
            continue;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(found.last(), name.as_str(), flags, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::Symlink {
            found.steps.push((name, file));
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        // An empty path means the open link itself (readlink(2), since Linux 2.6.39).
        let target = rustix::fs::readlinkat(&file, "", Vec::new())?;
        let target = target.into_string().map_err(|_| Errno::NOENT)?;
        if target.starts_with('/') {
            found.steps.clear();
        }
        push(&mut rest, &target)?;
    }
    Ok(found)
}

/// Pushes the components of a path onto the stack of pending components.
fn push(rest: &mut Vec<String>, path: &str) -> Result<(), Errno> {
    if path.contains('\0') {
        return Err(Errno::NOENT);
    }
    let components = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    rest.extend(components.rev().take(MAX_COMPONENTS + 1).map(str::to_owned));
    if rest.len() > MAX_COMPONENTS {
        return Err(Errno::NAMETOOLONG);
    }
    Ok(())
}

impl WalkedPath<'_> {
    /// Returns the path from the root, without links.
    pub fn canonical(&self) -> String {
        if self.steps.is_empty() {
            return "/".to_owned();
        }
        self.steps.iter().flat_map(|(name, _)| ["/", name]).collect()
    }

    /// Reopens the file with `flags`; fails if a link has replaced it in the meantime.
    pub fn open(self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW;
        let Some((name, _)) = self.steps.last() else {
            return rustix::fs::openat(self.root, ".", flags, Mode::empty());
        };
        let parent = match self.steps.len() {
            1 => self.root,
            count => self.steps[count - 2].1.as_fd(),
        };
        rustix::fs::openat(parent, name.as_str(), flags, Mode::empty())
    }

    fn last(&self) -> BorrowedFd<'_> {
        self.steps.last().map_or(self.root, |(_, file)| file.as_fd())
    }
}
