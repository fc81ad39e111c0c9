//! Write permission for benchmarks: files created by this process and exclusively opened devices.
//!
//! The I/O engine writes to nothing else. A file is unlinked right after its creation, so the
//! kernel deletes it with the last descriptor, however this process exits.

use super::disk_facts::current_use;
use super::splitmix::SplitMix64;
use crate::interrupt;
use crate::user_files::create_unnamed;
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

/// Bytes per write when a file is filled.
const FILL_BYTES: usize = 1 << 20;
/// Reciprocal of the share of free space that is left unused on a file system.
const RESERVED_SHARE: u64 = 64;

/// Claims of this process: name and descriptor.
static CLAIMS: Mutex<Vec<(String, RawFd)>> = Mutex::new(Vec::new());

/// Counter for names of created files.
static FILE_COUNTER: AtomicU32 = AtomicU32::new(0);

/// A file or device that this process may write; dropping it releases the claim.
#[derive(Debug)]
pub struct Claim {
    name: String,
    file: File,
    bytes: u64,
}

/// Reason why a file or device cannot be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The file already exists.
    #[error("'{path}' exists already: numaio writes only to files that it creates")]
    Exists {
        /// The file.
        path: String,
    },
    /// The path is not a block device.
    #[error("'{path}' is not a block device")]
    NotBlockDevice {
        /// The path.
        path: String,
    },
    /// The device is in use.
    #[error("'{path}' is in use: {how}")]
    InUse {
        /// The device.
        path: String,
        /// Current use, as in `sda1 is mounted at /`.
        how: String,
    },
    /// The file system has too little free space.
    #[error("not enough space in '{path}': {} needed, {} available", size(*.needed_bytes), size(*.free_bytes))]
    NoSpace {
        /// The directory.
        path: String,
        /// Bytes needed.
        needed_bytes: u64,
        /// Bytes available.
        free_bytes: u64,
    },
    /// A signal interrupted the operation.
    #[error("interrupted")]
    Interrupted,
    /// A system call failed.
    #[error("{what}: {why}")]
    Refused {
        /// The operation, as in `open /dev/sda`.
        what: String,
        /// The kernel's error.
        why: io::Error,
    },
}

fn size(bytes: u64) -> String {
    numaio_machine::units::format_size(bytes)
}

impl Claim {
    /// Creates a file of `bytes` incompressible bytes, at a new path or with a generated name in
    /// a directory.
    ///
    /// # Errors
    /// [`ClaimError`]; the file is deleted.
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
        let file = create_unnamed(&path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => ClaimError::Exists { path: name.clone() },
            _ => ClaimError::Refused { what: format!("create {name}"), why: error },
        })?;
        check_space(&file, target, bytes)?;
        fill(&file, &name, bytes)?;
        Ok(Self::register(name, file, bytes))
    }

    /// Opens a block device exclusively (O_EXCL), so that it cannot be mounted or formatted. The
    /// benchmark may destroy all data on it.
    ///
    /// # Errors
    /// [`ClaimError::InUse`] if the device or a partition is mounted, used for swap or has holders.
    pub fn device(root: &dyn Sysfs, path: &str) -> Result<Self, ClaimError> {
        let refused = |why: Errno| ClaimError::Refused { what: format!("open {path}"), why: why.into() };
        let stat = rustix::fs::stat(path).map_err(refused)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
            return Err(ClaimError::NotBlockDevice { path: path.to_owned() });
        }
        // Checked first for the better message; O_EXCL is the actual protection.
        if let Some(how) = current_use(root, stat.st_rdev) {
            return Err(ClaimError::InUse { path: path.to_owned(), how });
        }
        let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
            Errno::BUSY => {
                ClaimError::InUse { path: path.to_owned(), how: "held exclusively by the kernel".into() }
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

    /// Returns the name of the claim for the I/O engine.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a path in /proc by which other programs can open it while this process runs.
    pub fn proc_path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Returns the length in bytes.
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

/// Opens a file or device for streams: through its claim if it has one, otherwise only for reading.
///
/// # Errors
/// The kernel's error, and EPERM for writing without a claim.
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
        what: format!("query free space of {path}"),
        why: why.into(),
    })?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let free_bytes = free - free / RESERVED_SHARE;
    match needed_bytes > free_bytes {
        true => Err(ClaimError::NoSpace { path, needed_bytes, free_bytes }),
        false => Ok(()),
    }
}

/// Writes every block: reads of preallocated blocks would not reach the device.
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
        // All pages differ, so that the device cannot deduplicate them.
        part.chunks_mut(4096).for_each(|page| random.fill(page.split_at_mut(page.len().min(16)).0));
        let length = (bytes - at).min(FILL_BYTES as u64) as usize;
        file.write_all_at(&part[..length], at).map_err(|error| refused("fill", error))?;
        at += length as u64;
    }
    file.sync_data().map_err(|error| refused("sync", error))?;
    // Drops the page cache so that reads reach the device. A failure is harmless.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}
