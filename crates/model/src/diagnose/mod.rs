//! Costs of symptoms according to measurements, most costly first.
//!
//! A cost is based on measured I/O of the device, otherwise on the copy model of its node,
//! otherwise on the registers of its link. Without any of these it is unknown, with the command
//! that would measure it.

#[cfg(test)]
mod tests;

use crate::interrupt_costs::interrupt_loss;
use crate::model_selection::of_target;
use crate::select_model;
use crate::views::{copy_views, io_views};
use crate::ViewSubject;
use numaio_machine::checkup::{Effect, Symptom};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{format_nodes, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{Cost, DiagnosedFinding, IoRecord, Loss, Model, View};
use std::collections::{BTreeMap, BTreeSet};

/// Share of a class's best value by which members may be lower in views; costs do not depend on it.
const CLASS_LEVEL: f64 = 0.1;

/// Losses below this share of a bandwidth are too small to measure.
const NEGLIGIBLE: f64 = 0.01;

/// Evidence about a machine.
#[derive(Debug, Clone, Copy)]
pub struct MachineEvidence<'a> {
    /// The machine.
    pub topology: &'a Topology,
    /// Models of the machine, newest first.
    pub models: &'a [Model],
    /// Measured I/O of its devices, newest first.
    pub io: &'a [IoRecord],
    /// I/O of network devices measured with their interrupts on certain nodes, newest first.
    pub interrupts: &'a [IoRecord],
}

/// Bandwidth by node toward a target in one direction.
pub(crate) struct MeasuredDirection {
    pub direction: Direction,
    pub by_node: BTreeMap<NodeId, f64>,
    pub title: String,
}

/// Estimates the cost of each symptom and sorts them, most costly first. Unknown costs follow, by
/// severity, and symptoms without cost come last.
pub fn diagnose(evidence: &MachineEvidence, symptoms: Vec<Symptom>) -> Vec<DiagnosedFinding> {
    let mut found: Vec<DiagnosedFinding> = symptoms
        .into_iter()
        .map(|symptom| DiagnosedFinding {
            cost: cost(evidence, &symptom),
            finding: symptom.finding,
            fix: symptom.fix,
        })
        .collect();
    found.sort_by(|a, b| {
        let rank = |it: &DiagnosedFinding| match &it.cost {
            Cost::Known { .. } => 0,
            Cost::Unknown { .. } => 1,
            Cost::Nothing => 2,
        };
        let most = |it: &DiagnosedFinding| it.cost.most().unwrap_or(0.0);
        rank(a)
            .cmp(&rank(b))
            .then(most(b).total_cmp(&most(a)))
            .then(b.finding.severity.cmp(&a.finding.severity))
            .then_with(|| (&a.finding.rule, &a.finding.subject).cmp(&(&b.finding.rule, &b.finding.subject)))
    });
    found
}

fn cost(evidence: &MachineEvidence, symptom: &Symptom) -> Cost {
    if let Some(cost) = measured_interrupts(evidence, symptom) {
        return cost;
    }
    match &symptom.effect {
        Effect::Nothing => Cost::Nothing,
        Effect::Unquantified(find_out) => Cost::Unknown { measure: find_out.clone() },
        Effect::LinkLoss(share) => Cost::Known {
            target: None,
            losses: vec![Loss { direction: None, low: *share, high: *share }],
            basis: "the speed and width of the link".to_owned(),
        },
        Effect::AnyOf { nodes, direction, share } => {
            let wanted =
                |measured: &&MeasuredDirection| direction.is_none_or(|only| only == measured.direction);
            modeled_cost(evidence, symptom, &|measured| {
                Some(measured).filter(wanted).and_then(|measured| loss_on_any(measured, nodes, *share))
            })
        }
        Effect::Shares(shares) => {
            modeled_cost(evidence, symptom, &|measured| loss_by_shares(measured, shares))
        }
    }
}

/// Returns the cost of interrupts on foreign nodes, if both nodes were measured.
fn measured_interrupts(evidence: &MachineEvidence, symptom: &Symptom) -> Option<Cost> {
    let device = evidence.topology.devices.get(symptom.device?)?;
    let lost = (symptom.finding.rule == "irq-foreign-node")
        .then(|| interrupt_loss(evidence.topology, evidence.interrupts, device))??;
    let basis =
        format!("{} with interrupts on node {} and on node {}", device.name(), lost.own, lost.current);
    Some(match lost.losses.first().is_some_and(|loss| loss.high >= NEGLIGIBLE) {
        true => Cost::Known { target: Some(lost.own), losses: lost.losses, basis },
        false => Cost::Nothing,
    })
}

/// Returns the highest cost among the targets, or an unknown cost if none was measured.
fn modeled_cost(
    evidence: &MachineEvidence,
    symptom: &Symptom,
    lost: &dyn Fn(&MeasuredDirection) -> Option<Loss>,
) -> Cost {
    let targets: NodeSet = match symptom.target {
        Some(target) => NodeSet::one(target),
        None => evidence.topology.device_nodes(),
    };
    let of_target = |target: NodeId| {
        let measured = measured(evidence, target, symptom.device);
        let mut losses: Vec<Loss> = measured.iter().filter_map(lost).collect();
        losses.sort_by(|a, b| b.high.total_cmp(&a.high));
        let titles: BTreeSet<&str> = measured.iter().map(|measured| measured.title.as_str()).collect();
        let basis = titles.into_iter().collect::<Vec<&str>>().join("; ");
        losses.first()?;
        Some(Cost::Known { target: Some(target), losses, basis })
    };
    let costs = targets.iter().filter_map(of_target);
    let worst = costs.max_by(|a, b| a.most().unwrap_or(0.0).total_cmp(&b.most().unwrap_or(0.0)));
    match worst {
        Some(cost) if cost.most().is_some_and(|most| most < NEGLIGIBLE) => Cost::Nothing,
        Some(cost) => cost,
        None => unmeasured_cost(evidence, &targets),
    }
}

