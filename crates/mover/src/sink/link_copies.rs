//! Copies in place of hard links that the file system refuses: many have none, limit their number,
//! or have them within a directory only.

use super::batches::LookupResult;
use super::options::SinkOptions;
use crate::drive::PeerState;
use crate::name::Name;
use crate::port::{
    Attributes, BlockSize, Digest, Fault, FileCompletion, FileInfo, FileKind, FilePath, FileWrite, NewObject,
    Object, OpenMode, Operation, Part, ReadPiece, Ticket,
};
use std::collections::{HashMap, VecDeque};

/// A hard link that is being created.
#[derive(Debug)]
pub(super) struct LinkTarget {
    /// The name of its file.
    pub to: Name,
    /// The object with that name.
    pub file: FileInfo,
    /// Whether the link's name has an equal copy of it.
    pub is_equal: bool,
}

/// A file being copied.
#[derive(Debug)]
struct LinkCopy {
    name: Name,
    /// The file that is written to.
    at: FilePath,
    target: LinkTarget,
    block: BlockSize,
    /// Number of copied bytes.
    offset: u64,
}

/// A copy that has its name or failed, and its partial file.
pub(super) type EndedCopy = (Name, FilePath, Result<(), Fault>);

/// Links being created, and the copies in place of refused ones.
///
/// Invariant: at most one operation is in flight, and it belongs to the first copy.
#[derive(Debug, Default)]
pub(super) struct LinkCopies {
    creating: HashMap<Name, LinkTarget>,
    copies: VecDeque<LinkCopy>,
    in_flight: Option<Ticket>,
}

impl LinkCopies {
    /// Returns whether nothing is left to copy.
    pub fn is_idle(&self) -> bool {
        self.copies.is_empty()
    }

    /// Records a link that is about to be created.
    pub fn creating(&mut self, name: &Name, target: LinkTarget) {
        self.creating.insert(name.clone(), target);
    }

    /// Removes a link whose creation ended.
    pub fn created(&mut self, name: &Name) -> Option<LinkTarget> {
        self.creating.remove(name)
    }

    /// Copies a regular file in place of a link, in blocks of this size; `at` is its partial file.
    pub fn push(&mut self, name: Name, at: FilePath, target: LinkTarget, block: BlockSize) {
        self.copies.push_back(LinkCopy { name, at, target, block, offset: 0 });
    }

    /// Returns whether an operation is in flight.
    pub fn has_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Drops all copies; returns the partial files.
    pub fn stop(&mut self) -> Vec<(Name, FilePath)> {
        let started = self.copies.drain(..).filter(|copy| copy.offset > 0);
        started.map(|copy| (copy.name, copy.at)).collect()
    }

    /// Submits the next operation.
    pub fn submit_next<B: AsRef<[u8]>>(&mut self, options: &SinkOptions, peer: &mut PeerState<B>) {
        let (Some(copy), None) = (self.copies.front(), self.in_flight) else { return };
        let operation = match copy.next_length() {
            0 => copy.write(None, options),
            _ => copy.read(options),
        };
        self.in_flight = Some(peer.submit(operation));
    }

    /// Handles a block that was read, and returns the copy if it failed. Ignores other tickets.
    pub fn read<B: AsRef<[u8]>>(
        &mut self,
        ticket: Ticket,
        results: Vec<Result<Digest, Fault>>,
        data: B,
        options: &SinkOptions,
        peer: &mut PeerState<B>,
    ) -> Option<EndedCopy> {
        self.in_flight.take_if(|in_flight| *in_flight == ticket)?;
        let copy = self.copies.front()?;
        match results.into_iter().next()? {
            Ok(digest) => {
                self.in_flight = Some(peer.submit(copy.write(Some((data, digest)), options)));
                None
            }
            Err(fault) => self.end(Err(fault)),
        }
    }

    /// Handles a block that was written, and returns the copy if it ended. Ignores other tickets.
    pub fn written(&mut self, ticket: Ticket, result: Result<(), Fault>) -> Option<EndedCopy> {
        self.in_flight.take_if(|in_flight| *in_flight == ticket)?;
        let copy = self.copies.front_mut()?;
        let is_last = copy.is_last();
        copy.offset += copy.next_length();
        match result {
            Ok(()) if !is_last => None,
            result => self.end(result),
        }
    }

    /// Returns whether an operation with this ticket is in flight.
    pub fn is_in_flight(&self, ticket: Ticket) -> bool {
        self.in_flight == Some(ticket)
    }

