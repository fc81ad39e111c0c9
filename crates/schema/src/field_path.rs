//! The path of the field in which reading a document failed.
//!
//! It is found in the text, by the position that the JSON parser reports. A deserializer that
//! tracks paths (`serde_path_to_error`) would double the code of every document's type.

/// A container around a position.
enum Frame<'a> {
    Array(usize),
    /// The last key; `None` before the first one and after a comma.
    Object(Option<&'a str>),
}

/// Returns the path of the last value before a position of valid JSON, such as
/// `cells[3].bytes_per_s.visits[0].median`; `.` is the document itself.
///
/// The position is that of `serde_json::Error`: lines count from 1, columns are bytes of the line.
pub fn field_path(text: &str, line: usize, column: usize) -> String {
    let line_start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let end = (line_start + column).min(text.len());
    let mut frames: Vec<Frame<'_>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at).filter(|_| at < end) {
        match (byte, frames.last_mut()) {
            (b'{', _) => frames.push(Frame::Object(None)),
            (b'[', _) => frames.push(Frame::Array(0)),
            (b'}' | b']', _) => drop(frames.pop()),
            (b',', Some(Frame::Array(index))) => *index += 1,
            (b',', Some(Frame::Object(key))) => *key = None,
            (b'"', last) => {
                let length = string_length(&text.as_bytes()[at + 1..]);
                if let Some(Frame::Object(key @ None)) = last {
                    *key = text.get(at + 1..at + 1 + length);
                }
                at += length + 1;
            }
            _ => {}
        }
        at += 1;
    }
    join(&frames)
}

/// Returns the length of a string up to its closing quote.
fn string_length(bytes: &[u8]) -> usize {
    let mut is_escaped = false;
    let is_end = |byte: &u8| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    };
    bytes.iter().position(is_end).unwrap_or(bytes.len())
}

fn join(frames: &[Frame<'_>]) -> String {
    let mut path = String::new();
    for frame in frames {
        match frame {
            Frame::Array(index) => path += &format!("[{index}]"),
            Frame::Object(Some(key)) if path.is_empty() => path += key,
            Frame::Object(Some(key)) => path += &format!(".{key}"),
            Frame::Object(None) => {}
        }
    }
    if path.is_empty() {
        path.push('.');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_that_of_the_last_value() {
        let text = "{\"a\": [1, {\"b\\\"c\": \"x,]\"},\n 2],\n \"d\": {\"e\": 3}}";
        let path_before = |part: &str| {
            let offset = text.find(part).expect(part);
            let line_start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
            field_path(text, 1 + text[..offset].matches('\n').count(), offset - line_start)
        };
        assert_eq!(path_before("{\"a\""), ".");
        assert_eq!(path_before("[1"), "a");
        assert_eq!(path_before(", {"), "a[0]");
        assert_eq!(path_before("},\n 2"), "a[1].b\\\"c");
        assert_eq!(path_before(",\n 2"), "a[1]");
        assert_eq!(path_before("],\n"), "a[2]");
        assert_eq!(path_before("\"d\""), ".");
        assert_eq!(path_before("}}"), "d.e");
        assert_eq!(field_path(text, 3, 100), ".");
    }

    #[test]
    fn any_position_of_any_text_is_accepted() {
        for text in ["", "]]}", "{\"é", "[\"\\", "\"\\\"", "{\"a\":[\n"] {
            for column in 0..=text.len() + 1 {
                assert!(!field_path(text, 1, column).is_empty());
                assert!(!field_path(text, 9, column).is_empty());
            }
        }
    }
}
