//! Fit of the sharing models to measured mixes.
//!
//! Each model is evaluated on a grid of its parameters that is refined where it agrees with the
//! measurements. A point's misfit is one of a few levels, so a device that no model describes gets
//! wide intervals. A model's probability follows from how well it predicts each measured mix from
//! the others (leave-one-out; Stone, *J. R. Stat. Soc. B* 36, 1974), less a penalty for each
//! parameter; a single mix is predicted from the parameters' ranges.

use super::sharing::{Fairness, MixInputs, Parameters, SharingForm};
use numaio_machine::ids::NodeId;
use numaio_schema::{SharingFit, SharingModel};

/// Relative standard deviations of the misfit of a model, with their prior probabilities.
const MISFITS: [(f64, f64); 5] = [(0.004, 0.3), (0.012, 0.35), (0.03, 0.2), (0.08, 0.1), (0.2, 0.05)];
/// Relative standard deviation of the nodes' shares of a mix: models predict totals, and queues
/// divide these less exactly.
const SHARE_DEVIATION: f64 = 0.06;
/// Penalty for each parameter, in units of log probability.
const PENALTY: f64 = 0.5;
/// Degrees of freedom of Student's t for residuals: outliers count less.
const FREEDOM: f64 = 5.0;
/// Total probability of the points that predictions leave out.
const NEGLIGIBLE: f64 = 2e-3;

/// A measured mix.
#[derive(Debug, Clone)]
pub(super) struct FittedMix {
    pub inputs: MixInputs,
    /// Logarithm of its bandwidth.
    pub log_total: f64,
    /// Relative standard deviation of its bandwidth and of the nodes alone, as it affects the mix.
    pub deviation: f64,
    /// Bandwidth of each node, in the order of the inputs; empty if unknown.
    pub of_nodes: Vec<f64>,
}

/// Scale of a device, which determines the ranges of parameters.
#[derive(Debug, Clone)]
pub(super) struct DeviceScale {
    pub nodes: Vec<NodeId>,
    pub local: Option<NodeId>,
    /// Highest bandwidth of a node alone.
    pub best: f64,
    /// Sum of all nodes alone.
    pub sum: f64,
    /// Streams of a crowded mix.
    pub streams: f64,
}

/// A model with parameters and probability.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    /// Index of the form.
    pub form: usize,
    pub parameters: Parameters,
    /// Variance of the misfit, relative.
    pub variance: f64,
    pub probability: f64,
}

/// All models of a device, fitted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Family {
    pub forms: Vec<SharingForm>,
    /// Points, most probable first.
    pub points: Vec<Point>,
    pub fits: Vec<SharingFit>,
}

/// Part of the range of parameters, with its agreement with each mix.
struct Cell {
    /// Lower corner and widths in units of the ranges.
    corner: Parameters,
    width: Parameters,
    parameters: Parameters,
    /// Log likelihood by misfit, then by mix.
    log_likelihood: [Vec<f64>; MISFITS.len()],
    /// Residual of the total by mix.
    residuals: Vec<f64>,
}

/// A fitted form.
struct FormFit {
    cells: Vec<Cell>,
    /// Log probability by cell and misfit, given the form.
    posterior: Vec<[f64; MISFITS.len()]>,
    score: f64,
    leave_one_out: Option<f64>,
}

impl Family {
    /// Fits all models to the measured mixes of a device.
    pub fn fit(scale: &DeviceScale, mixes: &[FittedMix]) -> Self {
        let forms = forms(scale, mixes);
        let fits: Vec<FormFit> = forms.iter().map(|form| FormFit::new(form, scale, mixes)).collect();
        let alike =
            |form: &SharingForm| forms.iter().filter(|other| other.model == form.model).count() as f64;
        let scores: Vec<f64> =
            fits.iter().zip(&forms).map(|(fit, form)| fit.score - alike(form).ln()).collect();
        let all = log_sum(scores.iter().copied());
        let probabilities: Vec<f64> = scores.iter().map(|score| (score - all).exp()).collect();
        let mut points = Vec::new();
        for (form, fit) in fits.iter().enumerate() {
            points.extend(fit.points(form, probabilities[form]));
        }
        points.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        keep_probable(&mut points);
        let fits = summaries(&forms, &fits, &probabilities);
        Self { forms, points, fits }
    }