    fn end(&mut self, result: Result<(), Fault>) -> Option<EndedCopy> {
        let LinkCopy { name, at, .. } = self.copies.pop_front()?;
        Some((name, at, result))
    }
}

impl LinkCopy {
    fn next_length(&self) -> u64 {
        (self.target.file.metadata.size - self.offset).min(self.block.length())
    }

    fn is_last(&self) -> bool {
        self.offset + self.next_length() == self.target.file.metadata.size
    }

    fn read<B>(&self, options: &SinkOptions) -> Operation<B> {
        let piece = ReadPiece {
            at: FilePath::new(0, self.target.to.as_bytes()),
            identity: self.target.file.metadata.identity(),
            offset: self.offset,
            length: self.next_length() as usize,
            // FUSE file systems may change the time of a file shortly after it is written.
            as_it_is: true,
        };
        Operation::Read { pieces: vec![piece], hash: options.hash.function(), pack: None }
    }

    fn write<B>(&self, block: Option<(B, Digest)>, options: &SinkOptions) -> Operation<B> {
        let length = self.next_length() as usize;
        let (data, digest) = block.unzip();
        let begin = if self.offset == 0 { OpenMode::Fresh } else { OpenMode::Continue };
        let settle = self.is_last().then(|| FileCompletion {
            size: self.target.file.metadata.size,
            attributes: attributes_of(&self.target.file, options),
            name: FilePath::new(0, self.name.as_bytes()),
            sync: options.sync == super::SyncMode::File,
        });
        let put = FileWrite {
            check: digest.map(|digest| (0..length, digest)).into_iter().collect(),
            parts: if data.is_some() { self.parts(length) } else { Vec::new() },
            settle,
            ..FileWrite::new(self.at.clone(), begin)
        };
        Operation::Write { puts: vec![put], data, hash: options.hash.function(), packed: None }
    }

    /// Returns the data ranges of the next block, without holes.
    fn parts(&self, length: usize) -> Vec<Part> {
        let end = self.offset + length as u64;
        let all = [(self.offset, end)];
        let ranges = self.target.file.data.as_deref().unwrap_or(&all);
        let within = ranges.iter().map(|&(from, to)| (from.max(self.offset), to.min(end)));
        let within = within.filter(|(from, to)| from < to);
        let part = |(from, to)| Part {
            bytes: (from - self.offset) as usize..(to - self.offset) as usize,
            offset: from,
        };
        within.map(part).collect()
    }
}

/// Returns the object in place of a link to anything but a regular file or directory.
pub(super) fn special_copy(name: &Name, file: &FileInfo, options: &SinkOptions) -> Option<NewObject> {
    let object = match file.metadata.kind {
        FileKind::Symlink => Object::Symlink(file.target.clone()?),
        FileKind::Fifo => Object::Fifo,
        FileKind::CharacterDevice(major, minor) => Object::CharacterDevice(major, minor),
        FileKind::BlockDevice(major, minor) => Object::BlockDevice(major, minor),
        FileKind::File | FileKind::Directory | FileKind::Socket => return None,
    };
    Some(NewObject {
        at: FilePath::new(0, name.as_bytes()),
        object,
        attributes: attributes_of(file, options),
    })
}

/// Returns whether an object can be taken for an earlier copy of a file, with its attributes.
pub(super) fn is_equal_copy(at: &LookupResult, file: &FileInfo, options: &SinkOptions) -> bool {
    let is_same = |found: &FileInfo| {
        let (there, metadata) = (&found.metadata, &file.metadata);
        (there.kind, there.size, &found.target) == (metadata.kind, metadata.size, &file.target)
            && attributes_of(found, options) == attributes_of(file, options)
    };
    let trusts_times = !options.checksum && !options.ignore_times;
    trusts_times && matches!(at, Ok(Some(found)) if is_same(found))
}

/// Returns the attributes of a file at the destination, for its copy.
fn attributes_of(file: &FileInfo, options: &SinkOptions) -> Attributes {
    let (metadata, keep) = (&file.metadata, options.preserve);
    Attributes {
        mode: Some(metadata.mode),
        masked: false,
        mtime: keep.times.then_some(metadata.mtime),
        user: keep.users.then_some(metadata.user),
        group: keep.groups.then_some(metadata.group),
        xattrs: keep.xattrs.then(|| file.xattrs.clone()),
    }
}
