//! Matrices as tables with colored cells: the farther from the best value, the deeper the color.

use super::device_marks::DeviceMarks;
use super::figures::{plus_minus, signed_percent, Figure, Grid, MANY};
use super::page::HtmlPage;
use crate::phrases::count;
use maud::{html, Markup, PreEscaped};
use numaio_machine::ids::NodeId;
use numaio_schema::Reading;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Width of a digit, with some reserve, and of the row headers, in em.
const DIGIT: f64 = 0.64;
const HEAD: f64 = 6.0;
/// Space between cells in em: one pixel in the smallest font.
const SPACING: f64 = 0.11;
/// The step of the deepest color.
const DEEPEST: f64 = 9.0;
/// The minimum distance from the best value, as a share, for the deepest color.
const LEAST_SPAN: f64 = 0.3;
/// The maximum number of cells named in a sentence.
const MOST_NAMED: usize = 6;

/// The meaning of a matrix's rows and columns.
pub(super) struct Axes {
    pub(super) row: &'static str,
    pub(super) column: &'static str,
    /// Whether the color of a cell is its class instead of its distance from the best value.
    pub(super) by_class: bool,
}

/// Writes a matrix with its legend, a selector of the displayed statistic, and a note on its
/// precision.
pub(super) fn write(page: &mut HtmlPage, grid: &Grid, axes: &Axes, caption: &str) -> Markup {
    page.add_grid(grid);
    let marks = DeviceMarks::new(&grid.columns, &page.device_nodes);
    let many = grid.columns.len() > MANY;
    let note = format!("{}-note", grid.id);
    html! {
        figure.matrix {
            (choice(grid))
            div.scroll role="region" aria-label=(grid.what) tabindex="0" {
                table.heat.small[many] style=(table_style(grid.columns.len(), widest(grid), &marks)) id=(grid.id) aria-describedby=(note) {
                    caption { (caption) }
                    thead { tr {
                        th.corner scope="col" { (axes.row) "\u{a0}↓" br; (axes.column) "\u{a0}→" }
                        @for column in &grid.columns { th class=[marks.class(*column)] scope="col" { (column) } }
                    } }
                    tbody { (rows(grid, axes.by_class, &marks)) }
                }
            }
            @if !axes.by_class { (legend(grid)) }
            p.how id=(note) { (precision_note(grid, axes)) " " (marks.legend()) }
        }
    }
}

/// Arranges matrices one below the other, or side by side where both fit completely.
pub(super) fn stacked(matrices: &[Markup]) -> Markup {
    html! {
        div.matrices { @for matrix in matrices { (matrix) } }
    }
}

/// Returns the custom properties from which the style sheet computes the font size and the sticky
/// columns of a matrix: the widths of a cell and of the table in em, and the number of marks.
pub(super) fn table_style(columns: usize, characters: f64, marks: &DeviceMarks) -> String {
    let many = columns > MANY;
    let (padding, least) = if many { (0.5, 0.0) } else { (1.0, 2.7) };
    let cell = f64::max(characters * DIGIT + padding, least);
    let table = (cell + SPACING) * columns as f64 + HEAD;
    format!("--cell:{cell:.2};--ems:{table:.0};--marks:{}", marks.len())
}

/// Returns the number of digits that are as wide as the widest cell.
fn widest(grid: &Grid) -> f64 {
    let characters = |figure: &Figure| {
        let marks = usize::from(figure.class.is_some()) + usize::from(!figure.settled);
        (grid.scale.format(figure.value).chars().count() + marks) as f64
    };
    // The narrowest statistic of the selector has four characters, the widest five.
    grid.figures().map(characters).fold(3.0, f64::max)
}

/// Writes the selector of the displayed statistic, hidden until the page's script runs.
fn choice(grid: &Grid) -> Markup {
    let shown = [("value", grid.scale.unit()), ("interval", "95 % ±"), ("n", "n"), ("drift", "drift")];
    html! {
        fieldset.show hidden data-grid=(grid.id) {
            legend { "Cells show" }
            @for (value, name) in shown {
                label {
                    input type="radio" name={ (grid.id) "-show" } value=(value) checked[value == "value"];
                    (name)
                }
            }
        }
    }
}

/// Writes the rows without optional end tags, to save space: a matrix of 64 nodes has 4,096 cells.
fn rows(grid: &Grid, by_class: bool, marks: &DeviceMarks) -> Markup {
    let mut text = String::new();
    let shades = Shades::of(grid);
    for (index, row) in grid.rows.iter().enumerate() {
        let class = if marks.contains(*row) { " class=m" } else { "" };
        let _ = write!(text, "<tr{class}>\n<th scope=row>{row}");
        for (column, cell) in grid.columns.iter().zip(grid.row(index)) {
            let class = match cell {
                None => String::new(),
                Some(figure) if by_class => format!("c{}", figure.class.unwrap_or(0).min(5)),
                Some(figure) => format!("h{}", shades.step(figure.value)),
            };
            let _ = match marks.cell_class(*column) {
                None if class.is_empty() => write!(text, "<td>"),
                None => write!(text, "<td class={class}>"),
                Some(mark) => write!(text, "<td class=\"{class} {mark}\">"),
            };
            match cell {
                None => text.push('–'),
                Some(figure) => cell_text(&mut text, grid, figure),
            }
        }
    }
    PreEscaped(text)
}

