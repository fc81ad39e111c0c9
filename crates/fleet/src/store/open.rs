//! Opening and locking of the store.

use super::error::StoreError;
use super::tables::{APPLICATION_ID, DERIVED, TRUTH, VERSION};
use numaio_linux::user_files::{append_records, open_stored, resolved_path};
use rusqlite::{Connection, OpenFlags};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The store of a fleet: one SQLite file.
///
/// A writer holds an exclusive lock from [`FleetStore::open_to_write`] until it is dropped, so
/// there is one at a time; readers share the file.
///
/// The journal is never a write-ahead log: WAL shares memory between processes, which fails when
/// the file is on NFS or Lustre and the processes are on several hosts
/// (<https://sqlite.org/wal.html>).
#[derive(Debug)]
pub struct FleetStore {
    /// The file.
    pub(super) path: PathBuf,
    /// The connection.
    pub(super) connection: Connection,
    /// Time limit of waiting for a lock.
    pub(super) wait: Duration,
}

impl FleetStore {
    /// Opens a store to read; waits up to `wait` for a writer.
    ///
    /// # Errors
    /// [`StoreError`]: a missing, foreign, newer, corrupt or locked file.
    pub fn open(path: &Path, wait: Duration) -> Result<Self, StoreError> {
        let store = Self::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, wait)?;
        match store.version()? {
            None => Err(store.not_a_store("the file is empty")),
            Some(_) => Ok(store),
        }
    }

    /// Opens or creates a store to write; waits up to `wait` for other processes.
    ///
    /// # Errors
    /// [`StoreError`]: a foreign, newer, corrupt, locked or read-only file.
    pub fn open_to_write(path: &Path, wait: Duration) -> Result<Self, StoreError> {
        if !path.exists() {
            append_records(path, 0o666).map_err(|error| cannot_open(path, error))?;
        }
        let store = Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, wait)?;
        // SQLite opens a file without write permission to read, and reports that at the first
        // write.
        if store.sql(|connection| connection.is_readonly(rusqlite::MAIN_DB))? {
            return Err(StoreError::ReadOnly { path: path.to_owned() });
        }
        // Another program's file is neither locked nor changed.
        store.version()?;
        store.lock()?;
        if store.version()?.is_none() {
            store.sql(|connection| {
                connection.execute_batch(&format!(
                    "BEGIN; {TRUTH} {DERIVED} PRAGMA application_id = {APPLICATION_ID};
                     PRAGMA user_version = {VERSION}; COMMIT;"
                ))
            })?;
        }
        Ok(store)
    }

    fn connect(path: &Path, mode: OpenFlags, wait: Duration) -> Result<Self, StoreError> {
        // SQLite reports every failure to open a file alike, and would follow any symbolic link.
        open_stored(path).map_err(|error| cannot_open(path, error))?;
        let resolved = resolved_path(path).map_err(|error| cannot_open(path, error))?;
        let mode = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let opened = Connection::open_with_flags(resolved, mode);
        let connection = opened.map_err(|error| StoreError::of_sqlite(path, wait, error))?;
        let store = Self { path: path.to_owned(), connection, wait };
        store.sql(|connection| {
            connection.busy_timeout(wait)?;
            // A file from others must not run code by its triggers and views.
            connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cache_size = -65536;")
        })?;
        Ok(store)
    }

    /// Takes the exclusive lock, which the connection keeps.
    fn lock(&self) -> Result<(), StoreError> {
        self.sql(|connection| {
            connection.execute_batch(
                "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT;
                 PRAGMA journal_mode = TRUNCATE;",
            )
        })
    }

    /// Returns the version of the tables; `None` for an empty file.
    fn version(&self) -> Result<Option<i64>, StoreError> {
        let number =
            |query: &str| self.sql(|connection| connection.query_row(query, [], |row| row.get::<_, i64>(0)));
        let tables = number("SELECT count(*) FROM sqlite_master")?;
        let (application, found) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
        match (tables, application) {
            (0, _) => Ok(None),
            (_, APPLICATION_ID) if found > VERSION => {
                Err(StoreError::NewerVersion { path: self.path.clone(), found, known: VERSION })
            }
            (_, APPLICATION_ID) => self.check_schema().map(|()| Some(found)),
            _ => Err(self.not_a_store("it is a database of another program")),
        }
    }

    /// Checks that the file defines nothing that numaio does not: a view, a trigger or a virtual
    /// table of others would run with every query.
    fn check_schema(&self) -> Result<(), StoreError> {
        let foreign = self.sql(|connection| {
            let mut query = connection.prepare(
                "SELECT type, name, sql FROM sqlite_master
                 WHERE sql NOTNULL AND NOT (type = 'table' AND name LIKE 'sqlite_stat_')",
            )?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                let sql = row.get_ref(2)?.as_bytes().unwrap_or_default();
                let is_known = |text: &str| text.split(';').any(|known| known.trim().as_bytes() == sql);
                if !is_known(TRUTH) && !is_known(DERIVED) {
                    let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
                    return Ok(Some(format!("the {kind} '{}' is not one of numaio", name.escape_debug())));
                }
            }
            Ok(None)
        })?;
        foreign.map_or(Ok(()), |why| Err(self.not_a_store(&why)))
    }

    fn not_a_store(&self, why: &str) -> StoreError {
        StoreError::NotAStore { path: self.path.clone(), why: why.to_owned() }
    }

    /// Calls SQLite, and converts its error.
    pub(super) fn sql<T>(
        &self,
        call: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        call(&self.connection).map_err(|error| StoreError::of_sqlite(&self.path, self.wait, error))
    }
}

fn cannot_open(path: &Path, error: io::Error) -> StoreError {
    StoreError::CannotOpen { path: path.to_owned(), error }
}
