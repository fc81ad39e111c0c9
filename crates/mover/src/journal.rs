//! The journal of a sink: an append-only log of the file data that is durable, for resuming.
//!
//! The driver appends the bytes from [`Journal::take_pending`] to a file in order and syncs at
//! times of its choice. Whatever a crash leaves of the log is true, though possibly incomplete, if
//! the data that it describes was synced before. Without syncs it is valid only until the machine
//! reboots.
//!
//! # File format
//!
//! A header of 30 bytes: `numaioJ\n`; the version in two bytes, big-endian; the identity of the
//! transfer (16 bytes); the CRC-32 of these 26 bytes in four bytes, big-endian. Then records: a
//! kind byte, numbers encoded as in the protocol, and a CRC-32 in four bytes.
//!
//! | kind | numbers | meaning |
//! |---|---|---|
//! | 1 | file, offset, length | these bytes of the file are durable |
//! | 3 | file | all earlier records of the file are invalid |
//! | 4 | file, offset, hash function, hash | as kind 5, for a block of 1 MiB: no longer written |
//! | 5 | file, offset, length, hash function, hash | start of the hash of this block |
//!
//! Blocks of a transfer have one size, but a later transfer of the same file may have another one.
//! So a hash replaces all hashes of overlapping blocks, and the blocks of these are no longer
//! durable: nothing would verify the rest of them.
//!
//! The CRC (ISO 3309, as in zlib) of a record continues that of the previous record, so it covers
//! the complete file up to that point. Reading stops at the first invalid record: blocks that
//! reached the disk out of order, or that belong to a deleted file, do not match. Damage is missed
//! once in 2^32 cases. There is no protection against forged journals.

use crate::entry::{Content, FileNumber};
use crate::extent::{Extent, ExtentSet, MAX_SIZE};
use crate::hash::HashKind;
use crate::port::{Digest, BLOCK};
use crate::wire::bytes::{put_number, Reader};
use crate::wire::{TransferId, WireError};
use std::collections::BTreeMap;
use std::ops::Range;

const MAGIC: [u8; 8] = *b"numaioJ\n";
const VERSION: u16 = 1;
const CHECKSUM: usize = 4;
/// Bytes of the header.
pub const HEADER: usize = MAGIC.len() + 2 + 16 + CHECKSUM;
/// Maximum bytes of a record: a kind, five numbers and a checksum.
const MAX_RECORD: usize = 1 + 5 * 10 + CHECKSUM;

const DURABLE: u8 = 1;
const INVALID: u8 = 3;
const DEFAULT_BLOCK_HASH: u8 = 4;
const HASH: u8 = 5;

/// The hash of a block as the journal keeps it: enough to notice damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHash {
    /// The hash function.
    pub kind: HashKind,
    /// The first bytes of the hash.
    first: u64,
}

impl BlockHash {
    /// Shortens a hash; `None` for no hash.
    pub fn new(kind: HashKind, digest: &Digest) -> Option<Self> {
        let first = u64::from_be_bytes(*digest.0.first_chunk()?);
        (kind != HashKind::None).then_some(Self { kind, first })
    }
}

/// Reasons why a file is not the journal of this transfer. It must not be appended to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The file ends within the header.
    #[error("the journal header is truncated")]
    Truncated,
    /// The file does not start with the magic bytes.
    #[error("not a numaio journal")]
    NotAJournal,
    /// The journal has a format that this version cannot read.
    #[error("unsupported journal version {0}, expected {VERSION}")]
    Version(u16),
    /// The header checksum is wrong.
    #[error("the journal header is damaged")]
    DamagedHeader,
    /// The journal belongs to another transfer.
    #[error("the journal belongs to another transfer")]
    OtherTransfer(TransferId),
}

