//! Formats a report as Markdown (GitHub Flavored Markdown Spec, 4.10: tables).

use crate::bundle::Bundle;
use crate::sheets::{self, Align, Chapter, Sheet, Text};
use crate::style::clean;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::FleetSummary;
use std::fmt::Write;

/// Formats a bundle as Markdown, machine by machine.
pub fn markdown(bundle: &Bundle, unit: BandwidthUnit) -> String {
    document(sheets::machine_chapters(bundle, unit))
}

/// Formats the groups of a fleet as Markdown.
pub fn fleet_markdown(summary: &FleetSummary, unit: BandwidthUnit) -> String {
    document(sheets::fleet_chapters(summary, unit))
}

fn document(chapters: Vec<Chapter>) -> String {
    let mut out = String::from("# I/O on NUMA machines\n");
    for chapter in chapters {
        let _ = writeln!(out, "\n## {}", escaped(&chapter.title));
        if chapter.is_incomplete {
            let _ = writeln!(out, "\n**{}**", sheets::INCOMPLETE);
        }
        for section in chapter.sections {
            let _ = writeln!(out, "\n### {}", escaped(section.title));
            section.sheets.iter().for_each(|sheet| table(&mut out, sheet));
        }
    }
    out
}

fn table(out: &mut String, sheet: &Sheet) {
    let _ = writeln!(out, "\n#### {}\n", escaped(&sheet.title));
    let title = |(index, title): (usize, &String)| match sheet.over {
        Some(over) if index > 0 => escaped(&format!("{over} {title}")),
        _ => escaped(title),
    };
    line(out, sheet.head.iter().enumerate().map(title));
    let rule = |align: &Align| match align {
        Align::Left => ":--",
        Align::Right => "--:",
        Align::Center => ":-:",
    };
    line(out, sheet.aligned.iter().map(rule).map(str::to_owned));
    for row in &sheet.rows {
        line(out, row.iter().map(cell));
    }
    for note in &sheet.notes {
        let _ = writeln!(out, "\n{}", escaped(note));
    }
}

fn line(out: &mut String, cells: impl Iterator<Item = String>) {
    out.push('|');
    for cell in cells {
        let _ = write!(out, " {cell} |");
    }
    out.push('\n');
}

fn cell(cell: &Text) -> String {
    match escaped(&cell.text) {
        text if cell.best => format!("**{text}**"),
        text => text,
    }
}

/// Escapes text so that no viewer interprets it as markup, links, formulas or HTML.
fn escaped(text: &str) -> String {
    const MARKS: &str = "\\`*_[]<>&|#~!$@";
    let text = clean(text);
    let mut out = String::new();
    let mut before = "";
    for (at, c) in text.char_indices() {
        let after = &text[at + c.len_utf8()..];
        let ends_mark = after.is_empty() || after.starts_with(' ');
        // List numbers have at most nine digits.
        let begins_list = match c {
            '-' | '+' => ends_mark && before.trim_start().is_empty(),
            '.' | ')' => {
                ends_mark
                    && (1..=9).contains(&before.len())
                    && before.bytes().all(|byte| byte.is_ascii_digit())
            }
            _ => false,
        };
        // Viewers autolink these without markup.
        let www = || {
            before.len().checked_sub(3).is_some_and(|at| before.as_bytes()[at..].eq_ignore_ascii_case(b"www"))
        };
        let links = c == ':' && after.starts_with("//") || c == '.' && www();
        if MARKS.contains(c) || begins_list || links {
            out.push('\\');
        }
        out.push(c);
        before = &text[..at + c.len_utf8()];
    }
    out
}
