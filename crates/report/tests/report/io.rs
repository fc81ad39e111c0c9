//! Reports of measured I/O.

use numaio_machine::devices::Irq;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Identity;
use numaio_machine::units::BandwidthUnit;
use numaio_machine::workload::{Direction, DiskMethod, DiskOrder, StreamGroup};
use numaio_report::{csv, html, io_agreement, io_text, latex, markdown, net_text, Bundle, TextStyle};
use numaio_schema::{
    ClassRepresentative, Document, IoCell, IoDevice, IoEngine, IoMethod, IoRecord, MachineSource, Provenance,
    Reading, Rounds, Summary,
};

use Direction::{Read, Write};

fn reading(gb_per_s: f64) -> Reading {
    let value = gb_per_s * 1e9;
    Reading { visits: Vec::new(), summary: Summary::of(&[value; 6], None), settled: true, failure: None }
}

/// CPU node, buffer node, number of streams, direction.
type Part = (u32, u32, u32, Direction);

fn cell(parts: &[Part], block_bytes: u64, gb_per_s: f64) -> IoCell {
    let group = |(_, memory, streams, direction): &Part| StreamGroup {
        cpus: CpuSet::one(CpuId(0)),
        memory: NodeId(*memory),
        streams: *streams,
        direction: *direction,
        device: 0,
    };
    let part = |_: &Part| Summary::of(&[gb_per_s * 1e9 / parts.len() as f64; 6], None);
    IoCell {
        groups: parts.iter().map(group).collect(),
        cpu_nodes: parts.iter().map(|part| NodeId(part.0)).collect(),
        block_bytes,
        operation: None,
        bytes_per_s: reading(gb_per_s),
        load_bytes_per_s: Vec::new(),
        group_bytes_per_s: if parts.len() > 1 { parts.iter().map(part).collect() } else { Vec::new() },
        cpu_ns_per_byte: Some(0.25),
        remote: None,
    }
}

