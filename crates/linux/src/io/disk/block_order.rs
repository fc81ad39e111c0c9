//! In which order a stream touches the blocks of its part.

use numaio_machine::workload::DiskOrder;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rounds of the permutation; four make a Feistel network of random functions a pseudo-random permutation (Luby and
/// Rackoff, SIAM J. Comput. 1988).
const ROUNDS: u64 = 4;

/// Blocks of one stream, handed out to all who make its requests.
#[derive(Debug)]
pub struct BlockSequence {
    first: u64,
    count: u64,
    block_bytes: u64,
    order: DiskOrder,
    next: AtomicU64,
}

impl BlockSequence {
    /// `count` blocks from byte `first` on; `count` is not 0.
    pub fn new(first: u64, count: u64, block_bytes: u64, order: DiskOrder) -> Self {
        Self { first, count: count.max(1), block_bytes, order, next: AtomicU64::new(0) }
    }

    /// Where the next request begins. After the last block the first one comes again.
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

/// The place of an index in a permutation of `count`, another one for each pass: a Feistel network over the next power
/// of four, walked until it is within.
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
    fn every_block_is_touched_once_in_a_pass() {
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
    fn random_is_neither_in_order_nor_the_same_in_every_pass() {
        let blocks = BlockSequence::new(0, 1000, 1, DiskOrder::Random);
        let pass = || (0..1000).map(|_| blocks.next()).collect::<Vec<u64>>();
        let (first, second) = (pass(), pass());
        let steps = first.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert!(steps < 20, "{steps} of 999 steps are to the next block");
        assert_ne!(first, second);
    }
}
