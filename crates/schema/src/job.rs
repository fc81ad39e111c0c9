//! A record of a transfer, for `numaio jobs` to list, cancel and resume.

use crate::capacity::{CapacityState, LentCapacity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A transfer by `numaio copy`, saved while it runs and when it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Job {
    /// [`JOB_SCHEMA`](crate::JOB_SCHEMA).
    pub schema: String,
    /// The job number, unique per user.
    pub id: u32,
    /// Version of numaio that ran it.
    pub numaio: String,
    /// The command line, without the name of the program.
    pub command: Vec<CommandArg>,
    /// The working directory of the command.
    pub directory: CommandArg,
    /// Environment variables that affect the command.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Inode numbers of the local source directories; 0 for other sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_inodes: Vec<u64>,
    /// The process that runs the job.
    pub process: JobProcess,
    /// The state.
    pub state: JobState,
    /// The reason for a failure or a wait, as text; otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The capacity that the daemon of this host lends, while the job runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<LentCapacity>,
    /// The capacity that the daemon of the other host lends, while the job runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_capacity: Option<LentCapacity>,
    /// Time of the first start in seconds since 1970.
    pub started_at: u64,
    /// Time of this record in seconds since 1970.
    pub written_at: u64,
    /// Duration of the last run in seconds, so far if it still runs.
    pub seconds: f64,
    /// Number of runs: 1, plus 1 for each resume.
    pub runs: u32,
    /// Totals of the last run.
    pub totals: JobTotals,
    /// Problems of the last run, the first [`MAX_PROBLEMS`](Self::MAX_PROBLEMS) only.
    #[serde(default)]
    pub problems: Vec<JobProblem>,
    /// Log lines, the last [`MAX_LINES`](Self::MAX_LINES) only.
    #[serde(default)]
    pub log: Vec<JobLine>,
}

/// A command-line argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum CommandArg {
    /// UTF-8 text.
    Text(String),
    /// Bytes that are not UTF-8.
    Bytes(Vec<u8>),
}

/// The process of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct JobProcess {
    /// The process ID.
    pub pid: u32,
    /// Start time in clock ticks since boot, because process IDs are reused.
    pub start_time: u64,
    /// Boot ID; `None` if the kernel does not report it.
    pub boot: Option<String>,
    /// The host name, because hosts may share a home directory.
    pub host: String,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// The job waits in the queue of a daemon.
    Waiting,
    /// The job runs.
    Running,
    /// The job runs and was asked to stop.
    Cancelling,
    /// All data was transferred.
    Done,
    /// The job ended without transferring all data.
    Failed,
    /// The job was interrupted, or its process no longer exists.
    Interrupted,
}

/// The totals of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct JobTotals {
    /// Entries found at the source.
    pub entries: u64,
    /// Bytes to transfer, of the entries found so far.
    pub size: u64,
    /// Entries created or changed at the sink.
    pub moved: u64,
    /// Entries that were up to date, or skipped on request.
    pub unchanged: u64,
    /// Entries removed at the sink.
    pub removed: u64,
    /// Number of problems.
    pub failed: u64,
    /// Bytes of file data transferred.
    pub bytes: u64,
    /// Bytes of file data on the wire: fewer with compression, more if received data was discarded.
    #[serde(default)]
    pub sent: u64,
    /// Bytes reused from an interrupted transfer.
    pub resumed: u64,
}

/// A problem of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct JobProblem {
    /// The name of the entry; `None` for a problem that ended the transfer.
    pub name: Option<String>,
    /// `source` or `destination`.
    pub side: String,
    /// The reason, as named by the protocol.
    pub reason: String,
    /// The message.
    pub text: String,
}

/// A line of a job's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct JobLine {
    /// Time in seconds since 1970.
    pub at: u64,
    /// The text.
    pub text: String,
}

impl JobState {
    /// Returns the stored name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Cancelling => "cancelling",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns whether a process still runs the job.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Waiting | Self::Running | Self::Cancelling)
    }
}

impl Job {
    /// Maximum number of stored problems.
    pub const MAX_PROBLEMS: usize = 1000;
    /// Maximum number of stored log lines.
    pub const MAX_LINES: usize = 1000;

    /// Returns the state for users: a running job may be suspended.
    pub fn shown_state(&self) -> &'static str {
        let suspended = CapacityState::Suspended;
        let lent = self.capacity.iter().chain(&self.peer_capacity);
        let is_suspended = lent.into_iter().any(|lent| lent.state == suspended);
        match self.state {
            JobState::Running if is_suspended => suspended.name(),
            state => state.name(),
        }
    }

    /// Maximum bytes of a name as JSON: a name has up to 4,095 bytes, and each may be shown as
    /// `\\u{1b}`.
    const MAX_NAME_BYTES: usize = 7 * 4_095;
    /// Maximum bytes of other text as JSON: a problem has up to 1,024 bytes of it.
    const MAX_TEXT_BYTES: usize = 4_096;

    /// Truncates a name to the stored length, because another host may send a longer one.
    pub fn truncate_name(name: String) -> String {
        truncate(name, Self::MAX_NAME_BYTES)
    }

    /// Truncates text to the stored length.
    pub fn truncate_text(text: String) -> String {
        truncate(text, Self::MAX_TEXT_BYTES)
    }

    /// Adds a problem, up to the maximum number.
    pub fn add_problem(&mut self, problem: JobProblem) {
        if self.problems.len() < Self::MAX_PROBLEMS {
            self.problems.push(problem.truncated());
        }
    }

    /// Adds a log line; beyond the maximum number the oldest is removed.
    pub fn add_line(&mut self, at: u64, text: String) {
        if self.log.len() >= Self::MAX_LINES {
            self.log.remove(0);
        }
        self.log.push(JobLine { at, text: Self::truncate_text(text) });
    }
}

impl JobProblem {
    /// Truncates name and texts to the stored lengths.
    pub fn truncated(self) -> Self {
        let Self { name, side, reason, text } = self;
        let [side, reason, text] = [side, reason, text].map(Job::truncate_text);
        Self { name: name.map(Job::truncate_name), side, reason, text }
    }
}

/// Truncates text to at most `limit` bytes as JSON, and releases the memory of the rest.
fn truncate(mut text: String, limit: usize) -> String {
    let mut bytes = 0;
    let excess = text.char_indices().find(|(_, char)| {
        bytes += match char {
            '\0'..='\x1f' => r"\u001f".len(),
            '"' | '\\' => r"\\".len(),
            char => char.len_utf8(),
        };
        bytes > limit
    });
    if let Some((at, _)) = excess {
        text.truncate(at);
        text.shrink_to_fit();
    }
    text
}
