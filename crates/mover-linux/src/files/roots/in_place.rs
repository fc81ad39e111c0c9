//! Files written in place by several operations, each of which opens the file by its name and must
//! verify that it is still the same file.

use crate::files::attributes::OWNER_WRITES;
use crate::files::data::read::is_renumbered;
use crate::files::fault::fault;
use crate::files::path::resolver::ResolvedName;
use crate::files::stat::file_stat;
use numaio_mover::port::{Fault, FaultKind, FileKind, FilePath};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of partial files, more than a mover has outstanding. Failed files, and those that
/// the source stops sending, are never removed.
const MAX_FILES: usize = 1 << 18;

/// Identity of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileIdentity {
    volume: u64,
    inode: u64,
    /// Creation time, if reported: inode numbers of removed files are reused.
    born: Option<(i64, u32)>,
}

/// Identities of partial files, by hash of their names.
#[derive(Debug, Default)]
pub struct InPlace {
    started: Mutex<HashMap<u64, FileIdentity>>,
    keys: RandomState,
}

impl InPlace {
    /// Records the file that is written under a name from now on.
    pub fn begin(&self, at: &FilePath, file: &OwnedFd) -> Result<(), Fault> {
        let identity_of = identity_of(file)?;
        let mut started = self.started();
        if started.len() >= MAX_FILES {
            return Err(Fault::new(FaultKind::Other, "too many partial files"));
        }
        started.insert(self.keys.hash_one(at), identity_of);
        Ok(())
    }

    /// Fails if the name refers to another file than recorded, or the file has a further hard link.
    pub fn check(&self, at: &FilePath, file: &OwnedFd) -> Result<(), Fault> {
        let (started, there) = (self.started().get(&self.keys.hash_one(at)).copied(), identity_of(file)?);
        let same =
            |started: FileIdentity| started == there || started.volume == there.volume && is_renumbered(file);
        match started.is_some_and(same) {
            true => Ok(()),
            false => Err(changed()),
        }
    }

    /// Forgets a complete file.
    pub fn end(&self, at: &FilePath) {
        self.started().remove(&self.keys.hash_one(at));
    }

    fn started(&self) -> MutexGuard<'_, HashMap<u64, FileIdentity>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file opened for writing in place.
pub struct Opened {
    pub file: OwnedFd,
    /// Mode bits of a previously read-only file, which stays writable until its final mode is set.
    pub restore_mode: Option<u32>,
}

/// Opens the existing file or creates one, making an own read-only file writable.
pub fn open(place: ResolvedName<'_>, mode: Mode) -> Result<Opened, Errno> {
    match open_existing_or_new(place, mode) {
        Err(Errno::ACCESS) => open_read_only(place)?.ok_or(Errno::ACCESS),
        file => file.map(|file| Opened { file, restore_mode: None }),
    }
}

/// Opens the existing file or creates one. With O_CREAT the kernel refuses to open other users'
/// files in directories such as /tmp, even for root (`fs.protected_regular`, proc_sys_fs(5)), so it
/// is only used if the file is missing; a file appearing meanwhile is protected. Links are not
/// followed.
fn open_existing_or_new(place: ResolvedName<'_>, mode: Mode) -> Result<OwnedFd, Errno> {
    match place.open(OFlags::WRONLY, Mode::empty()) {
        Err(Errno::NOENT) => place.open(OFlags::WRONLY | OFlags::CREATE, mode),
        opened => opened,
    }
}

/// Makes an own read-only file writable and opens it; none if it is another kind of file. An O_PATH
/// descriptor ensures that no other file gets the permission.
fn open_read_only(place: ResolvedName<'_>) -> Result<Option<Opened>, Errno> {
    let Ok(held) = place.open(OFlags::PATH, Mode::empty()) else { return Ok(None) };
    let Ok(stat) = rustix::fs::fstat(&held) else { return Ok(None) };
    let (metadata, bits) = (file_stat(&stat), Mode::from_raw_mode(stat.st_mode).bits());
    let is_ours = metadata.kind == FileKind::File && stat.st_uid == rustix::process::geteuid().as_raw();
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    let allow = |bits| rustix::fs::chmod(&path, Mode::from_raw_mode(bits));
    if !is_ours || metadata.links > 1 || bits & OWNER_WRITES != 0 || allow(bits | OWNER_WRITES).is_err() {
        return Ok(None);
    }
    match rustix::fs::open(&path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => Ok(Some(Opened { file, restore_mode: Some(bits) })),
        Err(errno) => {
            let _ = allow(bits);
            Err(errno)
        }
    }
}

fn identity_of(file: &OwnedFd) -> Result<FileIdentity, Fault> {
    let metadata = file_stat(&rustix::fs::fstat(file).map_err(fault("stat"))?);
    // Writing to a hard link would change all of its names.
    if metadata.kind != FileKind::File || metadata.links > 1 {
        return Err(changed());
    }
    let statx = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok();
    let statx = statx.filter(|statx| statx.stx_mask & StatxFlags::BTIME.bits() != 0);
    let born = statx.map(|statx| (statx.stx_btime.tv_sec, statx.stx_btime.tv_nsec));
    Ok(FileIdentity { volume: metadata.volume, inode: metadata.inode, born })
}

fn changed() -> Fault {
    Fault::new(FaultKind::Changed, "file was replaced or hard-linked while it was written")
}
