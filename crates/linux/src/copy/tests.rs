use super::*;
use crate::test_support::expect_instructions;

impl Copier {
    /// Copies as many bytes as both slices have.
    fn copy(&self, from: &[u8], to: &mut [u8]) {
        let bytes = from.len().min(to.len());
        // SAFETY: both slices have that many bytes, and a mutable slice overlaps no other.
        unsafe { self.copy_raw(from.as_ptr(), to.as_mut_ptr(), bytes) }
    }
}

/// Returns bytes that differ by position, so that misplaced bytes are detected.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn available_loops() -> Vec<CopyLoop> {
    CopyLoop::ALL.into_iter().filter(|copy_loop| available(*copy_loop)).collect()
}

#[test]
fn every_loop_copies_exactly_the_requested_bytes() {
    const GUARD: u8 = 0xA5;
    const ROOM: usize = 192;
    let lengths = (0..=200).chain([255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 70_001]);
    let from = pattern(70_001 + ROOM);
    for (copy_loop, length) in
        lengths.flat_map(|length| available_loops().into_iter().map(move |l| (l, length)))
    {
        let copier = Copier::new(copy_loop).expect("available");
        for (source_at, sink_at) in [(0, 0), (1, 0), (0, 1), (7, 64), (63, 65), (64, 7), (31, 32), (16, 33)] {
            let mut to = vec![GUARD; length + ROOM];
            copier.copy(&from[source_at..source_at + length], &mut to[sink_at..sink_at + length]);
            let case = format!("{copy_loop}, {length} bytes, {source_at} to {sink_at}");
            assert!(to[sink_at..sink_at + length] == from[source_at..source_at + length], "{case}");
            assert!(to[..sink_at].iter().chain(&to[sink_at + length..]).all(|byte| *byte == GUARD), "{case}");
        }
    }
}

#[test]
fn copies_the_length_of_the_shorter_slice() {
    for copy_loop in available_loops() {
        let copier = Copier::new(copy_loop).expect("available");
        let mut to = [0; 300];
        copier.copy(&[1; 200], &mut to);
        assert_eq!(to.iter().map(|byte| u32::from(*byte)).sum::<u32>(), 200, "{copy_loop}");
        copier.copy(&[2; 400], &mut to[..100]);
        assert_eq!(to.iter().filter(|byte| **byte == 2).count(), 100, "{copy_loop}");
    }
}

#[test]
fn loops_of_other_architectures_are_unavailable() {
    assert!(available(CopyLoop::Memcpy));
    assert!(!(available(CopyLoop::Stnp) && available(CopyLoop::RepMovsb)));
}

#[test]
fn c_library_has_a_name_and_glibc_a_version() {
    let library = c_library();
    match library.strip_prefix("glibc ") {
        Some(version) => assert!(version.split('.').all(|part| part.parse::<u32>().is_ok()), "{library}"),
        None => assert_eq!((library.as_str(), cfg!(target_env = "musl")), ("musl", true)),
    }
}

/// The optimizer must not replace a loop: the test binary contains its instructions.
#[test]
fn loops_consist_of_their_named_instructions() {
    let expected: &[(&str, &[&str])] = if cfg!(target_arch = "x86_64") {
        &[
            ("x86::avx512", &["vmovntdq", "zmm", "sfence"]),
            ("x86::avx2", &["vmovntdq", "ymm", "sfence"]),
            ("x86::rep_movsb", &["rep movs", "sfence"]),
        ]
    } else {
        &[("aarch64::stnp", &["stnp", "dmb"])]
    };
    expect_instructions("copy::", expected);
}
