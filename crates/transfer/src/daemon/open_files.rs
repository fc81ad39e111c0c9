//! Open files of the listening process. Connections of one socket must not use up the files that
//! those of the other one need, so that the daemon has enough for all that its limits admit.

use super::config::Config;
use super::error::DaemonError;
use super::local_connections::MAX_CONNECTIONS;
use super::pending_connections::max_pending;
use numaio_linux::process::raise_file_limit;

/// Files of a session: its connection, its process and its sockets, at its start also their other
/// ends.
const FILES_PER_SESSION: usize = 8;
/// Files of a local connection: its socket, which the queue holds too.
const FILES_PER_LOCAL_CONNECTION: usize = 2;
/// Other files: listeners, logs, records, and directories of roots while they are checked.
const OTHER_FILES: usize = 64;

/// Returns the maximum number of open files under the limits of a configuration.
fn needed_files(config: &Config) -> u64 {
    let sessions = config.limits.connections;
    let local = config.local.as_ref().map_or(0, |_| MAX_CONNECTIONS * FILES_PER_LOCAL_CONNECTION);
    // As many connections as sessions wait for a slot.
    let files = max_pending(sessions) + sessions + sessions * FILES_PER_SESSION + local;
    (files + config.listen.len() + OTHER_FILES) as u64
}

/// Raises the limit of open files to what a configuration needs.
///
/// # Errors
/// The process may not open as many files.
pub fn provide(config: &Config) -> Result<(), DaemonError> {
    let needed = needed_files(config);
    match raise_file_limit(needed)? {
        limit if limit < needed => Err(DaemonError::TooFewFiles { limit, needed }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(text: &str) -> u64 {
        needed_files(&Config::parse_recoverable(text).0)
    }

    #[test]
    fn page_lists_the_needed_numbers_of_files() {
        let page = include_str!("../../../../docs/copy/daemon.md");
        for connections in [64, 512, 4096] {
            let limits = format!("[limits]\nconnections = {connections}\n");
            let row = format!(
                "| {connections} | {} | {} |",
                needed(&limits),
                needed(&(limits.clone() + "[local]\n"))
            );
            assert!(page.contains(&row), "{row}");
        }
        assert_eq!(needed(""), needed("[limits]\nconnections = 64\n"));
    }

    #[test]
    fn unit_has_the_files_of_the_highest_limits() {
        let unit = include_str!("../../../../packaging/numaio.service");
        let limit = unit.lines().find_map(|line| line.strip_prefix("LimitNOFILE=")).expect("a limit");
        let highest = needed("[limits]\nconnections = 4096\n[local]\n");
        assert!(limit.parse::<u64>().expect("a number") >= highest, "{limit} < {highest}");
    }
}
