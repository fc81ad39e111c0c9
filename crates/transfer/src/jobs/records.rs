//! Job records of this user's transfers, and how to find them.
//!
//! Each is `jobs/NUMBER.json` in the state directory. A file is replaced atomically, so that a
//! killed process leaves a readable one.

use crate::local_host::LocalHost;
use crate::TransferError;
use numaio_linux::{interrupt, user_files};
use numaio_schema::{CommandArg, Job, JobProcess, JobState};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Maximum number of job records; running jobs are always kept.
const MAX_JOBS: usize = 100;
/// How long the record of a stopped job is kept.
const MAX_AGE: Duration = Duration::from_secs(30 * 86_400);
/// Maximum bytes that are read of a record: [`Job::MAX_PROBLEMS`] and [`Job::MAX_LINES`] of
/// maximum length (less than 48 MiB) and the command line.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Returns the directory of the records, if there is a state directory.
pub(super) fn folder() -> Option<PathBuf> {
    Some(user_files::state_dir()?.join("jobs"))
}

/// Locks the job records, so that two processes cannot resume the same job.
///
/// `None` if there are no jobs, or the file system has no locks (flock(2)).
pub fn lock() -> Option<File> {
    user_files::lock_directory(&folder()?).ok()
}

pub(super) fn file(folder: &Path, id: u32) -> PathBuf {
    folder.join(format!("{id}.json"))
}

/// Returns the numbers of all jobs, ascending.
pub(super) fn numbers(folder: &Path) -> io::Result<Vec<u32>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?.flatten(),
    };
    let number = |name: &OsStr| name.to_str()?.strip_suffix(".json")?.parse().ok();
    let mut numbers: Vec<u32> = entries.filter_map(|entry| number(&entry.file_name())).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns all jobs, oldest first, and the errors of files that are not jobs.
///
/// # Errors
/// The directory cannot be read.
pub fn all() -> Result<(Vec<Job>, Vec<TransferError>), TransferError> {
    let Some(folder) = folder() else { return Ok(Default::default()) };
    let numbers = numbers(&folder).map_err(|error| TransferError::File { path: folder.clone(), error })?;
    let host = LocalHost::current();
    let (mut jobs, mut errors) = (Vec::new(), Vec::new());
    for id in numbers {
        match read(&file(&folder, id), &host) {
            Ok(Some(job)) => jobs.push(job),
            // Another process has removed the file.
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    Ok((jobs, errors))
}

/// Returns the job with a number.
pub fn find(id: u32) -> Result<Job, TransferError> {
    let found = match folder() {
        Some(folder) => read(&file(&folder, id), &LocalHost::current())?,
        None => None,
    };
    found.ok_or(TransferError::JobNotFound { id })
}

/// Reads a job; it counts as interrupted if its process exited without recording the end. `None`
/// without a file.
fn read(path: &Path, host: &LocalHost) -> Result<Option<Job>, TransferError> {
    let Some(job) = read_record(path)? else { return Ok(None) };
    if host.may_run(&job) {
        return Ok(Some(job));
    }
    // The process may have recorded its end and exited since the first read.
    Ok(read_record(path)?.map(|mut job| {
        if job.state.is_alive() {
            job.state = JobState::Interrupted;
            job.reason = "its process no longer exists".to_owned();
        }
        job
    }))
}

fn read_record(path: &Path) -> Result<Option<Job>, TransferError> {
    // A record holds the command that `jobs resume` runs.
    let text = match user_files::read_trusted_text(path, MAX_FILE_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|error| TransferError::File { path: path.to_owned(), error })?,
    };
    parse(path, &text).map(Some)
}

/// Parses the text of a record.
pub fn parse(path: &Path, text: &str) -> Result<Job, TransferError> {
    Job::from_json(text).map_err(|error| TransferError::InvalidJob { path: path.to_owned(), error })
}

/// Removes stopped jobs beyond [`MAX_JOBS`] or older than [`MAX_AGE`], and temporary files of
/// killed processes.
pub(super) fn prune(folder: &Path, host: &LocalHost) {
    let now = SystemTime::now();
    let entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    let is_old = |entry: &fs::DirEntry| {
        let written = entry.metadata().and_then(|found| found.modified());
        written.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > MAX_AGE))
    };
    let abandoned = |entry: &&fs::DirEntry| entry.file_name().as_bytes().ends_with(b".tmp") && is_old(entry);
    entries.iter().filter(abandoned).for_each(|entry| drop(user_files::remove_file(&entry.path())));
    let numbers = numbers(folder).unwrap_or_default();
    let surplus = &numbers[..numbers.len().saturating_sub(MAX_JOBS)];
    for entry in &entries {
        let path = entry.path();
        let is_surplus = surplus.iter().any(|id| file(folder, *id) == path);
        if !is_surplus && !is_old(entry) || path.extension() != Some(OsStr::new("json")) {
            continue;
        }
        // Running jobs rewrite their file regularly, on any host; an old file belongs to a host
        // that no longer exists.
        let may_run = |job: Job| job.state.is_alive() && !(is_old(entry) && job.process.host != host.name);
        if !read(&path, host).is_ok_and(|job| job.is_some_and(may_run)) {
            drop(user_files::remove_file(&path));
        }
    }
}

impl LocalHost {
    /// Returns whether a job's process exists, or runs on another host, which cannot be checked.
    fn may_run(&self, job: &Job) -> bool {
        let JobProcess { pid, start_time, boot, host } = &job.process;
        self.is_unknown() || *host != self.name || self.is_running(*pid, *start_time, boot.as_deref())
    }

    /// Returns the process that the user started, which receives the signals of the transfer.
    pub(super) fn process(&self) -> JobProcess {
        let pid = interrupt::started_process();
        JobProcess { pid, start_time: self.start_time(pid), boot: self.boot.clone(), host: self.name.clone() }
    }
}

/// Returns whether a job's process is on this host.
pub fn is_local(job: &Job) -> bool {
    LocalHost::current().name == job.process.host
}

/// Converts a command-line argument for a job record.
pub fn to_command_arg(bytes: &OsStr) -> CommandArg {
    match bytes.to_str() {
        Some(text) => CommandArg::Text(text.to_owned()),
        None => CommandArg::Bytes(bytes.as_bytes().to_vec()),
    }
}

/// Converts an argument of a job record back.
pub fn to_os_string(arg: &CommandArg) -> OsString {
    match arg {
        CommandArg::Text(text) => text.into(),
        CommandArg::Bytes(bytes) => OsString::from_vec(bytes.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_records_without_control_characters() {
        let job = include_str!("../../../schema/tests/fixtures/job-1.json");
        assert!(parse(Path::new("7.json"), job).is_ok());
        let damaged = job.replace("\"interrupted\"", "\"\\u001b[2J\"");
        let message = parse(Path::new("7.json"), &damaged).expect_err("an invalid record").to_string();
        assert!(message.starts_with("7.json: not a job record: "), "{message}");
        assert!(message.contains("\u{fffd}[2J") && !message.contains('\u{1b}'));
    }
}
