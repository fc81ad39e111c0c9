//! Writing files under temporary names until they are complete.

use super::direct::{self, Block, BlockOperation};
use crate::files::attributes::{set_mode, Target};
use crate::files::fault::fault;
use crate::files::filesystem::{is_filesystem, BTRFS, EXT, F2FS, XFS};
use crate::files::flush::flush_errno;
use crate::files::path::resolver::{ResolvedName, Resolver};
use crate::files::path::short_names::reject_short_name;
use crate::files::permissions::ensure_mode_bits;
use crate::files::roots::in_place::{self, Opened};
use crate::files::stat::file_stat;
use crate::files::{Roots, Started};
use numaio_mover::port::{
    Fault, FaultKind, FileCompletion, FileKind, FilePath, FileStat, FileWrite, Hash, OpenMode, Outcome, Part,
    BLOCK,
};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::{retry_on_intr, Errno};
use std::ops::Range;

impl Roots {
    pub(in crate::files) fn write<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        mut resolver: Resolver<'_>,
        puts: &[FileWrite],
        data: Option<B>,
        hash: Hash,
    ) -> Started<B> {
        let bytes = data.as_ref().map_or(&[][..], AsRef::as_ref);
        let past = match puts {
            [put] => self.direct_part(put, bytes).map(|part| (put, part)),
            _ => None,
        };
        match (past, data) {
            (Some((put, part)), Some(data)) => {
                match self.open_checked(&mut resolver, put, data.as_ref(), hash) {
                    Ok(file) => self.start_direct(Block::new(
                        file,
                        data,
                        part.clone(),
                        BlockOperation::Write(put.clone()),
                    )),
                    Err(fault) => Started::Done(Outcome::Results(vec![Err(fault)])),
                }
            }
            (_, data) => {
                let bytes = data.as_ref().map_or(&[][..], AsRef::as_ref);
                let one = |put| self.write_through(&mut resolver, put, bytes, hash);
                Started::Done(Outcome::Results(puts.iter().map(one).collect()))
            }
        }
    }

    /// Returns the part to write directly, if it is the only one and suits direct I/O.
    fn direct_part<'a>(&self, put: &'a FileWrite, data: &[u8]) -> Option<&'a Part> {
        let part = self.part_for_device(put)?;
        let fits = data.get(part.bytes.clone()).is_some_and(|bytes| direct::fits(bytes, part.offset));
        (fits && !self.cache.is_used_at(part.offset)).then_some(part)
    }

    fn write_through(
        &self,
        resolver: &mut Resolver<'_>,
        put: &FileWrite,
        data: &[u8],
        hash: Hash,
    ) -> Result<(), Fault> {
        let file = self.open_checked(resolver, put, data, hash)?;
        let one = |part: &Part| {
            let bytes = bytes_in(data, &part.bytes)?;
            match put.sparse {
                true => write_sparse(&file, bytes, part.offset),
                false => write_all(&file, bytes, part.offset),
            }
        };
        let done = put.parts.iter().try_for_each(one);
        self.finish_write(resolver, put, &file, done)
    }

    /// Verifies the received data and opens the file to write.
    fn open_checked(
        &self,
        resolver: &mut Resolver<'_>,
        put: &FileWrite,
        data: &[u8],
        hash: Hash,
    ) -> Result<OwnedFd, Fault> {
        for (range, digest) in &put.check {
            if hash(bytes_in(data, range)?) != *digest {
                return Err(Fault::new(FaultKind::Mismatch, "received data does not match its hash"));
            }
        }
        let mode = self.initial_mode(resolver, put);
        self.open_for_write(resolver.resolve(&put.at)?, put, mode)
    }

    /// Finishes a write: applies final attributes, or cleans up after a failure.
    pub(in crate::files) fn finish_write(
        &self,
        resolver: &mut Resolver<'_>,
        put: &FileWrite,
        file: &OwnedFd,
        done: Result<(), Fault>,
    ) -> Result<(), Fault> {
        let done = done.and_then(|()| match &put.settle {
            Some(settle) => self.finalize(resolver, put, file, settle),
            None => self.check_flush(put, file, None),
        });
        // Other blocks of a failed file may still be in progress without being at fault.
        if done.is_ok() && put.settle.is_some() && put.begin == OpenMode::ContinueInPlace {
            self.in_place.end(&put.at);
        }
        if done.is_err() && put.begin == OpenMode::Fresh {
            // The space is needed; errors here do not change the result.
            let place = resolver.resolve(&put.at)?;
            let _ = rustix::fs::unlinkat(place.directory, place.name, AtFlags::empty());
        }
        done
    }

    /// Returns the initial mode of a new file: readable only by its owner until complete, or its
    /// final mode at once in a directory that other users cannot enter.
    fn initial_mode(&self, resolver: &mut Resolver<'_>, put: &FileWrite) -> Mode {
        let owner = Mode::RUSR | Mode::WUSR;
        let last = put.settle.as_ref().and_then(|settle| settle.attributes.mode);
        match last.filter(|_| put.begin == OpenMode::Fresh && resolver.is_private(&put.at, self.user)) {
            Some(bits) => Mode::from_raw_mode(bits & 0o777) | owner,
            None => owner,
        }
    }

    fn open_for_write(&self, place: ResolvedName<'_>, put: &FileWrite, mode: Mode) -> Result<OwnedFd, Fault> {
        place.not_the_root()?;
        match put.begin {
            OpenMode::Fresh => {
                let file = create_new(place, mode).map_err(fault("create"))?;
                if put.settle.is_none() && !self.super_user {
                    ensure_mode_bits(file.as_fd(), mode);
                }
                Ok(file)
            }
            OpenMode::InPlace => {
                reject_short_name(place)?;
                let Opened { file, restore_mode } =
                    in_place::open(place, mode).map_err(fault("open for writing"))?;
                let prepared = self.begin_in_place(put, &file);
                if let (Err(_), Some(bits)) = (&prepared, restore_mode) {
                    let _ = set_mode(Target::Open(file.as_fd()), bits);
                }
                prepared.map(|()| file)
            }
            OpenMode::ContinueInPlace => {
                let file = place.open(OFlags::WRONLY, Mode::empty()).map_err(fault("open for writing"))?;
                self.in_place.check(&put.at, &file)?;
                Ok(file)
            }
            OpenMode::Continue => {
                let file = place.open(OFlags::WRONLY, Mode::empty()).map_err(fault("open for writing"))?;
                // Another user may have put a hard link to a file there that only we can write to.
                verify_file(&file, |metadata| {
                    Ok(metadata.links < 2 && self.is_ours(place.directory, metadata)?)
                })?;
                match has_data(&file, &put.held).map_err(fault("check data"))? {
                    true => Ok(file),
                    false => Err(Fault::new(FaultKind::Changed, "previously written data is missing")),
                }
            }
        }
    }

    fn begin_in_place(&self, put: &FileWrite, file: &OwnedFd) -> Result<(), Fault> {
        // A hard link created meanwhile would be written to as well.
        verify_file(file, |metadata| Ok(metadata.links < 2))?;
        if put.settle.is_none() {
            self.in_place.begin(&put.at, file)?;
            if !self.super_user {
                ensure_mode_bits(file.as_fd(), Mode::WUSR);
            }
        }
        rustix::fs::ftruncate(file, 0).map_err(fault("truncate"))
    }

    fn finalize(
        &self,
        resolver: &mut Resolver<'_>,
        put: &FileWrite,
        file: &OwnedFd,
        settle: &FileCompletion,
    ) -> Result<(), Fault> {
        let (at, mut metadata) = (&put.at, file_stat(&rustix::fs::fstat(file).map_err(fault("stat"))?));
        self.check_flush(put, file, Some(metadata.volume))?;
        if metadata.size != settle.size {
            rustix::fs::ftruncate(file, settle.size).map_err(fault("set size"))?;
        }
        if settle.size > BLOCK as u64 {
            release_preallocation(file, settle.size);
        }
        if settle.sync && (*at == settle.name || settle.size > BLOCK as u64) {
            // The time marks a file under its final name as complete, and other transfers may
            // remove temporary files that look old.
            rustix::fs::fsync(file).map_err(fault("sync"))?;
        }
        let mut mode_mask = self.mode_mask(resolver, at, &settle.attributes);
        let keeps = settle.attributes.xattrs.is_none() && !settle.attributes.masked;
        if keeps && *at != settle.name {
            let is_given = resolver.default_bits(at).is_some();
            mode_mask &= Self::inherit_acl(resolver.resolve(&settle.name)?, file.as_fd(), is_given);
            metadata = self::file_stat(&rustix::fs::fstat(file).map_err(fault("stat"))?);
        }
        let attributes_set = self.set(Target::Open(file.as_fd()), &metadata, &settle.attributes, mode_mask);
        if settle.sync {
            rustix::fs::fsync(file).map_err(fault("sync"))?;
        }
        if *at != settle.name {
            rename(resolver, at, &settle.name)?;
        }
        // The content is correct and has its name; missing attributes are reported.
        attributes_set
    }

    /// Flushes written data if the file system reports errors on close. A volume other than the
    /// root's is mounted below it and may be of that kind.
    fn check_flush(&self, put: &FileWrite, file: &OwnedFd, volume: Option<u64>) -> Result<(), Fault> {
        let no_close_errors = self.no_close_errors.get(put.at.root as usize).copied().flatten();
        let is_silent = volume.is_some() && volume == no_close_errors;
        match put.parts.is_empty() || is_silent {
            true => Ok(()),
            false => flush_errno(file.as_fd()).map_err(fault("write")),
        }
    }

    pub(in crate::files) fn sync(&self, root: u32) -> Result<(), Fault> {
        let early = self.synced.get(root as usize).and_then(Option::as_ref);
        let root = self.roots.get(root as usize).ok_or_else(too_short)?;
        let synced = match early {
            Some(opened) => rustix::fs::syncfs(opened),
            None => open_for_sync(root).and_then(rustix::fs::syncfs),
        };
        synced.map_err(fault("sync file system"))
    }
}

