//! A fixed number of slots, first come, first served, each for the latency of a node.

use crate::engine::Part;
use crate::ordered_time::OrderedTime;
use crate::random::random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bytes that a slot holds.
const SLOT_BYTES: u64 = 128 << 10;
/// Largest relative deviation of a latency from its mean. Equal latencies would keep the requests
/// of all nodes in step, and nodes would not wait equally long.
const VARIATION: f64 = 0.5;

/// The slots of one direction.
#[derive(Debug, Clone)]
pub struct Slots {
    /// Time at which each slot is free.
    free: BinaryHeap<Reverse<OrderedTime>>,
    latency_s: Vec<f64>,
    /// Number of assigned slots.
    assigned: u64,
}

impl Slots {
    /// Creates free slots; `latency_s` is the latency of a full slot by node.
    pub fn new(requests: u32, latency_s: &[f64]) -> Self {
        let free = (0..requests).map(|_| Reverse(OrderedTime(0.0))).collect();
        Self { free, latency_s: latency_s.to_vec(), assigned: 0 }
    }

    /// Assigns slots to a part of a request; returns the time at which its last bytes leave them.
    /// Parts must be assigned in the order of `since`.
    pub fn assign(&mut self, since: f64, part: Part) -> f64 {
        let mut end = since;
        let mut left = part.bytes;
        while left > 0 {
            let bytes = left.min(SLOT_BYTES);
            left -= bytes;
            let Some(Reverse(OrderedTime(free))) = self.free.pop() else { return end };
            let varied = 1.0 + VARIATION * (2.0 * random(self.assigned) - 1.0);
            self.assigned += 1;
            let latency = self.latency_s[part.node] * varied * bytes as f64 / SLOT_BYTES as f64;
            let done = free.max(since) + latency;
            self.free.push(Reverse(OrderedTime(done)));
            end = end.max(done);
        }
        end
    }
}
