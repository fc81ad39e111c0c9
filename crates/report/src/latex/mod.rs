//! Formats a report as a LaTeX document for pdflatex, with tables that can be copied into a paper.

mod layout;
mod text;

use crate::bundle::Bundle;
use crate::sheets::{self, Align, Chapter, Sheet, Text};
use layout::{Column, FontSize, Layout};
use numaio_machine::units::BandwidthUnit;
use numaio_schema::FleetSummary;
use std::fmt::Write;
use text::escaped;

/// The preamble. Tables are not floats, so that each stays at its place, on one page, with its
/// notes.
const HEAD: &str = r"\documentclass[10pt,a4paper]{article}
\usepackage[utf8]{inputenc}
\usepackage[margin=16mm]{geometry}
\usepackage{array}
\usepackage{booktabs}
\setlength{\parindent}{0pt}
\setlength{\parskip}{6pt plus 3pt}
\setlength{\abovecaptionskip}{0pt}
\setlength{\belowcaptionskip}{4pt}
\makeatletter\def\@captype{table}\makeatother
\raggedbottom
\sloppy
\begin{document}
\section*{I/O on NUMA machines}
";

/// Formats a bundle as a LaTeX document, machine by machine.
///
/// The document requires the packages geometry, array and booktabs (Debian:
/// texlive-latex-recommended). Each table is a separate `tabular`. Characters outside Latin-1
/// become question marks.
pub fn latex(bundle: &Bundle, unit: BandwidthUnit) -> String {
    document(sheets::machine_chapters(bundle, unit))
}

/// Formats the groups of a fleet as a LaTeX document, like [`latex()`].
pub fn fleet_latex(summary: &FleetSummary, unit: BandwidthUnit) -> String {
    document(sheets::fleet_chapters(summary, unit))
}

fn document(chapters: Vec<Chapter>) -> String {
    let mut out = HEAD.to_owned();
    for chapter in chapters {
        let _ = writeln!(out, "\\subsection*{{\\raggedright {}}}", escaped(&chapter.title));
        if chapter.is_incomplete {
            let _ = writeln!(out, "\\textbf{{{}}}\n", sheets::INCOMPLETE);
        }
        for section in chapter.sections {
            let _ = writeln!(out, "\\subsubsection*{{{}}}", escaped(section.title));
            tables(&mut out, &section.sheets);
        }
    }
    out.push_str("\\end{document}\n");
    out
}

/// Writes the tables of a section, narrow ones in pairs.
fn tables(out: &mut String, sheets: &[Sheet]) {
    let mut left = sheets.iter().map(|sheet| (sheet, Layout::for_sheet(sheet))).peekable();
    while let Some((sheet, layout)) = left.next() {
        let second = left.next_if(|(_, next)| layout.is_narrow() && next.is_narrow());
        match second {
            Some((next, next_layout)) => {
                parts(out, sheet, &layout, "0.485\\linewidth");
                out.push_str("\\hfill\n");
                parts(out, next, &next_layout, "0.485\\linewidth");
            }
            None => parts(out, sheet, &layout, "\\linewidth"),
        }
        out.push_str("\\par\\medskip\n");
    }
}

/// Writes all parts of a table, each on one page.
fn parts(out: &mut String, sheet: &Sheet, layout: &Layout, width: &str) {
    let count = layout.pages.len() * layout.blocks.len();
    let all = layout.pages.iter().flat_map(|rows| layout.blocks.iter().map(move |block| (rows, block)));
    for (index, (rows, block)) in all.enumerate() {
        let mut title = escaped(&sheet.title);
        if index > 0 {
            // All parts share the table's number.
            out.push_str("\\par\\medskip\\addtocounter{table}{-1}\n");
        }
        if count > 1 {
            let _ = write!(title, " (part {} of {count})", index + 1);
        }
        let _ = writeln!(out, "\\begin{{minipage}}[t]{{{width}}}\\centering\\small\n\\caption[]{{{title}}}");
        table(out, sheet, layout.size, block, rows);
        if !sheet.notes.is_empty() {
            let notes: Vec<String> = sheet.notes.iter().map(|note| escaped(note)).collect();
            let _ = writeln!(out, "\\par\\vspace{{3pt}}{{\\footnotesize {}\\par}}", notes.join(" "));
        }
        out.push_str("\\end{minipage}\n");
    }
}

fn table(out: &mut String, sheet: &Sheet, size: FontSize, block: &[Column], rows: &[Vec<Text>]) {
    let column_specs: String = block.iter().map(column_spec).collect();
    let _ = writeln!(out, "{}\\setlength{{\\tabcolsep}}{{{}pt}}", size.command, size.gap);
    let _ = writeln!(out, "\\begin{{tabular}}{{{column_specs}}}\n\\toprule");
    if let Some(over) = sheet.over {
        let (columns, last) = (block.len() - 1, block.len());
        let _ = writeln!(out, " & \\multicolumn{{{columns}}}{{c}}{{{}}} \\\\", escaped(over));
        let _ = writeln!(out, "\\cmidrule(l){{2-{last}}}");
    }
    if sheet.head.iter().any(|title| !title.is_empty()) {
        line(out, block.iter().map(title));
        out.push_str("\\midrule\n");
    }
    let wrapped = block.iter().any(|column| column.wrapped);
    for (index, row) in rows.iter().enumerate() {
        if wrapped && index > 0 {
            out.push_str("\\addlinespace[2pt]\n");
        }
        line(out, block.iter().map(|column| row.get(column.index).map(cell).unwrap_or_default()));
    }
    out.push_str("\\bottomrule\n\\end{tabular}\n");
}

fn line(out: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    let _ = writeln!(out, "{} \\\\", cells.join(" & "));
}

fn column_spec(column: &Column) -> String {
    let (letter, side) = match column.align {
        Align::Left => ("l", "\\raggedright"),
        Align::Right => ("r", "\\raggedleft"),
        Align::Center => ("c", "\\centering"),
    };
    match column.wrapped {
        true => format!(">{{{side}\\arraybackslash}}p{{{:.1}pt}}", column.width),
        false => letter.to_owned(),
    }
}

/// Formats a column title, line by line.
fn title(column: &Column) -> String {
    let lines: Vec<String> = column.title.iter().map(|line| escaped(line)).collect();
    match lines.as_slice() {
        [line] => line.clone(),
        _ => {
            let letter = match column.align {
                Align::Left => "l",
                Align::Right => "r",
                Align::Center => "c",
            };
            format!("\\begin{{tabular}}[b]{{@{{}}{letter}@{{}}}}{}\\end{{tabular}}", lines.join(" \\\\ "))
        }
    }
}

fn cell(cell: &Text) -> String {
    match escaped(&cell.text) {
        text if cell.best => format!("\\textbf{{{text}}}"),
        text => text,
    }
}
