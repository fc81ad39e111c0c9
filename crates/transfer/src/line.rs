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

#[cfg(test)]
mod tests {
    use numaio_machine::printable::is_unprintable;
    use numaio_mover::name::is_terminal_unsafe;

    #[test]
    fn the_wire_and_errors_replace_the_same_characters() {
        assert!((char::MIN..=char::MAX).all(|char| is_unprintable(char) == is_terminal_unsafe(char)));
    }
}
