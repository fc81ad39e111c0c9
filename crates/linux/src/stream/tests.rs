use super::*;
use crate::test_support::expect_instructions;

impl Streamer {
    /// Writes as many doubles as all slices have.
    fn run(&self, to: &mut [f64], x: &[f64], y: &[f64]) {
        let count = to.len().min(x.len()).min(y.len());
        // SAFETY: all slices have that many doubles, and a mutable slice overlaps no other.
        unsafe { self.run_raw(to.as_mut_ptr(), x.as_ptr(), y.as_ptr(), count) }
    }
}

/// Returns doubles that differ by position, half of them negative.
fn numbers(count: usize, seed: u32) -> Vec<f64> {
    let number = |at: u32| f64::from(at.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 3) / 1e3 - 2e5;
    (0..count as u32).map(number).collect()
}

/// Content of the written array before a run.
const GUARD: f64 = -777.25;

fn defined(op: StreamOp, x: f64, y: f64) -> f64 {
    match op {
        StreamOp::Read => GUARD,
        StreamOp::Write => SCALAR,
        StreamOp::Copy => x,
        StreamOp::Scale => SCALAR * x,
        StreamOp::Add => x + y,
        StreamOp::Triad => x + SCALAR * y,
    }
}

/// Returns every loop that this CPU supports; on x86-64 the ordinary ones of all vector lengths.
fn loops(op: StreamOp) -> Vec<(String, Streamer)> {
    let public = StreamLoop::ALL.into_iter().filter_map(|stream_loop| {
        Streamer::new(stream_loop, op).map(|streamer| (stream_loop.to_string(), streamer))
    });
    #[cfg(target_arch = "x86_64")]
    let inner =
        x86::ordinary().map(|(name, all)| (name.to_owned(), Streamer { op, iterations: all[op as usize] }));
    #[cfg(not(target_arch = "x86_64"))]
    let inner = std::iter::empty();
    public.chain(inner).collect()
}

#[test]
fn every_loop_matches_the_definition_and_stays_in_bounds() {
    const ROOM: usize = 24;
    let lengths = (0..=100).chain([127, 128, 129, 255, 256, 257, 511, 512, 513, 9_001]);
    let (x, y) = (numbers(9_001 + ROOM, 1), numbers(9_001 + ROOM, 77));
    for (op, length) in lengths.flat_map(|length| StreamOp::ALL.map(|op| (op, length))) {
        for (name, streamer) in loops(op) {
            for (to_at, x_at, y_at) in [(0, 0, 0), (1, 0, 0), (0, 1, 3), (7, 8, 1), (8, 5, 16), (3, 3, 3)] {
                let mut to = vec![GUARD; length + ROOM];
                streamer.run(
                    &mut to[to_at..to_at + length],
                    &x[x_at..x_at + length],
                    &y[y_at..y_at + length],
                );
                let case = format!("{op} ({name}), {length} doubles, {x_at} and {y_at} to {to_at}");
                let right = (0..length).all(|at| to[to_at + at] == defined(op, x[x_at + at], y[y_at + at]));
                assert!(right, "{case}");
                assert!(
                    to[..to_at].iter().chain(&to[to_at + length..]).all(|guard| *guard == GUARD),
                    "{case}"
                );
            }
        }
    }
}

#[test]
fn writes_the_length_of_the_shortest_slice() {
    for (name, streamer) in loops(StreamOp::Add) {
        let mut to = [0.0; 300];
        streamer.run(&mut to, &[1.0; 200], &[2.0; 250]);
        assert_eq!(to.iter().filter(|sum| **sum == 3.0).count(), 200, "{name}");
        streamer.run(&mut to, &[3.0; 300], &[4.0; 20]);
        assert_eq!(to.iter().filter(|sum| **sum == 7.0).count(), 20, "{name}");
    }
}

#[test]
fn ordinary_loop_is_available_and_foreign_loops_are_not() {
    assert!(available(StreamLoop::Ordinary));
    assert!(!(available(StreamLoop::Stnp) && available(StreamLoop::Avx2)));
}

#[test]
fn loops_consist_of_their_named_instructions() {
    if cfg!(target_arch = "x86_64") {
        expect_instructions(
            "stream::x86::",
            &[
                ("avx512_copy", &["vmovupd", "vmovntpd", "zmm"]),
                ("avx512_scale", &["vmulpd", "vmovntpd", "zmm"]),
                ("avx512_add", &["vaddpd", "vmovntpd", "zmm"]),
                ("avx512_triad", &["vmulpd", "vaddpd", "vmovntpd", "zmm"]),
                ("avx2_copy", &["vmovupd", "vmovntpd", "ymm"]),
                ("avx2_scale", &["vmulpd", "vmovntpd", "ymm"]),
                ("avx2_add", &["vaddpd", "vmovntpd", "ymm"]),
                ("avx2_triad", &["vmulpd", "vaddpd", "vmovntpd", "ymm"]),
                ("ordinary_avx512_triad", &["vmulpd", "vaddpd", "vmovapd", "zmm"]),
                ("ordinary_avx2_triad", &["vmulpd", "vaddpd", "vmovapd", "ymm"]),
                ("ordinary_sse2_copy", &["movupd", "movapd", "xmm"]),
                ("ordinary_sse2_triad", &["mulpd", "addpd", "movapd", "xmm"]),
                ("avx512_read", &["vmovupd", "zmm"]),
                ("avx512_write", &["vmovntpd", "zmm"]),
                ("avx2_write", &["vmovntpd", "ymm"]),
                ("ordinary_avx2_read", &["vmovupd", "ymm"]),
                ("ordinary_sse2_read", &["movupd", "xmm"]),
                ("ordinary_sse2_write", &["movapd", "xmm"]),
            ],
        );
    } else {
        expect_instructions(
            "stream::aarch64::",
            &[
                ("stnp_copy", &["ldp", "stnp"]),
                ("stnp_triad", &["ldp", "fmul", "fadd", "stnp"]),
                ("ordinary_scale", &["ldp", "fmul", "stp"]),
                ("ordinary_add", &["ldp", "fadd", "stp"]),
                ("ordinary_read", &["ldp"]),
                ("stnp_write", &["stnp"]),
            ],
        );
    }
}
