//! Tapes: recordings of a machine's files, workload runs and query answers.
//!
//! A tape is a text file of JSON lines: a header, then one entry per line. It can be read with
//! `grep` and appended to; a tape truncated by a crash contains all complete lines.

use crate::control::{Change, Control, ControlError, PageMove, PageMoveReport, PageRun};
use crate::locate::{Locate, LocateAnswer, LocateAnswers, LocateError, LocateQuery};
use crate::probe::{Outcome, Probe, ProbeError};
use crate::sysfs::{ReadError, ReadErrorKind, Sysfs};
use crate::tree::{join, Entry, Tree, MAX_PATH_BYTES};
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of recorded changes per file; later changes are not recorded.
const MAX_CHANGES: usize = 256;

/// Schema version of tapes.
pub const TAPE_SCHEMA: &str = "numaio/tape/1";

/// First line of a tape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TapeHeader {
    /// [`TAPE_SCHEMA`].
    pub tape: String,
    /// Version of the recording numaio.
    pub numaio: String,
    /// Display name of the machine.
    pub name: String,
    /// Remark about the machine, for example that it was emulated.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Start of the recording, in seconds since 1970.
    pub recorded_at: u64,
}

/// A line of a tape after the header.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "TapeEntry"))]
#[serde(untagged)]
enum Line {
    Text {
        file: String,
        /// The first read with this content, if it is not the first read of all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        read: Option<u32>,
        text: String,
    },
    Bytes {
        file: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        read: Option<u32>,
        hex: String,
    },
    Link {
        link: String,
        target: String,
    },
    Dir {
        dir: String,
    },
    Unreadable {
        unreadable: String,
        error: ReadErrorKind,
    },
    Unreachable {
        unreachable: String,
        error: ReadErrorKind,
    },
    Run {
        run: Workload,
        outcome: Outcome,
    },
    Failed {
        run: Workload,
        error: ProbeError,
    },
    Located {
        query: LocateQuery,
        answer: LocateAnswer,
    },
    NotLocated {
        query: LocateQuery,
        error: LocateError,
    },
    Document {
        document: serde_json::Value,
        runs: RunRange,
    },
}

impl Line {
    fn path(&self) -> Option<&str> {
        match self {
            Self::Text { file: path, .. }
            | Self::Bytes { file: path, .. }
            | Self::Link { link: path, .. }
            | Self::Dir { dir: path }
            | Self::Unreadable { unreadable: path, .. }
            | Self::Unreachable { unreachable: path, .. } => Some(path),
            Self::Run { .. }
            | Self::Failed { .. }
            | Self::Located { .. }
            | Self::NotLocated { .. }
            | Self::Document { .. } => None,
        }
    }
}

/// Returns the JSON Schema of a line of a tape after the header.
#[cfg(feature = "json-schema")]
pub fn json_schema_of_entry(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    generator.subschema_for::<Line>()
}

/// A recorded machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Tape {
    /// The first line.
    pub header: TapeHeader,
    /// The machine's files with their first content.
    pub files: Tree,
    /// Later contents of files, by canonical path.
    pub changes: BTreeMap<String, Vec<ChangedFile>>,
    /// Runs in chronological order.
    pub runs: Vec<(Workload, Result<Outcome, ProbeError>)>,
    /// Answers to queries, one per query.
    pub answers: LocateAnswers,
    /// Documents made from runs that do not identify the request themselves, such as measured I/O
    /// with its device. This crate does not interpret them.
    pub documents: Vec<(serde_json::Value, RunRange)>,
}

/// A range of a tape's runs as indices: the first, and the one after the last.
pub type RunRange = (usize, usize);

/// A later content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Number of the first read with this content; the first read of a file is 1.
    pub read: u32,
    /// The content.
    pub content: Vec<u8>,
}

/// Text that is not a tape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    /// The first line is not a header.
    #[error("the first line is not the header of a numaio tape")]
    NoHeader,
    /// The header has another schema version.
    #[error("it is a {0}, and this numaio reads {TAPE_SCHEMA}")]
    OtherVersion(String),
    /// A line is not an entry.
    #[error("line {0} is not an entry of a tape: {1}")]
    BadLine(usize, String),
}

