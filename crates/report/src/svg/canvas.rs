//! A drawing under construction: elements of SVG as text, every name cleaned and escaped.

use crate::style::clean;
use std::fmt::Write;
use unicode_width::UnicodeWidthChar;

/// Where a thing is and how large, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

impl Area {
    pub(super) fn right(&self) -> i32 {
        self.x + self.width
    }
}

/// Elements drawn so far.
#[derive(Default)]
pub(super) struct Canvas {
    svg: String,
}

impl Canvas {
    /// A box with round corners.
    pub(super) fn rect(&mut self, class: &str, area: Area) {
        let Area { x, y, width, height } = area;
        self.push(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>"#
        ));
    }

    /// A rectangle that a figure fills more or less, with words for those who point at it.
    pub(super) fn heat(&mut self, area: Area, opacity: f64, words: &str) {
        let Area { x, y, width, height } = area;
        let words = escaped(words);
        self.push(format_args!(
            r#"<rect class="heat" x="{x}" y="{y}" width="{width}" height="{height}" fill-opacity="{opacity:.2}"><title>{words}</title></rect>"#
        ));
    }

    /// A text whose base line begins (class `end`: ends) at a point.
    pub(super) fn text(&mut self, class: &str, x: i32, y: i32, text: &str) {
        if !text.is_empty() {
            let text = escaped(text);
            self.push(format_args!(r#"<text class="{class}" x="{x}" y="{y}">{text}</text>"#));
        }
    }

    /// Lines along a path.
    pub(super) fn path(&mut self, class: &str, path: &str) {
        self.push(format_args!(r#"<path class="{class}" d="{path}"/>"#));
    }

    /// A line along a path, so many pixels wide, with words for those who point at it.
    pub(super) fn band(&mut self, class: &str, path: &str, width: i32, words: &str) {
        let words = escaped(words);
        self.push(format_args!(
            r#"<path class="{class}" d="{path}" stroke-width="{width}"><title>{words}</title></path>"#
        ));
    }

    /// A triangle 14 pixels wide, its upper left corner at a point, with words for those who point at it.
    pub(super) fn triangle(&mut self, class: &str, x: i32, y: i32, words: &str) {
        self.open(words);
        self.path(class, &format!("M{} {y}l7 13h-14z", x + 7));
        self.text("bang", x + 7, y + 11, "!");
        self.close();
    }

    /// Begins a group with words for those who point at it.
    pub(super) fn open(&mut self, words: &str) {
        let words = escaped(words);
        self.push(format_args!("<g><title>{words}</title>"));
    }

    /// Ends a group.
    pub(super) fn close(&mut self) {
        self.push(format_args!("</g>"));
    }

    /// What was drawn.
    pub(super) fn into_elements(self) -> String {
        self.svg
    }

    /// The document, with a title and a description for those who do not see it.
    pub(super) fn document(self, width: i32, height: i32, title: &str, description: &str) -> String {
        let (title, description) = (escaped(title), escaped(description));
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="numaio" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-labelledby="numaio-title numaio-desc">
<title id="numaio-title">{title}</title>
<desc id="numaio-desc">{description}</desc>
<style>
{}</style>
<rect class="page" width="{width}" height="{height}"/>
{}</svg>
"#,
            include_str!("style.css"),
            self.svg
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.svg.write_fmt(element);
        self.svg.push('\n');
    }
}

/// A text made clean, and escaped as XML 1.0 wants it in content.
fn escaped(text: &str) -> String {
    clean(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Pixels that a text takes at most, in a font of `size` pixels. Of the fonts in use DejaVu Sans and Verdana
/// are the widest; these are DejaVu's widths in thousandths of the size, rounded up.
pub(super) fn text_width(text: &str, size: i32, bold: bool) -> i32 {
    let thousandths: i32 = clean(text).chars().map(char_width).sum();
    let bold = if bold { 112 } else { 100 };
    thousandths * size * bold / 100_000 + 1
}

fn char_width(c: char) -> i32 {
    match c {
        'i' | 'j' | 'l' | '\'' => 280,
        ' ' | ',' | '.' | ';' | ':' | '/' | '|' | 'I' | 'J' => 340,
        'f' | 'r' | 't' | '(' | ')' | '-' | '[' | ']' | '!' => 420,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' | '→' | '\u{fffd}' => 1040,
        'A'..='Z' | '&' | '=' | '<' | '>' | '+' | '~' | '#' | '±' | '×' => 840,
        c if c.is_ascii() => 640,
        c if c.width() == Some(2) => 1060,
        _ => 700,
    }
}

/// The beginning of a text that takes no more than `width` pixels, with an ellipsis if it is cut.
pub(super) fn clip(text: &str, width: i32, size: i32, bold: bool) -> String {
    let text = clean(text);
    if text_width(&text, size, bold) <= width {
        return text;
    }
    let mut clipped = String::new();
    for c in text.chars() {
        clipped.push(c);
        if text_width(&clipped, size, bold) + size * 12 / 10 > width {
            clipped.pop();
            break;
        }
    }
    clipped.trim_end().to_owned() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_elements() {
        assert_eq!(escaped("<a & \"b\">\x1b\u{ffff}"), "&lt;a &amp; &quot;b&quot;&gt;\u{fffd}\u{fffd}");
    }

    #[test]
    fn clipped_text_fits() {
        let long = "PCI 0000:3b:00.0 網路卡 WWWWWW".repeat(4);
        for width in [30, 100, 250] {
            assert!(text_width(&clip(&long, width, 11, true), 11, true) <= width);
        }
        assert_eq!(clip("short", 100, 11, false), "short");
    }
}
