//! Events of `--json`: one line of JSON each.

use crate::changed_item::{ChangedItem, EntryStatistics};
use crate::line::json_line;
use crate::line::sanitize;
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_mover::name::{is_ignorable, is_terminal_unsafe};
use numaio_mover::report::Totals;
use numaio_mover::shard::Shard;
use numaio_mover::wire::{DisplayText, Problem, ProblemSubject, Reason, Side};
use numaio_schema::{Job, JobProblem, JobTotals};
use serde::{Deserialize, Serialize, Serializer};

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// Something was created, changed or removed at the destination.
    Did(Change),
    /// A dry run would create, change or remove something.
    Would(Change),
    /// A problem.
    Problem(JobProblem),
    /// The progress, with `--progress`.
    Progress(Progress),
    /// The placement of a local side; not sent to another numaio.
    #[serde(skip_deserializing)]
    Placement(PlacementEvent),
    /// The entries of the source, with `--stats`.
    Entries(EntryStatistics),
    /// A sign of life for another numaio that reads the events, while the transfer waits.
    Alive {},
    /// The end of the transfer.
    End(EndEvent),
}

/// Progress of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Totals of all attempts.
    #[serde(flatten)]
    pub totals: JobTotals,
    /// [Progress of this attempt](numaio_mover::drive::TransferCore::progress).
    pub reached: u64,
}

/// Returns the totals of a transfer as job records and events store them.
pub fn job_totals(totals: Totals) -> JobTotals {
    let Totals { entries, size, moved, unchanged, removed, failed, bytes, sent, resumed } = totals;
    JobTotals { entries, size, moved, unchanged, removed, failed, bytes, sent, resumed }
}

/// Adds the totals of the last attempt to those of the earlier ones.
pub fn add_totals(earlier: JobTotals, last: JobTotals) -> JobTotals {
    JobTotals {
        entries: last.entries.max(earlier.entries),
        size: earlier.bytes.saturating_add(last.size),
        moved: earlier.moved.saturating_add(last.moved),
        // Entries that an earlier attempt moved are unchanged in the next one.
        unchanged: last.unchanged.saturating_sub(earlier.moved),
        removed: earlier.removed.saturating_add(last.removed),
        failed: last.failed,
        bytes: earlier.bytes.saturating_add(last.bytes),
        sent: earlier.sent.saturating_add(last.sent),
        // Only the first attempt resumes data of earlier runs; the rest is in the bytes.
        resumed: earlier.resumed,
    }
}

/// Placement of the threads and buffers of a side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlacementEvent {
    /// The basis of the decision: `the kernel`, `the plan`, `the model` or `the storage's node`.
    pub by: &'static str,
    /// Size of blocks and of buffers in bytes.
    pub block: u64,
    /// Worker groups.
    pub groups: Vec<PlacedGroup>,
    /// How large blocks are read and written.
    pub io: &'static str,
    /// Placement of the threads of data connections, if there are any.
    pub network: Option<PlacedConnections>,
    /// `source` or `destination`.
    pub side: &'static str,
}

/// Placement of a worker group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlacedGroup {
    /// The node of the buffers; any node if `None`.
    pub node: Option<NodeId>,
    /// The CPUs of the threads; any CPU if `None`.
    #[serde(serialize_with = "as_list")]
    pub cpus: Option<CpuSet>,
    /// The storage device that they read, if the side has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Number of threads.
    pub threads: usize,
}

/// Placement of the threads of data connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlacedConnections {
    /// The basis of the decision: `the kernel`, `the plan` or `the network's node`.
    pub by: &'static str,
    /// CPU sets that the threads take in turn; any CPU if there are none.
    #[serde(serialize_with = "as_lists")]
    pub cpus: Vec<CpuSet>,
}

fn as_list<S: Serializer>(cpus: &Option<CpuSet>, to: S) -> Result<S::Ok, S::Error> {
    cpus.as_ref().map(ToString::to_string).serialize(to)
}

fn as_lists<S: Serializer>(cpus: &[CpuSet], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(cpus.iter().map(ToString::to_string))
}

/// A change at the destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// `copied`, `made`, `attributes` or `removed`.
    pub action: String,
    /// Name below the destination.
    pub name: String,
    /// Bytes of data that were moved, or would be.
    pub bytes: u64,
    /// The changed attributes, with `--itemize-changes` and options that need them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ChangedItem>,
}

/// The end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct EndEvent {
    /// Whether the transfer finished, possibly with failed files.
    pub done: bool,
    /// Duration.
    pub seconds: f64,
    /// Totals of all attempts.
    #[serde(flatten)]
    pub totals: JobTotals,
    /// The shard, with `--shard`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::shard_text")]
    pub shard: Option<Shard>,
}

impl Event {
    /// Returns the event without control characters in its texts.
    pub fn sanitize(self) -> Self {
        let clean = |words: String| sanitize(&words);
        let change = |change: Change| Change {
            action: clean(change.action),
            name: clean(change.name),
            item: change.item.map(ChangedItem::sanitize),
            ..change
        };
        match self {
            Self::Did(done) => Self::Did(change(done)),
            Self::Would(done) => Self::Would(change(done)),
            Self::Problem(JobProblem { name, side, reason, text }) => Self::Problem(JobProblem {
                name: name.map(clean),
                side: clean(side),
                reason: clean(reason),
                text: clean(text),
            }),
            other => other,
        }
    }

