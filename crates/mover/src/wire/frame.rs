//! The hello and the frames as bytes.

use super::batch::Batch;
use super::bytes::{put_bytes, put_number, Reader};
use super::{
    About, Chunk, ChunkPart, Did, Done, End, Frame, Hello, Holes, Needed, Problem, Reason, Side, Sum, Text,
    There, TransferId, Want, Wants, WireError, LOWEST_VERSION, MAGIC, MAX_PARTS, MAX_PAYLOAD, MAX_TEXT,
    MAX_WANTS, VERSION,
};
use crate::entry::{FileNumber, MAX_EXTENTS};
use crate::extent::Extent;
use crate::hash::HashKind;
use crate::name::{Name, MAX_NAME};
use crate::report::Action;
use numaio_machine::port::Digest;

pub const BATCH: u8 = 1;
const CHUNK: u8 = 2;
const DONE: u8 = 3;
const PROBLEM: u8 = 4;
const END: u8 = 5;
const WANTS: u8 = 6;
const SUM: u8 = 7;
const THERE: u8 = 8;
const DID: u8 = 9;
const PACKED: u8 = 10;
const HOLES: u8 = 11;

/// Bytes of a hello that have the same meaning in every version: magic and versions.
pub const PREAMBLE: usize = MAGIC.len() + 4;
/// Bytes of a hello in version 1.
pub const HELLO: usize = PREAMBLE + 1 + 16;

const NOTHING: u8 = 0;
const ALL: u8 = 1;
const SOME: u8 = 2;
const SUM_OF: u8 = 3;

const ABOUT_TRANSFER: u8 = 0;
const ABOUT_FILE: u8 = 1;
const ABOUT_NAME: u8 = 2;

impl Hello {
    /// Appends the hello to what is to be sent.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&LOWEST_VERSION.to_be_bytes());
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.push(side_code(self.side));
        out.extend_from_slice(&self.transfer.0);
    }

    /// Reads what is behind the preamble.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let side = read_side(reader)?;
        Ok(Self { side, transfer: TransferId(reader.exactly("the hello")?) })
    }
}

/// Checks the first bytes of a stream as far as they are there.
pub fn check_preamble(bytes: &[u8]) -> Result<(), WireError> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(WireError::Magic);
    }
    let mut reader = Reader::new(&bytes[known..]);
    let (Ok(lowest), Ok(version)) = (reader.exactly("versions"), reader.exactly("versions")) else {
        return Ok(());
    };
    let (lowest, version) = (u16::from_be_bytes(lowest), u16::from_be_bytes(version));
    if lowest == 0 || lowest > version {
        return Err(WireError::Value("a pair of versions"));
    }
    if version == VERSION {
        Ok(())
    } else {
        Err(WireError::Version { lowest, version })
    }
}

