//! Distribution of streams over nodes with the highest predicted bandwidth.

use super::capacities::DeviceFit;
use super::curve;
use super::error::{PredictError, MAX_DISTRIBUTED_STREAMS};
use super::family::Point;
use super::mix::{predict, total};
use super::mix_inputs::{inputs, known, merged};
use numaio_schema::{MixPrediction, NodeCapacity, NodeStreams};

/// Relative difference below which two lower ends are equal.
const SAME: f64 = 0.005;
/// Relative difference of nodes alone below which they are equal, if their intervals overlap.
const SAME_NODES: f64 = 0.02;
/// Points of the sharing models by which distributions are compared.
const MOST_POINTS: usize = 120;
/// Share of the lower end that spreading streams over equal nodes may cost: a single node has no
/// misfit of the sharing models in its interval.
const SPREAD: f64 = 0.05;
/// Distributions whose intervals are computed exactly.
const MOST_CANDIDATES: usize = 12;
/// Improvements after which the search ends.
const MOST_STEPS: usize = 200;
/// Probability below the lower end by which distributions are compared.
const LOWER: f64 = 0.025;

/// Distributes streams so that the lower end of the predicted interval is highest. Nodes with the
/// same bandwidth within the noise get equal numbers of streams.
///
/// The search starts from each node alone and from even distributions over the fastest nodes, and
/// moves streams between nodes as long as that helps.
///
/// # Errors
/// [`PredictError`] if there are no streams or more than [`MAX_DISTRIBUTED_STREAMS`].
pub fn best_mix(fit: &DeviceFit, streams: u32) -> Result<MixPrediction, PredictError> {
    if streams == 0 {
        return Err(PredictError::NoStreams);
    }
    if streams > MAX_DISTRIBUTED_STREAMS {
        return Err(PredictError::TooMany { streams, most: MAX_DISTRIBUTED_STREAMS });
    }
    let nodes = in_order(fit, streams);
    let points = equal_points(fit);
    let end_of = |counts: Vec<u32>| {
        let end = lower_end(fit, &points, &nodes, &counts);
        (counts, end)
    };
    let mut ranked: Vec<(Vec<u32>, f64)> = starts(nodes.len(), streams).into_iter().map(end_of).collect();
    // Stable: of equal ends, the one with fewer nodes stays first.
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked.truncate(MOST_CANDIDATES);
    let nothing = PredictError::NothingMeasured { direction: fit.capacities.direction };
    let first = ranked.first().cloned().ok_or(nothing)?;
    ranked.push(improved(fit, &points, &nodes, first));
    let exact = |counts: &[u32]| predict(fit, &mix_of(&nodes, counts));
    let mut best: Option<(Vec<u32>, MixPrediction)> = None;
    for (counts, _) in ranked {
        let found = exact(&counts)?;
        let end = |known: &MixPrediction| known.limits.low * (1.0 + SAME);
        if best.as_ref().is_none_or(|(_, known)| found.limits.low > end(known)) {
            best = Some((counts, found));
        }
    }
    let Some((counts, best)) = best else { return Err(PredictError::NoStreams) };
    let spread = exact(&spread(&nodes, &counts, streams))?;
    let is_tie = spread.limits.bytes_per_s >= best.limits.bytes_per_s * (1.0 - SAME_NODES)
        && spread.limits.low >= best.limits.low * (1.0 - SPREAD);
    Ok(if is_tie { spread } else { best })
}

/// Returns points of equal probability.
fn equal_points(fit: &DeviceFit) -> Vec<&Point> {
    fit.family.sample(MOST_POINTS)
}

/// Sorts nodes by their bandwidth alone; of equal ones the device's own is first.
fn in_order(fit: &DeviceFit, streams: u32) -> Vec<&NodeCapacity> {
    let mut nodes: Vec<&NodeCapacity> = fit.capacities.nodes.iter().collect();
    // An unmeasured node counts with the lower end of its interval.
    let alone = |node: &NodeCapacity| curve::at(node, streams).low;
    let own = |node: &NodeCapacity| Some(node.node) == fit.capacities.node;
    nodes.sort_by(|a, b| alone(b).total_cmp(&alone(a)).then(own(b).cmp(&own(a))).then(a.node.cmp(&b.node)));
    nodes
}

