//! Service of one direction of the disk: when each request completes. The model has no clock; times
//! are seconds since its start.
//!
//! A rule is a pipeline of stages: slots, engines, or two rules one after the other. Two rules that
//! blend are two pipelines at a part of the rates each, and a node's requests are divided evenly
//! between them.

use crate::engine::{Engine, Part};
use crate::ordered_time::OrderedTime;
use crate::rates::{Rates, SharingRule};
use crate::slots::Slots;
use crate::stalls::StallClock;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Largest reaction time of the guest that is not counted for slots, in seconds.
const MAX_REACTION: f64 = 0.05;

/// A stage of a pipeline.
#[derive(Debug, Clone)]
enum Stage {
    Slots(Slots),
    Engine(Engine),
}

/// A part on its way to a stage: when it arrives, a number that keeps the order, and the stage.
type Transit = Reverse<(OrderedTime, u64, usize, Part)>;

/// Stages that a request passes one after the other.
#[derive(Debug, Clone)]
struct Pipeline {
    /// Share of the disk's time.
    share: f64,
    stages: Vec<Stage>,
    transit: BinaryHeap<Transit>,
    /// Number of parts that moved between stages.
    moved: u64,
    /// Bytes in the pipeline by node.
    pending: Vec<u64>,
}

impl Pipeline {
    fn new(rates: &Rates, rule: &SharingRule, share: f64) -> Self {
        let rules = match rule {
            SharingRule::Both { rules } => rules.as_slice(),
            other => std::slice::from_ref(other),
        };
        let stages_of = |rule: &SharingRule| -> Vec<Stage> {
            let engine = Stage::Engine(Engine::new(rates, rule, share));
            match rule {
                SharingRule::InFlight { requests, latency_s } => {
                    vec![Stage::Slots(Slots::new(*requests, latency_s)), engine]
                }
                _ => vec![engine],
            }
        };
        let stages = rules.iter().flat_map(stages_of).collect();
        Self { share, stages, transit: BinaryHeap::new(), moved: 0, pending: vec![0; rates.nodes.len()] }
    }

    fn submit(&mut self, since: f64, part: Part) {
        self.pending[part.node] += part.bytes;
        self.send(since, 0, part);
    }

    fn send(&mut self, at: f64, stage: usize, part: Part) {
        self.transit.push(Reverse((OrderedTime(at), self.moved, stage, part)));
        self.moved += 1;
    }

    /// Returns the time of the next event, and the stage whose engine serves a piece; no stage if a
    /// part arrives at one.
    fn next(&self) -> Option<(f64, Option<(usize, usize)>)> {
        let arrival = self.transit.peek().map(|Reverse((OrderedTime(at), ..))| (*at, None));
        let pieces = self.stages.iter().enumerate().filter_map(|(stage, of)| match of {
            Stage::Engine(engine) => engine.next().map(|(node, at)| (at, Some((stage, node)))),
            Stage::Slots(_) => None,
        });
        arrival.into_iter().chain(pieces).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Executes an event of [`Self::next`]; returns the part that it completes, and when.
    fn step(&mut self, at: f64, piece: Option<(usize, usize)>, streams: &[f64]) -> Option<(f64, Part)> {
        if let Some((stage, node)) = piece {
            let Stage::Engine(engine) = &mut self.stages[stage] else { return None };
            let ended = engine.serve(node, at, streams);
            if let Some((end, part)) = ended {
                self.send(end, stage + 1, part);
            }
            return None;
        }
        let Reverse((_, _, stage, part)) = self.transit.pop()?;
        match self.stages.get_mut(stage) {
            None => {
                self.pending[part.node] -= part.bytes;
                return Some((at, part));
            }
            Some(Stage::Engine(engine)) => engine.arrive(at, part),
            Some(Stage::Slots(slots)) => {
                let end = slots.assign(at, part);
                self.send(end, stage + 1, part);
            }
        }
        None
    }
}

/// A request with pending parts.
#[derive(Debug, Clone)]
struct PendingRequest {
    parts: usize,
    end: f64,
}

/// State that determines the schedule until the next request arrives, in the disk's time.
#[derive(Debug, Clone)]
struct Schedule {
    pipelines: Vec<Pipeline>,
    /// Streams of each node.
    streams: Vec<f64>,
    pending: HashMap<u64, PendingRequest>,
    served: BinaryHeap<Reverse<(OrderedTime, u64)>>,
}

/// One direction of the disk.
#[derive(Debug)]
pub struct Service {
    schedule: Schedule,
    clock: StallClock,
    stream_bytes: u64,
    /// Bytes that the guest waits for, by node.
    outstanding: Vec<u64>,
    requests: HashMap<u64, Vec<Part>>,
    /// Ends of requests that the guest has not replaced by new ones, by node, oldest first; only
    /// for slots, whose rate depends on the guest's reaction time.
    replaceable: Option<Vec<VecDeque<f64>>>,
}

impl Schedule {
    /// Adds a part to the pipeline in which its node has the least to do.
    fn submit(&mut self, since: f64, part: Part) {
        let filled = |pipeline: &Pipeline| pipeline.pending[part.node] as f64 / pipeline.share;
        let least = self.pipelines.iter_mut().min_by(|a, b| filled(a).total_cmp(&filled(b)));
        if let Some(pipeline) = least {
            pipeline.submit(since, part);
        }
    }

