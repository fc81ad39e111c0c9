//! Encoding and decoding of the stream header and the frames.

use super::batch::{Batch, BATCH};
use super::bytes::{put_bytes, put_frame, put_number, Reader};
use super::data_requests::{DataRequest, DataRequests, NeededData};
use super::error::{WireError, MAGIC, MAX_PARTS, MAX_PAYLOAD, MAX_REQUESTS, MAX_TEXT, VERSION};
use super::extents::{put_extents, read_extents};
use super::file_data::{Chunk, ChunkPart, FileHash, FileSent, Holes, TruncatedFile};
use super::itemized::{Itemized, MAX_ITEMIZED};
use super::problem::{DisplayText, Problem, ProblemSubject, Reason, Side};
use super::results::{ChangeKind, EndTotals, ManifestEntry, SinkChange};
use super::stored_entries::{StoredEntries, MAX_STORED_PAYLOAD};
use crate::entry::{FileNumber, MAX_EXTENTS};
use crate::extent::Extent;
use crate::hash::HashKind;
use crate::name::{Name, MAX_NAME};
use crate::port::Digest;

/// The identity of a transfer: 16 random bytes, or a hash of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransferId(pub [u8; 16]);

/// The first message of each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHeader {
    /// The sending side.
    pub side: Side,
    /// The transfer.
    pub transfer: TransferId,
}

/// A message after the stream header. Frames come in any order, but [`Frame::End`] is the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Entries of the scan; sent by the source.
    Batch(Batch),
    /// The header of file data. The data, possibly compressed, follows outside of any frame.
    Chunk(Chunk),
    /// Ranges of a file that are not sent because they read as zeros.
    Holes(Holes),
    /// All requested parts of a file were sent.
    FileSent(FileSent),
    /// A file that was truncated while it was sent; sent by the source if the sink accepts it.
    Truncated(TruncatedFile),
    /// A problem of the sending side.
    Problem(Problem),
    /// The end of the stream.
    End(EndTotals),
    /// The data that the sink needs of announced files.
    DataRequests(DataRequests),
    /// The hash of a file; sent by the source on request.
    FileHash(FileHash),
    /// The final hash of a file at the sink; sent by the sink for a manifest.
    ManifestEntry(ManifestEntry),
    /// A change at the sink; sent by the sink if the user is at the source.
    Change(SinkChange),
    /// A directory whose contents are not in the transfer because another file system is mounted on
    /// it; sent by the source before the entry, if the sink deletes.
    MountPoint(Name),
    /// Entries that are stored completely; sent by the sink if the source removes them.
    StoredEntries(StoredEntries),
    /// All data is sent; sent by the source before it removes stored entries. Its end follows.
    AllSent,
}

const CHUNK: u8 = 2;
const FILE_SENT: u8 = 3;
const PROBLEM: u8 = 4;
const END: u8 = 5;
const DATA_REQUESTS: u8 = 6;
const FILE_HASH: u8 = 7;
const MANIFEST_ENTRY: u8 = 8;
const CHANGE: u8 = 9;
const COMPRESSED_CHUNK: u8 = 10;
const HOLES: u8 = 11;
const MOUNT_POINT: u8 = 12;
const ITEMIZED_CHANGE: u8 = 13;
const STORED_ENTRIES: u8 = 14;
const ALL_SENT: u8 = 15;
/// Kind of a frame that only ports send and receive.
const PORT_MESSAGE: u8 = 16;
const TRUNCATED: u8 = 17;
/// Maximum payload of a message of the port.
pub const MAX_PORT_MESSAGE: usize = 8 << 10;

/// Bytes of a stream header whose meaning is the same in every version: magic and version.
pub const PREAMBLE: usize = MAGIC.len() + 2;
/// Bytes of a stream header in version 1.
pub const HEADER_LENGTH: usize = PREAMBLE + 1 + 16;

const NOTHING: u8 = 0;
const ALL: u8 = 1;
const SOME: u8 = 2;
const HASH: u8 = 3;

const ABOUT_TRANSFER: u8 = 0;
const ABOUT_FILE: u8 = 1;
const ABOUT_NAME: u8 = 2;

impl StreamHeader {
    /// Appends the encoded stream header to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.push(side_code(self.side));
        out.extend_from_slice(&self.transfer.0);
    }

    /// Reads the fields after the preamble.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let side = read_side(reader)?;
        Ok(Self { side, transfer: TransferId(reader.exactly("the stream header")?) })
    }
}

