//! What a program that we started says to people.

use crate::output::harmless;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Longest line: a name of 4,095 bytes, each of them escaped, is far below it.
const LONGEST_LINE: u64 = 1 << 20;
/// How long its last words may take once it has ended: what it left running may keep its standard error for ever.
const LAST: Duration = Duration::from_secs(1);

/// Most lines that are kept back: the last ones say why it failed.
const KEPT: usize = 256;

/// Lines with their ends; the last may have none.
pub fn lines(from: impl Read) -> impl Iterator<Item = Vec<u8>> {
    let mut from = BufReader::new(from);
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let read = from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        read.is_ok_and(|count| count > 0).then_some(line)
    })
}

/// Words that a thread passes on to our standard error.
pub struct Words {
    all: Receiver<()>,
    kept: Option<Kept>,
}

type Kept = Arc<Mutex<VecDeque<String>>>;

impl Words {
    /// Passes on what comes, with the name of who says it, if there is one. The other side may be hostile: what a terminal
    /// would obey is taken out. Words that are `kept` back are passed on by [`tell`](Self::tell) alone.
    pub fn pass_on(from: impl Read + Send + 'static, who: Option<String>, kept: bool) -> Self {
        let kept = kept.then(Kept::default);
        let (told, all) = channel();
        let keep = kept.clone();
        thread::spawn(move || {
            for line in lines(from).map(|line| said(&line, who.as_deref())) {
                match &keep {
                    None => say(&line),
                    Some(kept) => {
                        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                        kept.push_back(line);
                        if kept.len() > KEPT {
                            kept.pop_front();
                        }
                    }
                }
            }
            drop(told);
        });
        Self { all, kept }
    }

    /// Waits until all of them are there, or have been passed on.
    pub fn wait(&self) {
        // The thread's end disconnects it.
        let _ = self.all.recv_timeout(LAST);
    }

    /// Passes on those that were kept back.
    pub fn tell(self) {
        if let Some(kept) = self.kept {
            let kept = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
            kept.iter().for_each(|line| say(line));
        }
    }
}

fn say(line: &str) {
    // Nobody to tell if this fails.
    let _ = writeln!(io::stderr(), "{line}");
}

fn said(line: &[u8], who: Option<&str>) -> String {
    let line = String::from_utf8_lossy(line).replace('\t', "    ");
    let line = line.trim_end();
    harmless(&match (who, line.strip_prefix("numaio: ")) {
        (None, _) => line.to_owned(),
        (Some(who), Some(words)) => format!("numaio: {who}: {words}"),
        (Some(who), None) => format!("{who}: {line}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_are_passed_on_without_what_a_terminal_would_obey() {
        assert_eq!(
            said(b"numaio: no\x1b]0;x\x07 way\r\n", Some("far")),
            "numaio: far: no\u{fffd}]0;x\u{fffd} way"
        );
        assert_eq!(said(b"a\tb \xff\n", Some("far")), "far: a    b \u{fffd}");
        assert_eq!(said(b"numaio: hm\n", None), "numaio: hm");
    }
}
