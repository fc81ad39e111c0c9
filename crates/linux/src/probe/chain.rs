//! A chain of pointers that visits every place of a buffer once.

use super::team::Leave;
use crate::interrupt::interrupted;
use crate::loads;
use crate::memory::Buffer;
use numaio_machine::probe::ProbeError;

/// Places of a chain, at most: their numbers have 32 bits.
const MOST_PLACES: usize = 1 << 32;

/// Places between two looks at the interrupt flag.
const PLACES_AT_ONCE: usize = 1 << 20;

/// What the order of a chain is drawn from. Always the same: two runs differ by the machine, not by luck.
const SEED: u64 = 0x6e75_6d61_696f_2026;

/// A chain laid through a buffer.
pub struct Chain<'a> {
    buffer: &'a mut Buffer,
    places: usize,
    /// Where the next load goes.
    at: *const u8,
}

impl<'a> Chain<'a> {
    /// Lays a chain through the places of a buffer, which are `stride` bytes apart, and takes them out of all
    /// caches: what laying left there would be found by some of the first loads and not by others.
    pub fn lay(buffer: &'a mut Buffer, stride: usize) -> Result<Self, Leave> {
        let places = buffer.bytes() / stride;
        if places > MOST_PLACES {
            let why = format!("{places} places; up to {MOST_PLACES} can be had");
            super::refused("latency", why)?;
        }
        let next = cycle(places)?;
        let start = buffer.start();
        for (first, part) in next.chunks(PLACES_AT_ONCE).enumerate() {
            check_interrupt()?;
            for (place, next) in (first * PLACES_AT_ONCE..).zip(part) {
                // SAFETY: both places lie in the buffer's mapping, which is ours alone by `&mut`; a stride of
                // whole lines keeps the pointers aligned.
                unsafe {
                    let place = start.add(place * stride);
                    place.cast::<*mut u8>().write(start.add(*next as usize * stride));
                    loads::evict(place);
                }
            }
        }
        loads::evicted();
        Ok(Self { at: start, buffer, places })
    }

    /// Its length.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Its buffer.
    pub fn buffer(&self) -> &Buffer {
        self.buffer
    }

    /// Follows it; gives the number of loads, [`loads::LOADS_A_TURN`] in each turn.
    pub fn follow(&mut self, turns: usize) -> u64 {
        // SAFETY: `lay` has written a place's address to every place, and nobody has written since: the buffer
        // is borrowed.
        self.at = unsafe { loads::follow(self.at, turns) };
        (turns * loads::LOADS_A_TURN) as u64
    }
}

/// For each place the next one, all of them in one cycle that is as likely as any other (Sattolo, 1986).
///
/// It is drawn in memory of its own, a small part of the chain's, so that what is written at random lies in
/// caches and near the thread, and the chain's own memory is written in order.
fn cycle(places: usize) -> Result<Vec<u32>, Leave> {
    let mut next: Vec<u32> = (0..places).map(|place| place as u32).collect();
    let mut random = SEED;
    for place in (1..places).rev() {
        next.swap(place, below(&mut random, place as u64) as usize);
        if place % PLACES_AT_ONCE == 0 {
            check_interrupt()?;
        }
    }
    Ok(next)
}

/// A number below `limit`, every one as likely but for one part in 2^32 (splitmix64; Steele et al., 2014).
fn below(state: &mut u64, limit: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    ((u128::from(bits) * u128::from(limit)) >> 64) as u64
}

fn check_interrupt() -> Result<(), Leave> {
    if interrupted() {
        return Err(Leave::Failed(ProbeError::Interrupted));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_visited_once_before_the_first_comes_again() {
        for places in [1, 2, 3, 10, 1000, 65_537] {
            let Ok(next) = cycle(places) else { unreachable!("no interrupt") };
            let mut seen = vec![false; places];
            let mut place = 0;
            for _ in 0..places {
                assert!(!seen[place], "{place} of {places} comes again");
                seen[place] = true;
                place = next[place] as usize;
            }
            assert_eq!(place, 0);
        }
    }

    /// Steps of a random cycle are as long one way as the other, a third of its length on average.
    #[test]
    fn the_order_has_no_pattern() {
        const PLACES: usize = 100_000;
        let Ok(next) = cycle(PLACES) else { unreachable!("no interrupt") };
        let steps = || next.iter().enumerate().map(|(place, next)| i64::from(*next) - place as i64);
        let mean = steps().map(i64::abs).sum::<i64>() as f64 / PLACES as f64;
        assert!((mean / (PLACES as f64 / 3.0) - 1.0).abs() < 0.02, "{mean}");
        let forward = steps().filter(|step| *step > 0).count();
        assert!((49_000..51_000).contains(&forward), "{forward}");
        let near = steps().filter(|step| step.abs() <= 16).count();
        assert!(near < 100, "{near} steps that a prefetcher might guess");
    }
}
