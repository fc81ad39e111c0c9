//! The mix whose measurement improves predictions most.

use super::capacities::DeviceFit;
use super::curve;
use super::family::Point;
use super::mix::total;
use super::mix_inputs::{inputs, known, merged, NORMAL_95};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_schema::{Estimate, ModelPrediction, NodeCapacity, NodeStreams, SuggestedMix};

/// Relative standard deviation of a measured mix that limits what it reveals.
const NOISE: f64 = 0.01;
/// Points that represent all of the models.
const MOST_POINTS: usize = 400;
/// Most pairs of nodes that are candidates: limits the work on large machines.
const MOST_PAIRS: usize = 66;
/// Number of models whose predictions are listed.
const MOST_MODELS: usize = 4;

/// Returns the mix of nodes in `among` whose measurement reduces the variance of predictions most,
/// or `None` if there are fewer than two such nodes.
///
/// The predictions are those of `wanted`, or of all candidates if that is empty; `wanted` itself is
/// never suggested, and neither are mixes in `measured`. The design is optimal to first order: a
/// measured logarithm y reduces the variance of a predicted one x by cov(x, y)^2 / (var(y) +
/// noise^2) (Chaloner and Verdinelli, *Statistical Science* 10, 1995, for linear models).
pub fn suggest_mix(
    fit: &DeviceFit,
    among: &NodeSet,
    wanted: &[NodeStreams],
    measured: &[Vec<NodeStreams>],
) -> Option<SuggestedMix> {
    let wanted = merged(wanted);
    let mixes = candidates(fit, among);
    let points = fit.family.sample(MOST_POINTS);
    let logs: Vec<Vec<f64>> = mixes.iter().filter_map(|mix| log_totals(fit, &points, mix)).collect();
    if logs.len() != mixes.len() {
        return None;
    }
    let asked: Vec<Vec<f64>> =
        log_totals(fit, &points, &wanted).map_or_else(|| logs.clone(), |log| vec![log]);
    let centered = |logs: &[Vec<f64>]| -> Vec<Vec<f64>> { logs.iter().map(|log| center(log)).collect() };
    let (logs, asked) = (centered(&logs), centered(&asked));
    let variance = |asked: &[f64]| covariance(asked, asked);
    let before: f64 = asked.iter().map(|asked| variance(asked)).sum();
    let gain = |log: &Vec<f64>| -> f64 {
        let noise = variance(log) + NOISE * NOISE;
        asked.iter().map(|asked| covariance(asked, log).powi(2) / noise).sum()
    };
    let is_new =
        |mix: &&Vec<NodeStreams>| **mix != wanted && !measured.iter().any(|known| merged(known) == **mix);
    let gains = mixes.iter().zip(&logs).filter(|(mix, _)| is_new(mix)).map(|(mix, log)| (mix, gain(log)));
    let (mix, gain) =
        gains.reduce(|best, other| if other.1 > best.1 * (1.0 + 1e-9) { other } else { best })?;
    let number = asked.len() as f64;
    Some(SuggestedMix {
        streams: mix.clone(),
        predictions: predictions(fit, mix),
        deviation_before: (before / number).sqrt(),
        deviation_after: ((before - gain).max(0.0) / number).sqrt(),
    })
}

/// Returns the mixes that may be measured: all nodes, and pairs, evenly and unevenly loaded.
fn candidates(fit: &DeviceFit, among: &NodeSet) -> Vec<Vec<NodeStreams>> {
    let nodes: Vec<&NodeCapacity> =
        fit.capacities.nodes.iter().filter(|node| among.contains(node.node)).collect();
    let of = |parts: &[(NodeId, u32)]| -> Vec<NodeStreams> {
        merged(
            &parts
                .iter()
                .map(|(node, streams)| NodeStreams { node: *node, streams: *streams })
                .collect::<Vec<_>>(),
        )
    };
    if nodes.len() < 2 {
        return Vec::new();
    }
    let all = |streams: &dyn Fn(&NodeCapacity) -> u32| -> Vec<NodeStreams> {
        of(&nodes.iter().map(|node| (node.node, streams(node))).collect::<Vec<_>>())
    };
    let mut found = vec![all(&|node| curve::busy(node).min(4)), all(&|_| 1), all(&|_| 2)];
    let pairs = (0..nodes.len()).flat_map(|a| (a + 1..nodes.len()).map(move |b| (a, b)));
    for (a, b) in pairs.take(MOST_PAIRS) {
        let (a, b) = (nodes[a].node, nodes[b].node);
        found.extend([
            of(&[(a, 3), (b, 3)]),
            of(&[(a, 1), (b, 1)]),
            of(&[(a, 1), (b, 5)]),
            of(&[(a, 5), (b, 1)]),
        ]);
    }
    // Each node beside all others reveals its weight.
    if nodes.len() > 2 {
        found.extend(nodes.iter().map(|own| all(&|node| if node.node == own.node { 4 } else { 1 })));
    }
    let mut unique: Vec<Vec<NodeStreams>> = Vec::new();
    for mix in found {
        if !unique.contains(&mix) {
            unique.push(mix);
        }
    }
    unique
}

/// Returns the logarithm of a mix's bandwidth by each point, or `None` for an unknown mix.
fn log_totals(fit: &DeviceFit, points: &[&Point], mix: &[NodeStreams]) -> Option<Vec<f64>> {
    let nodes = known(&fit.capacities, mix).ok()?;
    let inputs = inputs(&fit.capacities, &nodes, mix);
    Some(points.iter().map(|point| total(fit, point, &inputs).ln()).collect())
}

fn center(logs: &[f64]) -> Vec<f64> {
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    logs.iter().map(|log| log - mean).collect()
}

fn covariance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / a.len() as f64
}

/// Returns the most probable models' predictions of a mix.
fn predictions(fit: &DeviceFit, mix: &[NodeStreams]) -> Vec<ModelPrediction> {
    let all: Vec<&Point> = fit.family.points.iter().collect();
    let Some(logs) = log_totals(fit, &all, mix) else { return Vec::new() };
    let points = || all.iter().copied().zip(&logs);
    let of_model = |own: &numaio_schema::SharingFit| {
        let own_points = || points().filter(|(point, _)| fit.family.form(point).model == own.model);
        let weight: f64 = own_points().map(|(point, _)| point.probability).sum();
        let mean = own_points().map(|(point, log)| point.probability * log).sum::<f64>() / weight;
        let variance =
            |(point, log): (&Point, &f64)| point.probability * (point.variance + (log - mean).powi(2));
        let deviation = (own_points().map(variance).sum::<f64>() / weight).sqrt() * NORMAL_95;
        let estimate = Estimate {
            bytes_per_s: mean.exp(),
            low: (mean - deviation).exp(),
            high: (mean + deviation).exp(),
        };
        (weight > 0.0).then_some(ModelPrediction { model: own.model, probability: own.probability, estimate })
    };
    fit.family.fits.iter().filter_map(of_model).take(MOST_MODELS).collect()
}
