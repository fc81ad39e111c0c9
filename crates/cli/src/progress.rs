//! Progress on standard error: a line on a terminal, or JSON for the program that started numaio.

use crate::options::Common;
use numaio_measure::Event;
use serde_json::{json, Value};
use std::io::{self, IsTerminal, Write};

/// Environment variable that requests progress as JSON, whatever standard error is.
const PROGRESS: &str = "NUMAIO_PROGRESS";

/// Shows events of a campaign.
pub struct Progress {
    form: Form,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Hidden,
    /// One line, which every event overwrites.
    Line,
    /// A JSON object per line.
    Json,
}

impl Progress {
    /// Creates the display: JSON if the environment requests it, else a line, which is hidden with
    /// --quiet or without a terminal.
    pub fn new(common: &Common) -> Self {
        let form = match std::env::var_os(PROGRESS) {
            Some(value) if value == "json" => Form::Json,
            _ if !common.quiet && io::stderr().is_terminal() => Form::Line,
            _ => Form::Hidden,
        };
        Self { form }
    }

    /// Shows an event.
    pub fn show(&self, event: &Event) {
        match self.form {
            Form::Hidden => {}
            Form::Line => Self::show_line(event),
            Form::Json => {
                let _ = writeln!(io::stderr(), "{}", to_json(event));
            }
        }
    }

    fn show_line(event: &Event) {
        let line = match event {
            Event::LoopChosen(copy_loop) => format!("copying by {copy_loop}"),
            Event::StreamLoopChosen(op, stream_loop) => format!("{} by {stream_loop}", op.title()),
            Event::Visited { round, reached, settled, cells, elapsed_s, remaining_s } => {
                let bar = bar(*elapsed_s, *remaining_s);
                // No cell can settle in the first round.
                let count = match round {
                    1 => format!("{reached} of {cells} visited"),
                    _ => format!("{settled} of {cells} settled"),
                };
                let times = format!("{}, about {} left", time(*elapsed_s), time(*remaining_s));
                format!("{bar} {count}, round {round}, {times}")
            }
        };
        // Return, write, and clear to the end of the line (ECMA-48 EL). A longer line would wrap
        // and remain on the screen.
        let width = numaio_linux::terminal::width().unwrap_or(80).saturating_sub(1);
        let _ = write!(io::stderr(), "\r{line:.width$}\x1b[K").and_then(|()| io::stderr().flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.form == Form::Line {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Returns an event as documented in docs/guide/python.md.
fn to_json(event: &Event) -> Value {
    match event {
        Event::LoopChosen(copy_loop) => json!({ "event": "loop-chosen", "loop": copy_loop.to_string() }),
        Event::StreamLoopChosen(op, stream_loop) => {
            json!({ "event": "loop-chosen", "operation": op.name(), "loop": stream_loop.to_string() })
        }
        Event::Visited { round, reached, settled, cells, elapsed_s, remaining_s } => json!({
            "event": "visited",
            "round": round,
            "reached": reached,
            "settled": settled,
            "cells": cells,
            "elapsed_s": elapsed_s,
            "remaining_s": remaining_s,
        }),
    }
}

/// Renders the elapsed share of the time.
fn bar(elapsed_s: f64, remaining_s: f64) -> String {
    const WIDTH: usize = 20;
    let share = elapsed_s / (elapsed_s + remaining_s).max(f64::MIN_POSITIVE);
    let filled = ((share * WIDTH as f64) as usize).min(WIDTH);
    format!("[{}{}]", "#".repeat(filled), ".".repeat(WIDTH - filled))
}

fn time(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..=99 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use numaio_machine::workload::{StreamLoop, StreamOp};
    use numaio_measure::Event;

    #[test]
    fn formats_events_as_json() {
        let event =
            Event::Visited { round: 2, reached: 9, settled: 1, cells: 9, elapsed_s: 1.5, remaining_s: 3.0 };
        let chosen = Event::StreamLoopChosen(StreamOp::Copy, StreamLoop::Avx2);
        let loop_chosen = r#"{"event":"loop-chosen","loop":"avx2","operation":"copy"}"#;
        assert_eq!(super::to_json(&chosen).to_string(), loop_chosen);
        assert_eq!(
            super::to_json(&event).to_string(),
            r#"{"cells":9,"elapsed_s":1.5,"event":"visited","reached":9,"remaining_s":3.0,"round":2,"settled":1}"#
        );
    }

    #[test]
    fn formats_times_and_bars() {
        assert_eq!((super::time(99.4), super::time(150.0)), ("99 s".into(), "2 min 30 s".into()));
        assert_eq!(super::bar(1.0, 1.0), "[##########..........]");
        assert_eq!(super::bar(0.0, 0.0), "[....................]");
    }
}
