//! Campaigns of several devices on a simulated machine.

use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::{Direction, DiskMethod, DiskOrder, DiskPath, IoPath};
use numaio_measure::engine::Several;
use numaio_measure::io::{device, Placements};
use numaio_measure::{aggregate, AggregateOptions, CampaignError, IoOptions, Setting};
use numaio_schema::{AggregateRecord, IoCell, IoDevice, IoEngine, MachineSource};
use numaio_sim::{shapes, Simulated, Spec};

/// The machine of Li et al. with a second drive, on node 3. Links carry `factor` drives.
fn spec(gb_per_s: f64) -> Spec {
    let mut spec = shapes::dl585();
    let drive = spec.devices.iter().find(|device| device.names.contains(&"nvme0n1".to_owned()));
    let mut second = drive.cloned().expect("a drive");
    second.names = vec!["nvme9n1".into()];
    second.pci = "0000:aa:00.0".parse().expect("an address");
    second.node = Some(NodeId(3));
    spec.devices.push(second);
    spec.links.iter_mut().for_each(|link| link.bytes_per_s = gb_per_s * 1e9);
    spec
}

fn path(name: &str) -> IoPath {
    IoPath::Disk(DiskPath {
        path: format!("/dev/{name}"),
        offset: 0,
        bytes: 1 << 30,
        method: DiskMethod::Uring,
        direct: true,
        order: DiskOrder::Sequential,
    })
}

fn measure(spec: &Spec, nodes: &[u32], own_nodes: bool) -> Result<AggregateRecord, CampaignError> {
    let machine = Simulated::new(spec.clone()).expect("a machine");
    let topology = discover(&machine.tree());
    let setting = Setting {
        root: &machine,
        probe: &machine,
        load: None,
        topology: &topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    };
    let names = ["nvme0n1", "nvme9n1"];
    let found = |name: &str| topology.devices.iter().find(|device| device.has_name(name)).expect("a drive");
    let devices: Vec<IoDevice> = names.iter().map(|name| device(found(name), None)).collect();
    let engine = Several { engine: IoEngine::Disk, paths: names.iter().map(|name| path(name)).collect() };
    let options = AggregateOptions {
        places: Placements::Local(nodes.iter().copied().map(NodeId).collect::<NodeSet>()),
        own_nodes,
        directions: vec![Direction::Read],
        streams: vec![4],
        io: IoOptions::default(),
    };
    aggregate::run(&setting, &engine, devices, &options, &mut |_| ())
}

fn median(cell: &IoCell) -> f64 {
    cell.bytes_per_s.median().expect("a figure")
}

#[test]
fn each_device_is_measured_alone_and_with_the_others() {
    let record = measure(&spec(100.0), &[0, 7], true).expect("a record");
    let aggregates: Vec<&IoCell> = record.aggregates().collect();
    let places: Vec<Vec<NodeId>> = aggregates.iter().map(|cell| cell.cpu_nodes.clone()).collect();
    let node = |id: u32| NodeId(id);
    assert_eq!(places, [vec![node(7), node(3)], vec![node(0); 2], vec![node(7); 2]], "own nodes first");
    // Drive 0 alone on node 7 belongs to two rows, and is measured once.
    assert_eq!(record.cells.len(), 3 + 5, "{:?}", record.cells);
    for cell in aggregates {
        let share = record.share_of_sum(cell).expect("a share");
        assert!((share - 1.0).abs() < 0.05, "nothing is shared: {share}");
        assert_eq!(cell.group_bytes_per_s.len(), 2);
        assert!((0..2).all(|index| record.alone(cell, index).is_some()));
    }
}

#[test]
fn devices_share_what_limits_both() {
    let record = measure(&spec(3.0), &[0], false).expect("a record");
    let [cell] = record.aggregates().collect::<Vec<_>>()[..] else { panic!("one row") };
    let share = record.share_of_sum(cell).expect("a share");
    let sum: f64 = (0..2).filter_map(|index| record.alone(cell, index)).map(median).sum();
    assert!(share < 0.8 && (median(cell) / sum - share).abs() < 1e-9, "{share}: {record:?}");
}

#[test]
fn invalid_nodes_and_no_devices_are_errors() {
    assert!(matches!(measure(&spec(3.0), &[99], false), Err(CampaignError::UnknownNode { .. })));
}
