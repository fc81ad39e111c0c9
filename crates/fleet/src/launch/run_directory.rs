//! The directory of a run: `run.json`, a report for each host in `hosts`, and logs of jobs.
//!
//! It may be on a network file system, and the hosts write to it. So every file is written under a
//! temporary name, synced and renamed.

use super::stored_run::check_run;
use super::LaunchError;
use numaio_linux::user_files::{self, Durable};
use numaio_machine::calendar::Day;
use numaio_schema::{FleetRun, HOST_REPORT_SCHEMA};
use serde::Deserialize;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum size of a report in bytes.
pub const MAX_REPORT_BYTES: usize = 256 << 20;
/// Maximum size of the description of a run: 200,000 hosts with several jobs each.
const MAX_RUN_BYTES: u64 = 256 << 20;
const MAX_REASON_BYTES: u64 = 4 << 10;
/// Name of the description of a run in its directory.
pub const RUN_FILE: &str = "run.json";
/// Name of the directory of the reports in the directory of a run.
pub const HOSTS_DIRECTORY: &str = "hosts";

/// The directory of a run.
#[derive(Debug, Clone)]
pub struct RunDirectory {
    path: PathBuf,
}

/// A lock of a run, released when dropped or when the process ends.
#[derive(Debug)]
pub struct RunLock(#[expect(dead_code, reason = "the descriptor holds the lock")] File);

/// The report of a host in the directory of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredReport {
    /// There is none.
    Absent,
    /// It is complete, and the command succeeded.
    Measured {
        /// End of the command in seconds since 1970.
        finished_at: u64,
    },
    /// It is complete, and the command failed for this reason.
    Failed(String),
    /// It cannot be read for this reason.
    Unreadable(String),
}

/// Returns the directory in which runs are kept by default, in the user's state directory.
pub fn default_base() -> Option<PathBuf> {
    user_files::state_dir().map(|state| state.join("fleet"))
}

/// Returns a new ID of a run: the time in UTC and random digits.
///
/// # Errors
/// No random bytes are available.
pub fn new_id(now: SystemTime) -> io::Result<String> {
    let random = u16::from_ne_bytes(numaio_linux::random::bytes()?);
    let second =
        numaio_machine::calendar::seconds_since_1970(now) % numaio_machine::calendar::SECONDS_PER_DAY;
    let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
    let day = Day::of(now).to_string().replace('-', "");
    Ok(format!("{day}-{hours:02}{minutes:02}{seconds:02}-{random:04x}"))
}

impl RunDirectory {
    /// Creates the directory of a run below `base`, and names it in the user's state directory.
    ///
    /// # Errors
    /// I/O errors.
    pub fn create(base: &Path, run: &FleetRun) -> Result<Self, LaunchError> {
        user_files::create_directory(base, 0o777)
            .map_err(|error| LaunchError::file("create", base, error))?;
        let base = fs::canonicalize(base).map_err(|error| LaunchError::file("read", base, error))?;
        let path = base.join(&run.id);
        for directory in [path.clone(), path.join(HOSTS_DIRECTORY), path.join("logs")] {
            user_files::create_new_directory(&directory)
                .map_err(|error| LaunchError::file("create", &directory, error))?;
        }
        let directory = Self { path };
        directory.save(run)?;
        directory.link_from_state();
        Ok(directory)
    }

    /// Links the run from the state directory, so that its ID is enough to find it. Its path works
    /// without that.
    fn link_from_state(&self) {
        let Some(state) = default_base().filter(|state| !self.path.starts_with(state)) else { return };
        let Some(name) = self.path.file_name() else { return };
        let _ = user_files::create_directory(&state, 0o777)
            .and_then(|()| user_files::create_link(&self.path, &state.join(name)));
    }

    /// Opens a run by its ID or directory.
    ///
    /// # Errors
    /// It does not exist, or its description cannot be read.
    pub fn open(name: &str) -> Result<(Self, FleetRun), LaunchError> {
        let path = match name.contains('/') || Path::new(name).join(RUN_FILE).exists() {
            true => PathBuf::from(name),
            false => {
                let base = default_base().unwrap_or_default();
                let path = base.join(name);
                if !path.join(RUN_FILE).exists() {
                    return Err(LaunchError::UnknownRun { id: name.to_owned(), directory: base });
                }
                path
            }
        };
        let path = fs::canonicalize(&path).map_err(|error| LaunchError::file("open", &path, error))?;
        let directory = Self { path };
        let run = directory.read_run()?;
        Ok((directory, run))
    }

