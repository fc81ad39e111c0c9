//! The present state of a daemon, in a file beside its records.

use crate::local_host::LocalHost;
use numaio_linux::user_files::{create_directory, read_stored_text, replace_file, Durable};
use numaio_schema::DaemonState;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum length of the file.
const MAX_BYTES: u64 = 16 << 20;

fn state_file(directory: &Path) -> PathBuf {
    directory.join("daemon-state.json")
}

/// Replaces the state.
///
/// # Errors
/// I/O errors; the file keeps its content.
pub fn write_state(directory: &Path, state: &DaemonState) -> io::Result<()> {
    create_directory(directory, 0o750)?;
    // After a power failure no daemon runs.
    replace_file(&state_file(directory), &serde_json::to_vec(state)?, Durable(false))
}

/// Reads the state; `None` without one.
///
/// # Errors
/// The file cannot be read, or is not such a document.
pub fn read_state(directory: &Path) -> io::Result<Option<DaemonState>> {
    let text = match read_stored_text(&state_file(directory), MAX_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let state = DaemonState::from_json(&text);
    state.map(Some).map_err(|error| io::Error::other(format!("{}: {error}", state_file(directory).display())))
}

/// Returns whether the daemon that wrote a state still runs on this host.
pub fn is_running(state: &DaemonState) -> bool {
    LocalHost::current().is_running(state.pid, state.start_time, state.boot.as_deref())
}
