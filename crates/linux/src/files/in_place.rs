//! Files that are written to where they are, by many operations, each of which opens the file by its name: it may be another's by then.

use super::attributes::OWNER_WRITES;
use super::fault::fault;
use super::read::is_renumbered;
use super::resolve::ResolvedName;
use super::stat::file_stat;
use numaio_machine::port::{Fault, FileKind, FilePath, Why};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files that may be begun and not whole, more than a mover awaits: those that failed, or of which the source sends no more, are never
/// ended.
const MAX_FILES: usize = 1 << 18;

/// What tells a file from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileIdentity {
    volume: u64,
    inode: u64,
    /// When it was made, where the file system tells: the number of one that was removed is given to the next one.
    born: Option<(i64, u32)>,
}

/// Files that were begun, by hashes of their names, and what each was then.
#[derive(Debug, Default)]
pub struct InPlace {
    started: Mutex<HashMap<u64, FileIdentity>>,
    keys: RandomState,
}

impl InPlace {
    /// Notes what has a name and is written to from now on.
    pub fn begin(&self, at: &FilePath, file: &OwnedFd) -> Result<(), Fault> {
        let identity_of = identity_of(file)?;
        let mut started = self.started();
        if started.len() >= MAX_FILES {
            return Err(Fault::new(Why::Other, "too many files were begun and are not whole"));
        }
        started.insert(self.keys.hash_one(at), identity_of);
        Ok(())
    }

    /// A fault if what has a name now is not what was begun, or has another name, too.
    pub fn check(&self, at: &FilePath, file: &OwnedFd) -> Result<(), Fault> {
        let (started, there) = (self.started().get(&self.keys.hash_one(at)).copied(), identity_of(file)?);
        let same =
            |started: FileIdentity| started == there || started.volume == there.volume && is_renumbered(file);
        match started.is_some_and(same) {
            true => Ok(()),
            false => Err(changed()),
        }
    }

    /// It is whole.
    pub fn end(&self, at: &FilePath) {
        self.started().remove(&self.keys.hash_one(at));
    }

    fn started(&self) -> MutexGuard<'_, HashMap<u64, FileIdentity>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that is open to be written to where it is.
pub struct Opened {
    pub file: OwnedFd,
    /// The bits of its mode if it could not be written to before; it can be from then on, until it gets its mode in the end.
    pub restore_mode: Option<u32>,
}

/// The file that is there, else a new one; one of our own also where it may not be written to.
pub fn open(place: ResolvedName<'_>, mode: Mode) -> Result<Opened, Errno> {
    match open_existing_or_new(place, mode) {
        Err(Errno::ACCESS) => open_read_only(place)?.ok_or(Errno::ACCESS),
        file => file.map(|file| Opened { file, restore_mode: None }),
    }
}

/// The file that is there, else a new one. By a call that could make it the kernel does not open somebody else's file in a directory
/// such as /tmp, not to root either (`fs.protected_regular`, proc_sys_fs(5)): so that is called only where there is none, and what gets
/// the name between both calls is protected so. Neither follows a link.
fn open_existing_or_new(place: ResolvedName<'_>, mode: Mode) -> Result<OwnedFd, Errno> {
    match place.open(OFlags::WRONLY, Mode::empty()) {
        Err(Errno::NOENT) => place.open(OFlags::WRONLY | OFlags::CREATE, mode),
        opened => opened,
    }
}

/// A file of our own that may not be written to; none if it is no such file. It is held, so that it is no other one that gets the
/// right, whatever gets its name meanwhile.
fn open_read_only(place: ResolvedName<'_>) -> Result<Option<Opened>, Errno> {
    let Ok(held) = place.open(OFlags::PATH, Mode::empty()) else { return Ok(None) };
    let Ok(stat) = rustix::fs::fstat(&held) else { return Ok(None) };
    let (seen, bits) = (file_stat(&stat), Mode::from_raw_mode(stat.st_mode).bits());
    let is_ours = seen.kind == FileKind::File && stat.st_uid == rustix::process::geteuid().as_raw();
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    let allow = |bits| rustix::fs::chmod(&path, Mode::from_raw_mode(bits));
    if !is_ours || seen.links > 1 || bits & OWNER_WRITES != 0 || allow(bits | OWNER_WRITES).is_err() {
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
    let seen = file_stat(&rustix::fs::fstat(file).map_err(fault("look at it"))?);
    // What is written to one with several names is written to all of them.
    if seen.kind != FileKind::File || seen.links > 1 {
        return Err(changed());
    }
    let told = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok();
    let told = told.filter(|told| told.stx_mask & StatxFlags::BTIME.bits() != 0);
    let born = told.map(|told| (told.stx_btime.tv_sec, told.stx_btime.tv_nsec));
    Ok(FileIdentity { volume: seen.volume, inode: seen.inode, born })
}

fn changed() -> Fault {
    Fault::new(Why::Changed, "another file got its name while it was written, or it got another name")
}