/// The durable byte ranges of the files of one transfer, and the log that stores them.
///
/// A journal has two representations: the ranges in memory, by file number, and the byte log for
/// the disk. Every change ([`Journal::mark_durable`], [`Journal::invalidate`]) updates the ranges
/// and appends a record to the pending bytes; the caller writes these to the end of the file. The
/// caller also guarantees the order: data is durable (or the machine stays up) before its record is
/// written, and an invalidation is on disk before the file is overwritten. After a restart,
/// [`JournalReader`] rebuilds the ranges from the valid prefix of the file.
///
/// Memory use grows with the number of gaps between durable ranges.
#[derive(Debug, Clone)]
pub struct Journal {
    transfer: TransferId,
    /// Durable ranges by file number.
    durable: BTreeMap<u64, ExtentSet>,
    /// Hashes of blocks by file number and offset, with the block. Blocks are disjoint.
    hashes: BTreeMap<u64, BTreeMap<u64, (Extent, BlockHash)>>,
    /// Checksum of the last record.
    chain: u32,
    /// Number of records in the log.
    records: usize,
    /// Bytes that are not yet written.
    pending: Vec<u8>,
}

/// Returns the identity of the transfer of a journal, given at least its first [`HEADER`] bytes;
/// `None` if the header is damaged.
pub fn transfer_of_journal(bytes: &[u8]) -> Option<TransferId> {
    let id = TransferId(*bytes.get(MAGIC.len() + 2..)?.first_chunk()?);
    (bytes.get(..HEADER)? == header(id)).then_some(id)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    Durable(u64, Extent),
    Invalid(u64),
    Hash(u64, Extent, BlockHash),
}

impl Journal {
    /// Creates an empty journal for a new transfer.
    pub fn new(transfer: TransferId) -> Self {
        let pending = header(transfer);
        let (durable, hashes) = Default::default();
        Self { transfer, durable, hashes, chain: last_checksum(&pending), records: 0, pending }
    }

    /// Records that these bytes of a file are durable.
    pub fn mark_durable(&mut self, file: FileNumber, extent: Extent) {
        self.append(Record::Durable(file.get(), extent));
    }

    /// Records the hash of a block of a file, before the block is marked durable. Other blocks that
    /// overlap it lose their hashes and are no longer durable.
    pub fn record_hash(&mut self, file: FileNumber, block: Extent, hash: BlockHash) {
        self.append(Record::Hash(file.get(), block, hash));
    }

    /// Returns the recorded hashes of blocks of a file, in ascending order. A block may end after
    /// the file.
    pub fn hashes(&self, file: FileNumber) -> impl Iterator<Item = (Extent, BlockHash)> + '_ {
        self.hashes.get(&file.get()).into_iter().flatten().map(|(_, &recorded)| recorded)
    }

    /// Invalidates all files in a range of numbers except `but`; returns whether any had records.
    /// The record must be on disk before the data of these files is overwritten.
    pub fn invalidate(&mut self, files: Range<u64>, but: Option<FileNumber>) -> bool {
        let but = but.map(FileNumber::get);
        let known = self.durable.range(files).map(|(&file, _)| file).filter(|&file| Some(file) != but);
        let known: Vec<u64> = known.collect();
        known.iter().for_each(|&file| self.append(Record::Invalid(file)));
        !known.is_empty()
    }

    /// Returns whether the journal has no durable range of any file.
    pub fn is_empty(&self) -> bool {
        self.durable.is_empty()
    }

    /// Returns the data of a file that is not durable.
    pub fn missing(&self, file: FileNumber, content: &Content) -> ExtentSet {
        let nothing = ExtentSet::default();
        let durable = self.durable.get(&file.get()).unwrap_or(&nothing);
        let mut left = ExtentSet::default();
        for extent in content.extents() {
            durable.missing_in(extent).for_each(|missing| left.insert(missing));
        }
        left
    }

    /// Returns the bytes to append to the file; the first call includes the header.
    pub fn take_pending(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Puts bytes that could not be written back in front of the pending ones.
    pub fn restore_pending(&mut self, mut pending: Vec<u8>) {
        pending.append(&mut self.pending);
        self.pending = pending;
    }

    /// Adopts the records for another transfer; [`Journal::compact`] must be called next.
    pub fn continue_as(&mut self, transfer: TransferId) {
        self.transfer = transfer;
    }

    /// Returns whether compaction would shorten the log considerably.
    pub fn is_bloated(&self) -> bool {
        let intervals: usize = self.durable.values().map(ExtentSet::intervals).sum();
        let hashes: usize = self.hashes.values().map(BTreeMap::len).sum();
        self.records > 1_000 + 4 * intervals + 2 * hashes
    }

    /// Returns the shortest complete log, which replaces the old file from offset 0.
    ///
    /// After a kill in the middle, the remains of the old log do not match the checksum chain and
    /// are ignored. After a system crash the old log may be back, without the later records.
    pub fn compact(&mut self) -> Vec<u8> {
        let (durable, hashes) = (std::mem::take(&mut self.durable), std::mem::take(&mut self.hashes));
        *self = Self::new(self.transfer);
        for (&file, extents) in &durable {
            extents.iter().for_each(|extent| self.append(Record::Durable(file, extent)));
            for &(block, hash) in hashes.get(&file).into_iter().flat_map(BTreeMap::values) {
                self.append(Record::Hash(file, block, hash));
            }
        }
        self.take_pending()
    }

    fn append(&mut self, record: Record) {
        let start = self.pending.len();
        record.put(&mut self.pending);
        self.chain = checksum(self.chain, &self.pending[start..]);
        self.pending.extend_from_slice(&self.chain.to_be_bytes());
        self.apply(record);
        self.records += 1;
    }

    /// Replaces the hashes of overlapping blocks. These no longer count as durable, because no hash
    /// verifies the rest of them.
    fn apply_hash(&mut self, file: u64, block: Extent, hash: BlockHash) {
        let recorded = self.hashes.entry(file).or_default();
        while let Some(other) = last_overlap(recorded, block) {
            recorded.remove(&other.start());
            let durable = self.durable.get_mut(&file).filter(|_| other != block);
            durable.into_iter().for_each(|durable| durable.remove(other));
        }
        recorded.insert(block.start(), (block, hash));
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Durable(file, extent) => self.durable.entry(file).or_default().insert(extent),
            Record::Invalid(file) => {
                self.durable.remove(&file);
                self.hashes.remove(&file);
            }
            Record::Hash(file, block, hash) => self.apply_hash(file, block, hash),
        }
    }
}

