//! What of a transfer is durable at the sink: an append-only log, and what a new start may believe of it.
//!
//! The driver writes what [`Journal::take_pending`] gives to the end of a file, in order, and syncs when it likes. Whatever a crash
//! leaves of the log is true, and less than the truth at worst, if bytes that it speaks of were synced before. Where they were not, it is to be
//! believed only as long as the machine runs.
//!
//! # The file
//!
//! A header of 30 bytes: `numaioJ\n`; the version as two bytes, the highest first; the identity of the
//! transfer (16 bytes); CRC-32 of these 26 bytes, four bytes, the highest first. Then records: a byte of
//! kind, numbers as in the protocol, and a CRC-32 in four bytes.
//!
//! | kind | numbers | meaning |
//! |---|---|---|
//! | 1 | file, offset, length | these bytes of the file are there |
//! | 3 | file | nothing that was said of the file before holds any more |
//!
//! The CRC (ISO 3309, as in zlib) of a record goes on from the one before it, so that it speaks for all of
//! the file up to there. Reading ends at the first record that is not whole: blocks that reached the disk
//! in another order, or were left there by another file, do not fit behind what is missing. Damage goes
//! unseen once in 2^32 times; against somebody who writes journals there is no protection.

use crate::entry::{Content, FileNumber};
use crate::extent::{Extent, ExtentSet};
use crate::wire::bytes::{put_number, Reader};
use crate::wire::{TransferId, WireError};
use std::collections::BTreeMap;
use std::ops::Range;

const MAGIC: [u8; 8] = *b"numaioJ\n";
const VERSION: u16 = 1;
const CHECKSUM: usize = 4;
const HEADER: usize = MAGIC.len() + 2 + 16 + CHECKSUM;
/// Most bytes of a record: a kind, three numbers, a checksum.
const MAX_RECORD: usize = 1 + 3 * 10 + CHECKSUM;

const DURABLE: u8 = 1;
const INVALID: u8 = 3;

/// Why a file is not the journal of this transfer. It must be left alone, or replaced by a new one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The file ends within the header: the journal was never begun.
    #[error("the journal ends within its header")]
    Truncated,
    /// The file begins with something else.
    #[error("the file is no journal of numaio")]
    NotAJournal,
    /// Another version of numaio wrote it.
    #[error("the journal is of version {0}, only {VERSION} can be read")]
    Version(u16),
    /// The header is damaged.
    #[error("the header of the journal is damaged")]
    DamagedHeader,
    /// It belongs to another transfer.
    #[error("the journal belongs to another transfer")]
    OtherTransfer(TransferId),
}

/// What is durable of one transfer.
///
/// Memory grows with the gaps between durable ranges of files.
#[derive(Debug, Clone)]
pub struct Journal {
    transfer: TransferId,
    /// What of files is durable, by their numbers.
    durable: BTreeMap<u64, ExtentSet>,
    /// The checksum of the last record.
    chain: u32,
    /// Records that the log has.
    records: usize,
    /// Bytes that are to be written.
    pending: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    Durable(u64, Extent),
    Invalid(u64),
}

impl Journal {
    /// The journal of a transfer that begins.
    pub fn new(transfer: TransferId) -> Self {
        let pending = header(transfer);
        Self { transfer, durable: BTreeMap::new(), chain: last_checksum(&pending), records: 0, pending }
    }

    /// These bytes of a file are durable.
    pub fn mark_durable(&mut self, file: FileNumber, extent: Extent) {
        self.append(Record::Durable(file.get(), extent));
    }

    /// Nothing is to be believed of the files whose numbers are in a range, but of one; tells whether anything was said of them. This
    /// must be on disk before their bytes are overwritten.
    pub fn invalidate(&mut self, files: Range<u64>, but: Option<FileNumber>) -> bool {
        let but = but.map(FileNumber::get);
        let known = self.durable.range(files).map(|(&file, _)| file).filter(|&file| Some(file) != but);
        let known: Vec<u64> = known.collect();
        known.iter().for_each(|&file| self.append(Record::Invalid(file)));
        !known.is_empty()
    }

    /// Whether nothing is known of any file.
    pub fn is_empty(&self) -> bool {
        self.durable.is_empty()
    }

