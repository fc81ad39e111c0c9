//! A recorded machine: every file that was read of it, and every workload that was run on it.
//!
//! A tape is a text file of JSON lines: a header, then one entry a line. Anyone can read it, `grep` it and
//! append to it; a tape cut short by a crash holds all whole lines before the cut.

use crate::control::{Change, Control, ControlError};
use crate::probe::{Outcome, Probe, ProbeError};
use crate::sysfs::{ReadError, Sysfs};
use crate::tree::{Entry, Tree};
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;

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
    Text { file: String, text: String },
    Bytes { file: String, hex: String },
    Link { link: String, to: String },
    Dir { dir: String },
    Run { run: Workload, gave: Outcome },
    Failed { run: Workload, failed: ProbeError },
}

/// A recorded machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Tape {
    /// Its first line.
    pub header: TapeHeader,
    /// The machine's files.
    pub files: Tree,
    /// What was run, in order.
    pub runs: Vec<(Workload, Result<Outcome, ProbeError>)>,
}

/// Text that is not a tape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotATape {
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
    /// Reads a tape. A last line without its end, as a crash leaves it, is passed over.
    pub fn parse(text: &str) -> Result<Self, NotATape> {
        let mut lines = text.split_inclusive('\n').enumerate();
        let first = lines.next().map(|(_, line)| line).unwrap_or_default();
        let header = header(first)?;
        let mut tape = Self { header, files: Tree::new(), runs: Vec::new() };
        let mut links = Vec::new();
        let mut others = Vec::new();
        for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(Line::Link { link, to }) => links.push((link, to)),
                Ok(line) => others.push((index + 1, line)),
                Err(_) if !line.ends_with('\n') => {}
                Err(error) => return Err(NotATape::BadLine(index + 1, error.to_string())),
            }
        }
        // Links first: a file may have been recorded by a path that leads through one.
        for (link, to) in links {
            tape.files.link(&link, &to);
        }
        for (number, line) in others {
            tape.add(line).map_err(|why| NotATape::BadLine(number, why))?;
        }
        Ok(tape)
    }

    fn add(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Text { file, text } => drop(self.files.file(&file, text)),
            Line::Bytes { file, hex } => drop(self.files.file(&file, bytes_of(&hex)?)),
            Line::Link { link, to } => drop(self.files.link(&link, &to)),
            Line::Dir { dir } => drop(self.files.dir(&dir)),
            Line::Run { run, gave } => self.runs.push((run, Ok(gave))),
            Line::Failed { run, failed } => self.runs.push((run, Err(failed))),
        }
        Ok(())
    }

    /// The tape as text.
    pub fn to_text(&self) -> String {
        let files = self.files.entries().map(|(path, entry)| line_of_entry(path, entry));
        let runs = self.runs.iter().map(|(run, result)| match result {
            Ok(gave) => Line::Run { run: run.clone(), gave: gave.clone() },
            Err(failed) => Line::Failed { run: run.clone(), failed: failed.clone() },
        });
        let header = serde_json::to_string(&self.header).unwrap_or_default();
        let lines = files.chain(runs).map(|line| serde_json::to_string(&line).unwrap_or_default());
        std::iter::once(header).chain(lines).map(|line| line + "\n").collect()
    }
}

fn header(line: &str) -> Result<TapeHeader, NotATape> {
    #[derive(Deserialize)]
    struct Version {
        tape: String,
    }
    let version: Version = serde_json::from_str(line).map_err(|_| NotATape::NoHeader)?;
    if version.tape != TAPE_SCHEMA {
        return Err(NotATape::OtherVersion(version.tape.chars().take(80).collect()));
    }
    serde_json::from_str(line).map_err(|_| NotATape::NoHeader)
}

fn line_of_entry(path: &str, entry: &Entry) -> Line {
    match entry {
        Entry::File(content) => match std::str::from_utf8(content) {
            Ok(text) => Line::Text { file: path.to_owned(), text: text.to_owned() },
            Err(_) => {
                let hex = content.iter().map(|byte| format!("{byte:02x}")).collect();
                Line::Bytes { file: path.to_owned(), hex }
            }
        },
        Entry::Link(to) => Line::Link { link: path.to_owned(), to: to.clone() },
        Entry::Dir => Line::Dir { dir: path.to_owned() },
    }
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, String> {
    let digits = hex.as_bytes();
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    };
    digits.chunks(2).map(|digits| pair(digits).ok_or_else(|| "not hexadecimal".to_owned())).collect()
}

