use super::*;
use crate::tests::expect;

#[test]
fn a_chain_is_followed_exactly_as_often_as_told() {
    // Seven places in a row; 64 loads from the first one end at the second.
    let mut places = [std::ptr::null::<u8>(); 7];
    let start = places.as_mut_ptr();
    for place in 0..7 {
        // SAFETY: within the array.
        unsafe { start.add(place).write(start.add((place + 1) % 7).cast()) };
    }
    for turns in 0..20 {
        // SAFETY: every place holds the address of one.
        let end = unsafe { follow(start.cast(), turns) };
        let expected = start.wrapping_add(turns * LOADS_A_TURN % 7);
        assert_eq!(end, expected.cast(), "{turns} turns");
    }
}

#[test]
fn reading_and_evicting_change_nothing() {
    let bytes: Vec<u8> = (0..10_000u32).map(|at| (at * 7) as u8).collect();
    let before = bytes.clone();
    for (from, count) in [(0, 0), (1, 1), (3, 63), (0, 256), (5, 257), (64, 4096), (7, 9_993)] {
        // SAFETY: within the vector.
        unsafe { Reader::new().read(bytes[from..from + count].as_ptr(), count) };
    }
    for place in bytes.iter().step_by(LINE) {
        // SAFETY: within the vector.
        unsafe { evict(place) };
    }
    evicted();
    assert_eq!(bytes, before);
}

#[test]
fn the_loops_consist_of_the_instructions_they_are_named_for() {
    if cfg!(target_arch = "x86_64") {
        expect(
            "loads::x86::",
            &[("avx512", &["vmovdqu64", "zmm"]), ("avx2", &["vmovdqu", "ymm"]), ("sse2", &["movdqu", "xmm"])],
        );
    } else {
        expect("loads::aarch64::", &[("pairs", &["ldp"])]);
    }
}
