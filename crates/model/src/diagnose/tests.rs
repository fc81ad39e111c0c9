use super::*;
use crate::placement::tests::{interrupted, machine, paper};
use crate::testing::{cell, record};
use numaio_machine::checkup::Fix;
use numaio_machine::devices::{Device, DeviceKind, Locality};
use numaio_machine::findings::{Finding, Severity};
use Direction::{Read, Write};

fn nodes(list: &str) -> NodeSet {
    NodeSet::parse_list(list).expect("a list")
}

/// The paper's machine with a drive on node 7 and on node 0.
fn topology() -> Topology {
    let drive = |name: &str, node: u32| Device {
        kind: DeviceKind::Nvme,
        names: vec![name.into()],
        name_classes: BTreeMap::new(),
        pci: None,
        path: String::new(),
        ids: None,
        class: None,
        model: String::new(),
        driver: None,
        locality: Locality { node: Some(NodeId(node)), ..Locality::default() },
        link: None,
        upstream: Vec::new(),
        power: None,
        irqs: Vec::new(),
        sriov: None,
        port_bits_per_s: None,
    };
    Topology { devices: vec![drive("nvme0n1", 7), drive("nvme1n1", 0)], ..machine(8, 4) }
}

fn symptom(rule: &str, severity: Severity, target: Option<u32>, effect: Effect) -> Symptom {
    let finding = Finding {
        severity,
        rule: rule.into(),
        subject: "it".into(),
        message: String::new(),
        evidence: String::new(),
        remedy: String::new(),
    };
    let device = target.map(|target| if target == 7 { 0 } else { 1 });
    Symptom { finding, device, target: target.map(NodeId), effect, fix: Fix::default() }
}

/// The cost of an effect on the drive of a node, with the paper's model.
fn cost_of(target: Option<u32>, effect: Effect, io: &[IoRecord]) -> Cost {
    let (topology, models) = (topology(), [paper()]);
    let evidence = MachineEvidence { topology: &topology, models: &models, io, interrupts: &[] };
    diagnose(&evidence, vec![symptom("r", Severity::Warning, target, effect)]).remove(0).cost
}

/// Losses in percent: direction, least, most.
fn percents(cost: &Cost) -> Vec<(Option<Direction>, f64, f64)> {
    let percent = |share: f64| (share * 1000.0).round() / 10.0;
    match cost {
        Cost::Known { losses, .. } => {
            losses.iter().map(|loss| (loss.direction, percent(loss.low), percent(loss.high))).collect()
        }
        other => panic!("unknown cost: {other:?}"),
    }
}

/// Table V of the paper: node 4 reads 27.9 Gbit/s, node 0 reads 40.9, and the best, node 7, 51.2.
#[test]
fn loss_on_an_unknown_node_ranges_from_best_to_worst() {
    let read =
        cost_of(Some(7), Effect::AnyOf { nodes: nodes("0,4"), direction: Some(Read), share: 1.0 }, &[]);
    assert_eq!(percents(&read), [(Some(Read), 0.0, 45.5)], "a drive of unknown limit may lose nothing");
    let text = "the copy model; the limit of nvme0n1 is unknown";
    assert!(matches!(&read, Cost::Known { basis, target: Some(NodeId(7)), .. } if basis == text), "{read:?}");
    // The worse direction is first: writing from node 3 reaches 25.0 of 51.2.
    let both = cost_of(Some(7), Effect::any_of(nodes("3")), &[]);
    assert_eq!(percents(&both), [(Some(Write), 0.0, 51.2), (Some(Read), 0.0, 8.4)]);
    assert!(cost_of(Some(7), Effect::any_of(nodes("7")), &[]).is_negligible());
    // A quarter of the buffers loses a quarter.
    let part = Effect::AnyOf { nodes: nodes("3"), direction: Some(Write), share: 0.25 };
    assert_eq!(percents(&cost_of(Some(7), part, &[])), [(Some(Write), 0.0, 12.8)]);
}

#[test]
fn losses_on_several_nodes_add_up_by_share() {
    let shares = [(NodeId(7), 0.5), (NodeId(3), 0.5), (NodeId(99), 0.0)].into_iter().collect();
    let half = cost_of(Some(7), Effect::Shares(shares), &[]);
    // Equation 1: half of 51.2 and half of 25.0 is 38.1.
    assert_eq!(percents(&half), [(Some(Write), 0.0, 25.6), (Some(Read), 0.0, 4.2)]);
    let unmeasured_cost = [(NodeId(7), 0.5), (NodeId(99), 0.5)].into_iter().collect();
    assert!(matches!(cost_of(Some(7), Effect::Shares(unmeasured_cost), &[]), Cost::Unknown { .. }));
}

