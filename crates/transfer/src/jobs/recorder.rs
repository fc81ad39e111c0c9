//! Records a running transfer as a job.

use super::records::{file, folder, numbers, prune, to_command_arg};
use crate::local_host::LocalHost;
use crate::TransferError;
use numaio_linux::user_files::{self, Durable};
use numaio_machine::calendar::seconds_since_1970;
use numaio_schema::{Job, JobProblem, JobState, JobTotals, LentCapacity, JOB_SCHEMA};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How often changes are written.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);

/// Environment variables that affect a transfer.
const ENVIRONMENT: [&str; 1] = ["NUMAIO_SSH"];

/// How a transfer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// All files were transferred.
    Done,
    /// Some files failed, and all others were transferred.
    SomeFailed,
    /// An interrupt stopped it.
    Interrupted,
    /// It failed, with this message; possibly because of an interrupt.
    Failed(String),
}

/// Recorder of a job; records nothing before [`JobRecorder::begin`].
#[derive(Debug, Clone, Default)]
pub struct JobRecorder(Arc<Mutex<Option<ActiveJob>>>);

#[derive(Debug)]
struct ActiveJob {
    job: Job,
    path: PathBuf,
    began: Instant,
    written: Instant,
}

impl JobRecorder {
    /// Starts recording a new job with its command line and source inodes, unless
    /// [`resume`](Self::resume) has set one.
    ///
    /// # Errors
    /// The record cannot be created. The transfer can run without it.
    pub fn begin(&self, command: Vec<OsString>, places: Vec<u64>) -> Result<(), TransferError> {
        let mut active = self.active();
        if active.is_none() {
            *active = Some(new_job(&command, places)?);
        }
        Ok(())
    }

    /// Records the transfer as another run of a job.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn resume(&self, mut job: Job) -> Result<(), TransferError> {
        let folder = folder().ok_or(TransferError::NoStateDirectory)?;
        let path = file(&folder, job.id);
        job.numaio = env!("CARGO_PKG_VERSION").to_owned();
        job.process = LocalHost::current().process();
        job.environment = environment().collect();
        job.state = JobState::Running;
        job.reason = String::new();
        (job.capacity, job.peer_capacity) = (None, None);
        job.runs = job.runs.saturating_add(1);
        job.totals = JobTotals::default();
        job.problems.clear();
        job.add_line(now(), "resumed".to_owned());
        let mut active = ActiveJob { job, path, began: Instant::now(), written: Instant::now() };
        let written = active.write(Durable(true));
        written.map_err(|error| TransferError::CannotWrite { path: active.path.clone(), error })?;
        *self.active() = Some(active);
        Ok(())
    }

    /// Records that the transfer waits, and why.
    pub fn wait(&self, why: &str) {
        self.change(|active| {
            let is_first = active.job.state == JobState::Running;
            if is_first {
                active.job.state = JobState::Waiting;
                active.job.add_line(now(), format!("waiting: {why}"));
            }
            active.job.reason = Job::truncate_text(why.to_owned());
            is_first
        });
    }

    /// Records what this host's daemon lends.
    pub fn lent(&self, lent: &LentCapacity) {
        self.record_lent(lent, |job| &mut job.capacity);
    }

    /// Records what the daemon of the other host lends.
    pub fn peer_lent(&self, lent: &LentCapacity) {
        self.record_lent(lent, |job| &mut job.peer_capacity);
    }

    fn record_lent(&self, lent: &LentCapacity, field: impl FnOnce(&mut Job) -> &mut Option<LentCapacity>) {
        self.change(|active| {
            let before = field(&mut active.job).replace(lent.clone());
            let is_new = before.map(|before| before.state) != Some(lent.state);
            if is_new {
                active.job.add_line(now(), lent.state.name().to_owned());
            }
            is_new
        });
    }

    /// Records the progress.
    pub fn update(&self, totals: JobTotals) {
        self.change(|active| {
            active.job.totals = totals;
            let waited = active.job.state == JobState::Waiting;
            if waited {
                (active.job.state, active.job.reason) = (JobState::Running, String::new());
            }
            if numaio_linux::interrupt::interrupted() && active.job.state == JobState::Running {
                active.job.state = JobState::Cancelling;
                active.job.add_line(now(), "interrupt requested".to_owned());
                return true;
            }
            waited
        });
    }

    /// Clears the recorded problems before a retry, which records persistent ones again.
    pub fn clear_problems(&self) {
        self.change(|active| {
            active.job.problems.clear();
            false
        });
    }

    /// Records a problem.
    pub fn problem(&self, problem: JobProblem) {
        self.change(|active| {
            active.job.add_problem(problem);
            false
        });
    }

    /// Records the end, once.
    pub fn end(&self, outcome: JobOutcome) {
        self.change(|active| {
            if !active.job.state.is_alive() {
                return false;
            }
            let (state, why) = end_state(outcome, &active.job.totals);
            let line = if why.is_empty() { state.name().to_owned() } else { why.clone() };
            active.job.state = state;
            (active.job.capacity, active.job.peer_capacity) = (None, None);
            active.job.reason = Job::truncate_text(why);
            active.job.add_line(now(), line);
            true
        });
    }

    /// Changes the record; writes it if `change` returns true, or after [`WRITE_INTERVAL`].
    fn change(&self, change: impl FnOnce(&mut ActiveJob) -> bool) {
        let mut active = self.active();
        let Some(active) = active.as_mut() else { return };
        let write_now = change(active);
        if write_now || active.written.elapsed() >= WRITE_INTERVAL {
            // A disk that is full at the moment must not stop the transfer.
            drop(active.write(Durable(!active.job.state.is_alive())));
        }
    }

    fn active(&self) -> MutexGuard<'_, Option<ActiveJob>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveJob {
    /// Writes the record; durably at the start and the end, so that a power failure loses only
    /// progress.
    fn write(&mut self, durable: Durable) -> std::io::Result<()> {
        self.written = Instant::now();
        self.job.written_at = now();
        self.job.seconds = self.began.elapsed().as_secs_f64();
        user_files::replace_file(&self.path, &json(&self.job)?, durable)
    }
}

