//! Relays the stderr of a child process.

use numaio_mover::wire::DisplayText;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Maximum length of a line; a message with an escaped name of 4,095 bytes is far below it.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// How long to read stderr after the exit: a process that the child left running may keep it open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of lines that are held back; the last ones explain a failure.
const MAX_HELD_LINES: usize = 256;

/// Returns the lines with their line ends, which the last line may lack.
pub fn lines(from: impl Read) -> impl Iterator<Item = Vec<u8>> {
    let mut from = BufReader::new(from);
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let read = from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        read.is_ok_and(|count| count > 0).then_some(line)
    })
}

/// Receives the relayed lines, without line ends, from any thread.
pub type LineSink = Arc<dyn Fn(&str) + Send + Sync>;

/// A thread that relays lines to a sink.
pub struct StderrRelay {
    all: Receiver<()>,
    sink: LineSink,
    held: Option<HeldLines>,
}

type HeldLines = Arc<Mutex<VecDeque<String>>>;

impl StderrRelay {
    /// Starts to relay lines, prefixed with `source`. Control characters are replaced: the other
    /// side may be hostile.
    ///
    /// With `held`, lines are kept until [`relay_held`](Self::relay_held).
    pub fn start(
        from: impl Read + Send + 'static,
        source: Option<String>,
        held: bool,
        sink: LineSink,
    ) -> Self {
        let held = held.then(HeldLines::default);
        let (finished, all) = channel();
        let (keep, relay) = (held.clone(), Arc::clone(&sink));
        thread::spawn(move || {
            for line in lines(from).map(|line| clean(&line, source.as_deref())) {
                match &keep {
                    None => relay(&line),
                    Some(held) => {
                        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                        held.push_back(line);
                        if held.len() > MAX_HELD_LINES {
                            held.pop_front();
                        }
                    }
                }
            }
            drop(finished);
        });
        Self { all, sink, held }
    }

    /// Waits until all lines have been relayed or held back.
    pub fn wait(&self) {
        // The end of the thread disconnects the channel.
        let _ = self.all.recv_timeout(DRAIN_TIMEOUT);
    }

    /// Relays the lines that were held back.
    pub fn relay_held(self) {
        if let Some(held) = self.held {
            let held = std::mem::take(&mut *held.lock().unwrap_or_else(PoisonError::into_inner));
            held.iter().for_each(|line| (self.sink)(line));
        }
    }
}

fn clean(line: &[u8], source: Option<&str>) -> String {
    let line = String::from_utf8_lossy(line).replace('\t', "    ");
    let line = line.trim_end();
    let line = match (source, line.strip_prefix("numaio: ")) {
        (None, _) => line.to_owned(),
        (Some(source), Some(words)) => format!("numaio: {source}: {words}"),
        (Some(source), None) => format!("{source}: {line}"),
    };
    DisplayText::new(&line).as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relayed_lines_have_no_control_characters() {
        assert_eq!(
            clean(b"numaio: no\x1b]0;x\x07 way\r\n", Some("far")),
            "numaio: far: no\u{fffd}]0;x\u{fffd} way"
        );
        assert_eq!(clean(b"a\tb \xff\n", Some("far")), "far: a    b \u{fffd}");
        assert_eq!(clean(b"numaio: hm\n", None), "numaio: hm");
    }

    #[test]
    fn held_lines_are_relayed_only_on_request() {
        for held in [false, true] {
            let relayed = Arc::new(Mutex::new(Vec::new()));
            let to = Arc::clone(&relayed);
            let sink: LineSink = Arc::new(move |line| to.lock().expect("a lock").push(line.to_owned()));
            let relay = StderrRelay::start(&b"first\nsecond"[..], None, held, sink);
            relay.wait();
            assert_eq!(relayed.lock().expect("a lock").is_empty(), held);
            relay.relay_held();
            assert_eq!(*relayed.lock().expect("a lock"), ["first", "second"]);
        }
    }
}
