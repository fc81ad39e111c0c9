//! STREAM and latency on the simulated machine, computed by hand from `shapes::uniform(2, 4)`:
//! local memory loads and stores at 40 GB/s, its controller 100 of both; remote loads run at 24 and
//! remote stores at 16; a core copies 10, remotely 6; a load takes 90 ns, remotely 180.

use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{ProbeError, ProbeExt};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{
    LatencyWorkload, LoadWorkload, Pages, Placement, Sampling, StreamLoop, StreamOp, StreamWorkload,
};
use numaio_sim::{shapes, Simulated};

fn machine() -> Simulated {
    Simulated::new(shapes::uniform(2, 4)).expect("a machine")
}

fn placement(cpus: &str) -> Placement {
    Placement { cpus: CpuSet::parse_list(cpus).expect(cpus) }
}

fn stream(op: StreamOp, memory: u32, cpus: &str) -> StreamWorkload {
    StreamWorkload {
        op,
        stream_loop: StreamLoop::Avx2,
        memory: NodeId(memory),
        placement: placement(cpus),
        bytes_per_array: 32 << 20,
        pages: Pages::Transparent,
        sampling: Sampling::Window { milliseconds: 100, slices: 5 },
    }
}

fn chase(memory: u32, load: Option<LoadWorkload>) -> LatencyWorkload {
    LatencyWorkload {
        cpu: CpuId(0),
        memory: NodeId(memory),
        bytes: 64 << 20,
        stride_bytes: 256,
        pages: Pages::Transparent,
        milliseconds: 50,
        slices: 5,
        load,
    }
}

fn load(cpus: &str, memory: u32, gap_ns: u32) -> Option<LoadWorkload> {
    let (placement, memory) = (placement(cpus), NodeId(memory));
    Some(LoadWorkload { placement, memory, bytes_per_thread: 8 << 20, gap_ns })
}

fn close(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 1e-3, "{a} is not {b}");
}

#[test]
fn stream_rates_follow_from_paths() {
    let machine = machine();
    let of = |stream: &StreamWorkload| {
        let outcome = machine.stream(stream).expect("it runs");
        let samples: Vec<f64> = outcome.samples.iter().map(|sample| sample.bytes_per_s() / 1e9).collect();
        assert_eq!(samples.len(), 5);
        close(samples[0] * 1e9, machine.stream_truth(stream).expect("it runs"));
        samples[0]
    };
    close(of(&stream(StreamOp::Copy, 0, "0")), 20.0);
    close(of(&stream(StreamOp::Copy, 0, "0-3")), 80.0);
    close(of(&stream(StreamOp::Copy, 1, "0-3")), 32.0); // half of it is stored, at 16
    close(of(&stream(StreamOp::Triad, 1, "0-3")), 36.0); // two thirds are loaded, at 24
    let ordinary = StreamWorkload { stream_loop: StreamLoop::Ordinary, ..stream(StreamOp::Triad, 1, "0-3") };
    close(of(&ordinary), 24.0); // and the stored third is loaded first
}

#[test]
fn repetitions_of_stream_count_every_array() {
    let sampling = Sampling::Repetitions { count: 3 };
    let outcome = machine().stream(&StreamWorkload { sampling, ..stream(StreamOp::Add, 0, "0-1") });
    let samples = outcome.expect("it runs").samples;
    assert_eq!(samples.len(), 3);
    assert_eq!(samples[0].bytes, 3 * 2 * (32 << 20));
    close(samples[0].bytes_per_s(), 40e9);
}

#[test]
fn latency_grows_remotely_on_base_pages_and_under_load() {
    let machine = machine();
    let of = |latency: &LatencyWorkload| {
        let outcome = machine.latency(latency).expect("it runs");
        assert_eq!((outcome.samples.len(), outcome.load.is_some()), (5, latency.load.is_some()));
        (outcome.samples[0].ns_per_load(), outcome.load.map_or(0.0, |load| load.bytes_read_per_s() / 1e9))
    };
    close(of(&chase(0, None)).0, 90.0);
    close(of(&chase(1, None)).0, 180.0);
    close(of(&LatencyWorkload { pages: Pages::Base, ..chase(0, None) }).0, 112.5);
    // Three threads at 4 KiB in 341 ns and a gap of 4,096.
    let (ns, gb_per_s) = of(&chase(1, load("1-3", 1, 4096)));
    close(gb_per_s, 3.0 * 4.096 / 4.437_33);
    let used = gb_per_s / 24.0;
    close(ns, 180.0 * (1.0 + 0.5 * used / (1.0 - used)));
    // Without gaps they saturate the path; on another path they add no latency.
    let (ns, gb_per_s) = of(&chase(1, load("1-3", 1, 0)));
    close(gb_per_s, 24.0);
    close(ns, 180.0 * 10.5);
    close(of(&chase(0, load("4-6", 1, 0))).0, 90.0);
}

#[test]
fn rejects_invalid_workloads() {
    let machine = machine();
    let stream_fails = |stream: StreamWorkload| machine.stream(&stream).expect_err("it cannot run");
    let chase_fails = |latency: LatencyWorkload| machine.latency(&latency).expect_err("it cannot run");
    let avx512 = StreamWorkload { stream_loop: StreamLoop::Avx512, ..stream(StreamOp::Copy, 0, "0") };
    assert!(matches!(stream_fails(avx512), ProbeError::Unsupported { .. }));
    let long = StreamWorkload { bytes_per_array: 6 << 30, ..stream(StreamOp::Add, 0, "0") };
    assert!(matches!(stream_fails(long), ProbeError::NoMemory { needed_bytes: 19327352832, .. }));
    assert!(matches!(stream_fails(stream(StreamOp::Copy, 7, "0")), ProbeError::Refused { .. }));
    assert!(matches!(chase_fails(chase(0, load("0-3", 0, 0))), ProbeError::Refused { .. }));
    let short = LatencyWorkload { bytes: 256, ..chase(0, None) };
    assert!(matches!(chase_fails(short), ProbeError::Refused { .. }));
    let endless = LatencyWorkload { slices: 0, ..chase(0, None) };
    assert!(matches!(chase_fails(endless), ProbeError::Refused { .. }));
}