    /// Returns the event with texts of limited length: events of other hosts are forwarded and
    /// recorded.
    pub fn truncated(self) -> Self {
        let change = |Change { action, name, bytes, item }| {
            let (action, name) = (Job::truncate_text(action), Job::truncate_name(name));
            Change { action, name, bytes, item: item.map(ChangedItem::truncated) }
        };
        match self {
            Self::Did(done) => Self::Did(change(done)),
            Self::Would(done) => Self::Would(change(done)),
            Self::Problem(problem) => Self::Problem(problem.truncated()),
            other => other,
        }
    }

    /// Returns the line of JSON.
    pub fn line(&self) -> String {
        // Serializing strings and numbers cannot fail.
        escaped(&json_line(self).unwrap_or_default())
    }
}

/// Escapes characters that mislead a terminal, which JSON leaves as they are: names may come from a
/// hostile host.
///
/// Such characters occur only within strings.
fn escaped(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    for char in line.chars() {
        if char != '\n' && (is_terminal_unsafe(char) || is_ignorable(char)) {
            let units = char
                .encode_utf16(&mut [0; 2])
                .iter()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect::<String>();
            escaped.push_str(&units);
        } else {
            escaped.push(char);
        }
    }
    escaped
}

/// Converts a problem for output and job records; `name` is the affected file.
pub fn to_job_problem(problem: &Problem, name: Option<String>) -> JobProblem {
    JobProblem {
        name,
        side: side_name(problem.side).to_owned(),
        reason: format!("{:?}", problem.reason),
        text: problem.text.as_str().to_owned(),
    }
}

/// Converts a problem of another numaio's event.
pub fn from_job_problem(problem: &JobProblem) -> Problem {
    let is_it = |reason: &&Reason| format!("{reason:?}") == problem.reason;
    let from_source = problem.side == side_name(Side::Source);
    Problem {
        about: ProblemSubject::Transfer,
        side: if from_source { Side::Source } else { Side::Sink },
        reason: Reason::ALL.iter().find(is_it).copied().unwrap_or(Reason::Other),
        text: DisplayText::new(&problem.text),
    }
}

/// Formats CPUs for messages.
pub fn cpus_text(cpus: &CpuSet) -> String {
    let s = if cpus.len() == 1 { "" } else { "s" };
    format!("CPU{s} {cpus}")
}

/// Returns the name of a side in messages.
pub fn side_name(side: Side) -> &'static str {
    match side {
        Side::Source => "source",
        Side::Sink => "destination",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_mover::name::Name;

    #[test]
    fn events_round_trip() {
        let totals = JobTotals { entries: 3, bytes: 7, ..JobTotals::default() };
        let change = Change { action: "copied".into(), name: "a\\nb".into(), bytes: 7, item: None };
        let problem = JobProblem {
            name: None,
            side: "source".into(),
            reason: "NoSpace".into(),
            text: "no space".into(),
        };
        for event in [
            Event::Did(change),
            Event::Problem(problem.clone()),
            Event::Progress(Progress { totals, reached: 9 }),
            Event::End(EndEvent { done: true, seconds: 0.5, totals, shard: Shard::new(2, 8).ok() }),
        ] {
            assert_eq!(serde_json::from_str::<Event>(&event.line()).expect("an event"), event);
        }
        assert_eq!(to_job_problem(&from_job_problem(&problem), None), problem);
    }

    #[test]
    fn json_escapes_misleading_characters() {
        let name = "\u{1b}\n\u{7f}\u{9b}2J\u{202e}\u{200b}\u{e0041}\u{2028}\\\u{fffd}ä\u{1f600}";
        let change = Change { action: "\u{feff}".into(), name: name.into(), bytes: 7, item: None };
        let line = Event::Did(change.clone()).line();
        assert!(
            line.contains(r#""name":"\u001b\n\u007f\u009b2J\u202e\u200b\udb40\udc41\u2028\\�ä😀""#)
                && line.contains(r#""action":"\ufeff""#),
            "{line}"
        );
        assert_eq!(serde_json::from_str::<Event>(&line).expect("an event"), Event::Did(change));
    }

    #[test]
    fn keeps_the_longest_valid_names_and_truncates_longer_ones() {
        let name = |count| "\u{1b}".repeat(count);
        let longest = Name::new(name(255).into_bytes()).expect("a name").to_string();
        let longest = [&longest[..]; 16].join("/");
        let problem = |name: String| JobProblem {
            name: Some(name),
            side: side_name(Side::Source).to_owned(),
            reason: "NoSpace".to_owned(),
            text: String::new(),
        };
        let event = Event::Problem(problem(longest));
        assert_eq!(event.clone().truncated(), event);
        let change = || Change { action: name(100_000), name: name(100_000), bytes: 7, item: None };
        for event in [Event::Did(change()), Event::Would(change()), Event::Problem(problem(name(100_000)))] {
            let length = event.truncated().line().len();
            assert!(length < 33_000, "{length} bytes");
        }
    }

    #[test]
    fn harmless_events_have_no_control_characters() {
        let hostile = || "a\u{1b}[2J\n\u{9b}b".to_owned();
        let change = Change { action: hostile(), name: hostile(), bytes: 7, item: None };
        let problem =
            JobProblem { name: Some(hostile()), side: hostile(), reason: hostile(), text: hostile() };
        for event in [Event::Did(change.clone()), Event::Would(change), Event::Problem(problem)] {
            let line = event.sanitize().line();
            assert!(!line.contains("\\u001b") && !line.contains("\\n") && !line.contains('\u{9b}'), "{line}");
        }
    }
}
