//! Reading and sending requested data.

use super::announced_files::{StartedFile, TruncatedRest};
use super::scan::as_change;
use super::Source;
use crate::compression;
use crate::entry::{FileNumber, MAX_EXTENTS};
use crate::extent::Extent;
use crate::port::{
    CompressFn, CompressionResult, ContentHash, Details, Digest, Fault, FaultKind, FileInfo, FileKind,
    Operation, Ticket,
};
use crate::report::reason;
use crate::wire::{
    Chunk, ChunkPart, FileHash, FileSent, Frame, Holes, ProblemSubject, Reason, TruncatedFile, WireError,
};
use std::time::Duration;

impl<B: AsRef<[u8]>> Source<B> {
    /// Announces the holes of a file and queues its data for reading.
    pub(super) fn send_file(&mut self, StartedFile { job, holes }: StartedFile) {
        for some in holes.chunks(MAX_EXTENTS) {
            if let Ok(holes) = Holes::new(job.file(), some.to_vec()) {
                self.peer.send(&Frame::Holes(holes));
            }
        }
        self.peer.totals.size = self.peer.totals.size.saturating_add(job.bytes());
        if job.bytes() == 0 {
            let done = self.files.complete(job.file());
            return self.send_end_of_file(done);
        }
        if let Some(file) = self.files.get(job.file()) {
            self.reading.push(file.device(), job);
        }
    }

    /// Submits reads up to the limit of operations in flight.
    pub(super) fn submit_reads(&mut self, now: Duration) {
        while self.bandwidth.may_read(now) {
            let next = self.reading.next(|file| self.files.get(file).is_some());
            let Some((device, pieces)) = next else { return };
            let bytes = pieces.iter().map(|(_, extent)| extent.length()).sum();
            self.bandwidth.spend(bytes, now);
            let packs = self.compression.should_compress(self.files.history(&pieces), bytes);
            let read = |&(number, extent): &(FileNumber, Extent)| {
                self.files.get(number).map(|file| file.read_piece(extent))
            };
            let operation = Operation::Read {
                pieces: pieces.iter().filter_map(read).collect(),
                hash: self.options.hash.function(),
                pack: packs.then_some(compression::compress as CompressFn),
            };
            self.reading.submitted(device, self.peer.submit(operation), pieces);
        }
    }

    /// Sends data that was read, and announces files that are complete with it.
    pub(super) fn read(
        &mut self,
        ticket: Ticket,
        results: Vec<Result<Digest, Fault>>,
        data: B,
        packed: Option<CompressionResult>,
    ) {
        let Some(pieces) = self.reading.completed(ticket) else { return };
        let history = self.files.history(&pieces);
        let mut parts = Vec::new();
        let mut faults = Vec::new();
        for ((file, extent), result) in pieces.into_iter().zip(results) {
            match result {
                Ok(digest) => parts.push(ChunkPart { file, extent, digest }),
                Err(fault) => {
                    self.bandwidth.refund(extent.length());
                    faults.push((file, extent, fault));
                }
            }
        }
        let length: u64 = parts.iter().map(|part| part.extent.length()).sum();
        let announced: Vec<(FileNumber, Extent)> =
            parts.iter().map(|part| (part.file, part.extent)).collect();
        if let Some(packed) = packed.filter(|_| length > 0) {
            self.compression.record(history, &packed, length);
        }
        if let Err(error) = self.send(parts, data, length, packed.and_then(|packed| packed.bytes)) {
            return self.abort(Reason::Other, &error.to_string());
        }
        for (file, extent) in announced {
            let done = self.files.record_sent(file, extent);
            self.send_end_of_file(done);
            if self.options.active_files {
                self.look_up_end(file);
            }
        }
        for (file, extent, fault) in faults {
            match fault.why == FaultKind::Changed && self.options.active_files {
                true => self.read_as_it_is(file, extent),
                false => self.fail(file, &fault),
            }
        }
    }

    /// Reads a piece of a file that has changed since it was announced. If it is shorter now, the
    /// rest of it is read when everything else was sent.
    fn read_as_it_is(&mut self, number: FileNumber, extent: Extent) {
        let Some(file) = self.files.get_mut(number) else { return };
        match file.read_again(extent) {
            true => self.read_again(number, extent),
            false => {
                file.add_unread(extent);
                self.look_up_end(number);
            }
        }
    }