impl Tape {
    /// Creates an empty tape.
    pub fn new(header: TapeHeader) -> Self {
        Self {
            header,
            files: Tree::new(),
            changes: BTreeMap::new(),
            runs: Vec::new(),
            answers: LocateAnswers::default(),
            documents: Vec::new(),
        }
    }

    /// Parses the bytes of a file; a last line truncated within a character is skipped.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Self, TapeError> {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            // Only the last character is truncated: the text before it is valid.
            Err(error) if error.error_len().is_none() => {
                std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(error) => {
                let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
                return Err(TapeError::BadLine(line, "not UTF-8".to_owned()));
            }
        };
        Self::parse(text)
    }

    /// Parses a tape, skipping an incomplete last line, which a crash can leave.
    pub fn parse(text: &str) -> Result<Self, TapeError> {
        let mut lines = text.split_inclusive('\n').enumerate();
        let first = lines.next().map(|(_, line)| line).unwrap_or_default();
        let header = header(first)?;
        let mut tape = Self::new(header);
        let mut links = Vec::new();
        let mut others = Vec::new();
        for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(line) if Line::path(&line).is_some_and(|path| path.len() > MAX_PATH_BYTES) => {
                    return Err(TapeError::BadLine(
                        index + 1,
                        format!("a path beyond {MAX_PATH_BYTES} bytes"),
                    ));
                }
                Ok(Line::Link { link, target }) => links.push((link, target)),
                Ok(line) => others.push((index + 1, line)),
                Err(_) if !line.ends_with('\n') => {}
                Err(error) => return Err(TapeError::BadLine(index + 1, why_not_an_entry(line, &error))),
            }
        }
        // Links first, in the order of their depth: entries may have been recorded by paths through
        // links.
        links.sort_by_cached_key(|(link, _): &(String, String)| link.matches('/').count());
        for (link, target) in links {
            tape.files.link(&link, &target);
        }
        for (number, line) in others {
            tape.add(line).map_err(|why| TapeError::BadLine(number, why))?;
        }
        Ok(tape)
    }

    fn add(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Run { run, outcome } => self.runs.push((run, Ok(outcome))),
            Line::Failed { run, error } => self.runs.push((run, Err(error))),
            Line::Located { query, answer } => self.answers.add(query, Ok(answer)),
            Line::NotLocated { query, error } => self.answers.add(query, Err(error)),
            Line::Document { document, runs } => self.documents.push((document, runs)),
            Line::Text { file, read, text } => self.add_content(file, read, text.into_bytes()),
            Line::Bytes { file, read, hex } => self.add_content(file, read, bytes_of(&hex)?),
            Line::Link { link, target } => _ = self.files.link(&link, &target),
            Line::Dir { dir } => _ = self.files.dir(&dir),
            Line::Unreadable { unreadable, error } => _ = self.files.unreadable(&unreadable, error),
            Line::Unreachable { unreachable, error } => _ = self.files.unreachable(&unreachable, error),
        }
        Ok(())
    }

    fn add_content(&mut self, path: String, read: Option<u32>, content: Vec<u8>) {
        match read {
            Some(read) => self.changes.entry(path).or_default().push(ChangedFile { read, content }),
            None => _ = self.files.file(&path, content),
        }
    }

    /// Formats the tape as text.
    pub fn to_text(&self) -> String {
        let files = self.files.entries().map(|(path, entry)| line_of_entry(path, entry));
        let changes = self.changes.iter().flat_map(|(path, changes)| {
            changes.iter().map(move |change| line_of_content(path, Some(change.read), &change.content))
        });
        let runs = self.runs.iter().map(|(run, result)| match result {
            Ok(outcome) => Line::Run { run: run.clone(), outcome: outcome.clone() },
            Err(error) => Line::Failed { run: run.clone(), error: error.clone() },
        });
        let answers = self.answers.iter().map(|(query, answer)| {
            let query = query.clone();
            match answer.clone() {
                Ok(answer) => Line::Located { query, answer },
                Err(error) => Line::NotLocated { query, error },
            }
        });
        let header = serde_json::to_string(&self.header).unwrap_or_default();
        let documents = self.documents.iter();
        let documents =
            documents.map(|(document, runs)| Line::Document { document: document.clone(), runs: *runs });
        let lines = files.chain(changes).chain(runs).chain(answers).chain(documents);
        let lines = lines.map(|line| serde_json::to_string(&line).unwrap_or_default());
        std::iter::once(header).chain(lines).map(|line| line + "\n").collect()
    }
}

