//! Cards: boxes with a name and lines of text, for nodes and devices.

use super::canvas::{clip, text_width, Area, Canvas};
use crate::phrases;
use crate::style::clean_paragraph;
use numaio_machine::findings::{Finding, Severity};
use std::cmp::Reverse;

/// Inner margin of a card.
const PADDING: i32 = 9;
/// Heights of the name's line and of each line below it.
const NAME_HEIGHT: i32 = 19;
const LINE_HEIGHT: i32 = 15;
/// Font sizes in style.css.
const NAME_SIZE: i32 = 13;
const LINE_SIZE: i32 = 11;
/// Gap between a text on the left and one on the right.
const SIDE_GAP: i32 = 12;
/// Width of a warning triangle with its gap.
const TRIANGLE: i32 = 19;

/// The warning mark of a card, from its findings.
pub(super) struct Mark {
    severity: Severity,
    tooltip: String,
}

/// A box with a name and lines of text.
#[derive(Default)]
pub(super) struct Card {
    /// CSS classes of the box.
    pub(super) class: &'static str,
    /// CSS class of the strip on the left; no strip if empty.
    pub(super) strip: &'static str,
    pub(super) name: String,
    /// Text to the right of the name.
    pub(super) aside: String,
    /// Lines; each has a left and a right text.
    pub(super) lines: Vec<(String, String)>,
    /// Full description, shown as a tooltip.
    pub(super) tooltip: String,
    pub(super) mark: Option<Mark>,
}

impl Card {
    /// Returns the required width, in pixels.
    pub(super) fn width(&self) -> i32 {
        let both = |left: i32, right: i32| if right > 0 { left + SIDE_GAP + right } else { left };
        let line = |(left, right): &(String, String)| both(line_width(left), line_width(right));
        let mark = if self.mark.is_some() { TRIANGLE } else { 0 };
        let head = both(text_width(&self.name, NAME_SIZE, true), line_width(&self.aside)) + mark;
        self.lines.iter().map(line).fold(head, i32::max) + 2 * PADDING
    }

    /// Returns the height, in pixels.
    pub(super) fn height(&self) -> i32 {
        NAME_HEIGHT + LINE_HEIGHT * self.lines.len() as i32 + PADDING
    }

    /// Draws the card; texts that are too wide are truncated.
    pub(super) fn draw(&self, canvas: &mut Canvas, area: Area) {
        canvas.open(&self.tooltip);
        canvas.rect(self.class, area);
        if !self.strip.is_empty() {
            let strip = Area { x: area.x, y: area.y + 5, width: 4, height: area.height - 10 };
            canvas.rect(self.strip, strip);
        }
        let (left, mut right) = (area.x + PADDING, area.right() - PADDING);
        if let Some(mark) = &self.mark {
            canvas.triangle(phrases::severity(mark.severity), right - 14, area.y + 6, &mark.tooltip);
            right -= TRIANGLE;
        }
        let aside = clip(&self.aside, right - left, LINE_SIZE, false);
        let available = right - left - if aside.is_empty() { 0 } else { line_width(&aside) + SIDE_GAP };
        canvas.text("name", left, area.y + NAME_HEIGHT, &clip(&self.name, available, NAME_SIZE, true));
        canvas.text("aside end", right, area.y + NAME_HEIGHT, &aside);
        let (mut y, right) = (area.y + NAME_HEIGHT, area.right() - PADDING);
        for (text, end) in &self.lines {
            y += LINE_HEIGHT;
            let available = right - left - if end.is_empty() { 0 } else { line_width(end) + SIDE_GAP };
            canvas.text("aside", left, y, &clip(text, available, LINE_SIZE, false));
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
    /// Returns the mark for these findings, if any.
    pub(super) fn for_findings<'f>(findings: impl Iterator<Item = &'f Finding>) -> Option<Self> {
        let mut findings: Vec<&Finding> = findings.collect();
        findings.sort_by_key(|finding| Reverse(finding.severity));
        let severity = findings.first()?.severity;
        let sentence = |finding: &&Finding| {
            format!("{}: {}: {}", phrases::severity(finding.severity), finding.subject, finding.message)
        };
        Some(Self {
            severity,
            tooltip: clean_paragraph(&phrases::joined(findings.iter().map(sentence), "; ")),
        })
    }
}
