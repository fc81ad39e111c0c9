//! How text is laid out on a page, and what is let through to it.

use crate::table::Table;
use numaio_machine::units::BandwidthUnit;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a page of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns of a line. Below [`NARROWEST`](Self::NARROWEST) it is taken as that.
    pub width: usize,
    /// Whether classes are coloured by ANSI escape codes. Without it no escape code is written.
    pub color: bool,
    /// Unit of bandwidth.
    pub unit: BandwidthUnit,
    /// Whether number, interval and drift of every measured figure are shown.
    pub stats: bool,
}

impl TextStyle {
    /// The narrowest page on which tables still can be read, in columns.
    pub const NARROWEST: usize = 76;

    /// The width that is used, in columns.
    pub(crate) fn columns(&self) -> usize {
        self.width.max(Self::NARROWEST)
    }
}

impl Default for TextStyle {
    fn default() -> Self {
        Self { width: 100, color: false, unit: BandwidthUnit::default(), stats: false }
    }
}

/// Longest paragraph that is shown, in characters; a limit against hostile files.
const LONGEST: usize = 4000;

/// A text without what could command a terminal or hide on it: blanks for line ends and tabs, U+FFFD for
/// other control characters, for the marks that turn the direction of writing and for invisible ones.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(clean_char).collect()
}

/// The same of a paragraph, cut if it is very long.
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
        c if c.is_control() => '\u{fffd}',
        '\u{ad}'
        | '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' => '\u{fffd}',
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e0fff}' => {
            '\u{fffd}'
        }
        c => c,
    }
}

/// Columns that a clean text takes.
pub(crate) fn display_width(text: &str) -> usize {
    text.width()
}

/// After these a line may end.
pub(crate) const BREAKS: [char; 3] = [' ', ',', '/'];

/// Cuts a text into lines of at most `columns` (at least 1): after blanks, commas and slashes, and
/// within a word only if it is longer than a line.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(BREAKS) {
        let line = lines.last_mut().map(|line| display_width(line)).unwrap_or_default();
        if line > 0 && line + display_width(word.trim_end()) > columns {
            lines.push(String::new());
        }
        for c in word.chars() {
            let full = lines.last().is_some_and(|line| {
                !line.is_empty() && display_width(line) + c.width().unwrap_or(0) > columns && c != ' '
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

/// A page of text under construction. Everything that is put on it is made clean.
pub(crate) struct TextPage {
    style: TextStyle,
    text: String,
}

impl TextPage {
    pub(crate) fn new(style: &TextStyle) -> Self {
        Self { style: *style, text: String::new() }
    }

    pub(crate) fn style(&self) -> &TextStyle {
        &self.style
    }

    /// Words, cut into lines; lines after the first are indented by `hang` columns more.
    pub(crate) fn paragraph(&mut self, indent: usize, hang: usize, text: &str) {
        let columns = self.style.columns() - (indent + hang).min(40);
        for (index, line) in wrap(&clean_paragraph(text), columns).iter().enumerate() {
            let indent = if index == 0 { indent } else { indent + hang };
            self.push_line(&format!("{:indent$}{line}", ""));
        }
    }

    /// A line that is copied as it stands, as a command: clean, and never cut into several.
    pub(crate) fn verbatim(&mut self, indent: usize, text: &str) {
        self.push_line(&format!("{:indent$}{}", "", clean(text)));
    }

    /// A heading, with an empty line above unless it is the first.
    pub(crate) fn heading(&mut self, text: &str) {
        self.blank();
        self.paragraph(0, 2, text);
    }

    /// An empty line, unless there is one already or the page is empty.
    pub(crate) fn blank(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    pub(crate) fn table(&mut self, indent: usize, table: &Table) {
        for line in table.lines(&self.style, indent) {
            self.push_line(&line);
        }
    }

    /// `line` is clean already.
    fn push_line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_commands_the_terminal() {
        let hostile = "eth0\x1b[2J\u{9b}31m\x07\u{202e}\nx\u{200b}\u{e0041}";
        assert_eq!(clean(hostile), "eth0\u{fffd}[2J\u{fffd}31m\u{fffd}\u{fffd} x\u{fffd}\u{fffd}");
    }

    #[test]
    fn lines_are_cut_where_they_may_be_else_anywhere() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("0,8,16,24", 6), ["0,8,", "16,24"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("網路卡", 4), ["網路", "卡"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn very_long_text_has_an_end() {
        assert_eq!(clean_paragraph(&"x".repeat(10_000)).chars().count(), LONGEST + 1);
    }
}
