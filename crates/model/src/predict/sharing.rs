//! Models of how streams of several nodes share a device, as pure functions from the bandwidth of
//! each node alone to the bandwidth of each node in a mix.
//!
//! A model is a budget: each byte of a node costs a part of it, and nodes grow max-min fairly until
//! it is used. Models differ in the cost of a byte and in what grows equally.

use crate::max_min::{fill, Wanted};
use numaio_machine::ids::NodeId;
use numaio_schema::{SharingModel, SharingParameter};

/// Number of parameters of each model, at most.
pub(super) const MOST_PARAMETERS: usize = 2;
/// Parameters of a model; unused ones are ignored.
pub(super) type Parameters = [f64; MOST_PARAMETERS];

/// A model with its discrete choices.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SharingForm {
    pub model: SharingModel,
    /// Flows that grow equally.
    pub fairness: Fairness,
    /// Nodes behind the shared link.
    pub link: Vec<NodeId>,
    /// Weights of nodes that time is shared by, from a measured mix; empty if they are equal.
    pub weights: Vec<(NodeId, f64)>,
}

/// Flows that grow equally while a budget lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fairness {
    Streams,
    Nodes,
}

/// A mix, with the bandwidths of its nodes alone in bytes per second.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MixInputs {
    pub parts: Vec<MixNode>,
    /// Number of streams.
    pub streams: f64,
    /// Upper bound of all nodes together.
    pub link: f64,
}

/// One node of a mix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MixNode {
    pub node: NodeId,
    pub streams: f64,
    /// Whether it is the device's node.
    pub is_local: bool,
    /// Alone, with its own streams.
    pub own: f64,
    /// Alone, with as many streams as the mix.
    pub all: f64,
    /// Alone, with one stream.
    pub one: f64,
}

impl MixNode {
    /// Returns the bandwidth of one stream that is limited only by the device's units for streams,
    /// such as requests in flight or cores, of which there are `units`.
    ///
    /// One stream may be limited by itself, and many streams by the node's path. Both are then
    /// lower bounds, and the greater one is closer.
    fn of_one(&self, units: f64, streams: f64) -> f64 {
        self.one.max(self.all / units.min(streams)).max(f64::MIN_POSITIVE)
    }
}

/// Range and name of a parameter.
pub(super) struct ParameterRange {
    pub name: &'static str,
    pub least: f64,
    pub most: f64,
}

impl SharingForm {
    /// Creates a form without link or weights.
    pub fn new(model: SharingModel, fairness: Fairness) -> Self {
        Self { model, fairness, link: Vec::new(), weights: Vec::new() }
    }

    /// Returns the ranges of the parameters. `best` is the highest bandwidth of a node alone, `sum`
    /// that of all nodes alone together, `nodes` their number and `streams` the most of a mix.
    pub fn ranges(&self, best: f64, sum: f64, nodes: f64, streams: f64) -> Vec<ParameterRange> {
        let range = |name, least: f64, most: f64| ParameterRange { name, least, most: most.max(least * 1.2) };
        let cap = || range("cap", best * 0.8, sum * 1.1);
        match self.model {
            SharingModel::Bytes => vec![cap()],
            SharingModel::TimeByStreams | SharingModel::TimeByNodes => {
                vec![range("factor", 0.7, nodes), cap()]
            }
            SharingModel::Requests => vec![range("factor", 0.7, nodes), cap()],
            SharingModel::SharedLink => vec![range("link", best * 0.3, best * 2.5), cap()],
            SharingModel::InFlight => vec![range("streams", 0.8, streams), cap()],
            SharingModel::Cores => vec![range("cores", 0.8, streams), cap()],
            SharingModel::Copies => vec![cap(), range("copies", 1.1, 3.0)],
        }
    }

    /// Returns named parameters.
    pub fn named(&self, parameters: &Parameters) -> Vec<SharingParameter> {
        let ranges = self.ranges(1.0, 1.0, 1.0, 1.0);
        let named = |(range, value): (&ParameterRange, &f64)| SharingParameter {
            name: range.name.to_owned(),
            value: *value,
        };
        ranges.iter().zip(parameters).map(named).collect()
    }