/// Writes the content of a cell, with its rank if known.
fn cell_text(text: &mut String, grid: &Grid, figure: &Figure) {
    text.push_str(&grid.scale.format(figure.value));
    if let Some(class) = figure.class {
        let _ = write!(text, "<i>{class}</i>");
    }
    text.push_str(if figure.settled { "" } else { "<u>?</u>" });
}

/// The mapping from values to color steps.
struct Shades {
    best: f64,
    span: f64,
    more_is_better: bool,
}

impl Shades {
    fn of(grid: &Grid) -> Self {
        let more_is_better = grid.scale.more_is_better();
        let values = || grid.figures().map(|figure| figure.value);
        let best = match more_is_better {
            true => values().fold(f64::NEG_INFINITY, f64::max),
            false => values().fold(f64::INFINITY, f64::min),
        };
        let mut shades = Self { best, span: 1.0, more_is_better };
        shades.span = values().map(|value| shades.loss(value)).fold(LEAST_SPAN, f64::max);
        shades
    }

    /// Returns the distance from the best value, from 0 to below 1.
    fn loss(&self, value: f64) -> f64 {
        let share = if self.more_is_better { value / self.best } else { self.best / value };
        1.0 - share.clamp(0.0, 1.0)
    }

    fn step(&self, value: f64) -> u32 {
        let step = (self.loss(value) / self.span * DEEPEST).round();
        if step.is_finite() {
            step.clamp(0.0, DEEPEST) as u32
        } else {
            0
        }
    }
}

fn legend(grid: &Grid) -> Markup {
    let shades = Shades::of(grid);
    let at = |step: u32| {
        let share = 1.0 - shades.span * f64::from(step) / DEEPEST;
        grid.scale.format(if shades.more_is_better { shades.best * share } else { shades.best / share })
    };
    html! {
        @if grid.figures().next().is_some() {
            p.legend {
                "best " (at(0)) " "
                span aria-hidden="true" { @for step in 0..=9 { i.{ "h" (step) } {} } }
                " " (at(9)) " " (grid.scale.unit())
            }
        }
    }
}

/// Describes visits, intervals and drift of all cells, and lists unsettled ones.
fn precision_note(grid: &Grid, axes: &Axes) -> String {
    let figures: Vec<&Figure> = grid.figures().collect();
    let Some(first) = figures.first() else { return "No cell has a value.".to_owned() };
    let least_n = figures.iter().map(|figure| figure.n).min().unwrap_or(first.n);
    let most_n = figures.iter().map(|figure| figure.n).max().unwrap_or(first.n);
    let n = if least_n == most_n { most_n.to_string() } else { format!("{least_n} to {most_n}") };
    let widest = figures.iter().map(|figure| figure.half_width()).fold(0.0, f64::max);
    let drifts = || figures.iter().map(|figure| figure.drift);
    let mut sentences = vec![format!(
        "{} with a value; n {n}; 95 % intervals within {}; drift {} to {}.",
        count(figures.len(), "cell"),
        plus_minus(widest),
        signed_percent(drifts().fold(f64::INFINITY, f64::min)),
        signed_percent(drifts().fold(f64::NEG_INFINITY, f64::max)),
    )];
    let named = |wanted: &dyn Fn(&Figure) -> bool| -> Vec<String> {
        grid.named()
            .filter(|(.., figure)| wanted(figure))
            .map(|(row, column, _)| format!("{row} → {column}"))
            .collect()
    };
    let doubts = [
        ("unsettled (marked ?)", named(&|figure| !figure.settled)),
        (
            "with too few visits: the interval is the range",
            named(&|figure| figure.range_only && figure.n > 0),
        ),
    ];
    for (what, cells) in doubts.into_iter().filter(|(_, cells)| !cells.is_empty()) {
        let more = cells.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let shown = &cells[..cells.len().min(MOST_NAMED)];
        sentences.push(format!(
            "{} {what}, {} → {}: {}{more}.",
            count(cells.len(), "cell"),
            axes.row.to_lowercase(),
            axes.column.to_lowercase(),
            shown.join(", ")
        ));
    }
    sentences.join(" ")
}

/// Explains missing values: the first cells of each reason; empty if no value is missing.
pub(super) fn missing_notes<'r>(cells: impl Iterator<Item = (NodeId, NodeId, &'r Reading)>) -> Markup {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (row, column, reading) in cells.filter(|(.., reading)| reading.median().is_none()) {
        let why = reading.failure.as_deref().unwrap_or("no visit succeeded");
        reasons.entry(why).or_default().push(format!("{row} → {column}"));
    }
    html! {
        @for (why, cells) in reasons.iter().take(MOST_NAMED) {
            p.how {
                strong { "No value: " }
                (cells[..cells.len().min(MOST_NAMED)].join(", "))
                @if cells.len() > MOST_NAMED { " and " (cells.len() - MOST_NAMED) " more" }
                ": " (why)
            }
        }
    }
}
