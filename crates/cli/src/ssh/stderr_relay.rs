//! What a program that we started says to people.

use crate::output::harmless;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Longest line: a name of 4,095 bytes, each of them escaped, is far below it.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// How long its last words may take once it has ended: what it left running may keep its standard error for ever.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Most lines that are kept back: the last ones say why it failed.
const MAX_HELD_LINES: usize = 256;

/// Lines with their ends; the last may have none.
pub fn lines(from: impl Read) -> impl Iterator<Item = Vec<u8>> {
    let mut from = BufReader::new(from);
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let read = from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        read.is_ok_and(|count| count > 0).then_some(line)
    })
}

/// Words that a thread passes on to our standard error.
pub struct StderrRelay {
    all: Receiver<()>,
    held: Option<HeldLines>,
}

type HeldLines = Arc<Mutex<VecDeque<String>>>;

impl StderrRelay {
    /// Passes on what comes, with the name of who says it, if there is one. The other side may be hostile: what a terminal
    /// would obey is taken out. Words that are `held` back are passed on by [`tell`](Self::tell) alone.
    pub fn start(from: impl Read + Send + 'static, source: Option<String>, held: bool) -> Self {
        let held = held.then(HeldLines::default);
        let (told, all) = channel();
        let keep = held.clone();
        thread::spawn(move || {
            for line in lines(from).map(|line| clean(&line, source.as_deref())) {
                match &keep {
                    None => print(&line),
                    Some(held) => {
                        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                        held.push_back(line);
                        if held.len() > MAX_HELD_LINES {
                            held.pop_front();
                        }
                    }
                }
            }
            drop(told);
        });
        Self { all, held }
    }

    /// Waits until all of them are there, or have been passed on.
    pub fn wait(&self) {
        // The thread's end disconnects it.
        let _ = self.all.recv_timeout(DRAIN_TIMEOUT);
    }

    /// Passes on those that were kept back.
    pub fn print_held(self) {
        if let Some(held) = self.held {
            let held = std::mem::take(&mut *held.lock().unwrap_or_else(PoisonError::into_inner));
            held.iter().for_each(|line| print(line));
        }
    }
}

fn print(line: &str) {
    // Nobody to tell if this fails.
    let _ = writeln!(io::stderr(), "{line}");
}

fn clean(line: &[u8], source: Option<&str>) -> String {
    let line = String::from_utf8_lossy(line).replace('\t', "    ");
    let line = line.trim_end();
    harmless(&match (source, line.strip_prefix("numaio: ")) {
        (None, _) => line.to_owned(),
        (Some(source), Some(words)) => format!("numaio: {source}: {words}"),
        (Some(source), None) => format!("{source}: {line}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_are_passed_on_without_what_a_terminal_would_obey() {
        assert_eq!(
            clean(b"numaio: no\x1b]0;x\x07 way\r\n", Some("far")),
            "numaio: far: no\u{fffd}]0;x\u{fffd} way"
        );
        assert_eq!(clean(b"a\tb \xff\n", Some("far")), "far: a    b \u{fffd}");
        assert_eq!(clean(b"numaio: hm\n", None), "numaio: hm");
    }
}
