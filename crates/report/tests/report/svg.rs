//! SVG drawings: well-formed, complete, without overlaps, and equal to stored output.

#![allow(clippy::unwrap_used)]

use crate::common::{expect, machines};
use numaio_machine::topology::Topology;
use numaio_report::topology_svg;
use roxmltree::{Document, Node};

fn all() -> [(&'static str, Topology); 7] {
    [
        ("dl585", machines::dl585()),
        ("uniform", machines::uniform()),
        ("vm", machines::vm()),
        ("cxl", machines::cxl()),
        ("large", machines::large()),
        ("crowded", machines::crowded()),
        ("hostile", machines::hostile()),
    ]
}

fn number(node: Node, name: &str) -> i32 {
    node.attribute(name).unwrap().parse().unwrap()
}

fn has_class(node: &Node, class: &str) -> bool {
    node.attribute("class").is_some_and(|classes| classes.split(' ').any(|one| one == class))
}

/// Returns left, top, right and bottom of all boxes of a class.
fn boxes(document: &Document, class: &str) -> Vec<(i32, i32, i32, i32)> {
    let rects =
        document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "rect")));
    rects
        .filter(|rect| has_class(rect, class))
        .map(|rect| {
            let (x, y) = (number(rect, "x"), number(rect, "y"));
            (x, y, x + number(rect, "width"), y + number(rect, "height"))
        })
        .collect()
}

fn overlap(a: &(i32, i32, i32, i32), b: &(i32, i32, i32, i32)) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}

fn all_text(document: &Document) -> String {
    document.descendants().filter_map(|node| node.text()).collect::<Vec<_>>().join("\n")
}

#[test]
fn drawings_match_stored_output() {
    for (name, topology) in all() {
        expect(&format!("topology-{name}.svg"), &topology_svg(&topology));
    }
}

#[test]
fn drawings_contain_all_nodes_and_devices() {
    for (name, topology) in all().into_iter().filter(|(name, _)| *name != "hostile") {
        let svg = topology_svg(&topology);
        let document = Document::parse(&svg).unwrap();
        let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
        for node in &topology.nodes {
            assert!(texts.contains(&format!("Node {}", node.id).as_str()), "{name}: node {}", node.id);
        }
        let text = all_text(&document);
        for device in topology.devices.iter().filter(|device| device.moves_data()) {
            assert!(text.contains(&device.name()), "{name}: {}", device.name());
        }
    }
}

#[test]
fn nothing_overlaps_or_leaves_the_page() {
    for (name, topology) in all() {
        let svg = topology_svg(&topology);
        let document = Document::parse(&svg).unwrap();
        let (cards, frames) = (boxes(&document, "card"), boxes(&document, "frame"));
        assert!(cards.len() >= topology.nodes.len() && !frames.is_empty());
        for kind in [&cards, &frames, &boxes(&document, "heat")] {
            for (index, one) in kind.iter().enumerate() {
                let other = kind[index + 1..].iter().find(|other| overlap(one, other));
                assert_eq!(other, None, "{name}: {one:?} is overlapped");
            }
        }
        let root = document.root_element();
        let (width, height) = (number(root, "width"), number(root, "height"));
        for (_, _, right, bottom) in cards.iter().chain(&frames) {
            assert!(*right < width && *bottom < height, "{name}: {right} {bottom} of {width} {height}");
        }
        for card in cards.iter().filter(|card| frames.iter().any(|frame| overlap(frame, card))) {
            let within = frames.iter().any(|f| f.0 < card.0 && f.1 < card.1 && f.2 > card.2 && f.3 > card.3);
            assert!(within, "{name}: {card:?} crosses a frame");
        }
    }
}

#[test]
fn hostile_names_stay_text() {
    let svg = topology_svg(&machines::hostile());
    let document = Document::parse(&svg).unwrap();
    assert!(!svg.contains(|c: char| c.is_control() && c != '\n'));
    let known = ["svg", "title", "desc", "style", "rect", "text", "g", "path"];
    for node in document.descendants().filter(Node::is_element) {
        assert!(known.contains(&node.tag_name().name()), "{node:?}");
    }
    assert!(all_text(&document).contains("<script>alert(1)</script>"));
    assert!(!svg.contains("http://www.w3.org/1999/xlink") && !svg.contains("url("));
}

#[test]
fn findings_are_marked_on_their_cards() {
    let svg = topology_svg(&machines::dl585());
    let document = Document::parse(&svg).unwrap();
    // A mark is a group within the group of its card.
    let marked = |words: &str| {
        let titles =
            document.descendants().filter(|node| node.is_text() && node.text().unwrap().contains(words));
        titles.filter_map(|title| title.ancestors().nth(3)).find_map(|card| {
            let name = card.children().find(|node| has_class(node, "name"))?;
            name.text().map(str::to_owned)
        })
    };
    assert_eq!(marked("half of its lanes").as_deref(), Some("nvme0n1"));
    assert_eq!(marked("less memory").as_deref(), Some("Node 3"));
    assert_eq!(marked("no such words"), None);
}

#[test]
fn an_empty_topology_is_a_valid_drawing() {
    Document::parse(&topology_svg(&Topology::default())).unwrap();
}
