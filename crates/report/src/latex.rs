//! A report as LaTeX: one document that pdflatex compiles, its tables ready to be taken into a paper.

use crate::bundle::Bundle;
use crate::sheets::{self, Sheet, Text};
use crate::style::clean;
use numaio_machine::units::BandwidthUnit;
use std::fmt::Write;

/// Columns of figures that stand beside each other on a page; wider tables are cut.
const MOST_COLUMNS: usize = 10;
/// Rows of a table on one page.
const MOST_ROWS: usize = 40;
/// Width of a column whose texts are broken, in centimetres, by the number of such columns.
const LONG_COLUMNS_CM: f64 = 17.0;

const HEAD: &str = r"\documentclass[10pt,a4paper]{article}
\usepackage[utf8]{inputenc}
\usepackage[margin=1.6cm]{geometry}
\usepackage{booktabs}
\usepackage{array}
\setlength{\parindent}{0pt}
\setlength{\tabcolsep}{4pt}
\begin{document}
";

/// The documents of a bundle as a LaTeX document, machine by machine.
///
/// It needs the packages booktabs and geometry. Characters beyond Latin-1 are shown as question marks.
pub fn latex(bundle: &Bundle, unit: BandwidthUnit) -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\\section*{I/O on NUMA machines}\n");
    for machine in &bundle.machines {
        let _ = writeln!(text, "\\subsection*{{{}}}", escaped(&sheets::name(machine)));
        if machine.is_incomplete() {
            text.push_str(
                "\\textbf{Incomplete: not everything that was asked for was measured and settled.}\n\n",
            );
        }
        for sheet in sheets::of(machine, unit) {
            parts(&mut text, &sheet);
        }
    }
    text.push_str("\\end{document}\n");
    text
}

/// A table, cut into parts that fit on a page: by columns, the first one repeated, and by rows.
fn parts(text: &mut String, sheet: &Sheet) {
    let figures: Vec<usize> = (1..sheet.head.len()).collect();
    let blocks: Vec<&[usize]> = figures.chunks(MOST_COLUMNS).collect();
    let pages: Vec<&[Vec<Text>]> = sheet.rows.chunks(MOST_ROWS).collect();
    let several = blocks.len() * pages.len() > 1;
    let mut part = 0;
    for rows in &pages {
        for block in &blocks {
            part += 1;
            let title = match several {
                true => format!("{} (part {part} of {})", sheet.title, blocks.len() * pages.len()),
                false => sheet.title.clone(),
            };
            table(text, &title, sheet, block, rows);
        }
    }
    for note in &sheet.notes {
        let _ = writeln!(text, "{{\\small {}}}\\par", escaped(note));
    }
}

fn table(text: &mut String, title: &str, sheet: &Sheet, block: &[usize], rows: &[Vec<Text>]) {
    let columns: Vec<usize> = std::iter::once(0).chain(block.iter().copied()).collect();
    let long = |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| cell.long));
    let many = columns.iter().filter(|column| long(**column)).count();
    // What is left beside the short columns, about 2 cm each.
    let width = (LONG_COLUMNS_CM - 2.0 * (columns.len() - many) as f64) / many.max(1) as f64;
    let kinds: String = columns
        .iter()
        .map(|column| match (long(*column), column) {
            (true, _) => format!(">{{\\raggedright\\arraybackslash}}p{{{width:.1}cm}}"),
            (false, 0) => "l".to_owned(),
            (false, _) => "r".to_owned(),
        })
        .collect();
    let _ = writeln!(text, "\\begin{{center}}\\small\n\\textbf{{{}}}\\\\[4pt]", escaped(title));
    let _ = writeln!(text, "\\begin{{tabular}}{{{kinds}}}\n\\toprule");
    let heads: Vec<String> = columns.iter().map(|column| head(&sheet.head[*column])).collect();
    if heads.iter().any(|head| !head.is_empty()) {
        let _ = writeln!(text, "{} \\\\\n\\midrule", heads.join(" & "));
    }
    for row in rows {
        let cells: Vec<String> =
            columns.iter().map(|column| row.get(*column).map(cell).unwrap_or_default()).collect();
        let _ = writeln!(text, "{} \\\\", cells.join(" & "));
    }
    text.push_str("\\bottomrule\n\\end{tabular}\n\\end{center}\n");
}

/// A title of a column, broken at its blanks where it is long.
fn head(title: &str) -> String {
    const LONG: usize = 12;
    if title.chars().count() <= LONG {
        return escaped(title);
    }
    let mut lines = vec![String::new()];
    for word in title.split(' ') {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + word.chars().count() >= LONG {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
    format!("\\begin{{tabular}}[b]{{@{{}}r@{{}}}}{}\\end{{tabular}}", lines.join(" \\\\ "))
}

fn cell(cell: &Text) -> String {
    match escaped(&cell.text) {
        text if cell.best => format!("\\textbf{{{text}}}"),
        text => text,
    }
}

/// Text as TeX prints it, whatever stands in it.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            '|' => out.push_str("\\textbar{}"),
            '"' => out.push_str("''"),
            '–' => out.push_str("--"),
            '-' => out.push_str("{-}"),
            '…' => out.push_str("\\ldots{}"),
            c if c.is_ascii() || ('\u{a1}'..='\u{ff}').contains(&c) && c != '\u{ad}' => out.push(c),
            '\u{a0}' => out.push(' '),
            _ => out.push('?'),
        }
    }
    out
}
