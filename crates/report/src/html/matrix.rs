//! Matrices as tables with colored cells: the farther from the best value, the deeper the color.

use super::figures::{plus_minus, signed_percent, Figure, Grid, MANY};
use super::page::HtmlPage;
use crate::phrases::count;
use maud::{html, Markup, PreEscaped};
use numaio_machine::ids::NodeId;
use numaio_schema::Reading;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The maximum number of columns for two matrices side by side.
const FEW: usize = 8;
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
    let many = grid.columns.len() > MANY;
    let note = format!("{}-note", grid.id);
    html! {
        figure.matrix {
            (choice(grid))
            div.scroll role="region" aria-label=(grid.what) tabindex="0" {
                table.heat.small[many] style={ "--n:" (grid.columns.len()) } id=(grid.id) aria-describedby=(note) {
                    caption { (caption) }
                    thead { tr {
                        th.corner scope="col" { (axes.row) "\u{a0}↓" br; (axes.column) "\u{a0}→" }
                        @for column in &grid.columns { th scope="col" { (column) } }
                    } }
                    tbody { (rows(grid, axes.by_class)) }
                }
            }
            @if !axes.by_class { (legend(grid)) }
            p.how id=(note) { (precision_note(grid, axes)) }
        }
    }
}

/// Arranges matrices with this number of columns, side by side if they are small.
pub(super) fn side_by_side(columns: usize, matrices: &[Markup]) -> Markup {
    html! {
        div.pair[columns <= FEW] { @for matrix in matrices { (matrix) } }
    }
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
fn rows(grid: &Grid, by_class: bool) -> Markup {
    let mut text = String::new();
    let shades = Shades::of(grid);
    for (index, row) in grid.rows.iter().enumerate() {
        let _ = write!(text, "<tr>\n<th scope=row>{row}");
        for cell in grid.row(index) {
            let _ = match cell {
                None => write!(text, "<td>–"),
                Some(figure) => cell_text(&mut text, grid, figure, (!by_class).then_some(&shades)),
            };
        }
    }
    PreEscaped(text)
}

/// Writes a cell, shaded by its distance from the best value or by its class, with its rank if
/// known.
fn cell_text(text: &mut String, grid: &Grid, figure: &Figure, shades: Option<&Shades>) -> std::fmt::Result {
    match shades {
        Some(shades) => write!(text, "<td class=h{}>", shades.step(figure.value))?,
        None => write!(text, "<td class=c{}>", figure.class.unwrap_or(0).min(5))?,
    }
    text.push_str(&grid.scale.format(figure.value));
    if let Some(class) = figure.class {
        write!(text, "<i>{class}</i>")?;
    }
    text.push_str(if figure.settled { "" } else { "<u>?</u>" });
    Ok(())
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
