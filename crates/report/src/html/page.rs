//! The page under construction: ids, levels of headings, and the data that stands behind its charts.

use super::figures::Grid;
use maud::{html, Markup, PreEscaped};
use numaio_machine::units::BandwidthUnit;
use serde_json::Value;

/// Rows of charts and of tables behind them that a page has, at most; a limit for its size.
const MOST_ROWS: usize = 400;

/// What the parts of a page share while it is written.
pub(super) struct HtmlPage {
    pub(super) unit: BandwidthUnit,
    /// Level of a machine's heading.
    machine_level: usize,
    ids: usize,
    rows_left: usize,
    grids: Vec<Value>,
    /// Links to sections, each with how deep it is.
    contents: Vec<(usize, String, String)>,
}

impl HtmlPage {
    pub(super) fn new(unit: BandwidthUnit, machine_level: usize) -> Self {
        Self { unit, machine_level, ids: 0, rows_left: MOST_ROWS, grids: Vec::new(), contents: Vec::new() }
    }

    /// An id that is new in the page.
    pub(super) fn id(&mut self, name: &str) -> String {
        self.ids += 1;
        format!("{name}-{}", self.ids)
    }

    /// Whether the page has room for that many more rows in detail; they are taken if so. The first always
    /// have.
    pub(super) fn reserve_rows(&mut self, rows: usize) -> bool {
        let fits = rows <= self.rows_left || self.rows_left == MOST_ROWS;
        if fits {
            self.rows_left = self.rows_left.saturating_sub(rows);
        }
        fits
    }

    /// Keeps the figures of a chart or matrix for the data of the page.
    pub(super) fn add_grid(&mut self, grid: &Grid) {
        self.grids.push(grid.json());
    }

    /// A heading, `below` levels below that of the machine.
    pub(super) fn heading(&self, below: usize, id: &str, text: &str) -> Markup {
        let level = self.machine_level + below;
        let text = html! { (text) }.into_string();
        PreEscaped(format!("<h{level} id=\"{id}\">{text}</h{level}>"))
    }

    /// A section with a heading that the table of contents names.
    pub(super) fn section(
        &mut self,
        below: usize,
        title: &str,
        content: impl FnOnce(&mut Self) -> Markup,
    ) -> Markup {
        let id = self.section_id(below, title);
        let content = content(self);
        let heading = self.heading(below, &id, title);
        html! { section aria-labelledby=(id) { (heading) (content) } }
    }

    /// An id of a section that the table of contents names.
    pub(super) fn section_id(&mut self, below: usize, title: &str) -> String {
        let id = self.id("s");
        self.contents.push((below, id.clone(), title.to_owned()));
        id
    }

    /// The table of contents.
    pub(super) fn contents(&self) -> Markup {
        html! {
            nav aria-label="Contents" {
                ol {
                    @for (below, id, title) in &self.contents {
                        li.{ "t" (below) } { a href={ "#" (id) } { (title) } }
                    }
                }
            }
        }
    }

    /// The data behind charts and matrices, safe within a script element: no `<` stands in it
    /// (HTML Standard, 4.12.1.3).
    pub(super) fn data(&self) -> Markup {
        let json = serde_json::json!({ "grids": self.grids }).to_string();
        PreEscaped(json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"))
    }
}
