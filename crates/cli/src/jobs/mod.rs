//! The transfers of this user: where they are noted, and how they are found again.
//!
//! `jobs/NUMBER.json` in the folder of our state. A file is replaced whole, so whoever is killed at whatever moment leaves
//! one that can be read.

mod recorder;

pub use recorder::{environment, json, JobRecorder};

use crate::failure::Failure;
use crate::output::harmless;
use crate::store;
use numaio_linux::Root;
use numaio_machine::control::boot_id;
use numaio_machine::process;
use numaio_machine::topology::hostname;
use numaio_schema::{Job, JobProcess, JobState, Word};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Most jobs that are kept; those that run are kept always.
const MAX_JOBS: usize = 100;
/// How long a job is kept that nobody goes on with.
const MAX_AGE: Duration = Duration::from_secs(30 * 86_400);
/// Most bytes that are read of a job: [`Job::MOST_PROBLEMS`] and [`Job::MOST_LINES`] with the longest names and words, which are less
/// than 48 MiB, and what was typed.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Where jobs are noted; none where there is no place for our state.
fn folder() -> Option<PathBuf> {
    Some(store::state_dir()?.join("jobs"))
}

/// As long as it is kept, no other process has its turn: so a job that runs nowhere is still that when it is noted as running here. None
/// where there are no jobs, or the file system has no locks (flock(2)).
pub fn lock() -> Option<File> {
    let folder = File::open(folder()?).ok()?;
    folder.lock().ok()?;
    Some(folder)
}

fn file(folder: &Path, id: u32) -> PathBuf {
    folder.join(format!("{id}.json"))
}

/// Numbers of all jobs, ascending.
fn numbers(folder: &Path) -> io::Result<Vec<u32>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?.flatten(),
    };
    let number = |name: &OsStr| name.to_str()?.strip_suffix(".json")?.parse().ok();
    let mut numbers: Vec<u32> = entries.filter_map(|entry| number(&entry.file_name())).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// All jobs, oldest first, and what is wrong with files that are none.
///
/// # Errors
/// The folder of jobs cannot be read.
pub fn all() -> Result<(Vec<Job>, Vec<Failure>), Failure> {
    let Some(folder) = folder() else { return Ok(Default::default()) };
    let numbers = numbers(&folder).map_err(|error| Failure::file(&folder, error))?;
    let host = LocalHost::current();
    let (mut jobs, mut failures) = (Vec::new(), Vec::new());
    for id in numbers {
        match read(&file(&folder, id), &host) {
            Ok(Some(job)) => jobs.push(job),
            // Another process took it away meanwhile.
            Ok(None) => {}
            Err(failure) => failures.push(failure),
        }
    }
    Ok((jobs, failures))
}

/// The job of this number.
pub fn find(id: u32) -> Result<Job, Failure> {
    let found = match folder() {
        Some(folder) => read(&file(&folder, id), &LocalHost::current())?,
        None => None,
    };
    found.ok_or_else(|| Failure::usage(format!("there is no job {id}")).hint("numaio jobs lists them"))
}

/// A job as it is now: one whose process is gone without an end was cut. None if there is no such file.
fn read(path: &Path, host: &LocalHost) -> Result<Option<Job>, Failure> {
    let Some(job) = read_record(path)? else { return Ok(None) };
    if host.may_run(&job) {
        return Ok(Some(job));
    }
    // It may have ended, and said so, since it was read.
    Ok(read_record(path)?.map(|mut job| {
        if job.state.is_alive() {
            job.state = JobState::Cut;
            job.why = "its process is gone".to_owned();
        }
        job
    }))
}

fn read_record(path: &Path) -> Result<Option<Job>, Failure> {
    let mut text = String::new();
    match File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| Failure::file(path, error))?,
    };
    parse(path, &text).map(Some)
}

/// The job in the text of a file.
pub fn parse(path: &Path, text: &str) -> Result<Job, Failure> {
    // Why it is none may repeat what stands there, and a terminal is to obey none of it.
    let invalid = |error| harmless(&format!("it is no job: {error}"));
    Job::from_json(text).map_err(|error| Failure::file(path, invalid(error)))
}

/// Makes room: ended jobs beyond the newest [`MAX_JOBS`], those of more than [`MAX_AGE`] ago, and what a kill left behind.
fn prune(folder: &Path, host: &LocalHost) {
    let now = SystemTime::now();
    let entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    let is_old = |entry: &fs::DirEntry| {
        let written = entry.metadata().and_then(|found| found.modified());
        written.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > MAX_AGE))
    };
    let left = |entry: &&fs::DirEntry| entry.file_name().as_bytes().ends_with(b".tmp") && is_old(entry);
    entries.iter().filter(left).for_each(|entry| drop(fs::remove_file(entry.path())));
    let numbers = numbers(folder).unwrap_or_default();
    let surplus = &numbers[..numbers.len().saturating_sub(MAX_JOBS)];
    for entry in &entries {
        let path = entry.path();
        let is_surplus = surplus.iter().any(|id| file(folder, *id) == path);
        if !is_surplus && !is_old(entry) || path.extension() != Some(OsStr::new("json")) {
            continue;
        }
        // One that runs is written now and then, wherever that is; not by a host that is no more, or has another name now.
        let may_run = |job: Job| job.state.is_alive() && !(is_old(entry) && job.process.host != host.host);
        if !read(&path, host).is_ok_and(|job| job.is_some_and(may_run)) {
            drop(fs::remove_file(path));
        }
    }
}

/// This host, and this start of its kernel.
struct LocalHost {
    root: Option<Root>,
    boot: Option<String>,
    host: String,
}

impl LocalHost {
    fn current() -> Self {
        let root = Root::live().ok();
        let boot = root.as_ref().and_then(|root| boot_id(root));
        Self { host: root.as_ref().map(|root| hostname(root)).unwrap_or_default(), boot, root }
    }

    /// Whether its process is there, or is on a host that cannot be asked.
    fn may_run(&self, job: &Job) -> bool {
        let JobProcess { pid, began, boot, host } = &job.process;
        let Some(root) = &self.root else { return true };
        *host != self.host || *boot == self.boot && process::start_time(root, *pid) == Some(*began)
    }

    /// This process.
    fn process(&self) -> JobProcess {
        let pid = std::process::id();
        let began = self.root.as_ref().and_then(|root| process::start_time(root, pid)).unwrap_or(0);
        JobProcess { pid, began, boot: self.boot.clone(), host: self.host.clone() }
    }
}

/// Whether the process of a job is on this host.
pub fn is_local(job: &Job) -> bool {
    LocalHost::current().host == job.process.host
}

/// Bytes as a word of a job.
pub fn to_word(bytes: &OsStr) -> Word {
    match bytes.to_str() {
        Some(text) => Word::Text(text.to_owned()),
        None => Word::Bytes(bytes.as_bytes().to_vec()),
    }
}

/// A word of a job as it was typed.
pub fn to_os_string(word: &Word) -> OsString {
    match word {
        Word::Text(text) => text.into(),
        Word::Bytes(bytes) => OsString::from_vec(bytes.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_job_is_told_without_harm() {
        let job = include_str!("../../../schema/tests/fixtures/job-1.json");
        assert!(parse(Path::new("7.json"), job).is_ok());
        let damaged = job.replace("\"cut\"", "\"\\u001b[2J\"");
        let failure = parse(Path::new("7.json"), &damaged).expect_err("no job");
        assert!(failure.message.starts_with("7.json: it is no job: "), "{}", failure.message);
        assert!(failure.message.contains("\u{fffd}[2J") && !failure.message.contains('\u{1b}'));
    }
}
