//! A file whose data is being received, from its request to its completion.

use super::options::{SinkOptions, SyncMode};
use super::resume_log::ResumeLog;
use crate::chunk::in_blocks;
use crate::entry::{Content, FileNumber, MAX_EXTENTS};
use crate::extent::{Extent, ExtentSet};
use crate::journal::BlockHash;
use crate::name::Name;
use crate::port::{
    Attributes, BlockSize, Digest, FileCompletion, FilePath, FileWrite, OpenMode, Part, Stamp,
};
use crate::wire::{Itemized, NeededData, WireError};
use std::ops::Range;

/// Where and how a file is written.
#[derive(Debug)]
pub(super) struct FileTarget {
    /// The final name.
    pub name: Name,
    /// Its size and data ranges.
    pub content: Content,
    /// The size with which it was announced.
    pub announced_size: u64,
    /// The block size of the transfer.
    pub block: BlockSize,
    /// The file that is written to.
    pub at: FilePath,
    /// Whether that is the file with the final name.
    pub in_place: bool,
    /// Whether its data is written in order, to a file that is opened for the first part.
    pub in_order: bool,
    /// Attributes to set.
    pub attributes: Attributes,
    /// The number in the journal, if the file is recorded there.
    pub key: Option<FileNumber>,
    /// The size and mtime that distinguish the new file from the old one; `None` if both were
    /// equal.
    pub expected: Option<(u64, Option<Stamp>)>,
    /// The changed attributes, if they are reported.
    pub itemized: Option<Box<Itemized>>,
}

/// A file whose data is being received.
///
/// Invariants: every byte to receive is either in `left` or was accepted once, so no block is
/// written twice; `writing` counts the writes in flight, and the file is completed only when it is
/// zero.
#[derive(Debug)]
pub(super) struct IncomingFile {
    target: FileTarget,
    /// Whether its data was requested from the source.
    answered: bool,
    /// Ranges not received yet.
    left: ExtentSet,
    /// Bytes received or declared as holes.
    bytes: u64,
    /// Bytes declared as holes.
    holes: u64,
    /// Number of write operations in flight.
    writing: usize,
    /// Whether a write was submitted.
    started: bool,
    /// Number of bytes that the source announced as sent.
    done: Option<u64>,
}

impl FileTarget {
    /// Returns how the file is completed.
    pub fn completion(&self, options: &SinkOptions) -> FileCompletion {
        FileCompletion {
            size: self.content.size(),
            attributes: self.attributes.clone(),
            name: FilePath::new(0, self.name.as_bytes()),
            sync: options.sync == SyncMode::File,
        }
    }

    /// Returns whether the file is sent as a single part.
    pub fn is_one_block(&self) -> bool {
        self.announced_size <= self.block.length()
    }

    /// Widens extents of the file to complete blocks.
    fn widen(&self, extents: impl Iterator<Item = Extent>) -> ExtentSet {
        let mut blocks = ExtentSet::default();
        in_blocks(extents, self.content.size(), self.block.length()).for_each(|block| blocks.insert(block));
        blocks
    }

    /// Returns the blocks to receive.
    fn blocks(&self) -> ExtentSet {
        self.widen(self.content.extents())
    }

    /// Widens the data of the file to complete blocks, as it is sent and recorded.
    fn in_whole_blocks(&self) -> Content {
        Content::from_extents(self.content.size(), self.blocks().iter())
            .unwrap_or_else(|_| self.content.clone())
    }
}

impl IncomingFile {
    /// Creates a file of which all data is missing.
    pub fn new(target: FileTarget) -> Self {
        let left = target.blocks();
        Self { target, answered: false, left, bytes: 0, holes: 0, writing: 0, started: false, done: None }
    }

    /// Returns where the file is written.
    pub fn target(&self) -> &FileTarget {
        &self.target
    }

    /// Returns where the file was written.
    pub fn into_target(self) -> FileTarget {
        self.target
    }

    /// Returns the number of received bytes of data.
    pub fn data_bytes(&self) -> u64 {
        self.bytes - self.holes
    }

