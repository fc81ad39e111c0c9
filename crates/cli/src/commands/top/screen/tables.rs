//! The tables of the screen.

use super::canvas::Canvas;
use crate::commands::top::view::TopView;
use numaio_report::top::{
    device_cells, fit_columns, node_cells, program_cells, transfer_cells, FittedColumn, TopColumn,
    DEVICE_COLUMNS, NODE_COLUMNS, PROGRAM_COLUMNS, TRANSFER_COLUMNS,
};
use numaio_schema::{TopDevice, TopNode, TopProgram, TopTransfer};
use ratatui::style::Style;
use std::ops::Range;

/// Remote share that is shown as a warning, and as a problem.
const REMOTE: (f64, f64) = (0.05, 0.5);
/// Busy share of a node that is shown as a warning.
const BUSY: f64 = 0.8;

/// Columns of a table with their places on the screen.
struct Grid<'a> {
    columns: &'a [TopColumn],
    fitted: Vec<FittedColumn>,
}

impl<'a> Grid<'a> {
    fn new(columns: &'a [TopColumn], canvas: &Canvas) -> Self {
        Self { columns, fitted: fit_columns(columns, usize::from(canvas.width())) }
    }

    fn titles(&self, canvas: &mut Canvas, line: u16) {
        let titles: Vec<String> = self.columns.iter().map(|column| column.title.to_owned()).collect();
        let style = canvas.style.bold();
        self.row(canvas, line, &titles, |_| style);
    }

    fn row(&self, canvas: &mut Canvas, line: u16, cells: &[String], style: impl Fn(usize) -> Style) {
        let mut left = 0;
        for FittedColumn { index, width } in &self.fitted {
            let is_right = self.columns[*index].is_right;
            canvas.cell(line, left, *width, &cells[*index], is_right, style(*index));
            left += width + 1;
        }
    }
}

fn line_of(top: usize) -> u16 {
    u16::try_from(top).unwrap_or(u16::MAX)
}

/// Draws a table of which the highest rows are shown if not all fit.
fn draw_table<T>(
    canvas: &mut Canvas,
    columns: &[TopColumn],
    rows: &[T],
    lines: Range<usize>,
    rank: impl Fn(&T) -> f64,
    draw_row: impl Fn(&Grid<'_>, &mut Canvas, u16, &T),
) {
    if lines.len() < 2 {
        return;
    }
    let grid = Grid::new(columns, canvas);
    grid.titles(canvas, line_of(lines.start));
    let space = lines.len() - 1;
    let mut chosen: Vec<&T> = rows.iter().collect();
    let hidden = if rows.len() > space { rows.len() + 1 - space } else { 0 };
    if hidden > 0 {
        chosen.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        chosen.truncate(space - 1);
    }
    for (row, item) in chosen.iter().enumerate() {
        draw_row(&grid, canvas, line_of(lines.start + 1 + row), item);
    }
    if hidden > 0 {
        let plain = canvas.style.plain();
        canvas.text(line_of(lines.end - 1), &format!("  and {hidden} more"), plain);
    }
}

/// Draws the nodes; those with the highest load if not all fit.
pub fn draw_nodes(canvas: &mut Canvas, nodes: &[TopNode], top: usize, height: usize) {
    let busy = |node: &TopNode| node.busy_cpus.unwrap_or(0.0) / f64::from(node.cpus.max(1));
    let load = |node: &TopNode| busy(node) + node.device_bytes_per_s.unwrap_or(0.0) / 1e9;
    draw_table(canvas, &NODE_COLUMNS, nodes, top..top + height, load, |grid, canvas, line, node| {
        let (plain, warning) = (canvas.style.plain(), canvas.style.warning());
        let cells = node_cells(node, canvas.style.unit);
        let style = |index: usize| match NODE_COLUMNS[index].title {
            "BUSY" if busy(node) >= BUSY => warning,
            _ => plain,
        };
        grid.row(canvas, line, &cells, style);
    });
}

/// Draws the devices; those with the highest rates if not all fit.
pub fn draw_devices(canvas: &mut Canvas, devices: &[TopDevice], top: usize, height: usize) {
    let rate =
        |device: &TopDevice| device.read_bytes_per_s.unwrap_or(0.0) + device.write_bytes_per_s.unwrap_or(0.0);
    draw_table(canvas, &DEVICE_COLUMNS, devices, top..top + height, rate, |grid, canvas, line, device| {
        let plain = canvas.style.plain();
        let cells = device_cells(device, canvas.style.unit);
        grid.row(canvas, line, &cells, |_| plain);
    });
}

/// Draws the transfers; those with the highest rates if not all fit.
pub fn draw_transfers(canvas: &mut Canvas, transfers: &[TopTransfer], top: usize, height: usize) {
    let rate = |transfer: &TopTransfer| transfer.bytes_per_s.unwrap_or(0.0);
    draw_table(canvas, &TRANSFER_COLUMNS, transfers, top..top + height, rate, |grid, canvas, line, it| {
        let plain = canvas.style.plain();
        let cells = transfer_cells(it, canvas.style.unit);
        grid.row(canvas, line, &cells, |_| plain);
    });
}

/// Draws the visible programs.
pub fn draw_programs(canvas: &mut Canvas, view: &TopView, top: usize, visible: Range<usize>) {
    let grid = Grid::new(&PROGRAM_COLUMNS, canvas);
    grid.titles(canvas, line_of(top));
    let rows = view.programs().enumerate().skip(visible.start).take(visible.len());
    for (line, (row, program)) in (line_of(top + 1)..).zip(rows) {
        let cells = program_cells(program, canvas.style.unit);
        let remote = remote_style(canvas, program);
        let plain = canvas.style.plain();
        let style = |index: usize| match PROGRAM_COLUMNS[index].title {
            "REMOTE" | "BALANCE" => remote,
            _ => plain,
        };
        grid.row(canvas, line, &cells, style);
        if row == view.selected_row() {
            let reversed = canvas.style.reversed();
            canvas.paint(line, 0, canvas.width(), reversed);
        }
    }
}

fn remote_style(canvas: &Canvas, program: &TopProgram) -> Style {
    match program.remote.map_or(0.0, |remote| remote.share) {
        share if share >= REMOTE.1 => canvas.style.problem(),
        share if share >= REMOTE.0 => canvas.style.warning(),
        _ => canvas.style.plain(),
    }
}
