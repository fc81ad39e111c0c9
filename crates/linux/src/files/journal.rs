//! The journal of a transfer: locked, so that two transfers never write to one.

use super::beneath::{Beneath, Place};
use super::fault::fault;
use super::look::seen;
use super::write::write_all;
use super::Roots;
use numaio_machine::port::{Fault, FileKind, FilePath, Journal, Record, Seen, Why};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::{retry_on_intr, Errno};

impl Roots {
    pub(super) fn open_journal(
        &self,
        beneath: &mut Beneath<'_>,
        at: &FilePath,
        most: usize,
    ) -> Result<Journal, Fault> {
        let place = beneath.place(at)?;
        let file = match place.open(OFlags::RDWR, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Journal::Absent),
            file => file.map_err(fault("open the journal"))?,
        };
        let Some(found) = self.lock(place, &file)? else { return Ok(Journal::Taken) };
        if found.links > 1 {
            // A backup by hard links has it, too: what we wrote would be in that. A new one takes its place.
            rustix::fs::unlinkat(place.directory, place.name, AtFlags::empty())
                .map_err(fault("remove the journal"))?;
            return Ok(Journal::Absent);
        }
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
        *self.journal() = Some(file);
        Ok(Journal::Ours(content))
    }

    /// What was written is made durable before it is noted; the results of both.
    pub(super) fn record(&self, beneath: &mut Beneath<'_>, record: &Record) -> Vec<Result<(), Fault>> {
        let mut results: Vec<_> = record.after.iter().map(|names| sync_one_of(beneath, names)).collect();
        let failed = results.iter().find_map(|result| result.as_ref().err()).cloned();
        results.push(failed.map_or_else(|| self.write_record(beneath, record), Err));
        results
    }

    fn write_record(&self, beneath: &mut Beneath<'_>, record: &Record) -> Result<(), Fault> {
        let mut journal = self.journal();
        if journal.is_none() {
            *journal = Some(self.create_journal(beneath.place(&record.journal)?)?);
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

    fn create_journal(&self, place: Place<'_>) -> Result<OwnedFd, Fault> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        let file = place.open(flags, Mode::RUSR | Mode::WUSR).map_err(fault("create the journal"))?;
        match self.lock(place, &file)?.is_some_and(|found| found.links == 1) {
            true => Ok(file),
            false => Err(Fault::new(Why::Exists, "another transfer has the journal")),
        }
    }

    /// Locks a journal of ours; none if another transfer has it, or it is somebody else's.
    fn lock(&self, place: Place<'_>, file: &OwnedFd) -> Result<Option<Seen>, Fault> {
        let seen = seen(&rustix::fs::fstat(file).map_err(fault("look at the journal"))?);
        if seen.kind != FileKind::File || !self.is_ours(place.directory, &seen)? {
            return Ok(None);
        }
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(seen)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(fault("lock the journal")(errno)),
        }
    }
}

/// Makes the data of a file durable that may be given its last name meanwhile. It counts under that one, too: a crash may take
/// the name back, and would leave what is noted without what it is about.
fn sync_one_of(beneath: &mut Beneath<'_>, names: &[FilePath]) -> Result<(), Fault> {
    let mut last = Errno::NOENT;
    for name in names {
        let open = |place: Place<'_>| match place.open(OFlags::RDONLY, Mode::empty()) {
            Err(Errno::ACCESS) => place.open(OFlags::WRONLY, Mode::empty()),
            opened => opened,
        };
        match open(beneath.place(name)?).and_then(rustix::fs::fdatasync) {
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
