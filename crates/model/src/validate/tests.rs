use super::*;
use crate::fit::tests as fits;
use crate::testing::{cell, record};
use crate::{fit, io_views, ClassOptions};
use numaio_machine::topology::Topology;
use numaio_schema::{Class, ClassRepresentative, VIEW_SCHEMA};
use Direction::{Read, Write};

const WRITE: [(u32, f64); 8] =
    [(7, 51.7), (6, 46.5), (0, 46.9), (1, 44.0), (4, 44.0), (5, 42.9), (2, 27.3), (3, 26.0)];
const READ: [(u32, f64); 8] =
    [(7, 51.7), (6, 47.1), (2, 50.3), (3, 46.9), (0, 40.9), (1, 40.4), (5, 39.9), (4, 27.9)];
/// Rows SSD write and SSD read of Tables IV and V, by class.
const SSD_WRITE: [f64; 8] = [28.5, 28.5, 18.0, 18.0, 28.5, 28.5, 28.8, 28.8];
const SSD_READ: [f64; 8] = [30.1, 30.1, 33.1, 33.1, 18.5, 30.1, 34.7, 34.7];

fn subject() -> ViewSubject<'static> {
    ViewSubject { machine: "m", target: NodeId(7), level: 0.1 }
}

fn set(list: &str) -> NodeSet {
    NodeSet::parse_list(list).expect("nodes")
}

/// Node 7 of the DL585 with the given classes.
fn model(write: &[&str], read: &[&str]) -> Model {
    let mut cells = Vec::new();
    for (node, gbit) in WRITE {
        cells.push(fits::cell(node, 7, 7, Some(gbit * 1e9 / 8.0)));
    }
    for (node, gbit) in READ.iter().filter(|(node, _)| *node != 7) {
        cells.push(fits::cell(7, *node, 7, Some(gbit * 1e9 / 8.0)));
    }
    let mut model = fit(fits::record(cells), &Topology::default(), ClassOptions::default());
    let class = |(rank, nodes): (u32, &&str)| Class {
        rank,
        nodes: set(nodes),
        min_bytes_copied_per_s: 1.0,
        max_bytes_copied_per_s: 1.0,
        mean_bytes_copied_per_s: 1.0,
    };
    for direction in &mut model.targets[0].directions {
        let classes = if direction.direction == Write { write } else { read };
        direction.classes = (1..).zip(classes).map(class).collect();
    }
    model
}

fn papers_model() -> Model {
    model(&["6-7", "0-1,4-5", "2-3"], &["6-7", "2-3", "0-1,5", "4"])
}

/// Measured I/O in Gbit/s, by node from 0.
fn measured(direction: Direction, gbit: &[f64]) -> Vec<View> {
    let cells = (0..).zip(gbit).map(|(node, gbit)| cell(direction, &[(node, 4)], *gbit)).collect();
    io_views(&record(7, cells), &subject())
}

fn one(model: &Model, direction: Direction, gbit: &[f64]) -> ValidatedDirection {
    let mut found = validate(model, &subject(), &measured(direction, gbit), &[]);
    assert_eq!(found.len(), 1, "one direction was measured");
    found.remove(0)
}

#[test]
fn reproduces_the_papers_tables() {
    let found = one(&papers_model(), Read, &SSD_READ);
    let rows: Vec<String> = found
        .classes
        .iter()
        .enumerate()
        .map(|(index, class)| {
            let of = |column: &Column| {
                format!("{:.1}", column.classes[index].as_ref().expect("a value").mean * 8e-9)
            };
            format!("{} {} {}", class.nodes, of(&found.columns[0]), of(&found.columns[1]))
        })
        .collect();
    assert_eq!(rows, ["6-7 49.4 34.7", "2-3 48.6 33.1", "0-1,5 40.4 30.1", "4 27.9 18.5"]);
    let verdict = &found.verdicts[0];
    assert_eq!((verdict.rank_agreement(), verdict.classes_in_order), (Some(1.0), 6));
    assert!(!verdict.device_bound && verdict.splits.is_empty() && verdict.not_measured.is_empty());
    // Of 33.1 and 30.1, only 33.1 is within 10 % of 34.7.
    let merges: Vec<&[u32]> = verdict.merges.iter().map(|merge| merge.ranks.as_slice()).collect();
    assert_eq!(merges, [[1, 2]]);
    assert!((verdict.spread - (1.0 - 18.5 / 34.7)).abs() < 1e-9);
}

#[test]
fn counts_classes_in_the_wrong_order() {
    let mut reversed = SSD_WRITE;
    reversed.iter_mut().for_each(|gbit| *gbit = 47.0 - *gbit);
    let verdict = &one(&papers_model(), Write, &reversed).verdicts[0];
    assert_eq!(
        verdict.classes_reversed.len() + verdict.classes_in_order as usize + verdict.classes_tied as usize,
        3
    );
    assert!(verdict.classes_reversed.contains(&(2, 3)) && verdict.classes_in_order == 0);
    assert_eq!(verdict.rank_agreement(), Some(-1.0));
    assert!(verdict.agreements[0].tau_b.is_some_and(|tau| tau < -0.5));
}