    /// Returns a number of points, some repeatedly, that represent all of them with equal
    /// probability (systematic sampling).
    pub fn sample(&self, number: usize) -> Vec<&Point> {
        let (mut sum, mut found) = (0.0, Vec::with_capacity(number));
        for point in &self.points {
            sum += point.probability * number as f64;
            while (found.len() as f64) + 0.5 < sum && found.len() < number {
                found.push(point);
            }
        }
        found
    }

    /// Returns fewer points, about `number`, with the probabilities of those that they represent.
    /// Each form keeps its probability, so that an interval ends at the same form.
    pub fn thinned(&self, number: usize) -> Vec<Point> {
        let mut ordered: Vec<&Point> = self.points.iter().collect();
        ordered.sort_by_key(|point| point.form);
        let mut thinned: Vec<Point> = Vec::new();
        for point in ordered {
            match thinned.last_mut() {
                Some(last) if last.form == point.form && last.probability * (number as f64) < 1.0 => {
                    last.probability += point.probability;
                }
                _ => thinned.push(point.clone()),
            }
        }
        thinned
    }

    /// Returns the model of a point.
    pub fn form(&self, point: &Point) -> &SharingForm {
        &self.forms[point.form]
    }
}

/// Removes the least probable points, and normalizes the others.
fn keep_probable(points: &mut Vec<Point>) {
    let mut sum = 0.0;
    let enough = points.iter().position(|point| {
        sum += point.probability;
        sum >= 1.0 - NEGLIGIBLE
    });
    points.truncate(enough.map_or(points.len(), |last| last + 1));
    let sum: f64 = points.iter().map(|point| point.probability).sum();
    points.iter_mut().for_each(|point| point.probability /= sum);
}

/// Returns the models to compare.
fn forms(scale: &DeviceScale, mixes: &[FittedMix]) -> Vec<SharingForm> {
    use Fairness::{Nodes, Streams};
    let both = |model| [SharingForm::new(model, Streams), SharingForm::new(model, Nodes)];
    let mut forms = vec![
        SharingForm::new(SharingModel::TimeByStreams, Streams),
        SharingForm::new(SharingModel::TimeByNodes, Nodes),
        SharingForm::new(SharingModel::InFlight, Streams),
    ];
    for model in [SharingModel::Bytes, SharingModel::Requests, SharingModel::Cores, SharingModel::Copies] {
        forms.extend(both(model));
    }
    forms.extend(weighted(mixes));
    let remote: Vec<NodeId> = scale.nodes.iter().copied().filter(|node| Some(*node) != scale.local).collect();
    for (index, first) in remote.iter().enumerate() {
        for second in remote.iter().skip(index + 1).take(MOST_LINK_PARTNERS) {
            let link = vec![*first, *second];
            forms.push(SharingForm { link, ..SharingForm::new(SharingModel::SharedLink, Nodes) });
        }
    }
    forms
}

/// Number of further nodes with which a node may share a link: limits the work on large machines.
const MOST_LINK_PARTNERS: usize = 7;

/// Share of its bandwidth alone from which a node's own limit hides its weight.
const AT_LIMIT: f64 = 0.97;

/// Returns time sharing by weights of nodes, as far as the nodes of measured mixes reveal them.
///
/// A mix shows the ratios of weights. The mix with most nodes is the basis, and others are scaled
/// to the nodes that are known. Other nodes have the mean weight.
fn weighted(mixes: &[FittedMix]) -> Option<SharingForm> {
    let mut order: Vec<&FittedMix> = mixes.iter().filter(|mix| !mix.of_nodes.is_empty()).collect();
    order.sort_by_key(|mix| std::cmp::Reverse(mix.of_nodes.len()));
    let mut weights: Vec<(NodeId, f64)> = Vec::new();
    for mix in order {
        let parts = mix.inputs.parts.iter().zip(&mix.of_nodes);
        let limited = parts.filter(|(part, rate)| **rate < part.own * AT_LIMIT);
        let shares: Vec<(NodeId, f64)> =
            limited.map(|(part, rate)| (part.node, (rate / part.all).ln())).collect();
        let known =
            |node: NodeId| weights.iter().find(|(other, _)| *other == node).map(|(_, weight)| *weight);
        let offsets: Vec<f64> =
            shares.iter().filter_map(|(node, share)| Some(share - known(*node)?)).collect();
        let offset = match weights.is_empty() {
            true => shares.iter().map(|(_, share)| share).sum::<f64>() / shares.len() as f64,
            false if offsets.is_empty() => continue,
            false => offsets.iter().sum::<f64>() / offsets.len() as f64,
        };
        let new: Vec<(NodeId, f64)> = shares
            .iter()
            .filter(|(node, _)| known(*node).is_none())
            .map(|(node, share)| (*node, share - offset))
            .collect();
        weights.extend(new);
    }
    let weights: Vec<(NodeId, f64)> = weights.into_iter().map(|(node, log)| (node, log.exp())).collect();
    let form = SharingForm::new(SharingModel::TimeByNodes, Fairness::Nodes);
    (weights.len() > 1).then_some(SharingForm { weights, ..form })
}

