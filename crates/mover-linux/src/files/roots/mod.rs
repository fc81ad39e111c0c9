//! Root directories, and what lasts between operations below them.

mod in_order;
mod in_place;
mod open_listings;
mod page_cache;

pub(super) use in_order::AppendedFile;
pub(super) use open_listings::OpenListing;

use super::filesystem::is_in_memory;
use super::flush::volume_without_close_errors;
use super::path::LinkScope;
use super::proc::path_of_fd;
use in_order::AppendedFiles;
use in_place::InPlace;
use numaio_mover::port::{FilePath, Operation};
use open_listings::OpenListings;
use page_cache::CachePolicy;
pub use page_cache::DirectIo;
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Root directories below which files are read and written.
#[derive(Debug)]
pub struct Roots {
    pub(super) roots: Vec<OwnedFd>,
    /// Descriptors that report all write errors since they were opened (syncfs(2)).
    pub(super) synced: Vec<Option<OwnedFd>>,
    /// Whether each root is on a memory file system.
    pub(super) in_memory: Vec<bool>,
    /// Volume of each root whose file system reports no errors on close.
    pub(super) no_close_errors: Vec<Option<u64>>,
    pub(super) cache: CachePolicy,
    pub(super) in_place: InPlace,
    /// Files that are written in order, if all are.
    pub(super) in_order: Option<AppendedFiles>,
    pub(super) listings: OpenListings,
    /// Whether directories are listed in the order of inode numbers.
    pub(super) sorts_listings: bool,
    journal: Mutex<Option<OpenJournal>>,
    pub(super) super_user: bool,
    pub(super) user: u32,
    /// Owner of new files on the volume where it was last determined.
    pub(super) owner: Mutex<Option<(u64, u32)>>,
    /// Mode bits that new files of this process lack (umask(2)).
    pub(super) umask: u32,
    /// Where symbolic links may lead; `None` if none are followed.
    pub(super) followed: Option<LinkScope>,
    /// Name of a file by which directories are recognized that are not listed, and the reason.
    pub(super) marker: Option<(Vec<u8>, &'static str)>,
    /// Whether that does not apply to the roots themselves.
    pub(super) lists_marked_roots: bool,
    /// Whether an existing file is not written in place.
    pub(super) keeps_existing: bool,
}

/// The open and locked journal.
#[derive(Debug)]
pub struct OpenJournal {
    pub(super) at: FilePath,
    pub(super) file: OwnedFd,
}

impl Roots {
    /// Creates roots from open directories.
    pub(super) fn of(roots: Vec<OwnedFd>) -> Self {
        Self {
            in_memory: roots.iter().map(is_in_memory).collect(),
            no_close_errors: roots.iter().map(volume_without_close_errors).collect(),
            roots,
            synced: Vec::new(),
            cache: CachePolicy::default(),
            in_place: InPlace::default(),
            in_order: None,
            listings: OpenListings::default(),
            sorts_listings: true,
            journal: Mutex::new(None),
            super_user: numaio_linux::process::is_super_user(),
            user: numaio_linux::process::user(),
            owner: Mutex::default(),
            umask: umask(),
            followed: None,
            marker: None,
            lists_marked_roots: false,
            keeps_existing: false,
        }
    }

    /// Sets which blocks are read and written past the page cache.
    pub fn set_direct_io(&mut self, direct: DirectIo) {
        self.cache.direct = direct;
    }

    /// Writes each file from its start to its end by one thread at a time, and keeps it open
    /// meanwhile.
    pub fn write_in_order(&mut self) {
        self.in_order = Some(AppendedFiles::default());
    }

    /// Returns whether files are written in order.
    pub(crate) fn writes_in_order(&self) -> bool {
        self.in_order.is_some()
    }

    /// Writes new files in place, but no existing one: it may be the source by another path.
    pub fn keep_existing(&mut self) {
        self.keeps_existing = true;
    }

    /// Lists directories in the order of the file system instead of inode numbers.
    pub fn keep_listing_order(&mut self) {
        self.sorts_listings = false;
    }

    /// Refuses to list the directories that have a marker, for a reason.
    pub fn refuse_marked(&mut self, marker: Vec<u8>, why: &'static str) {
        self.marker = Some((marker, why));
    }

    /// Lists the roots although they are marked.
    pub fn accept_marked_roots(&mut self) {
        self.lists_marked_roots = true;
    }

    /// Returns whether this process runs as root.
    pub fn is_super_user(&self) -> bool {
        self.super_user
    }

    /// Adds the first root of others, and returns its index; `None` if they have none.
    ///
    /// # Errors
    /// I/O error if it cannot be held open.
    pub fn add_first_of(&mut self, others: &Self) -> io::Result<Option<u32>> {
        let Some(root) = others.roots.first() else { return Ok(None) };
        self.roots.push(root.try_clone()?);
        Ok(Some(self.roots.len() as u32 - 1))
    }

    /// Adds other roots; returns their numbers.
    ///
    /// # Errors
    /// I/O error if one cannot be held open.
    pub fn add(&mut self, others: &Self) -> io::Result<Range<u32>> {
        let first = self.roots.len() as u32;
        for root in &others.roots {
            self.roots.push(root.try_clone()?);
        }
        Ok(first..self.roots.len() as u32)
    }

    /// Returns the paths of the roots (proc_pid_fd(5)).
    ///
    /// # Errors
    /// I/O errors.
    pub fn paths(&self) -> io::Result<Vec<PathBuf>> {
        self.roots.iter().map(path_of_fd).collect()
    }

    /// Returns the root of the files that an operation reads; `None` if it changes files or reads
    /// none.
    pub(crate) fn root_read_by<B>(&self, operation: &Operation<B>) -> Option<u32> {
        match operation {
            Operation::List { directory, .. } => Some(directory.root),
            Operation::ListMore { listing, .. } => self.listings.root(*listing),
            Operation::Stat { at, .. } => at.first().map(|at| at.root),
            Operation::Read { pieces, .. } => pieces.first().map(|piece| piece.at.root),
            Operation::HashFile(hash) => Some(hash.at.root),
            _ => None,
        }
    }

    /// Returns the open journal.
    pub(super) fn journal(&self) -> MutexGuard<'_, Option<OpenJournal>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the umask as the process had it at the first call.
///
/// umask(2) returns it only when setting it: two threads that read it so at once could leave it
/// open, and files that others create meanwhile would be writable by all users. So it is read from
/// `/proc/self/status` (since Linux 4.7), and set only without that.
pub fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| reported_umask().unwrap_or_else(exchanged_umask))
}

fn reported_umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(mask.trim(), 8).ok()
}

fn exchanged_umask() -> u32 {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.as_raw_mode()
}
