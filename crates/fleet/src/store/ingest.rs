//! Adding documents, and building the derived tables again from them.

use super::batches::{self, MOST_BYTES, MOST_DOCUMENTS};
use super::content::{Derive, DocumentContent};
use super::error::StoreError;
use super::open::FleetStore;
use super::rows::{has_document, RowWriter};
use super::tables::{DERIVED, DROP_DERIVED};
use super::text::{compress, decompress, MOST_DOCUMENT_BYTES};
use numaio_linux::user_files::read_stored;
use rusqlite::{params, Connection};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// How far a host's clock may be ahead of the present without a message, in seconds.
const CLOCK_TOLERANCE_S: u64 = 300;

/// How documents are added.
pub struct IngestOptions<'a> {
    /// The present in seconds since 1970.
    pub now: u64,
    /// Number of threads that parse.
    pub threads: usize,
    /// Derives the content of a document.
    pub derive: Derive<'a>,
    /// Returns whether to stop after the present batch.
    pub is_interrupted: &'a dyn Fn() -> bool,
}

/// A notice about a document, beside that it was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IngestEvent {
    /// The document was not added.
    Rejected {
        /// Its file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Several hosts have one name, and different machine-ids.
    SameName {
        /// The file of the document that added the last one.
        path: PathBuf,
        /// The name.
        name: String,
        /// Their machine-ids.
        machine_ids: Vec<String>,
    },
    /// The time of a document is in the future: the host's clock or this host's clock is wrong.
    FutureClock {
        /// Its file.
        path: PathBuf,
        /// The name of the host.
        host: String,
        /// How far it is ahead, in seconds.
        seconds: u64,
    },
}

/// Counts of documents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IngestTotals {
    /// Added documents.
    pub added: u64,
    /// Documents that the store had already.
    pub known: u64,
    /// Rejected documents.
    pub rejected: u64,
}

/// A parsed document.
struct Prepared {
    path: PathBuf,
    outcome: Result<PreparedDocument, String>,
}

enum PreparedDocument {
    Known,
    New { sha256: [u8; 32], bytes: u64, zstd: Vec<u8>, content: Box<DocumentContent> },
}

/// A document of the store, before its rows are written again.
struct StoredText {
    id: i64,
    path: PathBuf,
    sha256: Vec<u8>,
    /// Number of bytes of the text, as stored.
    bytes: u64,
    zstd: Vec<u8>,
}

impl FleetStore {
    /// Adds documents; each batch of them is one transaction. A document that cannot be used is
    /// reported, and the others are added.
    ///
    /// # Errors
    /// [`StoreError`]: the store cannot be written, or the work was interrupted. Completed batches
    /// stay.
    pub fn ingest(
        &mut self,
        files: &[PathBuf],
        options: &IngestOptions<'_>,
        report: &mut dyn FnMut(IngestEvent),
    ) -> Result<IngestTotals, StoreError> {
        let known = self.sql(known_hashes)?;
        let mut rows = self.sql(RowWriter::read)?;
        let mut totals = IngestTotals::default();
        let mut files = files.iter().peekable();
        let next = || match (options.is_interrupted)() {
            true => Err(StoreError::Interrupted),
            false => Ok(next_batch(&mut files)),
        };
        let prepare =
            |path: &PathBuf| Prepared { path: path.clone(), outcome: prepare(path, &known, options.derive) };
        let write = |batch: Vec<Prepared>| {
            self.sql(|connection| {
                let transaction = connection.unchecked_transaction()?;
                for document in batch {
                    add(&transaction, &mut rows, document, options.now, &mut totals, report)?;
                }
                transaction.commit()
            })
        };
        batches::run(options.threads, next, prepare, write)?;
        Ok(totals)
    }

    /// Builds all derived tables again from the documents, in one transaction.
    ///
    /// # Errors
    /// [`StoreError`]: the store cannot be read or written, or the work was interrupted. Then
    /// nothing changed.
    pub fn rebuild(
        &mut self,
        options: &IngestOptions<'_>,
        report: &mut dyn FnMut(IngestEvent),
    ) -> Result<IngestTotals, StoreError> {
        let mut totals = IngestTotals::default();
        let mut rows = RowWriter::default();
        self.sql(|connection| connection.execute_batch(&format!("BEGIN; {DROP_DERIVED} {DERIVED}")))?;
        let mut last = 0;
        let next = || match (options.is_interrupted)() {
            true => Err(StoreError::Interrupted),
            false => self.sql(|connection| next_texts(connection, &mut last)),
        };
        let derive = |stored: &StoredText| (stored.id, stored.path.clone(), derive(stored, options.derive));
        let write = |batch: Vec<(i64, PathBuf, Result<DocumentContent, String>)>| {
            self.sql(|connection| {
                for (id, path, content) in batch {
                    let written = match content {
                        Ok(content) => {
                            write_rows(connection, &mut rows, (id, path, &content), options.now, report)?
                        }
                        Err(why) => reject(path, why, report),
                    };
                    totals.count(written);
                }
                Ok(())
            })
        };
        let built = batches::run(options.threads, next, derive, write);
        let end = if built.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.sql(|connection| connection.execute_batch(end));
        built.and(ended).map(|()| totals)
    }
}

impl IngestTotals {
    fn count(&mut self, added: bool) {
        match added {
            true => self.added += 1,
            false => self.rejected += 1,
        }
    }
}

fn reject(path: PathBuf, why: String, report: &mut dyn FnMut(IngestEvent)) -> bool {
    report(IngestEvent::Rejected { path, why });
    false
}

