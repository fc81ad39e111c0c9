//! Lines that numaio processes send to each other, and text from untrusted sources.

use numaio_mover::wire::DisplayText;
use serde::Serialize;
use std::io;

/// Replaces control characters in text from untrusted sources.
pub fn sanitize(text: &str) -> String {
    DisplayText::new(text).as_str().to_owned()
}

/// Formats a value as one line of JSON.
pub fn json_line(value: &impl Serialize) -> io::Result<String> {
    Ok(serde_json::to_string(value)? + "\n")
}
