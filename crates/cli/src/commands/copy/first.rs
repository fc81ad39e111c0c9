//! What is said to another side, and heard from it, before a transfer begins: an answer may be long in coming, as while ssh
//! asks for a password, so nothing limits it but Ctrl-C; and who answers may be no numaio at all.

use super::far::From;
use crate::failure::{Failure, INTERRUPTED};
use numaio_linux::interrupt::interrupted;
use numaio_mover::wire::DisplayText;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead};
use std::sync::mpsc::{sync_channel, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const LOOK_EACH: Duration = Duration::from_millis(50);
/// Longest answer.
pub const LONGEST: usize = 1 << 20;
/// How many characters of what is no answer are shown.
const SHOWN: usize = 80;

/// Does what may wait for another side, in a thread of its own; none if we were interrupted, or it took longer than it may.
/// Then the thread goes on until that side is ended.
pub fn patiently<T: Send + 'static>(most: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, done) = sync_channel(1);
    thread::spawn(move || sender.send(work()));
    let began = Instant::now();
    loop {
        match done.recv_timeout(LOOK_EACH) {
            Ok(done) => return Some(done),
            Err(RecvTimeoutError::Timeout) if !interrupted() && began.elapsed() < most => {}
            Err(_) => return None,
        }
    }
}

/// Why nothing came of a transfer that was interrupted so early.
pub fn cut_short(host: &str) -> Failure {
    Failure { code: INTERRUPTED, ..Failure::new(format!("interrupted before {host} answered")) }
}

/// What came first.
#[derive(Debug, PartialEq, Eq)]
pub enum First<T> {
    Answer(T),
    /// No answer: what it begins with, for people.
    Other(String),
    /// The other side ended, or its connection.
    End,
}

/// Reads the first line, or so much that it is seen to be no answer: those are objects of JSON, of so many bytes at the most.
pub fn hear<T: DeserializeOwned>(from: &mut From, longest: usize) -> First<T> {
    match line(from, longest) {
        Ok(line) if !line.is_empty() => {
            // With the end of the line.
            let fits = line.len() <= longest + 1;
            let answer = fits.then(|| serde_json::from_slice(&line).ok()).flatten();
            answer.map_or_else(|| First::Other(beginning(&line)), First::Answer)
        }
        _ => First::End,
    }
}

fn line(from: &mut From, longest: usize) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let some = from.fill_buf()?;
        let end = some.iter().position(|&byte| byte == b'\n').map_or(some.len(), |at| at + 1);
        line.extend_from_slice(&some[..end]);
        from.consume(end);
        let is_over = end == 0 || line.ends_with(b"\n") || !line.starts_with(b"{") || line.len() > longest;
        if is_over {
            return Ok(line);
        }
    }
}

/// The beginning of what is no answer, without what a terminal would obey.
fn beginning(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line.trim_ascii());
    let shown: String = line.chars().take(SHOWN).collect();
    let more = if shown.len() < line.len() { "..." } else { "" };
    format!("{}{more}", DisplayText::new(&shown).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read};

    fn first(said: impl Read + Send + 'static) -> First<Vec<u8>> {
        hear(&mut BufReader::new(Box::new(said)), LONGEST)
    }

    fn other(words: &str) -> First<Vec<u8>> {
        First::Other(words.to_owned())
    }

    #[test]
    fn what_is_no_answer_is_told_by_its_beginning() {
        assert_eq!(first(&b""[..]), First::End);
        assert_eq!(first(&b"Welcome!\nmore\n"[..]), other("Welcome!"));
        assert_eq!(first(&b"\x1b[2J\xff \r\n"[..]), other("\u{fffd}[2J\u{fffd}"));
        assert_eq!(first(&b"{\"Ready\":"[..]), other("{\"Ready\":"));
        // A line that does not end is read so far as it is needed, and not kept.
        assert_eq!(first(io::repeat(b'x')), First::Other("x".repeat(SHOWN) + "..."));
        assert_eq!(first(io::repeat(b'{')), First::Other("{".repeat(SHOWN) + "..."));
        let answer = hear::<serde_json::Value>(&mut BufReader::new(Box::new(&b"{\"a\":1}\n{"[..])), LONGEST);
        assert_eq!(answer, First::Answer(serde_json::json!({"a": 1})));
        let long = hear::<serde_json::Value>(&mut BufReader::new(Box::new(&b"{\"a\":1}\n"[..])), 6);
        assert_eq!(long, First::Other("{\"a\":1}".to_owned()));
    }
}
