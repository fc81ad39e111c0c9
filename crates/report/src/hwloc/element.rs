//! XML elements and their serialization.

use std::fmt::{Display, Write};

/// An element with attributes, and either children or text.
pub struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    children: Vec<Element>,
    text: String,
}

impl Element {
    /// Creates an empty element.
    pub fn new(name: &'static str) -> Self {
        Self { name, attributes: Vec::new(), children: Vec::new(), text: String::new() }
    }

    /// Adds an attribute.
    pub fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    /// Sets the text.
    pub fn text(mut self, text: String) -> Self {
        self.text = text;
        self
    }

    /// Adds a child.
    pub fn add(&mut self, child: Element) {
        self.children.push(child);
    }

    /// Adds children, such as an optional one.
    pub fn add_all(&mut self, children: impl IntoIterator<Item = Element>) {
        self.children.extend(children);
    }

    /// Serializes the element as a document that starts with `head`.
    pub fn document(&self, head: &str) -> String {
        let mut out = head.to_owned();
        self.write(&mut out, 0);
        out
    }

    fn write(&self, out: &mut String, depth: usize) {
        let indent = depth * 2;
        let _ = write!(out, "{:indent$}<{}", "", self.name);
        for (name, value) in &self.attributes {
            let _ = write!(out, " {name}=\"{}\"", escaped(value));
        }
        if self.children.is_empty() && self.text.is_empty() {
            out.push_str("/>\n");
            return;
        }
        out.push('>');
        if self.children.is_empty() {
            out.push_str(&escaped(&self.text));
        } else {
            out.push('\n');
            self.children.iter().for_each(|child| child.write(out, depth + 1));
            let _ = write!(out, "{:indent$}", "");
        }
        let _ = writeln!(out, "</{}>", self.name);
    }
}

/// Escapes text for XML 1.0, which does not allow control characters even if escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A counter of unique object indexes (`gp_index`).
#[derive(Default)]
pub struct Indexes(u64);

impl Indexes {
    /// Returns the next index.
    pub fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_written_and_escaped() {
        let mut root = Element::new("a").with("b", "<\"&\u{1}>");
        root.add(Element::new("c").text("1 < 2".into()));
        root.add(Element::new("d"));
        let wanted = "<a b=\"&lt;&quot;&amp;\u{fffd}&gt;\">\n  <c>1 &lt; 2</c>\n  <d/>\n</a>\n";
        assert_eq!(root.document(""), wanted);
    }
}