impl FormFit {
    fn new(form: &SharingForm, scale: &DeviceScale, mixes: &[FittedMix]) -> Self {
        let ranges = form.ranges(scale.best, scale.sum, scale.nodes.len() as f64, scale.streams);
        let number = ranges.len();
        let evaluate = |corner: Parameters, width: Parameters| {
            let mut parameters = [f64::INFINITY; 2];
            for (index, range) in ranges.iter().enumerate() {
                let at = corner[index] + width[index] / 2.0;
                parameters[index] = range.least * (range.most / range.least).powf(at);
            }
            Cell::new(form, parameters, corner, width, mixes)
        };
        let is_link = form.model == SharingModel::SharedLink;
        let (side, splits) = match (number, is_link) {
            (1, _) => (24, 24),
            (_, true) => (5, 24),
            _ => (8, 56),
        };
        let mut cells = Vec::new();
        let step = 1.0 / f64::from(side);
        for first in 0..side {
            for second in 0..if number > 1 { side } else { 1 } {
                let second_width = if number > 1 { step } else { 1.0 };
                let corner = [f64::from(first) * step, f64::from(second) * second_width];
                cells.push(evaluate(corner, [step, second_width]));
            }
        }
        for _ in 0..if mixes.is_empty() { 0 } else { splits } {
            let largest = (0..cells.len()).max_by(|a, b| cells[*a].mass().total_cmp(&cells[*b].mass()));
            let Some(largest) = largest else { break };
            let Cell { corner, mut width, .. } = cells.swap_remove(largest);
            let side = usize::from(number > 1 && width[1] > width[0]);
            width[side] /= 2.0;
            let mut other = corner;
            other[side] += width[side];
            cells.extend([evaluate(corner, width), evaluate(other, width)]);
        }
        let freedom = number + form.weights.len();
        Self::of_cells(cells, freedom, mixes.len())
    }

    fn of_cells(cells: Vec<Cell>, freedom: usize, mixes: usize) -> Self {
        let without = |left_out: Option<usize>| -> Vec<[f64; MISFITS.len()]> {
            cells.iter().map(|cell| cell.log_probability(left_out)).collect()
        };
        let sum = |of: &[[f64; MISFITS.len()]]| log_sum(of.iter().flatten().copied());
        let mut posterior = without(None);
        let all = sum(&posterior);
        let (mut score, mut squares) = (-PENALTY * freedom as f64, 0.0);
        for mix in 0..mixes {
            let others = without(Some(mix));
            let rest = sum(&others);
            score += all - rest;
            let mean: f64 = others
                .iter()
                .zip(&cells)
                .map(|(one, cell)| (log_sum(one.iter().copied()) - rest).exp() * cell.residuals[mix])
                .sum();
            squares += mean * mean;
        }
        posterior.iter_mut().flatten().for_each(|one| *one -= all);
        let leave_one_out = (mixes > 1).then(|| (squares / mixes as f64).sqrt());
        Self { cells, posterior, score, leave_one_out }
    }

