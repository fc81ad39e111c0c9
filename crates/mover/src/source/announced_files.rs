//! Regular files that were announced to the sink, until their data is sent.

use crate::chunk::{in_blocks, ReadJob};
use crate::compression::CompressionHistory;
use crate::entry::{Content, FileNumber};
use crate::extent::{Extent, ExtentSet};
use crate::name::Name;
use crate::port::{FilePath, Identity, ReadPiece};
use crate::wire::{FileSent, NeededData, WireError};
use std::collections::HashMap;

/// A regular file that was announced to the sink.
///
/// Invariant: `wanted` is set once, and `sent` never exceeds it.
#[derive(Debug)]
pub(super) struct AnnouncedFile {
    /// Index of the storage device that holds it.
    device: usize,
    path: FilePath,
    name: Name,
    identity: Identity,
    content: Content,
    /// Blocks with data, if the entry omits holes.
    data: Option<ExtentSet>,
    /// Bytes to send or announce as holes; `None` until known.
    wanted: Option<u64>,
    sent: u64,
    /// Whether the sink requested its hash.
    hash_requested: bool,
    /// Extents that are read although the file has changed.
    read_as_it_is: ExtentSet,
    /// The size by the latest lookup, if it became shorter.
    end: u64,
    /// Extents among those that ended before they were read.
    unread: Vec<Extent>,
    /// Number of lookups of the end.
    lookups: u32,
    /// The compression results of a file with many blocks.
    history: CompressionHistory,
}

/// Maximum lookups of the end of a file that is truncated again and again.
const MAX_LOOKUPS: u32 = 16;

/// The start of sending a file.
#[derive(Debug)]
pub(super) struct StartedFile {
    /// The data to read.
    pub job: ReadJob,
    /// The holes to announce.
    pub holes: Vec<Extent>,
}

/// The extents of a truncated file that are still to be read.
pub(super) struct TruncatedRest {
    /// The new size; `None` if it did not become smaller.
    pub size: Option<u64>,
    /// Bytes that are not sent.
    pub omitted: u64,
    /// The extents.
    pub extents: Vec<Extent>,
}

impl AnnouncedFile {
    /// Creates a file of a device that the sink has not requested; `data` are its blocks with data
    /// if its entry omits holes.
    pub fn new(
        (device, path): (usize, FilePath),
        name: Name,
        identity: Identity,
        content: Content,
        data: Option<ExtentSet>,
    ) -> Self {
        Self {
            device,
            path,
            name,
            identity,
            end: content.size(),
            unread: Vec::new(),
            lookups: 0,
            content,
            data,
            wanted: None,
            sent: 0,
            hash_requested: false,
            read_as_it_is: ExtentSet::default(),
            history: CompressionHistory::default(),
        }
    }

    /// Returns the index of the storage device that holds it.
    pub fn device(&self) -> usize {
        self.device
    }

    /// Returns the path at the source.
    pub fn path(&self) -> &FilePath {
        &self.path
    }

    /// Reads an extent again, although the file has changed; returns `false` if that was tried
    /// before, so that the file ends in it or before.
    pub fn read_again(&mut self, extent: Extent) -> bool {
        let is_new = !self.read_as_it_is.covers(extent);
        self.read_as_it_is.insert(extent);
        is_new
    }

    /// Records an extent that the file no longer contains completely.
    pub fn add_unread(&mut self, extent: Extent) {
        self.unread.push(extent);
    }

    /// Returns whether the end of a truncated file must be looked up: everything else was sent.
    fn needs_lookup(&self) -> bool {
        let unread: u64 = self.unread.iter().map(|extent| extent.length()).sum();
        unread > 0 && self.wanted == Some(self.sent + unread)
    }

