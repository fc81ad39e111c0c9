//! A recorded machine: every file that was read of it, and every workload that was run on it.
//!
//! A tape is a text file of JSON lines: a header, then one entry a line. Anyone can read it, `grep` it and
//! append to it; a tape cut short by a crash holds all whole lines before the cut.

use crate::control::{Change, Control, ControlError};
use crate::locate::{Locate, LocateAnswer, LocateAnswers, LocateError, LocateQuery};
use crate::probe::{Outcome, Probe, ProbeError};
use crate::sysfs::{ReadError, ReadErrorKind, Sysfs};
use crate::tree::{join, Entry, Tree, MAX_PATH_BYTES};
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Changes of one file that a recording keeps; those after them are not seen on the tape.
const MAX_CHANGES: usize = 256;

/// Version of the tape's form.
pub const TAPE_SCHEMA: &str = "numaio/tape/1";

/// First line of a tape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapeHeader {
    /// [`TAPE_SCHEMA`].
    pub tape: String,
    /// Version of numaio that recorded it.
    pub numaio: String,
    /// Name of the machine for people.
    pub name: String,
    /// What people must know of it, as that it was emulated.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Seconds since 1970 at which recording began.
    pub recorded_at: u64,
}

/// One line of a tape after the header.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Text {
        file: String,
        text: String,
    },
    Bytes {
        file: String,
        hex: String,
    },
    Changed {
        #[serde(rename = "again")]
        file: String,
        read: u32,
        text: String,
    },
    ChangedBytes {
        #[serde(rename = "again")]
        file: String,
        read: u32,
        hex: String,
    },
    Link {
        link: String,
        #[serde(rename = "to")]
        target: String,
    },
    Dir {
        dir: String,
    },
    Unreadable {
        #[serde(rename = "unread")]
        file: String,
        why: ReadErrorKind,
    },
    Unreachable {
        #[serde(rename = "unreachable")]
        file: String,
        why: ReadErrorKind,
    },
    Run {
        run: Workload,
        #[serde(rename = "gave")]
        outcome: Outcome,
    },
    Failed {
        run: Workload,
        #[serde(rename = "failed")]
        error: ProbeError,
    },
    Located {
        #[serde(rename = "locate")]
        query: LocateQuery,
        #[serde(rename = "told")]
        answer: LocateAnswer,
    },
    NotLocated {
        #[serde(rename = "locate")]
        query: LocateQuery,
        #[serde(rename = "untold")]
        error: LocateError,
    },
    Document {
        #[serde(rename = "made")]
        document: serde_json::Value,
        #[serde(rename = "of")]
        runs: RunRange,
    },
}

impl Line {
    fn path(&self) -> Option<&str> {
        match self {
            Self::Text { file: path, .. }
            | Self::Bytes { file: path, .. }
            | Self::Changed { file: path, .. }
            | Self::ChangedBytes { file: path, .. }
            | Self::Link { link: path, .. }
            | Self::Dir { dir: path }
            | Self::Unreadable { file: path, .. }
            | Self::Unreachable { file: path, .. } => Some(path),
            Self::Run { .. }
            | Self::Failed { .. }
            | Self::Located { .. }
            | Self::NotLocated { .. }
            | Self::Document { .. } => None,
        }
    }
}

/// A recorded machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Tape {
    /// Its first line.
    pub header: TapeHeader,
    /// The machine's files, each as it was first read.
    pub files: Tree,
    /// What files held when they were read again, by canonical path.
    pub changes: BTreeMap<String, Vec<ChangedFile>>,
    /// What was run, in order.
    pub runs: Vec<(Workload, Result<Outcome, ProbeError>)>,
    /// What was asked of where things are, each question once.
    pub answers: LocateAnswers,
    /// Documents that were made of runs, where these alone do not tell what was asked: measured I/O, with its device. This
    /// floor knows no more of them.
    pub documents: Vec<(serde_json::Value, RunRange)>,
}

/// Some of a tape's runs, as indices: the first, and the one after the last.
pub type RunRange = (usize, usize);

