//! Queries that /sys and /proc cannot answer: what a path, a host or a process refers to.
//!
//! System calls and the name resolver answer them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// A machine that answers [`LocateQuery`]s without side effects.
pub trait Locate {
    /// Answers a query with an answer of the same kind.
    fn locate(&self, question: &LocateQuery) -> Result<LocateAnswer, LocateError>;
}

/// A query to the kernel or the name resolver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LocateQuery {
    /// Attributes of the object at a path.
    Path {
        /// The path; symbolic links are followed, and relative paths start at the working
        /// directory.
        path: String,
    },
    /// Addresses of a host.
    Addresses {
        /// Host name, or an address as text.
        host: String,
    },
    /// Routes of this process to an address.
    Routes {
        /// Destination address.
        destination: IpAddr,
    },
    /// Open files of a process.
    Opened {
        /// Process id.
        pid: u32,
    },
    /// Indirection table of receive side scaling (Documentation/networking/scaling.rst).
    ReceiveTable {
        /// Network interface.
        interface: String,
    },
}

/// The answer to a [`LocateQuery`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LocateAnswer {
    /// Answer to [`LocateQuery::Path`].
    Path(PathFacts),
    /// Answer to [`LocateQuery::Addresses`], in the order of preference (RFC 6724); never empty.
    Addresses(Vec<IpAddr>),
    /// Answer to [`LocateQuery::Routes`]: one route, or the next hops of a multipath route.
    Routes(Vec<RouteFacts>),
    /// Answer to [`LocateQuery::Opened`].
    Opened(OpenedFacts),
    /// Answer to [`LocateQuery::ReceiveTable`]: the receive queue of each entry.
    ReceiveTable(Vec<u32>),
}

/// Attributes of the object at a path (statx(2)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PathFacts {
    /// The path with all symbolic links resolved.
    pub canonical: String,
    /// Type of the object.
    pub kind: PathKind,
    /// Device that holds the object; file systems without a single device have an anonymous number.
    pub dev: DeviceNumber,
    /// Device that a device file refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdev: Option<DeviceNumber>,
    /// Mount id, as in mountinfo (Linux 5.8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<u64>,
}

/// Type of the object at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A device file of a block device.
    Block,
    /// A device file of a character device.
    Character,
    /// A pipe or a socket.
    Other,
}

/// A device number, displayed as `8:1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DeviceNumber {
    /// Major number, which identifies the driver.
    pub major: u32,
    /// Minor number, which identifies the device.
    pub minor: u32,
}

/// A route to an address (rtnetlink(7)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RouteFacts {
    /// Outgoing network interface; `lo` for an address of this machine.
    pub interface: String,
    /// Next hop, unless the destination is on-link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// Source address that the kernel would select.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Routing table: 254 is main, 255 is local; policy rules select others.
    pub table: u32,
    /// Weight within a multipath route, from 1.
    pub weight: u32,
}

/// Open files of a process (proc_pid_fd(5)).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct OpenedFacts {
    /// The open files, by descriptor.
    pub files: Vec<OpenFile>,
    /// Whether it shares this process's network namespace; `None` if unknown.
    pub same_network: Option<bool>,
}

/// An open file of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct OpenFile {
    /// File descriptor.
    pub fd: u32,
    /// Target of its link in /proc: a path, `socket:[4711]`, `pipe:[5]`, `anon_inode:[eventpoll]`.
    pub target: String,
    /// Attributes of the target, if available.
    pub facts: Option<PathFacts>,
}

/// The reason why a query failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LocateError {
    /// The tape has no answer to this query.
    #[error("the tape has no {0}")]
    NotOnTape(String),
    /// The path, host or process does not exist.
    #[error("{0} not found")]
    Absent(String),
    /// This process has no permission for the query.
    #[error("{0}: permission denied")]
    Denied(String),
    /// The address is unreachable.
    #[error("no route to {0}")]
    NoRoute(IpAddr),
    /// The machine is neither live nor recorded.
    #[error("{0} is only available on the machine itself")]
    NotLive(String),
    /// Any other error of the kernel or the resolver.
    #[error("{query}: {reason}")]
    Failed {
        /// The query.
        query: String,
        /// The error text.
        reason: String,
    },
    /// The answer is of another kind than the query: the tape is corrupt.
    #[error("the tape is corrupt: the answer does not match the query for {0}")]
    OtherAnswer(String),
}

/// Typed queries of every [`Locate`].
pub trait LocateExt: Locate {
    /// Returns the attributes of the object at a path.
    fn path(&self, path: &str) -> Result<PathFacts, LocateError> {
        match self.query(LocateQuery::Path { path: path.to_owned() })? {
            (_, LocateAnswer::Path(facts)) => Ok(facts),
            (question, _) => Err(LocateError::OtherAnswer(question.to_string())),
        }
    }

