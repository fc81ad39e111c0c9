//! The compressed text of documents.

use std::io::{self, Read};

/// Maximum bytes of a document: the report of a host with 64 nodes has about 30 MiB.
pub const MOST_DOCUMENT_BYTES: u64 = 64 << 20;

/// Level of compression: higher ones take several times as long for a tenth of the size.
const LEVEL: i32 = 3;

/// Compresses a document.
///
/// # Errors
/// If memory is short.
pub(super) fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    zstd::bulk::compress(bytes, LEVEL)
}

/// Decompresses a document of at most [`MOST_DOCUMENT_BYTES`].
///
/// # Errors
/// If the data is damaged.
pub(super) fn decompress(zstd: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    zstd::stream::read::Decoder::new(zstd)?.take(MOST_DOCUMENT_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
