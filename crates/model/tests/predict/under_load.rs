//! Predictions under load, compared with I/O that is measured under this load.

use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{Direction, DiskMethod, DiskOrder, DiskPath};
use numaio_measure::engine::Disk;
use numaio_measure::io::{self, IoSelection, Matrix, Placements};
use numaio_measure::{stream, IoOptions, Setting, StreamOptions, UnderLoad};
use numaio_model::{
    capacities, find_mix_under_load, predict_under_load, CapacityInputs, DeviceFit, LoadInputs, PredictError,
};
use numaio_schema::{IoRecord, Load, LoadBasis, LoadedPrediction, MachineSource, NodeStreams, StreamRecord};
use numaio_sim::{shapes, Simulated};

/// A simulated DL585 whose memory controllers have a bandwidth, with little noise.
fn machine(gigabytes_per_s: f64) -> Simulated {
    let mut spec = shapes::dl585();
    spec.links.iter_mut().for_each(|link| link.bytes_per_s = gigabytes_per_s * 1e9);
    (spec.noise.sample, spec.noise.run) = (0.01, 0.003);
    Simulated::new(spec).expect("a machine")
}

fn loads(text: &str) -> Vec<Load> {
    text.split(',').map(|load| load.parse().expect("a load")).collect()
}

/// Measures something on a machine under loads.
fn beside<T>(machine: &Simulated, text: &str, measure: impl FnOnce(&Setting, &Topology) -> T) -> T {
    let topology = discover(&machine.tree());
    let under_load = UnderLoad::new(machine, &topology, &loads(text)).expect("loads");
    let setting = Setting {
        root: machine,
        probe: &under_load,
        load: Some(&under_load),
        topology: &topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    };
    measure(&setting, &topology)
}

/// Measures device writes of the drive on node 7 with 2 and 4 streams of nodes 6 and 7.
fn drive(machine: &Simulated, text: &str) -> IoRecord {
    beside(machine, text, |setting, topology| {
        let path = DiskPath {
            path: "/dev/nvme0n1".into(),
            offset: 0,
            bytes: 1 << 30,
            method: DiskMethod::Uring,
            direct: true,
            order: DiskOrder::Sequential,
        };
        let nodes = NodeSet::from_iter([NodeId(6), NodeId(7)]);
        let matrix = Matrix {
            streams: vec![2, 4],
            places: Placements::Local(nodes),
            directions: vec![Direction::Write],
            ..Matrix::default()
        };
        let options = IoOptions { what: IoSelection::Matrix(matrix), ..IoOptions::default() };
        let found = topology.devices.iter().find(|device| device.has_name("nvme0n1")).expect("the drive");
        io::run(setting, &Disk { path }, io::device(found, None), &options, &mut |_| ()).expect("a record")
    })
}

fn stream_record(machine: &Simulated) -> StreamRecord {
    let options = StreamOptions { around: NodeSet::one(NodeId(7)), ..StreamOptions::default() };
    beside(machine, "7:0", |setting, _| stream::run(setting, &options, &mut |_| ()).expect("a record"))
}

fn fit(idle: &IoRecord) -> DeviceFit {
    let inputs = CapacityInputs {
        records: &[idle],
        model: None,
        link_bytes_per_s: None,
        direction: Direction::Write,
        operation: None,
        memory_only: &NodeSet::new(),
    };
    capacities(&inputs, &[]).expect("a fit")
}

fn mix(streams: u32) -> [NodeStreams; 1] {
    [NodeStreams { node: NodeId(7), streams }]
}

/// Predicts streams of node 7 under a load from measurements under other loads.
fn predicted(
    fit: &DeviceFit,
    streams: u32,
    load: &str,
    others: &[&IoRecord],
    stream: &[StreamRecord],
) -> Result<LoadedPrediction, PredictError> {
    let inputs = LoadInputs { loads: &loads(load), loaded: others, streams: stream };
    predict_under_load(fit, &mix(streams), &inputs)
}

/// Returns the relative error of a prediction, and whether its interval contains the measured
/// value.
fn compare(fit: &DeviceFit, predicted: &LoadedPrediction, truth: &IoRecord) -> (f64, bool) {
    let streams = &predicted.mix.streams;
    let reading =
        find_mix_under_load(&[truth], &fit.capacities, streams, &predicted.loads).expect("measured");
    let measured = reading.median().expect("a value");
    let limits = predicted.mix.limits;
    let holds = limits.low <= measured * 1.01 && measured * 0.99 <= limits.high;
    ((limits.bytes_per_s / measured - 1.0).abs(), holds)
}

/// From one measured load to others: between and beyond the numbers of threads, for controllers
/// that few and many threads saturate.
#[test]
fn one_measured_load_predicts_others_within_their_intervals() {
    let mut errors = Vec::new();
    for gigabytes_per_s in [6.0, 8.0, 9.0, 11.0, 14.0] {
        let machine = machine(gigabytes_per_s);
        let idle = drive(&machine, "7:0");
        let fit = fit(&idle);
        let measured = ["7:2", "7:4", "7:6", "7:8"].map(|load| (load, drive(&machine, load)));
        for (known_load, known) in &measured {
            for (load, truth) in measured.iter().filter(|(load, _)| load != known_load) {
                for streams in [2, 4] {
                    let found = predicted(&fit, streams, load, &[known], &[]).expect("a prediction");
                    let (error, holds) = compare(&fit, &found, truth);
                    errors.push((error, holds));
                }
            }
        }
    }
    let held = errors.iter().filter(|(_, holds)| *holds).count();
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: f64| errors[((errors.len() - 1) as f64 * share) as usize].0;
    assert!(at(0.5) <= 0.03 && held * 10 >= errors.len() * 9, "median {}, {held} held", at(0.5));
}

#[test]
fn stream_bandwidth_bounds_what_an_unmeasured_load_leaves() {
    for gigabytes_per_s in [6.0, 9.0, 14.0] {
        let machine = machine(gigabytes_per_s);
        let fit = fit(&drive(&machine, "7:0"));
        let stream = [stream_record(&machine)];
        for load in ["7:2", "7:8"] {
            let found = predicted(&fit, 4, load, &[], &stream).expect("a prediction");
            assert_eq!(found.nodes[0].basis, LoadBasis::Stream);
            let (error, holds) = compare(&fit, &found, &drive(&machine, load));
            assert!(holds, "{gigabytes_per_s} GB/s, {load}: {error}: {:?}", found.mix.limits);
        }
    }
}

#[test]
fn load_elsewhere_changes_nothing_and_an_unknown_one_is_an_error() {
    let machine = machine(9.0);
    let idle = drive(&machine, "7:0");
    let fit = fit(&idle);
    let elsewhere = predicted(&fit, 4, "0:8", &[], &[]).expect("a prediction");
    assert_eq!(elsewhere.nodes[0].basis, LoadBasis::Unloaded);
    assert_eq!(elsewhere.nodes[0].loaded, elsewhere.nodes[0].unloaded);
    assert_eq!(
        predicted(&fit, 4, "7:8", &[], &[]),
        Err(PredictError::LoadUnknown { node: NodeId(7) }),
        "nothing is known about the node's memory"
    );
    let record = drive(&machine, "7:8");
    let same = predicted(&fit, 4, "7:8", &[&record], &[]).expect("a prediction");
    assert_eq!(same.nodes[0].basis, LoadBasis::Measured);
}
