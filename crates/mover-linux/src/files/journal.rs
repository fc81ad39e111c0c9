//! Journal of a transfer, locked so that two transfers never write to the same one.

use super::data::write_all;
use super::fault::fault;
use super::file_stat::file_stat;
use super::path::{ResolvedName, Resolver};
use super::permissions::ensure_mode_bits;
use super::roots::{OpenJournal, Roots};
use super::temporary_file::replace_atomically;
use numaio_mover::port::{Fault, FaultKind, FileKind, FilePath, FileStat, JournalWrite, OpenedJournal};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::{retry_on_intr, Errno};

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
        let file = match place.open(OFlags::RDWR, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(OpenedJournal::Absent),
            file => file.map_err(fault("open journal"))?,
        };
        let Some(found) = self.lock(place, &file)? else { return Ok(OpenedJournal::Locked) };
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
        Ok(OpenedJournal::Content(content))
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
        let file = place.open(flags, JOURNAL_MODE).map_err(fault("create journal"))?;
        match self.lock(place, &file)?.is_some_and(|found| found.links < 2) {
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
        let is_it = |named: FileStat| (named.volume, named.inode) == (found.volume, found.inode);
        Ok(if named.is_ok_and(|stat| is_it(file_stat(&stat))) { Some(look()?) } else { None })
    }
}

fn locked(file: &OwnedFd) -> Result<bool, Fault> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(fault("lock journal")(errno)),
    }
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
