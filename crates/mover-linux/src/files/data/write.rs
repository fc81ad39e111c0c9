//! Writing files under temporary names until they are complete.

use super::block::{Block, BlockOperation, OpenPart, Started};
use super::cached_io::{punch_hole, write_all, write_sparse};
use super::direct;
use super::open_in_place::open_in_place;
use crate::files::attributes::{set_mode, Target};
use crate::files::fault::fault;
use crate::files::file_stat::file_stat;
use crate::files::filesystem::{is_filesystem, BTRFS, EXT, F2FS, FUSE, XFS};
use crate::files::flush::flush_errno;
use crate::files::path::{reject_short_name, ResolvedName, Resolver};
use crate::files::permissions::ensure_mode_bits;
use crate::files::roots::{AppendedFile, Roots};
use numaio_mover::port::{
    Fault, FaultKind, FileCompletion, FileKind, FilePath, FileStat, FileWrite, Hash, OpenMode, Operation,
    Outcome, Part, BLOCK,
};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::ops::Range;

/// The existing file may be the source by another path. With `--inplace`, a marker proves that it
/// is not.
const NO_REPLACEMENT: &str = "it exists, and its file system does not rename files: --inplace overwrites it";

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
            [put] if !self.writes_in_order() => self.direct_part(put, bytes).map(|part| (put, part)),
            _ => None,
        };
        match (past, data) {
            (Some((put, part)), Some(data)) => {
                match self.open_checked(&mut resolver, put, data.as_ref(), hash) {
                    Ok(file) => self.start_direct(OpenPart { file, data, part: part.clone() }, put),
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

    fn start_direct<B: AsRef<[u8]> + AsMut<[u8]>>(&self, part: OpenPart<B>, put: &FileWrite) -> Started<B> {
        match direct::enable(&part.file) {
            Ok(()) => Started::Pending(Block::new(part, BlockOperation::Write(put.clone()))),
            Err(errno) => Started::Done(self.finish_direct_write(&part, put, Err(errno))),
        }
    }

    /// Finishes a direct write, given the number of bytes moved.
    pub(in crate::files) fn finish_direct_write<B: AsRef<[u8]>>(
        &self,
        OpenPart { file, data, part }: &OpenPart<B>,
        put: &FileWrite,
        moved: Result<usize, Errno>,
    ) -> Outcome<B> {
        let bytes = &data.as_ref()[part.bytes.clone()];
        let written = match moved {
            Ok(count) if count == bytes.len() => Ok(()),
            // The page cache would accept the data and lose it later.
            Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT)) => Err(fault("write")(errno)),
            _ => direct::disable(file).and_then(|()| write_all(file, bytes, part.offset)),
        };
        let mut resolver = Resolver::new(&self.roots, false);
        Outcome::Results(vec![self.finish_write(&mut resolver, put, file, written)])
    }

    /// Returns the file that an operation should use exclusively: one written through the page
    /// cache, since the kernel serializes such writes and other threads would spin. `is_behind`
    /// states whether more writes are queued than the storage handles.
    pub(crate) fn exclusive_file<'a, B>(
        &self,
        operation: &'a Operation<B>,
        is_behind: impl FnOnce() -> bool,
    ) -> Option<&'a FilePath> {
        let Operation::Write { puts, .. } = operation else { return None };
        let [put] = &puts[..] else { return None };
        let is_cached = match self.part_for_device(put) {
            _ if self.writes_in_order() => true,
            Some(part) => self.cache.decide_for(part.offset, is_behind),
            None => !put.parts.is_empty(),
        };
        is_cached.then_some(&put.at)
    }

    /// Returns the part of a file to write, if the device could take it as one block.
    fn part_for_device<'a>(&self, put: &'a FileWrite) -> Option<&'a Part> {
        let [part] = &put.parts[..] else { return None };
        let in_memory = self.in_memory.get(put.at.root as usize).is_some_and(|in_memory| *in_memory);
        (!in_memory && !put.sparse).then_some(part)
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
        if let Some(appended) = &self.in_order {
            let file = appended.take(&put.at);
            return self.append(resolver, put, file, (data, hash));
        }
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

    /// Writes the next parts of a file that is written in order, which is `open` after its first
    /// parts.
    fn append(
        &self,
        resolver: &mut Resolver<'_>,
        put: &FileWrite,
        open: Option<AppendedFile>,
        (data, hash): (&[u8], Hash),
    ) -> Result<(), Fault> {
        let mut file = match put.begin {
            OpenMode::Fresh | OpenMode::InPlace => {
                AppendedFile::new(self.open_checked(resolver, put, data, hash)?)
            }
            OpenMode::Continue | OpenMode::ContinueInPlace => {
                verify_data(put, data, hash)?;
                open.ok_or_else(|| Fault::new(FaultKind::Changed, "the partial file was closed"))?
            }
        };
        let mut one = |part: &Part| file.append(bytes_in(data, &part.bytes)?, part.offset);
        let written = put.parts.iter().try_for_each(&mut one);
        match (&put.settle, written, &self.in_order) {
            (None, Ok(()), Some(appended)) => appended.keep(&put.at, file),
            (Some(settle), Ok(()), _) => {
                let extended = file.extend(settle.size);
                self.finish_write(resolver, put, &file.file, extended)
            }
            (_, written, _) => self.finish_write(resolver, put, &file.file, written),
        }
    }

    /// Verifies the received data and opens the file to write.
    fn open_checked(
        &self,
        resolver: &mut Resolver<'_>,
        put: &FileWrite,
        data: &[u8],
        hash: Hash,
    ) -> Result<OwnedFd, Fault> {
        verify_data(put, data, hash)?;
        let mode = self.initial_mode(resolver, put);
        self.open_for_write(resolver.resolve(&put.at)?, put, mode)
    }

    /// Finishes a write: applies final attributes, or cleans up after a failure.
    fn finish_write(
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
            OpenMode::InPlace => self.open_final_name(place, put, mode),
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

    /// Opens the file under its final name, and empties it.
    fn open_final_name(
        &self,
        place: ResolvedName<'_>,
        put: &FileWrite,
        mode: Mode,
    ) -> Result<OwnedFd, Fault> {
        reject_short_name(place)?;
        if !self.keeps_existing && !self.writes_in_order() {
            let opened = open_in_place(place, mode).map_err(fault("open for writing"))?;
            let prepared = self.begin_in_place(put, &opened.file);
            if let (Err(_), Some(bits)) = (&prepared, opened.restore_mode) {
                let _ = set_mode(Target::Open(opened.file.as_fd()), bits);
            }
            return prepared.map(|()| opened.file);
        }
        let opened = match place.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode) {
            Err(Errno::EXIST) if self.keeps_existing => {
                return Err(Fault::new(FaultKind::Other, NO_REPLACEMENT));
            }
            // File systems that store objects do not accept ftruncate(2).
            Err(Errno::EXIST) => place.open(OFlags::WRONLY | OFlags::TRUNC, Mode::empty()),
            opened => opened,
        };
        let file = opened.map_err(fault("open for writing"))?;
        match self.writes_in_order() {
            true => verify_file(&file, |metadata| Ok(metadata.links < 2))?,
            false => self.begin_in_place(put, &file)?,
        }
        Ok(file)
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
            metadata = file_stat(&rustix::fs::fstat(file).map_err(fault("stat"))?);
        }
        let attributes_set = self.set(Target::Open(file.as_fd()), &metadata, &settle.attributes, mode_mask);
        if settle.sync {
            rustix::fs::fsync(file).map_err(fault("sync"))?;
        }
        if *at != settle.name {
            rename(resolver, at, &settle.name).or_else(|fault| match fault.why {
                FaultKind::Permission | FaultKind::Exists if is_filesystem(file, &[FUSE]) => {
                    replace(resolver, at, &settle.name, fault)
                }
                _ => Err(fault),
            })?;
        }
        // The content is correct and has its name; missing attributes are reported.
        attributes_set
    }

    /// Flushes written data if the file system reports errors on close. A volume other than the
    /// root's is mounted below it and may be of that kind.
    fn check_flush(&self, put: &FileWrite, file: &OwnedFd, volume: Option<u64>) -> Result<(), Fault> {
        let no_close_errors = self.no_close_errors.get(put.at.root as usize).copied().flatten();
        let is_silent = volume.is_some() && volume == no_close_errors;
        let is_flushed = put.parts.is_empty() && !self.writes_in_order();
        match is_flushed || is_silent {
            true => Ok(()),
            false => flush_errno(file.as_fd()).map_err(fault("write")),
        }
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

/// Renames within a directory, or between two that are resolved one after the other.
pub fn rename(resolver: &mut Resolver<'_>, from: &FilePath, to: &FilePath) -> Result<(), Fault> {
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

/// Removes a file, and then gives another one its name: some servers refuse to do both at once
/// (sftp without `posix-rename`). Fails with `refused` if it cannot be removed.
fn replace(resolver: &mut Resolver<'_>, from: &FilePath, to: &FilePath, refused: Fault) -> Result<(), Fault> {
    let place = resolver.resolve(to)?;
    match rustix::fs::unlinkat(place.directory, place.name, AtFlags::empty()) {
        Ok(()) => rename(resolver, from, to),
        Err(_) => Err(refused),
    }
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

/// Compares the received data with its hashes.
fn verify_data(put: &FileWrite, data: &[u8], hash: Hash) -> Result<(), Fault> {
    for (range, digest) in &put.check {
        if hash(bytes_in(data, range)?) != *digest {
            return Err(Fault::new(FaultKind::Mismatch, "received data does not match its hash"));
        }
    }
    Ok(())
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
