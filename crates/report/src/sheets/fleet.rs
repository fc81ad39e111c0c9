//! Tables of a group of like hosts: its hardware, and for each quantity the classes of all pairs
//! and the medians over the hosts, as in Tables 4 and 5 of Braithwaite et al. (2012).

use super::matrix::{members, Matrix};
use super::sheet::{Align, ClassFigures, Section, Sheet};
use crate::fleet::{host_list, nodes, percent_from, quantity};
use crate::number_format::NumberFormat;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::{FactKind, FigureKey, GroupFigure, GroupPairClasses, GroupSummary};
use std::collections::BTreeMap;

/// Returns all tables of a group, by subject.
pub(crate) fn sections(group: &GroupSummary, unit: BandwidthUnit) -> Vec<Section> {
    let pairs = group.pair_classes.iter().flat_map(|classes| {
        let figures: Vec<&GroupFigure> =
            group.figures.iter().filter(|figure| without_nodes(&figure.key) == classes.key).collect();
        let format = NumberFormat::figure(&classes.key, unit, figures.iter().map(|figure| figure.median));
        [pair_classes(classes, format, unit), matrix(&classes.key, &figures, format, unit)]
    });
    let sections = [
        Section { title: "Hosts and hardware", sheets: vec![hardware(group)] },
        Section { title: "Pairs of nodes", sheets: pairs.collect() },
        Section { title: "Devices and nodes", sheets: single_nodes(group, unit) },
    ];
    sections.into_iter().filter(|section| !section.sheets.is_empty()).collect()
}

fn without_nodes(key: &FigureKey) -> FigureKey {
    FigureKey { from: None, to: None, ..key.clone() }
}

/// Returns the unit of a figure in parentheses, or nothing.
fn unit_of(key: &FigureKey, unit: BandwidthUnit) -> String {
    match key.unit.as_str() {
        "" => String::new(),
        "B/s" => format!(" ({unit})"),
        other => format!(" ({other})"),
    }
}

/// Lists the common facts of the hardware, and the facts in which hosts differ.
fn hardware(group: &GroupSummary) -> Sheet {
    let mut sheet = Sheet::new("Facts of the group", ["Fact", "Value"], Align::Left);
    sheet.row(["Hosts".to_owned(), host_list(&group.group.hosts)]);
    for fact in group.group.facts.iter().filter(|fact| fact.kind == FactKind::Hardware) {
        sheet.row([fact.name.clone(), fact.value.clone()]);
    }
    for difference in &group.differences {
        let others = difference.others.iter().map(|variant| {
            let value = if variant.value.is_empty() { "none" } else { &variant.value };
            format!("{value}: {}", host_list(&variant.hosts))
        });
        let others = others.collect::<Vec<_>>().join("; ");
        let most =
            format!("{} on {} of {}", difference.fact.value, difference.hosts, group.group.hosts.len());
        sheet.row([format!("{} (differs)", difference.fact.name), format!("{most}; {others}")]);
    }
    sheet
}

fn pair_classes(classes: &GroupPairClasses, format: NumberFormat, unit: BandwidthUnit) -> Sheet {
    let unit = unit_of(&classes.key, unit);
    let title = format!("{}: classes of all pairs by k-means{unit}", quantity(&classes.key));
    let head = ["Class", "Range", "Mean", "Pairs", "From node: to nodes"];
    let mut sheet = Sheet::new(title, head, Align::Right);
    (sheet.aligned[1], sheet.aligned[4]) = (Align::Center, Align::Left);
    for class in &classes.classes {
        let mut by_source: BTreeMap<NodeId, NodeSet> = BTreeMap::new();
        for (from, to) in &class.pairs {
            by_source.entry(*from).or_default().insert(*to);
        }
        let class_figures = ClassFigures {
            rank: class.rank,
            range: (class.min, class.max),
            mean: class.mean,
            members: class.pairs.len(),
        };
        sheet.class(&class_figures, format, members(&by_source));
    }
    sheet
}

fn matrix(key: &FigureKey, figures: &[&GroupFigure], format: NumberFormat, unit: BandwidthUnit) -> Sheet {
    let cells = figures.iter().filter_map(|figure| {
        let (from, to) = (figure.key.from?, figure.key.to?);
        Some((((from, None), to), (Some(figure.median), true)))
    });
    let matrix = Matrix {
        title: format!("{}: medians over the hosts{}", quantity(key), unit_of(key, unit)),
        rows: "From node",
        columns: "To node",
        cells: cells.collect(),
        figures: format,
        best: if key.more_is_better { f64::max } else { f64::min },
    };
    let mut sheet = matrix.sheet();
    let spread = |figure: &&GroupFigure| (figure.high - figure.low) / figure.median;
    if let Some(widest) = figures.iter().max_by(|a, b| spread(a).total_cmp(&spread(b))) {
        sheet.note(format!(
            "Hosts spread most on {}: {} to {} % of the median.",
            nodes(&widest.key),
            percent_from(widest.low, widest.median),
            percent_from(widest.high, widest.median)
        ));
    }
    sheet
}

/// Returns a table for each quantity with figures of one node or of the complete host.
fn single_nodes(group: &GroupSummary, unit: BandwidthUnit) -> Vec<Sheet> {
    let mut by_quantity: BTreeMap<FigureKey, Vec<&GroupFigure>> = BTreeMap::new();
    for figure in group.figures.iter().filter(|figure| figure.key.from.is_none() || figure.key.to.is_none()) {
        by_quantity.entry(without_nodes(&figure.key)).or_default().push(figure);
    }
    let sheet = |(key, figures): (FigureKey, Vec<&GroupFigure>)| {
        let format = NumberFormat::figure(&key, unit, figures.iter().map(|figure| figure.median));
        let title = format!("{}: medians over the hosts{}", quantity(&key), unit_of(&key, unit));
        let mut sheet = Sheet::new(title, ["Node", "Median", "Lowest %", "Highest %", "Hosts"], Align::Right);
        for figure in figures {
            sheet.row([
                nodes(&figure.key),
                format.format(figure.median),
                percent_from(figure.low, figure.median),
                percent_from(figure.high, figure.median),
                figure.count.to_string(),
            ]);
        }
        sheet
    };
    by_quantity.into_iter().map(sheet).collect()
}
