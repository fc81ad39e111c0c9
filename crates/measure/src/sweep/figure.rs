//! The figure of a program: a number in its output, or its wall time.

use crate::engine::failed;
use numaio_machine::probe::{ProbeError, ProgramOutcome, ToolExit};
use numaio_schema::FigureSource;
use regex_lite::Regex;
use serde_json::Value;

/// Maximum number of characters of a program's output in a message.
const MOST_QUOTED: usize = 120;

/// A figure that is read from the outcome of a program.
#[derive(Debug, Clone)]
pub struct Figure {
    source: FigureSource,
    pattern: Option<Regex>,
}

/// Reason why a source of a figure is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FigureError {
    /// Not a regular expression.
    #[error("not a regular expression: {why}")]
    Regex {
        /// The reason.
        why: String,
    },
    /// A regular expression without a group, or with several.
    #[error("expected a regular expression with one group, got {groups} groups")]
    Groups {
        /// Number of groups.
        groups: usize,
    },
    /// Not a JSON Pointer.
    #[error("expected a JSON Pointer that starts with '/', such as /jobs/0/read/bw")]
    Pointer,
}

impl Figure {
    /// Checks the source of a figure.
    ///
    /// # Errors
    /// [`FigureError`].
    pub fn new(source: FigureSource) -> Result<Self, FigureError> {
        let pattern = match &source {
            FigureSource::Regex { pattern } => {
                let found =
                    Regex::new(pattern).map_err(|error| FigureError::Regex { why: error.to_string() })?;
                match found.captures_len() - 1 {
                    1 => Some(found),
                    groups => return Err(FigureError::Groups { groups }),
                }
            }
            FigureSource::Json { pointer } if !pointer.starts_with('/') => return Err(FigureError::Pointer),
            FigureSource::Json { .. } | FigureSource::WallTime => None,
        };
        Ok(Self { source, pattern })
    }

    /// Returns the source.
    pub fn source(&self) -> &FigureSource {
        &self.source
    }

    /// Reads the figure, in the unit of the output or in seconds.
    ///
    /// # Errors
    /// [`ProbeError::Refused`] if the program failed, or did not print exactly one figure above 0.
    pub fn read(&self, program: &str, outcome: &ProgramOutcome) -> Result<f64, ProbeError> {
        let output = &outcome.output;
        succeeded(output.exit, &output.stderr).map_err(|why| failed(program, why))?;
        let found = match (&self.source, &self.pattern) {
            (FigureSource::WallTime, _) => Ok(outcome.elapsed_ns as f64 / 1e9),
            (FigureSource::Json { pointer }, _) => in_json(&output.stdout, pointer),
            (FigureSource::Regex { .. }, Some(pattern)) => in_text(&output.stdout, &output.stderr, pattern),
            (FigureSource::Regex { .. }, None) => Err("no regular expression".to_owned()),
        };
        found.map_err(|why| failed(program, why))
    }
}

/// Checks that a program exited with status 0.
fn succeeded(ended: ToolExit, stderr: &str) -> Result<(), String> {
    let last = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let detail = last.map(|line| format!(": {}", quoted(line))).unwrap_or_default();
    match ended {
        ToolExit::Status(0) => Ok(()),
        ToolExit::Status(status) => Err(format!("it exited with status {status}{detail}")),
        ToolExit::Signal(9) => Err(format!(
            "it was killed by signal 9{detail}; the kernel kills programs that need more memory than the node has"
        )),
        ToolExit::Signal(signal) => Err(format!("it was killed by signal {signal}{detail}")),
        ToolExit::TimeLimit => Err(format!("it exceeded the time limit of a run{detail}")),
    }
}

/// Finds the only match in the standard output, or if it has none in the standard error.
fn in_text(stdout: &str, stderr: &str, pattern: &Regex) -> Result<f64, String> {
    let matches = |text: &str| -> Vec<String> {
        let groups =
            pattern.captures_iter(text).filter_map(|found| found.get(1).map(|it| it.as_str().to_owned()));
        groups.take(2).collect()
    };
    let mut found = matches(stdout);
    if found.is_empty() {
        found = matches(stderr);
    }
    match found.as_slice() {
        [] => Err(format!("its output has no match of '{pattern}'")),
        [one] => number(one),
        [first, second, ..] => Err(format!(
            "its output has several matches of '{pattern}', such as '{}' and '{}'",
            quoted(first),
            quoted(second)
        )),
    }
}

/// Finds a value in the first JSON value that starts a line of the output.
fn in_json(stdout: &str, pointer: &str) -> Result<f64, String> {
    let starts = |line: &str| line.starts_with('{') || line.starts_with('[');
    let mut at = 0;
    let start = stdout.split_inclusive('\n').find_map(|line| {
        let here = at;
        at += line.len();
        starts(line).then_some(here)
    });
    let text = start.map(|start| &stdout[start..]).ok_or("its output has no JSON")?;
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next().ok_or("its output has no JSON")?;
    let value = value.map_err(|error| format!("its output is not JSON: {error}"))?;
    match value.pointer(pointer) {
        None => Err(format!("the JSON in its output has no '{pointer}'")),
        Some(Value::Number(found)) => number(&found.to_string()),
        Some(Value::String(found)) => number(found),
        Some(_) => Err(format!("'{pointer}' in its output is not a number")),
    }
}

