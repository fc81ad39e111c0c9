use super::*;
use crate::test_support::expect_instructions;

#[test]
fn follows_the_chain_for_the_requested_iterations() {
    // Seven slots in a row; 64 loads from the first slot end at the second.
    let mut slots = [std::ptr::null::<u8>(); 7];
    let start = slots.as_mut_ptr();
    for slot in 0..7 {
        // SAFETY: within the array.
        unsafe { start.add(slot).write(start.add((slot + 1) % 7).cast()) };
    }
    for iterations in 0..20 {
        // SAFETY: every slot contains the address of a slot.
        let end = unsafe { follow(start.cast(), iterations) };
        let expected = start.wrapping_add(iterations * LOADS_PER_ITERATION % 7);
        assert_eq!(end, expected.cast(), "{iterations} iterations");
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
    for slot in bytes.iter().step_by(LINE) {
        // SAFETY: within the vector.
        unsafe { evict(slot) };
    }
    wait_for_evictions();
    assert_eq!(bytes, before);
}

#[test]
fn loops_consist_of_their_named_instructions() {
    if cfg!(target_arch = "x86_64") {
        expect_instructions(
            "loads::x86::",
            &[("avx512", &["vmovdqu64", "zmm"]), ("avx2", &["vmovdqu", "ymm"]), ("sse2", &["movdqu", "xmm"])],
        );
    } else {
        expect_instructions("loads::aarch64::", &[("pairs", &["ldp"])]);
    }
}
