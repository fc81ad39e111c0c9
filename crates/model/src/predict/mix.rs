//! The two predictors of a mix.

use super::curve;
use super::error::{PredictError, MOST_STREAMS};
use numaio_machine::ids::NodeId;
use numaio_schema::{
    Capacities, Estimate, FlowPrediction, LimitedBy, MixMeasurement, MixPrediction, NodeCapacity,
    NodeStreams, Reading, Sharing,
};
use std::collections::BTreeMap;

/// Rates within this relative difference are equal: floating-point sums depend on the order.
const SAME: f64 = 1e-9;

/// Predicts a mix by both predictors. A node that is named twice has the streams of both.
///
/// The second predictor: streams of a node get at most what they get alone, all streams at most the
/// device's cap, and within these limits every stream the same (max-min fair). Where a mix was
/// measured below its best node alone, the device time-shares its streams, and the prediction is
/// Equation 1 times the ratio of that mix to its Equation 1.
///
/// # Errors
/// [`PredictError`] if there are no streams or too many, or a node is unknown.
pub fn predict(capacities: &Capacities, mix: &[NodeStreams]) -> Result<MixPrediction, PredictError> {
    let streams = merged(mix);
    let nodes = known(capacities, &streams)?;
    let alone: Vec<Estimate> =
        nodes.iter().zip(&streams).map(|(node, flow)| curve::at(node, flow.streams)).collect();
    let by_end = |end: EstimatePart| {
        let alone: Vec<f64> = alone.iter().map(|alone| end.of(*alone)).collect();
        rates(capacities, &nodes, &streams, &alone, end)
    };
    let [low, middle, high] = [EstimatePart::Low, EstimatePart::Middle, EstimatePart::High].map(by_end);
    let sum = |rates: &[f64]| rates.iter().sum::<f64>();
    let limits = Estimate { bytes_per_s: sum(&middle), low: sum(&low), high: sum(&high) };
    let flow = |((flow, alone), rate): ((&NodeStreams, &Estimate), &f64)| FlowPrediction {
        node: flow.node,
        alone: *alone,
        bytes_per_s: *rate,
        limited_by: if *rate >= alone.bytes_per_s * (1.0 - SAME) {
            LimitedBy::Path
        } else {
            LimitedBy::Device
        },
    };
    let flows = streams.iter().zip(&alone).zip(&middle).map(flow).collect();
    let equation_1 = equation_1(capacities, &nodes, &streams);
    Ok(MixPrediction { equation_1, limits, flows, streams, measured: None })
}

/// Adds a measured value to a prediction; unchanged without a value.
pub fn with_measurement(prediction: MixPrediction, reading: &Reading) -> MixPrediction {
    let measured = estimate(reading).map(|estimate| MixMeasurement {
        estimate,
        equation_1_error: prediction.equation_1.bytes_per_s / estimate.bytes_per_s - 1.0,
        limits_error: prediction.limits.bytes_per_s / estimate.bytes_per_s - 1.0,
    });
    MixPrediction { measured: measured.or(prediction.measured), ..prediction }
}

/// Returns a reading with its interval, or `None` without a value.
pub(super) fn estimate(reading: &Reading) -> Option<Estimate> {
    let (bytes_per_s, summary) = (reading.median()?, reading.summary.as_ref()?);
    Some(Estimate { bytes_per_s, low: summary.low.min(bytes_per_s), high: summary.high.max(bytes_per_s) })
}

/// Merges the streams of each node.
pub(super) fn merged(mix: &[NodeStreams]) -> Vec<NodeStreams> {
    let mut by_node: BTreeMap<NodeId, u32> = BTreeMap::new();
    for NodeStreams { node, streams } in mix.iter().filter(|part| part.streams > 0) {
        let sum = by_node.entry(*node).or_default();
        *sum = sum.saturating_add(*streams);
    }
    by_node.into_iter().map(|(node, streams)| NodeStreams { node, streams }).collect()
}

pub(super) fn number(streams: &[NodeStreams]) -> u32 {
    streams.iter().map(|flow| flow.streams).fold(0, u32::saturating_add)
}

fn known<'a>(
    capacities: &'a Capacities,
    streams: &[NodeStreams],
) -> Result<Vec<&'a NodeCapacity>, PredictError> {
    match number(streams) {
        0 => return Err(PredictError::NoStreams),
        streams if streams > MOST_STREAMS => {
            return Err(PredictError::TooMany { streams, most: MOST_STREAMS })
        }
        _ => {}
    }
    let of = |flow: &NodeStreams| {
        let found = capacities.nodes.iter().find(|node| node.node == flow.node);
        found.ok_or_else(|| PredictError::NotMeasured {
            node: flow.node,
            known: capacities.nodes.iter().map(|node| node.node).collect(),
        })
    };
    streams.iter().map(of).collect()
}

