//! What a transfer tells programs: a line of JSON for everything that happens.

use crate::commands::json_line;
use crate::output::harmless;
use numaio_mover::name::{is_ignorable, is_terminal_unsafe};
use numaio_mover::wire::{DisplayText, Problem, ProblemSubject, Reason, Side};
use numaio_schema::{Job, JobProblem, JobTotals};
use serde::{Deserialize, Serialize};

/// A line of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// Something was made, changed or removed at the destination.
    Did(Change),
    /// It would be, in a rehearsal.
    Would(Change),
    /// Something went wrong.
    Problem(JobProblem),
    /// How far it is; with `--progress`.
    Progress(Progress),
    /// It is over.
    End(EndEvent),
    /// What a newer numaio may tell.
    #[serde(other)]
    Other,
}

/// How far a transfer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    #[serde(flatten)]
    pub totals: JobTotals,
    /// How far [this try](numaio_mover::drive::TransferCore::progress) came; an older numaio does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<u64>,
}

/// What was done to something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// `copied`, `made`, `attributes` or `removed`.
    pub action: String,
    /// Its name below the destination.
    pub name: String,
    /// Bytes of data that were moved for it; or would be.
    pub bytes: u64,
}

/// How a transfer ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndEvent {
    /// Whether it was not given up.
    pub done: bool,
    /// How long it took.
    pub seconds: f64,
    #[serde(flatten)]
    pub totals: JobTotals,
}

impl Event {
    /// The same without what a terminal would obey.
    pub fn harmless(self) -> Self {
        let clean = |words: String| harmless(&words);
        let change =
            |change: Change| Change { action: clean(change.action), name: clean(change.name), ..change };
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

    /// The same with no longer names and words than there are: what another host tells may be told on, and is kept.
    pub fn truncated(self) -> Self {
        let change = |Change { action, name, bytes }| {
            let (action, name) = (Job::words(action), Job::name(name));
            Change { action, name, bytes }
        };
        match self {
            Self::Did(done) => Self::Did(change(done)),
            Self::Would(done) => Self::Would(change(done)),
            Self::Problem(problem) => Self::Problem(problem.cut()),
            other => other,
        }
    }

    /// The line.
    pub fn line(&self) -> String {
        // A struct of texts and numbers has no way to fail.
        escaped(&json_line(self).unwrap_or_default())
    }
}

/// JSON of the same value that a terminal shows as it is. Names and words may be those of a hostile host, and JSON has to escape control
/// characters of ASCII alone. All that is escaped here can stand within texts only.
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

/// A problem for people and programs; `name` is what it is about.
pub fn to_job_problem(problem: &Problem, name: Option<String>) -> JobProblem {
    JobProblem {
        name,
        side: side_name(problem.side).to_owned(),
        reason: format!("{:?}", problem.reason),
        text: problem.text.as_str().to_owned(),
    }
}

/// A problem that another numaio told.
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

/// The word for a side.
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
    fn what_is_told_is_heard() {
        let totals = JobTotals { entries: 3, bytes: 7, ..JobTotals::default() };
        let change = Change { action: "copied".into(), name: "a\\nb".into(), bytes: 7 };
        let problem = JobProblem {
            name: None,
            side: "source".into(),
            reason: "NoSpace".into(),
            text: "no space".into(),
        };
        for event in [
            Event::Did(change),
            Event::Problem(problem.clone()),
            Event::Progress(Progress { totals, reached: Some(9) }),
            Event::End(EndEvent { done: true, seconds: 0.5, totals }),
        ] {
            assert_eq!(serde_json::from_str::<Event>(&event.line()).expect("an event"), event);
        }
        let newer = "{\"event\": \"weather\", \"sun\": true}";
        assert_eq!(serde_json::from_str::<Event>(newer).expect("an event"), Event::Other);
        assert_eq!(to_job_problem(&from_job_problem(&problem), None), problem);
    }

    #[test]
    fn json_hides_nothing_from_who_looks_at_it() {
        let name = "\u{1b}\n\u{7f}\u{9b}2J\u{202e}\u{200b}\u{e0041}\u{2028}\\\u{fffd}ä\u{1f600}";
        let change = Change { action: "\u{feff}".into(), name: name.into(), bytes: 7 };
        let line = Event::Did(change.clone()).line();
        assert!(
            line.contains(r#""name":"\u001b\n\u007f\u009b2J\u202e\u200b\udb40\udc41\u2028\\�ä😀""#)
                && line.contains(r#""action":"\ufeff""#),
            "{line}"
        );
        assert_eq!(serde_json::from_str::<Event>(&line).expect("an event"), Event::Did(change));
    }

    #[test]
    fn names_are_told_whole_and_nothing_that_is_longer() {
        let name = |count| "\u{1b}".repeat(count);
        let longest = Name::new(name(255).into_bytes()).expect("a name").to_string();
        let longest = [&longest[..]; 16].join("/");
        let problem = |name: String| JobProblem {
            name: Some(name),
            side: side_name(Side::Source).to_owned(),
            reason: "NoSpace".to_owned(),
            text: String::new(),
        };
        let told = Event::Problem(problem(longest));
        assert_eq!(told.clone().truncated(), told);
        let change = || Change { action: name(100_000), name: name(100_000), bytes: 7 };
        for event in [Event::Did(change()), Event::Would(change()), Event::Problem(problem(name(100_000)))] {
            let length = event.truncated().line().len();
            assert!(length < 33_000, "{length} bytes");
        }
    }

    #[test]
    fn a_terminal_obeys_nothing_that_is_told() {
        let hostile = || "a\u{1b}[2J\n\u{9b}b".to_owned();
        let change = Change { action: hostile(), name: hostile(), bytes: 7 };
        let problem =
            JobProblem { name: Some(hostile()), side: hostile(), reason: hostile(), text: hostile() };
        for event in [Event::Did(change.clone()), Event::Would(change), Event::Problem(problem)] {
            let line = event.harmless().line();
            assert!(!line.contains("\\u001b") && !line.contains("\\n") && !line.contains('\u{9b}'), "{line}");
        }
    }
}
