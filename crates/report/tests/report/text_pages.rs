//! Whole pages, compared with what is stored in `tests/expected`.

#![allow(clippy::unwrap_used)]

use crate::common::{expect, machines, models};
use numaio_machine::devices::Device;
use numaio_machine::topology::Topology;
use numaio_machine::units::BandwidthUnit;
use numaio_report::{html, model_listing, model_text, topology_text, Bundle, TextStyle};
use numaio_schema::Document;
use unicode_width::UnicodeWidthStr;

/// No line is wider than the page or ends with a blank, and nothing but line ends controls anything.
fn check(page: &str, width: usize) {
    for line in page.lines() {
        assert!(line.width() <= width, "{} columns: {line}", line.width());
        assert_eq!(line, line.trim_end());
    }
    let control = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!page.contains(control), "{page:?}");
    assert!(page.ends_with('\n') && !page.contains("\n\n\n"));
}

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

#[test]
fn topologies() {
    for (name, topology) in all() {
        let page = topology_text(&topology, &TextStyle::default());
        check(&page, 100);
        expect(&format!("topology-{name}.txt"), &page);
    }
}

#[test]
fn pages_of_any_width() {
    for (_, topology) in all() {
        for width in [76, 80, 133, 200] {
            check(&topology_text(&topology, &TextStyle { width, ..TextStyle::default() }), width);
        }
        check(
            &topology_text(&topology, &TextStyle { width: 0, ..TextStyle::default() }),
            TextStyle::NARROWEST,
        );
    }
    for model in [models::paper(), models::doubtful(), models::uniform(), models::single()] {
        for width in [76, 80, 200] {
            check(&model_text(&model, &TextStyle { width, ..TextStyle::default() }), width);
        }
    }
}

#[test]
fn every_device_is_named() {
    for topology in [machines::dl585(), machines::uniform(), machines::large()] {
        let page = topology_text(&topology, &TextStyle { width: 200, ..TextStyle::default() });
        // Virtual functions without names are told by the first and the last.
        let named = |device: &&Device| device.moves_data() && !device.names.is_empty();
        for device in topology.devices.iter().filter(named) {
            assert!(page.contains(&device.name()), "{}", device.name());
        }
        assert!(!page.contains("0000:20:01.0"), "a bridge is no device for people");
    }
}

#[test]
fn nothing_known_is_a_page_too() {
    check(&topology_text(&Topology::default(), &TextStyle::default()), 100);
}

#[test]
fn models_as_text() {
    let gbit = TextStyle { unit: BandwidthUnit::GigabitsPerS, ..TextStyle::default() };
    for (name, model, style) in [
        ("paper", models::paper(), gbit),
        ("doubtful", models::doubtful(), TextStyle::default()),
        ("uniform", models::uniform(), TextStyle::default()),
        ("single", models::single(), TextStyle::default()),
    ] {
        let page = model_text(&model, &style);
        check(&page, 100);
        expect(&format!("model-{name}.txt"), &page);
    }
}

#[test]
fn colours_change_nothing_else() {
    let style = TextStyle { color: true, ..TextStyle::default() };
    let coloured = model_text(&models::paper(), &style);
    let mut plain = coloured.clone();
    for code in [32, 36, 33, 35, 31, 0] {
        plain = plain.replace(&format!("\x1b[{code}m"), "");
    }
    assert_ne!(plain, coloured);
    assert_eq!(plain, model_text(&models::paper(), &TextStyle::default()));
    // What comes from the machine brings no colour of its own.
    assert!(!model_text(&models::single(), &style).contains("\x1b[31m"));
}

#[test]
fn one_class_of_the_paper_may_still_differ() {
    let mut model = models::uniform();
    let read = &mut model.targets[0].directions[1];
    read.rule = numaio_schema::ClassRule::Paper;
    let page = model_text(&model, &TextStyle::default());
    assert!(page.contains("differ by up to 14.3 %: where buffers lie may matter"), "{page}");
}

/// Of nodes without a figure nobody knows whether they are alike.
#[test]
fn a_model_that_lacks_nodes_concludes_nothing() {
    let mut model = models::uniform();
    let [write, read] = model.targets[0].directions.as_mut_slice() else { panic!("two directions") };
    write.missing = machines::set("1");
    write.nodes.truncate(1);
    write.classes[0].nodes = machines::set("0");
    read.missing = machines::set("2");
    model.targets.truncate(1);
    let mut bundle = Bundle::default();
    bundle.add(Document::Model(Box::new(model.clone()))).unwrap();
    for page in [model_text(&model, &TextStyle::default()), html(&bundle, BandwidthUnit::GigabytesPerS)] {
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            page.contains("Only node 0 has a figure: nothing can be said of where buffers should lie."),
            "{page}"
        );
        assert!(page.contains("All nodes that have a figure reach node 0 alike"), "{page}");
        assert!(!page.contains("does not matter"), "{page}");
    }
}

#[test]
fn the_paper_s_listing() {
    let listing = "\
Node 7 IO model:
CPU Centric levels :
    Class1: 7 6
    Class2: 0 1 4 5
    Class3: 2 3
Memory Centric levels :
    Class1: 7 6
    Class2: 2 3
    Class3: 0 1 5
    Class4: 4
";
    assert_eq!(model_listing(&models::paper()), listing);
}

#[test]
fn a_direction_not_measured_is_not_listed() {
    assert_eq!(model_listing(&models::single()), "Node 0 IO model:\nCPU Centric levels :\n    Class1: 0\n");
    assert_eq!(model_listing(&models::uniform()).matches("\n\nNode 1 IO model:\n").count(), 1);
}

#[test]
fn memcpy_is_named_with_its_library_and_other_loops_are_not() {
    let mut model = models::uniform();
    model.record.method.c_library = Some("glibc\u{1b} 2.36".into());
    let words = |model: &numaio_schema::Model| {
        let page = model_text(model, &TextStyle::default());
        check(&page, 100);
        page.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(words(&model).contains("copy loop avx2 (chosen"), "{}", words(&model));
    model.record.method.copy_loop = numaio_machine::workload::CopyLoop::Memcpy;
    let page = words(&model);
    let name = page.split_once("copy loop memcpy of glibc").expect("the library").1;
    assert!(name.split_once(" 2.36 (chosen").is_some_and(|(mark, _)| mark.chars().count() <= 1), "{page}");
}