/// Returns the last recorded block that overlaps a new one. Recorded blocks are disjoint.
fn last_overlap(recorded: &BTreeMap<u64, (Extent, BlockHash)>, block: Extent) -> Option<Extent> {
    let (_, &(last, _)) = recorded.range(..block.end()).next_back()?;
    (last.end() > block.start()).then_some(last)
}

impl Record {
    fn put(self, out: &mut Vec<u8>) {
        let (kind, numbers) = match self {
            Self::Durable(file, extent) => (DURABLE, vec![file, extent.start(), extent.length()]),
            Self::Invalid(file) => (INVALID, vec![file]),
            Self::Hash(file, block, BlockHash { kind, first }) => {
                (HASH, vec![file, block.start(), block.length(), u64::from(kind.code()), first])
            }
        };
        out.push(kind);
        numbers.iter().for_each(|&number| put_number(out, number));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let what = "a record";
        let kind = reader.byte(what)?;
        let file = FileNumber::new(reader.number(what)?)?;
        Ok(match kind {
            DURABLE => {
                let extent = Extent::at(reader.number(what)?, reader.number(what)?);
                Self::Durable(file.get(), extent.ok_or(WireError::InvalidValue(what))?)
            }
            INVALID => Self::Invalid(file.get()),
            HASH | DEFAULT_BLOCK_HASH => {
                let offset = reader.number(what)?;
                let length = match kind {
                    HASH => reader.number(what)?,
                    _ => (BLOCK as u64).min(MAX_SIZE.saturating_sub(offset)),
                };
                let block = Extent::at(offset, length).ok_or(WireError::InvalidValue(what))?;
                let (code, first) = (reader.number(what)?, reader.number(what)?);
                let kind = u8::try_from(code).ok().and_then(HashKind::from_code);
                let kind = kind.ok_or(WireError::InvalidValue(what))?;
                Self::Hash(file.get(), block, BlockHash { kind, first })
            }
            kind => return Err(WireError::Kind(kind)),
        })
    }
}

/// Reads a journal incrementally.
#[derive(Debug)]
pub struct JournalReader {
    journal: Journal,
    /// Bytes of an incomplete header or record.
    rest: Vec<u8>,
    /// Bytes of the header and of all valid records.
    valid: u64,
    finished: bool,
}

