//! The screen of the live view, drawn into a buffer.

mod canvas;
mod heights;
mod overlays;
mod tables;

pub use canvas::ScreenStyle;

use super::view::{TopView, ViewMode};
use canvas::Canvas;
use heights::{allocate, TableNeeds};
use numaio_machine::calendar::utc_time;
use numaio_report::top::pressure_line;
use ratatui::buffer::Buffer;
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

/// The smallest screen that shows tables.
const SMALLEST: (u16, u16) = (40, 12);

/// Draws the view, and returns the visible rows of programs.
pub fn draw(view: &mut TopView, style: &ScreenStyle, buffer: &mut Buffer) -> Range<usize> {
    let mut canvas = Canvas::new(buffer, style);
    if canvas.width() < SMALLEST.0 || canvas.height() < SMALLEST.1 {
        let needed = format!("numaio top needs {} columns and {} lines", SMALLEST.0, SMALLEST.1);
        canvas.text(0, &needed, canvas.style.plain());
        return 0..0;
    }
    draw_header(&mut canvas, view);
    let visible = draw_body(&mut canvas, view);
    draw_footer(&mut canvas, view);
    if let ViewMode::Dialog(dialog) = &view.mode {
        overlays::draw_dialog(&mut canvas, dialog);
    }
    visible
}

fn draw_header(canvas: &mut Canvas, view: &TopView) {
    let bold = canvas.style.bold();
    let Some(snapshot) = &view.snapshot else {
        return canvas.text(0, "numaio top: waiting for the first sample", bold);
    };
    let time = utc_time(UNIX_EPOCH + Duration::from_millis(snapshot.taken_at_ms));
    // Without milliseconds.
    let time = time.get(..19).unwrap_or(&time).replace('T', " ");
    canvas.text(0, &format!("numaio top  {}  {time} UTC  {}", snapshot.host, view.origin), bold);
    if view.is_paused {
        let warning = canvas.style.warning();
        canvas.text_right(0, " paused", warning);
    }
    let plain = canvas.style.plain();
    canvas.text(1, &pressure_line(&snapshot.pressure), plain);
}

fn draw_body(canvas: &mut Canvas, view: &mut TopView) -> Range<usize> {
    let Some(snapshot) = &view.snapshot else { return 0..0 };
    let needs = TableNeeds {
        nodes: snapshot.nodes.len(),
        devices: snapshot.devices.len(),
        transfers: snapshot.transfers.len(),
        is_explaining: view.is_explaining,
    };
    let heights = allocate(usize::from(canvas.height()).saturating_sub(3), needs);
    let mut top = 2;
    if view.is_explaining {
        overlays::draw_explanation(canvas, view, top, heights.explanation);
        top += heights.explanation;
    }
    tables::draw_nodes(canvas, &snapshot.nodes, top, heights.nodes);
    top += heights.nodes;
    tables::draw_devices(canvas, &snapshot.devices, top, heights.devices);
    top += heights.devices;
    tables::draw_transfers(canvas, &snapshot.transfers, top, heights.transfers);
    top += heights.transfers;
    let visible = view.scroll(heights.programs.saturating_sub(1));
    tables::draw_programs(canvas, view, top, visible.clone());
    visible
}

fn draw_footer(canvas: &mut Canvas, view: &TopView) {
    let line = canvas.height() - 1;
    let (plain, reversed, warning) = (canvas.style.plain(), canvas.style.reversed(), canvas.style.warning());
    if let ViewMode::Filter { .. } = view.mode {
        return canvas.text(line, &format!("Filter: {}_", view.filter), reversed);
    }
    if let Some(notice) = &view.notice {
        return canvas.text(line, notice, warning);
    }
    let keys = "q quit  ? help  e explain  s sort  / filter  m move  u undo  p pause";
    canvas.text(line, keys, plain);
    let count = view.programs().count();
    let state = match view.filter.as_str() {
        "" => format!("  sort: {}", view.sort.name()),
        filter => format!("  sort: {}  filter: {filter} ({count})", view.sort.name()),
    };
    if keys.len() + state.len() <= usize::from(canvas.width()) {
        canvas.text_right(line, &state, plain);
    } else if !view.filter.is_empty() {
        canvas.text_right(line, &format!("  filter: {} ({count})", view.filter), reversed);
    }
}

#[cfg(test)]
mod tests;