/// Releases preallocated space. XFS keeps preallocations beyond the end of a file for minutes if it
/// was opened for each block. (Setting the size again would release them, too, but waits for the
/// disk: `xfs_setattr_size`.)
fn release_preallocation(file: &OwnedFd, size: u64) {
    const LARGEST_PAGE: u64 = 64 << 10;
    const FAR: u64 = 1 << 40;
    if is_filesystem(file, &[XFS]) {
        // Otherwise the kernel releases the space later.
        let _ = punch_hole(file, size.next_multiple_of(LARGEST_PAGE), FAR);
    }
}

/// Returns whether a file has data in all of these ranges. File systems other than the listed ones
/// may store zeros as holes or report no holes; for these only the size is checked.
fn has_data(file: &OwnedFd, held: &[Range<u64>]) -> Result<bool, Errno> {
    const REPORTING: [u32; 4] = [EXT, XFS, BTRFS, F2FS];
    let Some(last) = held.last() else { return Ok(true) };
    if file_stat(&rustix::fs::fstat(file)?).size < last.end {
        return Ok(false);
    }
    if !is_filesystem(file, &REPORTING) {
        return Ok(true);
    }
    for place in held {
        if rustix::fs::seek(file, SeekFrom::Hole(place.start))? < place.end {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Opens a root for syncfs(2), which rejects `O_PATH` descriptors.
pub fn open_for_sync(root: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(root, ".", flags, Mode::empty())
}

/// Renames within a directory, or between two that are resolved one after the other.
fn rename(resolver: &mut Resolver<'_>, from: &FilePath, to: &FilePath) -> Result<(), Fault> {
    let source = resolver.resolve(from)?;
    if let Some(last) = in_same_directory(from, to) {
        source.not_the_root()?;
        let ResolvedName { directory, name } = source;
        reject_short_name(ResolvedName { name: last, ..source })?;
        return rustix::fs::renameat(directory, name, directory, last).map_err(fault("rename"));
    }
    let directory =
        source.directory.try_clone_to_owned().map_err(|error| Fault::new(FaultKind::Other, error))?;
    let place = resolver.resolve(to)?;
    place.not_the_root()?;
    reject_short_name(place)?;
    let last = from.name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    rustix::fs::renameat(directory, last, place.directory, place.name).map_err(fault("rename"))
}

/// Returns the last component of `other` if it is in the directory of `one`.
fn in_same_directory<'a>(one: &FilePath, other: &'a FilePath) -> Option<&'a [u8]> {
    let split = |name: &[u8]| name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let (a, b) = (split(&one.name), split(&other.name));
    (one.root == other.root && one.name[..a] == other.name[..b] && b < other.name.len())
        .then(|| &other.name[b..])
}

/// Creates a new file, removing an existing one.
fn create_new(place: ResolvedName<'_>, mode: Mode) -> Result<OwnedFd, Errno> {
    let open = || place.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode);
    match open() {
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(place.directory, place.name, AtFlags::empty())?;
            open()
        }
        result => result,
    }
}

