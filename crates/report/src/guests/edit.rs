//! Edits of an XML text that keep everything else as it is: unknown elements, comments, blanks.

use roxmltree::Node;
use std::ops::Range;

/// Edits of a text, applied together.
pub(super) struct Edits<'t> {
    text: &'t str,
    replaced: Vec<(Range<usize>, String)>,
}

impl<'t> Edits<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, replaced: Vec::new() }
    }

    /// Replaces an element or other node.
    pub(super) fn replace(&mut self, node: Node, with: &str) {
        self.replaced.push((node.range(), with.to_owned()));
    }

    /// Replaces the content of an element, and the value of some attributes; others stay.
    pub(super) fn replace_content(&mut self, node: Node, attributes: &[(&str, &str)], content: &str) {
        let name = node.tag_name().name();
        let is_kept = |name: &str| attributes.iter().all(|(changed, _)| *changed != name);
        let kept = node.attributes().filter(|attribute| is_kept(attribute.name()));
        let kept = kept.map(|attribute| &self.text[attribute.range()]);
        let changed = attributes.iter().map(|(name, value)| format!("{name}='{value}'"));
        let all: Vec<String> = kept.map(str::to_owned).chain(changed).collect();
        self.replace(node, &format!("<{name} {}>{content}</{name}>", all.join(" ")));
    }

    /// Removes a node with the blank line that it would leave.
    pub(super) fn remove(&mut self, node: Node) {
        let range = node.range();
        let before = &self.text[..range.start];
        let line_start = before.rfind('\n').map_or(0, |index| index + 1);
        let is_indent = before[line_start..].bytes().all(|byte| matches!(byte, b' ' | b'\t'));
        let ends_line = self.text[range.end..].starts_with('\n');
        let start = if is_indent && ends_line && line_start > 0 { line_start - 1 } else { range.start };
        self.replaced.push((start..range.end, String::new()));
    }

    /// Inserts text before the end tag of an element; an element without content gets an end tag.
    pub(super) fn append(&mut self, node: Node, name: &str, content: &str) {
        let range = node.range();
        let own = &self.text[range.clone()];
        if let Some(start) = own.strip_suffix("/>") {
            let end = range.start + start.len();
            self.replaced.push((end..range.end, format!(">\n{content}</{name}>")));
            return;
        }
        let end_tag = own.rfind("</").map_or(range.end, |index| range.start + index);
        let line_start = self.text[..end_tag].rfind('\n').map_or(end_tag, |index| index + 1);
        let is_indent = self.text[line_start..end_tag].bytes().all(|byte| matches!(byte, b' ' | b'\t'));
        let at = if is_indent { line_start } else { end_tag };
        self.replaced.push((at..at, content.to_owned()));
    }

    /// Inserts text before a node.
    pub(super) fn insert_before(&mut self, node: Node, content: &str) {
        let start = node.range().start;
        self.replaced.push((start..start, content.to_owned()));
    }

    /// Returns the edited text. Of edits that overlap, the one that starts first is kept.
    pub(super) fn apply(mut self) -> String {
        // Stable, so that texts inserted at one place keep their order.
        self.replaced.sort_by_key(|(range, _)| (range.start, range.end));
        let mut result = String::with_capacity(self.text.len());
        let mut end = 0;
        for (range, with) in self.replaced {
            if range.start < end {
                continue;
            }
            result.push_str(&self.text[end..range.start]);
            result.push_str(&with);
            end = range.end;
        }
        result.push_str(&self.text[end..]);
        result
    }
}

/// Escapes a text for an element or an attribute. Control characters, which XML cannot express, are
/// replaced.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&apos;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Formats a comment. Double hyphens would end it.
pub(super) fn comment(text: &str) -> String {
    let text = text.replace("--", "- -").replace("--", "- -");
    let text: String = text
        .chars()
        .map(|c| if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') { ' ' } else { c })
        .collect();
    format!("<!-- {} -->\n", text.trim_end_matches('-'))
}