    /// What of the data of a file is not durable.
    pub fn missing(&self, file: FileNumber, content: &Content) -> ExtentSet {
        let nothing = ExtentSet::default();
        let durable = self.durable.get(&file.get()).unwrap_or(&nothing);
        let mut left = ExtentSet::default();
        for extent in content.extents() {
            durable.missing_in(extent).for_each(|missing| left.insert(missing));
        }
        left
    }

    /// Bytes to write behind those that were given before; at first they begin with the header.
    pub fn take_pending(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Bytes that were not written: they come before those that are to be.
    pub fn restore_pending(&mut self, mut pending: Vec<u8>) {
        pending.append(&mut self.pending);
        self.pending = pending;
    }

    /// Another transfer goes on with what this one left; [`Journal::compact`] is to be called next.
    pub fn continue_as(&mut self, transfer: TransferId) {
        self.transfer = transfer;
    }

    /// Whether a compact journal would be much shorter.
    pub fn is_bloated(&self) -> bool {
        let intervals: usize = self.durable.values().map(ExtentSet::intervals).sum();
        self.records > 1_000 + 4 * intervals
    }

    /// The whole journal anew, as short as can be, with all that was logged so far. It is written over the old one; what follows
    /// is written behind it. What a kill leaves of both does not fit together, and ends where the new one does; a crash of the
    /// machine may leave the old one, with less behind it.
    pub fn compact(&mut self) -> Vec<u8> {
        let durable = std::mem::take(&mut self.durable);
        *self = Self::new(self.transfer);
        for (&file, extents) in &durable {
            extents.iter().for_each(|extent| self.append(Record::Durable(file, extent)));
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

    fn apply(&mut self, record: Record) {
        match record {
            Record::Durable(file, extent) => self.durable.entry(file).or_default().insert(extent),
            Record::Invalid(file) => drop(self.durable.remove(&file)),
        }
    }
}

impl Record {
    fn put(self, out: &mut Vec<u8>) {
        let (kind, numbers) = match self {
            Self::Durable(file, extent) => (DURABLE, vec![file, extent.start(), extent.length()]),
            Self::Invalid(file) => (INVALID, vec![file]),
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
            kind => return Err(WireError::Kind(kind)),
        })
    }
}

/// Reads a journal in pieces of any length.
#[derive(Debug)]
pub struct JournalReader {
    journal: Journal,
    /// Bytes that are no whole record yet, or the header.
    rest: Vec<u8>,
    /// Bytes of the header and of whole records.
    valid: u64,
    finished: bool,
}

impl JournalReader {
    /// Reads the journal of this transfer.
    pub fn new(transfer: TransferId) -> Self {
        let journal = Journal { pending: Vec::new(), ..Journal::new(transfer) };
        Self { journal, rest: Vec::new(), valid: 0, finished: false }
    }

    /// Takes the next bytes of the file. After the first record that is not whole it looks at no more.
    ///
    /// # Errors
    /// The file is not the journal of this transfer.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), JournalError> {
        // In small steps, so that what is kept stays small.
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

    /// The journal as far as it is whole, and how many bytes of the file that is: the file must be cut there
    /// before it is continued.
    ///
    /// # Errors
    /// [`JournalError::Truncated`] if not even the header is there; [`JournalError::NotAJournal`].
    pub fn finish(self) -> Result<(Journal, u64), JournalError> {
        match self.valid {
            0 if MAGIC.starts_with(&self.rest[..self.rest.len().min(MAGIC.len())]) => {
                Err(JournalError::Truncated)
            }
            0 => Err(JournalError::NotAJournal),
            valid => Ok((self.journal, valid)),
        }
    }

    /// Reads header and records as far as they are there, and says how many bytes they are.
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

/// A record, its length and its checksum, which goes on from that of the record before.
fn read_record(bytes: &[u8], chain: u32) -> Option<(Record, usize, u32)> {
    let mut reader = Reader::new(bytes);
    let record = Record::read(&mut reader).ok()?;
    let length = bytes.len() - reader.left();
    let said = u32::from_be_bytes(reader.exactly("a checksum").ok()?);
    let chain = checksum(chain, &bytes[..length]);
    (said == chain).then_some((record, length + CHECKSUM, chain))
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

/// The checksum at the end of a header.
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
