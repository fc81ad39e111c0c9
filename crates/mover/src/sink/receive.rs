//! Receiving data, up to complete files with their final names.

use super::{Incoming, Sink};
use crate::compression;
use crate::entry::{Content, FileNumber};
use crate::extent::Extent;
use crate::port::{
    DecompressFn, Decompression, Fault, FaultKind, FilePath, FileWrite, OpenMode, Operation, Part, BLOCK,
};
use crate::report::reason;
use crate::report::ChangeKind;
use crate::wire::{Chunk, FileSent, Holes, WireError};
use std::ops::Range;

/// The part of a file that one result of a write operation belongs to.
#[derive(Debug)]
pub(super) struct PendingWrite {
    number: FileNumber,
    /// The range that was written; `None` if the file was only completed.
    extent: Option<Extent>,
    settled: bool,
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// Writes the parts of a chunk.
    pub(super) fn receive_chunk(&mut self, chunk: &Chunk, data: B) -> Result<(), WireError> {
        if chunk.hash() != self.options.hash {
            return Err(WireError::InvalidValue("a chunk with an unexpected hash function"));
        }
        if chunk.compressed_length().is_some() && !self.options.accept_compressed {
            return Err(WireError::InvalidValue("compressed data, which was not negotiated"));
        }
        self.peer.totals.sent += chunk.wire_length();
        let (mut puts, mut items) = (Vec::new(), Vec::new());
        let mut at = 0;
        for part in chunk.parts() {
            let bytes = at..at + part.extent.length() as usize;
            at = bytes.end;
            if !self.is_decided(part.file.get()) {
                return Err(WireError::InvalidValue("data of a file that was not requested"));
            }
            // The source may not know yet that this file failed here.
            let Some(file) = self.incoming.get_mut(&part.file.get()) else { continue };
            file.accept_block(part.extent)?;
            let is_complete = (part.extent.start(), part.extent.end()) == (0, file.content.size());
            let mut put = file.write_request(is_complete);
            put.check = vec![(bytes.clone(), part.digest)];
            put.parts = parts(&file.content, part.extent, &bytes);
            if is_complete {
                let (size, attributes) = (file.content.size(), file.attributes.clone());
                let name = FilePath::new(0, file.name.as_bytes());
                put.settle = Some(self.settle(size, attributes, name));
            }
            puts.push(put);
            items.push(PendingWrite { number: part.file, extent: Some(part.extent), settled: is_complete });
        }
        if !puts.is_empty() {
            let hash = self.options.hash.function();
            let packed = chunk.compressed_length().map(|bytes| Decompression {
                bytes: bytes as usize,
                plain: chunk.length() as usize,
                with: compression::decompress as DecompressFn,
            });
            let ticket = self.peer.submit(Operation::Write { puts, data: Some(data), hash, packed });
            self.writes.insert(ticket, items);
        }
        Ok(())
    }

    /// Skips ranges that read as zeros: the partial file was created empty, so there is nothing to
    /// write.
    pub(super) fn receive_holes(&mut self, holes: &Holes) -> Result<(), WireError> {
        let number = holes.file().get();
        if !self.is_decided(number) {
            return Err(WireError::InvalidValue("holes of a file that was not requested"));
        }
        let Some(file) = self.incoming.get_mut(&number) else { return Ok(()) };
        for &hole in holes.extents() {
            file.accept_hole(hole)?;
            self.peer.totals.size = self.peer.totals.size.saturating_sub(hole.length());
            if let Some(key) = file.key {
                self.resume_log.record_write(key, &file.name, &file.at, hole);
            }
        }
        Ok(())
    }

    /// Handles the announcement that all requested data of a file was sent.
    pub(super) fn receive_file_sent(&mut self, done: FileSent) -> Result<(), WireError> {
        if !self.is_decided(done.file.get()) {
            return Err(WireError::InvalidValue("the end of a file that was not requested"));
        }
        let Some(file) = self.incoming.get_mut(&done.file.get()) else { return Ok(()) };
        if !file.left.is_empty() || file.bytes != done.bytes || file.done.is_some() {
            return Err(WireError::InvalidValue("the length of a sent file"));
        }
        file.done = Some(done.bytes);
        self.settle_if_complete(done.file.get());
        Ok(())
    }

    /// Returns whether the source may end: no file has missing data.
    pub(super) fn has_all_data(&self) -> bool {
        let one_part = |file: &Incoming| file.content.size() <= BLOCK as u64;
        let is_announced = |file: &Incoming| one_part(file) || file.done.is_some() || file.bytes == 0;
        self.incoming.values().all(|file| file.left.is_empty() && is_announced(file))
    }

