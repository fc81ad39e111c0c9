//! Resolution of names below a root.

use super::beneath::directory;
use super::link_scope::LinkScope;
use super::resolved_name::ResolvedName;
use super::short_names::reject_short_path;
use crate::files::acl::default_bits;
use crate::files::fault::fault;
use numaio_mover::port::{Fault, FilePath};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::OFlags;
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
    /// Where symbolic links may lead; `None` if none are followed.
    followed: Option<&'a LinkScope>,
    /// Whether the operation only reads, so that a missing directory stays missing.
    read_only: bool,
}

/// A root, a directory name below it, and the open directory or the error.
type Last = (u32, Box<[u8]>, Result<OwnedFd, Errno>);

impl<'a> Resolver<'a> {
    /// Creates a resolver for the names of one operation.
    pub fn new(roots: &'a [OwnedFd], read_only: bool) -> Self {
        Self { roots, last: None, is_private: None, default_bits: None, followed: None, read_only }
    }

    /// Follows symbolic links within a scope, if there is one.
    pub fn following(self, followed: Option<&'a LinkScope>) -> Self {
        Self { followed, ..self }
    }

    /// Returns where symbolic links may lead; `None` if none are followed.
    pub fn followed(&self) -> Option<&'a LinkScope> {
        self.followed
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
            let found = match self.followed {
                Some(scope) => {
                    let flags = OFlags::PATH | OFlags::DIRECTORY;
                    scope.open(ResolvedName { directory: root, name: parent }, flags)
                }
                None => directory(root, parent),
            };
            let found = found.and_then(|found| reject_short_path(root, parent, found));
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
