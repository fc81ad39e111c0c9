//! Files below opened directories: what a port does to them, one operation at a time.
//!
//! Every name is resolved below its root without following a symbolic link (openat2(2): `RESOLVE_BENEATH`,
//! `RESOLVE_NO_SYMLINKS`; component by component where the kernel has no such call). What is done to the last
//! component never follows one either.

mod attributes;
mod base;
mod checksum;
mod create;
mod direct;
mod extents;
mod fault;
mod filesystem;
mod flush;
#[cfg(test)]
mod fuse;
mod in_place;
mod journal;
mod list;
mod name_matching;
mod owner;
mod page_cache;
mod permissions;
mod read;
mod remove;
mod resolve;
mod short_names;
mod stat;
mod write;

pub use base::{Base, Directory};
pub use flush::flush;
pub use owner::temporary_name;

pub(crate) use direct::{Block, Request};

use in_place::InPlace;
use list::Listings;
use numaio_machine::port::{Fault, FilePath, Operation, Outcome, Part, Put, Why};
use page_cache::CachePolicy;
use resolve::Resolver;
use rustix::fd::OwnedFd;
use rustix::fs::{renameat_with, Mode, RenameFlags, CWD};
use stat::RunBudget;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Directories below which files are read and written.
#[derive(Debug)]
pub struct Roots {
    roots: Vec<OwnedFd>,
    /// Those of which errors are heard from when they were opened (syncfs(2)).
    synced: Vec<Option<OwnedFd>>,
    /// Which of them lie in memory.
    in_memory: Vec<bool>,
    /// The volume of each, where nothing is said when a file is closed.
    no_close_errors: Vec<Option<u64>>,
    cache: CachePolicy,
    in_place: InPlace,
    listings: Listings,
    journal: Mutex<Option<OwnedFd>>,
    super_user: bool,
    user: u32,
    /// Whom new files belong to on the volume where that was found out last.
    owner: Mutex<Option<(u64, u32)>>,
    /// Bits of a mode that new files of this process do not have (umask(2)).
    umask: u32,
}

/// How far an operation is.
#[derive(Debug)]
pub(crate) enum Started<B> {
    /// To its end.
    Done(Outcome<B>),
    /// A device is to move this block; then [`Roots::finish`] ends it.
    Pending(Block<B>),
}

impl Roots {
    /// Opens directories; symbolic links on the way to them are followed.
    ///
    /// # Errors
    /// The kernel's, and which path.
    pub fn open(paths: &[&Path]) -> Result<Self, (PathBuf, io::Error)> {
        Base::Host.roots(paths)
    }

    /// Directories that are open.
    fn of(roots: Vec<OwnedFd>) -> Self {
        Self {
            in_memory: roots.iter().map(direct::is_in_memory).collect(),
            no_close_errors: roots.iter().map(flush::volume_without_close_errors).collect(),
            roots,
            synced: Vec::new(),
            cache: CachePolicy::default(),
            in_place: InPlace::default(),
            listings: Listings::default(),
            journal: Mutex::new(None),
            super_user: crate::process::is_super_user(),
            user: crate::process::user(),
            owner: Mutex::default(),
            umask: umask(),
        }
    }

    /// Whether this process may do all that root may.
    pub fn is_super_user(&self) -> bool {
        self.super_user
    }

    /// Errors of disks from now on are told when all is made durable. Else those are not of which another process heard before.
    pub fn track_write_errors(&mut self) {
        self.synced = self.roots.iter().map(|root| write::open_for_sync(root).ok()).collect();
    }

    /// Where they are, as the kernel tells (proc_pid_fd(5)).
    ///
    /// # Errors
    /// The kernel's.
    pub fn paths(&self) -> io::Result<Vec<PathBuf>> {
        self.roots.iter().map(path_of_fd).collect()
    }

