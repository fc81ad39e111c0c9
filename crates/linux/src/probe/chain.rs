//! Random pointer chain through all slots of a buffer.

use super::team::EarlyExit;
use crate::interrupt::interrupted;
use crate::loads;
use crate::memory::Buffer;
use crate::refusal::refused;
use numaio_machine::probe::ProbeError;

/// Maximum number of slots: their indices have 32 bits.
const MAX_SLOTS: usize = 1 << 32;

/// Slots between two checks of the interrupt flag.
const SLOTS_PER_CHECK: usize = 1 << 20;

/// Seed of the chain's order, constant so that runs are comparable.
const SEED: u64 = 0x6e75_6d61_696f_2026;

/// A pointer chain in a buffer.
pub struct Chain<'a> {
    buffer: &'a mut Buffer,
    slots: usize,
    /// Slot of the next load.
    at: *const u8,
}

impl<'a> Chain<'a> {
    /// Builds a chain through the slots of a buffer, `stride` bytes apart, and evicts them from all
    /// caches: otherwise some of the first loads would hit lines that the writes left there.
    pub fn build(buffer: &'a mut Buffer, stride: usize) -> Result<Self, EarlyExit> {
        let slots = buffer.bytes() / stride;
        if slots > MAX_SLOTS {
            let why = format!("{slots} slots, expected at most {MAX_SLOTS}");
            refused("latency", why)?;
        }
        let next = cycle(slots)?;
        let start = buffer.start();
        for (first, part) in next.chunks(SLOTS_PER_CHECK).enumerate() {
            check_interrupt()?;
            for (slot, next) in (first * SLOTS_PER_CHECK..).zip(part) {
                // SAFETY: both slots are in the buffer's mapping, which is ours by `&mut`; a stride
                // of whole lines keeps the pointers aligned.
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

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the buffer.
    pub fn buffer(&self) -> &Buffer {
        self.buffer
    }

    /// Follows the chain and returns the number of loads: [`loads::LOADS_PER_ITERATION`] each.
    pub fn follow(&mut self, iterations: usize) -> u64 {
        // SAFETY: `build` wrote the address of a slot to every slot, and the borrow of the buffer
        // excludes other writes.
        self.at = unsafe { loads::follow(self.at, iterations) };
        (iterations * loads::LOADS_PER_ITERATION) as u64
    }
}

/// Returns the successor of each slot in one uniformly random cycle (Sattolo, 1986).
///
/// The permutation has separate memory, a small part of the chain's, so that random writes stay in
/// caches near the thread, and the chain's memory is written in order.
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

/// Returns a number below `limit`, uniform up to one part in 2^32 (splitmix64; Steele et al.,
/// 2014).
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
    fn chain_visits_every_slot_once_per_cycle() {
        for slots in [1, 2, 3, 10, 1000, 65_537] {
            let Ok(next) = cycle(slots) else { unreachable!("no interrupt") };
            let mut seen = vec![false; slots];
            let mut slot = 0;
            for _ in 0..slots {
                assert!(!seen[slot], "slot {slot} of {slots} is repeated");
                seen[slot] = true;
                slot = next[slot] as usize;
            }
            assert_eq!(slot, 0);
        }
    }

    /// Steps of a random cycle are symmetric, with a mean length of a third of the cycle.
    #[test]
    fn order_has_no_pattern() {
        const SLOTS: usize = 100_000;
        let Ok(next) = cycle(SLOTS) else { unreachable!("no interrupt") };
        let steps = || next.iter().enumerate().map(|(slot, next)| i64::from(*next) - slot as i64);
        let mean = steps().map(i64::abs).sum::<i64>() as f64 / SLOTS as f64;
        assert!((mean / (SLOTS as f64 / 3.0) - 1.0).abs() < 0.02, "{mean}");
        let forward = steps().filter(|step| *step > 0).count();
        assert!((49_000..51_000).contains(&forward), "{forward}");
        let near = steps().filter(|step| step.abs() <= 16).count();
        assert!(near < 100, "{near} steps are predictable by a prefetcher");
    }
}