    /// Returns the bandwidth of each node of a mix, in bytes per second. A single node gets what it
    /// gets alone.
    pub fn rates(&self, parameters: &Parameters, mix: &MixInputs) -> Vec<f64> {
        let [first, second] = *parameters;
        if let [only] = mix.parts.as_slice() {
            return vec![only.own];
        }
        let parts = &mix.parts;
        match self.model {
            SharingModel::Bytes => self.budget(mix, first.min(mix.link), |_| 1.0),
            SharingModel::TimeByStreams => self.time(mix, first, second.min(mix.link)),
            SharingModel::TimeByNodes => self.time(mix, first, second.min(mix.link)),
            SharingModel::Requests => {
                capped(self.budget(mix, first, |part| 1.0 / part.all), second.min(mix.link))
            }
            SharingModel::Cores => capped(
                self.budget(mix, first, |part| 1.0 / part.of_one(first, mix.streams)),
                second.min(mix.link),
            ),
            SharingModel::Copies => {
                let cost = |part: &MixNode| if part.is_local { 1.0 } else { second };
                capped(self.budget(mix, first * second, cost), mix.link)
            }
            SharingModel::SharedLink => self.link_rates(mix, first, second.min(mix.link)),
            SharingModel::InFlight => {
                let held = in_flight(parts, first, mix.streams);
                let least = parts.iter().zip(held).map(|(part, held)| part.own.min(held)).collect();
                capped(least, second.min(mix.link))
            }
        }
    }

    fn weight(&self, part: &MixNode) -> f64 {
        match self.fairness {
            Fairness::Streams => part.streams,
            Fairness::Nodes => {
                let known = self.weights.iter().find(|(node, _)| *node == part.node);
                known.map_or(1.0, |(_, weight)| *weight)
            }
        }
    }

    fn budget(&self, mix: &MixInputs, budget: f64, cost: impl Fn(&MixNode) -> f64) -> Vec<f64> {
        let wanted = |part: &MixNode| Wanted { most: part.own, weight: self.weight(part), cost: cost(part) };
        let wanted: Vec<Wanted> = mix.parts.iter().map(wanted).collect();
        fill(budget, &wanted)
    }

    /// Shares the device's time by weights; `factor` is the rate of a node that the device serves,
    /// over that of its path. Time that a node cannot use goes to the others.
    fn time(&self, mix: &MixInputs, factor: f64, cap: f64) -> Vec<f64> {
        let wanted = |part: &MixNode| Wanted {
            most: part.own / (factor * part.all),
            weight: self.weight(part),
            cost: 1.0,
        };
        let wanted: Vec<Wanted> = mix.parts.iter().map(wanted).collect();
        let shares = fill(1.0, &wanted);
        let rates = shares.iter().zip(&mix.parts).map(|(share, part)| share * factor * part.all);
        capped(rates.collect(), cap)
    }

    /// Fills the link first, or the cap first, whichever is used up at the lower level.
    fn link_rates(&self, mix: &MixInputs, link: f64, cap: f64) -> Vec<f64> {
        let behind = |part: &MixNode| self.link.contains(&part.node);
        let cost = |part: &MixNode| f64::from(u8::from(behind(part)));
        let by_link = self.budget(mix, link, cost);
        let wanted =
            |(part, most): (&MixNode, &f64)| Wanted { most: *most, weight: self.weight(part), cost: 1.0 };
        let wanted: Vec<Wanted> = mix.parts.iter().zip(&by_link).map(wanted).collect();
        fill(cap, &wanted)
    }
}

fn capped(mut rates: Vec<f64>, cap: f64) -> Vec<f64> {
    let sum: f64 = rates.iter().sum();
    if sum > cap {
        rates.iter_mut().for_each(|rate| *rate *= cap / sum);
    }
    rates
}

/// Little's law with a queue before the device, in units of streams: of all streams, at most `most`
/// are in service, each for the latency that its node shows alone; all wait equally long.
fn in_flight(parts: &[MixNode], most: f64, streams: f64) -> Vec<f64> {
    let latency = |part: &MixNode| 1.0 / part.of_one(most, streams);
    let in_service = |wait: f64| -> f64 {
        parts.iter().map(|part| part.streams * latency(part) / (wait + latency(part))).sum()
    };
    let wait = if in_service(0.0) <= most {
        0.0
    } else {
        // The sum decreases and is convex in the wait: Newton's method from below converges.
        let mut wait = 0.0;
        for _ in 0..40 {
            let slope: f64 =
                parts.iter().map(|part| part.streams * latency(part) / (wait + latency(part)).powi(2)).sum();
            let step = (in_service(wait) - most) / slope;
            wait += step;
            if step <= wait * 1e-9 {
                break;
            }
        }
        wait
    };
    parts.iter().map(|part| part.streams / (wait + latency(part))).collect()
}
