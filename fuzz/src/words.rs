//! Whether words can be shown to people.

use serde_json::Value;

/// What a terminal would obey, and what turns the direction of writing (docs/internals/protocol.md).
fn misleads(char: char) -> bool {
    let turns = ['\u{61c}', '\u{200e}', '\u{200f}'].contains(&char)
        || ('\u{2028}'..='\u{202e}').contains(&char)
        || ('\u{2066}'..='\u{2069}').contains(&char);
    char.is_control() || turns
}

/// Whether words are one line that a terminal can show without harm.
pub fn is_harmless(words: &str) -> bool {
    !words.contains(misleads)
}

/// All texts of a document are harmless.
pub fn all_harmless(document: &Value) {
    match document {
        Value::String(text) => assert!(is_harmless(text), "{text:?}"),
        Value::Array(all) => all.iter().for_each(all_harmless),
        Value::Object(fields) => fields.values().for_each(all_harmless),
        _ => {}
    }
}
