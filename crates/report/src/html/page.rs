//! The HTML page under construction: ids, heading levels, table of contents and embedded data.

use super::figures::Grid;
use maud::{html, Markup, PreEscaped};
use numaio_machine::units::BandwidthUnit;
use serde_json::Value;
use std::collections::BTreeSet;

/// The maximum number of rows in charts and their tables, which limits the page's size.
const MOST_ROWS: usize = 400;

/// The state that the sections of a page share while it is written.
pub(super) struct HtmlPage {
    pub(super) unit: BandwidthUnit,
    /// The nodes of the present machine that have devices.
    pub(super) device_nodes: BTreeSet<u32>,
    /// The heading level of a machine.
    machine_level: usize,
    ids: usize,
    rows_left: usize,
    grids: Vec<Value>,
    /// The table of contents: depth, id and title of each section.
    contents: Vec<(usize, String, String)>,
}

impl HtmlPage {
    pub(super) fn new(unit: BandwidthUnit, machine_level: usize) -> Self {
        Self {
            unit,
            device_nodes: BTreeSet::new(),
            machine_level,
            ids: 0,
            rows_left: MOST_ROWS,
            grids: Vec::new(),
            contents: Vec::new(),
        }
    }

    /// Returns a new id, unique within the page.
    pub(super) fn id(&mut self, name: &str) -> String {
        self.ids += 1;
        format!("{name}-{}", self.ids)
    }

    /// Reserves rows for details and returns whether they fit. The first request always fits.
    pub(super) fn reserve_rows(&mut self, rows: usize) -> bool {
        let fits = rows <= self.rows_left || self.rows_left == MOST_ROWS;
        if fits {
            self.rows_left = self.rows_left.saturating_sub(rows);
        }
        fits
    }

    /// Adds the figures of a chart or matrix to the page's data.
    pub(super) fn add_grid(&mut self, grid: &Grid) {
        self.grids.push(grid.json());
    }

    /// Writes a heading, `below` levels below the machine's.
    pub(super) fn heading(&self, below: usize, id: &str, text: &str) -> Markup {
        let level = self.machine_level + below;
        let text = html! { (text) }.into_string();
        PreEscaped(format!("<h{level} id=\"{id}\">{text}</h{level}>"))
    }

    /// Writes a section with a heading and an entry in the table of contents.
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

    /// Adds an entry to the table of contents and returns the id of its section.
    pub(super) fn section_id(&mut self, below: usize, title: &str) -> String {
        let id = self.id("s");
        self.contents.push((below, id.clone(), title.to_owned()));
        id
    }

    /// Writes the table of contents.
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

    /// Returns the data of charts and matrices.
    pub(super) fn data(&self) -> Value {
        serde_json::json!({ "grids": self.grids })
    }
}