/// Explains why a line is not an entry; the error of an untagged enum names no field.
fn why_not_an_entry(line: &str, error: &serde_json::Error) -> String {
    match serde_json::from_str(line) {
        Ok(serde_json::Value::Object(fields)) => {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            let names: String = names.join(", ").chars().take(80).collect();
            format!("unknown fields or values: {names}")
        }
        Ok(_) => "expected a JSON object".to_owned(),
        Err(_) => format!("invalid JSON at column {}", error.column()),
    }
}

fn header(line: &str) -> Result<TapeHeader, TapeError> {
    #[derive(Deserialize)]
    struct Version {
        tape: String,
    }
    let version: Version = serde_json::from_str(line).map_err(|_| TapeError::NoHeader)?;
    if version.tape != TAPE_SCHEMA {
        return Err(TapeError::OtherVersion(version.tape.chars().take(80).collect()));
    }
    serde_json::from_str(line).map_err(|_| TapeError::NoHeader)
}

fn line_of_content(path: &str, read: Option<u32>, content: &[u8]) -> Line {
    let file = path.to_owned();
    match std::str::from_utf8(content) {
        Ok(text) => Line::Text { file, read, text: text.to_owned() },
        Err(_) => Line::Bytes { file, read, hex: content.iter().map(|byte| format!("{byte:02x}")).collect() },
    }
}

fn line_of_entry(path: &str, entry: &Entry) -> Line {
    match entry {
        Entry::File(content) => line_of_content(path, None, content),
        Entry::Link(target) => Line::Link { link: path.to_owned(), target: target.clone() },
        Entry::Dir => Line::Dir { dir: path.to_owned() },
        Entry::Unreadable(why) => Line::Unreadable { unreadable: path.to_owned(), error: why.clone() },
        Entry::Unreachable(why) => Line::Unreachable { unreachable: path.to_owned(), error: why.clone() },
    }
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    hex.as_bytes().chunks(2).map(|digits| pair(digits).ok_or_else(|| "not hexadecimal".to_owned())).collect()
}

/// Locks a mutex, ignoring poison: a panic cannot leave an update under these locks incomplete.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A machine replayed from a tape.
///
/// Each read of a file that changed returns the content of the corresponding read during recording;
/// further reads return the last content.
#[derive(Debug)]
pub struct Replay {
    tape: Tape,
    /// Number of reads of each changing file.
    reads: Mutex<BTreeMap<String, u32>>,
    /// Remaining runs of each workload as indices into the tape, in reverse order.
    left: Mutex<BTreeMap<Workload, Vec<usize>>>,
}

impl Replay {
    /// Starts a replay at the beginning of a tape.
    pub fn new(tape: Tape) -> Self {
        let mut left: BTreeMap<Workload, Vec<usize>> = BTreeMap::new();
        for (index, (workload, _)) in tape.runs.iter().enumerate().rev() {
            left.entry(workload.clone()).or_default().push(index);
        }
        Self { tape, reads: Mutex::default(), left: Mutex::new(left) }
    }

    /// Returns the tape.
    pub fn tape(&self) -> &Tape {
        &self.tape
    }
}

impl Sysfs for Replay {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let first = self.tape.files.read(path)?;
        let place = self.tape.files.resolve(path)?;
        let Some(changes) = self.tape.changes.get(&place) else { return Ok(first) };
        let read = count(&self.reads, &place);
        let last = changes.iter().rfind(|change| change.read <= read);
        Ok(last.map_or(first, |change| change.content.clone()))
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.tape.files.list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.tape.files.resolve(path)
    }
}

