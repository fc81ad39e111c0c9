//! A text page under construction.

use crate::phrases;
use crate::style::{clean, clean_paragraph, to_ascii, wrap, TextStyle};
use crate::table::Table;
use numaio_machine::findings::Severity;

/// A text page under construction; cleans everything written to it.
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

    /// Writes a wrapped paragraph; lines after the first are indented by `hang` more columns.
    pub(crate) fn paragraph(&mut self, indent: usize, hang: usize, text: &str) {
        let columns = self.style.columns() - (indent + hang).min(40);
        let text = self.encode(clean_paragraph(text));
        for (index, line) in wrap(&text, columns).iter().enumerate() {
            let indent = if index == 0 { indent } else { indent + hang };
            self.push_line(&format!("{:indent$}{line}", ""));
        }
    }

    /// Writes a wrapped paragraph that starts with a severity, in the severity's color.
    pub(crate) fn finding(&mut self, indent: usize, severity: Severity, text: &str) {
        let start = self.text.len() + indent;
        let word = phrases::severity(severity);
        self.paragraph(indent, 4, &format!("{word}: {text}"));
        self.color(start, word.len(), severity_code(severity));
    }

    /// Colors a part of the text that lies within one line.
    fn color(&mut self, start: usize, length: usize, code: u8) {
        if self.style.color {
            self.text.insert_str(start + length, "\x1b[0m");
            self.text.insert_str(start, &format!("\x1b[{code}m"));
        }
    }

    /// Writes a line that users copy, such as a command: cleaned but never wrapped.
    pub(crate) fn verbatim(&mut self, indent: usize, text: &str) {
        let text = self.encode(clean(text));
        self.push_line(&format!("{:indent$}{text}", ""));
    }

    /// Returns the text in the character set of the page.
    fn encode(&self, text: String) -> String {
        match self.style.ascii {
            true => to_ascii(&text),
            false => text,
        }
    }

    /// Writes a heading, preceded by an empty line unless it is the first.
    pub(crate) fn heading(&mut self, text: &str) {
        self.blank();
        let start = self.text.len();
        self.paragraph(0, 2, text);
        let first_line = self.text[start..].lines().next().map_or(0, str::len);
        self.color(start, first_line, BOLD);
    }

    /// Writes an empty line, unless the page is empty or ends with one.
    pub(crate) fn blank(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    pub(crate) fn table(&mut self, indent: usize, table: &Table) {
        let lines = match self.style.ascii {
            true => table.to_ascii().lines(&self.style, indent),
            false => table.lines(&self.style, indent),
        };
        for line in lines {
            self.push_line(&line);
        }
    }

    /// Writes a line that is already clean.
    fn push_line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// ANSI code of bold text.
const BOLD: u8 = 1;

/// Returns the ANSI color code of a severity: red, yellow or cyan.
fn severity_code(severity: Severity) -> u8 {
    match severity {
        Severity::Problem => 31,
        Severity::Warning => 33,
        Severity::Note => 36,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Align;

    #[test]
    fn severities_and_headings_are_colored_only_on_request() {
        let page = |color: bool| {
            let mut page = TextPage::new(&TextStyle { color, ..TextStyle::default() });
            page.heading("Findings");
            page.finding(2, Severity::Warning, "eth0: the link is slow");
            page.into_text()
        };
        assert_eq!(page(false), "Findings\n  warning: eth0: the link is slow\n");
        assert_eq!(page(true), "\x1b[1mFindings\x1b[0m\n  \x1b[33mwarning\x1b[0m: eth0: the link is slow\n");
    }

    #[test]
    fn ascii_pages_align_and_keep_names() {
        let mut page = TextPage::new(&TextStyle { ascii: true, ..TextStyle::default() });
        page.paragraph(0, 0, "1.5 × ± 2 % … naïve");
        let mut table = Table::new([("A", Align::Left), ("B", Align::Left)]);
        table.row(["±2".into(), "x".into()]);
        page.table(0, &table);
        assert_eq!(page.into_text(), "1.5 x +- 2 % ... naïve\nA    B\n+-2  x\n");
    }
}