    /// Returns the addresses of a host in the order of preference.
    fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, LocateError> {
        match self.query(LocateQuery::Addresses { host: host.to_owned() })? {
            (_, LocateAnswer::Addresses(addresses)) => Ok(addresses),
            (question, _) => Err(LocateError::OtherAnswer(question.to_string())),
        }
    }

    /// Returns the routes to an address.
    fn routes(&self, to: IpAddr) -> Result<Vec<RouteFacts>, LocateError> {
        match self.query(LocateQuery::Routes { destination: to })? {
            (_, LocateAnswer::Routes(routes)) => Ok(routes),
            (question, _) => Err(LocateError::OtherAnswer(question.to_string())),
        }
    }

    /// Returns the receive queue of each entry of an interface's indirection table.
    fn receive_table(&self, interface: &str) -> Result<Vec<u32>, LocateError> {
        match self.query(LocateQuery::ReceiveTable { interface: interface.to_owned() })? {
            (_, LocateAnswer::ReceiveTable(queues)) => Ok(queues),
            (question, _) => Err(LocateError::OtherAnswer(question.to_string())),
        }
    }

    /// Returns the open files of a process.
    fn opened(&self, pid: u32) -> Result<OpenedFacts, LocateError> {
        match self.query(LocateQuery::Opened { pid })? {
            (_, LocateAnswer::Opened(opened)) => Ok(opened),
            (question, _) => Err(LocateError::OtherAnswer(question.to_string())),
        }
    }

    /// Returns an answer together with its query.
    fn query(&self, question: LocateQuery) -> Result<(LocateQuery, LocateAnswer), LocateError> {
        let answer = self.locate(&question)?;
        Ok((question, answer))
    }
}

impl<L: Locate + ?Sized> LocateExt for L {}

/// A fixed set of answers, from a tape, a simulated machine or a test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocateAnswers(BTreeMap<LocateQuery, Result<LocateAnswer, LocateError>>);

impl LocateAnswers {
    /// Adds an answer; the first answer to a query stays, because it matches the recorded topology.
    pub fn add(&mut self, question: LocateQuery, answer: Result<LocateAnswer, LocateError>) {
        self.0.entry(question).or_insert(answer);
    }

    /// Iterates over the answers, ordered by query.
    pub fn iter(&self) -> impl Iterator<Item = (&LocateQuery, &Result<LocateAnswer, LocateError>)> {
        self.0.iter()
    }
}

impl Locate for LocateAnswers {
    fn locate(&self, question: &LocateQuery) -> Result<LocateAnswer, LocateError> {
        self.0.get(question).cloned().unwrap_or_else(|| Err(LocateError::NotOnTape(question.to_string())))
    }
}

impl fmt::Display for LocateQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { path } => write!(f, "path {path}"),
            Self::Addresses { host } => write!(f, "addresses of {host}"),
            Self::Routes { destination: to } => write!(f, "route to {to}"),
            Self::Opened { pid } => write!(f, "open files of process {pid}"),
            Self::ReceiveTable { interface } => write!(f, "RSS table of {interface}"),
        }
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;
    use crate::tape::{Recording, Replay, Tape, TapeHeader, TAPE_SCHEMA};

    fn answers() -> LocateAnswers {
        let mut answers = LocateAnswers::default();
        conformance::fill_answers(|question, answer| answers.add(question, answer));
        answers
    }

    #[test]
    fn answer_table_passes_locate_conformance() {
        conformance::locate(&answers());
    }

    #[test]
    fn tape_replays_recorded_answers() {
        let header = TapeHeader {
            tape: TAPE_SCHEMA.into(),
            numaio: String::new(),
            name: String::new(),
            note: String::new(),
            recorded_at: 0,
        };
        let recording = Recording::new(answers(), header);
        conformance::locate(&recording);
        let tape = Tape::parse(&recording.tape().to_text()).expect("a tape");
        assert_eq!(tape, recording.tape());
        let replay = Replay::new(tape);
        conformance::locate(&replay);
        let other = replay.path("/data").expect_err("never asked");
        assert_eq!(other, LocateError::NotOnTape("path /data".into()));
    }

    #[test]
    fn rejects_an_answer_of_another_kind() {
        let mut answers = LocateAnswers::default();
        answers.add(LocateQuery::Path { path: "/".into() }, Ok(LocateAnswer::Addresses(Vec::new())));
        assert_eq!(answers.path("/"), Err(LocateError::OtherAnswer("path /".into())));
    }
}