impl Probe for Replay {
    /// Returns each recorded run of a workload once, in the order of recording.
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        let next = locked(&self.left).get_mut(workload).and_then(Vec::pop);
        match next {
            Some(index) => self.tape.runs[index].1.clone(),
            None => Err(ProbeError::NotOnTape { workload: workload.to_string() }),
        }
    }
}

impl Locate for Replay {
    fn locate(&self, question: &LocateQuery) -> Result<LocateAnswer, LocateError> {
        self.tape.answers.locate(question)
    }
}

impl Control for Replay {
    fn apply(&self, _: &Change) -> Result<Change, ControlError> {
        Err(ControlError::Frozen)
    }
}

/// Counts a read of a file and returns the total.
fn count(reads: &Mutex<BTreeMap<String, u32>>, place: &str) -> u32 {
    let mut reads = locked(reads);
    let count = reads.entry(place.to_owned()).or_default();
    *count = count.saturating_add(1);
    *count
}

/// A machine that records all reads and runs on a tape.
///
/// The tape reproduces every read, listing and resolved path. Of a file that changes, such as load
/// and frequencies before and after a campaign, it stores each content. Of other answers that
/// change, it stores the first, from which the topology was read. Links are stored at their own
/// paths, so that all paths through them resolve.
#[derive(Debug)]
pub struct Recording<M> {
    machine: M,
    tape: Mutex<Tape>,
    reads: Mutex<BTreeMap<String, u32>>,
}

impl<M> Recording<M> {
    /// Starts recording `machine` under a header.
    pub fn new(machine: M, header: TapeHeader) -> Self {
        Self { machine, tape: Mutex::new(Tape::new(header)), reads: Mutex::default() }
    }

    /// Returns a copy of the tape so far.
    pub fn tape(&self) -> Tape {
        locked(&self.tape).clone()
    }

    /// Returns the number of runs on the tape so far.
    pub fn runs(&self) -> usize {
        locked(&self.tape).runs.len()
    }

    /// Records a document made from the runs since `first_run`.
    pub fn record_document(&self, document: serde_json::Value, first_run: usize) {
        let tape = &mut *locked(&self.tape);
        tape.documents.push((document, (first_run, tape.runs.len())));
    }

    /// Returns the recorded machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }
}

impl<M: Sysfs> Sysfs for Recording<M> {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let result = self.machine.read(path);
        let entry = match &result {
            Ok(content) => Entry::File(content.clone()),
            Err(error) if error.why == ReadErrorKind::WrongKind => Entry::Dir,
            Err(error) => Entry::Unreadable(error.why.clone()),
        };
        if let (Some(place), Ok(content)) = (self.record_entry(path, entry), &result) {
            self.record_change(&place, content);
        }
        result
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let result = self.machine.list(path);
        let entry = match &result {
            Ok(_) => Entry::Dir,
            Err(error) => Entry::Unreadable(error.why.clone()),
        };
        if let Some(place) = self.record_entry(path, entry) {
            result.iter().flatten().for_each(|name| self.record_name(&place, name));
        }
        result
    }

    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        let result = self.machine.resolve(path);
        if let Some(place) = self.record_path(path) {
            locked(&self.tape).files.dir(&place);
        }
        result
    }
}

impl<M: Sysfs> Recording<M> {
    /// Records the entry at `path` unless the tape has a better one; returns its canonical path.
    fn record_entry(&self, path: &str, entry: Entry) -> Option<String> {
        let place = self.record_path(path)?;
        let files = &mut locked(&self.tape).files;
        let known = files.entry(&place);
        match entry {
            Entry::File(content) if !matches!(known, Some(Entry::File(_))) => files.file(&place, content),
            Entry::Unreadable(why) if is_unknown(files, &place) => files.unreadable(&place, why),
            Entry::Dir if matches!(known, Some(Entry::Unreadable(_))) => files.remove(&place).dir(&place),
            Entry::Dir => files.dir(&place),
            _ => files,
        };
        Some(place)
    }