    /// Completes a file of many parts if all of its data is written.
    pub(super) fn settle_if_complete(&mut self, number: u64) {
        let Some(file) = self.incoming.get_mut(&number) else { return };
        let size = file.content.size();
        let is_announced = file.done.is_some() || file.bytes == 0;
        if !file.left.is_empty() || file.writing > 0 || !is_announced || size <= BLOCK as u64 {
            return;
        }
        let Ok(number) = FileNumber::new(number) else { return };
        file.writing += 1;
        let mut put = file.write_request(false);
        let (attributes, name) = (file.attributes.clone(), FilePath::new(0, file.name.as_bytes()));
        put.settle = Some(self.settle(size, attributes, name));
        let hash = self.options.hash.function();
        let ticket = self.peer.submit(Operation::Write { puts: vec![put], data: None, hash, packed: None });
        self.writes.insert(ticket, vec![PendingWrite { number, extent: None, settled: true }]);
    }

    pub(super) fn write_completed(&mut self, item: PendingWrite, result: Result<(), Fault>) {
        let number = item.number.get();
        let Some(file) = self.incoming.get_mut(&number) else { return };
        file.writing -= 1;
        if let Err(fault) = result {
            // The partial file is kept for resuming.
            if fault.why == FaultKind::Cancelled {
                return self.abort(reason(fault.why), &fault.text);
            }
            let name = file.name.clone();
            return self.fail(item.number, &name, &fault);
        }
        if let Some(extent) = item.extent {
            self.peer.totals.bytes += extent.length();
            if let Some(key) = file.key {
                self.resume_log.record_write(key, &file.name, &file.at, extent);
            }
        }
        if !item.settled {
            return self.settle_if_complete(number);
        }
        if let Some(Incoming { name, at, bytes, holes, .. }) = self.remove_incoming(number) {
            self.resume_log.file_completed(&name, &at);
            self.add_to_manifest(&name);
            self.record_change(name, ChangeKind::Copied, bytes - holes);
        }
    }
}

impl Incoming {
    /// Accepts a hole: complete blocks that were requested, of a file whose entry omits holes.
    fn accept_hole(&mut self, hole: Extent) -> Result<(), WireError> {
        let block = BLOCK as u64;
        let is_blocks = [hole.start(), hole.end()]
            .iter()
            .all(|&edge| edge.is_multiple_of(block) || edge == self.content.size());
        let may_be = self.content.may_omit_holes() && self.content.size() > block;
        if !is_blocks || !may_be || !self.left.covers(hole) || self.done.is_some() || !self.answered {
            return Err(WireError::InvalidValue("holes that were not requested"));
        }
        self.left.remove(hole);
        self.bytes += hole.length();
        self.holes += hole.length();
        Ok(())
    }

    /// Accepts a part: exactly one block that was requested.
    fn accept_block(&mut self, extent: Extent) -> Result<(), WireError> {
        let block = BLOCK as u64;
        let end = extent.start().saturating_add(block).min(self.content.size());
        let is_block = extent.start().is_multiple_of(block) && extent.end() == end;
        if !is_block || !self.left.covers(extent) || self.done.is_some() || !self.answered {
            return Err(WireError::InvalidValue("a part of a file that was not requested"));
        }
        self.left.remove(extent);
        self.bytes += extent.length();
        self.writing += 1;
        Ok(())
    }

    /// Creates a write to this file; `first` if it is the only one.
    fn write_request(&self, first: bool) -> FileWrite {
        let begin = match (self.in_place, first) {
            (false, true) => OpenMode::Fresh,
            (false, false) => OpenMode::Continue,
            (true, true) => OpenMode::InPlace,
            (true, false) => OpenMode::ContinueInPlace,
        };
        let sparse = self.content.may_omit_holes();
        FileWrite { sparse, ..FileWrite::new(self.at.clone(), begin) }
    }
}

/// Returns the data ranges within a block, without holes.
fn parts(content: &Content, block: Extent, bytes: &Range<usize>) -> Vec<Part> {
    let within =
        |extent: Extent| Extent::between(extent.start().max(block.start()), extent.end().min(block.end()));
    content
        .extents()
        .filter_map(within)
        .map(|extent| {
            let start = bytes.start + (extent.start() - block.start()) as usize;
            Part { bytes: start..start + extent.length() as usize, offset: extent.start() }
        })
        .collect()
}