/// Checks the first bytes of a stream as far as available.
pub fn check_preamble(bytes: &[u8]) -> Result<(), WireError> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(WireError::Magic);
    }
    let mut reader = Reader::new(&bytes[known..]);
    match reader.exactly("the version").map(u16::from_be_bytes) {
        Ok(version) if version != VERSION => Err(WireError::Version(version)),
        _ => Ok(()),
    }
}

impl Frame {
    /// Appends the encoded frame to `out`. The caller appends the data of a chunk.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        let kind = match self {
            Self::Batch(batch) => {
                batch.put(&mut payload);
                BATCH
            }
            Self::Chunk(chunk) => {
                chunk.compressed_length.iter().for_each(|bytes| put_number(&mut payload, *bytes));
                put_chunk(&mut payload, chunk);
                if chunk.compressed_length.is_some() {
                    COMPRESSED_CHUNK
                } else {
                    CHUNK
                }
            }
            Self::Holes(holes) => {
                holes.put(&mut payload);
                HOLES
            }
            Self::FileSent(sent) => {
                sent.put(&mut payload);
                FILE_SENT
            }
            Self::Truncated(file) => {
                file.put(&mut payload);
                TRUNCATED
            }
            Self::DataRequests(requests) => {
                put_requests(&mut payload, requests);
                DATA_REQUESTS
            }
            Self::FileHash(hash) => {
                hash.put(&mut payload);
                FILE_HASH
            }
            Self::ManifestEntry(entry) => {
                put_bytes(&mut payload, entry.name.as_bytes());
                payload.extend_from_slice(&entry.digest.0);
                MANIFEST_ENTRY
            }
            Self::Change(change) => {
                put_change(&mut payload, change);
                change.itemized.iter().for_each(|itemized| itemized.put(&mut payload));
                if change.itemized.is_some() {
                    ITEMIZED_CHANGE
                } else {
                    CHANGE
                }
            }
            Self::StoredEntries(stored) => {
                stored.put(&mut payload);
                STORED_ENTRIES
            }
            Self::AllSent => ALL_SENT,
            Self::MountPoint(name) => {
                put_bytes(&mut payload, name.as_bytes());
                MOUNT_POINT
            }
            Self::Problem(problem) => {
                put_problem(&mut payload, problem);
                PROBLEM
            }
            Self::End(end) => {
                put_end(&mut payload, end);
                END
            }
        };
        put_frame(out, kind, &payload);
    }

    /// Decodes a payload.
    pub(super) fn read(kind: u8, payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        let frame = match kind {
            BATCH => Self::Batch(Batch::read(&mut reader)?),
            CHUNK => Self::Chunk(read_chunk(&mut reader)?),
            COMPRESSED_CHUNK => {
                let bytes = reader.number("a count of bytes")?;
                Self::Chunk(read_chunk(&mut reader)?.compressed_to(bytes)?)
            }
            HOLES => Self::Holes(Holes::new(read_file(&mut reader)?, read_extents(&mut reader)?)?),
            FILE_SENT => Self::FileSent(FileSent {
                file: read_file(&mut reader)?,
                bytes: reader.number("a count of bytes")?,
            }),
            TRUNCATED => Self::Truncated(TruncatedFile::read(&mut reader)?),
            DATA_REQUESTS => Self::DataRequests(read_requests(&mut reader)?),
            FILE_HASH => {
                let file = read_file(&mut reader)?;
                Self::FileHash(FileHash { file, digest: Digest(reader.exactly("a hash")?) })
            }
            MANIFEST_ENTRY => {
                let name = read_name(&mut reader)?;
                if name.is_root() {
                    return Err(WireError::InvalidValue("a file without a name"));
                }
                Self::ManifestEntry(ManifestEntry { name, digest: Digest(reader.exactly("a hash")?) })
            }
            STORED_ENTRIES => Self::StoredEntries(StoredEntries::read(&mut reader)?),
            ALL_SENT => Self::AllSent,
            MOUNT_POINT => Self::MountPoint(read_name(&mut reader)?),
            CHANGE => Self::Change(read_change(&mut reader)?),
            ITEMIZED_CHANGE => {
                let change = read_change(&mut reader)?;
                let itemized = Some(Box::new(Itemized::read(&mut reader)?));
                Self::Change(SinkChange { itemized, ..change })
            }
            PROBLEM => Self::Problem(read_problem(&mut reader)?),
            END => Self::End(read_end(&mut reader)?),
            kind => return Err(WireError::Kind(kind)),
        };
        reader.end()?;
        Ok(frame)
    }
}