fn known_hashes(connection: &Connection) -> rusqlite::Result<HashSet<Vec<u8>>> {
    let mut query = connection.prepare("SELECT sha256 FROM raw_documents")?;
    let hashes = query.query_map([], |row| row.get(0))?.collect();
    hashes
}

/// Takes the files of the next batch.
fn next_batch<'a>(files: &mut std::iter::Peekable<impl Iterator<Item = &'a PathBuf>>) -> Vec<PathBuf> {
    let (mut batch, mut bytes) = (Vec::new(), 0u64);
    while let Some(path) = files.peek() {
        bytes = bytes.saturating_add(path.metadata().map_or(0, |found| found.len()));
        if batch.len() >= MOST_DOCUMENTS || (bytes > MOST_BYTES && !batch.is_empty()) {
            break;
        }
        batch.extend(files.next().cloned());
    }
    batch
}

/// Reads, parses and compresses a file.
fn prepare(path: &Path, known: &HashSet<Vec<u8>>, derive: Derive<'_>) -> Result<PreparedDocument, String> {
    let bytes = read_stored(path, MOST_DOCUMENT_BYTES).map_err(|error| error.to_string())?;
    let sha256: [u8; 32] = Sha256::digest(&bytes).into();
    if known.contains(&sha256[..]) {
        return Ok(PreparedDocument::Known);
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| "not a text file".to_owned())?;
    let content = Box::new(derive(text)?);
    let zstd = compress(&bytes).map_err(|error| error.to_string())?;
    Ok(PreparedDocument::New { sha256, bytes: bytes.len() as u64, zstd, content })
}

/// Adds a document to the store.
fn add(
    connection: &Connection,
    rows: &mut RowWriter,
    Prepared { path, outcome }: Prepared,
    now: u64,
    totals: &mut IngestTotals,
    report: &mut dyn FnMut(IngestEvent),
) -> rusqlite::Result<()> {
    let (sha256, bytes, zstd, content) = match outcome {
        Err(why) => {
            totals.count(reject(path, why, report));
            return Ok(());
        }
        Ok(PreparedDocument::Known) => {
            totals.known += 1;
            return Ok(());
        }
        Ok(PreparedDocument::New { sha256, bytes, zstd, content }) => (sha256, bytes, zstd, content),
    };
    if has_document(connection, &sha256)? {
        totals.known += 1;
        return Ok(());
    }
    let mut insert = connection.prepare_cached(
        "INSERT INTO raw_documents (sha256, path, added_at, bytes, zstd) VALUES (?, ?, ?, ?, ?)",
    )?;
    let (name, now_signed) = (path.to_string_lossy(), i64::try_from(now).unwrap_or(i64::MAX));
    let id = insert.insert(params![&sha256[..], name, now_signed, bytes as i64, zstd])?;
    let is_added = write_rows(connection, rows, (id, path, &content), now, report)?;
    if !is_added {
        connection.execute("DELETE FROM raw_documents WHERE id = ?", [id])?;
    }
    totals.count(is_added);
    Ok(())
}

/// Writes the derived rows of a document; returns whether it was accepted.
fn write_rows(
    connection: &Connection,
    rows: &mut RowWriter,
    (id, path, content): (i64, PathBuf, &DocumentContent),
    now: u64,
    report: &mut dyn FnMut(IngestEvent),
) -> rusqlite::Result<bool> {
    let assigned = match rows.write(connection, id, content)? {
        Ok(assigned) => assigned,
        Err(why) => return Ok(reject(path, why, report)),
    };
    let name = content.host.name.clone();
    let ahead = content.measured_at.saturating_sub(now);
    if ahead > CLOCK_TOLERANCE_S {
        report(IngestEvent::FutureClock { path: path.clone(), host: name.clone(), seconds: ahead });
    }
    if !assigned.same_name.is_empty() {
        report(IngestEvent::SameName { path, name, machine_ids: assigned.same_name });
    }
    Ok(true)
}

/// Reads the next batch of stored documents, by id.
fn next_texts(connection: &Connection, last: &mut i64) -> rusqlite::Result<Vec<StoredText>> {
    let mut query = connection.prepare_cached(
        "SELECT id, path, sha256, bytes, CASE WHEN length(zstd) <= ?3 THEN zstd ELSE x'' END
         FROM raw_documents WHERE id > ?1 ORDER BY id LIMIT ?2",
    )?;
    let (mut batch, mut bytes) = (Vec::new(), 0u64);
    let mut found = query.query([*last, MOST_DOCUMENTS as i64, MOST_DOCUMENT_BYTES as i64])?;
    while let Some(row) = found.next()? {
        // A wrong number is an error of this document, since no more than that is decompressed.
        let plain = row.get::<_, i64>(3)?.unsigned_abs();
        bytes = bytes.saturating_add(plain);
        if bytes > MOST_BYTES && !batch.is_empty() {
            break;
        }
        let (id, path): (i64, String) = (row.get(0)?, row.get(1)?);
        batch.push(StoredText {
            id,
            path: path.into(),
            sha256: row.get(2)?,
            bytes: plain,
            zstd: row.get(4)?,
        });
        *last = id;
    }
    Ok(batch)
}

/// Derives the content of a stored document.
fn derive(stored: &StoredText, derive: Derive<'_>) -> Result<DocumentContent, String> {
    let damaged = || format!("the text of document {} in the store is damaged", stored.id);
    let bytes = decompress(&stored.zstd, stored.bytes).map_err(|_| damaged())?;
    if Sha256::digest(&bytes)[..] != stored.sha256[..] {
        return Err(damaged());
    }
    derive(std::str::from_utf8(&bytes).map_err(|_| damaged())?)
}