    /// Ends the file at its present size, or before; `None` if it was truncated too often.
    pub fn truncate(&mut self, size: u64) -> Option<TruncatedRest> {
        self.lookups += 1;
        let end = size.min(self.end);
        let unread = std::mem::take(&mut self.unread);
        let length = |extents: &[Extent]| -> u64 { extents.iter().map(|extent| extent.length()).sum() };
        let rest = |extent: &Extent| Extent::between(extent.start(), extent.end().min(end));
        let extents: Vec<Extent> = unread.iter().filter_map(rest).collect();
        let omitted = length(&unread) - length(&extents);
        self.wanted = self.wanted.map(|wanted| wanted - omitted);
        let size = (end < self.end).then_some(end);
        self.end = end;
        (self.lookups <= MAX_LOOKUPS).then_some(TruncatedRest { size, omitted, extents })
    }

    /// Returns the name at the sink.
    pub fn into_name(self) -> Name {
        self.name
    }

    /// Returns the piece that reads an extent of the file.
    pub fn read_piece(&self, extent: Extent) -> ReadPiece {
        let (offset, length) = (extent.start(), extent.length() as usize);
        let as_it_is = self.read_as_it_is.covers(extent);
        ReadPiece { at: self.path.clone(), identity: self.identity, offset, length, as_it_is }
    }

    /// Starts sending the file, or some of its extents, in complete blocks. Returns `None` if there
    /// is nothing to send.
    fn begin(
        &mut self,
        number: FileNumber,
        extents: Option<&Vec<Extent>>,
        block: u64,
    ) -> Option<StartedFile> {
        let size = self.content.size();
        let mut blocks = ExtentSet::default();
        match extents {
            None => in_blocks(self.content.extents(), size, block).for_each(|block| blocks.insert(block)),
            Some(extents) => {
                in_blocks(extents.iter().copied(), size, block).for_each(|block| blocks.insert(block));
            }
        }
        let holes: Vec<Extent> = match &self.data {
            None => Vec::new(),
            Some(data) => blocks.iter().flat_map(|wanted| data.missing_in(wanted)).collect(),
        };
        holes.iter().for_each(|hole| blocks.remove(*hole));
        self.sent = holes.iter().map(|hole| hole.length()).sum();
        let job = ReadJob::remaining(number, self.identity.inode, &blocks);
        self.wanted = Some(job.bytes() + self.sent).filter(|bytes| *bytes > 0);
        self.wanted.map(|_| StartedFile { job, holes })
    }
}

/// The announced files, by number.
///
/// Invariants: a file is removed when it failed, is not needed, or is completely sent, and nothing
/// of it is sent afterwards; `on_device` counts the files of each device.
#[derive(Debug)]
pub(super) struct AnnouncedFiles {
    files: HashMap<FileNumber, AnnouncedFile>,
    on_device: Vec<usize>,
    block: u64,
    /// Names of completely sent files that had changed, until they are reported.
    changed: Vec<Name>,
}

impl AnnouncedFiles {
    /// Creates an empty set of files that are sent in blocks of this size.
    pub fn new(block: u64) -> Self {
        Self { files: HashMap::new(), on_device: Vec::new(), block, changed: Vec::new() }
    }

    /// Returns whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns the number of files of a device.
    pub fn on_device(&self, device: usize) -> usize {
        self.on_device.get(device).copied().unwrap_or_default()
    }

    /// Returns a file.
    pub fn get_mut(&mut self, number: FileNumber) -> Option<&mut AnnouncedFile> {
        self.files.get_mut(&number)
    }

    /// Returns a file.
    pub fn get(&self, number: FileNumber) -> Option<&AnnouncedFile> {
        self.files.get(&number)
    }

    /// Adds a file.
    pub fn insert(&mut self, number: FileNumber, file: AnnouncedFile) {
        if self.on_device.len() <= file.device {
            self.on_device.resize(file.device + 1, 0);
        }
        self.on_device[file.device] += 1;
        self.files.insert(number, file);
    }

    /// Removes a file that failed or cannot be announced.
    pub fn remove(&mut self, number: FileNumber) -> Option<AnnouncedFile> {
        let file = self.files.remove(&number)?;
        self.on_device[file.device] -= 1;
        Some(file)
    }