fn verify_file(file: &OwnedFd, ours: impl Fn(&FileStat) -> Result<bool, Fault>) -> Result<(), Fault> {
    let metadata = file_stat(&rustix::fs::fstat(file).map_err(fault("stat"))?);
    match metadata.kind == FileKind::File && ours(&metadata)? {
        true => Ok(()),
        false => Err(Fault::new(FaultKind::Exists, "another file has replaced it")),
    }
}

/// Writes all bytes at an offset.
pub fn write_all(file: &OwnedFd, bytes: &[u8], offset: u64) -> Result<(), Fault> {
    let (mut rest, mut at) = (bytes, offset);
    while !rest.is_empty() {
        let count = retry_on_intr(|| rustix::io::pwrite(file, rest, at)).map_err(fault("write"))?;
        if count == 0 {
            return Err(Fault::new(FaultKind::NoSpace, "cannot write: no bytes accepted"));
        }
        rest = &rest[count..];
        at += count as u64;
    }
    Ok(())
}

/// As [`write_all`], but punches holes for complete pages of zeros (fallocate(2),
/// `FALLOC_FL_PUNCH_HOLE`) where supported.
fn write_sparse(file: &OwnedFd, bytes: &[u8], offset: u64) -> Result<(), Fault> {
    const PAGE: usize = 4_096;
    let to_page = offset.next_multiple_of(PAGE as u64) - offset;
    let (first, pages) = bytes.split_at(bytes.len().min(to_page as usize));
    write_all(file, first, offset)?;
    let mut at = offset + first.len() as u64;
    // Vectorizes to 16 bytes or more per step; musl's memcmp compares single bytes.
    let is_hole = |page: &[u8]| page.len() == PAGE && page.iter().fold(0, |all, byte| all | byte) == 0;
    let holes: Vec<bool> = pages.chunks(PAGE).map(is_hole).collect();
    let mut rest = pages;
    for run in holes.chunk_by(|one, other| one == other) {
        let (some, others) = rest.split_at((run.len() * PAGE).min(rest.len()));
        if !run[0] || !punch_hole(file, at, some.len() as u64)? {
            write_all(file, some, at)?;
        }
        at += some.len() as u64;
        rest = others;
    }
    Ok(())
}

