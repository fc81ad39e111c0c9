//! How the bytes of many requests share the disk: a model without a clock, whose times are seconds since some start.
//!
//! Each direction has one engine of a limited rate, and to each node of the guest's memory a path of a limited rate.
//! Nodes with requests share the engine max-min fairly: in equal parts, where no node gets more than its path
//! carries and what it leaves is shared by the others. Requests of one node are served in their order; no node
//! waits for another's path.
//!
//! What nodes have equal parts of is either the engine's bytes, or its time. The second is an engine that can have only
//! so many transfers under way: one to a node with a slow path is under way for longer, and the engine does less
//! meanwhile. The mean of what the nodes get alone is then what Li et al. foretell (ICPP 2013, Equation 1).
//!
//! Bytes are served in pieces. A node is eligible when its path is free. Of the eligible nodes the one that has been
//! served least goes first (start-time fair queueing: Goyal, Vin and Cheng, SIGCOMM 1996).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Small beside a request, so that nodes share evenly while a request lasts.
const PIECE: u64 = 4096;

/// How far a path may run behind its schedule and still make it good: the pieces of the other nodes may delay it,
/// but a path that the engine had no time for gets no burst later.
const CATCH_UP: f64 = 1e-3;

/// Rates of one direction, in bytes per second.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Of the path to each node.
    pub nodes: Vec<f64>,
    /// Of all nodes together; if the engine's time is shared, of the node with the fastest path.
    pub cap: f64,
    /// What nodes share.
    #[serde(default)]
    pub share: Shared,
}

/// What of the engine is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shared {
    /// A byte costs the same whatever its node.
    #[default]
    Bytes,
    /// A byte costs the more the slower the path to its node is.
    Time,
}

impl Rates {
    /// What a byte of each node costs the engine, in bytes of the fastest path.
    fn costs(&self) -> Vec<f64> {
        let fastest = self.nodes.iter().copied().fold(0.0, f64::max);
        let cost = |rate: &f64| match self.share {
            Shared::Bytes => 1.0,
            Shared::Time => fastest / rate,
        };
        self.nodes.iter().map(cost).collect()
    }
}

#[derive(Debug, Clone, Copy)]
struct Path {
    rate: f64,
    /// What a byte costs the engine.
    cost: f64,
    /// When it can take its next piece, in seconds.
    ready: f64,
    /// The engine's time at which its last piece ends.
    served: f64,
    /// Bytes left of the request that it serves; 0 if it has none.
    left: u64,
}

/// What one direction's future depends on, while no requests arrive.
#[derive(Debug, Clone)]
struct Engine {
    cap: f64,
    /// When it can take its next piece, in seconds.
    free: f64,
    /// Its own time, in what a node with requests has cost.
    time: f64,
    paths: Vec<Path>,
}

impl Engine {
    fn new(rates: &Rates) -> Self {
        let path = |(&rate, cost)| Path { rate, cost, ready: 0.0, served: 0.0, left: 0 };
        let paths = rates.nodes.iter().zip(rates.costs()).map(path).collect();
        Self { cap: rates.cap, free: 0.0, time: 0.0, paths }
    }

    /// The node that gets the next piece, and when.
    fn next(&self) -> Option<(usize, f64)> {
        let waiting = || self.paths.iter().enumerate().filter(|(_, path)| path.left > 0);
        let ready = waiting().map(|(_, path)| path.ready).min_by(f64::total_cmp)?;
        let at = ready.max(self.free);
        let eligible = waiting().filter(|(_, path)| path.ready <= at);
        let (node, _) = eligible.min_by(|(_, one), (_, other)| one.served.total_cmp(&other.served))?;
        Some((node, at))
    }

    /// Serves a piece and returns when it has arrived.
    fn serve(&mut self, node: usize, at: f64) -> f64 {
        let path = &mut self.paths[node];
        let bytes = path.left.min(PIECE);
        path.left -= bytes;
        self.time = self.time.max(path.served);
        let cost = bytes as f64 * path.cost;
        path.served = self.time + cost;
        path.ready = path.ready.max(at - CATCH_UP) + bytes as f64 / path.rate;
        self.free = at + cost / self.cap;
        path.ready.max(self.free)
    }

    /// When the first of the paths has served its request, if no other arrives before.
    fn first_end(&self) -> Option<f64> {
        let mut ahead = self.clone();
        while let Some((node, at)) = ahead.next() {
            let end = ahead.serve(node, at);
            if ahead.paths[node].left == 0 {
                return Some(end);
            }
        }
        None
    }
}

/// A request that is not served yet.
#[derive(Debug)]
struct Open {
    parts: usize,
    end: f64,
}

/// A time that orders, as every time here is a number.
#[derive(Debug, PartialEq)]
struct At(f64);

impl Eq for At {}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for At {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// One direction of the disk.
#[derive(Debug)]
pub struct Share {
    engine: Engine,
    /// By node: requests in their order, and the bytes of each.
    queues: Vec<VecDeque<(u64, u64)>>,
    open: HashMap<u64, Open>,
    served: BinaryHeap<Reverse<(At, u64)>>,
}

impl Share {
    /// A direction without requests.
    pub fn new(rates: &Rates) -> Self {
        Self {
            engine: Engine::new(rates),
            queues: vec![VecDeque::new(); rates.nodes.len()],
            open: HashMap::new(),
            served: BinaryHeap::new(),
        }
    }

    /// Takes a request: its bytes by node, each node at most once, and at least one byte in all. It counts as if it
    /// had come at `since`, which may lie before `now`: what a late host owes the guest.
    pub fn submit(&mut self, now: f64, since: f64, request: u64, parts: &[(usize, u64)]) {
        self.run_until(now);
        self.open.insert(request, Open { parts: parts.len(), end: now });
        for &(node, bytes) in parts {
            let path = &mut self.engine.paths[node];
            if path.left == 0 {
                path.left = bytes;
                path.ready = path.ready.max(since);
            }
            self.queues[node].push_back((request, bytes));
        }
    }

    /// The next request that is served at `now`; ask until there is none.
    pub fn pop_served(&mut self, now: f64) -> Option<u64> {
        self.run_until(now);
        match self.served.peek() {
            Some(Reverse((At(end), request))) if *end <= now => {
                let request = *request;
                self.served.pop();
                Some(request)
            }
            _ => None,
        }
    }

    /// When to ask again, unless a request arrives before; none without requests.
    pub fn next_end(&self) -> Option<f64> {
        let known = self.served.peek().map(|Reverse((At(end), _))| *end);
        known.into_iter().chain(self.engine.first_end()).min_by(f64::total_cmp)
    }

    fn run_until(&mut self, now: f64) {
        while let Some((node, at)) = self.engine.next().filter(|&(_, at)| at <= now) {
            let end = self.engine.serve(node, at);
            if self.engine.paths[node].left == 0 {
                self.end_part(node, end);
            }
        }
    }

    fn end_part(&mut self, node: usize, end: f64) {
        let queue = &mut self.queues[node];
        let ended = queue.pop_front();
        self.engine.paths[node].left = queue.front().map_or(0, |&(_, bytes)| bytes);
        let Some((request, _)) = ended else { return };
        let Some(open) = self.open.get_mut(&request) else { return };
        open.parts -= 1;
        open.end = open.end.max(end);
        if open.parts == 0 {
            self.served.push(Reverse((At(open.end), request)));
            self.open.remove(&request);
        }
    }
}

#[cfg(test)]
mod tests;
