//! A mix of streams, and what its nodes get alone.

use super::curve;
use super::error::{PredictError, MOST_STREAMS};
use super::sharing::{MixInputs, MixNode};
use numaio_machine::ids::NodeId;
use numaio_schema::{Capacities, Estimate, NodeCapacity, NodeStreams, Reading};
use std::collections::BTreeMap;

/// 97.5 % quantile of the normal distribution.
pub(super) const NORMAL_95: f64 = 1.96;

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

pub(super) fn known<'a>(
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

/// Returns the bandwidth of each node alone with its streams.
pub(super) fn alone(nodes: &[&NodeCapacity], streams: &[NodeStreams]) -> Vec<Estimate> {
    nodes.iter().zip(streams).map(|(node, flow)| curve::at(node, flow.streams)).collect()
}

/// Returns the inputs of the sharing models.
pub(super) fn inputs(capacities: &Capacities, nodes: &[&NodeCapacity], streams: &[NodeStreams]) -> MixInputs {
    let all = number(streams);
    let part = |(node, flow): (&&NodeCapacity, &NodeStreams)| MixNode {
        node: flow.node,
        streams: f64::from(flow.streams),
        is_local: Some(flow.node) == capacities.node,
        own: curve::at(node, flow.streams).bytes_per_s,
        all: curve::at(node, all).bytes_per_s,
        one: curve::at(node, 1).bytes_per_s,
    };
    MixInputs {
        parts: nodes.iter().zip(streams).map(part).collect(),
        streams: f64::from(all),
        link: capacities.link_bytes_per_s.unwrap_or(f64::INFINITY),
    }
}
