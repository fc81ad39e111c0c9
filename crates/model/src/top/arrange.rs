//! Order and selection of the programs of a snapshot.

use numaio_schema::{TopProgram, TopSnapshot};
use std::cmp::Ordering;

/// The value that sorts programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProgramSort {
    /// CPU time, highest first.
    #[default]
    Cpu,
    /// Memory, highest first.
    Memory,
    /// I/O, highest first.
    Io,
    /// Remote share, highest first.
    Remote,
    /// Process ID, lowest first.
    Pid,
}

impl ProgramSort {
    /// All values, in the order in which a key selects them.
    pub const ALL: [Self; 5] = [Self::Cpu, Self::Memory, Self::Io, Self::Remote, Self::Pid];

    /// Returns the name for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
            Self::Remote => "remote",
            Self::Pid => "pid",
        }
    }

    /// Returns the value after this one; the first after the last.
    pub fn next(self) -> Self {
        let index = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(index + 1) % Self::ALL.len()]
    }

    /// Returns the value of a program, of which the highest is first; `None` if it is unknown.
    fn value(self, program: &TopProgram) -> Option<f64> {
        match self {
            Self::Cpu => program.cpus,
            Self::Memory => program.bytes().map(|bytes| bytes as f64),
            Self::Io => program.io_bytes_per_s(),
            Self::Remote => program.remote.map(|remote| remote.share),
            Self::Pid => None,
        }
    }
}

/// A text that programs must contain: in the name, the unit, a device, or as the process ID.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramFilter {
    lower: String,
}

impl ProgramFilter {
    /// Creates a filter; an empty text matches all programs.
    pub fn new(text: &str) -> Self {
        Self { lower: text.trim().to_lowercase() }
    }

    /// Returns whether a program matches, regardless of case.
    pub fn matches(&self, program: &TopProgram) -> bool {
        let contains = |text: &str| text.to_lowercase().contains(&self.lower);
        self.lower.is_empty()
            || program.pid.to_string() == self.lower
            || contains(&program.name)
            || program.unit.as_deref().is_some_and(contains)
            || program.devices.iter().any(|used| contains(&used.device))
    }
}

/// Returns the indexes of the matching programs in order: unknown values last, then by CPU time and
/// process ID.
pub fn arrange(snapshot: &TopSnapshot, sort: ProgramSort, filter: &ProgramFilter) -> Vec<usize> {
    let programs = &snapshot.programs;
    let mut indexes: Vec<usize> =
        (0..programs.len()).filter(|index| filter.matches(&programs[*index])).collect();
    indexes.sort_by(|a, b| compare(sort, &programs[*a], &programs[*b]));
    indexes
}

fn compare(sort: ProgramSort, a: &TopProgram, b: &TopProgram) -> Ordering {
    let descending = |sort: ProgramSort| {
        let value = |program: &TopProgram| sort.value(program).unwrap_or(f64::NEG_INFINITY);
        value(b).total_cmp(&value(a))
    };
    let by_cpu = || match sort {
        ProgramSort::Pid => Ordering::Equal,
        _ => descending(ProgramSort::Cpu),
    };
    descending(sort).then_with(by_cpu).then_with(|| a.pid.cmp(&b.pid))
}