fn record(cells: Vec<IoCell>) -> IoRecord {
    IoRecord {
        schema: String::new(),
        provenance: Provenance {
            numaio: "0.1.0".into(),
            measured_at: 0,
            machine: Identity::default(),
            source: MachineSource::Simulated,
            conditions: Default::default(),
            warnings: Vec::new(),
            complete: true,
            load: Vec::new(),
        },
        remote: None,
        device: IoDevice {
            name: "nvme0n1".into(),
            model: "A\u{1b}[31mB".into(),
            pci: Some("0000:3b:00.0".into()),
            node: Some(NodeId(7)),
            reached_via: Some("/data".into()),
            irqs: vec![Irq {
                number: 9,
                name: "nvme0q1".into(),
                affinity: CpuSet::one(CpuId(3)),
                effective: Some(CpuSet::one(CpuId(3))),
            }],
        },
        method: IoMethod {
            engine: IoEngine::Disk,
            version: "0.1.0".into(),
            depth: 16,
            disk: Some((DiskMethod::Uring, DiskOrder::Sequential)),
            direct: Some(true),
            area_bytes: Some(1 << 30),
            network: None,
            represented: Vec::new(),
            notes: vec!["without registered buffers".into()],
            rounds: Rounds { precision: 0.02, time_limit_s: 300.0, elapsed_s: 12.0, seed: 1, rounds: 6 },
        },
        cells,
    }
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

#[test]
fn table_of_nodes_and_streams_with_savings_and_cpu_time() {
    let mut cells = Vec::new();
    for (node, gb) in [(0, 1.5), (7, 3.0)] {
        cells.extend(
            [1, 4].map(|streams| cell(&[(node, node, streams, Write)], 128 << 10, gb * f64::from(streams))),
        );
    }
    let mut record = record(cells);
    let nodes = [6, 7].map(NodeId).to_vec();
    record.method.represented = vec![ClassRepresentative { direction: Write, node: NodeId(7), nodes }];
    record.cells[1].bytes_per_s.settled = false;
    let style = TextStyle { color: true, ..TextStyle::default() };
    let text = io_text(&record, &[Some(2), Some(2), Some(1), Some(1)], &TextStyle::default());
    has(
        &text,
        &[
            "I/O of nvme0n1 via /data on",
            "io_uring, O_DIRECT, sequential blocks",
            "0000:3b:00.0, node 7, 1 interrupt on CPUs 3",
            "Note: without registered buffers",
            "Device write, blocks of 128 KiB: median in GB/s by node (rows) and number of streams",
            "  NODE     1      4\n     0  1.50  *6.00\n     7  3.00  12.00\n",
            "Node 7 represents 6 (one class of the model).",
            "4 cells of 6 measured, 33 % saved",
            "CPU time per GB moved (10^9 bytes): median 0.250 s",
        ],
    );
    assert!(!text.contains('\u{1b}'), "no escape codes without color");
    assert!(
        io_text(&record, &[Some(2), None, Some(1), None], &style).contains('\u{1b}'),
        "classes have colors"
    );
}

#[test]
fn remote_buffers_and_block_sizes_have_columns() {
    let pairs = [(0, 0, 4.0), (0, 7, 2.0)].map(|(cpu, memory, gb)| cell(&[(cpu, memory, 1, Read)], 4096, gb));
    let text = io_text(&record(pairs.to_vec()), &[], &TextStyle::default());
    has(&text, &["  CPU NODE  BUFFERS     1\n         0        0  4.00\n         0        7  2.00\n"]);
    let blocks = [4096u64, 1 << 20].map(|block| cell(&[(0, 0, 2, Read)], block, 1.0));
    let text = io_text(&record(blocks.to_vec()), &[], &TextStyle::default());
    has(
        &text,
        &["Device read, 2 streams: median in GB/s by node (rows) and block size", "NODE  4 KiB  1 MiB"],
    );
}

#[test]
fn mixes_list_total_and_parts() {
    let both = cell(&[(0, 0, 1, Write), (0, 0, 1, Read)], 4096, 5.0);
    let mix = cell(&[(2, 2, 2, Read), (0, 0, 1, Read)], 4096, 3.0);
    let large = cell(&[(1, 1, 1, Read)], 1 << 20, 1.0);
    let mut failed = cell(&[(1, 1, 1, Read)], 4096, 1.0);
    failed.bytes_per_s =
        Reading { summary: None, failure: Some("device removed".into()), settled: false, visits: Vec::new() };
    let text = io_text(&record(vec![both, mix, large, failed]), &[], &TextStyle::default());
    has(
        &text,
        &[
            "Device write, device read, and BOTH at the same time: median in GB/s",
            "  NODE  BOTH  BOTH: WRITE  BOTH: READ\n     0  5.00         2.50        2.50\n",
            "2 streams of device read on node 2 + 1 stream of device read on node 0",
            "1.50 + 1.50",
            "No value for 1 stream of device read on node 1 (4 KiB): device removed",
        ],
    );
}

#[test]
fn all_report_formats_include_measured_io() {
    let mix = cell(&[(2, 2, 2, Read), (0, 0, 1, Read)], 4096, 3.25);
    let mut failed = cell(&[(1, 1, 1, Read)], 4096, 1.0);
    failed.bytes_per_s =
        Reading { summary: None, failure: Some("device removed".into()), settled: false, visits: Vec::new() };
    let mut bundle = Bundle::default();
    let record = record(vec![cell(&[(7, 7, 4, Write)], 128 << 10, 12.5), mix, failed]);
    bundle.add(Document::Io(Box::new(record))).expect("it has a place");
    let unit = BandwidthUnit::default();
    let texts = [html(&bundle, unit), latex(&bundle, unit), markdown(&bundle, unit)];
    for text in &texts {
        let parts = ["nvme0n1", "12.50", "4 streams of device write on node 7", "3.25", "device removed"];
        has(text, &parts);
    }
    has(&texts[2], &["### Measured I/O", "| 1.62 + 1.62 |"]);
    let csv = csv(&bundle).expect("CSV");
    let line = csv.lines().find(|line| line.contains("device write")).expect("a line");
    has(line, &[",io,", "nvme0n1 via /data with disk", "131072", ",7,7,0,7,,bytes_per_s,12500000000"]);
    assert_eq!(csv.lines().filter(|line| line.contains(",io,")).count(), 3, "{csv}");
    let part = csv.lines().find(|line| line.contains(",io-part,")).expect("a part of the mix");
    has(part, &["2 streams of device read on node 2 of 2 streams", ",2,0,2,,bytes_per_s,1625000000"]);
}

#[test]
fn both_directions_at_once_are_beside_each_alone() {
    let alone = |direction, gb| cell(&[(0, 0, 2, direction)], 4096, gb);
    let single = cell(&[(7, 7, 2, Read)], 4096, 9.0);
    let both = cell(&[(0, 0, 2, Write), (0, 0, 2, Read)], 4096, 5.0);
    let mut record = record(vec![alone(Write, 3.0), alone(Read, 4.0), single, both]);
    let text = io_text(&record, &[], &TextStyle::default());
    let titles = "  NODE  WRITE  READ  BOTH  BOTH: WRITE  BOTH: READ\n";
    has(&text, &[&format!("{titles}     0   3.00  4.00  5.00         2.50        2.50\n")]);
    assert_eq!(text.matches("9.00").count(), 1, "only nodes with both directions have a row: {text}");
    let style = TextStyle::default();
    let table = |record: &IoRecord| {
        let text = net_text(record, &style);
        text[text.find("Both directions at once").expect("a table")..].to_owned()
    };
    let words: Vec<String> = table(&record).split_whitespace().map(str::to_owned).collect();
    has(&words.join(" "), &["SENT RECEIVED SENT ALONE RECEIVED ALONE", " 2.50 2.50 3.00 4.00 "]);
    record.cells.remove(1);
    assert!(!table(&record).contains("RECEIVED ALONE"), "a rate that was not measured has no column");
}

#[test]
fn engines_are_compared_on_common_cells() {
    let ours = record(vec![cell(&[(0, 0, 1, Read)], 4096, 2.0), cell(&[(1, 1, 1, Read)], 4096, 2.0)]);
    let mut fio = record(vec![cell(&[(0, 0, 1, Read)], 4096, 4.0)]);
    (fio.method.engine, fio.method.version) = (IoEngine::Fio, "fio-3.33".into());
    let text = io_agreement(&ours, &fio, &TextStyle::default());
    assert_eq!(text, "built-in disk 0.1.0 / fio-3.33, over 1 cell: median 0.500, from 0.500 to 0.500\n");
    assert_eq!(io_agreement(&ours, &record(Vec::new()), &TextStyle::default()), "");
}