/// Punches a hole; false where the file system does not support it.
fn punch_hole(file: &OwnedFd, offset: u64, length: u64) -> Result<bool, Fault> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match retry_on_intr(|| rustix::fs::fallocate(file, flags, offset, length)) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(errno) => Err(fault("punch hole")(errno)),
    }
}

fn bytes_in<'a>(data: &'a [u8], range: &Range<usize>) -> Result<&'a [u8], Fault> {
    data.get(range.clone()).ok_or_else(too_short)
}

fn too_short() -> Fault {
    Fault::new(FaultKind::Other, "part exceeds the data")
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_mover::port::Attributes;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn partial_file_is_readable_only_by_its_owner() {
        let dir = std::env::temp_dir().join(format!("numaio-first-mode-{}", std::process::id()));
        for (name, mode) in [("closed", 0o700), ("open", 0o711)] {
            fs::create_dir_all(dir.join(name)).expect("a directory");
            fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).expect("a mode");
        }
        let roots =
            Roots::open(&[&dir]).unwrap_or_else(|(path, error)| panic!("{}: {error}", path.display()));
        let first = |name: &[u8], begin, mode| {
            let name = FilePath::new(0, name);
            let attributes = Attributes { mode, ..Attributes::default() };
            let settle = FileCompletion { size: 0, attributes, name: name.clone(), sync: false };
            let put = FileWrite {
                at: name,
                begin,
                held: Vec::new(),
                check: Vec::new(),
                parts: Vec::new(),
                sparse: false,
                settle: Some(settle),
            };
            roots.initial_mode(&mut Resolver::new(&roots.roots, false), &put).as_raw_mode()
        };
        assert_eq!(first(b"closed/f", OpenMode::Fresh, Some(0o4654)), 0o654);
        assert_eq!(first(b"closed/f", OpenMode::Fresh, Some(0o044)), 0o644);
        assert_eq!(first(b"closed/f", OpenMode::Fresh, None), 0o600);
        assert_eq!(first(b"closed/f", OpenMode::InPlace, Some(0o644)), 0o600);
        for elsewhere in [&b"open/f"[..], b"f", b"absent/f"] {
            assert_eq!(first(elsewhere, OpenMode::Fresh, Some(0o644)), 0o600);
        }
        fs::remove_dir_all(&dir).expect("removed");
    }
}