impl Frame {
    /// Appends the frame to what is to be sent. The data of a chunk is the sender's to append.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        let kind = match self {
            Self::Batch(batch) => {
                batch.put(&mut payload);
                BATCH
            }
            Self::Chunk(chunk) => {
                chunk.packed.iter().for_each(|bytes| put_number(&mut payload, *bytes));
                put_chunk(&mut payload, chunk);
                if chunk.packed.is_some() {
                    PACKED
                } else {
                    CHUNK
                }
            }
            Self::Holes(holes) => {
                put_number(&mut payload, holes.file().get());
                put_extents(&mut payload, holes.extents());
                HOLES
            }
            Self::Done(done) => {
                put_number(&mut payload, done.file.get());
                put_number(&mut payload, done.bytes);
                DONE
            }
            Self::Wants(wants) => {
                put_wants(&mut payload, wants);
                WANTS
            }
            Self::Sum(sum) => {
                put_number(&mut payload, sum.file.get());
                payload.extend_from_slice(&sum.digest.0);
                SUM
            }
            Self::There(there) => {
                put_bytes(&mut payload, there.name.as_bytes());
                payload.extend_from_slice(&there.digest.0);
                THERE
            }
            Self::Did(did) => {
                put_did(&mut payload, did);
                DID
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

    /// Reads a payload.
    pub(super) fn read(kind: u8, payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        let frame = match kind {
            BATCH => Self::Batch(Batch::read(&mut reader)?),
            CHUNK => Self::Chunk(read_chunk(&mut reader)?),
            PACKED => {
                let bytes = reader.number("a count of bytes")?;
                Self::Chunk(read_chunk(&mut reader)?.packed_to(bytes)?)
            }
            HOLES => Self::Holes(Holes::new(read_file(&mut reader)?, read_extents(&mut reader)?)?),
            DONE => {
                Self::Done(Done { file: read_file(&mut reader)?, bytes: reader.number("a count of bytes")? })
            }
            WANTS => Self::Wants(read_wants(&mut reader)?),
            SUM => {
                let file = read_file(&mut reader)?;
                Self::Sum(Sum { file, digest: Digest(reader.exactly("a hash")?) })
            }
            THERE => {
                let name = read_name(&mut reader)?;
                if name.is_root() {
                    return Err(WireError::Value("a file without a name"));
                }
                Self::There(There { name, digest: Digest(reader.exactly("a hash")?) })
            }
            DID => Self::Did(read_did(&mut reader)?),
            PROBLEM => Self::Problem(read_problem(&mut reader)?),
            END => Self::End(read_end(&mut reader)?),
            kind => return Err(WireError::Kind(kind)),
        };
        reader.end()?;
        Ok(frame)
    }
}

/// Most bytes that a frame's payload may have.
pub fn most(kind: u8) -> Result<usize, WireError> {
    const NUMBER: usize = 10;
    Ok(match kind {
        BATCH | WANTS => MAX_PAYLOAD,
        CHUNK => 1 + MAX_PARTS * (3 * NUMBER + 32),
        PACKED => NUMBER + most(CHUNK)?,
        HOLES => 2 * NUMBER + MAX_EXTENTS * 2 * NUMBER,
        DONE => 2 * NUMBER,
        SUM => NUMBER + 32,
        THERE => NUMBER + MAX_NAME + 32,
        DID => 1 + NUMBER + MAX_NAME + NUMBER,
        END => 7 * NUMBER,
        PROBLEM => 3 + NUMBER + NUMBER + MAX_NAME + NUMBER + MAX_TEXT,
        kind => return Err(WireError::Kind(kind)),
    })
}

pub fn put_frame(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    out.push(kind);
    put_bytes(out, payload);
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
    let hash = HashKind::from_code(reader.byte("a chunk")?).ok_or(WireError::Value("the kind of a hash"))?;
    let mut parts = Vec::new();
    while !reader.is_empty() && parts.len() <= MAX_PARTS {
        let file = read_file(reader)?;
        let extent = Extent::at(reader.number("a chunk")?, reader.number("a chunk")?);
        let extent = extent.ok_or(WireError::Value("the extent of a chunk"))?;
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

fn put_wants(out: &mut Vec<u8>, wants: &Wants) {
    for want in &wants.0 {
        put_number(out, want.first.get());
        put_number(out, want.count);
        match &want.what {
            Needed::Nothing => out.push(NOTHING),
            Needed::All => out.push(ALL),
            Needed::Sum => out.push(SUM_OF),
            Needed::Some(extents) => {
                out.push(SOME);
                put_extents(out, extents);
            }
        }
    }
}

fn read_wants(reader: &mut Reader<'_>) -> Result<Wants, WireError> {
    let mut wants = Vec::new();
    while !reader.is_empty() && wants.len() <= MAX_WANTS {
        let first = read_file(reader)?;
        let count = reader.number("a count of files")?;
        let what = match reader.byte("an answer")? {
            NOTHING => Needed::Nothing,
            ALL => Needed::All,
            SUM_OF => Needed::Sum,
            SOME => Needed::Some(read_extents(reader)?),
            _ => return Err(WireError::Value("an answer")),
        };
        wants.push(Want { first, count, what });
    }
    Wants::new(wants)
}

/// Extents behind their count, each as bytes since the end of the one before and length.
pub fn put_extents(out: &mut Vec<u8>, extents: &[Extent]) {
    put_number(out, extents.len() as u64);
    let mut at = 0;
    for extent in extents {
        put_number(out, extent.start() - at);
        put_number(out, extent.length());
        at = extent.end();
    }
}

pub fn read_extents(reader: &mut Reader<'_>) -> Result<Vec<Extent>, WireError> {
    let what = "the extents of a file";
    let count = reader.number(what)?;
    if count > MAX_EXTENTS as u64 {
        return Err(WireError::Long { what, length: count, most: MAX_EXTENTS as u64 });
    }
    let mut extents = Vec::new();
    let mut at = 0u64;
    for _ in 0..count {
        let start = at.checked_add(reader.number(what)?);
        let extent = Extent::at(start.ok_or(WireError::Value(what))?, reader.number(what)?);
        let extent = extent.ok_or(WireError::Value(what))?;
        at = extent.end();
        extents.push(extent);
    }
    Ok(extents)
}

fn put_did(out: &mut Vec<u8>, did: &Did) {
    out.push(action_code(did.action));
    put_bytes(out, did.name.as_bytes());
    if did.action == Action::Copied {
        put_number(out, did.bytes);
    }
}

fn read_did(reader: &mut Reader<'_>) -> Result<Did, WireError> {
    let code = reader.byte("what was done")?;
    let action = Action::ALL.into_iter().find(|action| action_code(*action) == code);
    let action = action.ok_or(WireError::Value("what was done"))?;
    let name = read_name(reader)?;
    let bytes = if action == Action::Copied { reader.number("a count of bytes")? } else { 0 };
    Ok(Did { name, action, bytes })
}

fn put_end(out: &mut Vec<u8>, end: &End) {
    let End { entries, failed, bytes, size, resumed, unchanged, removed } = *end;
    for number in [entries, failed, bytes, size, resumed, unchanged, removed] {
        put_number(out, number);
    }
}

fn read_end(reader: &mut Reader<'_>) -> Result<End, WireError> {
    let mut number = || reader.number("the counts of an end");
    Ok(End {
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
        About::Transfer => out.push(ABOUT_TRANSFER),
        About::File(file, name) => {
            out.push(ABOUT_FILE);
            put_number(out, file.get());
            put_bytes(out, name.as_bytes());
        }
        About::Name(name) => {
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
    let reason = reason.ok_or(WireError::Value("the code of a reason"))?;
    let about = match reader.byte("a problem")? {
        ABOUT_TRANSFER => About::Transfer,
        ABOUT_FILE => About::File(read_file(reader)?, read_name(reader)?),
        ABOUT_NAME => About::Name(read_name(reader)?),
        _ => return Err(WireError::Value("what a problem is about")),
    };
    let text = Text::from_wire(reader.bytes("a text", MAX_TEXT)?)?;
    Ok(Problem { about, side, reason, text })
}

fn read_name(reader: &mut Reader<'_>) -> Result<Name, WireError> {
    Ok(match reader.bytes("a name", MAX_NAME)? {
        b"" => Name::root(),
        name => Name::new(name)?,
    })
}

fn action_code(action: Action) -> u8 {
    match action {
        Action::Copied => 1,
        Action::Made => 2,
        Action::Adorned => 3,
        Action::Removed => 4,
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
        _ => Err(WireError::Value("a side")),
    }
}
