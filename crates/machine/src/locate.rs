//! To locate what people hold: what a path, a host or a process stands for. No file of /sys or /proc tells it:
//! the kernel and the resolver of names must be asked.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// A machine that can be asked where things are. Asking changes nothing.
pub trait Locate {
    /// Answers one question; the answer is of the question's kind.
    fn locate(&self, question: &LocateQuery) -> Result<LocateAnswer, LocateError>;
}

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum LocateQuery {
    /// What is at a path.
    Path {
        /// The path; symbolic links are followed, a relative one begins in the working directory.
        path: String,
    },
    /// The addresses of a host.
    Addresses {
        /// Its name, or an address as text.
        host: String,
    },
    /// The ways that packets of this process take to an address.
    Routes {
        /// The address.
        to: IpAddr,
    },
    /// What a process has open.
    Opened {
        /// Its number.
        pid: u32,
    },
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocateAnswer {
    /// To [`LocateQuery::Path`].
    Path(PathFacts),
    /// To [`LocateQuery::Addresses`], in the order in which they are to be tried (RFC 6724); never empty.
    Addresses(Vec<IpAddr>),
    /// To [`LocateQuery::Routes`]: one, or several of a multipath route; never empty.
    Routes(Vec<RouteFacts>),
    /// To [`LocateQuery::Opened`].
    Opened(OpenedFacts),
}

/// What is at a path (statx(2)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFacts {
    /// The path without symbolic links.
    pub canonical: String,
    /// What it is.
    pub kind: PathKind,
    /// Number of the device that holds it; file systems without one device have one that is made up.
    pub on: DeviceNumber,
    /// Number of the device that it is, of a device file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is: Option<DeviceNumber>,
    /// Number of its mount, as in mountinfo (Linux 5.8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<u64>,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// Number of a device, `8:1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

/// One way to an address (rtnetlink(7)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteFacts {
    /// The network interface that packets leave by; `lo` if the address is this machine's own.
    pub interface: String,
    /// The next host, if it is not the address itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// The source address that the kernel would take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// The table it stands in: 254 is main, 255 local; others come by policy rules.
    pub table: u32,
    /// Weight among the ways of a multipath route, from 1.
    pub weight: u32,
}

/// What a process has open (proc_pid_fd(5)).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedFacts {
    /// Its open files, by number.
    pub files: Vec<OpenFile>,
    /// Whether it is in the network namespace of this process; none if the kernel does not tell.
    pub same_network: Option<bool>,
}

/// One open file of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    /// Its number there.
    pub fd: u32,
    /// What its link in /proc says: a path, `socket:[4711]`, `pipe:[5]`, `anon_inode:[eventpoll]`.
    #[serde(rename = "leads_to")]
    pub target: String,
    /// What it is, if that could be asked.
    pub facts: Option<PathFacts>,
}

/// Why a question was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocateError {
    /// A recorded machine was not asked this when it was recorded.
    #[error("the tape does not tell {0}")]
    NotOnTape(String),
    /// It does not exist: no such path, no such host, no such process.
    #[error("{0} was not found")]
    Absent(String),
    /// This process may not ask.
    #[error("{0}: permission denied")]
    Denied(String),
    /// There is no way to the address.
    #[error("there is no route to {0}")]
    NoRoute(IpAddr),
    /// It was asked of something that is no live machine.
    #[error("{0} can only be asked on the machine itself")]
    NotLive(String),
    /// The kernel's own words, or the resolver's.
    #[error("{what}: {why}")]
    Failed {
        /// What was asked.
        what: String,
        /// What was said.
        why: String,
    },
    /// An answer to another question: a broken tape.
    #[error("the answer does not fit the question for {0}")]
    OtherAnswer(String),
}

/// Questions with answers of their own kind, over every [`Locate`].
pub trait LocateExt: Locate {
    /// What is at a path.
    fn path(&self, path: &str) -> Result<PathFacts, LocateError> {
        match self.query(LocateQuery::Path { path: path.to_owned() })? {
            (_, LocateAnswer::Path(facts)) => Ok(facts),
            (question, _) => Err(LocateError::OtherAnswer(question.to_string())),
        }
    }

    /// The addresses of a host, those to be tried first before others.
    fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, LocateError> {
        match self.query(LocateQuery::Addresses { host: host.to_owned() })? {
            (_, LocateAnswer::Addresses(addresses)) => Ok(addresses),
            (question, _) => Err(LocateError::OtherAnswer(question.to_string())),
        }
    }

    /// The ways to an address.
    fn routes(&self, to: IpAddr) -> Result<Vec<RouteFacts>, LocateError> {
        match self.query(LocateQuery::Routes { to })? {
            (_, LocateAnswer::Routes(routes)) => Ok(routes),
            (question, _) => Err(LocateError::OtherAnswer(question.to_string())),
        }
    }

    /// What a process has open.
    fn opened(&self, pid: u32) -> Result<OpenedFacts, LocateError> {
        match self.query(LocateQuery::Opened { pid })? {
            (_, LocateAnswer::Opened(opened)) => Ok(opened),
            (question, _) => Err(LocateError::OtherAnswer(question.to_string())),
        }
    }

    /// An answer beside its question.
    fn query(&self, question: LocateQuery) -> Result<(LocateQuery, LocateAnswer), LocateError> {
        let answer = self.locate(&question)?;
        Ok((question, answer))
    }
}

impl<L: Locate + ?Sized> LocateExt for L {}

/// Answers that are known: those of a tape, of a simulated machine, of a test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocateAnswers(BTreeMap<LocateQuery, Result<LocateAnswer, LocateError>>);

impl LocateAnswers {
    /// Keeps an answer. The first to a question stays, as that is what was seen with the topology.
    pub fn add(&mut self, question: LocateQuery, answer: Result<LocateAnswer, LocateError>) {
        self.0.entry(question).or_insert(answer);
    }

    /// All of them, by question.
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
            Self::Routes { to } => write!(f, "route to {to}"),
            Self::Opened { pid } => write!(f, "open files of process {pid}"),
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
    fn known_answers_keep_the_rules_of_the_seam() {
        conformance::locate(&answers());
    }

    #[test]
    fn a_tape_tells_what_was_answered_when_it_was_recorded() {
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
    fn an_answer_to_another_question_is_refused() {
        let mut answers = LocateAnswers::default();
        answers.add(LocateQuery::Path { path: "/".into() }, Ok(LocateAnswer::Addresses(Vec::new())));
        assert_eq!(answers.path("/"), Err(LocateError::OtherAnswer("path /".into())));
    }
}