/// Equation 1 of Li et al. (ICPP 2013): the sum of the classes' bandwidths, each times its share of
/// the streams.
///
/// A class's bandwidth is the mean of its measured members, with as many streams as the complete
/// mix. Without a model each node is a separate class.
fn equation_1(capacities: &Capacities, nodes: &[&NodeCapacity], streams: &[NodeStreams]) -> Estimate {
    let all = number(streams);
    let parts = nodes.iter().zip(streams).map(|(node, flow)| {
        let share = f64::from(flow.streams) / f64::from(all);
        class_bandwidth(capacities, node, all).map(|bandwidth| bandwidth * share)
    });
    parts.fold(Estimate::exactly(0.0), |sum, part| Estimate {
        bytes_per_s: sum.bytes_per_s + part.bytes_per_s,
        low: sum.low + part.low,
        high: sum.high + part.high,
    })
}

fn class_bandwidth(capacities: &Capacities, node: &NodeCapacity, streams: u32) -> Estimate {
    let of_class = |other: &&NodeCapacity| {
        other.measured == other.node && other.class == node.class && node.class.is_some()
    };
    let members: Vec<Estimate> =
        capacities.nodes.iter().filter(of_class).map(|other| curve::at(other, streams)).collect();
    if members.is_empty() {
        return curve::at(node, streams);
    }
    let mean =
        |end: EstimatePart| members.iter().map(|member| end.of(*member)).sum::<f64>() / members.len() as f64;
    Estimate {
        bytes_per_s: mean(EstimatePart::Middle),
        low: mean(EstimatePart::Low),
        high: mean(EstimatePart::High),
    }
}

/// One of the three values of an estimate.
#[derive(Debug, Clone, Copy)]
enum EstimatePart {
    Low,
    Middle,
    High,
}

impl EstimatePart {
    fn of(self, estimate: Estimate) -> f64 {
        match self {
            Self::Low => estimate.low,
            Self::Middle => estimate.bytes_per_s,
            Self::High => estimate.high,
        }
    }
}

/// Returns the bandwidth of each node's streams by the second predictor.
fn rates(
    capacities: &Capacities,
    nodes: &[&NodeCapacity],
    streams: &[NodeStreams],
    alone: &[f64],
    end: EstimatePart,
) -> Vec<f64> {
    let cap = end.of(capacities.cap).min(capacities.link_bytes_per_s.unwrap_or(f64::INFINITY));
    let cap = match capacities.sharing {
        _ if streams.len() == 1 => f64::INFINITY,
        Sharing::MaxMin => cap,
        Sharing::Time { factor, interval } => {
            let factor = end.of(Estimate { bytes_per_s: factor, low: interval.0, high: interval.1 });
            let (mean, best) = mean_and_best(nodes, streams, end);
            (mean * factor).min(best).min(cap)
        }
    };
    let streams: Vec<u32> = streams.iter().map(|flow| flow.streams).collect();
    share(cap, &streams, alone)
}

/// Returns the mean of the nodes' bandwidths alone with all streams of the mix, weighted by their
/// share of streams, and the greatest of them.
fn mean_and_best(nodes: &[&NodeCapacity], streams: &[NodeStreams], end: EstimatePart) -> (f64, f64) {
    let all = number(streams);
    let with_all = |node: &NodeCapacity| end.of(curve::at(node, all));
    let parts = nodes.iter().zip(streams).map(|(node, flow)| f64::from(flow.streams) * with_all(node));
    let best = nodes.iter().map(|node| with_all(node)).fold(0.0, f64::max);
    (parts.sum::<f64>() / f64::from(all.max(1)), best)
}

/// Returns that mean with its interval, or `None` if a node is unknown.
pub(super) fn mean_of_streams(
    capacities: &Capacities,
    streams: &[NodeStreams],
) -> Option<(Estimate, Estimate)> {
    let nodes = known(capacities, streams).ok()?;
    let [low, middle, high] = [EstimatePart::Low, EstimatePart::Middle, EstimatePart::High]
        .map(|end| mean_and_best(&nodes, streams, end));
    let of = |part: fn((f64, f64)) -> f64| Estimate {
        bytes_per_s: part(middle),
        low: part(low),
        high: part(high),
    };
    Some((of(|pair| pair.0), of(|pair| pair.1)))
}

/// Shares a cap equally among streams, where those of a node get together at most `most` of it.
pub(super) fn share(cap: f64, streams: &[u32], most: &[f64]) -> Vec<f64> {
    let one = |index: usize| most[index] / f64::from(streams[index].max(1));
    let mut order: Vec<usize> = (0..streams.len()).collect();
    order.sort_by(|a, b| one(*a).total_cmp(&one(*b)));
    let mut rates = vec![0.0; streams.len()];
    let (mut left, mut waiting) = (cap, streams.iter().map(|streams| f64::from(*streams)).sum::<f64>());
    for index in order {
        let number = f64::from(streams[index]);
        rates[index] = most[index].min((left / waiting * number).max(0.0));
        left -= rates[index];
        waiting -= number;
    }
    rates
}