/// What a file held from one reading of it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Which reading saw it first; the file's first is 1.
    pub read: u32,
    /// Its content.
    pub content: Vec<u8>,
}

/// Text that is not a tape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    /// The first line is no header.
    #[error("the first line is not the header of a numaio tape")]
    NoHeader,
    /// A header of another version.
    #[error("it is a {0}, and this numaio reads {TAPE_SCHEMA}")]
    OtherVersion(String),
    /// A line that is no entry.
    #[error("line {0} is no entry of a tape: {1}")]
    BadLine(usize, String),
}

impl Tape {
    /// A tape of nothing.
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

    /// Reads a tape as it lies in a file; one that a crash cut within a character loses its last line.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Self, TapeError> {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            // Only the last character is cut: what stands before it is text.
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

    /// Reads a tape. A last line without its end, as a crash leaves it, is passed over.
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
                Err(error) => return Err(TapeError::BadLine(index + 1, error.to_string())),
            }
        }
        // Links first, those nearer to the root before others: an entry may have been recorded by a path
        // that leads through one.
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
            Line::Changed { file, read, text } => self.add_change(file, read, text.into_bytes()),
            Line::ChangedBytes { file, read, hex } => self.add_change(file, read, bytes_of(&hex)?),
            line => self.add_entry(line)?,
        }
        Ok(())
    }

    fn add_change(&mut self, path: String, read: u32, content: Vec<u8>) {
        self.changes.entry(path).or_default().push(ChangedFile { read, content });
    }

    fn add_entry(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Text { file, text } => self.files.file(&file, text),
            Line::Bytes { file, hex } => self.files.file(&file, bytes_of(&hex)?),
            Line::Link { link, target } => self.files.link(&link, &target),
            Line::Dir { dir } => self.files.dir(&dir),
            Line::Unreadable { file, why } => self.files.unreadable(&file, why),
            Line::Unreachable { file, why } => self.files.unreachable(&file, why),
            Line::Changed { .. }
            | Line::ChangedBytes { .. }
            | Line::Run { .. }
            | Line::Failed { .. }
            | Line::Located { .. }
            | Line::NotLocated { .. }
            | Line::Document { .. } => &mut self.files,
        };
        Ok(())
    }

    /// The tape as text.
    pub fn to_text(&self) -> String {
        let files = self.files.entries().map(|(path, entry)| line_of_entry(path, entry));
        let changes = self.changes.iter().flat_map(|(path, changes)| {
            changes.iter().map(move |change| line_of_change(path.clone(), change))
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

fn line_of_change(file: String, change: &ChangedFile) -> Line {
    let read = change.read;
    match text_or_hex(&change.content) {
        Ok(text) => Line::Changed { file, read, text },
        Err(hex) => Line::ChangedBytes { file, read, hex },
    }
}

/// Content as text; what is none in hexadecimal digits.
fn text_or_hex(content: &[u8]) -> Result<String, String> {
    let hex = |_| content.iter().map(|byte| format!("{byte:02x}")).collect();
    std::str::from_utf8(content).map(str::to_owned).map_err(hex)
}

fn line_of_entry(path: &str, entry: &Entry) -> Line {
    match entry {
        Entry::File(content) => match text_or_hex(content) {
            Ok(text) => Line::Text { file: path.to_owned(), text },
            Err(hex) => Line::Bytes { file: path.to_owned(), hex },
        },
        Entry::Link(target) => Line::Link { link: path.to_owned(), target: target.clone() },
        Entry::Dir => Line::Dir { dir: path.to_owned() },
        Entry::Unreadable(why) => Line::Unreadable { file: path.to_owned(), why: why.clone() },
        Entry::Unreachable(why) => Line::Unreachable { file: path.to_owned(), why: why.clone() },
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

/// What a machine that is read by several threads keeps. Nothing is left half done under the lock, so a thread
/// that panicked elsewhere does no harm to it.
fn held<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A machine that is played from a tape: what was not recorded, it does not know.
///
/// A file that changed gives at each reading what it gave at the same one when it was recorded, and in the
/// end what it gave last.
#[derive(Debug)]
pub struct Replay {
    tape: Tape,
    /// How often each file that changed was read.
    reads: Mutex<BTreeMap<String, u32>>,
    /// Runs of each workload not played yet, as indices into the tape, last first.
    left: Mutex<BTreeMap<Workload, Vec<usize>>>,
}

impl Replay {
    /// Plays a tape from its beginning.
    pub fn new(tape: Tape) -> Self {
        let mut left: BTreeMap<Workload, Vec<usize>> = BTreeMap::new();
        for (index, (workload, _)) in tape.runs.iter().enumerate().rev() {
            left.entry(workload.clone()).or_default().push(index);
        }
        Self { tape, reads: Mutex::default(), left: Mutex::new(left) }
    }

    /// The tape.
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
    /// Each recorded run of a workload is given once, in the order of recording.
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        let next = held(&self.left).get_mut(workload).and_then(Vec::pop);
        match next {
            Some(index) => self.tape.runs[index].1.clone(),
            None => Err(ProbeError::NotOnTape { what: workload.to_string() }),
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

/// Counts one more reading of a file; gives how many there are.
fn count(reads: &Mutex<BTreeMap<String, u32>>, place: &str) -> u32 {
    let mut reads = held(reads);
    let count = reads.entry(place.to_owned()).or_default();
    *count = count.saturating_add(1);
    *count
}

/// A machine that keeps what is read of it and run on it.
///
/// Whatever was read, listed or resolved gives the same on the tape; where a file's content changes, each
/// reading its own (load and frequencies are read before and after a campaign), and where another answer
/// changes, the first: it is what the topology was read from. Links are kept where they stand, so that every
/// other path through them leads to the same place.
#[derive(Debug)]
pub struct Recording<M> {
    machine: M,
    tape: Mutex<Tape>,
    reads: Mutex<BTreeMap<String, u32>>,
}

impl<M> Recording<M> {
    /// Records `machine` under a header.
    pub fn new(machine: M, header: TapeHeader) -> Self {
        Self { machine, tape: Mutex::new(Tape::new(header)), reads: Mutex::default() }
    }

    /// The tape as recorded so far.
    pub fn tape(&self) -> Tape {
        held(&self.tape).clone()
    }

    /// Runs on the tape so far.
    pub fn runs(&self) -> usize {
        held(&self.tape).runs.len()
    }

    /// Keeps a document that was made of the runs from one on.
    pub fn record_document(&self, document: serde_json::Value, first_run: usize) {
        let tape = &mut *held(&self.tape);
        tape.documents.push((document, (first_run, tape.runs.len())));
    }

    /// The machine that is recorded.
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
        if let (Some(place), Ok(content)) = (self.keep(path, entry), &result) {
            self.keep_change(&place, content);
        }
        result
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let result = self.machine.list(path);
        let entry = match &result {
            Ok(_) => Entry::Dir,
            Err(error) => Entry::Unreadable(error.why.clone()),
        };
        if let Some(place) = self.keep(path, entry) {
            result.iter().flatten().for_each(|name| self.keep_name(&place, name));
        }
        result
    }

    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        let result = self.machine.resolve(path);
        if let Some(place) = self.keep_way(path) {
            held(&self.tape).files.dir(&place);
        }
        result
    }
}

impl<M: Sysfs> Recording<M> {
    /// Keeps what is at `path`, unless the tape knows better; gives its canonical path.
    fn keep(&self, path: &str, entry: Entry) -> Option<String> {
        let place = self.keep_way(path)?;
        let files = &mut held(&self.tape).files;
        let known = files.entry(&place);
        match entry {
            Entry::File(content) if !matches!(known, Some(Entry::File(_))) => files.file(&place, content),
            Entry::Unreadable(why) if is_open(files, &place) => files.unreadable(&place, why),
            Entry::Dir if matches!(known, Some(Entry::Unreadable(_))) => files.remove(&place).dir(&place),
            Entry::Dir => files.dir(&place),
            _ => files,
        };
        Some(place)
    }

    /// Keeps what a reading of the file at a canonical path gave, if it is not what the one before gave.
    fn keep_change(&self, place: &str, content: &[u8]) {
        let read = count(&self.reads, place);
        let tape = &mut *held(&self.tape);
        let changes = tape.changes.get(place).map_or(&[][..], Vec::as_slice);
        let before = match (changes.last(), tape.files.entry(place)) {
            (Some(change), _) => &change.content,
            (None, Some(Entry::File(first))) => first,
            _ => return,
        };
        if before != content && changes.len() < MAX_CHANGES {
            tape.add_change(place.to_owned(), read, content.to_vec());
        }
    }

    /// Keeps that `name` stands in the canonical directory `dir`: a link as a link, whatever else at least
    /// by name.
    fn keep_name(&self, dir: &str, name: &str) {
        let path = join(dir, name);
        if held(&self.tape).files.resolve(&path).is_ok() {
            return;
        }
        let kept = self.keep_step(dir, name);
        let files = &mut held(&self.tape).files;
        match kept {
            Ok(place) => files.dir(&place),
            Err(why) => files.unreachable(&path, why),
        };
    }

    /// Keeps every link on the way to `path`; gives its canonical path, or nothing if it leads nowhere.
    fn keep_way(&self, path: &str) -> Option<String> {
        let mut place = "/".to_owned();
        for name in
            path.trim_start_matches('/').split('/').map(|name| if name.is_empty() { "." } else { name })
        {
            let known = match name {
                // Whether something may be stepped out of, the tape does not know: it may be a file.
                "." | ".." => None,
                _ => held(&self.tape).files.resolve(&join(&place, name)).ok(),
            };
            place = match known.map_or_else(|| self.keep_step(&place, name), Ok) {
                Ok(next) => next,
                Err(why) => return self.keep_dead_end(&place, name, why),
            };
        }
        Some(place)
    }

    /// Where `name` in the canonical directory `dir` leads; if it is a link, it is kept.
    fn keep_step(&self, dir: &str, name: &str) -> Result<String, ReadErrorKind> {
        let path = join(dir, name);
        let target = self.machine.resolve(&path).map_err(|error| error.why)?;
        let files = &mut held(&self.tape).files;
        if matches!(name, "." | "..") {
            files.dir(dir);
        } else if target != path {
            files.link(&path, &target);
        }
        Ok(target)
    }

    /// Keeps why there is no way beyond `dir`. What is absent is absent from the tape too.
    fn keep_dead_end(&self, dir: &str, name: &str, why: ReadErrorKind) -> Option<String> {
        // Either `dir` is a file, or `name` in it is a link that leads through one.
        let no_directory = || self.machine.list(dir).is_err();
        let files = &mut held(&self.tape).files;
        match why {
            ReadErrorKind::Absent => files,
            ReadErrorKind::WrongKind if no_directory() => match is_open(files, dir) {
                true => files.unreadable(dir, why),
                false => files,
            },
            _ => files.unreachable(&join(dir, name), why),
        };
        None
    }
}

/// Whether nothing is known yet of what is at a canonical path, but that it may be there.
fn is_open(files: &Tree, place: &str) -> bool {
    match files.entry(place) {
        None => files.resolve(place).is_err(),
        Some(entry) => *entry == Entry::Dir,
    }
}

impl<M: Probe> Probe for Recording<M> {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        let result = self.machine.run(workload);
        if result != Err(ProbeError::Interrupted) {
            held(&self.tape).runs.push((workload.clone(), result.clone()));
        }
        result
    }
}

impl<M: Locate> Locate for Recording<M> {
    fn locate(&self, question: &LocateQuery) -> Result<LocateAnswer, LocateError> {
        let answer = self.machine.locate(question);
        held(&self.tape).answers.add(question.clone(), answer.clone());
        answer
    }
}

impl<M: Control> Control for Recording<M> {
    fn apply(&self, change: &Change) -> Result<Change, ControlError> {
        self.machine.apply(change)
    }
}
