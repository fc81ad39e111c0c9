//! Journal of a transfer, locked so that two transfers never write to the same one.

use super::data::write_all;
use super::fault::fault;
use super::file_stat::file_stat;
use super::identity::is_renumbered;
use super::path::{ResolvedName, Resolver};
use super::permissions::ensure_mode_bits;
use super::roots::{OpenJournal, Roots};
use super::temporary_file::replace_atomically;
use numaio_mover::journal;
use numaio_mover::port::{
    Fault, FaultKind, FileKind, FilePath, FileStat, JournalState, JournalWrite, OpenedJournal,
};
use numaio_mover::sink::{is_journal, shard_of_journal, AbandonedShard};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::{retry_on_intr, Errno};
use std::io;

/// Maximum entries of a directory that are examined for journals of other transfers.
const MAX_ENTRIES: usize = 4_096;
/// Mode of a journal.
const JOURNAL_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

impl Roots {
    pub(super) fn open_journal(
        &self,
        resolver: &mut Resolver<'_>,
        at: &FilePath,
        most: usize,
    ) -> Result<OpenedJournal, Fault> {
        let place = resolver.resolve(at)?;
        let others = OtherJournals::find(place)?;
        let state = match place.open(OFlags::RDWR, Mode::empty()) {
            Ok(file) => match self.lock(place, &file)? {
                None => JournalState::Locked,
                Some(found) => JournalState::Content(self.read_journal(at, place, file, &found, most)?),
            },
            Err(Errno::NOENT) => match self.adopt(place, &others.names)? {
                None => JournalState::Absent,
                Some((file, found)) => {
                    JournalState::Content(self.read_journal(at, place, file, &found, most)?)
                }
            },
            Err(errno) => return Err(fault("open journal")(errno)),
        };
        let has_others = others.may_be_more
            || state == JournalState::Locked
            || others.names.iter().any(|name| self.is_in_use(ResolvedName { name, ..place }));
        Ok(OpenedJournal { state, has_others })
    }

    /// Reads a locked journal, and keeps it open.
    fn read_journal(
        &self,
        at: &FilePath,
        place: ResolvedName<'_>,
        file: OwnedFd,
        found: &FileStat,
        most: usize,
    ) -> Result<Vec<u8>, Fault> {
        let mut content = vec![0; most.min(rustix::fs::fstat(&file).map_or(0, |stat| stat.st_size as usize))];
        let mut used = 0;
        while used < content.len() {
            let rest = &mut content[used..];
            match retry_on_intr(|| rustix::io::pread(&file, &mut *rest, used as u64))
                .map_err(fault("read journal"))?
            {
                0 => break,
                count => used += count,
            }
        }
        content.truncate(used);
        // A backup by hard links shares the file and must not see our writes.
        let file = if found.links > 1 { recreate(place, &content)? } else { file };
        *self.journal() = Some(OpenJournal { at: at.clone(), file });
        Ok(content)
    }

    /// Finds the shards that other processes copy to the first root, given the name of the journal
    /// of any of them. A lock of another host is visible only if the file system shares locks.
    ///
    /// # Errors
    /// I/O errors.
    pub fn other_shards(&self, journal: &[u8]) -> io::Result<OtherShards> {
        let Some(root) = self.roots.first() else { return Ok(OtherShards::default()) };
        let place = ResolvedName { directory: root.as_fd(), name: journal };
        let others = OtherJournals::find(place).map_err(|fault| io::Error::other(fault.text))?;
        let mut found = OtherShards::default();
        for name in others.names.into_iter().chain([journal.into()]) {
            let Some(number) = shard_of_journal(&name, journal) else { continue };
            let other = ResolvedName { name: &name, ..place };
            let Ok(file) = other.open(OFlags::RDWR, Mode::empty()) else { continue };
            match self.lock(other, &file) {
                Ok(Some(_)) => {
                    let mut header = [0; journal::HEADER];
                    let read = retry_on_intr(|| rustix::io::pread(&file, &mut header, 0)).unwrap_or(0);
                    let transfer = journal::transfer_of_journal(&header[..read]);
                    found.abandoned.push(AbandonedShard { journal: name, transfer });
                }
                Ok(None) => found.running.push(number),
                // Another user's journal cannot be removed.
                Err(_) => {}
            }
        }
        Ok(found)
    }

