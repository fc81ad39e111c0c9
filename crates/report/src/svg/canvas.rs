//! An SVG drawing under construction; cleans and escapes all text.

use crate::style::clean;
use std::fmt::Write;
use unicode_width::UnicodeWidthChar;

/// Position and size in pixels.
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

/// The elements drawn so far.
#[derive(Default)]
pub(super) struct Canvas {
    svg: String,
}

impl Canvas {
    /// Draws a box with round corners.
    pub(super) fn rect(&mut self, class: &str, area: Area) {
        let Area { x, y, width, height } = area;
        self.push(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>"#
        ));
    }

    /// Draws a rectangle filled with some opacity, with a tooltip.
    pub(super) fn heat(&mut self, area: Area, opacity: f64, tooltip: &str) {
        let Area { x, y, width, height } = area;
        let tooltip = escaped(tooltip);
        self.push(format_args!(
            r#"<rect class="heat" x="{x}" y="{y}" width="{width}" height="{height}" fill-opacity="{opacity:.2}"><title>{tooltip}</title></rect>"#
        ));
    }

    /// Writes a text whose base line starts (class `end`: ends) at a point.
    pub(super) fn text(&mut self, class: &str, x: i32, y: i32, text: &str) {
        if !text.is_empty() {
            let text = escaped(text);
            self.push(format_args!(r#"<text class="{class}" x="{x}" y="{y}">{text}</text>"#));
        }
    }

    /// Draws a path.
    pub(super) fn path(&mut self, class: &str, path: &str) {
        self.push(format_args!(r#"<path class="{class}" d="{path}"/>"#));
    }

    /// Draws a path `width` pixels wide, with a tooltip.
    pub(super) fn band(&mut self, class: &str, path: &str, width: i32, tooltip: &str) {
        let tooltip = escaped(tooltip);
        self.push(format_args!(
            r#"<path class="{class}" d="{path}" stroke-width="{width}"><title>{tooltip}</title></path>"#
        ));
    }

    /// Draws a warning triangle 14 pixels wide, its upper left corner at a point, with a tooltip.
    pub(super) fn triangle(&mut self, class: &str, x: i32, y: i32, tooltip: &str) {
        self.open(tooltip);
        self.path(class, &format!("M{} {y}l7 13h-14z", x + 7));
        self.text("bang", x + 7, y + 11, "!");
        self.close();
    }

    /// Opens a group with a tooltip.
    pub(super) fn open(&mut self, tooltip: &str) {
        let tooltip = escaped(tooltip);
        self.push(format_args!("<g><title>{tooltip}</title>"));
    }

    /// Closes a group.
    pub(super) fn close(&mut self) {
        self.push(format_args!("</g>"));
    }

    /// Returns the elements without a document.
    pub(super) fn into_elements(self) -> String {
        self.svg
    }

    /// Returns the document, with a title and a description for screen readers.
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
        // Writing to a string cannot fail.
        let _ = self.svg.write_fmt(element);
        self.svg.push('\n');
    }
}

/// Cleans a text and escapes it for XML 1.0 content.
fn escaped(text: &str) -> String {
    clean(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the maximum width of a text in pixels, in a font of `size` pixels.
///
/// DejaVu Sans and Verdana are the widest fonts in use; the widths are DejaVu's, in thousandths of
/// the size, rounded up.
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

/// Truncates a text to `width` pixels, with an ellipsis.
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

/// Margin of the drawing, in pixels.
pub(super) const MARGIN: i32 = 24;

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
