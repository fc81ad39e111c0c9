//! The stderr of ssh over several attempts to connect.

use super::stderr_relay::LineSink;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of lines of an attempt that are compared with the next one.
const MAX_LINES: usize = 256;
/// Messages of ssh that cannot authenticate the user or the host (OpenSSH, `sshconnect.c` and
/// `sshconnect2.c`). Another attempt would fail the same way, and could lock the account.
const DENIALS: [&str; 4] = [
    "Permission denied (",
    "Host key verification failed",
    "Too many authentication failures",
    "No ED25519 host key is known",
];

/// Relays the stderr of ssh. A line that the previous attempt had, too, is relayed once.
pub struct AttemptStderr {
    lines: Arc<Mutex<AttemptLines>>,
    to: LineSink,
}

#[derive(Default)]
struct AttemptLines {
    previous: Vec<String>,
    current: Vec<String>,
    is_denied: bool,
}

impl AttemptStderr {
    /// Relays the lines to a sink.
    pub fn new(to: LineSink) -> Self {
        Self { lines: Arc::default(), to }
    }

    fn lines(lines: &Mutex<AttemptLines>) -> MutexGuard<'_, AttemptLines> {
        lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an attempt, and returns the sink of its lines.
    pub fn begin(&self) -> LineSink {
        let mut state = Self::lines(&self.lines);
        *state = AttemptLines { previous: take(&mut state.current), ..AttemptLines::default() };
        let (lines, to) = (self.lines.clone(), self.to.clone());
        Arc::new(move |line: &str| {
            let mut state = Self::lines(&lines);
            state.is_denied |= DENIALS.iter().any(|denial| line.contains(denial));
            let is_new = !state.previous.iter().any(|previous| previous == line);
            if state.current.len() < MAX_LINES {
                state.current.push(line.to_owned());
            }
            drop(state);
            if is_new {
                to(line);
            }
        })
    }

    /// Whether ssh has printed in this attempt that it cannot authenticate the user or the host.
    pub fn is_denied(&self) -> bool {
        Self::lines(&self.lines).is_denied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_lines_are_relayed_once_and_denials_are_recognized() {
        let relayed = Arc::new(Mutex::new(Vec::new()));
        let to = relayed.clone();
        let stderr =
            AttemptStderr::new(Arc::new(move |line| to.lock().expect("a lock").push(line.to_owned())));
        let refused = "ssh: connect to host h port 22: Connection refused";
        let denied = "u@h: Permission denied (publickey,password).";
        for (line, is_denied) in [(refused, false), (refused, false), (denied, true), (refused, false)] {
            stderr.begin()(line);
            assert_eq!(stderr.is_denied(), is_denied, "{line}");
        }
        assert_eq!(*relayed.lock().expect("a lock"), [refused, denied, refused]);
    }
}