/// Returns a packet's frames with a message of the port, which the other side's port takes out of
/// the stream before its core receives it.
pub fn port_message(payload: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    put_frame(&mut frames, PORT_MESSAGE, payload);
    frames
}

/// Returns the payload of a packet's frames if they are a message of the port.
pub fn port_message_payload(frames: &[u8]) -> Option<&[u8]> {
    let rest = frames.strip_prefix(&[PORT_MESSAGE])?;
    let mut reader = Reader::new(rest);
    let payload = reader.bytes("a message of the port", MAX_PORT_MESSAGE).ok()?;
    reader.is_empty().then_some(payload)
}

/// Returns the maximum payload length of a frame kind.
pub fn max_payload(kind: u8) -> Result<usize, WireError> {
    const NUMBER: usize = 10;
    Ok(match kind {
        BATCH | DATA_REQUESTS => MAX_PAYLOAD,
        CHUNK => 1 + MAX_PARTS * (3 * NUMBER + 32),
        COMPRESSED_CHUNK => NUMBER + max_payload(CHUNK)?,
        HOLES => 2 * NUMBER + MAX_EXTENTS * 2 * NUMBER,
        FILE_SENT | TRUNCATED => 2 * NUMBER,
        FILE_HASH => NUMBER + 32,
        MANIFEST_ENTRY => NUMBER + MAX_NAME + 32,
        CHANGE => 1 + NUMBER + MAX_NAME + NUMBER,
        ITEMIZED_CHANGE => max_payload(CHANGE)? + MAX_ITEMIZED,
        STORED_ENTRIES => MAX_STORED_PAYLOAD,
        ALL_SENT => 0,
        MOUNT_POINT => NUMBER + MAX_NAME,
        END => 7 * NUMBER,
        PROBLEM => 3 + NUMBER + NUMBER + MAX_NAME + NUMBER + MAX_TEXT,
        kind => return Err(WireError::Kind(kind)),
    })
}

fn read_file(reader: &mut Reader<'_>) -> Result<FileNumber, WireError> {
    Ok(FileNumber::new(reader.number("the number of a file")?)?)
}

fn put_chunk(out: &mut Vec<u8>, chunk: &Chunk) {
    out.push(chunk.hash.code());
    for part in &chunk.parts {
        put_number(out, part.file.get());
        put_number(out, part.extent.start());
        put_number(out, part.extent.length());
        out.extend_from_slice(&part.digest.0[..chunk.hash.bytes()]);
    }
}

fn read_chunk(reader: &mut Reader<'_>) -> Result<Chunk, WireError> {
    let hash =
        HashKind::from_code(reader.byte("a chunk")?).ok_or(WireError::InvalidValue("the kind of a hash"))?;
    let mut parts = Vec::new();
    while !reader.is_empty() && parts.len() <= MAX_PARTS {
        let file = read_file(reader)?;
        let extent = Extent::at(reader.number("a chunk")?, reader.number("a chunk")?);
        let extent = extent.ok_or(WireError::InvalidValue("the extent of a chunk"))?;
        let mut digest = Digest::default();
        match hash {
            HashKind::None => {}
            HashKind::Xxh3 => digest.0[..16].copy_from_slice(&reader.exactly::<16>("a hash")?),
            HashKind::Blake3 => digest.0 = reader.exactly("a hash")?,
        }
        parts.push(ChunkPart { file, extent, digest });
    }
    Chunk::new(hash, parts)
}

fn put_requests(out: &mut Vec<u8>, requests: &DataRequests) {
    for request in &requests.0 {
        put_number(out, request.first.get());
        put_number(out, request.count);
        match &request.what {
            NeededData::Nothing => out.push(NOTHING),
            NeededData::All => out.push(ALL),
            NeededData::Hash => out.push(HASH),
            NeededData::Some(extents) => {
                out.push(SOME);
                put_extents(out, extents);
            }
        }
    }
}

