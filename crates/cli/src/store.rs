//! Where documents are kept: `$XDG_STATE_HOME/numaio` (XDG Base Directory Specification).

use crate::failure::Failure;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder of our state; none if there is neither XDG_STATE_HOME nor HOME.
pub fn state_dir() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .map(|dir| dir.join("numaio"))
}

/// Writes a file whole or not at all: under a temporary name, on disk, then renamed.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let mut name =
        path.file_name().map(OsString::from).ok_or_else(|| Failure::file(path, "is no file name"))?;
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&temporary, path)).map_err(|error| {
        let _ = fs::remove_file(&temporary);
        Failure::file(path, error)
    })
}

/// A kind of stored document, each in a folder of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Topology,
    Model,
    Stream,
    Latency,
    Comparison,
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Self::Topology => "topologies",
            Self::Model => "models",
            Self::Stream => "streams",
            Self::Latency => "latencies",
            Self::Comparison => "comparisons",
        }
    }
}

/// Saves a document as the newest of its kind and machine, and tells where.
///
/// `models/FINGERPRINT/SECONDS.json`: one machine's documents sort by the time of their measurement.
pub fn save(kind: Kind, fingerprint: &str, measured_at: u64, json: &str) -> Result<PathBuf, Failure> {
    let state = state_dir().ok_or_else(|| {
        Failure::new("there is no place to save what was measured")
            .hint("set XDG_STATE_HOME or HOME, or use --no-save")
    })?;
    let dir = state.join(kind.folder()).join(fingerprint);
    fs::create_dir_all(&dir).map_err(|error| {
        Failure::file(&dir, error)
            .hint("set XDG_STATE_HOME to a folder that can be written, or use --no-save")
    })?;
    let path = dir.join(format!("{measured_at:012}.json"));
    write_file(&path, json.as_bytes())?;
    Ok(path)
}

/// Documents of one kind and machine, newest first; empty if there are none.
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

/// Where the receipt of what is changed on a machine is kept; `what` names the change.
pub fn receipt(fingerprint: &str, what: &str) -> Result<PathBuf, Failure> {
    let state = state_dir()
        .ok_or_else(|| Failure::new("there is no place for a receipt").hint("set XDG_STATE_HOME or HOME"))?;
    let dir = state.join("receipts");
    fs::create_dir_all(&dir).map_err(|error| Failure::file(&dir, error))?;
    Ok(dir.join(format!("{fingerprint}-{what}.json")))
}