    fn read_again(&mut self, number: FileNumber, extent: Extent) {
        let Some(file) = self.files.get(number) else { return };
        let (device, pieces) = (file.device(), vec![file.read_piece(extent)]);
        let operation = Operation::Read { pieces, hash: self.options.hash.function(), pack: None };
        self.reading.submitted(device, self.peer.submit(operation), vec![(number, extent)]);
    }

    /// Looks up the end of a truncated file, if everything before it was sent.
    fn look_up_end(&mut self, number: FileNumber) {
        let Some(path) = self.files.to_look_up(number) else { return };
        let (at, details) = (vec![path.clone()], Details::default());
        let ticket = self.peer.submit(Operation::Stat { at, details, links: Vec::new() });
        self.end_lookups.insert(ticket, number);
    }

    /// Handles the lookup of the end of a truncated file.
    pub(super) fn end_looked_up(&mut self, number: FileNumber, found: Vec<Result<Option<FileInfo>, Fault>>) {
        let found = found.into_iter().next().unwrap_or(Ok(None));
        let size = match found {
            Ok(Some(found)) if found.metadata.kind == FileKind::File => Ok(found.metadata.size),
            Ok(_) => Err(Fault::new(FaultKind::Changed, "file changed during the transfer")),
            Err(fault) => Err(fault),
        };
        let Some(file) = self.files.get_mut(number) else { return };
        let rest = size.and_then(|size| {
            let changes = || Fault::new(FaultKind::Changed, "file is truncated again and again");
            file.truncate(size).ok_or_else(changes)
        });
        let TruncatedRest { size, omitted, extents } = match rest {
            Ok(rest) => rest,
            Err(fault) => return self.fail(number, &fault),
        };
        self.peer.totals.size = self.peer.totals.size.saturating_sub(omitted);
        if let Some(size) = size {
            self.peer.send(&Frame::Truncated(TruncatedFile { file: number, size }));
        }
        if extents.is_empty() {
            let done = self.files.complete(number);
            return self.send_end_of_file(done);
        }
        extents.into_iter().for_each(|extent| self.read_again(number, extent));
    }

    /// Sends parts of files: `length` bytes, or `packed` bytes if they are compressed.
    fn send(
        &mut self,
        parts: Vec<ChunkPart>,
        data: B,
        length: u64,
        packed: Option<usize>,
    ) -> Result<(), WireError> {
        if parts.is_empty() {
            return Ok(());
        }
        let mut chunk = Chunk::new(self.options.hash, parts)?;
        if let Some(bytes) = packed {
            chunk = chunk.compressed_to(bytes as u64)?;
        }
        let wire_length = chunk.wire_length();
        self.peer.send_data(&Frame::Chunk(chunk), data, wire_length as usize);
        self.compression.link.queued(wire_length);
        self.bandwidth.refund(length - wire_length);
        self.peer.totals.bytes += length;
        self.peer.totals.sent += wire_length;
        Ok(())
    }

    /// Announces that all data of a file was sent.
    fn send_end_of_file(&mut self, done: Option<FileSent>) {
        if let Some(done) = done {
            self.peer.send(&Frame::FileSent(done));
        }
        for name in self.files.take_changed() {
            let text = "changed while it was read: copied as it was read";
            self.peer.report_problem(ProblemSubject::Name(name), Reason::Changed, text);
        }
    }

    /// Handles a step of hashing a file; sends the hash when it is complete.
    pub(super) fn hashed(&mut self, ticket: Ticket, outcome: Result<ContentHash, Fault>) {
        let queue = self.hash_queues.iter_mut().find(|queue| queue.is_reading(ticket));
        match queue.and_then(|queue| queue.completed(ticket, outcome)) {
            Some((file, Ok(digest))) => self.peer.send(&Frame::FileHash(FileHash { file, digest })),
            Some((file, Err(fault))) => self.fail(file, &fault),
            None => {}
        }
    }

    /// Handles a file that cannot be read; the others continue.
    fn fail(&mut self, number: FileNumber, fault: &Fault) {
        if let Some(file) = self.files.remove(number) {
            let about = ProblemSubject::File(number, file.into_name());
            let fault = as_change(fault.clone());
            self.peer.report_problem(about, reason(fault.why), &fault.text);
        }
    }
}
