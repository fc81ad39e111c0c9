//! The wire format between source and sink, version 1, as specified in
//! `docs/internals/protocol.md`.
//!
//! Every message has exactly one valid encoding, and the decoder rejects all others. So accepted
//! streams can be compared byte by byte, and two implementations cannot interpret them differently.

pub(crate) mod batch;
pub(crate) mod bytes;
mod data_requests;
mod decoder;
mod error;
mod extents;
mod file_data;
mod frame;
mod itemized;
mod problem;
mod results;
mod store;
mod stored_entries;
#[cfg(test)]
mod tests;

pub use batch::{Batch, BatchEncoder, MAX_BATCH};
pub use data_requests::{DataRequest, DataRequests, NeededData};
pub use decoder::{Decoder, StreamItem};
pub use error::{WireError, MAGIC, MAX_CHUNK, MAX_PARTS, MAX_PAYLOAD, MAX_REQUESTS, MAX_TEXT, VERSION};
pub use file_data::{Chunk, ChunkPart, FileHash, FileSent, Holes, TruncatedFile};
pub use frame::{port_message, port_message_payload, Frame, StreamHeader, TransferId, MAX_PORT_MESSAGE};
pub use itemized::{attribute, ItemKind, Itemized};
pub use problem::{DisplayText, Problem, ProblemSubject, Reason, Side};
pub use results::{ChangeKind, EndTotals, ManifestEntry, SinkChange};
pub use store::EntryStore;
pub use stored_entries::{StoredEntries, MAX_STORED};