/// Returns each node alone, and even distributions over the first nodes.
fn starts(nodes: usize, streams: u32) -> Vec<Vec<u32>> {
    let alone = |index: usize| (0..nodes).map(|node| if node == index { streams } else { 0 }).collect();
    let even = |used: usize| -> Vec<u32> {
        let share = |node: usize| {
            let more = u32::from((node as u32) < streams % used as u32);
            if node < used {
                streams / used as u32 + more
            } else {
                0
            }
        };
        (0..nodes).map(share).collect()
    };
    (0..nodes).map(alone).chain((2..=nodes.min(streams as usize)).map(even)).collect()
}

/// Moves streams between nodes while the lower end grows.
fn improved(
    fit: &DeviceFit,
    points: &[&Point],
    nodes: &[&NodeCapacity],
    start: (Vec<u32>, f64),
) -> (Vec<u32>, f64) {
    let (mut counts, mut end) = start;
    for _ in 0..MOST_STEPS {
        let mut better: Option<(Vec<u32>, f64)> = None;
        for from in (0..nodes.len()).filter(|node| counts[*node] > 0) {
            for to in (0..nodes.len()).filter(|to| *to != from) {
                let mut moved = counts.clone();
                moved[from] -= 1;
                moved[to] += 1;
                let found = lower_end(fit, points, nodes, &moved);
                if found > better.as_ref().map_or(end * (1.0 + SAME), |(_, known)| *known) {
                    better = Some((moved, found));
                }
            }
        }
        match better {
            Some(found) => (counts, end) = found,
            None => break,
        }
    }
    (counts, end)
}

/// Spreads the streams of equal nodes evenly over all of them.
fn spread(nodes: &[&NodeCapacity], counts: &[u32], streams: u32) -> Vec<u32> {
    let mut spread = counts.to_vec();
    let mut grouped = vec![false; nodes.len()];
    for first in 0..nodes.len() {
        if counts[first] == 0 || grouped[first] {
            continue;
        }
        let alike: Vec<usize> = (0..nodes.len())
            .filter(|other| !grouped[*other] && are_alike(nodes[first], nodes[*other], streams))
            .collect();
        let sum: u32 = alike.iter().map(|node| counts[*node]).sum();
        let number = alike.len() as u32;
        for (index, node) in (0..).zip(&alike) {
            spread[*node] = sum / number + u32::from(index < sum % number);
            grouped[*node] = true;
        }
    }
    spread
}

fn are_alike(a: &NodeCapacity, b: &NodeCapacity, streams: u32) -> bool {
    let (one, other) = (curve::at(a, streams), curve::at(b, streams));
    let overlap = one.low <= other.high && other.low <= one.high;
    let is_measured = a.measured == a.node && b.measured == b.node;
    overlap && is_measured && (one.bytes_per_s / other.bytes_per_s - 1.0).abs() <= SAME_NODES
}

fn mix_of(nodes: &[&NodeCapacity], counts: &[u32]) -> Vec<NodeStreams> {
    let parts = nodes.iter().zip(counts);
    merged(
        &parts.map(|(node, streams)| NodeStreams { node: node.node, streams: *streams }).collect::<Vec<_>>(),
    )
}

/// Returns a lower end of the bandwidth by the most probable points, with every node at its lower
/// end, in bytes per second.
fn lower_end(fit: &DeviceFit, points: &[&Point], nodes: &[&NodeCapacity], counts: &[u32]) -> f64 {
    let mix = mix_of(nodes, counts);
    let Ok(known) = known(&fit.capacities, &mix) else { return 0.0 };
    let mut inputs = inputs(&fit.capacities, &known, &mix);
    for (part, node) in inputs.parts.iter_mut().zip(&known) {
        let alone = curve::at(node, part.streams as u32);
        part.own = alone.low;
        part.all *= alone.low / alone.bytes_per_s;
    }
    let mut values: Vec<f64> = points.iter().map(|point| total(fit, point, &inputs)).collect();
    values.sort_by(f64::total_cmp);
    values.get((values.len() as f64 * LOWER) as usize).copied().unwrap_or(0.0)
}
