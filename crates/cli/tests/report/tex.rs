//! Compiles LaTeX documents with pdflatex, and parses their tables.

use crate::support::{Home, Limited};
use crate::tables::Table;
use std::io::Write;

/// Maximum overfull width of a line in points, below which it is invisible.
const OVERFULL: f64 = 3.0;

/// Compiles a document, which must give no errors or warnings, and returns its number of pages.
/// Without pdflatex, prints that the test is skipped.
pub fn compile(home: &Home, test: &str, tex: &str) -> Option<usize> {
    home.file("report.tex", tex);
    let args = ["-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "report.tex"];
    let Ok(output) = home.command("pdflatex", &args).env("max_print_line", "1000").limited_output() else {
        // Bypass the capture of the test harness: `tools/test` counts these lines.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: no pdflatex is installed");
        return None;
    };
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{log}");
    for line in log.lines() {
        let width =
            line.strip_prefix("Overfull \\").and_then(|line| line.split_once('(')?.1.split_once("pt"));
        let points: f64 = width.map_or(0.0, |(points, _)| points.parse().expect("points"));
        assert!(points <= OVERFULL, "{line}\n{log}");
        assert!(!line.starts_with("LaTeX Font Warning") && !line.contains("Missing character"), "{line}");
    }
    assert!(!log.contains("mktexpk") && !log.contains("pk>"), "a bitmap font was generated\n{log}");
    let pages = log.split("Output written on report.pdf (").nth(1).and_then(|text| text.split(' ').next());
    Some(pages.expect("a PDF").parse().expect("a number of pages"))
}

/// Parses all tables of a document. A later part of a table gets the title `... continued`.
pub fn tables(tex: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for part in tex.split("\\caption[]{").skip(1) {
        let (caption, rest) = part.split_once("}\n").expect("a caption on one line");
        let title = plain(caption);
        let (title, number) = match title.split_once(" (part ") {
            Some((title, number)) => (title.to_owned(), number.split(' ').next().map(str::to_owned)),
            None => (title, None),
        };
        let body = rest.split_once("\\toprule\n").expect("a table").1;
        let body = body.split_once("\\bottomrule").expect("the end of the table").0;
        let rows = body.lines().filter_map(row).collect();
        match number.as_deref() {
            None | Some("1") => tables.push(Table { title, rows }),
            Some(_) => tables.push(Table { title: format!("{title} continued"), rows }),
        }
    }
    tables
}

/// Parses a row of a table; `None` for rules and the line above the titles.
fn row(line: &str) -> Option<Vec<String>> {
    let line = line.strip_suffix(" \\\\").filter(|line| !line.contains("\\multicolumn"))?;
    Some(line.split(" & ").map(plain).collect())
}

/// Converts LaTeX to the visible text.
fn plain(tex: &str) -> String {
    let mut text = tex.replace("\\allowbreak{}", "");
    for letter in ["l", "r", "c"] {
        text = text.replace(&format!("\\begin{{tabular}}[b]{{@{{}}{letter}@{{}}}}"), "");
    }
    text = text.replace("\\end{tabular}", "").replace(" \\\\ ", " ");
    for (macro_name, character) in [
        ("\\textbackslash{}", "\\"),
        ("\\textasciitilde{}", "~"),
        ("\\textasciicircum{}", "^"),
        ("\\textless{}", "<"),
        ("\\textgreater{}", ">"),
        ("\\textbar{}", "|"),
        ("\\ldots{}", "…"),
        ("\\textbf{", "{"),
        ("--", "–"),
    ] {
        text = text.replace(macro_name, character);
    }
    let mut visible = String::new();
    let mut escape = false;
    for c in text.chars() {
        match c {
            '\\' if !escape => escape = true,
            '{' | '}' if !escape => {}
            c => {
                visible.push(c);
                escape = false;
            }
        }
    }
    visible
}