/// Returns a job as the JSON of its record.
pub fn json(job: &Job) -> std::io::Result<Vec<u8>> {
    Ok(serde_json::to_vec_pretty(job)?)
}

/// Returns the current time in seconds since 1970.
fn now() -> u64 {
    seconds_since_1970(SystemTime::now())
}

/// Returns the environment variables that affect a transfer and are set, with their values.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    let value = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    ENVIRONMENT.into_iter().filter_map(value)
}

/// Creates a job with the next free number.
fn new_job(command: &[OsString], places: Vec<u64>) -> Result<ActiveJob, TransferError> {
    let folder = folder().ok_or(TransferError::NoStateDirectory)?;
    // Commands and file names are private.
    let created = user_files::create_directory(&folder, 0o700);
    created.map_err(|error| TransferError::File { path: folder.clone(), error })?;
    let host = LocalHost::current();
    prune(&folder, &host);
    let directory = std::env::current_dir().map_err(TransferError::Io)?;
    let mut job = Job {
        schema: JOB_SCHEMA.to_owned(),
        id: numbers(&folder).unwrap_or_default().last().map_or(1, |last| last.saturating_add(1)),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.iter().map(|arg| to_command_arg(arg)).collect(),
        directory: to_command_arg(directory.as_os_str()),
        environment: environment().collect(),
        source_inodes: places,
        process: host.process(),
        state: JobState::Running,
        reason: String::new(),
        capacity: None,
        peer_capacity: None,
        started_at: now(),
        written_at: now(),
        seconds: 0.0,
        runs: 1,
        totals: JobTotals::default(),
        problems: Vec::new(),
        log: Vec::new(),
    };
    job.add_line(job.started_at, "started".to_owned());
    loop {
        let path = file(&folder, job.id);
        let failed = |error| TransferError::CannotWrite { path: path.clone(), error };
        let content = json(&job).map_err(failed)?;
        if user_files::create(&path, &content, Durable(true)).map_err(failed)? {
            return Ok(ActiveJob { job, path, began: Instant::now(), written: Instant::now() });
        }
        // Another transfer has taken the number.
        job.id = job.id.checked_add(1).ok_or(TransferError::NoJobNumber { path })?;
    }
}

/// Returns the state of a finished transfer, and why it is not done.
fn end_state(outcome: JobOutcome, totals: &JobTotals) -> (JobState, String) {
    match outcome {
        JobOutcome::Done => (JobState::Done, String::new()),
        JobOutcome::Interrupted => (JobState::Interrupted, "interrupted".to_owned()),
        JobOutcome::SomeFailed => (JobState::Failed, format!("{} failed", totals.failed)),
        JobOutcome::Failed(why) if numaio_linux::interrupt::interrupted() => (JobState::Interrupted, why),
        JobOutcome::Failed(why) => (JobState::Failed, why),
    }
}
