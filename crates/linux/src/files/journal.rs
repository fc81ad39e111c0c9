//! The journal of a transfer: locked, so that two transfers never write to one.

use super::fault::fault;
use super::owner::replace_atomically;
use super::permissions::ensure_mode_bits;
use super::resolve::{ResolvedName, Resolver};
use super::stat::file_stat;
use super::write::write_all;
use super::Roots;
use numaio_machine::port::{Fault, FileKind, FilePath, Journal, Record, Seen, Why};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::{retry_on_intr, Errno};

/// The mode of a journal.
const JOURNAL_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

impl Roots {
    pub(super) fn open_journal(
        &self,
        resolver: &mut Resolver<'_>,
        at: &FilePath,
        most: usize,
    ) -> Result<Journal, Fault> {
        let place = resolver.resolve(at)?;
        let file = match place.open(OFlags::RDWR, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Journal::Absent),
            file => file.map_err(fault("open the journal"))?,
        };
        let Some(found) = self.lock(place, &file)? else { return Ok(Journal::Taken) };
        let mut content = vec![0; most.min(rustix::fs::fstat(&file).map_or(0, |stat| stat.st_size as usize))];
        let mut used = 0;
        while used < content.len() {
            let rest = &mut content[used..];
            match retry_on_intr(|| rustix::io::pread(&file, &mut *rest, used as u64))
                .map_err(fault("read"))?
            {
                0 => break,
                count => used += count,
            }
        }
        content.truncate(used);
        // A backup by hard links has it, too, and is not to have what we write.
        let file = if found.links > 1 { recreate(place, &content)? } else { file };
        *self.journal() = Some(file);
        Ok(Journal::Ours(content))
    }

    /// What was written is made durable before it is noted; the results of both.
    pub(super) fn record(&self, resolver: &mut Resolver<'_>, record: &Record) -> Vec<Result<(), Fault>> {
        let mut results: Vec<_> = record.after.iter().map(|names| sync_one_of(resolver, names)).collect();
        let failed = results.iter().find_map(|result| result.as_ref().err()).cloned();
        results.push(failed.map_or_else(|| self.write_record(resolver, record), Err));
        results
    }

    fn write_record(&self, resolver: &mut Resolver<'_>, record: &Record) -> Result<(), Fault> {
        let mut journal = self.journal();
        if journal.is_none() {
            *journal = Some(self.create_journal(resolver.resolve(&record.journal)?)?);
        }
        let Some(file) = journal.as_ref() else { return Ok(()) };
        write_all(file, &record.bytes, record.offset)?;
        let end = record.offset + record.bytes.len() as u64;
        rustix::fs::ftruncate(file, end).map_err(fault("cut the journal"))?;
        match record.sync {
            true => rustix::fs::fsync(file).map_err(fault("make the journal durable")),
            false => Ok(()),
        }
    }

    fn create_journal(&self, place: ResolvedName<'_>) -> Result<OwnedFd, Fault> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        let file = place.open(flags, JOURNAL_MODE).map_err(fault("create the journal"))?;
        match self.lock(place, &file)?.is_some_and(|found| found.links < 2) {
            true => {
                ensure_mode_bits(file.as_fd(), JOURNAL_MODE);
                Ok(file)
            }
            false => Err(Fault::new(Why::Exists, "another transfer has the journal")),
        }
    }

    /// Locks a journal of ours; none if another transfer has it. Fails with [`Why::Exists`] if it is somebody else's, who may keep it for
    /// ever.
    fn lock(&self, place: ResolvedName<'_>, file: &OwnedFd) -> Result<Option<Seen>, Fault> {
        let look =
            || rustix::fs::fstat(file).map(|stat| file_stat(&stat)).map_err(fault("look at the journal"));
        let found = look()?;
        if found.kind != FileKind::File || !self.is_ours(place.directory, &found)? {
            return Err(Fault::new(Why::Exists, "the journal is somebody else's"));
        }
        if !locked(file)? {
            return Ok(None);
        }
        // Whoever had it until now may have removed it, and another one may have begun the next.
        let named = rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW);
        let is_it = |named: Seen| (named.volume, named.inode) == (found.volume, found.inode);
        Ok(if named.is_ok_and(|stat| is_it(file_stat(&stat))) { Some(look()?) } else { None })
    }
}

fn locked(file: &OwnedFd) -> Result<bool, Fault> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(fault("lock the journal")(errno)),
    }
}

/// Gives a journal that is locked a file of its own.
fn recreate(place: ResolvedName<'_>, content: &[u8]) -> Result<OwnedFd, Fault> {
    let tried = fault("create the journal");
    replace_atomically(place, &tried, |beside| {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = beside.open(flags, JOURNAL_MODE).map_err(&tried)?;
        ensure_mode_bits(file.as_fd(), JOURNAL_MODE);
        locked(&file)?;
        write_all(&file, content, 0)?;
        Ok(file)
    })
}

/// Makes the data of a file durable that may be given its last name meanwhile. It counts under that one, too: a crash may take
/// the name back, and would leave what is noted without what it is about.
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
    Err(fault("make it durable")(last))
}
