//! Pages interleaved over a CXL node and node 0: the arithmetic of shares, on a published set.

use crate::machine::{io_record, model, topology};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::Direction;
use numaio_model::{expect_bandwidth, BandwidthEvidence, BandwidthSubject};

/// `gpu-by-cxl-node.json`: GB/s of one GPU with node 0, of two GPUs together with the CXL node, and
/// of each of two GPUs with pages 1:1, 1:2, 1:3 and 1:4 on node 0 and the CXL node.
const H2D: (f64, f64, [f64; 4]) = (55.579, 53.4, [53.205, 39.971, 35.535, 33.323]);
const D2H: (f64, f64, [f64; 4]) = (55.498, 37.764, [36.984, 28.566, 25.468, 23.928]);
/// The shares of the pages that are on the CXL node.
const SHARES: [f64; 4] = [1.0 / 2.0, 2.0 / 3.0, 3.0 / 4.0, 4.0 / 5.0];

/// Returns what one of two GPUs gets of a path that carries a share of its bytes.
fn of_two(direction: Direction, device: f64, path: f64, share: f64) -> f64 {
    let names = ["device".to_owned(), "beside".to_owned()];
    let machine = topology(2, 1, &names, 0);
    // Node 1 stands for the mix: its path is exhausted when the CXL node's share of it is.
    let of = |source: u32, sink: u32| Some(if source == sink { 200e9 } else { path * 1e9 / share });
    let paths = model(&machine, 0, of);
    let records = names.each_ref().map(|name| io_record(name, 0, 0, direction, device * 1e9));
    let evidence = BandwidthEvidence {
        topology: &machine,
        models: &[&paths],
        records: &records.iter().collect::<Vec<_>>(),
    };
    let subject = BandwidthSubject::of(&machine.devices[0], &names[0]);
    let found = expect_bandwidth(evidence, subject, direction, &[&machine.devices[1]]);
    found.of(NodeId(1)).expect("a bound").bytes_per_s / 1e9
}

#[test]
fn two_gpus_share_the_path_of_interleaved_pages_within_2_percent() {
    for (direction, (device, path, observed)) in [(Direction::Write, H2D), (Direction::Read, D2H)] {
        for (share, observed) in SHARES.into_iter().zip(observed) {
            let off = observed / of_two(direction, device, path, share) - 1.0;
            assert!(off.abs() <= 0.021, "{direction:?}, {share:.2}: off by {off:.3}");
        }
    }
}
