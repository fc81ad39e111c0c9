//! Files whose data is being received, up to complete files with their final names.

use super::batches::Batches;
use super::incoming_file::IncomingFile;
use super::options::SinkOptions;
use super::resume_log::ResumeLog;
use crate::compression;
use crate::drive::PeerState;
use crate::entry::FileNumber;
use crate::extent::Extent;
use crate::journal::BlockHash;
use crate::name::Name;
use crate::port::{DecompressFn, Decompression, Fault, FaultKind, Operation, Ticket};
use crate::unpreserved::is_complete;
use crate::wire::{Chunk, FileSent, Holes, TruncatedFile, WireError};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The part of a file that one result of a write operation belongs to.
#[derive(Debug)]
pub(super) struct PendingWrite {
    number: FileNumber,
    /// The range that was written; `None` if the file was only completed.
    extent: Option<Extent>,
    /// The hash of that range.
    hash: Option<BlockHash>,
    settled: bool,
}

/// The effect of a completed write on its file.
pub(super) enum WriteEffect {
    /// The file failed or was dropped before.
    Ignored,
    /// More data is missing, or the file is to be completed.
    Written,
    /// The file has its final name, and is to be removed from the incoming files; the fault of an
    /// attribute that could not be set.
    Completed(Option<Fault>),
    /// The write was not started because the transfer is stopping. The partial file is kept for
    /// resuming.
    Cancelled(Fault),
    /// The file with this name failed.
    Failed(Name, Fault),
}

/// All files whose data is being received, by number, and the writes in flight.
///
/// Invariants: the names of the files are distinct; a write in flight counts in `writing` of its
/// file until the file is removed.
#[derive(Debug, Default)]
pub(super) struct IncomingFiles {
    files: HashMap<FileNumber, IncomingFile>,
    names: HashSet<Name>,
    writes: BTreeMap<Ticket, Vec<PendingWrite>>,
}

impl IncomingFiles {
    /// Returns whether no write is in flight.
    pub fn is_idle(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns whether a file with this name is being received.
    pub fn contains_name(&self, name: &Name) -> bool {
        self.names.contains(name)
    }

    /// Returns the number of the file with this name.
    pub fn number_of(&self, name: &Name) -> Option<FileNumber> {
        self.files.iter().find(|(_, file)| file.target().name == *name).map(|(&number, _)| number)
    }

    /// Returns a file.
    pub fn get_mut(&mut self, number: FileNumber) -> Option<&mut IncomingFile> {
        self.files.get_mut(&number)
    }

    /// Adds a file, whose name is not among the files.
    pub fn insert(&mut self, number: FileNumber, file: IncomingFile) {
        self.names.insert(file.target().name.clone());
        self.files.insert(number, file);
    }

    /// Removes a file that is complete or failed, which frees its name.
    pub fn remove(&mut self, number: FileNumber) -> Option<IncomingFile> {
        self.files.remove(&number).inspect(|file| _ = self.names.remove(&file.target().name))
    }

    /// Removes all files.
    pub fn drain(&mut self) -> impl Iterator<Item = IncomingFile> + '_ {
        self.names.clear();
        self.files.drain().map(|(_, file)| file)
    }

    /// Returns whether the data of a decided file may arrive: it was requested, or the file failed
    /// meanwhile.
    pub fn is_answered(&self, number: FileNumber) -> bool {
        self.files.get(&number).is_none_or(IncomingFile::is_answered)
    }

    /// Writes the parts of a chunk.
    pub fn receive_chunk<B: AsRef<[u8]>>(
        &mut self,
        chunk: &Chunk,
        data: B,
        batches: &Batches,
        options: &SinkOptions,
        peer: &mut PeerState<B>,
    ) -> Result<(), WireError> {
        if chunk.hash() != options.hash {
            return Err(WireError::InvalidValue("a chunk with an unexpected hash function"));
        }
        if chunk.length() > options.block.length() {
            let (length, limit) = (chunk.length(), options.block.length());
            return Err(WireError::TooLong { what: "a chunk", length, limit });
        }
        if chunk.compressed_length().is_some() && !options.accept_compressed {
            return Err(WireError::InvalidValue("compressed data, which was not negotiated"));
        }
        peer.totals.sent += chunk.wire_length();
        let (mut puts, mut items) = (Vec::new(), Vec::new());
        let mut at = 0;
        for part in chunk.parts() {
            let bytes = at..at + part.extent.length() as usize;
            at = bytes.end;
            if !batches.is_decided(part.file) {
                return Err(WireError::InvalidValue("data of a file that was not requested"));
            }
            // The source may not know yet that this file failed here.
            let Some(file) = self.files.get_mut(&part.file) else { continue };
            let put = file.accept_part(part.extent, bytes, part.digest, options)?;
            let settled = put.settle.is_some();
            let hash = BlockHash::new(options.hash, &part.digest);
            items.push(PendingWrite { number: part.file, extent: Some(part.extent), hash, settled });
            puts.push(put);
        }
        if !puts.is_empty() {
            let hash = options.hash.function();
            let packed = chunk.compressed_length().map(|bytes| Decompression {
                bytes: bytes as usize,
                plain: chunk.length() as usize,
                with: compression::decompress as DecompressFn,
            });
            let ticket = peer.submit(Operation::Write { puts, data: Some(data), hash, packed });
            self.writes.insert(ticket, items);
        }
        Ok(())
    }

