//! Layout options of text, wrapping, and removal of unsafe characters.

use numaio_machine::printable::is_unprintable;
use numaio_machine::units::BandwidthUnit;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Truncates a name to 80 characters, since firmware and tapes may contain anything.
pub(crate) fn short(name: &str) -> String {
    const LONGEST: usize = 80;
    match name.trim().char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &name.trim()[..end]),
        None => name.trim().to_owned(),
    }
}

/// How much of a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Everything.
    Complete,
    /// Everything if that fits a screen; otherwise the findings in a line each and equal devices
    /// together.
    Screen,
    /// The verdict and a line for each finding.
    Brief,
}

impl Detail {
    /// Returns the detail for a flag that requests a brief page.
    pub fn of(brief: bool) -> Self {
        if brief {
            Self::Brief
        } else {
            Self::Complete
        }
    }
}

/// Layout and content options of a text page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextStyle {
    /// Line width in columns; at least [`NARROWEST`](Self::NARROWEST) is used.
    pub width: usize,
    /// Whether classes, headings and severities are colored with ANSI escape codes; without it no
    /// escape codes are written.
    pub color: bool,
    /// The unit of bandwidth.
    pub unit: BandwidthUnit,
    /// Whether typographic characters, such as × and ±, are replaced by ASCII.
    pub ascii: bool,
    /// Whether to list number, interval and drift of all measured values.
    pub stats: bool,
}

impl TextStyle {
    /// The narrowest page on which tables are readable, in columns.
    pub const NARROWEST: usize = 76;

    /// Returns the width in use, in columns.
    pub(crate) fn columns(&self) -> usize {
        self.width.max(Self::NARROWEST)
    }
}

impl Default for TextStyle {
    fn default() -> Self {
        Self { width: 100, color: false, unit: BandwidthUnit::default(), ascii: false, stats: false }
    }
}

/// Maximum length of a paragraph, in characters; guards against hostile files.
const LONGEST: usize = 4000;

/// Replaces characters that could control a terminal or hide text.
///
/// Line ends and tabs become blanks; other control characters, direction marks and invisible
/// characters become U+FFFD.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(clean_char).collect()
}

/// Cleans a paragraph, and truncates it if very long.
pub(crate) fn clean_paragraph(text: &str) -> String {
    let mut clean: String = text.chars().take(LONGEST).map(clean_char).collect();
    if text.chars().nth(LONGEST).is_some() {
        clean.push('…');
    }
    clean
}

fn clean_char(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => ' ',
        c if is_unprintable(c) => '\u{fffd}',
        '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' => '\u{fffd}',
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e0fff}' => {
            '\u{fffd}'
        }
        c => c,
    }
}

/// Returns the number of columns that a clean text occupies.
pub(crate) fn display_width(text: &str) -> usize {
    // Most texts are plain, and each of their bytes is a column.
    match is_plain(text) {
        true => text.len(),
        false => text.width(),
    }
}

/// Returns whether a text consists of printable ASCII characters.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Characters after which a line may break.
pub(crate) const BREAKS: [char; 3] = [' ', ',', '/'];

/// Splits a text into lines of at most `columns` (at least 1): after blanks, commas and slashes,
/// and within a word only if it is longer than a line.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    if text.len() <= columns && is_plain(text) {
        return vec![text.trim_matches(' ').to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(BREAKS) {
        let line = lines.last_mut().map(|line| display_width(line)).unwrap_or_default();
        if line > 0 && line + display_width(word.trim_end()) > columns {
            lines.push(String::new());
        }
        for c in word.chars() {
            let full = lines.last().is_some_and(|line| {
                // A text has at most as many columns as bytes, which need no counting.
                let may_be_full = !line.is_empty() && line.len() + c.len_utf8() > columns && c != ' ';
                may_be_full && display_width(line) + c.width().unwrap_or(0) > columns
            });
            if full {
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut().filter(|line| !(line.is_empty() && c == ' ')) {
                line.push(c);
            }
        }
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    if lines.len() > 1 && lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// Replacements of the typographic characters that numaio writes.
const ASCII: [(char, &str); 9] = [
    ('×', "x"),
    ('±', "+-"),
    ('–', "-"),
    ('—', "-"),
    ('…', "..."),
    ('µ', "u"),
    ('≤', "<="),
    ('≥', ">="),
    ('\u{fffd}', "?"),
];

/// Replaces typographic characters by ASCII. Other characters, such as those of names, stay.
pub fn to_ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for c in text.chars() {
        match ASCII.iter().find(|(typographic, _)| *typographic == c) {
            Some((_, replacement)) => ascii.push_str(replacement),
            None => ascii.push(c),
        }
    }
    ascii
}

/// Wraps a line to a width, at blanks where possible; further lines are indented by two columns
/// more than the first.
pub fn wrap_hanging(line: &str, columns: usize) -> String {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let hang = (indent + 2).min(columns / 2);
    let lines = wrap(line.trim_start_matches(' '), columns.saturating_sub(hang).max(1));
    let indented = lines.iter().enumerate().map(|(index, line)| {
        let indent = if index == 0 { indent } else { hang };
        format!("{:indent$}{line}", "")
    });
    indented.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_hang() {
        assert_eq!(wrap_hanging("  hint: add --recursive", 16), "  hint: add\n    --recursive");
        assert_eq!(wrap_hanging("short", 16), "short");
    }

    #[test]
    fn terminal_control_characters_are_replaced() {
        let hostile = "eth0\x1b[2J\u{9b}31m\x07\u{202e}\nx\u{200b}\u{e0041}";
        assert_eq!(clean(hostile), "eth0\u{fffd}[2J\u{fffd}31m\u{fffd}\u{fffd} x\u{fffd}\u{fffd}");
    }

    #[test]
    fn wraps_at_breaks_else_within_words() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("0,8,16,24", 6), ["0,8,", "16,24"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("網路卡", 4), ["網路", "卡"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn no_text_has_more_columns_than_bytes() {
        assert_eq!(('\0'..=char::MAX).find(|c| c.width().unwrap_or(0) > c.len_utf8()), None);
        for text in ["é网x", "1\u{fe0f}\u{20e3}", "👩\u{200d}🔬", "plain"] {
            assert!(display_width(text) <= text.len(), "{text}");
        }
    }

    #[test]
    fn very_long_text_is_truncated() {
        assert_eq!(clean_paragraph(&"x".repeat(10_000)).chars().count(), LONGEST + 1);
    }
}
