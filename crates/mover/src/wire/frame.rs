//! The hello and the frames as bytes.

use super::batch::Batch;
use super::bytes::{put_bytes, put_number, Reader};
use super::{
    About, Chunk, Digest, End, FileDigest, Frame, Hello, Problem, Reason, Side, Text, TransferId, WireError,
    LOWEST_VERSION, MAGIC, MAX_PAYLOAD, MAX_TEXT, VERSION,
};
use crate::entry::FileNumber;
use crate::extent::Extent;
use crate::name::{Name, MAX_NAME};

pub const BATCH: u8 = 1;
const CHUNK: u8 = 2;
const DIGEST: u8 = 3;
const PROBLEM: u8 = 4;
const END: u8 = 5;

/// Bytes of a hello that have the same meaning in every version: magic and versions.
pub const PREAMBLE: usize = MAGIC.len() + 4;
/// Bytes of a hello in version 1.
pub const HELLO: usize = PREAMBLE + 1 + 16;

const XXH3: u8 = 1;
const BLAKE3: u8 = 2;

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
                put_number(&mut payload, chunk.file.get());
                put_number(&mut payload, chunk.extent.start());
                put_number(&mut payload, chunk.extent.length());
                CHUNK
            }
            Self::Digest(digest) => {
                put_digest(&mut payload, digest);
                DIGEST
            }
            Self::Problem(problem) => {
                put_problem(&mut payload, problem);
                PROBLEM
            }
            Self::End(end) => {
                for number in [end.entries, end.failed, end.bytes] {
                    put_number(&mut payload, number);
                }
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
            DIGEST => Self::Digest(read_digest(&mut reader)?),
            PROBLEM => Self::Problem(read_problem(&mut reader)?),
            END => Self::End(End {
                entries: reader.number("a count of entries")?,
                failed: reader.number("a count of entries")?,
                bytes: reader.number("a count of bytes")?,
            }),
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
        BATCH => MAX_PAYLOAD,
        CHUNK | END => 3 * NUMBER,
        DIGEST => NUMBER + 1 + 32,
        PROBLEM => 3 + NUMBER + MAX_NAME + NUMBER + MAX_TEXT,
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

fn read_chunk(reader: &mut Reader<'_>) -> Result<Chunk, WireError> {
    let file = read_file(reader)?;
    let extent = Extent::at(reader.number("a chunk")?, reader.number("a chunk")?);
    Chunk::new(file, extent.ok_or(WireError::Value("the extent of a chunk"))?)
}

fn put_digest(out: &mut Vec<u8>, digest: &FileDigest) {
    put_number(out, digest.file.get());
    let (code, bytes): (u8, &[u8]) = match &digest.digest {
        Digest::Xxh3(bytes) => (XXH3, bytes),
        Digest::Blake3(bytes) => (BLAKE3, bytes),
    };
    out.push(code);
    out.extend_from_slice(bytes);
}

fn read_digest(reader: &mut Reader<'_>) -> Result<FileDigest, WireError> {
    let file = read_file(reader)?;
    let digest = match reader.byte("a hash")? {
        XXH3 => Digest::Xxh3(reader.exactly("a hash")?),
        BLAKE3 => Digest::Blake3(reader.exactly("a hash")?),
        _ => return Err(WireError::Value("the kind of a hash")),
    };
    Ok(FileDigest { file, digest })
}

fn put_problem(out: &mut Vec<u8>, problem: &Problem) {
    out.push(side_code(problem.side));
    out.push(problem.reason.code());
    match &problem.about {
        About::Transfer => out.push(ABOUT_TRANSFER),
        About::File(file) => {
            out.push(ABOUT_FILE);
            put_number(out, file.get());
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
        ABOUT_FILE => About::File(read_file(reader)?),
        ABOUT_NAME => match reader.bytes("a name", MAX_NAME)? {
            b"" => About::Name(Name::root()),
            name => About::Name(Name::new(name)?),
        },
        _ => return Err(WireError::Value("what a problem is about")),
    };
    let text = Text::from_wire(reader.bytes("a text", MAX_TEXT)?)?;
    Ok(Problem { about, side, reason, text })
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