    /// Records the content of a read at a canonical path if it differs from the previous one.
    fn record_change(&self, place: &str, content: &[u8]) {
        let read = count(&self.reads, place);
        let tape = &mut *locked(&self.tape);
        let changes = tape.changes.get(place).map_or(&[][..], Vec::as_slice);
        let before = match (changes.last(), tape.files.entry(place)) {
            (Some(change), _) => &change.content,
            (None, Some(Entry::File(first))) => first,
            _ => return,
        };
        if before != content && changes.len() < MAX_CHANGES {
            tape.add_content(place.to_owned(), Some(read), content.to_vec());
        }
    }

    /// Records the name `name` in the canonical directory `dir`: links as links, others at least by
    /// name.
    fn record_name(&self, dir: &str, name: &str) {
        let path = join(dir, name);
        if locked(&self.tape).files.resolve(&path).is_ok() {
            return;
        }
        let resolved = self.record_link(dir, name);
        let files = &mut locked(&self.tape).files;
        match resolved {
            Ok(place) => files.dir(&place),
            Err(why) => files.unreachable(&path, why),
        };
    }

    /// Records every link in `path`; returns its canonical path if it resolves.
    fn record_path(&self, path: &str) -> Option<String> {
        let mut place = "/".to_owned();
        for name in
            path.trim_start_matches('/').split('/').map(|name| if name.is_empty() { "." } else { name })
        {
            let known = match name {
                // The tape cannot show whether this is a file, which would be an error.
                "." | ".." => None,
                _ => locked(&self.tape).files.resolve(&join(&place, name)).ok(),
            };
            place = match known.map_or_else(|| self.record_link(&place, name), Ok) {
                Ok(next) => next,
                Err(why) => return self.record_unresolved(&place, name, why),
            };
        }
        Some(place)
    }

    /// Resolves `name` in the canonical directory `dir`, recording it if it is a link.
    fn record_link(&self, dir: &str, name: &str) -> Result<String, ReadErrorKind> {
        let path = join(dir, name);
        let target = self.machine.resolve(&path).map_err(|error| error.why)?;
        let files = &mut locked(&self.tape).files;
        if matches!(name, "." | "..") {
            files.dir(dir);
        } else if target != path {
            files.link(&path, &target);
        }
        Ok(target)
    }

    /// Records why `name` in `dir` does not resolve; absent names are absent from the tape, too.
    fn record_unresolved(&self, dir: &str, name: &str, why: ReadErrorKind) -> Option<String> {
        // Either `dir` is a file, or `name` is a link through a file.
        let no_directory = || self.machine.list(dir).is_err();
        let files = &mut locked(&self.tape).files;
        match why {
            ReadErrorKind::Absent => files,
            ReadErrorKind::WrongKind if no_directory() => match is_unknown(files, dir) {
                true => files.unreadable(dir, why),
                false => files,
            },
            _ => files.unreachable(&join(dir, name), why),
        };
        None
    }
}

/// Returns whether the tape knows nothing about a canonical path except that it may exist.
fn is_unknown(files: &Tree, place: &str) -> bool {
    match files.entry(place) {
        None => files.resolve(place).is_err(),
        Some(entry) => *entry == Entry::Dir,
    }
}

impl<M: Probe> Probe for Recording<M> {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        let result = self.machine.run(workload);
        if result != Err(ProbeError::Interrupted) {
            locked(&self.tape).runs.push((workload.clone(), result.clone()));
        }
        result
    }
}

impl<M: Locate> Locate for Recording<M> {
    fn locate(&self, question: &LocateQuery) -> Result<LocateAnswer, LocateError> {
        let answer = self.machine.locate(question);
        locked(&self.tape).answers.add(question.clone(), answer.clone());
        answer
    }
}

impl<M: Control> Control for Recording<M> {
    fn apply(&self, change: &Change) -> Result<Change, ControlError> {
        self.machine.apply(change)
    }
    fn page_runs(&self, pid: u32, ranges: &[Range<u64>]) -> Result<Vec<PageRun>, ControlError> {
        self.machine.page_runs(pid, ranges)
    }
    fn move_pages(&self, wanted: &PageMove) -> Result<PageMoveReport, ControlError> {
        self.machine.move_pages(wanted)
    }
}
