//! Complete text pages, compared with stored output.

#![allow(clippy::unwrap_used)]

use crate::common::{expect, machines, models};
use numaio_machine::devices::{Device, DeviceKind};
use numaio_machine::findings::{Finding, Severity};
use numaio_machine::topology::Topology;
use numaio_machine::units::BandwidthUnit;
use numaio_model::BandwidthEvidence;
use numaio_report::{
    html, model_listing, model_text, overview_text, topology_text, verdict, Bundle, Detail, TextStyle,
};
use numaio_schema::{Document, MachineExpectation, Model, Warning, THROTTLED};
use unicode_width::UnicodeWidthStr;

/// What a machine is expected to transfer without measurements.
fn unmeasured() -> MachineExpectation {
    MachineExpectation::default()
}

/// What a machine is expected to transfer by a model.
fn expected(topology: &Topology, model: &Model) -> MachineExpectation {
    numaio_model::expect_machine(BandwidthEvidence { topology, models: &[model], records: &[] })
}

/// Checks that no line is too wide or ends with a blank, and that there are no control characters.
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
fn topologies_match_stored_output() {
    for (name, topology) in all() {
        let page = topology_text(&topology, &unmeasured(), Detail::Complete, &TextStyle::default());
        check(&page, 100);
        expect(&format!("topology-{name}.txt"), &page);
    }
}

/// A server with 8 GPUs, 10 network interfaces and 8 drives, half of them on each node.
fn many_devices() -> Topology {
    let nodes = vec![machines::node(0, "0-31", &[0], 512), machines::node(1, "32-63", &[1], 512)];
    let mut topology = machines::machine("Server", "gpu8", "CPU", nodes, 32 << 20);
    let kinds =
        [(DeviceKind::Gpu, "cuda:", 8), (DeviceKind::Network, "ens", 10), (DeviceKind::Nvme, "nvme", 8)];
    for (kind, name, count) in kinds {
        for index in 0..count {
            let pci = format!("0000:{}{index}:00.0", name.len());
            let device = machines::device(kind, &format!("{name}{index}"), &pci, Some(index * 2 / count));
            topology.devices.push(Device { link: machines::link(32.0, 16, 32.0, 16), ..device });
        }
    }
    let finding = |severity, rule: &str, subject: &str| {
        Finding::new(
            severity,
            rule,
            subject,
            format!("Message of {rule}."),
            "evidence ".repeat(30),
            "Remedy.",
        )
    };
    let interfaces =
        (0..10).map(|index| finding(Severity::Warning, "irq-foreign-node", &format!("ens{index}")));
    topology.findings = interfaces.collect();
    topology.findings.push(finding(Severity::Warning, "numa-balancing", "machine"));
    topology.findings.push(finding(Severity::Note, "cache-domains", "nodes 0-1"));
    topology
}

#[test]
fn pages_of_many_devices_fit_a_screen_and_begin_with_kinds_and_warnings() {
    let topology = many_devices();
    for width in [80, 120] {
        let style = TextStyle { width, ..TextStyle::default() };
        let page = |detail| topology_text(&topology, &unmeasured(), detail, &style);
        let screen = page(Detail::Screen);
        check(&screen, width);
        assert!(screen.lines().count() <= 40, "{screen}");
        let first: String = screen.lines().take(10).collect::<Vec<_>>().join("\n");
        for expected in
            ["4 GPUs", "5 NICs", "4 NVMe", "irq-foreign-node", "numa-balancing", "2 warnings, 1 note"]
        {
            assert!(first.contains(expected), "{expected}: {screen}");
        }
        assert!(topology.devices.iter().all(|device| screen.contains(&device.name())), "{screen}");
        assert!(!screen.contains("Remedy.") && screen.contains("topology --all"), "{screen}");
        assert!(page(Detail::Complete).contains("Remedy."));
    }
    let small = machines::vm();
    let style = TextStyle::default();
    let page = |detail| topology_text(&small, &unmeasured(), detail, &style);
    assert_eq!(page(Detail::Screen), page(Detail::Complete), "a short page is complete");
}

