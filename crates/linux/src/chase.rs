//! Chains of pointers, and loops that only read.

use std::arch::asm;

/// Loads in one call of [`follow`]: many enough that reading the clock between two calls costs nothing beside
/// them, few enough that a call takes well under a millisecond.
pub const LOADS: u64 = 1024;

/// Loads in one turn of the loop.
const TURN: u64 = 16;

/// Makes a chain in a buffer: every place, `stride` bytes apart, holds the address of the next one, and the last
/// that of the first. The order is a random cycle over all places, the same for the same seed.
///
/// Gives the address to begin at; none if there are fewer than two places, or more than 2^32.
pub fn chain(buffer: &mut [u8], stride: usize, seed: u64) -> Option<usize> {
    let places = buffer.len().checked_div(stride).filter(|places| *places >= 2 && stride >= 8)?;
    let start = buffer.as_ptr().expose_provenance();
    let mut order: Vec<u32> = (0..u32::try_from(places).ok()?).collect();
    shuffle(&mut order, seed);
    let mut last = *order.last()? as usize;
    for place in &order {
        let place = *place as usize;
        let at = last * stride;
        buffer.get_mut(at..at + 8)?.copy_from_slice(&(start + place * stride).to_ne_bytes());
        last = place;
    }
    Some(start + order[0] as usize * stride)
}

/// Fisher and Yates' shuffle, by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn shuffle(order: &mut [u32], seed: u64) {
    let mut state = seed;
    for last in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let random = mixed ^ (mixed >> 31);
        // Lemire's way to a number below a limit; its bias of 2^-32 disturbs no order.
        let other = ((random >> 32) * (last as u64 + 1)) >> 32;
        order.swap(last, other as usize);
    }
}

/// Follows a chain by [`LOADS`] loads, each waiting for the one before, and gives the address reached.
///
/// # Safety
/// `place` is an address that [`chain`] gave or that this function returned, and the buffer is still there and
/// nobody writes it.
pub unsafe fn follow(place: usize) -> usize {
    let mut place = place;
    // SAFETY: every load is from a place of the chain, which holds the address of the next one.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "2:",
            "mov {place}, [{place}]", "mov {place}, [{place}]", "mov {place}, [{place}]", "mov {place}, [{place}]",
            "mov {place}, [{place}]", "mov {place}, [{place}]", "mov {place}, [{place}]", "mov {place}, [{place}]",
            "mov {place}, [{place}]", "mov {place}, [{place}]", "mov {place}, [{place}]", "mov {place}, [{place}]",
            "mov {place}, [{place}]", "mov {place}, [{place}]", "mov {place}, [{place}]", "mov {place}, [{place}]",
            "dec {turns}",
            "jnz 2b",
            place = inout(reg) place,
            turns = inout(reg) LOADS / TURN => _,
            options(nostack, readonly)
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "2:",
            "ldr {place}, [{place}]", "ldr {place}, [{place}]", "ldr {place}, [{place}]", "ldr {place}, [{place}]",
            "ldr {place}, [{place}]", "ldr {place}, [{place}]", "ldr {place}, [{place}]", "ldr {place}, [{place}]",
            "ldr {place}, [{place}]", "ldr {place}, [{place}]", "ldr {place}, [{place}]", "ldr {place}, [{place}]",
            "ldr {place}, [{place}]", "ldr {place}, [{place}]", "ldr {place}, [{place}]", "ldr {place}, [{place}]",
            "subs {turns}, {turns}, #1",
            "b.ne 2b",
            place = inout(reg) place,
            turns = inout(reg) LOADS / TURN => _,
            options(nostack, readonly)
        );
    }
    place
}

/// Reads whole lines and does nothing with them; what is less than four lines at the end is left out.
pub fn read(bytes: &[u8]) {
    /// Bytes in one turn.
    const TURN_BYTES: usize = 256;
    let turns = bytes.len() / TURN_BYTES;
    if turns == 0 {
        return;
    }
    // SAFETY: whole turns lie within the slice. Every x86-64 and aarch64 CPU has these registers.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "2:",
            "movups xmm0, [{from}]", "movups xmm1, [{from} + 16]", "movups xmm2, [{from} + 32]",
            "movups xmm3, [{from} + 48]", "movups xmm0, [{from} + 64]", "movups xmm1, [{from} + 80]",
            "movups xmm2, [{from} + 96]", "movups xmm3, [{from} + 112]", "movups xmm0, [{from} + 128]",
            "movups xmm1, [{from} + 144]", "movups xmm2, [{from} + 160]", "movups xmm3, [{from} + 176]",
            "movups xmm0, [{from} + 192]", "movups xmm1, [{from} + 208]", "movups xmm2, [{from} + 224]",
            "movups xmm3, [{from} + 240]",
            "add {from}, 256",
            "dec {turns}",
            "jnz 2b",
            from = inout(reg) bytes.as_ptr() => _,
            turns = inout(reg) turns => _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            options(nostack, readonly)
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "2:",
            "ldp q0, q1, [{from}]", "ldp q2, q3, [{from}, #32]", "ldp q0, q1, [{from}, #64]",
            "ldp q2, q3, [{from}, #96]", "ldp q0, q1, [{from}, #128]", "ldp q2, q3, [{from}, #160]",
            "ldp q0, q1, [{from}, #192]", "ldp q2, q3, [{from}, #224]",
            "add {from}, {from}, #256",
            "subs {turns}, {turns}, #1",
            "b.ne 2b",
            from = inout(reg) bytes.as_ptr() => _,
            turns = inout(reg) turns => _,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _,
            options(nostack, readonly)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn next(buffer: &[u8], place: usize) -> usize {
        let at = place - buffer.as_ptr().addr();
        usize::from_ne_bytes(buffer[at..at + 8].try_into().expect("8 bytes"))
    }

    #[test]
    fn a_chain_visits_every_place_once_and_comes_back() {
        for (bytes, stride) in [(16, 8), (4096, 64), (100_000, 256), (100_001, 96)] {
            let mut buffer = vec![0; bytes];
            let first = chain(&mut buffer, stride, 7).expect("a chain");
            let mut seen = BTreeSet::new();
            let mut place = first;
            while seen.insert(place) {
                place = next(&buffer, place);
            }
            assert_eq!((place, seen.len()), (first, bytes / stride));
            assert!(seen.iter().all(|place| (place - buffer.as_ptr().addr()) % stride == 0));
        }
        assert_eq!(chain(&mut [0; 64], 64, 1), None);
        assert_eq!(chain(&mut [0; 64], 0, 1), None);
    }

    #[test]
    fn the_order_is_random_and_the_same_for_the_same_seed() {
        let order = |seed| {
            let mut order: Vec<u32> = (0..1000).collect();
            shuffle(&mut order, seed);
            order
        };
        assert_eq!(order(3), order(3));
        assert_ne!(order(3), order(4));
        let near = order(3).windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 10).count();
        assert!(near < 60, "{near} of 999 steps lead to a neighbour");
    }

    #[test]
    fn following_takes_as_many_loads_as_it_says() {
        let mut buffer = vec![0; 64 * 300];
        let first = chain(&mut buffer, 64, 1).expect("a chain");
        let wanted = (0..LOADS).fold(first, |place, _| next(&buffer, place));
        // SAFETY: the chain was made in this buffer.
        assert_eq!(unsafe { follow(first) }, wanted);
    }

    #[test]
    fn reading_any_length_is_well() {
        let bytes = vec![1; 5000];
        (0..5000).for_each(|length| read(&bytes[..length]));
    }
}