fn read_requests(reader: &mut Reader<'_>) -> Result<DataRequests, WireError> {
    let mut requests = Vec::new();
    while !reader.is_empty() && requests.len() <= MAX_REQUESTS {
        let first = read_file(reader)?;
        let count = reader.number("a count of files")?;
        let what = match reader.byte("a request")? {
            NOTHING => NeededData::Nothing,
            ALL => NeededData::All,
            HASH => NeededData::Hash,
            SOME => NeededData::Some(read_extents(reader)?),
            _ => return Err(WireError::InvalidValue("the kind of a request")),
        };
        requests.push(DataRequest { first, count, what });
    }
    DataRequests::new(requests)
}

fn put_change(out: &mut Vec<u8>, change: &SinkChange) {
    out.push(action_code(change.action));
    put_bytes(out, change.name.as_bytes());
    if change.action == ChangeKind::Copied {
        put_number(out, change.bytes);
    }
}

fn read_change(reader: &mut Reader<'_>) -> Result<SinkChange, WireError> {
    let code = reader.byte("the kind of a change")?;
    let action = ChangeKind::ALL.into_iter().find(|action| action_code(*action) == code);
    let action = action.ok_or(WireError::InvalidValue("the kind of a change"))?;
    let name = read_name(reader)?;
    let bytes = if action == ChangeKind::Copied { reader.number("a count of bytes")? } else { 0 };
    Ok(SinkChange { name, action, bytes, itemized: None })
}

fn put_end(out: &mut Vec<u8>, end: &EndTotals) {
    let EndTotals { entries, failed, bytes, size, resumed, unchanged, removed } = *end;
    for number in [entries, failed, bytes, size, resumed, unchanged, removed] {
        put_number(out, number);
    }
}

fn read_end(reader: &mut Reader<'_>) -> Result<EndTotals, WireError> {
    let mut number = || reader.number("the totals of an end frame");
    Ok(EndTotals {
        entries: number()?,
        failed: number()?,
        bytes: number()?,
        size: number()?,
        resumed: number()?,
        unchanged: number()?,
        removed: number()?,
    })
}

fn put_problem(out: &mut Vec<u8>, problem: &Problem) {
    out.push(side_code(problem.side));
    out.push(problem.reason.code());
    match &problem.about {
        ProblemSubject::Transfer => out.push(ABOUT_TRANSFER),
        ProblemSubject::File(file, name) => {
            out.push(ABOUT_FILE);
            put_number(out, file.get());
            put_bytes(out, name.as_bytes());
        }
        ProblemSubject::Name(name) => {
            out.push(ABOUT_NAME);
            put_bytes(out, name.as_bytes());
        }
    }
    put_bytes(out, problem.text.as_str().as_bytes());
}

fn read_problem(reader: &mut Reader<'_>) -> Result<Problem, WireError> {
    let side = read_side(reader)?;
    let code = reader.byte("a reason")?;
    let reason = Reason::ALL.iter().copied().find(|reason| reason.code() == code);
    let reason = reason.ok_or(WireError::InvalidValue("the code of a reason"))?;
    let about = match reader.byte("a problem")? {
        ABOUT_TRANSFER => ProblemSubject::Transfer,
        ABOUT_FILE => ProblemSubject::File(read_file(reader)?, read_name(reader)?),
        ABOUT_NAME => ProblemSubject::Name(read_name(reader)?),
        _ => return Err(WireError::InvalidValue("the subject of a problem")),
    };
    let text = DisplayText::from_wire(reader.bytes("a text", MAX_TEXT)?)?;
    Ok(Problem { about, side, reason, text })
}

fn read_name(reader: &mut Reader<'_>) -> Result<Name, WireError> {
    Ok(match reader.bytes("a name", MAX_NAME)? {
        b"" => Name::root(),
        name => Name::new(name)?,
    })
}

fn action_code(action: ChangeKind) -> u8 {
    match action {
        ChangeKind::Copied => 1,
        ChangeKind::Created => 2,
        ChangeKind::AttributesSet => 3,
        ChangeKind::Removed => 4,
    }
}

fn side_code(side: Side) -> u8 {
    match side {
        Side::Source => 1,
        Side::Sink => 2,
    }
}

fn read_side(reader: &mut Reader<'_>) -> Result<Side, WireError> {
    match reader.byte("a side")? {
        1 => Ok(Side::Source),
        2 => Ok(Side::Sink),
        _ => Err(WireError::InvalidValue("a side")),
    }
}
