//! Simulates how requests share the disk. The model has no clock; times are seconds since its
//! start.
//!
//! Each direction has an engine with a limited rate, and a path with a limited rate to each node of
//! the guest's memory. Nodes with requests share the engine max-min fairly: in equal parts, limited
//! by the rate of each path, and the rest is shared by the other nodes. Requests of one node are
//! served in order; no node waits for the path of another.
//!
//! Nodes share either the engine's bytes or its time. Sharing time models an engine with a limited
//! number of transfers in progress: transfers to a node with a slow path take longer and occupy the
//! engine. The total is then the mean of the nodes' individual rates (Li et al., ICPP 2013,
//! Equation 1).
//!
//! Bytes are served in pieces. A node is eligible when its path is free. The eligible node with the
//! least service is next (start-time fair queueing: Goyal, Vin and Cheng, SIGCOMM 1996).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Bytes served at once: far less than a request, so that nodes share evenly during a request.
const PIECE: u64 = 4096;

/// Largest delay of a path that it catches up, in seconds.
///
/// Pieces of other nodes delay a path briefly. A path that the engine could not serve for longer
/// gets no burst later.
const CATCH_UP: f64 = 1e-3;

/// Rates of one direction, in bytes per second.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Rate of the path to each node.
    pub nodes: Vec<f64>,
    /// Total rate of all nodes; if they share time, the rate of the node with the fastest path.
    pub cap: f64,
    /// Resource that nodes share.
    #[serde(default)]
    pub share: SharedResource,
}

/// Resource of the engine that nodes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SharedResource {
    /// Bytes: a byte costs the same for every node.
    #[default]
    Bytes,
    /// Time: a byte costs more the slower the path to its node is.
    Time,
}

impl Rates {
    /// Returns the engine's cost of a byte of each node, in bytes of the fastest path.
    fn costs(&self) -> Vec<f64> {
        let fastest = self.nodes.iter().copied().fold(0.0, f64::max);
        let cost = |rate: &f64| match self.share {
            SharedResource::Bytes => 1.0,
            SharedResource::Time => fastest / rate,
        };
        self.nodes.iter().map(cost).collect()
    }
}

#[derive(Debug, Clone, Copy)]
struct Path {
    rate: f64,
    /// Engine's cost of a byte.
    cost: f64,
    /// Time at which the path can take its next piece, in seconds.
    ready: f64,
    /// Virtual time of the engine at which the path's last piece ends.
    served: f64,
    /// Remaining bytes of the current request; 0 if idle.
    left: u64,
}

/// State that determines the schedule of one direction until the next request arrives.
#[derive(Debug, Clone)]
struct Engine {
    cap: f64,
    /// Time at which the engine can take its next piece, in seconds.
    free: f64,
    /// Virtual time: the cost of a node that always has requests.
    time: f64,
    paths: Vec<Path>,
}

impl Engine {
    fn new(rates: &Rates) -> Self {
        let path = |(&rate, cost)| Path { rate, cost, ready: 0.0, served: 0.0, left: 0 };
        let paths = rates.nodes.iter().zip(rates.costs()).map(path).collect();
        Self { cap: rates.cap, free: 0.0, time: 0.0, paths }
    }

    /// Returns the node that gets the next piece, and the time.
    fn next(&self) -> Option<(usize, f64)> {
        let waiting = || self.paths.iter().enumerate().filter(|(_, path)| path.left > 0);
        let ready = waiting().map(|(_, path)| path.ready).min_by(f64::total_cmp)?;
        let at = ready.max(self.free);
        let eligible = waiting().filter(|(_, path)| path.ready <= at);
        let (node, _) = eligible.min_by(|(_, a), (_, b)| a.served.total_cmp(&b.served))?;
        Some((node, at))
    }

    /// Serves a piece, and returns its arrival time.
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

    /// Returns when the first path finishes its request, unless another one arrives before.
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

/// A request with pending parts.
#[derive(Debug)]
struct PendingRequest {
    parts: usize,
    end: f64,
}

/// A time with a total order, which exists because no time is NaN.
#[derive(Debug, PartialEq)]
struct OrderedTime(f64);

impl Eq for OrderedTime {}

impl PartialOrd for OrderedTime {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedTime {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// One direction of the disk.
#[derive(Debug)]
pub struct FairShare {
    engine: Engine,
    /// Requests of each node in order, with the bytes of each.
    queues: Vec<VecDeque<(u64, u64)>>,
    pending: HashMap<u64, PendingRequest>,
    served: BinaryHeap<Reverse<(OrderedTime, u64)>>,
}

impl FairShare {
    /// Creates a direction without requests.
    pub fn new(rates: &Rates) -> Self {
        Self {
            engine: Engine::new(rates),
            queues: vec![VecDeque::new(); rates.nodes.len()],
            pending: HashMap::new(),
            served: BinaryHeap::new(),
        }
    }

    /// Submits a request with at least one byte; `parts` are its bytes by node, each node at most
    /// once.
    ///
    /// The request counts from `since`, which may be before `now` to compensate a delay by the
    /// host.
    pub fn submit(&mut self, now: f64, since: f64, request: u64, parts: &[(usize, u64)]) {
        self.run_until(now);
        self.pending.insert(request, PendingRequest { parts: parts.len(), end: now });
        for &(node, bytes) in parts {
            let path = &mut self.engine.paths[node];
            if path.left == 0 {
                path.left = bytes;
                path.ready = path.ready.max(since);
            }
            self.queues[node].push_back((request, bytes));
        }
    }

    /// Returns the next request that is complete at `now`, until none is left.
    pub fn pop_served(&mut self, now: f64) -> Option<u64> {
        self.run_until(now);
        match self.served.peek() {
            Some(Reverse((OrderedTime(end), request))) if *end <= now => {
                let request = *request;
                self.served.pop();
                Some(request)
            }
            _ => None,
        }
    }

    /// Returns when the next request completes, unless another one arrives before; none if idle.
    pub fn next_end(&self) -> Option<f64> {
        let known = self.served.peek().map(|Reverse((OrderedTime(end), _))| *end);
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
        let Some(pending) = self.pending.get_mut(&request) else { return };
        pending.parts -= 1;
        pending.end = pending.end.max(end);
        if pending.parts == 0 {
            self.served.push(Reverse((OrderedTime(pending.end), request)));
            self.pending.remove(&request);
        }
    }
}

#[cfg(test)]
mod tests;
