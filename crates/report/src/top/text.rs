//! A snapshot as a text page.

use super::cells::{device_cells, node_cells, pressure_line, program_cells, transfer_cells};
use super::columns::{TopColumn, DEVICE_COLUMNS, NODE_COLUMNS, PROGRAM_COLUMNS, TRANSFER_COLUMNS};
use crate::phrases::count;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_schema::TopSnapshot;

/// Formats a snapshot: nodes, devices, transfers, and programs by index in `order`.
pub fn top_text(snapshot: &TopSnapshot, order: &[usize], style: &TextStyle) -> String {
    let unit = style.unit;
    let mut page = TextPage::new(style);
    page.paragraph(0, 2, &format!("{}, over {:.1} s", snapshot.host, snapshot.interval_s));
    page.paragraph(0, 2, &pressure_line(&snapshot.pressure));
    page.blank();
    page.table(0, &table(&NODE_COLUMNS, snapshot.nodes.iter().map(|node| node_cells(node, unit))));
    if !snapshot.devices.is_empty() {
        page.blank();
        page.table(0, &table(&DEVICE_COLUMNS, snapshot.devices.iter().map(|it| device_cells(it, unit))));
    }
    if !snapshot.transfers.is_empty() {
        page.blank();
        page.table(
            0,
            &table(&TRANSFER_COLUMNS, snapshot.transfers.iter().map(|it| transfer_cells(it, unit))),
        );
    }
    page.blank();
    let programs = order.iter().filter_map(|index| snapshot.programs.get(*index));
    let active: Vec<Vec<String>> =
        programs.filter(|program| program.is_active()).map(|program| program_cells(program, unit)).collect();
    let idle = order.len() - active.len();
    match active.is_empty() {
        true => page.paragraph(0, 2, "No selected program used CPU time or I/O."),
        false => page.table(0, &table(&PROGRAM_COLUMNS, active.into_iter())),
    }
    let idle = idle as u64 + snapshot.omitted_programs;
    if idle > 0 {
        page.blank();
        let count = count(usize::try_from(idle).unwrap_or(usize::MAX), "idle program");
        page.paragraph(0, 2, &format!("{count} not listed."));
    }
    for unknown in &snapshot.unknown {
        page.paragraph(0, 2, &format!("Unknown: {}: {}", unknown.name, unknown.reason));
    }
    page.into_text()
}

fn table(columns: &[TopColumn], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let align = |column: &TopColumn| if column.is_right { Align::Right } else { Align::Left };
    let mut table = Table::new(columns.iter().map(|column| (column.title, align(column))));
    rows.for_each(|cells| table.row(cells.into_iter().map(Cell::from)));
    table.without_empty_columns()
}
