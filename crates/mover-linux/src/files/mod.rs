//! File operations of a port below opened directories.
//!
//! Every name is resolved below its root without following symbolic links (openat2(2):
//! `RESOLVE_BENEATH`, `RESOLVE_NO_SYMLINKS`; component by component on older kernels). The last
//! component is never followed either.

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
use numaio_mover::port::{Fault, FaultKind, FilePath, FileWrite, Operation, Outcome, Part};
use page_cache::CachePolicy;
use resolve::Resolver;
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use stat::RunBudget;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Root directories below which files are read and written.
#[derive(Debug)]
pub struct Roots {
    roots: Vec<OwnedFd>,
    /// Descriptors that report all write errors since they were opened (syncfs(2)).
    synced: Vec<Option<OwnedFd>>,
    /// Whether each root is on a memory file system.
    in_memory: Vec<bool>,
    /// Volume of each root whose file system reports no errors on close.
    no_close_errors: Vec<Option<u64>>,
    cache: CachePolicy,
    in_place: InPlace,
    listings: Listings,
    journal: Mutex<Option<OwnedFd>>,
    super_user: bool,
    user: u32,
    /// Owner of new files on the volume where it was last determined.
    owner: Mutex<Option<(u64, u32)>>,
    /// Mode bits that new files of this process lack (umask(2)).
    umask: u32,
}

/// State of an operation after its start.
#[derive(Debug)]
pub(crate) enum Started<B> {
    /// Finished.
    Done(Outcome<B>),
    /// The device must still move a block, which [`Roots::finish`] completes.
    Pending(Block<B>),
}

impl Roots {
    /// Opens directories, following symbolic links to them.
    ///
    /// # Errors
    /// The failing path and its I/O error.
    pub fn open(paths: &[&Path]) -> Result<Self, (PathBuf, io::Error)> {
        Base::Host.roots(paths)
    }

    /// Creates roots from open directories.
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
            super_user: numaio_linux::process::is_super_user(),
            user: numaio_linux::process::user(),
            owner: Mutex::default(),
            umask: umask(),
        }
    }

    /// Returns whether this process runs as root.
    pub fn is_super_user(&self) -> bool {
        self.super_user
    }

    /// Starts tracking write errors, which the final sync reports. Otherwise errors already
    /// reported to another process are missed.
    pub fn track_write_errors(&mut self) {
        self.synced = self.roots.iter().map(|root| write::open_for_sync(root).ok()).collect();
    }

    /// Returns the paths of the roots (proc_pid_fd(5)).
    ///
    /// # Errors
    /// I/O errors.
    pub fn paths(&self) -> io::Result<Vec<PathBuf>> {
        self.roots.iter().map(path_of_fd).collect()
    }

    /// Executes an operation. `buffer` provides the buffer for reads.
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

    /// Executes an operation except for a block that the device must move.
    pub(crate) fn start<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        operation: Operation<B>,
        buffer: impl FnOnce() -> Option<B>,
    ) -> Started<B> {
        let read_only = matches!(operation, Operation::Stat { .. });
        let mut resolver = Resolver::new(&self.roots, read_only);
        Started::Done(match operation {
            // Compression is done by `port::compression`.
            Operation::Read { pieces, hash, .. } => match buffer() {
                Some(buffer) => return self.read(resolver, pieces, hash, buffer),
                None => Outcome::Results(pieces.iter().map(|_| Err(no_buffer())).collect()),
            },
            Operation::Write { puts, data, hash, .. } => return self.write(resolver, &puts, data, hash),
            Operation::List { directory, most, details } => {
                Outcome::Listed(self.list(&mut resolver, &directory, most, details))
            }
            Operation::ListMore { listing, most, details } => {
                Outcome::Listed(self.list_more(listing, most, details))
            }
            Operation::Stat { at, details, links } => {
                let (mut budget, mut links) = (RunBudget::default(), links.iter().peekable());
                let mut look = |(index, at)| {
                    let link = links.next_if(|(of, _)| *of == index).map(|(_, target)| &**target);
                    self.stat(&mut resolver, at, details, link, &mut budget)
                };
                Outcome::Stat(at.iter().enumerate().map(&mut look).collect())
            }
            Operation::HashFile(summing) => Outcome::HashedFile(checksum::checksum(&mut resolver, summing)),
            Operation::Create(makings) => {
                Outcome::Results(makings.iter().map(|making| self.make(&mut resolver, making)).collect())
            }
            Operation::SetAttributes(all) => {
                let set_attributes = |(at, attributes)| self.set_attributes(&mut resolver, at, attributes);
                Outcome::Results(
                    all.iter().map(|(at, attributes)| (at, attributes)).map(set_attributes).collect(),
                )
            }
            Operation::Remove(all) => {
                Outcome::Results(all.iter().map(|at| remove::remove(&mut resolver, at)).collect())
            }
            Operation::OpenJournal { journal, most } => {
                Outcome::OpenedJournal(self.open_journal(&mut resolver, &journal, most))
            }
            Operation::WriteJournal(record) => Outcome::Results(self.record(&mut resolver, &record)),
            Operation::Sync { root } => Outcome::Results(vec![self.sync(root)]),
        })
    }

    /// Returns the file that an operation should use exclusively: one written through the page
    /// cache, since the kernel serializes such writes and other threads would spin. `is_behind`
    /// states whether more writes are queued than the storage handles.
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

    /// Returns the part of a file to write, if the device could take it as one block.
    fn part_for_device<'a>(&self, put: &'a FileWrite) -> Option<&'a Part> {
        let [part] = &put.parts[..] else { return None };
        let in_memory = self.in_memory.get(put.at.root as usize).is_some_and(|in_memory| *in_memory);
        (!in_memory && !put.sparse).then_some(part)
    }

    fn journal(&self) -> std::sync::MutexGuard<'_, Option<OwnedFd>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn no_buffer() -> Fault {
    Fault::new(FaultKind::Other, "no buffer available")
}

/// Returns whether /proc/self/fd is available (proc_pid_fd(5)). Without it, modes and extended
/// attributes of files that cannot be opened are neither read nor set.
pub fn has_proc() -> bool {
    Path::new("/proc/self/fd").is_dir()
}

/// Returns the path of an open file, without symbolic links (proc_pid_fd(5)).
fn path_of_fd(file: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Returns whether a path refers to an open file of this process (proc_pid_fd(5)), which another
/// process would not find there.
pub fn is_process_private(path: &Path) -> bool {
    ["/dev/stdin", "/dev/fd", "/proc"].iter().any(|of| path.starts_with(of))
}

/// Returns the umask. The kernel reports it only when setting it, so call this before threads
/// create files.
fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

#[cfg(test)]
mod tests;
