//! Reading and sending requested data.

use super::announced_files::StartedFile;
use super::scan::as_change;
use super::Source;
use crate::compression;
use crate::entry::{FileNumber, MAX_EXTENTS};
use crate::extent::Extent;
use crate::port::{CompressFn, CompressionResult, ContentHash, Digest, Fault, FaultKind, Operation, Ticket};
use crate::report::reason;
use crate::wire::{Chunk, ChunkPart, FileHash, FileSent, Frame, Holes, ProblemSubject, Reason, WireError};
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
        match self.addresses.is_worthwhile() {
            _ if job.bytes() == 0 => {
                let done = self.files.complete(job.file());
                self.send_end_of_file(done);
            }
            true => self.addresses.push(job),
            false => self.reading.push(job),
        }
    }

    /// Submits reads up to the limit of operations in flight.
    pub(super) fn submit_reads(&mut self, now: Duration) {
        while self.reading.has_capacity() && self.bandwidth.may_read(now) {
            let more_comes = !self.addresses.is_idle();
            let Some(mut pieces) = self.reading.next(more_comes) else { return };
            // Files may have failed meanwhile.
            let first = pieces.first().map(|(file, _)| *file);
            pieces.retain(|(file, _)| self.files.get(*file).is_some());
            if pieces.is_empty() {
                // The iterator of a huge file would be long.
                first.into_iter().for_each(|file| self.reading.skip_file(file));
                continue;
            }
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
            self.reading.submitted(self.peer.submit(operation), pieces);
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
        self.addresses.record_read(pieces.len());
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
        }
        for (file, extent, fault) in faults {
            match fault.why == FaultKind::Changed && self.options.active_files {
                true => self.read_as_it_is(file, extent, &fault),
                false => self.fail(file, &fault),
            }
        }
    }

    /// Reads a piece of a file that has changed since it was announced. It fails if it is shorter
    /// now.
    fn read_as_it_is(&mut self, number: FileNumber, extent: Extent, fault: &Fault) {
        let Some(file) = self.files.get_mut(number) else { return };
        match file.read_again(extent) {
            Ok(Some(name)) => {
                let text = "changed while it was read: copied as it was read";
                self.peer.report_problem(ProblemSubject::Name(name), Reason::Changed, text);
            }
            Ok(None) => {}
            Err(()) => return self.fail(number, fault),
        }
        let Some(file) = self.files.get(number) else { return };
        let pieces = vec![file.read_piece(extent)];
        let operation = Operation::Read { pieces, hash: self.options.hash.function(), pack: None };
        self.reading.submitted(self.peer.submit(operation), vec![(number, extent)]);
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
    }

    /// Handles a step of hashing a file; sends the hash when it is complete.
    pub(super) fn hashed(&mut self, ticket: Ticket, outcome: Result<ContentHash, Fault>) {
        match self.hash_queue.completed(ticket, outcome) {
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
