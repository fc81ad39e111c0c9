//! Costs of symptoms according to measurements, most costly first.
//!
//! A cost is based on measured I/O of the device, otherwise on its limit and the copy model of its
//! node, otherwise on the registers of its link. Without any of these it is unknown, with the
//! command that would measure it.

#[cfg(test)]
mod tests;

use crate::device_bandwidth::{bench_command, expect_bandwidth, BandwidthEvidence, BandwidthSubject};
use crate::interrupt_costs::interrupt_loss;
use numaio_machine::checkup::{Effect, Symptom};
use numaio_machine::devices::Device;
use numaio_machine::findings::Severity;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{format_nodes, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{
    BandwidthDifference, Cost, DeviceBandwidth, DeviceExpectation, DiagnosedFinding, IoRecord, Loss, Model,
    UnknownDifference, NEGLIGIBLE_LOSS,
};
use std::collections::{BTreeMap, BTreeSet};

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

/// Estimates the cost of each symptom and sorts them, most costly first. Unknown costs follow, by
/// severity, and symptoms without cost come last. A symptom that was expected to cost bandwidth and
/// does not is a note.
pub fn diagnose(evidence: &MachineEvidence, symptoms: Vec<Symptom>) -> Vec<DiagnosedFinding> {
    let mut found: Vec<DiagnosedFinding> = symptoms
        .into_iter()
        .map(|symptom| {
            let cost = cost(evidence, &symptom);
            let mut finding = symptom.finding;
            if matches!(cost, Cost::Known { .. }) && cost.is_negligible() {
                finding.severity = finding.severity.min(Severity::Note);
            }
            DiagnosedFinding { finding, cost, fix: symptom.fix }
        })
        .collect();
    found.sort_by(|a, b| {
        let rank = |it: &DiagnosedFinding| match &it.cost {
            Cost::Known { .. } if it.cost.is_negligible() => 2,
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
            let wanted = |of: &&DeviceExpectation| direction.is_none_or(|only| only == of.direction);
            modeled_cost(evidence, symptom, &|of| {
                Some(of).filter(wanted).and_then(|of| loss_on_any(of, nodes, *share))
            })
        }
        Effect::Shares(shares) => modeled_cost(evidence, symptom, &|of| loss_by_shares(of, shares)),
    }
}

/// Returns the cost of interrupts on foreign nodes, if both nodes were measured.
fn measured_interrupts(evidence: &MachineEvidence, symptom: &Symptom) -> Option<Cost> {
    let device = evidence.topology.devices.get(symptom.device?)?;
    let lost = (symptom.finding.rule == "irq-foreign-node")
        .then(|| interrupt_loss(evidence.topology, evidence.interrupts, device))??;
    let basis =
        format!("{} with interrupts on node {} and on node {}", device.name(), lost.own, lost.current);
    Some(match lost.losses.first().is_some_and(|loss| loss.high >= NEGLIGIBLE_LOSS) {
        true => Cost::Known { target: Some(lost.own), losses: lost.losses, basis },
        false => Cost::Nothing,
    })
}

/// Returns the highest cost among the targets, or an unknown cost if none was measured.
fn modeled_cost(
    evidence: &MachineEvidence,
    symptom: &Symptom,
    lost: &dyn Fn(&DeviceExpectation) -> Option<Loss>,
) -> Cost {
    let targets: NodeSet = match symptom.target {
        Some(target) => NodeSet::one(target),
        None => evidence.topology.device_nodes(),
    };
    let of_target = |target: NodeId| {
        let expected = expectations(evidence, target, symptom.device);
        // A comparison needs the values of several nodes.
        let known = expected.iter().filter(|of| of.nodes.len() > 1);
        let mut found: Vec<(Loss, &DeviceExpectation)> =
            known.filter_map(|of| Some((lost(of)?, of))).collect();
        found.sort_by(|a, b| b.0.high.total_cmp(&a.0.high));
        // Of several devices the one that loses most counts in each direction.
        let mut worst: Vec<(Loss, &DeviceExpectation)> = Vec::new();
        for (loss, of) in found {
            if worst.iter().all(|(known, _)| known.direction != loss.direction) {
                worst.push((loss, of));
            }
        }
        let titles: BTreeSet<String> = worst.iter().map(|(_, of)| basis(evidence.topology, of)).collect();
        let basis = titles.into_iter().collect::<Vec<String>>().join("; ");
        worst.first()?;
        let losses = worst.into_iter().map(|(loss, _)| loss).collect();
        Some(Cost::Known { target: Some(target), losses, basis })
    };
    let costs = targets.iter().filter_map(of_target);
    let worst = costs.max_by(|a, b| a.most().unwrap_or(0.0).total_cmp(&b.most().unwrap_or(0.0)));
    match worst {
        Some(cost) => cost,
        None => unmeasured_cost(evidence, symptom, &targets),
    }
}

/// Returns an unknown cost with the command that would measure it.
fn unmeasured_cost(evidence: &MachineEvidence, symptom: &Symptom, targets: &NodeSet) -> Cost {
    let expected = targets.iter().flat_map(|target| expectations(evidence, target, symptom.device));
    let is_too_slow = |of: &DeviceExpectation| {
        matches!(
            of.difference,
            BandwidthDifference::Unknown { reason: UnknownDifference::PathsNotSaturated { .. } }
        )
    };
    if let Some(of) = expected.into_iter().find(is_too_slow) {
        let device = symptom.device.and_then(|index| evidence.topology.devices.get(index));
        let measure = bench_command(&of.device, device.map(|device| device.kind));
        return Cost::Unknown { measure: format!("run {measure}: copies are slower than the device may be") };
    }
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

/// Returns what the devices of a symptom can transfer from several nodes, by direction: its device,
/// else all devices of the target that carry data, else the paths of the target.
fn expectations(evidence: &MachineEvidence, target: NodeId, device: Option<usize>) -> Vec<DeviceExpectation> {
    let topology = evidence.topology;
    let devices: Vec<&Device> = match device.and_then(|index| topology.devices.get(index)) {
        Some(device) => vec![device],
        None => topology.devices_on(target).filter(|device| device.carries_data()).collect(),
    };
    if devices.is_empty() {
        return by_direction(evidence, "", target, None);
    }
    let of = |device: &Device| {
        by_direction(evidence, &device.distinct_name(&topology.devices), target, Some(device))
    };
    devices.into_iter().flat_map(of).collect()
}

/// Returns what a device on a target can transfer from each node, by direction; `None` for one that
/// is not in the topology, of which only the paths are known.
pub(crate) fn by_direction(
    evidence: &MachineEvidence,
    name: &str,
    target: NodeId,
    device: Option<&Device>,
) -> Vec<DeviceExpectation> {
    let models: Vec<&Model> = evidence.models.iter().collect();
    let records: Vec<&IoRecord> = evidence.io.iter().collect();
    let known = BandwidthEvidence { topology: evidence.topology, models: &models, records: &records };
    let subject = BandwidthSubject::new(name, Some(target), device);
    [Direction::Write, Direction::Read]
        .map(|direction| expect_bandwidth(known, subject, direction, &[]))
        .to_vec()
}

/// Names the evidence of an expectation.
pub(crate) fn basis(topology: &Topology, of: &DeviceExpectation) -> String {
    let device = &of.device;
    if of.measured_at().is_some() {
        return format!("I/O measured with {device}");
    }
    let valued: NodeSet = of.nodes.iter().map(|value| value.node).collect();
    let incomplete = match topology.data_nodes().difference(&valued) {
        missing if missing.is_empty() => String::new(),
        missing => format!(", which is incomplete (no value for {})", format_nodes(&missing)),
    };
    let limit = match (device.as_str(), &of.limit) {
        ("", _) => String::new(),
        (_, DeviceBandwidth::Known { .. }) => format!(" and the limit of {device}"),
        (_, DeviceBandwidth::Unknown { .. }) => format!("; the limit of {device} is unknown"),
    };
    format!("the copy model{incomplete}{limit}")
}

/// Returns the loss if the buffers of a `share` are on an unknown one of the nodes; the others lose
/// nothing (Li et al., Equation 1).
fn loss_on_any(of: &DeviceExpectation, nodes: &NodeSet, share: f64) -> Option<Loss> {
    let lost = nodes.iter().filter_map(|node| Some(share * of.lost_share(node)?));
    let (least, most) =
        lost.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), lost| (least.min(lost), most.max(lost)));
    least.is_finite().then(|| loss(of, least, most))
}

/// Returns the loss by the shares of buffers per node, or `None` if a node with a share has no
/// value.
fn loss_by_shares(of: &DeviceExpectation, shares: &BTreeMap<NodeId, f64>) -> Option<Loss> {
    let lost = of.loss(shares)?.max(0.0);
    Some(loss(of, lost, lost))
}

/// Returns a loss; a device with an unknown limit may lose nothing.
fn loss(of: &DeviceExpectation, low: f64, high: f64) -> Loss {
    let is_unknown = matches!(of.difference, BandwidthDifference::Unknown { .. });
    Loss { direction: Some(of.direction), low: if is_unknown { 0.0 } else { low }, high }
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
