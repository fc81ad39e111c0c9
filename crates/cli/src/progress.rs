//! Progress line on standard error, if that is a terminal.

use crate::options::Common;
use numaio_measure::Event;
use std::io::{self, IsTerminal, Write};

/// Shows events of a campaign on one line, which it overwrites.
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// Creates a progress line, hidden with --quiet or without a terminal.
    pub fn new(common: &Common) -> Self {
        Self { shown: !common.quiet && io::stderr().is_terminal() }
    }

    /// Shows an event.
    pub fn show(&self, event: &Event) {
        if !self.shown {
            return;
        }
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
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
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
    #[test]
    fn formats_times_and_bars() {
        assert_eq!((super::time(99.4), super::time(150.0)), ("99 s".into(), "2 min 30 s".into()));
        assert_eq!(super::bar(1.0, 1.0), "[##########..........]");
        assert_eq!(super::bar(0.0, 0.0), "[....................]");
    }
}