fn number(text: &str) -> Result<f64, String> {
    let found: f64 =
        text.trim().parse().map_err(|_| format!("its figure '{}' is not a number", quoted(text)))?;
    match found.is_finite() && found > 0.0 {
        true => Ok(found),
        false => Err(format!("its figure '{}' is not above 0", quoted(text))),
    }
}

/// Shortens text of the program for a message.
fn quoted(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MOST_QUOTED) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::probe::{Residency, ToolOutput};
    use proptest::prelude::*;

    fn outcome(ended: ToolExit, stdout: &str, stderr: &str) -> ProgramOutcome {
        let output = ToolOutput { exit: ended, stdout: stdout.into(), stderr: stderr.into(), cpu_ns: 1 };
        ProgramOutcome { output, elapsed_ns: 1_500_000_000, residency: Residency::default() }
    }

    fn regex(pattern: &str) -> Result<Figure, FigureError> {
        Figure::new(FigureSource::Regex { pattern: pattern.to_owned() })
    }

    fn read(figure: &Figure, stdout: &str, stderr: &str) -> Result<f64, String> {
        let read = figure.read("prog", &outcome(ToolExit::Status(0), stdout, stderr));
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn reads_the_only_match_of_either_stream() {
        let copy = regex(r"Copy:\s+([0-9.e+]+)").expect("valid");
        assert_eq!(read(&copy, "Scale: 7\nCopy:   12.5 MB/s", "Copy: 1"), Ok(12.5));
        assert_eq!(read(&copy, "Scale: 7", "Copy: 1e3"), Ok(1000.0));
        assert_eq!(
            read(&copy, "Copy: 1\nCopy: 2\n", ""),
            Err(r"prog: its output has several matches of 'Copy:\s+([0-9.e+]+)', such as '1' and '2'".into())
        );
        assert!(read(&copy, "Scale: 7", "").is_err_and(|why| why.contains("no match")));
        assert_eq!(read(&copy, "Copy: 0.0", ""), Err("prog: its figure '0.0' is not above 0".into()));
        assert_eq!(read(&copy, "Copy: 1.2.3", ""), Err("prog: its figure '1.2.3' is not a number".into()));
    }

    #[test]
    fn the_expression_needs_exactly_one_group() {
        assert_eq!(regex("Copy").map(|_| ()), Err(FigureError::Groups { groups: 0 }));
        assert_eq!(regex("(a)(b)").map(|_| ()), Err(FigureError::Groups { groups: 2 }));
        assert!(regex("(?:a)(b)").is_ok());
        assert!(matches!(regex("(a"), Err(FigureError::Regex { .. })));
    }

    #[test]
    fn reads_a_json_value_after_other_lines() {
        let json = |pointer: &str| Figure::new(FigureSource::Json { pointer: pointer.to_owned() });
        let bandwidth = json("/jobs/0/bw").expect("valid");
        let text = "note: x\n{\"jobs\": [{\"bw\": 17, \"name\": \"8.5\", \"on\": true}]}\nrest";
        assert_eq!(read(&bandwidth, text, ""), Ok(17.0));
        assert_eq!(read(&json("/jobs/0/name").expect("valid"), text, ""), Ok(8.5));
        for (pointer, text, why) in [
            ("/jobs/1/bw", text, "has no '/jobs/1/bw'"),
            ("/jobs/0/on", text, "is not a number"),
            ("/jobs", "{\"jobs\": ", "is not JSON"),
            ("/jobs", "nothing", "has no JSON"),
        ] {
            let found = read(&json(pointer).expect("valid"), text, "");
            assert!(found.as_ref().is_err_and(|found| found.contains(why)), "{found:?}");
        }
        assert_eq!(json("jobs").map(|_| ()), Err(FigureError::Pointer));
    }

    #[test]
    fn failed_programs_have_no_figure() {
        let time = Figure::new(FigureSource::WallTime).expect("valid");
        assert_eq!(read(&time, "", ""), Ok(1.5));
        for (ended, why) in [
            (ToolExit::Status(3), "prog: it exited with status 3: no file"),
            (ToolExit::Signal(11), "prog: it was killed by signal 11: no file"),
            (ToolExit::TimeLimit, "prog: it exceeded the time limit of a run: no file"),
        ] {
            let read = time.read("prog", &outcome(ended, "1", "x\nno file\n\n"));
            assert_eq!(read.map_err(|error| error.to_string()), Err(why.to_owned()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn reading_never_panics(pattern in ".{0,20}", pointer in "/.{0,8}", text in "(\\PC|\n){0,60}") {
            let sources = [FigureSource::Regex { pattern }, FigureSource::Json { pointer }];
            for figure in sources.into_iter().filter_map(|source| Figure::new(source).ok()) {
                let found = figure.read("prog", &outcome(ToolExit::Status(0), &text, &text));
                prop_assert!(found.is_err() || found.is_ok_and(|found| found > 0.0 && found.is_finite()));
            }
        }
    }
}