    /// Removes a file that the sink does not need; returns the requested bytes that are not sent.
    pub fn remove_unneeded(&mut self, number: FileNumber) -> u64 {
        let unsent = |file: AnnouncedFile| file.wanted.map_or(0, |wanted| wanted - file.sent);
        self.remove(number).map_or(0, unsent)
    }

    /// Returns the number of bytes that the sink already has of a file.
    pub fn unneeded_bytes(&self, number: FileNumber, needed: &NeededData) -> u64 {
        let Some(file) = self.get(number) else { return 0 };
        let wanted = match needed {
            NeededData::Nothing => 0,
            NeededData::Some(extents) => extents.iter().map(|extent| extent.length()).sum(),
            NeededData::All | NeededData::Hash => return 0,
        };
        file.content.size().saturating_sub(wanted)
    }

    /// Starts sending a requested file, or some of its extents.
    ///
    /// # Errors
    /// [`WireError::InvalidValue`] if the file has no data, or was requested before.
    pub fn begin(
        &mut self,
        number: FileNumber,
        extents: Option<&Vec<Extent>>,
    ) -> Result<StartedFile, WireError> {
        let file = self.files.get_mut(&number).filter(|file| file.wanted.is_none());
        let file = file.ok_or(WireError::InvalidValue("a request for an entry without data"))?;
        file.begin(number, extents, self.block).ok_or(WireError::InvalidValue("an empty request"))
    }

    /// Starts sending a file that was just announced. A file without data needs nothing more and is
    /// removed.
    pub fn begin_eager(&mut self, number: FileNumber) -> Option<StartedFile> {
        let started = self.files.get_mut(&number)?.begin(number, None, self.block);
        if started.is_none() {
            self.remove(number);
        }
        started
    }

    /// Records a request for the hash of a file; returns the file, unless it failed meanwhile.
    ///
    /// # Errors
    /// [`WireError::InvalidValue`] if its hash or data was requested before.
    pub fn request_hash(&mut self, number: FileNumber) -> Result<Option<(FilePath, Identity)>, WireError> {
        let Some(file) = self.files.get_mut(&number) else { return Ok(None) };
        if file.wanted.is_some() || std::mem::replace(&mut file.hash_requested, true) {
            return Err(WireError::InvalidValue("a repeated or late request for a hash"));
        }
        Ok(Some((file.path.clone(), file.identity)))
    }

    /// Returns the compression history of the file, if the pieces are part of a single large one.
    pub fn history(&mut self, pieces: &[(FileNumber, Extent)]) -> Option<&mut CompressionHistory> {
        let [(number, _)] = pieces else { return None };
        let file = self.files.get_mut(number).filter(|file| file.content.size() > self.block)?;
        Some(&mut file.history)
    }

    /// Records that an extent was sent. Removes the file if it is complete, and returns the
    /// announcement of its end; a file sent as a single part needs none.
    pub fn record_sent(&mut self, number: FileNumber, extent: Extent) -> Option<FileSent> {
        let file = self.files.get_mut(&number)?;
        file.sent += extent.length();
        if file.wanted.is_none_or(|wanted| file.sent < wanted) {
            return None;
        }
        let is_single_part =
            file.content.size() <= self.block && (extent.start(), extent.end()) == (0, file.end);
        self.complete(number).filter(|_| !is_single_part)
    }

    /// Removes a file that is completely sent; returns the announcement of its end.
    pub fn complete(&mut self, number: FileNumber) -> Option<FileSent> {
        let file = self.remove(number)?;
        if !file.read_as_it_is.is_empty() {
            self.changed.push(file.name);
        }
        Some(FileSent { file: number, bytes: file.sent })
    }

    /// Returns the names of files that were completely sent since the last call, and had changed.
    pub fn take_changed(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.changed)
    }

    /// Returns a file whose end must be looked up.
    pub fn to_look_up(&self, number: FileNumber) -> Option<&FilePath> {
        self.get(number).filter(|file| file.needs_lookup()).map(AnnouncedFile::path)
    }
}