/// A machine that is played from a tape: what was not recorded, it does not know.
#[derive(Debug)]
pub struct Replay {
    tape: Tape,
    /// Runs of each workload not played yet, as indices into the tape, last first.
    left: RefCell<BTreeMap<Workload, Vec<usize>>>,
}

impl Replay {
    /// Plays a tape from its beginning.
    pub fn new(tape: Tape) -> Self {
        let mut left: BTreeMap<Workload, Vec<usize>> = BTreeMap::new();
        for (index, (workload, _)) in tape.runs.iter().enumerate().rev() {
            left.entry(workload.clone()).or_default().push(index);
        }
        Self { tape, left: RefCell::new(left) }
    }

    /// The tape.
    pub fn tape(&self) -> &Tape {
        &self.tape
    }
}

impl Sysfs for Replay {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.tape.files.read(path)
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
        let next = self.left.borrow_mut().get_mut(workload).and_then(Vec::pop);
        match next {
            Some(index) => self.tape.runs[index].1.clone(),
            None => Err(ProbeError::NotOnTape { what: describe(workload) }),
        }
    }
}

impl Control for Replay {
    fn apply(&self, _: &Change) -> Result<Change, ControlError> {
        Err(ControlError::Frozen)
    }
}

fn describe(workload: &Workload) -> String {
    let Workload::Copy(copy) = workload;
    format!(
        "copy {} by CPUs {} with {}, {} bytes a thread",
        copy.flow, copy.placement.cpus, copy.copy_loop, copy.bytes_per_thread
    )
}

/// A machine that keeps what is read of it and run on it.
#[derive(Debug)]
pub struct Recording<M> {
    machine: M,
    tape: RefCell<Tape>,
}

impl<M> Recording<M> {
    /// Records `machine` under a header.
    pub fn new(machine: M, header: TapeHeader) -> Self {
        Self { machine, tape: RefCell::new(Tape { header, files: Tree::new(), runs: Vec::new() }) }
    }

    /// The tape as recorded so far.
    pub fn tape(&self) -> Tape {
        self.tape.borrow().clone()
    }
}

impl<M: Sysfs> Sysfs for Recording<M> {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let content = self.machine.read(path)?;
        let place = self.machine.resolve(path).unwrap_or_else(|_| path.to_owned());
        // The first content stays: it is what the topology was read from.
        if self.tape.borrow().files.read(&place).is_err() {
            self.tape.borrow_mut().files.file(&place, content.clone());
        }
        self.keep_link(path, &place);
        Ok(content)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let names = self.machine.list(path)?;
        let place = self.machine.resolve(path).unwrap_or_else(|_| path.to_owned());
        self.keep_link(path, &place);
        self.tape.borrow_mut().files.dir(&place);
        for name in &names {
            let child = format!("{place}/{name}");
            // A link is kept as a link; whatever else is there is at least named.
            match self.machine.resolve(&child) {
                Ok(target) if target != child => self.keep_link(&child, &target),
                _ => drop(self.tape.borrow_mut().files.dir(&child)),
            }
        }
        Ok(names)
    }

    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        let place = self.machine.resolve(path)?;
        self.tape.borrow_mut().files.dir(&place);
        self.keep_link(path, &place);
        Ok(place)
    }
}

impl<M> Recording<M> {
    /// Remembers that `path` leads to `place`, if the tape does not know it yet.
    fn keep_link(&self, path: &str, place: &str) {
        let known = self.tape.borrow().files.resolve(path).is_ok_and(|known| known == place);
        if !known {
            self.tape.borrow_mut().files.link(path, place);
        }
    }
}

impl<M: Probe> Probe for Recording<M> {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        let result = self.machine.run(workload);
        if result != Err(ProbeError::Interrupted) {
            self.tape.borrow_mut().runs.push((workload.clone(), result.clone()));
        }
        result
    }
}

impl<M: Control> Control for Recording<M> {
    fn apply(&self, change: &Change) -> Result<Change, ControlError> {
        self.machine.apply(change)
    }
}