    /// Returns the number of bytes not received yet.
    pub fn missing_bytes(&self) -> u64 {
        bytes_of(&self.left)
    }

    /// Removes the ranges that the journal lists as durable; returns whether there are any.
    pub fn resume(&mut self, log: &ResumeLog, options: &SinkOptions) -> bool {
        let Some(key) = self.target.key else { return false };
        let Some(missing) = log.missing(key, &self.target.in_whole_blocks()) else { return false };
        // The earlier transfer may have had another block size.
        let left = self.target.widen(missing.iter());
        if left == self.left {
            return false;
        }
        // In eager mode the source sends everything; too many extents cannot be requested.
        if options.eager || left.intervals() > MAX_EXTENTS {
            return false;
        }
        self.left = left;
        true
    }

    /// Requires all data again, because the partial file cannot be trusted.
    pub fn restart(&mut self) {
        self.left = self.target.blocks();
    }

    /// Returns the number of bytes that need not be received, after [`IncomingFile::resume`].
    pub fn resumed_bytes(&self) -> u64 {
        bytes_of(&self.target.blocks()) - bytes_of(&self.left)
    }

    /// Returns the recorded data ranges, unless the entry of the file omits holes.
    pub fn recorded_ranges(&self) -> Vec<Range<u64>> {
        if self.target.content.may_omit_holes() {
            return Vec::new();
        }
        let mut held = ExtentSet::default();
        self.target.content.extents().for_each(|extent| held.insert(extent));
        self.left.iter().for_each(|extent| held.remove(extent));
        held.iter().map(|extent| extent.start()..extent.end()).collect()
    }

    /// Returns the data that is needed of the file.
    pub fn needed(&self, resumed: bool) -> NeededData {
        let extents: Vec<Extent> = self.left.iter().collect();
        match resumed {
            false => NeededData::All,
            true if extents.is_empty() => NeededData::Nothing,
            true => NeededData::Some(extents),
        }
    }

    /// Records that the missing data is requested.
    pub fn answer(&mut self) {
        self.answered = true;
    }

    /// Returns whether the missing data is requested.
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Returns whether all data is received, and the source announced that if it must.
    pub fn has_all_data(&self) -> bool {
        self.left.is_empty() && (self.target.is_one_block() || self.is_announced())
    }

    /// Returns whether the source has sent everything, or need not announce that.
    fn is_announced(&self) -> bool {
        self.done.is_some() || self.bytes == 0
    }

    /// Records a written range in the journal, if the file is recorded there.
    pub fn record(&self, extent: Extent, hash: Option<BlockHash>, log: &mut ResumeLog) {
        if let Some(key) = self.target.key {
            log.record_write(key, &self.target.name, &self.target.at, (extent, hash));
        }
    }

    /// Returns the recorded blocks that are not requested again, and their hashes.
    pub fn resumed_blocks(&self, log: &ResumeLog) -> Vec<(Extent, BlockHash)> {
        let Some(key) = self.target.key else { return Vec::new() };
        let size = self.target.content.size();
        let block = |(extent, hash): (Extent, BlockHash)| {
            let extent = Extent::between(extent.start(), extent.end().min(size))?;
            Some((extent, hash)).filter(|_| !self.left.intersects(extent))
        };
        log.hashes(key).filter_map(block).collect()
    }

    /// Requests blocks again that are damaged.
    pub fn add_damaged(&mut self, blocks: &[Extent]) {
        let blocks = self.target.widen(blocks.iter().copied());
        blocks.iter().for_each(|block| self.left.insert(block));
    }

    /// Accepts a hole: complete blocks that were requested, of a file whose entry omits holes.
    pub fn accept_hole(&mut self, hole: Extent) -> Result<(), WireError> {
        let block = self.target.block.length();
        let is_blocks = [hole.start(), hole.end()]
            .iter()
            .all(|&edge| edge.is_multiple_of(block) || edge == self.target.content.size());
        let may_be = self.target.content.may_omit_holes() && self.target.content.size() > block;
        if !is_blocks || !may_be || !self.left.covers(hole) || self.done.is_some() || !self.answered {
            return Err(WireError::InvalidValue("holes that were not requested"));
        }
        self.left.remove(hole);
        self.bytes += hole.length();
        self.holes += hole.length();
        Ok(())
    }

