//! A chain of pointers that visits every place of a buffer once.

use super::team::EarlyExit;
use crate::interrupt::interrupted;
use crate::loads;
use crate::memory::Buffer;
use numaio_machine::probe::ProbeError;

/// Places of a chain, at most: their numbers have 32 bits.
const MAX_SLOTS: usize = 1 << 32;

/// Places between two looks at the interrupt flag.
const SLOTS_PER_CHECK: usize = 1 << 20;

/// What the order of a chain is drawn from. Always the same: two runs differ by the machine, not by luck.
const SEED: u64 = 0x6e75_6d61_696f_2026;

/// A chain laid through a buffer.
pub struct Chain<'a> {
    buffer: &'a mut Buffer,
    slots: usize,
    /// Where the next load goes.
    at: *const u8,
}

impl<'a> Chain<'a> {
    /// Lays a chain through the places of a buffer, which are `stride` bytes apart, and takes them out of all
    /// caches: what laying left there would be found by some of the first loads and not by others.
    pub fn build(buffer: &'a mut Buffer, stride: usize) -> Result<Self, EarlyExit> {
        let slots = buffer.bytes() / stride;
        if slots > MAX_SLOTS {
            let why = format!("{slots} places; up to {MAX_SLOTS} can be had");
            super::refused("latency", why)?;
        }
        let next = cycle(slots)?;
        let start = buffer.start();
        for (first, part) in next.chunks(SLOTS_PER_CHECK).enumerate() {
            check_interrupt()?;
            for (slot, next) in (first * SLOTS_PER_CHECK..).zip(part) {
                // SAFETY: both places lie in the buffer's mapping, which is ours alone by `&mut`; a stride of
                // whole lines keeps the pointers aligned.
                unsafe {
                    let slot = start.add(slot * stride);
                    slot.cast::<*mut u8>().write(start.add(*next as usize * stride));
                    loads::evict(slot);
                }
            }
        }
        loads::wait_for_evictions();
        Ok(Self { at: start, buffer, slots })
    }

    /// Its length.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Its buffer.
    pub fn buffer(&self) -> &Buffer {
        self.buffer
    }

    /// Follows it; gives the number of loads, [`loads::LOADS_PER_ITERATION`] in each turn.
    pub fn follow(&mut self, iterations: usize) -> u64 {
        // SAFETY: `build` has written a place's address to every place, and nobody has written since: the buffer
        // is borrowed.
        self.at = unsafe { loads::follow(self.at, iterations) };
        (iterations * loads::LOADS_PER_ITERATION) as u64
    }
}

/// For each place the next one, all of them in one cycle that is as likely as any other (Sattolo, 1986).
///
/// It is drawn in memory of its own, a small part of the chain's, so that what is written at random lies in
/// caches and near the thread, and the chain's own memory is written in order.
fn cycle(slots: usize) -> Result<Vec<u32>, EarlyExit> {
    let mut next: Vec<u32> = (0..slots).map(|slot| slot as u32).collect();
    let mut random = SEED;
    for slot in (1..slots).rev() {
        next.swap(slot, random_below(&mut random, slot as u64) as usize);
        if slot % SLOTS_PER_CHECK == 0 {
            check_interrupt()?;
        }
    }
    Ok(next)
}

/// A number below `limit`, every one as likely but for one part in 2^32 (splitmix64; Steele et al., 2014).
fn random_below(state: &mut u64, limit: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    ((u128::from(bits) * u128::from(limit)) >> 64) as u64
}

fn check_interrupt() -> Result<(), EarlyExit> {
    if interrupted() {
        return Err(EarlyExit::Failed(ProbeError::Interrupted));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_visited_once_before_the_first_comes_again() {
        for slots in [1, 2, 3, 10, 1000, 65_537] {
            let Ok(next) = cycle(slots) else { unreachable!("no interrupt") };
            let mut seen = vec![false; slots];
            let mut slot = 0;
            for _ in 0..slots {
                assert!(!seen[slot], "{slot} of {slots} comes again");
                seen[slot] = true;
                slot = next[slot] as usize;
            }
            assert_eq!(slot, 0);
        }
    }

    /// Steps of a random cycle are as long one way as the other, a third of its length on average.
    #[test]
    fn the_order_has_no_pattern() {
        const SLOTS: usize = 100_000;
        let Ok(next) = cycle(SLOTS) else { unreachable!("no interrupt") };
        let steps = || next.iter().enumerate().map(|(slot, next)| i64::from(*next) - slot as i64);
        let mean = steps().map(i64::abs).sum::<i64>() as f64 / SLOTS as f64;
        assert!((mean / (SLOTS as f64 / 3.0) - 1.0).abs() < 0.02, "{mean}");
        let forward = steps().filter(|step| *step > 0).count();
        assert!((49_000..51_000).contains(&forward), "{forward}");
        let near = steps().filter(|step| step.abs() <= 16).count();
        assert!(near < 100, "{near} steps that a prefetcher might guess");
    }
}
