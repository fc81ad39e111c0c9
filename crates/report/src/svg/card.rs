//! A card: a box with a name and lines of text, for a node or a device.

use super::canvas::{clip, text_width, Area, Canvas};
use crate::phrases;
use crate::style::clean_paragraph;
use numaio_machine::findings::{Finding, Severity};
use std::cmp::Reverse;

/// Blank within a card, at each side.
const PADDING: i32 = 9;
/// Height of the line with the name, and of each line below it.
const NAME_HEIGHT: i32 = 19;
const LINE_HEIGHT: i32 = 15;
/// Sizes of the fonts in style.css.
const NAME_SIZE: i32 = 13;
const LINE_SIZE: i32 = 11;
/// Blank between a text at the left and one at the right.
const APART: i32 = 12;
/// Room that a triangle takes.
const TRIANGLE: i32 = 19;

/// What marks a card: something looks wrong with the thing.
pub(super) struct Mark {
    severity: Severity,
    words: String,
}

/// A box with a name and lines of text.
#[derive(Default)]
pub(super) struct Card {
    /// Classes of its box.
    pub(super) class: &'static str,
    /// Class of the strip at its left; none if empty.
    pub(super) strip: &'static str,
    pub(super) name: String,
    /// At the right of the name.
    pub(super) aside: String,
    /// Each with a text at the left and one at the right.
    pub(super) lines: Vec<(String, String)>,
    /// All there is to say, for those who point at it.
    pub(super) words: String,
    pub(super) mark: Option<Mark>,
}

impl Card {
    /// Width it needs, in pixels.
    pub(super) fn width(&self) -> i32 {
        let both = |left: i32, right: i32| if right > 0 { left + APART + right } else { left };
        let line = |(left, right): &(String, String)| both(line_width(left), line_width(right));
        let mark = if self.mark.is_some() { TRIANGLE } else { 0 };
        let head = both(text_width(&self.name, NAME_SIZE, true), line_width(&self.aside)) + mark;
        self.lines.iter().map(line).fold(head, i32::max) + 2 * PADDING
    }

    /// Its height, in pixels.
    pub(super) fn height(&self) -> i32 {
        NAME_HEIGHT + LINE_HEIGHT * self.lines.len() as i32 + PADDING
    }

    /// Draws it; texts that are too wide are cut.
    pub(super) fn draw(&self, canvas: &mut Canvas, area: Area) {
        canvas.open(&self.words);
        canvas.rect(self.class, area);
        if !self.strip.is_empty() {
            let strip = Area { x: area.x, y: area.y + 5, width: 4, height: area.height - 10 };
            canvas.rect(self.strip, strip);
        }
        let (left, mut right) = (area.x + PADDING, area.right() - PADDING);
        if let Some(mark) = &self.mark {
            canvas.triangle(phrases::severity(mark.severity), right - 14, area.y + 6, &mark.words);
            right -= TRIANGLE;
        }
        let aside = clip(&self.aside, right - left, LINE_SIZE, false);
        let room = right - left - if aside.is_empty() { 0 } else { line_width(&aside) + APART };
        canvas.text("name", left, area.y + NAME_HEIGHT, &clip(&self.name, room, NAME_SIZE, true));
        canvas.text("aside end", right, area.y + NAME_HEIGHT, &aside);
        let (mut y, right) = (area.y + NAME_HEIGHT, area.right() - PADDING);
        for (text, end) in &self.lines {
            y += LINE_HEIGHT;
            let room = right - left - if end.is_empty() { 0 } else { line_width(end) + APART };
            canvas.text("aside", left, y, &clip(text, room, LINE_SIZE, false));
            canvas.text("end", right, y, end);
        }
        canvas.close();
    }
}

fn line_width(text: &str) -> i32 {
    if text.is_empty() {
        0
    } else {
        text_width(text, LINE_SIZE, false)
    }
}

impl Mark {
    /// The mark for these findings; none of none.
    pub(super) fn for_findings<'f>(findings: impl Iterator<Item = &'f Finding>) -> Option<Self> {
        let mut findings: Vec<&Finding> = findings.collect();
        findings.sort_by_key(|finding| Reverse(finding.severity));
        let severity = findings.first()?.severity;
        let sentence = |finding: &&Finding| {
            format!("{}: {}: {}", phrases::severity(finding.severity), finding.subject, finding.what)
        };
        Some(Self { severity, words: clean_paragraph(&phrases::joined(findings.iter().map(sentence), "; ")) })
    }
}
