//! Prediction of a mix by Equation 1 and by the fitted sharing models.

use super::capacities::DeviceFit;
use super::curve;
use super::error::PredictError;
use super::family::Point;
use super::mix_inputs::{alone, estimate, inputs, known, merged, number, NORMAL_95};
use super::quantiles::{quantile, Component};
use super::sharing::{MixInputs, MixNode};
use numaio_schema::{
    Capacities, Estimate, FlowPrediction, LimitedBy, MixMeasurement, MixPrediction, ModelPrediction,
    NodeCapacity, NodeStreams, Reading, SharingModel,
};

/// Share of its bandwidth alone above which a node is limited by its path.
const ALMOST_ALONE: f64 = 0.99;
/// Probability from which a model is reported beside the selected one.
const PROBABLE: f64 = 0.05;
/// Probability below the lower end of an interval, and above its upper end.
const LOWER: f64 = 0.025;

/// Predicts a mix. A node that is named twice has the streams of both.
///
/// The prediction is the median of the sharing models, each by its probability. Its interval has
/// three sources: the readings of nodes alone, the misfit of the models, and their disagreement.
///
/// # Errors
/// [`PredictError`] if there are no streams or too many, or a node is unknown.
pub fn predict(fit: &DeviceFit, mix: &[NodeStreams]) -> Result<MixPrediction, PredictError> {
    let capacities = &fit.capacities;
    let streams = merged(mix);
    let nodes = known(capacities, &streams)?;
    let alone = alone(&nodes, &streams);
    let inputs = inputs(capacities, &nodes, &streams);
    let equation_1 = equation_1(capacities, &nodes, &streams);
    let (limits, selected, rivals) = match alone.as_slice() {
        [only] => (*only, None, Vec::new()),
        _ => by_models(fit, &inputs, &alone),
    };
    let rates = rates(fit, &inputs, limits.bytes_per_s);
    let flow = |((flow, alone), rate): ((&NodeStreams, &Estimate), &f64)| FlowPrediction {
        node: flow.node,
        alone: *alone,
        bytes_per_s: *rate,
        limited_by: if *rate >= alone.bytes_per_s * ALMOST_ALONE {
            LimitedBy::Path
        } else {
            LimitedBy::Device
        },
    };
    let flows = streams.iter().zip(&alone).zip(&rates).map(flow).collect();
    Ok(MixPrediction { equation_1, limits, selected, alternatives: rivals, flows, streams, measured: None })
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

/// Predicts by all models, by the most probable one, and by its rivals.
fn by_models(
    fit: &DeviceFit,
    inputs: &MixInputs,
    alone: &[Estimate],
) -> (Estimate, Option<ModelPrediction>, Vec<ModelPrediction>) {
    let points = &fit.family.points;
    let Some(first) = points.first() else { return (Estimate::exactly(0.0), None, Vec::new()) };
    let readings = reading_variances(fit, first, inputs, alone);
    let component = |point: &Point| component(fit, point, inputs, readings);
    let components: Vec<(SharingModel, Component)> =
        points.iter().map(|point| (fit.family.form(point).model, component(point))).collect();
    let own = |model: Option<SharingModel>| -> Vec<Component> {
        let of_model = components.iter().filter(|(other, _)| model.is_none_or(|model| model == *other));
        of_model.map(|(_, component)| *component).collect()
    };
    let bounded = |estimate: Estimate| estimate.map(|value| value.min(inputs.link));
    let of_model = |model: SharingModel, probability: f64| {
        let estimate = quantiles(&own(Some(model)))?;
        Some(ModelPrediction { model, probability, estimate: bounded(estimate) })
    };
    let models: Vec<ModelPrediction> =
        fit.family.fits.iter().filter_map(|fit| of_model(fit.model, fit.probability)).collect();
    let selected = models.first().copied();
    let outside = |rival: &&ModelPrediction| {
        let value = rival.estimate.bytes_per_s;
        let of_selected = selected.map(|selected| selected.estimate);
        rival.probability >= PROBABLE && of_selected.is_some_and(|own| value < own.low || value > own.high)
    };
    let rivals = models.iter().skip(1).filter(outside).copied().collect();
    let all = quantiles(&own(None)).map(bounded).unwrap_or(Estimate::exactly(0.0));
    (all, selected, rivals)
}

/// Returns the distribution of a mix's bandwidth by one point; `readings` are the variances below
/// and above of the nodes alone.
fn component(fit: &DeviceFit, point: &Point, inputs: &MixInputs, readings: (f64, f64)) -> Component {
    Component {
        log_value: total(fit, point, inputs).ln(),
        down: (point.variance + readings.0).sqrt(),
        up: (point.variance + readings.1).sqrt(),
        weight: point.probability,
    }
}

/// Returns the lower end of the interval of a mix, in bytes per second: that of [`predict`] if the
/// points are all those of the fit.
///
/// # Errors
/// As [`predict`].
pub(super) fn lower_end(fit: &DeviceFit, points: &[Point], mix: &[NodeStreams]) -> Result<f64, PredictError> {
    let streams = merged(mix);
    let nodes = known(&fit.capacities, &streams)?;
    let alone = alone(&nodes, &streams);
    let inputs = inputs(&fit.capacities, &nodes, &streams);
    let first = match (alone.as_slice(), fit.family.points.first()) {
        ([only], _) => return Ok(only.low),
        (_, Some(first)) => first,
        _ => return Ok(0.0),
    };
    let readings = reading_variances(fit, first, &inputs, &alone);
    let components: Vec<Component> =
        points.iter().map(|point| component(fit, point, &inputs, readings)).collect();
    Ok(quantile(&components, LOWER).map_or(0.0, |log| log.exp().min(inputs.link)))
}

fn quantiles(components: &[Component]) -> Option<Estimate> {
    let at = |share: f64| quantile(components, share).map(f64::exp);
    Some(Estimate { bytes_per_s: at(0.5)?, low: at(LOWER)?, high: at(1.0 - LOWER)? })
}

/// Returns the total of a mix by one point, in bytes per second.
pub(super) fn total(fit: &DeviceFit, point: &Point, inputs: &MixInputs) -> f64 {
    let rates = fit.family.form(point).rates(&point.parameters, inputs);
    rates.iter().sum::<f64>().max(f64::MIN_POSITIVE)
}

/// Returns the relative variances below and above a prediction that follow from the intervals of
/// the nodes alone, which are independent.
fn reading_variances(fit: &DeviceFit, point: &Point, inputs: &MixInputs, alone: &[Estimate]) -> (f64, f64) {
    let middle = total(fit, point, inputs);
    let change = |index: usize, factor: f64| {
        let mut changed = inputs.clone();
        let part = &mut changed.parts[index];
        (part.own, part.all, part.one) = (part.own * factor, part.all * factor, part.one * factor);
        ((total(fit, point, &changed) / middle).ln() / NORMAL_95).powi(2)
    };
    let mut variances = (0.0, 0.0);
    for (index, alone) in alone.iter().enumerate() {
        variances.0 += change(index, (alone.low / alone.bytes_per_s).max(0.05));
        variances.1 += change(index, alone.high / alone.bytes_per_s);
    }
    variances
}

/// Returns the rates of the nodes by the most probable point, changed to a total that all points
/// determine. A lower total divides alike; a higher one uses what the nodes reach alone.
fn rates(fit: &DeviceFit, inputs: &MixInputs, wanted: f64) -> Vec<f64> {
    let Some(first) = fit.family.points.first() else { return vec![0.0; inputs.parts.len()] };
    let mut rates = fit.family.form(first).rates(&first.parameters, inputs);
    let sum: f64 = rates.iter().sum();
    if wanted <= sum {
        rates.iter_mut().for_each(|rate| *rate *= wanted / sum);
        return rates;
    }
    let unused = |rate: f64, part: &MixNode| (part.own - rate).max(0.0);
    let all: f64 = rates.iter().zip(&inputs.parts).map(|(rate, part)| unused(*rate, part)).sum();
    let used = (wanted - sum) / all.max(f64::MIN_POSITIVE);
    for (rate, part) in rates.iter_mut().zip(&inputs.parts) {
        *rate += unused(*rate, part) * used;
    }
    rates
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
    parts.fold(Estimate::exactly(0.0), plus)
}

fn plus(a: Estimate, b: Estimate) -> Estimate {
    Estimate { bytes_per_s: a.bytes_per_s + b.bytes_per_s, low: a.low + b.low, high: a.high + b.high }
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
    let number = members.len() as f64;
    members.into_iter().fold(Estimate::exactly(0.0), plus).map(|sum| sum / number)
}