#[test]
fn measured_io_takes_precedence_over_the_model() {
    let io = record(7, vec![cell(Read, &[(7, 1)], 30.0), cell(Read, &[(4, 1)], 15.0)]);
    let io = [io];
    let measured =
        cost_of(Some(7), Effect::AnyOf { nodes: nodes("4"), direction: Some(Read), share: 1.0 }, &io);
    assert_eq!(percents(&measured), [(Some(Read), 50.0, 50.0)]);
    assert!(matches!(&measured, Cost::Known { basis, .. } if basis.contains("nvme0n1")), "{measured:?}");
    // A single node allows no comparison.
    let alone = [record(7, vec![cell(Read, &[(7, 1)], 30.0)])];
    let by_model =
        cost_of(Some(7), Effect::AnyOf { nodes: nodes("4"), direction: Some(Read), share: 1.0 }, &alone);
    // The drive is faster than the copies of this model.
    assert!(
        matches!(&by_model, Cost::Unknown { measure } if measure.contains("copies are slower than")),
        "{by_model:?}"
    );
}

/// The interrupted measurement has nodes 0, 1 and 7 only: another node may exceed the best of
/// these.
#[test]
fn interrupted_measurement_counts_only_without_alternative() {
    let topology = topology();
    let read = |models: &[Model], io: &[IoRecord]| {
        let evidence = MachineEvidence { topology: &topology, models, io, interrupts: &[] };
        let effect = Effect::AnyOf { nodes: nodes("0"), direction: Some(Read), share: 1.0 };
        diagnose(&evidence, vec![symptom("r", Severity::Warning, Some(7), effect)]).remove(0).cost
    };
    let whole = read(&[paper()], &[]);
    assert_eq!(read(&[interrupted(), paper()], &[]), whole);
    let alone = read(&[interrupted()], &[]);
    assert!(
        matches!(&alone, Cost::Known { basis, .. } if basis.contains("incomplete (no value for nodes 2-6)")),
        "{alone:?}"
    );
    let of_nodes = |nodes: &[(u32, f64)], complete| {
        let cells = nodes.iter().map(|(node, gbit)| cell(Read, &[(*node, 1)], *gbit));
        let mut record = record(7, cells.collect());
        record.cells[0].bytes_per_s.settled = complete;
        record.provenance.complete = complete;
        record
    };
    let full = of_nodes(&[(0, 15.0), (6, 20.0), (7, 30.0)], true);
    let cut = of_nodes(&[(0, 15.0), (6, 20.0)], false);
    assert_eq!(read(&[], &[cut, full.clone()]), read(&[], &[full]));
}

#[test]
fn unmeasured_costs_are_unknown() {
    let unknown = |cost: Cost| match cost {
        Cost::Unknown { measure: find_out } => find_out,
        other => panic!("{other:?}"),
    };
    assert_eq!(unknown(cost_of(Some(0), Effect::any_of(nodes("4")), &[])), "run numaio model");
    assert_eq!(unknown(cost_of(Some(5), Effect::any_of(nodes("4")), &[])), "run numaio model --all");
    assert_eq!(unknown(cost_of(None, Effect::Unquantified("look".into()), &[])), "look");
    // Without a target the highest known cost of all devices counts.
    assert_eq!(
        percents(&cost_of(None, Effect::AnyOf { nodes: nodes("4"), direction: Some(Read), share: 1.0 }, &[]))
            .len(),
        1
    );
    let one = Topology { nodes: machine(1, 2).nodes, ..topology() };
    let evidence = MachineEvidence { topology: &one, models: &[], io: &[], interrupts: &[] };
    let low = symptom("r", Severity::Warning, Some(0), Effect::any_of(nodes("0")));
    assert_eq!(diagnose(&evidence, vec![low]).remove(0).cost, Cost::Nothing);
}

#[test]
fn most_costly_symptoms_come_first_and_free_ones_last() {
    let (topology, models) = (topology(), [paper()]);
    let evidence = MachineEvidence { topology: &topology, models: &models, io: &[], interrupts: &[] };
    let find_out = || Effect::Unquantified(String::new());
    let symptoms = vec![
        symptom("nothing", Severity::Problem, None, Effect::Nothing),
        symptom("unknown-note", Severity::Note, None, find_out()),
        symptom("link", Severity::Note, Some(7), Effect::LinkLoss(0.25)),
        symptom("unknown-problem", Severity::Problem, None, find_out()),
        symptom("half", Severity::Warning, Some(7), Effect::any_of(nodes("3"))),
    ];
    let order: Vec<String> = diagnose(&evidence, symptoms).into_iter().map(|it| it.finding.rule).collect();
    assert_eq!(order, ["half", "link", "unknown-problem", "unknown-note", "nothing"]);
}

#[test]
fn symptoms_of_other_devices_are_removed() {
    let topology = topology();
    let any = || Effect::Nothing;
    let of_node = |node: u32| Symptom { device: None, ..symptom("node", Severity::Note, Some(node), any()) };
    let symptoms = vec![
        symptom("own", Severity::Note, Some(7), any()),
        symptom("other", Severity::Note, Some(0), any()),
        symptom("machine", Severity::Note, None, any()),
        of_node(7),
        of_node(3),
    ];
    let kept: Vec<String> =
        filter_by_devices(symptoms, &topology, &[0]).into_iter().map(|it| it.finding.rule).collect();
    assert_eq!(kept, ["own", "machine", "node"]);
}
