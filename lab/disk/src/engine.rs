//! An engine that serves the requests of several nodes in pieces, under shared resources.
//!
//! A piece of a node starts when the node's path and all resources that the node uses are free.
//! Among the nodes that could start, the node with the least service is next (start-time fair
//! queueing: Goyal, Vin and Cheng, SIGCOMM 1996). Rules differ in the resources, in what counts as
//! service, and in the weights of nodes.
//!
//! All times are virtual: a piece starts when the previous one ended, even if the host was late.

use crate::rates::{Rates, SharingRule};
use std::collections::VecDeque;

/// Bytes served at once: far less than a request, so that nodes share evenly during a request.
const PIECE: u64 = 4096;

/// Largest delay of a path or resource that it catches up, in seconds.
///
/// Pieces of other nodes delay a path briefly. A path that could not be served for longer gets no
/// burst later.
const CATCH_UP: f64 = 1e-3;

/// Bytes of a request on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Number of the request.
    pub request: u64,
    /// Node of the buffer.
    pub node: usize,
    /// Bytes.
    pub bytes: u64,
}

/// What nodes share, such as a link or an engine's time.
#[derive(Debug, Clone)]
struct Resource {
    /// Seconds that a byte of each node occupies the resource; 0 if the node does not use it.
    seconds_per_byte: Vec<f64>,
    /// Time at which the resource can take its next piece, in seconds.
    free: f64,
}

/// The weights of nodes.
#[derive(Debug, Clone)]
enum Weights {
    Streams,
    Nodes(Vec<f64>),
}

#[derive(Debug, Clone)]
struct Path {
    rate: f64,
    /// Maximum rate of one stream of the node.
    stream: f64,
    /// Service that a byte counts as, before weights.
    cost: f64,
    /// Time at which the path can take its next piece, in seconds.
    ready: f64,
    /// Virtual time of the engine at which the path's last piece ends.
    served: f64,
    /// Remaining bytes of the current request; 0 if idle.
    left: u64,
    queue: VecDeque<Part>,
}

/// An engine of one direction.
#[derive(Debug, Clone)]
pub struct Engine {
    resources: Vec<Resource>,
    weights: Weights,
    /// Virtual time: the cost of a node that always has requests.
    time: f64,
    paths: Vec<Path>,
}

impl Engine {
    /// Creates the engine of a single rule, whose rates are multiplied by `scale`.
    pub fn new(rates: &Rates, rule: &SharingRule, scale: f64) -> Self {
        let nodes = rates.nodes.len();
        let by_path = |factor: f64| rates.nodes.iter().map(move |rate| 1.0 / (rate * factor));
        let bytes = vec![1.0; nodes];
        let streams = || Weights::Streams;
        let (shared, cost, weights): (Vec<f64>, Vec<f64>, Weights) = match rule {
            SharingRule::TimeByStreams { factor } => {
                (by_path(*factor).collect(), by_path(*factor).collect(), streams())
            }
            SharingRule::TimeByNodes { factor, weights } => {
                let weights = if weights.is_empty() { bytes } else { weights.clone() };
                (by_path(*factor).collect(), by_path(*factor).collect(), Weights::Nodes(weights))
            }
            SharingRule::Requests { factor } => (by_path(*factor).collect(), bytes, streams()),
            SharingRule::SharedLink { nodes: behind, bytes_per_s } => {
                let crosses = |node: usize| if behind.contains(&node) { 1.0 / bytes_per_s } else { 0.0 };
                ((0..nodes).map(crosses).collect(), bytes.clone(), Weights::Nodes(bytes))
            }
            SharingRule::Cores { cores, core_bytes_per_s } => {
                (core_bytes_per_s.iter().map(|core| 1.0 / (core * cores)).collect(), bytes, streams())
            }
            SharingRule::Copies { bytes_per_s, copies } => {
                (copies.iter().map(|copies| copies / bytes_per_s).collect(), bytes, streams())
            }
            SharingRule::Bytes => (Vec::new(), bytes.clone(), Weights::Nodes(bytes)),
            _ => (Vec::new(), bytes, streams()),
        };
        let cap = vec![1.0 / rates.cap; nodes];
        let scaled = |seconds: Vec<f64>| Resource {
            seconds_per_byte: seconds.iter().map(|seconds| seconds / scale).collect(),
            free: 0.0,
        };
        let resources = [cap, shared].into_iter().filter(|seconds| !seconds.is_empty()).map(scaled).collect();
        let limit = rates.stream.unwrap_or(f64::INFINITY);
        let stream = |node: usize| match rule {
            SharingRule::Cores { core_bytes_per_s, .. } => core_bytes_per_s[node].min(limit),
            _ => limit,
        };
        let path = |(node, cost): (usize, f64)| Path {
            rate: rates.nodes[node] * scale,
            stream: stream(node) * scale,
            cost,
            ready: 0.0,
            served: 0.0,
            left: 0,
            queue: VecDeque::new(),
        };
        Self { resources, weights, time: 0.0, paths: cost.into_iter().enumerate().map(path).collect() }
    }

    /// Adds a part of a request, which counts from a time in seconds.
    pub fn arrive(&mut self, since: f64, part: Part) {
        let path = &mut self.paths[part.node];
        if path.left == 0 {
            path.left = part.bytes;
            path.ready = path.ready.max(since);
        }
        path.queue.push_back(part);
    }

    /// Returns the node that gets the next piece, and the time.
    pub fn next(&self) -> Option<(usize, f64)> {
        let waiting = || self.paths.iter().enumerate().filter(|(_, path)| path.left > 0);
        let start = |node: usize, path: &Path| {
            let used = self.resources.iter().filter(|resource| resource.seconds_per_byte[node] > 0.0);
            used.map(|resource| resource.free).fold(path.ready, f64::max)
        };
        let at = waiting().map(|(node, path)| start(node, path)).min_by(f64::total_cmp)?;
        let eligible = waiting().filter(|(node, path)| start(*node, path) <= at);
        let (node, _) = eligible.min_by(|(_, a), (_, b)| a.served.total_cmp(&b.served))?;
        Some((node, at))
    }

    /// Serves a piece; returns the part of a request that it completes, with its arrival time.
    /// `streams` is the number of streams of each node.
    pub fn serve(&mut self, node: usize, at: f64, streams: &[f64]) -> Option<(f64, Part)> {
        let path = &mut self.paths[node];
        let bytes = path.left.min(PIECE);
        path.left -= bytes;
        let weight = match &self.weights {
            Weights::Streams => streams[node].max(1.0),
            Weights::Nodes(weights) => weights[node],
        };
        self.time = self.time.max(path.served);
        path.served = self.time + bytes as f64 * path.cost / weight;
        let rate = path.rate.min(path.stream * streams[node].max(1.0));
        path.ready = path.ready.max(at - CATCH_UP) + bytes as f64 / rate;
        let mut end = path.ready.max(at);
        for resource in &mut self.resources {
            let seconds = resource.seconds_per_byte[node];
            if seconds > 0.0 {
                resource.free = resource.free.max(at - CATCH_UP) + bytes as f64 * seconds;
                end = end.max(resource.free);
            }
        }
        if path.left > 0 {
            return None;
        }
        let ended = path.queue.pop_front();
        path.left = path.queue.front().map_or(0, |part| part.bytes);
        ended.map(|part| (end, part))
    }
}