impl JournalReader {
    /// Creates a reader for the journal of this transfer.
    pub fn new(transfer: TransferId) -> Self {
        let journal = Journal { pending: Vec::new(), ..Journal::new(transfer) };
        Self { journal, rest: Vec::new(), valid: 0, finished: false }
    }

    /// Processes the next bytes of the file. After the first invalid record it ignores the rest.
    ///
    /// # Errors
    /// A [`JournalError`] if the file is not the journal of this transfer.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), JournalError> {
        // In small steps, so that the buffer stays small.
        while !bytes.is_empty() && !self.finished {
            let (piece, later) = bytes.split_at(bytes.len().min(4_096));
            bytes = later;
            self.rest.extend_from_slice(piece);
            let used = self.read()?;
            self.valid += used as u64;
            self.rest.drain(..used);
        }
        Ok(())
    }

    /// Returns the journal and the number of valid bytes, to which the file must be truncated
    /// before records are appended.
    ///
    /// # Errors
    /// [`JournalError::Truncated`] if the header is incomplete; [`JournalError::NotAJournal`].
    pub fn finish(self) -> Result<(Journal, u64), JournalError> {
        match self.valid {
            0 if MAGIC.starts_with(&self.rest[..self.rest.len().min(MAGIC.len())]) => {
                Err(JournalError::Truncated)
            }
            0 => Err(JournalError::NotAJournal),
            valid => Ok((self.journal, valid)),
        }
    }

    /// Parses the header and records in the buffer; returns how many bytes they take.
    fn read(&mut self) -> Result<usize, JournalError> {
        let mut used = 0;
        if self.valid == 0 {
            let Some(header) = self.rest.first_chunk() else { return Ok(0) };
            check_header(header, self.journal.transfer)?;
            used = HEADER;
        }
        loop {
            let rest = &self.rest[used..];
            let Some((record, length, chain)) = read_record(rest, self.journal.chain) else {
                self.finished = rest.len() >= MAX_RECORD;
                return Ok(used);
            };
            self.journal.apply(record);
            self.journal.chain = chain;
            self.journal.records += 1;
            used += length;
        }
    }
}

/// Parses a record; returns it with its length and its checksum, which continues `chain`.
fn read_record(bytes: &[u8], chain: u32) -> Option<(Record, usize, u32)> {
    let mut reader = Reader::new(bytes);
    let record = Record::read(&mut reader).ok()?;
    let length = bytes.len() - reader.left();
    let stored = u32::from_be_bytes(reader.exactly("a checksum").ok()?);
    let chain = checksum(chain, &bytes[..length]);
    (stored == chain).then_some((record, length + CHECKSUM, chain))
}

fn header(transfer: TransferId) -> Vec<u8> {
    let mut header = [&MAGIC[..], &VERSION.to_be_bytes(), &transfer.0].concat();
    let sum = checksum(0, &header);
    header.extend_from_slice(&sum.to_be_bytes());
    header
}

fn check_header(bytes: &[u8; HEADER], transfer: TransferId) -> Result<(), JournalError> {
    let mut reader = Reader::new(bytes);
    let short = |_: WireError| JournalError::Truncated;
    if reader.exactly("magic").map_err(short)? != MAGIC {
        return Err(JournalError::NotAJournal);
    }
    let version = u16::from_be_bytes(reader.exactly("a version").map_err(short)?);
    let found = TransferId(reader.exactly("an identity").map_err(short)?);
    if bytes[HEADER - CHECKSUM..] != checksum(0, &bytes[..HEADER - CHECKSUM]).to_be_bytes() {
        return Err(JournalError::DamagedHeader);
    }
    if version != VERSION {
        return Err(JournalError::Version(version));
    }
    if found != transfer {
        return Err(JournalError::OtherTransfer(found));
    }
    Ok(())
}

/// Returns the checksum at the end of a header.
fn last_checksum(header: &[u8]) -> u32 {
    header.last_chunk().map_or(0, |sum| u32::from_be_bytes(*sum))
}

fn checksum(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests;
