//! Checks that text from a peer or a file is safe to display.

use serde_json::Value;

/// Returns whether a terminal would obey a character, or change the direction of text for it.
///
/// `docs/internals/protocol.md` lists these characters.
fn is_unsafe_to_display(char: char) -> bool {
    let changes_direction = ['\u{61c}', '\u{200e}', '\u{200f}'].contains(&char)
        || ('\u{2028}'..='\u{202e}').contains(&char)
        || ('\u{2066}'..='\u{2069}').contains(&char);
    char.is_control() || changes_direction
}

/// Returns whether the text is one line that a terminal can display safely.
pub fn is_displayable(text: &str) -> bool {
    !text.contains(is_unsafe_to_display)
}

/// Asserts that all strings of a document are safe to display.
pub fn assert_displayable(document: &Value) {
    match document {
        Value::String(text) => assert!(is_displayable(text), "{text:?}"),
        Value::Array(values) => values.iter().for_each(assert_displayable),
        Value::Object(fields) => fields.values().for_each(assert_displayable),
        _ => {}
    }
}
