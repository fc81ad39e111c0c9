//! Text at positions of a buffer.

use numaio_machine::printable::printable;
use numaio_report::to_ascii;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// Colors and characters of the screen. Only the 16 colors of every terminal are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenStyle {
    /// Whether colors are used; without them remarkable values are bold.
    pub color: bool,
    /// Whether other characters than ASCII are replaced.
    pub ascii: bool,
    /// Unit of bandwidth.
    pub unit: numaio_machine::units::BandwidthUnit,
}

impl ScreenStyle {
    /// Style of plain text.
    pub fn plain(&self) -> Style {
        Style::new()
    }

    /// Style of titles.
    pub fn bold(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Style of the selected row.
    pub fn reversed(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Style of a remarkable value.
    pub fn warning(&self) -> Style {
        match self.color {
            true => Style::new().fg(Color::Yellow),
            false => self.bold(),
        }
    }

    /// Style of a value that probably costs bandwidth.
    pub fn problem(&self) -> Style {
        match self.color {
            true => Style::new().fg(Color::Red),
            false => self.bold(),
        }
    }
}

/// A buffer with the style of the screen.
pub struct Canvas<'a> {
    buffer: &'a mut Buffer,
    /// The style.
    pub style: ScreenStyle,
}

impl<'a> Canvas<'a> {
    /// Creates a canvas over a buffer.
    pub fn new(buffer: &'a mut Buffer, style: &ScreenStyle) -> Self {
        Self { buffer, style: *style }
    }

    /// Returns the width in columns.
    pub fn width(&self) -> u16 {
        self.buffer.area.width
    }

    /// Returns the height in lines.
    pub fn height(&self) -> u16 {
        self.buffer.area.height
    }

    /// Writes a text at the start of a line, cut at the width of the screen.
    pub fn text(&mut self, line: u16, text: &str, style: Style) {
        let width = usize::from(self.width());
        self.cell(line, 0, width, text, false, style);
    }

    /// Writes a text at the end of a line.
    pub fn text_right(&mut self, line: u16, text: &str, style: Style) {
        let text = self.encode(text);
        let width = Span::raw(text.as_str()).width().min(usize::from(self.width()));
        self.cell(line, usize::from(self.width()) - width, width, &text, false, style);
    }

    /// Writes a text into a cell of a table, cut at the cell's width.
    pub fn cell(&mut self, line: u16, left: usize, width: usize, text: &str, is_right: bool, style: Style) {
        let text = fit(&self.encode(text), width, self.style.ascii);
        let used = Span::raw(text.as_str()).width();
        let left = if is_right { left + width - used } else { left };
        let Ok(left) = u16::try_from(left) else { return };
        if left < self.width() && line < self.height() {
            self.buffer.set_stringn(left, line, text, width, style);
        }
    }

    /// Sets the style of a part of a line.
    pub fn paint(&mut self, line: u16, left: u16, width: u16, style: Style) {
        let area = ratatui::layout::Rect { x: left, y: line, width, height: 1 };
        self.buffer.set_style(area.intersection(self.buffer.area), style);
    }

    fn encode(&self, text: &str) -> String {
        let text = printable(text);
        if self.style.ascii {
            to_ascii(&text)
        } else {
            text
        }
    }
}

/// Cuts a text to a width, with a mark at its end.
fn fit(text: &str, width: usize, ascii: bool) -> String {
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mark = if ascii { '~' } else { '…' };
    let mut cut = String::new();
    for c in text.chars() {
        let longer = format!("{cut}{c}");
        if Span::raw(longer.as_str()).width() + 1 > width {
            break;
        }
        cut = longer;
    }
    if width > 0 {
        cut.push(mark);
    }
    cut
}
