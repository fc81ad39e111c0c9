//! The first reply of a peer, which may not come from numaio at all.

use crate::peer::messages::PeerReader;
use numaio_mover::wire::DisplayText;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead};

/// Maximum length of a reply.
pub const MAX_REPLY_BYTES: usize = 1 << 20;
/// How many characters of an unexpected reply are shown.
const SHOWN_CHARACTERS: usize = 80;

/// The first line of a peer.
#[derive(Debug, PartialEq, Eq)]
pub enum FirstReply<T> {
    /// A valid reply.
    Reply(T),
    /// Not a valid reply, with its beginning for messages.
    Unexpected(String),
    /// The peer exited, or its connection closed.
    Closed,
}

/// Reads the first line, or enough of it to see that it is not a JSON object of at most `longest`
/// bytes.
pub fn receive<T: DeserializeOwned>(from: &mut PeerReader, longest: usize) -> FirstReply<T> {
    match line(from, longest) {
        Ok(line) if !line.is_empty() => {
            // The line includes its line end.
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

/// Returns the sanitized beginning of an unexpected reply.
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

    fn first(output: impl Read + Send + 'static) -> FirstReply<Vec<u8>> {
        receive(&mut BufReader::new(Box::new(output)), MAX_REPLY_BYTES)
    }

    fn other(words: &str) -> FirstReply<Vec<u8>> {
        FirstReply::Unexpected(words.to_owned())
    }

    #[test]
    fn unexpected_replies_show_their_beginning() {
        assert_eq!(first(&b""[..]), FirstReply::Closed);
        assert_eq!(first(&b"Welcome!\nmore\n"[..]), other("Welcome!"));
        assert_eq!(first(&b"\x1b[2J\xff \r\n"[..]), other("\u{fffd}[2J\u{fffd}"));
        assert_eq!(first(&b"{\"Ready\":"[..]), other("{\"Ready\":"));
        // An endless line is read only as far as necessary.
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
