//! A transfer that runs or ran here, kept so that it can be looked at, ended and gone on with.

use crate::DocumentError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Schema and version of [`Job`].
pub const JOB_SCHEMA: &str = "numaio/job/1";

/// A run of `numaio copy`, as it is noted while it runs and when it has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// [`JOB_SCHEMA`].
    pub schema: String,
    /// Its number among the jobs of this user.
    pub id: u32,
    /// Version of numaio that ran it.
    pub numaio: String,
    /// What was typed, without the name of the program.
    pub command: Vec<CommandArg>,
    /// The folder in which it was typed.
    pub directory: CommandArg,
    /// Variables of the environment that change what the command does, as they were.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Inode numbers of the directories that the command names as its sources here; 0 for other sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<u64>,
    /// Who carries it out.
    pub process: JobProcess,
    /// How it is.
    pub state: JobState,
    /// Why it ended otherwise than well, in words; empty if it did not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Seconds since 1970 at which it was begun for the first time.
    #[serde(rename = "began")]
    pub started_at: u64,
    /// Seconds since 1970 at which this was written.
    #[serde(rename = "noted")]
    pub written_at: u64,
    /// Seconds that the last run took, or has taken so far.
    pub seconds: f64,
    /// How often it was run: 1, and 1 more for each time that it was resumed.
    pub runs: u32,
    /// How far the last run is.
    pub totals: JobTotals,
    /// What went wrong in the last run, the first [`MAX_PROBLEMS`](Self::MAX_PROBLEMS) of it.
    #[serde(default)]
    pub problems: Vec<JobProblem>,
    /// What happened, the last [`MAX_LINES`](Self::MAX_LINES) of it.
    #[serde(default)]
    pub log: Vec<JobLine>,
}

/// A word of a command: text, or bytes that are none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CommandArg {
    /// UTF-8.
    Text(String),
    /// Any other bytes.
    Bytes(Vec<u8>),
}

/// The process that carries a job out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobProcess {
    /// Its number.
    pub pid: u32,
    /// When it began, in clock ticks since the machine was started: numbers of processes are used again.
    pub began: u64,
    /// The start of the kernel in which that was; none where the kernel does not tell.
    pub boot: Option<String>,
    /// The host; several may share a home.
    pub host: String,
}

/// How a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// It runs.
    Running,
    /// It runs, and was asked to end.
    #[serde(rename = "ending")]
    Cancelling,
    /// All is there.
    Done,
    /// It ended, and not all is there.
    Failed,
    /// It was interrupted, or its process is gone.
    #[serde(rename = "cut")]
    Interrupted,
}

/// How far a transfer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobTotals {
    /// Entries that were found at the source.
    pub entries: u64,
    /// Bytes of data that are to be moved, of what was found until now.
    pub size: u64,
    /// Entries that were made or changed at the sink.
    pub moved: u64,
    /// Entries that were as they should be, or are left alone on purpose.
    pub unchanged: u64,
    /// Things that were removed at the sink.
    pub removed: u64,
    /// Problems.
    pub failed: u64,
    /// Bytes of data that were moved.
    pub bytes: u64,
    /// Bytes of data as they went from one side to the other: fewer where they were packed, more where what came was of
    /// no use.
    #[serde(default)]
    pub sent: u64,
    /// Bytes of data that a transfer before this one had moved, and that need not be moved again.
    pub resumed: u64,
}

/// Something that went wrong in a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobProblem {
    /// What it is about; none for the transfer as a whole, which then ended.
    pub name: Option<String>,
    /// `source` or `destination`.
    pub side: String,
    /// The reason, as the protocol names it.
    pub reason: String,
    /// What went wrong, in words.
    pub text: String,
}

/// A line of a job's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLine {
    /// Seconds since 1970.
    pub at: u64,
    /// What happened.
    pub text: String,
}

impl JobState {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Cancelling => "ending",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Interrupted => "cut",
        }
    }

    /// Whether somebody still works on it.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Running | Self::Cancelling)
    }
}

impl Job {
    /// Most problems that are kept.
    pub const MAX_PROBLEMS: usize = 1000;
    /// Most lines of the log that are kept.
    pub const MAX_LINES: usize = 1000;

    /// Reads a job.
    ///
    /// # Errors
    /// If the text is not such a document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, JOB_SCHEMA)
    }

    /// Most bytes of JSON of a name: of its 4,095 bytes each may be shown as `\\u{1b}`.
    const MAX_NAME_BYTES: usize = 7 * 4_095;
    /// Most bytes of JSON of other words: a problem has 1,024 bytes of them.
    const MAX_TEXT_BYTES: usize = 4_096;

    /// A name as it is kept: another host may tell one that is longer than any.
    pub fn truncate_name(words: String) -> String {
        truncate(words, Self::MAX_NAME_BYTES)
    }

    /// Words as they are kept.
    pub fn truncate_text(words: String) -> String {
        truncate(words, Self::MAX_TEXT_BYTES)
    }

    /// Notes what went wrong, up to the limit.
    pub fn add_problem(&mut self, problem: JobProblem) {
        if self.problems.len() < Self::MAX_PROBLEMS {
            self.problems.push(problem.truncated());
        }
    }

    /// Notes what happened; the oldest line makes room.
    pub fn add_line(&mut self, at: u64, text: String) {
        if self.log.len() >= Self::MAX_LINES {
            self.log.remove(0);
        }
        self.log.push(JobLine { at, text: Self::truncate_text(text) });
    }
}

impl JobProblem {
    /// The same within what a job keeps of it.
    pub fn truncated(self) -> Self {
        let Self { name, side, reason, text } = self;
        let [side, reason, text] = [side, reason, text].map(Job::truncate_text);
        Self { name: name.map(Job::truncate_name), side, reason, text }
    }
}

/// Words of which JSON has no more than `most` bytes. What is beyond takes no memory any more.
fn truncate(mut words: String, most: usize) -> String {
    let mut bytes = 0;
    let beyond = words.char_indices().find(|(_, char)| {
        bytes += match char {
            '\0'..='\x1f' => r"\u001f".len(),
            '"' | '\\' => r"\\".len(),
            char => char.len_utf8(),
        };
        bytes > most
    });
    if let Some((at, _)) = beyond {
        words.truncate(at);
        words.shrink_to_fit();
    }
    words
}
