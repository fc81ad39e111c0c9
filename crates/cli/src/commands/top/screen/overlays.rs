//! The explanation of a program, and boxes in front of the tables.

use super::canvas::Canvas;
use crate::commands::top::view::{Dialog, TopView};
use numaio_report::top::program_explanation;
use numaio_report::wrap_hanging;

/// Widest box.
const WIDEST_BOX: usize = 76;

/// Draws the explanation of the selected program.
pub fn draw_explanation(canvas: &mut Canvas, view: &TopView, top: usize, height: usize) {
    let lines = match view.selected() {
        Some(program) => program_explanation(program, canvas.style.unit),
        None => vec!["No program is selected.".to_owned()],
    };
    let width = usize::from(canvas.width());
    let wrapped: Vec<String> = lines.iter().flat_map(|line| wrapped(line, width)).collect();
    let (plain, bold) = (canvas.style.plain(), canvas.style.bold());
    let is_cut = wrapped.len() > height;
    for (row, line) in wrapped.iter().take(height).enumerate() {
        let style = if row == 0 { bold } else { plain };
        let is_last = is_cut && row + 1 == height;
        let text = if is_last { "  …" } else { line.as_str() };
        canvas.text(u16::try_from(top + row).unwrap_or(u16::MAX), text, style);
    }
}

fn wrapped(line: &str, width: usize) -> Vec<String> {
    wrap_hanging(line, width).lines().map(str::to_owned).collect()
}

/// Draws a box in the middle of the screen.
pub fn draw_dialog(canvas: &mut Canvas, dialog: &Dialog) {
    let (width, height) = (usize::from(canvas.width()), usize::from(canvas.height()));
    let inner = WIDEST_BOX.min(width).saturating_sub(4);
    let mut lines: Vec<String> = dialog.lines.iter().flat_map(|line| wrapped(line, inner)).collect();
    lines.truncate(height.saturating_sub(4));
    let answer = match dialog.confirms {
        Some(_) => "y yes   any other key: no",
        None => "any key: close",
    };
    lines.push(answer.to_owned());
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let inner = longest.max(dialog.title.chars().count() + 2).min(inner);
    let (left, top) = ((width - inner - 4) / 2, height.saturating_sub(lines.len() + 2) / 2);
    let frame = canvas.style.reversed();
    let bar = format!("{:^1$}", dialog.title, inner + 4);
    let line_of = |row: usize| u16::try_from(row).unwrap_or(u16::MAX);
    canvas.cell(line_of(top), left, inner + 4, &bar, false, frame);
    for (row, line) in lines.iter().enumerate() {
        let line_number = line_of(top + 1 + row);
        let padded = format!("  {line:inner$}  ");
        let plain = canvas.style.plain();
        canvas.cell(line_number, left, inner + 4, &padded, false, plain);
        canvas.cell(line_number, left, 1, " ", false, frame);
        canvas.cell(line_number, left + inner + 3, 1, " ", false, frame);
    }
    canvas.cell(line_of(top + 1 + lines.len()), left, inner + 4, &" ".repeat(inner + 4), false, frame);
}