    /// Gives the first journal that no transfer uses the name of ours: an interrupted transfer left
    /// it, and its partial files may be resumed. A shard leaves those of other shards to them.
    fn adopt(
        &self,
        place: ResolvedName<'_>,
        names: &[Box<[u8]>],
    ) -> Result<Option<(OwnedFd, FileStat)>, Fault> {
        for name in names.iter().filter(|name| shard_of_journal(name, place.name).is_none()) {
            let other = ResolvedName { name, ..place };
            let Ok(file) = other.open(OFlags::RDWR, Mode::empty()) else { continue };
            let Ok(Some(found)) = self.lock(other, &file) else { continue };
            let (from, to) = ((other.directory, &**name), (place.directory, place.name));
            rustix::fs::renameat(from.0, from.1, to.0, to.1).map_err(fault("rename journal"))?;
            return Ok(Some((file, found)));
        }
        Ok(None)
    }

    /// Returns whether a transfer uses a journal, or may use it.
    fn is_in_use(&self, place: ResolvedName<'_>) -> bool {
        match place.open(OFlags::RDWR, Mode::empty()) {
            Ok(file) => !matches!(self.lock(place, &file), Ok(Some(_))),
            Err(errno) => errno != Errno::NOENT,
        }
    }

    /// Syncs the data that a record refers to before writing the record; returns both results.
    pub(super) fn record(
        &self,
        resolver: &mut Resolver<'_>,
        record: &JournalWrite,
    ) -> Vec<Result<(), Fault>> {
        let mut results: Vec<_> = record.after.iter().map(|names| sync_one_of(resolver, names)).collect();
        let failed = results.iter().find_map(|result| result.as_ref().err()).cloned();
        results.push(failed.map_or_else(|| self.write_record(resolver, record), Err));
        results
    }

    fn write_record(&self, resolver: &mut Resolver<'_>, record: &JournalWrite) -> Result<(), Fault> {
        let mut journal = self.journal();
        if journal.is_none() {
            let file = self.create_journal(resolver.resolve(&record.journal)?)?;
            *journal = Some(OpenJournal { at: record.journal.clone(), file });
        }
        let Some(OpenJournal { file, .. }) = journal.as_ref() else { return Ok(()) };
        write_all(file, &record.bytes, record.offset)?;
        let end = record.offset + record.bytes.len() as u64;
        rustix::fs::ftruncate(file, end).map_err(fault("truncate journal"))?;
        match record.sync {
            true => rustix::fs::fsync(file).map_err(fault("sync journal")),
            false => Ok(()),
        }
    }

    /// Closes a journal that was removed, before the times of its directory are set.
    ///
    /// libfuse keeps a removed open file under another name, and changes the directory when the
    /// file is closed.
    pub(super) fn close_removed_journal(&self, removed: &FilePath) {
        let mut journal = self.journal();
        if journal.as_ref().is_some_and(|journal| journal.at == *removed) {
            *journal = None;
        }
    }

    fn create_journal(&self, place: ResolvedName<'_>) -> Result<OwnedFd, Fault> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        let created = place.open(flags | OFlags::EXCL, JOURNAL_MODE);
        let is_new = created.is_ok();
        let file = match created {
            Err(Errno::EXIST) => place.open(flags, JOURNAL_MODE),
            created => created,
        };
        let file = file.map_err(fault("create journal"))?;
        let locked = self.lock(place, &file).inspect_err(|_| {
            if is_new {
                let _ = rustix::fs::unlinkat(place.directory, place.name, AtFlags::empty());
            }
        });
        match locked?.is_some_and(|found| found.links < 2) {
            true => {
                ensure_mode_bits(file.as_fd(), JOURNAL_MODE);
                Ok(file)
            }
            false => Err(Fault::new(FaultKind::Exists, "journal is in use by another transfer")),
        }
    }

