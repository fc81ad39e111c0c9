//! The layout of the HTML report, as far as its text shows it.

use crate::common::machines;
use numaio_machine::topology::Topology;
use numaio_machine::units::BandwidthUnit;
use numaio_report::{html, Bundle};
use numaio_schema::{Document, TopologyDocument};

fn page(topology: &Topology) -> String {
    let mut bundle = Bundle::default();
    let topology = TopologyDocument::new(topology.clone());
    bundle.add(Document::Topology(Box::new(topology))).expect("a topology");
    html(&bundle, BandwidthUnit::default())
}

/// Returns the start tags of the drawings of a page.
fn drawings(page: &str) -> Vec<&str> {
    page.split("<svg class=\"numaio").skip(1).filter_map(|svg| svg.split('>').next()).collect()
}

#[test]
fn drawings_have_a_view_box_and_a_narrow_variant() {
    for topology in [machines::dl585(), machines::cxl(), machines::vm(), machines::crowded()] {
        let page = page(&topology);
        let drawings = drawings(&page);
        assert_eq!(drawings.len(), 2, "{drawings:?}");
        assert!(drawings.iter().all(|svg| svg.contains("viewBox=\"0 0 ")), "{drawings:?}");
        let (_, width) = drawings[1].split_once(" width=\"").expect("a width");
        let width: u32 = width.split('"').next().expect("a number").parse().expect("a number");
        assert!(
            drawings[1].starts_with(" narrow") && width <= 358,
            "a phone's page is 358 pixels wide: {width}"
        );
    }
}

#[test]
fn matrices_frame_nodes_with_devices_unless_most_have_some() {
    let page = page(&machines::dl585());
    assert!(page.contains("Frames mark the nodes with devices: 0, 7."));
    assert!(page.contains("<th class=\"m m1\" scope=\"col\">7</th>") && page.contains("<tr class=\"m\">"));
    assert!(!self::page(&machines::uniform()).contains("Frames mark"));
}
