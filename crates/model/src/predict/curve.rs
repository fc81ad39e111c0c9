//! Bandwidth by number of streams of one node, while no other node uses the device.

use numaio_schema::{Estimate, NodeCapacity, StreamsCapacity};

/// Growth factor below which more streams count as yielding no more.
const FULL: f64 = 1.02;

/// Estimates the bandwidth of `streams` streams from the measured numbers of streams.
///
/// Between two of them each stream has its own limit until the path is saturated, as for streams
/// that wait for their own requests; the lower end is linear interpolation. Fewer streams than
/// measured get the same bandwidth, in the worst case only their share. More streams get no more,
/// in the best case proportionally more if the bandwidth was still growing.
pub(super) fn at(node: &NodeCapacity, streams: u32) -> Estimate {
    let below = node.streams.iter().rev().find(|known| known.streams <= streams);
    let above = node.streams.iter().find(|known| known.streams >= streams);
    match (below, above) {
        (Some(below), Some(above)) if below.streams == above.streams => below.estimate,
        (Some(below), Some(above)) => between(below, above, streams),
        (None, Some(above)) => {
            let share = f64::from(streams) / f64::from(above.streams);
            Estimate { low: above.estimate.low * share, ..above.estimate }
        }
        (Some(below), None) => beyond(node, below, streams),
        (None, None) => Estimate::exactly(0.0),
    }
}

fn between(below: &StreamsCapacity, above: &StreamsCapacity, streams: u32) -> Estimate {
    let [from, to, at] = [below.streams, above.streams, streams].map(f64::from);
    let line = |a: f64, b: f64| a + (b - a) * (at - from) / (to - from);
    let limit = |a: f64, b: f64| if b > a { (a * at / from).min(b) } else { line(a, b) };
    let (a, b) = (below.estimate, above.estimate);
    Estimate {
        bytes_per_s: limit(a.bytes_per_s, b.bytes_per_s),
        low: line(a.low, b.low).min(limit(a.low, b.low)),
        high: limit(a.high, b.high),
    }
}

fn beyond(node: &NodeCapacity, last: &StreamsCapacity, streams: u32) -> Estimate {
    let before = node.streams.iter().rev().nth(1);
    let grows = before.is_none_or(|before| last.estimate.bytes_per_s > before.estimate.bytes_per_s * FULL);
    let more = if grows { f64::from(streams) / f64::from(last.streams) } else { 1.0 };
    Estimate { high: last.estimate.high * more, ..last.estimate }
}

/// Returns the fewest measured streams that saturate the node's path.
pub(super) fn busy(node: &NodeCapacity) -> u32 {
    let most = node.streams.iter().map(|known| known.estimate.bytes_per_s).fold(0.0, f64::max);
    let busy = node.streams.iter().find(|known| known.estimate.bytes_per_s * FULL >= most);
    busy.map_or(1, |known| known.streams)
}