/// Returns an unknown cost with the command that would measure it.
fn unmeasured_cost(evidence: &MachineEvidence, targets: &NodeSet) -> Cost {
    if evidence.topology.memory_nodes().len() < 2 {
        // With one memory node, buffers have no alternative.
        return Cost::Nothing;
    }
    // Nodes with devices are modeled by default.
    let of_devices = evidence.topology.device_nodes();
    let find_out = match targets.iter().all(|node| of_devices.contains(node)) {
        true => "run numaio model",
        false => "run numaio model --all",
    };
    Cost::Unknown { measure: find_out.to_owned() }
}

/// Returns both directions, each by measured I/O of the device or else by the copy model. The
/// newest measurement counts; interrupted ones only count where nothing else is known.
pub(crate) fn measured(
    evidence: &MachineEvidence,
    target: NodeId,
    device: Option<usize>,
) -> Vec<MeasuredDirection> {
    let subject =
        ViewSubject { machine: &evidence.topology.identity.fingerprint, target, level: CLASS_LEVEL };
    let device = device.and_then(|index| evidence.topology.devices.get(index));
    let of_device = evidence
        .io
        .iter()
        .filter(|record| device.is_some_and(|device| device.has_name(&record.device.name)))
        .flat_map(|record| io_views(record, &subject));
    // A comparison needs the values of several nodes.
    let mut of_device: Vec<View> = of_device.filter(|view| view.nodes.len() > 1).collect();
    of_device.sort_by_key(|view| view.incomplete);
    let first = |direction: Direction| {
        let view = of_device.iter().find(|view| view.direction == Some(direction));
        let by_io = view.map(|view| MeasuredDirection {
            direction,
            by_node: by_node(view),
            title: view.title.clone(),
        });
        by_io.or_else(|| of_model(evidence, &subject, direction))
    };
    [Direction::Write, Direction::Read].into_iter().filter_map(first).collect()
}

/// Returns the selected copy model's bandwidths of a direction, or `None` for a single node.
fn of_model(
    evidence: &MachineEvidence,
    subject: &ViewSubject,
    direction: Direction,
) -> Option<MeasuredDirection> {
    let model = select_model(evidence.models, subject.target, &[direction])?;
    let views = copy_views(model, subject).into_iter();
    let view = views.filter(|view| view.nodes.len() > 1).find(|view| view.direction == Some(direction))?;
    let missing = of_target(model, subject.target).find(|one| one.direction == direction)?.missing.clone();
    let title = match missing.is_empty() {
        true => "the copy model".to_owned(),
        false => format!("the copy model, which is incomplete (no value for {})", format_nodes(&missing)),
    };
    Some(MeasuredDirection { direction, by_node: by_node(&view), title })
}

fn by_node(view: &View) -> BTreeMap<NodeId, f64> {
    view.nodes.iter().map(|value| (value.node, value.value)).collect()
}

fn best(measured: &MeasuredDirection) -> Option<f64> {
    measured.by_node.values().copied().max_by(f64::total_cmp).filter(|best| *best > 0.0)
}

/// Returns the loss if the buffers of a `share` are on an unknown one of the nodes; the others lose
/// nothing (Equation 1 again).
fn loss_on_any(measured: &MeasuredDirection, nodes: &NodeSet, share: f64) -> Option<Loss> {
    let best = best(measured)?;
    let lost =
        nodes.iter().filter_map(|node| measured.by_node.get(&node)).map(|value| share * (1.0 - value / best));
    let (least, most) =
        lost.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), lost| (least.min(lost), most.max(lost)));
    least.is_finite().then_some(Loss { direction: Some(measured.direction), low: least, high: most })
}

/// Returns the loss by the shares of buffers per node, whose bandwidths add up (Li et al., Equation
/// 1), or `None` if a node with a share was not measured.
fn loss_by_shares(measured: &MeasuredDirection, shares: &BTreeMap<NodeId, f64>) -> Option<Loss> {
    let best = best(measured)?;
    let parts = shares.iter().filter(|(_, share)| **share > 0.0);
    let values: Option<Vec<f64>> =
        parts.map(|(node, share)| Some(share * measured.by_node.get(node)?)).collect();
    let lost = 1.0 - values?.iter().sum::<f64>() / best;
    Some(Loss { direction: Some(measured.direction), low: lost.max(0.0), high: lost.max(0.0) })
}

/// Keeps the symptoms of the given devices and of the machine as a whole.
pub fn filter_by_devices(symptoms: Vec<Symptom>, topology: &Topology, devices: &[usize]) -> Vec<Symptom> {
    let nodes: NodeSet =
        devices.iter().filter_map(|index| topology.devices.get(*index)?.locality.node).collect();
    let concerns = |symptom: &Symptom| match (symptom.device, symptom.target) {
        (Some(device), _) => devices.contains(&device),
        (None, Some(target)) => nodes.contains(target),
        (None, None) => true,
    };
    symptoms.into_iter().filter(concerns).collect()
}