    /// Reads the description of the run.
    ///
    /// # Errors
    /// It cannot be read, or `numaio fleet run` would reject it.
    pub fn read_run(&self) -> Result<FleetRun, LaunchError> {
        let path = self.path.join(RUN_FILE);
        let text = user_files::read_stored_text(&path, MAX_RUN_BYTES)
            .map_err(|error| LaunchError::file("read", &path, error))?;
        let run = FleetRun::from_json(&text)
            .map_err(|error| LaunchError::Document { path: path.clone(), error })?;
        match check_run(&run) {
            Ok(()) => Ok(run),
            Err(why) => Err(LaunchError::InvalidRun { path, why }),
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the description of the run.
    ///
    /// # Errors
    /// I/O errors; the file keeps its content.
    pub fn save(&self, run: &FleetRun) -> Result<(), LaunchError> {
        let path = self.path.join(RUN_FILE);
        let text = serde_json::to_string_pretty(run).map_err(io::Error::other);
        text.and_then(|text| user_files::replace_file(&path, text.as_bytes(), Durable(true)))
            .map_err(|error| LaunchError::file("write", &path, error))
    }

    /// Locks the run for one launcher.
    ///
    /// # Errors
    /// [`LaunchError::Locked`] if another process launches it; I/O errors.
    pub fn lock(&self) -> Result<RunLock, LaunchError> {
        let path = self.path.join("lock");
        let file = user_files::lock_file(&path).map_err(|error| LaunchError::file("lock", &path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(RunLock(file)),
            Err(TryLockError::WouldBlock) => Err(LaunchError::Locked { directory: self.path.clone() }),
            Err(TryLockError::Error(error)) => Err(LaunchError::file("lock", &path, error)),
        }
    }

    /// Returns whether another process launches the run.
    pub fn is_locked(&self) -> bool {
        let file = user_files::open_stored(&self.path.join("lock"));
        // Locks of others are shared with this one only if none is exclusive.
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Returns the directory of the logs of jobs.
    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// Returns the path of the report of a host.
    pub fn report_path(&self, host: &str) -> PathBuf {
        self.path.join(HOSTS_DIRECTORY).join(format!("{host}.json"))
    }

    fn failure_path(&self, host: &str) -> PathBuf {
        self.path.join(HOSTS_DIRECTORY).join(format!("{host}.failure"))
    }

    fn started_path(&self, host: &str) -> PathBuf {
        self.path.join(HOSTS_DIRECTORY).join(format!("{host}.started"))
    }

    /// Writes the report of a host, which replaces an earlier failure.
    ///
    /// # Errors
    /// I/O errors; there is no partial file.
    pub fn write_report(&self, host: &str, report: &str) -> Result<(), LaunchError> {
        let path = self.report_path(host);
        user_files::replace_file(&path, report.as_bytes(), Durable(true))
            .map_err(|error| LaunchError::file("write", &path, error))?;
        let _ = user_files::remove_file(&self.failure_path(host));
        Ok(())
    }

    /// Records why a host has no report.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write_failure(&self, host: &str, reason: &str) -> Result<(), LaunchError> {
        let path = self.failure_path(host);
        user_files::replace_file(&path, reason.as_bytes(), Durable(false))
            .map_err(|error| LaunchError::file("write", &path, error))
    }

    /// Returns the recorded reason why a host has no report.
    pub fn failure(&self, host: &str) -> Option<String> {
        user_files::read_stored_text(&self.failure_path(host), MAX_REASON_BYTES).ok()
    }

    /// Removes the recorded failure of an earlier attempt.
    pub fn clear_failure(&self, host: &str) {
        let _ = user_files::remove_file(&self.failure_path(host));
    }

    /// Marks a host as started by this launcher; only for display.
    pub fn mark_started(&self, host: &str) {
        let _ = user_files::replace_file(&self.started_path(host), b"", Durable(false));
    }

    /// Removes the mark of [`mark_started`](Self::mark_started).
    pub fn clear_started(&self, host: &str) {
        let _ = user_files::remove_file(&self.started_path(host));
    }

    /// Returns whether a host is marked as started.
    pub fn is_started(&self, host: &str) -> bool {
        self.started_path(host).exists()
    }

    /// Reads what the state of a host needs of its report.
    pub fn report(&self, host: &str, run: &str) -> StoredReport {
        match user_files::read_stored_text(&self.report_path(host), MAX_REPORT_BYTES as u64) {
            Ok(text) => summarize_report(&text, host, run),
            Err(error) if error.kind() == io::ErrorKind::NotFound => StoredReport::Absent,
            Err(error) => StoredReport::Unreadable(error.to_string()),
        }
    }
}

/// Reads what the state of a host needs of the text of its report.
pub fn summarize_report(text: &str, host: &str, run: &str) -> StoredReport {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
        host: String,
        #[serde(default)]
        run: String,
        finished_at: u64,
        #[serde(default)]
        failure: Option<String>,
    }
    let head: Head = match serde_json::from_str(text) {
        Ok(head) => head,
        Err(error) if error.is_eof() => {
            return StoredReport::Unreadable(format!("its report ends after {} bytes", text.len()))
        }
        Err(error) => return StoredReport::Unreadable(format!("its report is not valid: {error}")),
    };
    if head.schema != HOST_REPORT_SCHEMA {
        let found = head.schema.escape_debug();
        return StoredReport::Unreadable(format!("expected a {HOST_REPORT_SCHEMA}, got '{found}'"));
    }
    if head.host != host || head.run != run {
        let (found, of) = (head.host.escape_debug(), head.run.escape_debug());
        return StoredReport::Unreadable(format!("it is the report of host '{found}' in run '{of}'"));
    }
    match head.failure {
        Some(failure) => StoredReport::Failed(failure),
        None => StoredReport::Measured { finished_at: head.finished_at },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use numaio_schema::{FleetLauncher, FleetRunHost, FLEET_RUN_SCHEMA};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    pub(crate) struct Scratch(pub PathBuf);

    impl Scratch {
        pub(crate) fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("numaio-launch-{}-{number}", std::process::id()));
            fs::create_dir_all(&path).expect("a directory");
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    pub(crate) fn run_of(hosts: &[&str]) -> FleetRun {
        FleetRun {
            schema: FLEET_RUN_SCHEMA.to_owned(),
            numaio: "0.1.0".to_owned(),
            id: "r1".to_owned(),
            created_at: 0,
            launcher: FleetLauncher::Ssh { at_once: 2 },
            remote_numaio: "numaio".to_owned(),
            machine_options: Vec::new(),
            command: vec!["model".to_owned()],
            time_limit_s: 60,
            hosts: hosts
                .iter()
                .map(|name| FleetRunHost { name: (*name).to_owned(), jobs: Vec::new(), unavailable: None })
                .collect(),
        }
    }

    #[test]
    fn second_launcher_is_rejected_and_status_notices_the_first() {
        let scratch = Scratch::new();
        let directory = RunDirectory::create(&scratch.0, &run_of(&["n1"])).expect("a run");
        assert!(!directory.is_locked());
        let lock = directory.lock().expect("a lock");
        assert!(matches!(directory.lock(), Err(LaunchError::Locked { .. })) && directory.is_locked());
        drop(lock);
        assert!(!directory.is_locked() && directory.lock().is_ok());
        let path = directory.path().to_string_lossy().into_owned();
        assert_eq!(RunDirectory::open(&path).expect("a run").1, run_of(&["n1"]));
        assert!(RunDirectory::create(&scratch.0, &run_of(&[])).is_err(), "a run is never replaced");
    }

    #[test]
    fn half_and_foreign_reports_are_unreadable() {
        let report = r#"{"schema":"numaio/host-report/1","host":"n1","run":"r1","finished_at":7,"x":[1]}"#;
        let read = |text: &str| summarize_report(text, "n1", "r1");
        assert_eq!(read(report), StoredReport::Measured { finished_at: 7 });
        let failed = report.replace("\"x\":[1]", "\"failure\":\"no memory\"");
        assert_eq!(read(&failed), StoredReport::Failed("no memory".to_owned()));
        let half = StoredReport::Unreadable("its report ends after 20 bytes".to_owned());
        assert_eq!(read(&report[..20]), half);
        for text in [report.replace("n1", "n2"), report.replace("report/1", "report/2"), "[]".to_owned()] {
            assert!(matches!(read(&text), StoredReport::Unreadable(_)), "{text}");
        }
    }

    #[test]
    fn ids_contain_the_time() {
        let id = new_id(std::time::UNIX_EPOCH + Duration::from_secs(86_400 + 3661)).expect("random bytes");
        assert!(id.starts_with("19700102-010101-") && id.len() == 20, "{id}");
    }
}
