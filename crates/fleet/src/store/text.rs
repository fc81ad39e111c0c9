//! The compressed text of documents.

use numaio_linux::user_files::read_limited;
use std::io;

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

/// Decompresses a document of a number of bytes, at most [`MOST_DOCUMENT_BYTES`].
///
/// # Errors
/// If the data is damaged, or longer.
pub(super) fn decompress(zstd: &[u8], bytes: u64) -> io::Result<Vec<u8>> {
    read_limited(zstd::stream::read::Decoder::new(zstd)?, bytes.min(MOST_DOCUMENT_BYTES))
}
