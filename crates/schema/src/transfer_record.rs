//! Records of the sessions of a daemon, one a line of a file, and their totals.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A finished session of a daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TransferRecord {
    /// [`TRANSFER_RECORD_SCHEMA`](crate::TRANSFER_RECORD_SCHEMA).
    pub schema: String,
    /// Time of admission in seconds since 1970.
    pub started_at: u64,
    /// Time of the end in seconds since 1970.
    pub ended_at: u64,
    /// Address and port of the client.
    pub client: String,
    /// Name of the user; empty if it is not known.
    #[serde(default)]
    pub user: String,
    /// Class of the user.
    pub user_class: String,
    /// Name of the root; empty if it is not a configured one.
    #[serde(default)]
    pub root: String,
    /// The user's action; `None` if the session ended before it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<TransferDirection>,
    /// How the session ended.
    pub result: TransferResult,
    /// Why it did not succeed, as text; otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Identity of the transfer in hexadecimal digits, the same for all attempts; empty if the
    /// client sent no request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub transfer: String,
    /// Whether an earlier session attempted the same transfer.
    pub retry: bool,
    /// Duration in seconds.
    pub seconds: f64,
    /// Bytes of file data per second.
    pub bytes_per_s: f64,
    /// The counts.
    #[serde(flatten)]
    pub counts: TransferCounts,
}

/// The amounts that a session transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TransferCounts {
    /// Regular files of the source, found so far.
    #[serde(default)]
    pub files: u64,
    /// Entries of the source, found so far.
    #[serde(default)]
    pub entries: u64,
    /// Entries created or changed at the destination.
    #[serde(default)]
    pub moved: u64,
    /// Entries that failed.
    #[serde(default)]
    pub failed: u64,
    /// Bytes of file data transferred.
    #[serde(default)]
    pub bytes: u64,
    /// Bytes of the transfer's packets that the daemon received, without TLS and TCP.
    #[serde(default)]
    pub received: u64,
    /// Bytes of packets that the daemon sent.
    #[serde(default)]
    pub sent: u64,
}

impl TransferCounts {
    /// Adds the counts of another session.
    pub fn add(&mut self, other: &Self) {
        let Self { files, entries, moved, failed, bytes, received, sent } = self;
        for (sum, count) in [
            (files, other.files),
            (entries, other.entries),
            (moved, other.moved),
            (failed, other.failed),
            (bytes, other.bytes),
            (received, other.received),
            (sent, other.sent),
        ] {
            *sum = sum.saturating_add(count);
        }
    }
}

/// The action of a user on the files of a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TransferDirection {
    /// The user reads files from the root.
    Read,
    /// The user writes files to the root.
    Write,
}

impl TransferDirection {
    /// Returns the name in documents and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// Returns the other direction: a device that files are read from, and the one they go to.
    pub fn opposite(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
        }
    }
}

/// How a session of a daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TransferResult {
    /// All entries were transferred.
    Done,
    /// The transfer is complete, but some entries failed.
    DoneWithFailures,
    /// The transfer failed, or did not start.
    Failed,
    /// The connection was lost, or a side was interrupted.
    Interrupted,
    /// The daemon refused the authenticated user.
    Refused,
    /// The process of the session ended without a report.
    Killed,
}

impl TransferResult {
    /// All results.
    pub const ALL: [Self; 6] =
        [Self::Done, Self::DoneWithFailures, Self::Failed, Self::Interrupted, Self::Refused, Self::Killed];

    /// Returns the name in documents and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::DoneWithFailures => "done-with-failures",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Refused => "refused",
            Self::Killed => "killed",
        }
    }
}

/// Totals of the sessions of all days up to one, so that counters neither need nor lose the
/// records of these days.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TransferTotals {
    /// [`TRANSFER_TOTALS_SCHEMA`](crate::TRANSFER_TOTALS_SCHEMA).
    pub schema: String,
    /// The last day that is included, in days since 1970.
    pub through_day: u64,
    /// One total for each user, root and direction.
    pub totals: Vec<TransferTotal>,
}

/// Totals of the sessions of a user with a root and direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TransferTotal {
    /// Name of the user; empty if it is not known.
    #[serde(default)]
    pub user: String,
    /// Class of the user.
    pub user_class: String,
    /// Name of the root; empty if it is not a configured one.
    #[serde(default)]
    pub root: String,
    /// The user's action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<TransferDirection>,
    /// Number of sessions by result.
    pub sessions: BTreeMap<TransferResult, u64>,
    /// Sessions that attempted a transfer again.
    pub retries: u64,
    /// Duration of all sessions in seconds.
    pub seconds: f64,
    /// Counts of all sessions.
    #[serde(flatten)]
    pub counts: TransferCounts,
}

impl TransferTotals {
    /// Totals without sessions.
    pub fn new() -> Self {
        Self { schema: Self::SCHEMA.to_owned(), through_day: 0, totals: Vec::new() }
    }

    /// Adds a session.
    pub fn add(&mut self, record: &TransferRecord) {
        let is_same = |total: &TransferTotal| {
            (&total.user, &total.user_class, &total.root, total.direction)
                == (&record.user, &record.user_class, &record.root, record.direction)
        };
        let at = self.totals.iter().position(is_same).unwrap_or_else(|| {
            self.totals.push(TransferTotal {
                user: record.user.clone(),
                user_class: record.user_class.clone(),
                root: record.root.clone(),
                direction: record.direction,
                sessions: BTreeMap::new(),
                retries: 0,
                seconds: 0.0,
                counts: TransferCounts::default(),
            });
            self.totals.len() - 1
        });
        let total = &mut self.totals[at];
        *total.sessions.entry(record.result).or_default() += 1;
        total.retries += u64::from(record.retry);
        total.seconds += record.seconds;
        total.counts.add(&record.counts);
    }
}

impl Default for TransferTotals {
    fn default() -> Self {
        Self::new()
    }
}

/// The present state of a daemon, beside its records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DaemonState {
    /// [`DAEMON_STATE_SCHEMA`](crate::DAEMON_STATE_SCHEMA).
    pub schema: String,
    /// Version of numaio.
    pub numaio: String,
    /// Process ID of the daemon.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot, because process IDs are reused.
    pub start_time: u64,
    /// Boot ID; `None` if the kernel does not report it.
    pub boot: Option<String>,
    /// Time of this state in seconds since 1970.
    pub written_at: u64,
    /// Running sessions of admitted users, and an entry without user for each other class.
    pub active: Vec<ActiveSessions>,
    /// Connections whose client has not been admitted.
    pub unauthenticated: u64,
    /// Connections and sessions that wait for a slot.
    pub waiting: u64,
    /// Records that could not be written since the daemon started.
    pub lost_records: u64,
}

/// Running sessions of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ActiveSessions {
    /// Name of the user.
    pub user: String,
    /// Class of the user.
    pub user_class: String,
    /// Number of sessions.
    pub sessions: u64,
}