    /// Skips ranges that read as zeros: the partial file was created empty, so there is nothing to
    /// write.
    pub fn receive_holes<B>(
        &mut self,
        holes: &Holes,
        batches: &Batches,
        log: &mut ResumeLog,
        peer: &mut PeerState<B>,
    ) -> Result<(), WireError> {
        if !batches.is_decided(holes.file()) {
            return Err(WireError::InvalidValue("holes of a file that was not requested"));
        }
        let Some(file) = self.files.get_mut(&holes.file()) else { return Ok(()) };
        for &hole in holes.extents() {
            file.accept_hole(hole)?;
            peer.totals.size = peer.totals.size.saturating_sub(hole.length());
            file.record(hole, None, log);
        }
        Ok(())
    }

    /// Handles the announcement that all requested data of a file was sent.
    pub fn receive_file_sent(&mut self, done: FileSent, batches: &Batches) -> Result<(), WireError> {
        if !batches.is_decided(done.file) {
            return Err(WireError::InvalidValue("the end of a file that was not requested"));
        }
        match self.files.get_mut(&done.file) {
            Some(file) => file.accept_end(done.bytes),
            None => Ok(()),
        }
    }

    /// Handles the truncation of a file at the source.
    pub fn receive_truncation<B>(
        &mut self,
        TruncatedFile { file, size }: TruncatedFile,
        batches: &Batches,
        peer: &mut PeerState<B>,
    ) -> Result<(), WireError> {
        if !batches.is_decided(file) {
            return Err(WireError::InvalidValue("the truncation of a file that was not requested"));
        }
        let Some(file) = self.files.get_mut(&file) else { return Ok(()) };
        let omitted = file.truncate(size)?;
        peer.totals.size = peer.totals.size.saturating_sub(omitted);
        Ok(())
    }

    /// Returns whether the source may end: no file has missing data.
    pub fn has_all_data(&self) -> bool {
        self.files.values().all(IncomingFile::has_all_data)
    }

    /// Completes a file of many parts if all of its data is written.
    pub fn settle_if_complete<B: AsRef<[u8]>>(
        &mut self,
        number: FileNumber,
        options: &SinkOptions,
        peer: &mut PeerState<B>,
    ) {
        let put = self.files.get_mut(&number).and_then(|file| file.start_completion(options));
        let Some(put) = put else { return };
        let hash = options.hash.function();
        let ticket = peer.submit(Operation::Write { puts: vec![put], data: None, hash, packed: None });
        self.writes.insert(ticket, vec![PendingWrite { number, extent: None, hash: None, settled: true }]);
    }

    /// Removes a completed write operation; returns its parts.
    pub fn take_writes(&mut self, ticket: Ticket) -> Option<Vec<PendingWrite>> {
        self.writes.remove(&ticket)
    }

    /// Handles the result for one part of a write operation.
    pub fn write_completed<B>(
        &mut self,
        item: &PendingWrite,
        result: Result<(), Fault>,
        log: &mut ResumeLog,
        peer: &mut PeerState<B>,
    ) -> WriteEffect {
        let Some(file) = self.files.get_mut(&item.number) else { return WriteEffect::Ignored };
        file.end_write();
        let mut unset = None;
        match result {
            Err(fault) if fault.why == FaultKind::Cancelled => return WriteEffect::Cancelled(fault),
            Err(fault) if item.settled && is_complete(&fault) => unset = Some(fault),
            Err(fault) => return WriteEffect::Failed(file.target().name.clone(), fault),
            Ok(()) => {}
        }
        if let Some(extent) = item.extent {
            peer.totals.bytes += extent.length();
            file.record(extent, item.hash, log);
        }
        match item.settled {
            true => WriteEffect::Completed(unset),
            false => WriteEffect::Written,
        }
    }
}

impl PendingWrite {
    /// Returns the file.
    pub fn number(&self) -> FileNumber {
        self.number
    }
}
