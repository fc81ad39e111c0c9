//! Reading and sending requested data.

use super::{File, Source, SourceOptions};
use crate::chunk::{Chunker, ReadJob};
use crate::compression::{self, CompressionHistory};
use crate::entry::FileNumber;
use crate::extent::Extent;
use crate::port::{CompressFn, CompressionResult, Digest, Fault, Operation, ReadPiece, Ticket, BLOCK};
use crate::wire::{Chunk, ChunkPart, FileSent, Frame, Reason, WireError};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// The remaining pieces of a task.
type Pieces = Box<dyn Iterator<Item = (FileNumber, Extent)> + Send>;

/// Data to read, and reads in flight.
pub(super) struct ReadQueue {
    /// Files that do not fit into the window of the chunker yet.
    waiting: VecDeque<ReadJob>,
    pieces: Option<Pieces>,
    in_flight: BTreeMap<Ticket, Vec<(FileNumber, Extent)>>,
    max_reads: usize,
    /// Bandwidth limit in bytes per second.
    limit: Option<u64>,
    /// When the next read may start.
    ready: Duration,
    throttled: bool,
}

impl std::fmt::Debug for ReadQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").field("under_way", &self.in_flight).finish_non_exhaustive()
    }
}

impl ReadQueue {
    /// Creates an empty queue.
    pub fn new(options: &SourceOptions) -> Self {
        Self {
            waiting: VecDeque::new(),
            pieces: None,
            in_flight: BTreeMap::new(),
            max_reads: options.reads.max(1),
            limit: options.limit,
            ready: Duration::ZERO,
            throttled: false,
        }
    }

    /// Adds a file to the chunker, or to the queue if the window is full.
    pub fn push(&mut self, chunker: &mut Chunker, job: ReadJob) {
        if let Err(job) = chunker.push(job) {
            self.waiting.push_back(job);
        }
    }

    /// Returns whether nothing is queued or in flight, except in the chunker.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.pieces.is_none() && self.waiting.is_empty()
    }

    /// Returns when the bandwidth limit permits the next read, if it delays one.
    pub fn wake(&self) -> Option<Duration> {
        self.throttled.then_some(self.ready)
    }

    /// Returns the next pieces to read: a bundle, or one piece of a file. If `more_comes`, waits
    /// for it so that it is sorted with the rest.
    fn next(&mut self, chunker: &mut Chunker, more_comes: bool) -> Option<Vec<(FileNumber, Extent)>> {
        loop {
            if let Some(piece) = self.pieces.as_mut().and_then(Iterator::next) {
                return Some(vec![piece]);
            }
            self.pieces = None;
            while let Some(job) = self.waiting.pop_front() {
                if let Err(job) = chunker.push(job) {
                    self.waiting.push_front(job);
                    break;
                }
            }
            let task = chunker.poll().or_else(|| {
                // Waiting longer would leave reads idle.
                let idle = !more_comes && self.in_flight.len() < self.max_reads.div_ceil(2);
                idle.then(|| chunker.flush()).and_then(|()| chunker.poll())
            })?;
            if task.files().count() > 1 {
                return Some(task.into_pieces().collect());
            }
            self.pieces = Some(task.into_pieces());
        }
    }

    /// Returns whether the bandwidth limit permits a read now.
    fn may_read(&mut self, now: Duration) -> bool {
        self.throttled = self.limit.is_some() && now < self.ready;
        !self.throttled
    }

    fn time_for(&self, bytes: u64) -> Duration {
        self.limit.map_or(Duration::ZERO, |limit| Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64))
    }

    fn spend(&mut self, bytes: u64, now: Duration) {
        if self.limit.is_some() {
            self.ready = self.ready.max(now) + self.time_for(bytes);
        }
    }

    /// Returns unused bytes to the bandwidth budget.
    fn refund(&mut self, bytes: u64) {
        self.ready = self.ready.saturating_sub(self.time_for(bytes));
    }
}

impl<B: AsRef<[u8]>> Source<B> {
    /// Submits reads up to the limit of operations in flight.
    pub(super) fn submit_reads(&mut self, now: Duration) {
        while self.reading.in_flight.len() < self.reading.max_reads && self.reading.may_read(now) {
            let more_comes = !self.addresses.is_idle();
            let Some(mut pieces) = self.reading.next(&mut self.chunker, more_comes) else { return };
            // Files may have failed meanwhile.
            pieces.retain(|(file, _)| self.files.contains_key(&file.get()));
            if pieces.is_empty() {
                // The iterator of a huge file would be long.
                self.reading.pieces = None;
                continue;
            }
            let bytes = pieces.iter().map(|(_, extent)| extent.length()).sum();
            self.reading.spend(bytes, now);
            let packs = self.compression.should_compress(large(&mut self.files, &pieces), bytes);
            let read = |(number, extent): &(FileNumber, Extent)| {
                let file = self.files.get(&number.get())?;
                let (at, identity) = (file.path.clone(), file.identity);
                Some(ReadPiece { at, identity, offset: extent.start(), length: extent.length() as usize })
            };
            let operation = Operation::Read {
                pieces: pieces.iter().filter_map(read).collect(),
                hash: self.options.hash.function(),
                pack: packs.then_some(compression::compress as CompressFn),
            };
            let ticket = self.peer.submit(operation);
            self.reading.in_flight.insert(ticket, pieces);
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
        let Some(pieces) = self.reading.in_flight.remove(&ticket) else { return };
        self.addresses.pace.read(pieces.len(), self.now);
        let history = large(&mut self.files, &pieces);
        let mut parts = Vec::new();
        let mut faults = Vec::new();
        for ((file, extent), result) in pieces.into_iter().zip(results) {
            match result {
                Ok(digest) => parts.push(ChunkPart { file, extent, digest }),
                Err(fault) => {
                    self.reading.refund(extent.length());
                    faults.push((file, fault));
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
        announced.into_iter().for_each(|(file, extent)| self.sent(file, extent));
        faults.into_iter().for_each(|(file, fault)| self.fail(file, &fault));
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
        self.reading.refund(length - wire_length);
        self.peer.totals.bytes += length;
        self.peer.totals.sent += wire_length;
        Ok(())
    }

    fn sent(&mut self, number: FileNumber, extent: Extent) {
        let Some(file) = self.files.get_mut(&number.get()) else { return };
        file.sent += extent.length();
        if file.wanted.is_none_or(|wanted| file.sent < wanted) {
            return;
        }
        match (extent.start(), extent.end()) == (0, file.content.size()) {
            true => drop(self.files.remove(&number.get())),
            false => self.all_sent(number),
        }
    }

    /// Announces that all data of a file was sent.
    pub(super) fn all_sent(&mut self, number: FileNumber) {
        if let Some(File { sent: bytes, .. }) = self.files.remove(&number.get()) {
            self.peer.send(&Frame::FileSent(FileSent { file: number, bytes }));
        }
    }
}

/// Returns the compression history of the file, if the pieces are part of a single large one.
fn large<'a>(
    files: &'a mut HashMap<u64, File>,
    pieces: &[(FileNumber, Extent)],
) -> Option<&'a mut CompressionHistory> {
    let [(number, _)] = pieces else { return None };
    let file = files.get_mut(&number.get()).filter(|file| file.content.size() > BLOCK as u64)?;
    Some(&mut file.history)
}