    fn points(&self, form: usize, probability: f64) -> impl Iterator<Item = Point> + '_ {
        self.cells.iter().zip(&self.posterior).map(move |(cell, posterior)| {
            let of_cell = log_sum(posterior.iter().copied()).exp();
            let variance =
                posterior.iter().zip(MISFITS).map(|(one, (misfit, _))| one.exp() * misfit * misfit);
            let variance = variance.sum::<f64>() / of_cell.max(f64::MIN_POSITIVE);
            Point { form, parameters: cell.parameters, variance, probability: of_cell * probability }
        })
    }

    fn best(&self) -> Option<Parameters> {
        let density =
            |index: usize| -self.cells[index].log_volume() + log_sum(self.posterior[index].iter().copied());
        let best = (0..self.cells.len()).max_by(|a, b| density(*a).total_cmp(&density(*b)))?;
        Some(self.cells[best].parameters)
    }
}

impl Cell {
    fn new(
        form: &SharingForm,
        parameters: Parameters,
        corner: Parameters,
        width: Parameters,
        mixes: &[FittedMix],
    ) -> Self {
        let mut log_likelihood: [Vec<f64>; MISFITS.len()] = Default::default();
        let mut residuals = Vec::with_capacity(mixes.len());
        for mix in mixes {
            let rates = form.rates(&parameters, &mix.inputs);
            let residual = mix.log_total - rates.iter().sum::<f64>().ln();
            let shares = share_residuals(&rates, &mix.of_nodes);
            let shares: f64 = shares.iter().map(|share| student(*share, SHARE_DEVIATION)).sum();
            for (of_misfit, (misfit, _)) in log_likelihood.iter_mut().zip(MISFITS) {
                let total = student(residual, (misfit * misfit + mix.deviation * mix.deviation).sqrt());
                of_misfit.push(total + shares);
            }
            residuals.push(residual);
        }
        Self { corner, width, parameters, log_likelihood, residuals }
    }

    fn log_volume(&self) -> f64 {
        (self.width[0] * self.width[1]).ln()
    }

    /// Returns the unnormalized log probability by misfit, without a mix.
    fn log_probability(&self, left_out: Option<usize>) -> [f64; MISFITS.len()] {
        let of = |misfit: usize| -> f64 {
            let all: f64 = self.log_likelihood[misfit].iter().sum();
            let without = left_out.map_or(0.0, |mix| self.log_likelihood[misfit][mix]);
            all - without + MISFITS[misfit].1.ln() + self.log_volume()
        };
        std::array::from_fn(of)
    }

    fn mass(&self) -> f64 {
        self.log_probability(None).into_iter().fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Returns the log ratios of measured and predicted rates of the nodes, less their mean.
fn share_residuals(rates: &[f64], measured: &[f64]) -> Vec<f64> {
    if measured.len() != rates.len() {
        return Vec::new();
    }
    let ratios: Vec<f64> =
        measured.iter().zip(rates).map(|(measured, rate)| (measured / rate).ln()).collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    ratios.into_iter().map(|ratio| ratio - mean).collect()
}

/// Returns the log density of Student's t without its constant, which all models share.
fn student(residual: f64, scale: f64) -> f64 {
    let z = residual / scale;
    -(FREEDOM + 1.0) / 2.0 * (1.0 + z * z / FREEDOM).ln() - scale.ln()
}

/// Returns the logarithm of a sum of exponentials.
fn log_sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + values.map(|value| (value - most).exp()).sum::<f64>().ln()
}

/// Returns a summary of each model, most probable first.
fn summaries(forms: &[SharingForm], fits: &[FormFit], probabilities: &[f64]) -> Vec<SharingFit> {
    let mut found: Vec<(SharingFit, f64)> = Vec::new();
    let mut order: Vec<usize> = (0..forms.len()).collect();
    order.sort_by(|a, b| probabilities[*b].total_cmp(&probabilities[*a]));
    for index in order {
        let (form, probability) = (&forms[index], probabilities[index]);
        if let Some((known, _)) = found.iter_mut().find(|(known, _)| known.model == form.model) {
            known.probability += probability;
            continue;
        }
        let parameters = fits[index].best().map(|best| form.named(&best)).unwrap_or_default();
        let fit = SharingFit {
            model: form.model,
            probability,
            leave_one_out: fits[index].leave_one_out,
            parameters,
            link_nodes: form.link.clone(),
        };
        found.push((fit, probability));
    }
    found.sort_by(|(a, _), (b, _)| b.probability.total_cmp(&a.probability));
    found.into_iter().map(|(fit, _)| fit).collect()
}
