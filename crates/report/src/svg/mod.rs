//! Draws machines and transfer plans as SVG.

mod canvas;
mod card;
mod flows;
mod heat;
mod layout;
mod scene;

use crate::phrases;
use crate::style::{clean_paragraph, wrap};
use canvas::{text_width, Canvas, MARGIN};
pub use flows::plan_svg;
use heat::Heat;
use layout::Rows;
use numaio_machine::findings::Finding;
use numaio_machine::topology::Topology;

/// Line height of findings.
const LINE: i32 = 17;
/// Maximum number of findings below the drawing; all are marked within it.
const MOST_FINDINGS: usize = 20;

/// Draws a machine as SVG: packages, nodes and devices, with findings as triangles and distances
/// below.
///
/// Nodes without CPUs are beside their nearest package. The drawing is self-contained, without
/// scripts, fonts or images from elsewhere, and light or dark as the viewer prefers.
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
        canvas.text("name", MARGIN, y + 10, "Distances: from row to column; 10 is local");
        heat.draw(&mut canvas, MARGIN, y + 20);
        y += 20 + heat.size().1 + MARGIN;
    }
    y += draw_findings(&mut canvas, &topology.findings, y, width);
    canvas.document(width + 2 * MARGIN, y, &format!("NUMA topology of {name}"), &description(topology))
}

/// A drawing without a document, for embedding in a page with its own styles.
pub(crate) struct Drawing {
    /// SVG elements, with all names cleaned and escaped.
    pub(crate) elements: String,
    /// Width in pixels.
    pub(crate) width: i32,
    /// Height in pixels.
    pub(crate) height: i32,
}

/// Draws packages, nodes and devices, without title, distances and list of findings.
pub(crate) fn machine_drawing(topology: &Topology) -> Drawing {
    let blocks = scene::blocks(topology);
    drawing(&Rows::new(&blocks))
}

/// Draws the same in one stack, for the width of a phone.
pub(crate) fn narrow_machine_drawing(topology: &Topology) -> Drawing {
    let blocks = scene::blocks(topology);
    drawing(&Rows::single_stack(&blocks))
}

fn drawing(rows: &Rows<'_>) -> Drawing {
    const EDGE: i32 = 2;
    let (width, height) = rows.size();
    let mut canvas = Canvas::default();
    rows.draw(&mut canvas, EDGE, EDGE);
    Drawing { elements: canvas.into_elements(), width: width + 2 * EDGE, height: height + 2 * EDGE }
}

/// Writes the list of findings and returns its height.
fn draw_findings(canvas: &mut Canvas, findings: &[Finding], y: i32, width: i32) -> i32 {
    if findings.is_empty() {
        return 0;
    }
    canvas.text("name", MARGIN, y + 10, "Findings");
    let mut bottom = y + 18;
    // An average character width: most lines are narrower than the estimate.
    let columns = (width - 22) as usize / 7;
    let findings = phrases::group_findings(findings);
    for finding in findings.iter().take(MOST_FINDINGS) {
        let sentence =
            clean_paragraph(&format!("{}: {}", phrases::severity(finding.severity), finding.sentence()));
        canvas.triangle(phrases::severity(finding.severity), MARGIN, bottom + 3, &sentence);
        for line in wrap(&sentence, columns) {
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

/// Describes the drawing for screen readers: the devices on each node.
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