#[test]
fn device_with_equal_bandwidth_for_all_nodes_is_the_bottleneck() {
    let verdict = &one(&papers_model(), Write, &[10.0, 10.1, 9.9, 10.0, 10.0, 10.1, 10.0, 10.0]).verdicts[0];
    assert!(verdict.device_bound);
    let merge = &verdict.merges[0];
    assert_eq!((merge.ranks.as_slice(), merge.nodes.to_string().as_str()), (&[1, 2, 3][..], "0-7"));
}

#[test]
fn splits_a_class_with_two_levels() {
    let mut gbit = SSD_WRITE;
    gbit[1] = 20.0;
    let verdict = &one(&papers_model(), Write, &gbit).verdicts[0];
    assert_eq!(verdict.splits, [Split { rank: 2, parts: vec![set("0,4-5"), set("1")] }]);
    // Within the level it is one class, regardless of noise.
    gbit[1] = 27.0;
    assert!(one(&papers_model(), Write, &gbit).verdicts[0].splits.is_empty());
}

#[test]
fn one_measured_node_per_class_suffices() {
    let cells = [(7, 28.8), (0, 28.5), (2, 18.0)].map(|(node, gbit)| cell(Write, &[(node, 4)], gbit));
    let views = io_views(&record(7, cells.to_vec()), &subject());
    let mut found = validate(&papers_model(), &subject(), &views, &[]);
    let mut represented = record(7, cells.to_vec());
    let class = |direction, by, nodes: &str| ClassRepresentative {
        direction,
        node: NodeId(by),
        nodes: set(nodes).iter().collect(),
    };
    // Node 5 was to represent node 6, but has no value itself.
    represented.method.represented =
        vec![class(Write, 2, "2-3"), class(Write, 5, "5-6"), class(Read, 0, "0-1")];
    note_represented(&mut found, &views[0], &represented);
    let verdict = &found[0].verdicts[0];
    assert_eq!((&verdict.not_measured, &verdict.represented), (&set("1,3-6"), &set("3")));
    assert_eq!(verdict.rank_agreement(), Some(1.0));
    assert_eq!(verdict.merges[0].ranks, [1, 2]);
    assert!(found[0].columns[1]
        .classes
        .iter()
        .all(|spread| spread.as_ref().is_some_and(|spread| spread.nodes.len() == 1)));
}

#[test]
fn rivals_are_compared_with_the_same_measurement() {
    let hops = [16.0, 22.0, 16.0, 22.0, 16.0, 22.0, 16.0, 10.0];
    let nodes = (0..).zip(hops).map(|(node, hops)| NodeValue {
        node: NodeId(node),
        value: hops,
        interval: None,
        n: 0,
        drift: 0.0,
        factor: None,
    });
    let slit = crate::derived(View {
        schema: VIEW_SCHEMA.to_owned(),
        name: "slit".to_owned(),
        title: "Distance".to_owned(),
        machine: "m".to_owned(),
        target: NodeId(7),
        direction: None,
        quantity: Quantity::Distance,
        nodes: nodes.collect(),
        level: 0.0,
        measured_at: None,
        classes: Vec::new(),
        incomplete: false,
    });
    let foreign = View { target: NodeId(0), ..slit.clone() };
    let found = validate(&papers_model(), &subject(), &measured(Write, &SSD_WRITE), &[slit, foreign]);
    let roles: Vec<Role> = found[0].columns.iter().map(|column| column.role).collect();
    assert_eq!(roles, [Role::Model, Role::Measured, Role::Baseline]);
    let [model, hops] = found[0].verdicts[0].agreements.as_slice() else { panic!("two") };
    assert_eq!(hops.first, "slit");
    // Node 2 is near and slow, nodes 1 and 5 are far and fast.
    let wrong = |agreement: &numaio_schema::Agreement| -> Vec<(u32, u32)> {
        let pairs = agreement.inversions.iter();
        pairs.map(|pair| (pair.better_in_first.0, pair.better_in_second.0)).collect()
    };
    assert_eq!(wrong(hops), [(2, 1), (2, 5)]);
    // 46.9 and 46.5 in the model, 28.5 and 28.8 for the drive.
    assert_eq!(wrong(model), [(0, 6)]);
    assert!(model.tau_b > hops.tau_b);
}

#[test]
fn unmeasured_classes_are_not_validated() {
    assert!(validate(&papers_model(), &subject(), &[], &[]).is_empty());
    let other = ViewSubject { target: NodeId(3), ..subject() };
    assert!(validate(&papers_model(), &other, &measured(Write, &SSD_WRITE), &[]).is_empty());
    let unclassed = model(&[], &[]);
    let found = one(&unclassed, Write, &SSD_WRITE);
    assert_eq!((found.verdicts[0].rank_agreement(), found.verdicts[0].device_bound), (None, false));
}
