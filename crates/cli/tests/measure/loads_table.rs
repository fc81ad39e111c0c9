//! Fig. 5-4 of Tan Li's dissertation on a simulated machine: bandwidth of a drive by node with 0, 4
//! and 8 STREAM threads on the drive's node.

use crate::support::{expect, Home};
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::workload::{DiskMethod, DiskOrder, DiskPath};
use numaio_measure::engine::Disk;
use numaio_measure::io::{self, IoSelection, Matrix};
use numaio_measure::{IoOptions, Setting, UnderLoad};
use numaio_model::{io_views, ViewSubject};
use numaio_report::{io_loads_text, TextStyle};
use numaio_schema::{IoRecord, Load, MachineSource};
use numaio_sim::{shapes, Simulated};

/// Measures the drive of the simulated DL585. Its memory controllers have 9 GB/s, which eight
/// threads saturate, and node 6 reaches the drive at 96 % of the rates of node 7.
fn measure(load: &str) -> IoRecord {
    let mut spec = shapes::dl585();
    spec.links.iter_mut().for_each(|link| link.bytes_per_s = 9e9);
    for io in spec.devices.iter_mut().filter_map(|device| device.io.as_mut()) {
        io.write.nodes[6] *= 0.96;
        io.read.nodes[6] *= 0.96;
    }
    (spec.noise.sample, spec.noise.run) = (0.01, 0.003);
    let machine = Simulated::new(spec).expect("a machine");
    let topology = discover(&machine.tree());
    let path = DiskPath {
        path: "/dev/nvme0n1".into(),
        offset: 0,
        bytes: 1 << 30,
        method: DiskMethod::Uring,
        direct: true,
        order: DiskOrder::Sequential,
    };
    let loads: [Load; 1] = [load.parse().expect("a load")];
    let under_load = UnderLoad::new(&machine, &topology, &loads).expect("a load");
    let setting = Setting {
        root: &machine,
        probe: &under_load,
        load: Some(&under_load),
        topology: &topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    };
    let found = topology.devices.iter().find(|device| device.has_name("nvme0n1")).expect("the drive");
    let matrix = Matrix { streams: vec![4], ..Matrix::default() };
    let options = IoOptions { what: IoSelection::Matrix(matrix), ..IoOptions::default() };
    let device = io::device(found, None);
    io::run(&setting, &Disk { path }, device, &options, &mut |_| ()).expect("a record")
}

#[test]
fn table_shows_that_the_neighbor_wins_under_load() {
    let records = ["7:0", "7:4", "7:8"].map(measure);
    expect("io-loads-simulated.txt", &io_loads_text(&records, &TextStyle::default()));
    let subject = ViewSubject { machine: "", target: NodeId(7), level: 0.1 };
    let classes = records.each_ref().map(|record| {
        let view = io_views(record, &subject).remove(0);
        let best = &view.classes[0].nodes;
        (view.name, best.contains(NodeId(6)), best.contains(NodeId(7)))
    });
    assert_eq!(classes[0], ("io-disk-nvme0n1-write".into(), true, true), "one class without load");
    assert_eq!(classes[2], ("io-disk-nvme0n1-write-load-7x8".into(), true, false), "two under load");
}

/// Predicts eight threads from four, and compares with the measured value.
#[test]
fn predicts_what_an_unmeasured_load_leaves() {
    let home = Home::new();
    let [idle, four, eight] = ["7:0", "7:4", "7:8"]
        .map(|load| home.document(&format!("{}.json", load.replace(':', "x")), &measure(load)));
    let predict = |from: &[&str]| {
        let args = ["predict", "--device", "nvme0n1", "--mix", "7:4", "--load", "7:8", "--from"];
        home.run(&[&args, from].concat())
    };
    let hint = "hint: run numaio stream, or measure the device under another load";
    predict(&[&idle]).failed(1, &["what the load leaves to node 7 is unknown", hint]);
    expect("predict-load.txt", &predict(&[&idle, &four, &eight]).ok());
}
