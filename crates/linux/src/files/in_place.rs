//! Files that are written to where they are, by many operations, each of which opens the file by its name: it may be another's by then.

use super::fault::fault;
use super::look::seen;
use super::read::is_renumbered;
use numaio_machine::port::{Fault, FileKind, FilePath, Why};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, StatxFlags};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files that may be begun and not whole, more than a mover awaits: those that failed, or of which the source sends no more, are never
/// ended.
const MOST: usize = 1 << 18;

/// What tells a file from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    volume: u64,
    inode: u64,
    /// When it was made, where the file system tells: the number of one that was removed is given to the next one.
    born: Option<(i64, u32)>,
}

/// Files that were begun, by hashes of their names, and what each was then.
#[derive(Debug, Default)]
pub struct InPlace {
    begun: Mutex<HashMap<u64, Mark>>,
    keys: RandomState,
}

impl InPlace {
    /// Notes what has a name and is written to from now on.
    pub fn begin(&self, at: &FilePath, file: &OwnedFd) -> Result<(), Fault> {
        let mark = mark(file)?;
        let mut begun = self.begun();
        if begun.len() >= MOST {
            return Err(Fault::new(Why::Other, "too many files were begun and are not whole"));
        }
        begun.insert(self.keys.hash_one(at), mark);
        Ok(())
    }

    /// A fault if what has a name now is not what was begun, or has another name, too.
    pub fn check(&self, at: &FilePath, file: &OwnedFd) -> Result<(), Fault> {
        let (begun, there) = (self.begun().get(&self.keys.hash_one(at)).copied(), mark(file)?);
        let same = |begun: Mark| begun == there || begun.volume == there.volume && is_renumbered(file);
        match begun.is_some_and(same) {
            true => Ok(()),
            false => Err(changed()),
        }
    }

    /// It is whole.
    pub fn end(&self, at: &FilePath) {
        self.begun().remove(&self.keys.hash_one(at));
    }

    fn begun(&self) -> MutexGuard<'_, HashMap<u64, Mark>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn mark(file: &OwnedFd) -> Result<Mark, Fault> {
    let seen = seen(&rustix::fs::fstat(file).map_err(fault("look at it"))?);
    // What is written to one with several names is written to all of them.
    if seen.kind != FileKind::File || seen.links > 1 {
        return Err(changed());
    }
    let told = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok();
    let told = told.filter(|told| told.stx_mask & StatxFlags::BTIME.bits() != 0);
    let born = told.map(|told| (told.stx_btime.tv_sec, told.stx_btime.tv_nsec));
    Ok(Mark { volume: seen.volume, inode: seen.inode, born })
}

fn changed() -> Fault {
    Fault::new(Why::Changed, "another file got its name while it was written, or it got another name")
}