#[test]
fn overviews_name_a_device_and_fit_a_screen() {
    for (name, topology) in all() {
        for width in [80, 100] {
            check(
                &overview_text(&topology, &unmeasured(), &TextStyle { width, ..TextStyle::default() }),
                width,
            );
        }
        let page = overview_text(&topology, &unmeasured(), &TextStyle::default());
        assert!(page.contains("numaio help"), "{name}: {page}");
    }
    let page = overview_text(&machines::dl585(), &unmeasured(), &TextStyle::default());
    assert!(page.contains("numaio model ") && page.contains("numaio run --near "), "{page}");
    assert!(page.lines().count() <= 30, "{page}");
    let page = overview_text(
        &machines::dl585(),
        &expected(&machines::dl585(), &models::paper()),
        &TextStyle::default(),
    );
    assert!(!page.contains("numaio model "), "measured already: {page}");
    let page = overview_text(&machines::vm(), &unmeasured(), &TextStyle::default());
    assert!(page.contains("equally near") && !page.contains("--near"), "{page}");
}

#[test]
fn pages_fit_any_width() {
    for (_, topology) in all() {
        for width in [76, 80, 133, 200] {
            check(
                &topology_text(
                    &topology,
                    &unmeasured(),
                    Detail::Complete,
                    &TextStyle { width, ..TextStyle::default() },
                ),
                width,
            );
        }
        check(
            &topology_text(
                &topology,
                &unmeasured(),
                Detail::Complete,
                &TextStyle { width: 0, ..TextStyle::default() },
            ),
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
fn all_devices_are_named() {
    for topology in [machines::dl585(), machines::uniform(), machines::large()] {
        let page = topology_text(
            &topology,
            &unmeasured(),
            Detail::Complete,
            &TextStyle { width: 200, ..TextStyle::default() },
        );
        // Of virtual functions without names, only the first and last are listed.
        let named = |device: &&Device| device.moves_data() && !device.names.is_empty();
        for device in topology.devices.iter().filter(named) {
            assert!(page.contains(&device.name()), "{}", device.name());
        }
        assert!(!page.contains("0000:20:01.0"), "bridges are not listed");
    }
}

#[test]
fn an_empty_topology_is_a_valid_page() {
    check(&topology_text(&Topology::default(), &unmeasured(), Detail::Complete, &TextStyle::default()), 100);
}

#[test]
fn models_match_stored_output() {
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
fn color_changes_only_escape_codes() {
    let style = TextStyle { color: true, ..TextStyle::default() };
    let coloured = model_text(&models::paper(), &style);
    let mut plain = coloured.clone();
    for code in [1, 32, 36, 33, 35, 31, 0] {
        plain = plain.replace(&format!("\x1b[{code}m"), "");
    }
    assert_ne!(plain, coloured);
    assert_eq!(plain, model_text(&models::paper(), &TextStyle::default()));
    // Names from the machine cannot add colors.
    assert!(!model_text(&models::single(), &style).contains("\x1b[31m"));
}

#[test]
fn nodes_of_one_paper_class_may_differ() {
    let mut model = models::uniform();
    let read = &mut model.targets[0].directions[1];
    read.rule = numaio_schema::ClassRule::Paper;
    let page = model_text(&model, &TextStyle::default());
    assert!(page.contains("differ by up to 14.3 %: buffer placement may matter"), "{page}");
}

/// Whether nodes without a value have the same bandwidth is unknown.
#[test]
fn a_model_with_missing_nodes_has_no_conclusion() {
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
            page.contains("Only node 0 has a value: no placement of buffers can be recommended."),
            "{page}"
        );
        assert!(page.contains("All measured nodes have the same bandwidth with node 0"), "{page}");
        assert!(!page.contains("does not matter"), "{page}");
    }
}

#[test]
fn listing_matches_the_paper() {
    let listing = "\
8 nodes available
32 CPUs available
Number of element in tested matrix = 21845333
Required memory size=524288000
Number of Threads used in this profiling = 4
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
    let mut model = models::paper();
    model.record.method.bytes_per_thread = vec![(numaio_machine::ids::NodeId(7), 524_288_000 / 8)];
    assert_eq!(model_listing(&model, Some(&machines::dl585())), listing);
}

#[test]
fn listing_omits_unmeasured_directions_and_unknown_counts() {
    let listing = "\
Number of element in tested matrix = 22369621
Required memory size=536870912
Number of Threads used in this profiling = 4
Node 0 IO model:
CPU Centric levels :
    Class1: 0
";
    assert_eq!(model_listing(&models::single(), None), listing, "a file has no topology");
    let uniform = model_listing(&models::uniform(), Some(&machines::uniform()));
    assert_eq!(uniform.matches("\n\n2 nodes available\n").count(), 1, "a header for each target: {uniform}");
}

#[test]
fn only_memcpy_is_named_with_its_library() {
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

#[test]
fn verdict_names_the_nodes_to_use_and_to_avoid() {
    let topology = machines::dl585();
    let with = verdict(&topology, &expected(&topology, &models::paper())).expect("a verdict");
    assert!(with.contains("on node 7: write from"), "{with}");
    assert!(with.contains(", never from 2-3"), "{with}");
    let without = verdict(&topology, &unmeasured()).expect("a verdict");
    assert!(without.contains("; numaio model measures which"), "{without}");
    let mut throttled = models::paper();
    throttled.record.provenance.warnings.push(Warning { rule: THROTTLED.to_owned(), message: String::new() });
    assert_eq!(verdict(&topology, &expected(&topology, &throttled)).as_ref(), Some(&without));
    assert_eq!(verdict(&machines::vm(), &unmeasured()), None, "one node");
}

/// Ports of 20 Gbit/s, below the slowest paths: 26.0 Gbit/s to node 7 and 27.9 from it.
#[test]
fn verdict_states_that_nodes_do_not_differ_for_slow_devices() {
    let mut topology = machines::dl585();
    let port = topology.devices.iter().find(|device| device.has_name("eth2")).expect("a port").clone();
    topology.devices = ["eth0", "eth1"]
        .map(|name| Device {
            names: vec![name.into()],
            path: format!("/sys/devices/{name}"),
            pci: None,
            link: None,
            upstream: Vec::new(),
            port_bits_per_s: Some(20_000_000_000),
            ..port.clone()
        })
        .to_vec();
    let of =
        |topology: &Topology| verdict(topology, &expected(topology, &models::paper())).expect("a verdict");
    assert_eq!(
        of(&topology),
        "eth0, eth1 are on node 7: no difference in bandwidth expected (at most 2.50 GB/s each, the slowest path 3.25); \
         all 2 at once: 35 % less on node 3"
    );
    topology.devices.truncate(1);
    assert_eq!(
        of(&topology),
        "eth0 is on node 7: no difference in bandwidth expected (at most 2.50 GB/s, the slowest path 3.25)"
    );
    topology.devices[0].port_bits_per_s = None;
    let of_unknown = of(&topology);
    assert!(of_unknown.contains(": by the paths alone (limit unknown), write from"), "{of_unknown}");
}

#[test]
fn brief_topology_has_a_line_for_each_finding() {
    let style = TextStyle { width: 200, ..TextStyle::default() };
    let topology = machines::dl585();
    let (brief, complete) = (
        topology_text(&topology, &unmeasured(), Detail::Brief, &style),
        topology_text(&topology, &unmeasured(), Detail::Complete, &style),
    );
    assert!(brief.lines().count() * 2 < complete.lines().count(), "{brief}");
    assert!(!brief.contains("remedy:") && brief.contains("Findings: "), "{brief}");
}
