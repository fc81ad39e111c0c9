//! What may be written: files that this process made, and block devices that it has taken for itself.
//!
//! The engine writes to nothing else. A file is unlinked as soon as it is made: it is gone when its last descriptor is
//! closed, however this process ends.

use super::disk::current_use;
use super::splitmix::SplitMix64;
use crate::interrupt;
use numaio_machine::sysfs::Sysfs;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes written at once when a file is filled.
const FILL_BYTES: usize = 1 << 20;
/// Share of a file system's free space that is left to others: one part in this many.
const RESERVED_SHARE: u64 = 64;

/// Claims of this process: name, and descriptor by which it is held.
static CLAIMS: Mutex<Vec<(String, RawFd)>> = Mutex::new(Vec::new());

/// Files that this process has made.
static FILE_COUNTER: AtomicU32 = AtomicU32::new(0);

/// Something that this process may write; given up when dropped.
#[derive(Debug)]
pub struct Claim {
    name: String,
    file: File,
    bytes: u64,
}

/// Why something may not be written.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// There is such a file, and it is not ours.
    #[error("{path}: it exists, and only files that numaio makes itself are written")]
    Exists {
        /// The file.
        path: String,
    },
    /// It is no block device.
    #[error("{path} is no block device")]
    NotBlockDevice {
        /// What was named.
        path: String,
    },
    /// Someone uses it.
    #[error("{path} is in use: {how}")]
    InUse {
        /// The device.
        path: String,
        /// By whom.
        how: String,
    },
    /// The file system is too full.
    #[error("{path} has {} free for this, and {} are needed", size(*.free_bytes), size(*.needed_bytes))]
    NoSpace {
        /// The folder.
        path: String,
        /// Bytes needed.
        needed_bytes: u64,
        /// Bytes that may be used.
        free_bytes: u64,
    },
    /// Stopped from outside.
    #[error("interrupted")]
    Interrupted,
    /// The kernel refused.
    #[error("{what}: {why}")]
    Refused {
        /// What was asked.
        what: String,
        /// The kernel's words.
        why: io::Error,
    },
}

fn size(bytes: u64) -> String {
    numaio_machine::units::size_for_people(bytes)
}

impl Claim {
    /// A file of that length, filled with bytes that no device can leave out, in a folder; or at a path at which there
    /// is nothing yet.
    ///
    /// # Errors
    /// [`ClaimError`]. Nothing is left of it then.
    pub fn file(target: &Path, bytes: u64) -> Result<Self, ClaimError> {
        let folder = target.is_dir();
        let path = match folder {
            true => target.join(format!(
                ".numaio-bench-{}-{}",
                std::process::id(),
                FILE_COUNTER.fetch_add(1, Ordering::Relaxed)
            )),
            false => target.to_owned(),
        };
        let name = path.display().to_string();
        let refused =
            |what: &str, why: Errno| ClaimError::Refused { what: format!("{what} {name}"), why: why.into() };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
        let file = made.map_err(|error| match error {
            Errno::EXIST => ClaimError::Exists { path: name.clone() },
            error => refused("make", error),
        })?;
        rustix::fs::unlink(&path).map_err(|error| refused("unlink", error))?;
        let file = File::from(file);
        check_space(&file, target, bytes)?;
        fill(&file, &name, bytes)?;
        Ok(Self::register(name, file, bytes))
    }

    /// A block device, taken so that nobody else mounts or formats it meanwhile. Everything on it may be destroyed.
    ///
    /// # Errors
    /// [`ClaimError::InUse`] if it is mounted, used for swap or held by others, or a partition of it is.
    pub fn device(root: &dyn Sysfs, path: &str) -> Result<Self, ClaimError> {
        let refused = |why: Errno| ClaimError::Refused { what: format!("open {path}"), why: why.into() };
        let stat = rustix::fs::stat(path).map_err(refused)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
            return Err(ClaimError::NotBlockDevice { path: path.to_owned() });
        }
        // What the kernel's files tell is the better message; O_EXCL is what keeps others out.
        if let Some(how) = current_use(root, stat.st_rdev) {
            return Err(ClaimError::InUse { path: path.to_owned(), how });
        }
        let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
            Errno::BUSY => {
                ClaimError::InUse { path: path.to_owned(), how: "the kernel holds it for others".into() }
            }
            error => refused(error),
        })?;
        let bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(refused)?;
        Ok(Self::register(path.to_owned(), File::from(file), bytes))
    }

    fn register(name: String, file: File, bytes: u64) -> Self {
        claims().push((name.clone(), file.as_raw_fd()));
        Self { name, file, bytes }
    }

    /// The name under which our own engine knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name by which other programs can open it as long as this process lives.
    pub fn proc_path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let fd = self.file.as_raw_fd();
        claims().retain(|(_, claimed)| *claimed != fd);
    }
}

fn claims() -> std::sync::MutexGuard<'static, Vec<(String, RawFd)>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a file or device for streams: by its claim if there is one, and without one only to be read.
///
/// # Errors
/// The kernel's, and EPERM if it is to be written without a claim.
pub(super) fn open(path: &str, write: bool, more: OFlags) -> Result<OwnedFd, Errno> {
    let access = if write { OFlags::WRONLY } else { OFlags::RDONLY };
    let flags = access | more | OFlags::CLOEXEC;
    let claims = claims();
    match claims.iter().find(|(name, _)| name == path) {
        Some((_, fd)) => rustix::fs::open(format!("/proc/self/fd/{fd}"), flags, Mode::empty()),
        None if write => Err(Errno::PERM),
        None => rustix::fs::open(path, flags, Mode::empty()),
    }
}

fn check_space(file: &File, target: &Path, needed_bytes: u64) -> Result<(), ClaimError> {
    let path = target.display().to_string();
    let found = rustix::fs::fstatvfs(file).map_err(|why| ClaimError::Refused {
        what: format!("ask for free space of {path}"),
        why: why.into(),
    })?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let free_bytes = free - free / RESERVED_SHARE;
    match needed_bytes > free_bytes {
        true => Err(ClaimError::NoSpace { path, needed_bytes, free_bytes }),
        false => Ok(()),
    }
}

/// Writes every byte: blocks that are only reserved would be read without the device.
fn fill(file: &File, path: &str, bytes: u64) -> Result<(), ClaimError> {
    let refused = |what: &str, why: io::Error| ClaimError::Refused { what: format!("{what} {path}"), why };
    let mut random = SplitMix64::new(u64::from(std::process::id()));
    let mut part = vec![0u8; FILL_BYTES];
    random.fill(&mut part);
    let mut at = 0;
    while at < bytes {
        if interrupt::interrupted() {
            return Err(ClaimError::Interrupted);
        }
        // No two pages are alike, so that none is stored once for all.
        part.chunks_mut(4096).for_each(|page| random.fill(page.split_at_mut(page.len().min(16)).0));
        let length = (bytes - at).min(FILL_BYTES as u64) as usize;
        file.write_all_at(&part[..length], at).map_err(|error| refused("fill", error))?;
        at += length as u64;
    }
    file.sync_data().map_err(|error| refused("write out", error))?;
    // Reads are to come from the device, those through the page cache too. Advice that is not taken costs nothing.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}