    /// Locks an own journal; none if another transfer holds it. Fails with [`FaultKind::Exists`]
    /// for another user's journal, which may be locked forever.
    fn lock(&self, place: ResolvedName<'_>, file: &OwnedFd) -> Result<Option<FileStat>, Fault> {
        let look = || rustix::fs::fstat(file).map(|stat| file_stat(&stat)).map_err(fault("stat journal"));
        let found = look()?;
        if found.kind != FileKind::File || !self.is_ours(place.directory, &found)? {
            return Err(Fault::new(FaultKind::Exists, "journal belongs to another user"));
        }
        if !locked(file)? {
            return Ok(None);
        }
        // The previous holder may have removed it, and another transfer may have created the next
        // one.
        let named = rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW);
        let is_it = |named: FileStat| {
            let has_same_number = (named.volume, named.inode) == (found.volume, found.inode);
            has_same_number || named.volume == found.volume && is_renumbered(file) && is_locked(place)
        };
        Ok(if named.is_ok_and(|stat| is_it(file_stat(&stat))) { Some(look()?) } else { None })
    }
}

/// The shards of a tree, by their journals at the destination.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OtherShards {
    /// Numbers of the running shards.
    pub running: Vec<u32>,
    /// Shards that ended without completing their files.
    pub abandoned: Vec<AbandonedShard>,
}

/// Names of journals beside one.
struct OtherJournals {
    names: Vec<Box<[u8]>>,
    /// Whether the directory has too many entries to examine all.
    may_be_more: bool,
}

impl OtherJournals {
    fn find(place: ResolvedName<'_>) -> Result<Self, Fault> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(place.directory, ".", flags, Mode::empty());
        let directory = directory.and_then(Dir::new).map_err(fault("list directory"))?;
        let (mut names, mut left) = (Vec::new(), MAX_ENTRIES);
        for entry in directory {
            let entry = entry.map_err(fault("list directory"))?;
            let name = entry.file_name().to_bytes();
            if is_journal(name) && name != place.name {
                names.push(name.into());
            }
            left -= 1;
            if left == 0 {
                return Ok(Self { names, may_be_more: true });
            }
        }
        // In the order of their names, so that all transfers try the same one first.
        names.sort_unstable();
        Ok(Self { names, may_be_more: false })
    }
}

fn locked(file: &OwnedFd) -> Result<bool, Fault> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(Errno::NOSYS | Errno::NOTSUP | Errno::NOLCK) => {
            Err(Fault::new(FaultKind::Unsupported, "the file system of the destination has no locks"))
        }
        Err(errno) => Err(fault("lock journal")(errno)),
    }
}

/// Returns whether the journal with a name is locked: by this process, which has just locked it
/// unless it was replaced meanwhile.
fn is_locked(place: ResolvedName<'_>) -> bool {
    let again = place.open(OFlags::RDWR, Mode::empty());
    again.is_ok_and(|file| {
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
    })
}

/// Replaces a locked journal by a copy that is not hard-linked.
fn recreate(place: ResolvedName<'_>, content: &[u8]) -> Result<OwnedFd, Fault> {
    let tried = fault("create journal");
    replace_atomically(place, &tried, |beside| {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = beside.open(flags, JOURNAL_MODE).map_err(&tried)?;
        ensure_mode_bits(file.as_fd(), JOURNAL_MODE);
        locked(&file)?;
        write_all(&file, content, 0)?;
        Ok(file)
    })
}

/// Syncs the data of a file that may be renamed to its final name meanwhile, trying both names. A
/// crash may undo the rename, and the record must not refer to missing data.
fn sync_one_of(resolver: &mut Resolver<'_>, names: &[FilePath]) -> Result<(), Fault> {
    let mut last = Errno::NOENT;
    for name in names {
        let open = |place: ResolvedName<'_>| match place.open(OFlags::RDONLY, Mode::empty()) {
            Err(Errno::ACCESS) => place.open(OFlags::WRONLY, Mode::empty()),
            opened => opened,
        };
        match open(resolver.resolve(name)?).and_then(rustix::fs::fdatasync) {
            Err(Errno::NOENT) => {}
            Err(errno) => {
                last = errno;
                break;
            }
            Ok(()) => return Ok(()),
        }
    }
    Err(fault("sync")(last))
}