    /// Accepts a part whose data is in these bytes of a chunk; returns the write, which completes a
    /// file of a single part.
    pub fn accept_part(
        &mut self,
        extent: Extent,
        bytes: Range<usize>,
        digest: Digest,
        options: &SinkOptions,
    ) -> Result<FileWrite, WireError> {
        self.accept_block(extent)?;
        let is_complete =
            self.target.is_one_block() && (extent.start(), extent.end()) == (0, self.target.content.size());
        let mut put = self.write_request(is_complete);
        put.parts = parts(&self.target.content, extent, &bytes);
        put.check = vec![(bytes, digest)];
        put.settle = is_complete.then(|| self.target.completion(options));
        Ok(put)
    }

    /// Ends the file where it was truncated at the source; returns the number of bytes that are not
    /// sent.
    pub fn truncate(&mut self, size: u64) -> Result<u64, WireError> {
        let behind = Extent::between(size, self.target.content.size());
        let behind = behind.filter(|_| self.done.is_none() && self.answered);
        let behind = behind.ok_or(WireError::InvalidValue("the size of a truncated file"))?;
        let content = Content::from_extents(size, self.target.content.extents());
        self.target.content = content.map_err(|_| WireError::InvalidValue("the size of a truncated file"))?;
        let before = self.missing_bytes();
        self.left.remove(behind);
        Ok(before - self.missing_bytes())
    }

    /// Accepts the announcement that all requested data was sent.
    pub fn accept_end(&mut self, bytes: u64) -> Result<(), WireError> {
        if !self.left.is_empty() || self.bytes != bytes || self.done.is_some() {
            return Err(WireError::InvalidValue("the length of a sent file"));
        }
        self.done = Some(bytes);
        Ok(())
    }

    /// Returns the write that completes a file of many parts or of none, once all of its data is
    /// written.
    pub fn start_completion(&mut self, options: &SinkOptions) -> Option<FileWrite> {
        let is_written = self.left.is_empty() && self.writing == 0 && self.is_announced();
        let is_truncated_to_nothing = self.target.content.size() == 0;
        if !is_written || self.target.is_one_block() && !is_truncated_to_nothing {
            return None;
        }
        self.writing += 1;
        let settle = Some(self.target.completion(options));
        Some(FileWrite { settle, ..self.write_request(self.target.is_one_block()) })
    }

    /// Records that a write operation ended.
    pub fn end_write(&mut self) {
        self.writing -= 1;
    }

    /// Accepts a block that was requested.
    fn accept_block(&mut self, extent: Extent) -> Result<(), WireError> {
        let block = self.target.block.length();
        let end = extent.start().saturating_add(block).min(self.target.content.size());
        let is_block = extent.start().is_multiple_of(block) && extent.end() == end;
        if !is_block || !self.left.covers(extent) || self.done.is_some() || !self.answered {
            return Err(WireError::InvalidValue("a part of a file that was not requested"));
        }
        self.left.remove(extent);
        self.bytes += extent.length();
        self.writing += 1;
        Ok(())
    }

    /// Creates a write to this file. A file of several parts was started before, unless it is
    /// written in order.
    fn write_request(&mut self, is_only: bool) -> FileWrite {
        let is_first = !std::mem::replace(&mut self.started, true);
        let starts = is_only || is_first && self.target.in_order;
        let begin = match (self.target.in_place, starts) {
            (false, true) => OpenMode::Fresh,
            (false, false) => OpenMode::Continue,
            (true, true) => OpenMode::InPlace,
            (true, false) => OpenMode::ContinueInPlace,
        };
        let sparse = self.target.content.may_omit_holes();
        FileWrite { sparse, ..FileWrite::new(self.target.at.clone(), begin) }
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

/// Returns the total length of extents.
fn bytes_of(extents: &ExtentSet) -> u64 {
    extents.iter().map(Extent::length).sum()
}
