//! A report as Markdown (GitHub's tables).

use crate::bundle::Bundle;
use crate::sheets::{self, Sheet, Text};
use crate::style::clean;
use numaio_machine::units::BandwidthUnit;
use std::fmt::Write;

/// The documents of a bundle as Markdown, machine by machine.
pub fn markdown(bundle: &Bundle, unit: BandwidthUnit) -> String {
    let mut text = String::from("# I/O on NUMA machines\n");
    for machine in &bundle.machines {
        let _ = writeln!(text, "\n## {}", escaped(&sheets::name(machine)));
        if machine.is_incomplete() {
            text.push_str("\n**Incomplete: not everything that was asked for was measured and settled.**\n");
        }
        for sheet in sheets::of(machine, unit) {
            write(&mut text, &sheet);
        }
    }
    text
}

fn write(text: &mut String, sheet: &Sheet) {
    let _ = writeln!(text, "\n### {}\n", escaped(&sheet.title));
    line(text, sheet.head.iter().map(|title| escaped(title)));
    let rules = (0..sheet.head.len()).map(|column| if sheet.stands_left(column) { ":--" } else { "--:" });
    line(text, rules.map(str::to_owned));
    for row in &sheet.rows {
        line(text, row.iter().map(cell));
    }
    for note in &sheet.notes {
        let _ = writeln!(text, "\n{}", escaped(note));
    }
}

fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    text.push('|');
    for cell in cells {
        let _ = write!(text, " {cell} |");
    }
    text.push('\n');
}

fn cell(cell: &Text) -> String {
    match escaped(&cell.text) {
        text if cell.best => format!("**{text}**"),
        text => text,
    }
}

/// Text that no viewer takes for marks, links or HTML.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '|' | '#' | '~' | '!') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