    /// Carries an operation out. `buffer` gives a buffer for what is read; nothing is read without.
    pub(crate) fn run<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        operation: Operation<B>,
        buffer: impl FnOnce() -> Option<B>,
    ) -> Outcome<B> {
        match self.start(operation, buffer) {
            Started::Done(outcome) => outcome,
            Started::Pending(block) => self.move_now(block),
        }
    }

    /// Carries an operation out, but for a block that a device is to move.
    pub(crate) fn start<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        operation: Operation<B>,
        buffer: impl FnOnce() -> Option<B>,
    ) -> Started<B> {
        let read_only = matches!(operation, Operation::Look { .. });
        let mut resolver = Resolver::new(&self.roots, read_only);
        Started::Done(match operation {
            // Packing is no matter of files: see `port::compression`.
            Operation::Read { pieces, hash, .. } => match buffer() {
                Some(buffer) => return self.read(resolver, pieces, hash, buffer),
                None => Outcome::Each(pieces.iter().map(|_| Err(no_buffer())).collect()),
            },
            Operation::Write { puts, data, hash, .. } => return self.write(resolver, &puts, data, hash),
            Operation::List { directory, most, details } => {
                Outcome::Listed(self.list(&mut resolver, &directory, most, details))
            }
            Operation::More { listing, most, details } => {
                Outcome::Listed(self.list_more(listing, most, details))
            }
            Operation::Look { at, details, links } => {
                let (mut budget, mut links) = (RunBudget::default(), links.iter().peekable());
                let mut look = |(index, at)| {
                    let link = links.next_if(|(of, _)| *of == index).map(|(_, target)| &**target);
                    self.stat(&mut resolver, at, details, link, &mut budget)
                };
                Outcome::Looked(at.iter().enumerate().map(&mut look).collect())
            }
            Operation::Sum(summing) => Outcome::Summed(checksum::checksum(&mut resolver, summing)),
            Operation::Make(makings) => {
                Outcome::Each(makings.iter().map(|making| self.make(&mut resolver, making)).collect())
            }
            Operation::Adorn(all) => {
                let set_attributes = |(at, attributes)| self.set_attributes(&mut resolver, at, attributes);
                Outcome::Each(
                    all.iter().map(|(at, attributes)| (at, attributes)).map(set_attributes).collect(),
                )
            }
            Operation::Remove(all) => {
                Outcome::Each(all.iter().map(|at| remove::remove(&mut resolver, at)).collect())
            }
            Operation::Open { journal, most } => {
                Outcome::Opened(self.open_journal(&mut resolver, &journal, most))
            }
            Operation::Record(record) => Outcome::Each(self.record(&mut resolver, &record)),
            Operation::Sync { root } => Outcome::Each(vec![self.sync(root)]),
        })
    }

    /// The file that an operation is better alone in: one that is written to through the page cache, as the kernel lets one
    /// thread do that at a time, and others would wait for it turning in circles. `is_behind` tells whether more waits to be written
    /// than the storage takes.
    pub(crate) fn exclusive_file<'a, B>(
        &self,
        operation: &'a Operation<B>,
        is_behind: impl FnOnce() -> bool,
    ) -> Option<&'a FilePath> {
        let Operation::Write { puts, .. } = operation else { return None };
        let [put] = &puts[..] else { return None };
        let is_cached = match self.part_for_device(put) {
            Some(part) => self.cache.decide_for(part.offset, is_behind),
            None => !put.parts.is_empty(),
        };
        is_cached.then_some(&put.at)
    }

    /// What is written of a file, if a device could take all of it at once.
    fn part_for_device<'a>(&self, put: &'a Put) -> Option<&'a Part> {
        let [part] = &put.parts[..] else { return None };
        let in_memory = self.in_memory.get(put.at.root as usize).is_some_and(|in_memory| *in_memory);
        (!in_memory && !put.sparse).then_some(part)
    }

    fn journal(&self) -> std::sync::MutexGuard<'_, Option<OwnedFd>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn no_buffer() -> Fault {
    Fault::new(Why::Other, "there is no buffer")
}

/// Gives a file another name, if nothing has that one yet.
///
/// # Errors
/// The kernel's: [`AlreadyExists`](io::ErrorKind::AlreadyExists), or that the file system cannot do it at once.
pub fn rename_no_replace(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Whether files are reached by their open descriptors (proc_pid_fd(5)): without, modes and extended attributes of what cannot be
/// opened are neither read nor set.
pub fn has_proc() -> bool {
    Path::new("/proc/self/fd").is_dir()
}

/// Where something lies that is open, without links on its way (proc_pid_fd(5)).
fn path_of_fd(file: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Whether a path names what one process has open (proc_pid_fd(5)): another one has something else there, or nothing.
pub fn is_process_private(path: &Path) -> bool {
    ["/dev/stdin", "/dev/fd", "/proc"].iter().any(|of| path.starts_with(of))
}

/// The umask of this process, which can only be asked for by setting it: before threads make files.
fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

#[cfg(test)]
mod tests;
