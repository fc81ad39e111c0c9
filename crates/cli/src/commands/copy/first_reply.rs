//! What is said to another side, and heard from it, before a transfer begins: an answer may be long in coming, as while ssh
//! asks for a password, so nothing limits it but Ctrl-C; and who answers may be no numaio at all.

use super::peer_process::PeerReader;
use crate::failure::{Failure, INTERRUPTED};
use numaio_linux::interrupt::interrupted;
use numaio_mover::wire::DisplayText;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead};
use std::sync::mpsc::{sync_channel, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Longest answer.
pub const MAX_REPLY_BYTES: usize = 1 << 20;
/// How many characters of what is no answer are shown.
const SHOWN_CHARACTERS: usize = 80;

/// Does what may wait for another side, in a thread of its own; none if we were interrupted, or it took longer than it may.
/// Then the thread goes on until that side is ended.
pub fn run_interruptible<T: Send + 'static>(
    most: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, done) = sync_channel(1);
    thread::spawn(move || sender.send(work()));
    let began = Instant::now();
    loop {
        match done.recv_timeout(POLL_INTERVAL) {
            Ok(done) => return Some(done),
            Err(RecvTimeoutError::Timeout) if !interrupted() && began.elapsed() < most => {}
            Err(_) => return None,
        }
    }
}

/// Why nothing came of a transfer that was interrupted so early.
pub fn interrupted_before_reply(host: &str) -> Failure {
    Failure { code: INTERRUPTED, ..Failure::new(format!("interrupted before {host} answered")) }
}

/// What came first.
#[derive(Debug, PartialEq, Eq)]
pub enum FirstReply<T> {
    Reply(T),
    /// No answer: what it begins with, for people.
    Unexpected(String),
    /// The other side ended, or its connection.
    Closed,
}

/// Reads the first line, or so much that it is seen to be no answer: those are objects of JSON, of so many bytes at the most.
pub fn receive<T: DeserializeOwned>(from: &mut PeerReader, longest: usize) -> FirstReply<T> {
    match line(from, longest) {
        Ok(line) if !line.is_empty() => {
            // With the end of the line.
            let fits = line.len() <= longest + 1;
            let answer = fits.then(|| serde_json::from_slice(&line).ok()).flatten();
            answer.map_or_else(|| FirstReply::Unexpected(beginning(&line)), FirstReply::Reply)
        }
        _ => FirstReply::Closed,
    }
}

fn line(from: &mut PeerReader, longest: usize) -> io::Result<Vec<u8>> {
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
    let shown: String = line.chars().take(SHOWN_CHARACTERS).collect();
    let more = if shown.len() < line.len() { "..." } else { "" };
    format!("{}{more}", DisplayText::new(&shown).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read};

    fn first(said: impl Read + Send + 'static) -> FirstReply<Vec<u8>> {
        receive(&mut BufReader::new(Box::new(said)), MAX_REPLY_BYTES)
    }

    fn other(words: &str) -> FirstReply<Vec<u8>> {
        FirstReply::Unexpected(words.to_owned())
    }

    #[test]
    fn what_is_no_answer_is_told_by_its_beginning() {
        assert_eq!(first(&b""[..]), FirstReply::Closed);
        assert_eq!(first(&b"Welcome!\nmore\n"[..]), other("Welcome!"));
        assert_eq!(first(&b"\x1b[2J\xff \r\n"[..]), other("\u{fffd}[2J\u{fffd}"));
        assert_eq!(first(&b"{\"Ready\":"[..]), other("{\"Ready\":"));
        // A line that does not end is read so far as it is needed, and not kept.
        assert_eq!(first(io::repeat(b'x')), FirstReply::Unexpected("x".repeat(SHOWN_CHARACTERS) + "..."));
        assert_eq!(first(io::repeat(b'{')), FirstReply::Unexpected("{".repeat(SHOWN_CHARACTERS) + "..."));
        let answer = receive::<serde_json::Value>(
            &mut BufReader::new(Box::new(&b"{\"a\":1}\n{"[..])),
            MAX_REPLY_BYTES,
        );
        assert_eq!(answer, FirstReply::Reply(serde_json::json!({"a": 1})));
        let long = receive::<serde_json::Value>(&mut BufReader::new(Box::new(&b"{\"a\":1}\n"[..])), 6);
        assert_eq!(long, FirstReply::Unexpected("{\"a\":1}".to_owned()));
    }
}
