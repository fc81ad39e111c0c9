//! Following a path component by component, for kernels without openat2(2) and for sandboxes that refuse it.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// Symbolic links followed before a path counts as a loop, as in the kernel.
const MAX_LINKS: usize = 40;

/// Components a path may have in all: each costs an open file while the walk lasts.
const MAX_COMPONENTS: usize = 256;

/// Where a path led: the files from the root down, none of them a link.
pub struct WalkedPath<'a> {
    root: BorrowedFd<'a>,
    steps: Vec<(String, OwnedFd)>,
}

/// Follows a path and every link in it; `..` in the root is the root, and an absolute link begins there.
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
        // An empty path means the link that is open itself (readlink(2), since Linux 2.6.39).
        let target = rustix::fs::readlinkat(&file, "", Vec::new())?;
        let target = target.into_string().map_err(|_| Errno::NOENT)?;
        if target.starts_with('/') {
            found.steps.clear();
        }
        push(&mut rest, &target)?;
    }
    Ok(found)
}

/// Puts the components of a path on the stack of what is still to be walked.
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
    /// The path from the root, without links.
    pub fn canonical(&self) -> String {
        if self.steps.is_empty() {
            return "/".to_owned();
        }
        self.steps.iter().flat_map(|(name, _)| ["/", name]).collect()
    }

    /// Opens what was found for more than its place; refused if a link has taken its place meanwhile.
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