    fn first_end(&self) -> Option<f64> {
        self.served.peek().map(|Reverse((OrderedTime(end), _))| *end)
    }

    fn run_until(&mut self, now: f64) {
        while self.step_until(now) {}
    }

    /// Executes the next event if it is due; returns whether it did.
    fn step_until(&mut self, now: f64) -> bool {
        let next =
            |(index, pipeline): (usize, &Pipeline)| pipeline.next().map(|(at, piece)| (at, index, piece));
        let events = self.pipelines.iter().enumerate().filter_map(next);
        let first = events.min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((at, index, piece)) = first.filter(|(at, ..)| *at <= now) else { return false };
        if let Some((end, part)) = self.pipelines[index].step(at, piece, &self.streams) {
            self.end_part(end, part);
        }
        true
    }

    fn end_part(&mut self, end: f64, part: Part) {
        let Some(pending) = self.pending.get_mut(&part.request) else { return };
        pending.parts -= 1;
        pending.end = pending.end.max(end);
        if pending.parts == 0 {
            self.served.push(Reverse((OrderedTime(pending.end), part.request)));
            self.pending.remove(&part.request);
        }
    }
}

impl Service {
    /// Creates a direction without requests.
    pub fn new(rates: &Rates) -> Self {
        let pipelines = match &rates.sharing {
            SharingRule::Blend { share, rules } => {
                let shares = [*share, 1.0 - share];
                rules.iter().zip(shares).map(|(rule, share)| Pipeline::new(rates, rule, share)).collect()
            }
            rule => vec![Pipeline::new(rates, rule, 1.0)],
        };
        let nodes = rates.nodes.len();
        let schedule = Schedule {
            pipelines,
            streams: vec![0.0; nodes],
            pending: HashMap::new(),
            served: BinaryHeap::new(),
        };
        Self {
            schedule,
            clock: StallClock::new(rates.stalls.unwrap_or(0.0)),
            stream_bytes: rates.stream_bytes,
            outstanding: vec![0; nodes],
            requests: HashMap::new(),
            replaceable: has_slots(&rates.sharing).then(|| vec![VecDeque::new(); nodes]),
        }
    }

    /// Submits a request with at least one byte; `parts` are its bytes by node, each node at most
    /// once.
    ///
    /// The request counts from `since`, which may be before `now` to compensate a delay by the
    /// host.
    pub fn submit(&mut self, now: f64, since: f64, request: u64, parts: &[(usize, u64)]) {
        let [now, since] = [now, since].map(|time| self.clock.disk_time(time));
        self.schedule.run_until(now);
        let since = since.min(self.reaction_start(now, parts));
        self.schedule.pending.insert(request, PendingRequest { parts: parts.len(), end: since });
        let parts: Vec<Part> = parts.iter().map(|&(node, bytes)| Part { request, node, bytes }).collect();
        for part in &parts {
            self.schedule.submit(since, *part);
            self.outstanding[part.node] += part.bytes;
            self.count_streams(part.node);
        }
        self.requests.insert(request, parts);
    }

    /// Returns the next request that is complete at `now`, until none is left.
    pub fn pop_served(&mut self, now: f64) -> Option<u64> {
        let now = self.clock.disk_time(now);
        self.schedule.run_until(now);
        self.schedule.first_end().filter(|end| *end <= now)?;
        let Reverse((OrderedTime(end), request)) = self.schedule.served.pop()?;
        for part in self.requests.remove(&request).unwrap_or_default() {
            if let Some(ends) = &mut self.replaceable {
                ends[part.node].push_back(end);
            }
            self.outstanding[part.node] -= part.bytes;
            self.count_streams(part.node);
        }
        Some(request)
    }

    /// Returns when the next request completes, unless another one arrives before; none if idle.
    pub fn next_end(&self) -> Option<f64> {
        let end = self.schedule.first_end().or_else(|| {
            let mut ahead = self.schedule.clone();
            while ahead.first_end().is_none() && ahead.step_until(f64::INFINITY) {}
            ahead.first_end()
        });
        end.map(|end| self.clock.host_time(end))
    }

    /// Returns the end of the request that a new one replaces, if the guest reacted in time, or
    /// `now`.
    fn reaction_start(&mut self, now: f64, parts: &[(usize, u64)]) -> f64 {
        let Some(ends) = &mut self.replaceable else { return now };
        let ended = parts.iter().filter_map(|(node, _)| {
            let ends = &mut ends[*node];
            while ends.front().is_some_and(|end| *end < now - MAX_REACTION) {
                ends.pop_front();
            }
            ends.pop_front()
        });
        ended.fold(now, f64::min)
    }

    /// Counts the streams of a node. A stream has at most `stream_bytes` in flight, and fewer while
    /// the guest handles its completions.
    fn count_streams(&mut self, node: usize) {
        self.schedule.streams[node] = self.outstanding[node].div_ceil(self.stream_bytes) as f64;
    }
}

fn has_slots(rule: &SharingRule) -> bool {
    match rule {
        SharingRule::InFlight { .. } => true,
        SharingRule::Both { rules } => rules.iter().any(has_slots),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
