//! Messages with the data of files.

use super::bytes::{put_number, Reader};
use super::error::{WireError, MAX_CHUNK, MAX_PARTS};
use super::extents::{check_extents, put_extents};
use crate::entry::FileNumber;
use crate::extent::Extent;
use crate::hash::HashKind;
use crate::port::Digest;

/// The header of data: the parts of files that follow, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub(super) hash: HashKind,
    pub(super) parts: Vec<ChunkPart>,
    pub(super) compressed_length: Option<u64>,
}

/// A part of a file and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPart {
    /// The file.
    pub file: FileNumber,
    /// The range of bytes.
    pub extent: Extent,
    /// The hash of these bytes.
    pub digest: Digest,
}

impl Chunk {
    /// Creates the header of uncompressed data.
    ///
    /// # Errors
    /// [`WireError::TooLong`] for more than [`MAX_PARTS`] parts or [`MAX_CHUNK`] bytes,
    /// [`WireError::InvalidValue`] for none.
    pub fn new(hash: HashKind, parts: Vec<ChunkPart>) -> Result<Self, WireError> {
        if parts.is_empty() {
            return Err(WireError::InvalidValue("a chunk without parts"));
        }
        if parts.len() > MAX_PARTS {
            return Err(WireError::TooLong {
                what: "a chunk",
                length: parts.len() as u64,
                limit: MAX_PARTS as u64,
            });
        }
        let chunk = Self { hash, parts, compressed_length: None };
        match chunk.length() {
            length if length > MAX_CHUNK => {
                Err(WireError::TooLong { what: "a chunk", length, limit: MAX_CHUNK })
            }
            _ => Ok(chunk),
        }
    }

    /// Marks the data as compressed to `bytes` bytes, all parts together.
    ///
    /// # Errors
    /// [`WireError::InvalidValue`] unless `bytes` is at least 1 and less than the uncompressed
    /// length.
    pub fn compressed_to(self, bytes: u64) -> Result<Self, WireError> {
        match (1..self.length()).contains(&bytes) {
            true => Ok(Self { compressed_length: Some(bytes), ..self }),
            false => Err(WireError::InvalidValue("the length of compressed data")),
        }
    }

    /// Returns the number of compressed bytes, if the data is compressed.
    pub fn compressed_length(&self) -> Option<u64> {
        self.compressed_length
    }

    /// Returns the number of bytes that follow the frame.
    pub fn wire_length(&self) -> u64 {
        self.compressed_length.unwrap_or(self.length())
    }

    /// Returns the hash function of the parts.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// Returns the parts in the order of their data.
    pub fn parts(&self) -> &[ChunkPart] {
        &self.parts
    }

    /// Returns the number of uncompressed bytes of all parts.
    pub fn length(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.extent.length()))
    }
}

/// Holes that the entry of a file declared as data because it has too many; sent before its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holes {
    file: FileNumber,
    extents: Vec<Extent>,
}

impl Holes {
    /// Creates a list of holes in ascending order.
    ///
    /// # Errors
    /// [`WireError::TooLong`] for more than [`MAX_EXTENTS`](crate::entry::MAX_EXTENTS),
    /// [`WireError::InvalidValue`] for none or if they are out of order.
    pub fn new(file: FileNumber, extents: Vec<Extent>) -> Result<Self, WireError> {
        check_extents(&extents)?;
        Ok(Self { file, extents })
    }

    /// Returns the file.
    pub fn file(&self) -> FileNumber {
        self.file
    }

    /// Returns the holes, in multiples of the block size.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.file.get());
        put_extents(out, &self.extents);
    }
}

/// All requested parts of a file were sent, and the file did not change meanwhile. Not sent for a
/// file that was sent as a single part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSent {
    /// The file.
    pub file: FileNumber,
    /// Bytes that were sent or declared as holes.
    pub bytes: u64,
}

impl FileSent {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        put_number(out, self.file.get());
        put_number(out, self.bytes);
    }
}

/// The end of a file that became shorter while it was sent. Requested data behind it is not sent,
/// and the last block ends there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruncatedFile {
    /// The file.
    pub file: FileNumber,
    /// Its size in bytes, less than before.
    pub size: u64,
}

impl TruncatedFile {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        put_number(out, self.file.get());
        put_number(out, self.size);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let file = FileNumber::new(reader.number("the number of a file")?)?;
        Ok(Self { file, size: reader.number("the size of a file")? })
    }
}

/// The content hash of a file at the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHash {
    /// The file.
    pub file: FileNumber,
    /// BLAKE3 with 256 bits.
    pub digest: Digest,
}

impl FileHash {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        put_number(out, self.file.get());
        out.extend_from_slice(&self.digest.0);
    }
}
