//! A machine as a drawing.

mod canvas;
mod card;
mod flows;
mod heat;
mod layout;
mod scene;

use crate::phrases;
use crate::style::{clean_paragraph, wrap};
use canvas::{text_width, Canvas};
pub use flows::plan_svg;
use heat::Heat;
use layout::Rows;
use numaio_machine::findings::Finding;
use numaio_machine::topology::Topology;

/// Blank around the drawing, in pixels.
const MARGIN: i32 = 24;
/// Height of a line of a finding.
const LINE: i32 = 17;
/// Findings written out below the drawing; all of them are marked in it.
const MOST_FINDINGS: usize = 20;

/// A machine as SVG: packages with their nodes, the devices hanging on them, nodes without CPUs beside their
/// nearest package, findings as triangles where they belong, distances below.
///
/// The drawing stands alone: no script, no font or picture from elsewhere; light or dark as the viewer prefers.
pub fn topology_svg(topology: &Topology) -> String {
    let blocks = scene::blocks(topology);
    let rows = Rows::new(&blocks);
    let heat = topology.distances.as_ref().and_then(Heat::new);
    let name = phrases::machine_name(&topology.identity);
    let heads = [phrases::machine_kind(&topology.identity), phrases::machine_size(topology)];

    let heat_width = heat.as_ref().map_or(0, |heat| heat.size().0);
    let heads_width = heads.iter().map(|head| text_width(head, 13, false)).max().unwrap_or(0);
    let width = rows.size().0.max(heat_width).max(heads_width).max(text_width(&name, 20, true)).max(360);

    let mut canvas = Canvas::default();
    let mut y = MARGIN + 18;
    canvas.text("head", MARGIN, y, &name);
    for head in &heads {
        y += 20;
        canvas.text("sub", MARGIN, y, head);
    }
    y += 20;
    rows.draw(&mut canvas, MARGIN, y);
    y += rows.size().1 + MARGIN;
    if let Some(heat) = heat {
        canvas.text("name", MARGIN, y + 10, "Distances: from row to column, 10 is local");
        heat.draw(&mut canvas, MARGIN, y + 20);
        y += 20 + heat.size().1 + MARGIN;
    }
    y += draw_findings(&mut canvas, &topology.findings, y, width);
    canvas.document(width + 2 * MARGIN, y, &format!("NUMA topology of {name}"), &description(topology))
}

/// A drawing without a document around it, for a page that has styles of its own.
pub(crate) struct Drawing {
    /// Elements of SVG, every name in them cleaned and escaped.
    pub(crate) elements: String,
    /// Size in pixels.
    pub(crate) width: i32,
    pub(crate) height: i32,
}

/// Packages, nodes and devices alone, without name, distances and findings in words.
pub(crate) fn machine_drawing(topology: &Topology) -> Drawing {
    const EDGE: i32 = 2;
    let blocks = scene::blocks(topology);
    let rows = Rows::new(&blocks);
    let (width, height) = rows.size();
    let mut canvas = Canvas::default();
    rows.draw(&mut canvas, EDGE, EDGE);
    Drawing { elements: canvas.into_elements(), width: width + 2 * EDGE, height: height + 2 * EDGE }
}

/// Draws the findings in words; gives the height that they took.
fn draw_findings(canvas: &mut Canvas, findings: &[Finding], y: i32, width: i32) -> i32 {
    if findings.is_empty() {
        return 0;
    }
    canvas.text("name", MARGIN, y + 10, "What looks wrong");
    let mut bottom = y + 18;
    // Characters of middling width: most lines are shorter than what is allowed to them.
    let columns = (width - 22) as usize / 7;
    let findings = phrases::group_findings(findings);
    for finding in findings.iter().take(MOST_FINDINGS) {
        let words = clean_paragraph(&finding.sentence());
        canvas.triangle(phrases::severity(finding.severity), MARGIN, bottom + 3, &words);
        for line in wrap(&words, columns) {
            bottom += LINE;
            canvas.text("", MARGIN + 22, bottom - 3, &line);
        }
        bottom += 4;
    }
    if let Some(more) = findings.len().checked_sub(MOST_FINDINGS).filter(|more| *more > 0) {
        bottom += LINE;
        canvas.text("aside", MARGIN + 22, bottom - 3, &format!("and {more} more"));
    }
    bottom - y + MARGIN
}

/// The drawing in words: which devices hang on which node.
fn description(topology: &Topology) -> String {
    let of_node = |node: &numaio_machine::topology::Node| {
        let devices = phrases::joined(topology.devices_on(node.id).map(phrases::device_name), ", ");
        if devices.is_empty() {
            String::new()
        } else {
            format!("On node {}: {devices}.", node.id)
        }
    };
    let size = format!("{}.", phrases::machine_size(topology));
    phrases::joined(std::iter::once(size).chain(topology.nodes.iter().map(of_node)), " ")
}
