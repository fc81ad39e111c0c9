//! Reading what the sink wants, and sending it.

use super::{File, Source, SourceOptions};
use crate::chunk::{Chunker, ReadJob};
use crate::entry::FileNumber;
use crate::extent::Extent;
use crate::compression::{self, CompressionHistory};
use crate::wire::{Chunk, ChunkPart, FileSent, Frame, Reason, WireError};
use numaio_machine::port::{Digest, Fault, Operation, Pack, Packed, ReadPiece, Ticket, BLOCK};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// Pieces of one task that are read one by one.
type Pieces = Box<dyn Iterator<Item = (FileNumber, Extent)> + Send>;

/// What is read and what is to be.
pub(super) struct ReadQueue {
    /// Files that did not fit into the cutter's window.
    waiting: VecDeque<ReadJob>,
    pieces: Option<Pieces>,
    in_flight: BTreeMap<Ticket, Vec<(FileNumber, Extent)>>,
    max_reads: usize,
    /// Bytes a second.
    limit: Option<u64>,
    /// When the next read may begin.
    ready: Duration,
    throttled: bool,
}

impl std::fmt::Debug for ReadQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").field("under_way", &self.in_flight).finish_non_exhaustive()
    }
}

impl ReadQueue {
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

    pub fn push(&mut self, chunker: &mut Chunker, job: ReadJob) {
        if let Err(job) = chunker.push(job) {
            self.waiting.push_back(job);
        }
    }

    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.pieces.is_none() && self.waiting.is_empty()
    }

    pub fn wake(&self) -> Option<Duration> {
        self.throttled.then_some(self.ready)
    }

    /// What to read next: a bundle, or one piece of a file. If more comes soon, it is waited for, to be sorted with the rest.
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
                // Nothing better will come while we wait.
                let idle = !more_comes && self.in_flight.len() < self.max_reads.div_ceil(2);
                idle.then(|| chunker.flush()).and_then(|()| chunker.poll())
            })?;
            if task.files().count() > 1 {
                return Some(task.into_pieces().collect());
            }
            self.pieces = Some(task.into_pieces());
        }
    }

    /// Waits for its turn under a limit of the rate.
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

    /// So many bytes of those that were spent do not go to the sink.
    fn refund(&mut self, bytes: u64) {
        self.ready = self.ready.saturating_sub(self.time_for(bytes));
    }
}

impl<B: AsRef<[u8]>> Source<B> {
    /// Begins as many reads as may be under way.
    pub(super) fn submit_reads(&mut self, now: Duration) {
        while self.reading.in_flight.len() < self.reading.max_reads && self.reading.may_read(now) {
            let more_comes = !self.addresses.is_idle();
            let Some(mut pieces) = self.reading.next(&mut self.chunker, more_comes) else { return };
            // Files that failed meanwhile are left out.
            pieces.retain(|(file, _)| self.files.contains_key(&file.get()));
            if pieces.is_empty() {
                // Of a huge file they would be many.
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
                pack: packs.then_some(compression::compress as Pack),
            };
            let ticket = self.peer.submit(operation);
            self.reading.in_flight.insert(ticket, pieces);
        }
    }

    /// Something was read: it is sent, and files that are complete with it are told to be so.
    pub(super) fn read(
        &mut self,
        ticket: Ticket,
        results: Vec<Result<Digest, Fault>>,
        data: B,
        packed: Option<Packed>,
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
        let told: Vec<(FileNumber, Extent)> = parts.iter().map(|part| (part.file, part.extent)).collect();
        if let Some(packed) = packed.filter(|_| length > 0) {
            self.compression.record(history, &packed, length);
        }
        if let Err(error) = self.send(parts, data, length, packed.and_then(|packed| packed.bytes)) {
            return self.give_up(Reason::Other, &error.to_string());
        }
        told.into_iter().for_each(|(file, extent)| self.sent(file, extent));
        faults.into_iter().for_each(|(file, fault)| self.fail(file, &fault));
    }

    /// Sends parts of files, `length` bytes before they were packed to perhaps fewer.
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

    /// Says that all of a file was sent.
    pub(super) fn all_sent(&mut self, number: FileNumber) {
        if let Some(File { sent: bytes, .. }) = self.files.remove(&number.get()) {
            self.peer.send(&Frame::FileSent(FileSent { file: number, bytes }));
        }
    }
}

/// What is known of packing the one file that is read, if it has more blocks than this one.
fn large<'a>(files: &'a mut HashMap<u64, File>, pieces: &[(FileNumber, Extent)]) -> Option<&'a mut CompressionHistory> {
    let [(number, _)] = pieces else { return None };
    let file = files.get_mut(&number.get()).filter(|file| file.content.size() > BLOCK as u64)?;
    Some(&mut file.history)
}
