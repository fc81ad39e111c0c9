//! Files written in place by several operations, each of which opens the file by its name and must
//! verify that it is still the same file.

use crate::files::fault::fault;
use crate::files::file_stat::file_stat;
use crate::files::identity::is_renumbered;
use numaio_mover::port::{Fault, FaultKind, FileKind, FilePath};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, StatxFlags};
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
