//! Order in which a stream accesses the blocks of its part.

use numaio_machine::workload::DiskOrder;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rounds of the permutation: four rounds of random functions make a pseudo-random permutation
/// (Luby and Rackoff, SIAM J. Comput. 1988).
const ROUNDS: u64 = 4;

/// Blocks of one stream, shared by all workers that issue its requests.
#[derive(Debug)]
pub struct BlockSequence {
    first: u64,
    count: u64,
    block_bytes: u64,
    order: DiskOrder,
    next: AtomicU64,
}

impl BlockSequence {
    /// Creates a sequence of `count` blocks (not 0) from byte offset `first`.
    pub fn new(first: u64, count: u64, block_bytes: u64, order: DiskOrder) -> Self {
        Self { first, count: count.max(1), block_bytes, order, next: AtomicU64::new(0) }
    }

    /// Returns the byte offset of the next request; the last block is followed by the first.
    pub fn next(&self) -> u64 {
        let submit_and_reap = self.next.fetch_add(1, Ordering::Relaxed);
        let (pass, index) = (submit_and_reap / self.count, submit_and_reap % self.count);
        let block = match self.order {
            DiskOrder::Sequential => index,
            DiskOrder::Random => permuted(index, self.count, pass),
        };
        self.first + block * self.block_bytes
    }
}

/// Returns the position of `index` in a permutation of `count` that differs per pass: a Feistel
/// network over the next power of four, iterated until the result is in range.
fn permuted(index: u64, count: u64, pass: u64) -> u64 {
    let half = (64 - (count - 1).leading_zeros()).div_ceil(2).clamp(1, 32);
    let mask = (1u64 << half) - 1;
    let mut at = index;
    loop {
        let (mut left, mut right) = (at >> half, at & mask);
        for round in 0..ROUNDS {
            let mixed = mix(right ^ (round << 40) ^ (pass << 44)) & mask;
            (left, right) = (right, left ^ mixed);
        }
        at = (left << half) | right;
        if at < count {
            return at;
        }
    }
}

fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_pass_visits_every_block_once() {
        for order in [DiskOrder::Sequential, DiskOrder::Random] {
            for count in [1, 2, 3, 7, 64, 65, 1000] {
                let blocks = BlockSequence::new(4096, count, 512, order);
                for _ in 0..3 {
                    let seen: BTreeSet<u64> = (0..count).map(|_| blocks.next()).collect();
                    let all: BTreeSet<u64> = (0..count).map(|block| 4096 + block * 512).collect();
                    assert_eq!(seen, all, "{order:?} of {count}");
                }
            }
        }
    }

    #[test]
    fn random_order_differs_from_sequential_and_between_passes() {
        let blocks = BlockSequence::new(0, 1000, 1, DiskOrder::Random);
        let pass = || (0..1000).map(|_| blocks.next()).collect::<Vec<u64>>();
        let (first, second) = (pass(), pass());
        let steps = first.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert!(steps < 20, "{steps} of 999 steps lead to the next block");
        assert_ne!(first, second);
    }
}
