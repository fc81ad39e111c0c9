//! JSON output of fio (fio(1), "JSON+ output" and "Normal output").
//!
//! Lines before the first `{` are error messages. Only the required fields are declared, since
//! others vary with the version.

use crate::engine::remote::is_rate;
use serde::Deserialize;

/// Maximum number of jobs per process.
const MOST_JOBS: usize = 65_536;
/// Older versions report KiB as bytes.
const LEAST_MAJOR: u32 = 3;

/// Figures of one process, for all of its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Run {
    /// Bandwidth in bytes per second.
    pub bytes_per_s: f64,
    /// Bytes moved.
    pub bytes: u64,
    /// CPU time of the jobs, user and system, in nanoseconds.
    pub cpu_ns: u64,
    /// End time in milliseconds since 1970; 0 if unknown.
    pub ended_ms: u64,
    /// Run time of the longest job, in milliseconds.
    pub runtime_ms: u64,
}

/// Reason for missing figures.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OutputError {
    /// The output contains no JSON.
    #[error("no JSON output")]
    NoJson,
    /// The JSON is truncated or invalid.
    #[error("invalid JSON output: {0}")]
    Json(String),
    /// The version uses other units.
    #[error("{0} is too old: expected fio-3.0 or newer")]
    TooOld(String),
    /// A job failed.
    #[error("job {job} failed with error {error} ({})", std::io::Error::from_raw_os_error(*error))]
    Job {
        /// Name and number of the job.
        job: String,
        /// Its errno.
        error: i32,
    },
    /// No job moved data.
    #[error("no data moved")]
    Nothing,
}

impl OutputError {
    /// Returns whether fio itself reported the failure.
    pub fn is_of_a_job(&self) -> bool {
        matches!(self, Self::Job { .. })
    }
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "fio version", default)]
    version: String,
    #[serde(default)]
    timestamp_ms: u64,
    #[serde(default)]
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    jobname: String,
    #[serde(default)]
    error: i32,
    #[serde(default)]
    read: Side,
    #[serde(default)]
    write: Side,
    /// Percent of one CPU.
    #[serde(default)]
    usr_cpu: f64,
    /// Percent of one CPU.
    #[serde(default)]
    sys_cpu: f64,
}

#[derive(Deserialize, Default)]
struct Side {
    #[serde(default)]
    io_bytes: u64,
    /// Milliseconds.
    #[serde(default)]
    runtime: u64,
}

/// Parses the output of one process.
///
/// # Errors
/// [`OutputError`].
pub fn parse(text: &str) -> Result<Run, OutputError> {
    let starts = text.split_inclusive('\n').scan(0, |at, line| {
        *at += line.len();
        Some((*at - line.len(), line))
    });
    let start = starts.into_iter().find(|(_, line)| line.starts_with('{')).map(|(start, _)| start);
    let json = start.and_then(|start| text.get(start..)).ok_or(OutputError::NoJson)?;
    // Only the first value: text after it is not JSON.
    let document = serde_json::Deserializer::from_str(json).into_iter::<Document>().next();
    let document =
        document.ok_or(OutputError::NoJson)?.map_err(|error| OutputError::Json(error.to_string()))?;
    if major(&document.version).is_some_and(|major| major < LEAST_MAJOR) {
        return Err(OutputError::TooOld(document.version.chars().take(40).collect()));
    }
    let jobs = || document.jobs.iter().take(MOST_JOBS).enumerate();
    if let Some((index, job)) = jobs().find(|(_, job)| job.error != 0) {
        let name: String = job.jobname.chars().take(40).collect();
        return Err(OutputError::Job { job: format!("{name} {}", index + 1), error: job.error });
    }
    let nothing = Run { ended_ms: document.timestamp_ms, ..Run::default() };
    let run = jobs().fold(nothing, |run, (_, job)| run.with(job));
    // Bytes without a runtime have no rate.
    let has_runtimes = jobs().all(|(_, job)| {
        [&job.read, &job.write].into_iter().all(|side| side.io_bytes == 0 || side.runtime > 0)
    });
    match has_runtimes && is_rate(run.bytes_per_s) {
        true => Ok(run),
        false => Err(OutputError::Nothing),
    }
}

impl Run {
    fn with(self, job: &Job) -> Self {
        let sides = [&job.read, &job.write];
        let per_s = |side: &Side| side.io_bytes as f64 * 1000.0 / side.runtime.max(1) as f64;
        let runtime_ms = sides.iter().map(|side| side.runtime).max().unwrap_or(0);
        let busy = ((job.usr_cpu + job.sys_cpu) / 100.0).max(0.0);
        Self {
            bytes_per_s: self.bytes_per_s + sides.iter().map(|side| per_s(side)).sum::<f64>(),
            bytes: sides.iter().fold(self.bytes, |sum, side| sum.saturating_add(side.io_bytes)),
            cpu_ns: self.cpu_ns.saturating_add((busy * runtime_ms as f64 * 1e6) as u64),
            runtime_ms: self.runtime_ms.max(runtime_ms),
            ..self
        }
    }
}

/// Parses the major version: `3` of `fio-3.33-5-g123`.
fn major(version: &str) -> Option<u32> {
    let number = version.strip_prefix("fio-")?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
