//! Stored documents and receipts in the state directory `$XDG_STATE_HOME/numaio`.

use crate::failure::{self, Failure};
use crate::output;
use numaio_linux::user_files::{self, state_dir, Durable};
pub use numaio_schema::StoreFolder as Kind;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Saves a document as the newest of its kind and machine, and returns its path.
///
/// The path is `models/FINGERPRINT/SECONDS.json`, so documents of a machine sort by time. If the
/// second is taken by another document, the next free one is used.
pub fn save(kind: Kind, fingerprint: &str, measured_at: u64, json: &str) -> Result<PathBuf, Failure> {
    let dir = folder(kind, fingerprint)?;
    let mut second = measured_at;
    loop {
        let path = dir.join(format!("{second:012}.json"));
        let is_same = user_files::read_stored(&path, json.len() as u64)
            .is_ok_and(|existing| existing == json.as_bytes());
        if is_same
            || user_files::create(&path, json.as_bytes(), Durable(true))
                .map_err(|error| failure::cannot_write(&path, &error))?
        {
            output::detail(format_args!("saved {}", path.display()));
            return Ok(path);
        }
        second = second.saturating_add(1);
    }
}

/// Checks, before long measurements, that [`save`] can save a document.
pub fn check(kind: Kind, fingerprint: &str) -> Result<(), Failure> {
    let dir = folder(kind, fingerprint)?;
    output::check(&dir.join("check")).map_err(|failure| failure.hint(WRITABLE_HINT))
}

const WRITABLE_HINT: &str = "set XDG_STATE_HOME to a writable directory, or use --no-save";

/// Returns the directory of one kind and machine, and creates it if necessary.
fn folder(kind: Kind, fingerprint: &str) -> Result<PathBuf, Failure> {
    let state = state_dir().ok_or_else(|| {
        Failure::new("cannot save the measurement: no state directory")
            .hint("set XDG_STATE_HOME or HOME, or use --no-save")
    })?;
    let dir = state.join(kind.folder()).join(fingerprint);
    user_files::create_directory(&dir, 0o777)
        .map_err(|error| Failure::file(&dir, error).hint(WRITABLE_HINT))?;
    Ok(dir)
}

/// Returns the paths of the documents of one kind and machine, newest first.
pub fn saved(kind: Kind, fingerprint: &str) -> Vec<PathBuf> {
    let Some(state) = state_dir() else { return Vec::new() };
    let entries = fs::read_dir(state.join(kind.folder()).join(fingerprint)).into_iter().flatten();
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect();
    paths.sort();
    paths.reverse();
    paths
}

/// Returns the directory of receipts, and creates it if necessary.
pub fn receipts_folder() -> Result<PathBuf, Failure> {
    let state = state_dir().ok_or_else(|| {
        Failure::new("cannot save a receipt: no state directory").hint("set XDG_STATE_HOME or HOME")
    })?;
    let dir = state.join("receipts");
    user_files::create_directory(&dir, 0o777)
        .map_err(|error| Failure::file(&dir, error).hint("set XDG_STATE_HOME to a writable directory"))?;
    Ok(dir)
}

/// Returns the path of the receipt of a change on a machine; `what` names the change.
pub fn receipt(fingerprint: &str, what: &str) -> Result<PathBuf, Failure> {
    receipts_folder().map(|dir| dir.join(format!("{fingerprint}-{what}.json")))
}

/// The file of a receipt.
pub struct ReceiptFile {
    /// Fingerprint of the machine.
    pub machine: String,
    /// Name of the change.
    pub what: String,
    /// Path of the receipt.
    pub path: PathBuf,
}

/// Lists the receipts of all machines.
pub fn receipts() -> Result<Vec<ReceiptFile>, Failure> {
    let Some(state) = state_dir() else { return Ok(Vec::new()) };
    let dir = state.join("receipts");
    let entries = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| Failure::file(&dir, error))?,
    };
    let receipts = entries.filter_map(Result::ok).filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (machine, what) = name.strip_suffix(".json")?.split_once('-')?;
        Some(ReceiptFile { machine: machine.to_owned(), what: what.to_owned(), path: entry.path() })
    });
    Ok(receipts.collect())
}
