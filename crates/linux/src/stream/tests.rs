use super::*;

fn all() -> Vec<(StreamOp, StreamLoop, Streamer)> {
    let pairs = StreamOp::ALL.into_iter().flat_map(|op| StreamLoop::ALL.map(|stream_loop| (op, stream_loop)));
    pairs.filter_map(|(op, stream_loop)| Some((op, stream_loop, Streamer::new(op, stream_loop)?))).collect()
}

fn wanted(op: StreamOp, a: f64, b: f64) -> f64 {
    match op {
        StreamOp::Copy => a,
        StreamOp::Scale => 3.0 * a,
        StreamOp::Add => a + b,
        StreamOp::Triad => a + 3.0 * b,
    }
}

#[test]
fn every_loop_computes_its_operation_and_nothing_beside_it() {
    const GUARD: f64 = -7.25;
    const MOST: usize = 20_003;
    let a: Vec<f64> = (0..MOST + 16).map(|index| index as f64 * 0.5 + 0.1).collect();
    let b: Vec<f64> = (0..MOST + 16).map(|index| 1e6 - index as f64).collect();
    for (op, stream_loop, streamer) in all() {
        for length in (0..100).chain([127, 128, 129, 1023, MOST]) {
            for (a_at, b_at, out_at) in [(0, 0, 0), (1, 2, 3), (7, 0, 5), (0, 3, 8)] {
                let mut out = vec![GUARD; length + 24];
                let (a, b) = (&a[a_at..a_at + length], &b[b_at..b_at + length]);
                streamer.run(a, b, &mut out[out_at..out_at + length]);
                let right = (0..length).all(|index| out[out_at + index] == wanted(op, a[index], b[index]));
                assert!(right, "{op} by {stream_loop}, {length} at {a_at}, {b_at}, {out_at}");
                let beside = out[..out_at].iter().chain(&out[out_at + length..]);
                assert!(beside.into_iter().all(|value| *value == GUARD), "{op} by {stream_loop}, {length}");
            }
        }
    }
}

#[test]
fn what_an_operation_does_not_read_may_be_short() {
    for (op, stream_loop, streamer) in all() {
        let mut out = [0.0; 100];
        streamer.run(&[1.0; 90], &[2.0; 50], &mut out);
        let written = if streamer.inputs() == 2 { 50 } else { 90 };
        assert_eq!(out.iter().filter(|value| **value != 0.0).count(), written, "{op} by {stream_loop}");
    }
}

#[test]
fn ordinary_stores_are_always_there() {
    assert!(available(StreamLoop::Ordinary));
    assert!(!(available(StreamLoop::Stnp) && available(StreamLoop::Avx2)));
}
