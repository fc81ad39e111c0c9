//! The store of a fleet: one SQLite file.
//!
//! The documents of hosts are stored as they were added and stay the truth. Hosts, facts, figures,
//! findings and conditions are derived from them, and [`FleetStore::rebuild`] derives them again.

mod batches;
mod content;
mod csv_export;
mod error;
mod files;
mod ingest;
mod load;
mod open;
mod rows;
mod tables;
#[cfg(test)]
mod tests;
mod text;

pub use content::{ContentFigure, ContentFinding, Derive, DocumentContent, HostClaim};
pub use csv_export::DESCRIPTION;
pub use error::StoreError;
pub use files::list_files;
pub use ingest::{IngestEvent, IngestOptions, IngestTotals};
pub use load::{StoredDocument, StoredHost};
pub use open::FleetStore;
pub use text::MOST_DOCUMENT_BYTES;
