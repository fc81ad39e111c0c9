//! Summaries of a fleet: its groups, and one host beside its group.

use crate::classes::{classify, Point};
use crate::fit::ClassOptions;
use crate::fleet;
use crate::fleet::newest_figures::NewestFigures;
use crate::sweep::value_classes;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_schema::{
    median, ClassRule, Fact, FactDifference, FactVariant, FigureKey, FigureRow, FleetData, FleetGroup,
    FleetHost, FleetHostSummary, FleetSummary, GroupClasses, GroupFigure, GroupPairClass, GroupPairClasses,
    GroupSummary, HostFigure, NodeValue, Quantity, FLEET_HOST_SCHEMA, FLEET_SUMMARY_SCHEMA,
};
use std::collections::BTreeMap;

/// Tolerance of a class, as in the model of a machine.
const LEVEL: f64 = 0.1;

/// An unknown name of a group or host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetNameError {
    /// No group has the name.
    #[error("there is no group '{}'", .0.escape_debug())]
    Group(String),
    /// No host has the name.
    #[error("there is no host '{}'", .0.escape_debug())]
    Host(String),
}

/// Summarizes all groups of a fleet, or one by name with the values of each host.
///
/// # Errors
/// [`FleetNameError::Group`]: no group has the name.
pub fn fleet_summary(data: &FleetData, group: Option<&str>) -> Result<FleetSummary, FleetNameError> {
    let newest = NewestFigures::of(data);
    let mut groups = fleet::groups(data);
    if let Some(name) = group {
        groups.retain(|group| group.name == name);
        if groups.is_empty() {
            return Err(FleetNameError::Group(name.to_owned()));
        }
    }
    let groups = groups.into_iter().map(|found| summarize_group(&newest, found, group.is_some()));
    Ok(FleetSummary {
        schema: FLEET_SUMMARY_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        hosts: data.hosts.len() as u32,
        groups: groups.collect(),
    })
}

/// Describes one host beside its group.
///
/// # Errors
/// [`FleetNameError::Host`]: no host has the name.
pub fn fleet_host_summary(data: &FleetData, name: &str) -> Result<FleetHostSummary, FleetNameError> {
    let newest = NewestFigures::of(data);
    let unknown = || FleetNameError::Host(name.to_owned());
    let (index, host) = newest.host(name).ok_or_else(unknown)?;
    let groups = fleet::groups(data);
    let group = groups.into_iter().find(|group| group.hosts.iter().any(|other| other == name));
    let group = group.ok_or_else(unknown)?;
    let members = newest.members(&group);
    let differs = |difference: &FactDifference| {
        difference.others.iter().any(|variant| variant.hosts.iter().any(|other| other == name))
    };
    let own_variant = |mut difference: FactDifference| {
        difference.others.retain(|variant| variant.hosts.iter().any(|other| other == name));
        difference
    };
    let figures = data.keys.iter().zip(0..).filter_map(|(key, key_index)| {
        let (row, previous) = newest.newest(index, key_index)?;
        let values = newest.values(&members, key_index).into_iter().flatten().map(|row| row.value);
        Some(HostFigure {
            key: key.clone(),
            measured_at: row.measured_at,
            value: row.value,
            interval: row.interval,
            group_median: median(&values.collect::<Vec<f64>>())?,
            previous: previous.map(|row| row.value),
        })
    });
    let mut figures: Vec<HostFigure> = figures.collect();
    figures.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(FleetHostSummary {
        schema: FLEET_HOST_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        host: host.name.clone(),
        observed_at: host.observed_at,
        group_hosts: group.hosts.len() as u32,
        facts: host.facts.clone(),
        differences: differences(&members).into_iter().filter(differs).map(own_variant).collect(),
        group: group.name,
        figures,
    })
}

fn summarize_group(newest: &NewestFigures<'_>, group: FleetGroup, with_values: bool) -> GroupSummary {
    let members = newest.members(&group);
    let (mut figures, mut medians) = (Vec::new(), Vec::new());
    for (key, index) in newest.data().keys.iter().zip(0..) {
        let rows = newest.values(&members, index);
        let known: Vec<FigureRow> = rows.iter().flatten().copied().collect();
        let of = |part: fn(&FigureRow) -> f64| median(&known.iter().map(part).collect::<Vec<f64>>());
        let (Some(middle), Some(low), Some(high)) =
            (of(|row| row.value), of(|row| row.interval.0), of(|row| row.interval.1))
        else {
            continue;
        };
        medians.push((key, middle, low, high));
        figures.push(GroupFigure {
            key: key.clone(),
            count: known.len() as u32,
            median: middle,
            low: known.iter().map(|row| row.value).fold(f64::INFINITY, f64::min),
            high: known.iter().map(|row| row.value).fold(f64::NEG_INFINITY, f64::max),
            values: match with_values {
                true => rows.iter().map(|row| row.map(|row| row.value)).collect(),
                false => Vec::new(),
            },
        });
    }
    figures.sort_by(|a, b| a.key.cmp(&b.key));
    let pair_classes = pair_classes(&figures);
    GroupSummary {
        differences: differences(&members),
        classes: classes(&medians),
        pair_classes,
        figures,
        group,
    }
}

/// Classifies all pairs of nodes by the medians of each quantity. `figures` are sorted by quantity.
fn pair_classes(figures: &[GroupFigure]) -> Vec<GroupPairClasses> {
    let without_nodes = |key: &FigureKey| FigureKey { from: None, to: None, ..key.clone() };
    let mut pairs: BTreeMap<FigureKey, Vec<(NodeId, NodeId, f64)>> = BTreeMap::new();
    for figure in figures {
        if let (Some(from), Some(to)) = (figure.key.from, figure.key.to) {
            pairs.entry(without_nodes(&figure.key)).or_default().push((from, to, figure.median));
        }
    }
    let rule = ClassOptions { classes: ClassRule::Kmeans, level: LEVEL };
    let classes = pairs.into_iter().map(|(key, pairs)| {
        // Values are of pairs here, numbered by their index.
        let value = |(index, (_, _, value)): (u32, &(_, _, f64))| NodeValue {
            node: NodeId(index),
            value: *value,
            interval: None,
            n: 0,
            drift: 0.0,
            factor: None,
        };
        let values: Vec<NodeValue> = (0..).zip(&pairs).map(value).collect();
        let quantity = if key.more_is_better { Quantity::Score } else { Quantity::Cost };
        let classes = value_classes(quantity, &values, rule, &NodeSet::new()).into_iter();
        let classes = classes.map(|class| GroupPairClass {
            rank: class.rank,
            pairs: class
                .cells
                .iter()
                .map(|index| pairs[*index as usize])
                .map(|(from, to, _)| (from, to))
                .collect(),
            min: class.min,
            max: class.max,
            mean: class.mean,
        });
        GroupPairClasses { key, classes: classes.collect() }
    });
    classes.collect()
}

/// Classifies the median copy bandwidths of a group, by target.
fn classes(medians: &[(&FigureKey, f64, f64, f64)]) -> Vec<GroupClasses> {
    let mut points: BTreeMap<(&str, NodeId), Vec<Point>> = BTreeMap::new();
    for (key, value, low, high) in medians {
        // Reads move data from the target, writes to it.
        let (target, node) = match (key.quantity.as_str(), key.from, key.to) {
            ("copy-read", Some(from), Some(to)) => (from, to),
            ("copy-write", Some(from), Some(to)) => (to, from),
            _ => continue,
        };
        if *value > 0.0 {
            let point = Point { node, value: *value, low: *low, high: *high };
            points.entry((&key.quantity, target)).or_default().push(point);
        }
    }
    let classes = points.into_iter().map(|((quantity, target), points)| GroupClasses {
        quantity: quantity.to_owned(),
        target,
        classes: classify(&points, ClassRule::Measured, LEVEL, &NodeSet::new())
            .into_iter()
            .map(|class| class.nodes)
            .collect(),
    });
    classes.collect()
}

/// Returns the facts that have several values among hosts, structure before settings.
fn differences(members: &[(u32, &FleetHost)]) -> Vec<FactDifference> {
    let mut values: BTreeMap<(numaio_schema::FactKind, &str), BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for (_, host) in members {
        for Fact { kind, name, value } in &host.facts {
            let hosts = values.entry((*kind, name)).or_default().entry(value).or_default();
            hosts.push(host.name.clone());
        }
    }
    let mut found = Vec::new();
    for ((kind, name), mut by_value) in values {
        let with: usize = by_value.values().map(Vec::len).sum();
        if with < members.len() {
            let has = |host: &FleetHost| host.facts.iter().any(|fact| fact.kind == kind && fact.name == name);
            let without = members.iter().filter(|(_, host)| !has(host)).map(|(_, host)| host.name.clone());
            by_value.entry("").or_default().extend(without);
        }
        if by_value.len() < 2 {
            continue;
        }
        let mut variants: Vec<(&str, Vec<String>)> = by_value.into_iter().collect();
        // Most frequent first; of equals the first by value.
        variants.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
        let (value, hosts) = variants.remove(0);
        let fact = Fact { kind, name: name.to_owned(), value: value.to_owned() };
        let variant = |(value, hosts): (&str, Vec<String>)| FactVariant { value: value.to_owned(), hosts };
        let others = variants.into_iter().map(variant).collect();
        found.push(FactDifference { fact, hosts: hosts.len() as u32, others });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::NodeId;
    use numaio_schema::FactKind;

    fn fact(kind: FactKind, name: &str, value: &str) -> Fact {
        Fact { kind, name: name.to_owned(), value: value.to_owned() }
    }

    /// Three hosts with copy figures from nodes 0 and 1 to node 0; the last is slow, and has
    /// another kernel.
    fn fleet() -> FleetData {
        let host = |name: &str, kernel| FleetHost {
            name: name.to_owned(),
            observed_at: 5,
            facts: vec![
                fact(FactKind::Hardware, "cpu-model", "X"),
                fact(FactKind::Setting, "kernel", kernel),
            ],
        };
        let key = |from| FigureKey {
            quantity: "copy-write".to_owned(),
            from: Some(NodeId(from)),
            to: Some(NodeId(0)),
            device: String::new(),
            unit: "B/s".to_owned(),
            more_is_better: true,
        };
        let row = |host, key, measured_at, value: f64| FigureRow {
            host,
            key,
            measured_at,
            value,
            interval: (value * 0.99, value * 1.01),
        };
        let figures = (0..3).flat_map(|host| {
            let factor = if host == 2 { 0.5 } else { 1.0 };
            [row(host, 0, 9, 10e9 * factor), row(host, 1, 9, 6e9 * factor), row(host, 0, 3, 11e9)]
        });
        FleetData {
            hosts: vec![host("a", "6.1"), host("b", "6.1"), host("c", "6.2")],
            keys: vec![key(0), key(1)],
            figures: figures.collect(),
        }
    }

    #[test]
    fn summarizes_medians_classes_and_differences_of_a_group() {
        let summary = fleet_summary(&fleet(), None).expect("a summary");
        let [group] = &summary.groups[..] else { panic!("{summary:#?}") };
        let medians: Vec<f64> = group.figures.iter().map(|figure| figure.median).collect();
        assert_eq!((summary.hosts, medians), (3, vec![10e9, 6e9]));
        assert_eq!((group.figures[0].low, group.figures[0].high), (5e9, 10e9));
        assert_eq!(group.classes[0].target, NodeId(0));
        let classes: Vec<String> = group.classes[0].classes.iter().map(NodeSet::to_string).collect();
        assert_eq!(classes, ["0", "1"]);
        let [kernel] = &group.differences[..] else { panic!("{group:#?}") };
        assert_eq!((kernel.fact.value.as_str(), kernel.hosts), ("6.1", 2));
        assert_eq!(kernel.others, [FactVariant { value: "6.2".into(), hosts: vec!["c".into()] }]);
    }

    #[test]
    fn requested_group_has_the_newest_value_of_each_host() {
        let data = fleet();
        let name = fleet_summary(&data, None).expect("a summary").groups[0].group.name.clone();
        let summary = fleet_summary(&data, Some(&name)).expect("a summary");
        let group = &summary.groups[0];
        let slow = group.group.hosts.iter().position(|host| host == "c").expect("host c");
        assert_eq!(group.figures[0].values[slow], Some(5e9));
        let unknown = fleet_summary(&data, Some("nothing"));
        assert_eq!(unknown, Err(FleetNameError::Group("nothing".to_owned())));
    }

    #[test]
    fn host_is_described_beside_its_group() {
        let host = fleet_host_summary(&fleet(), "c").expect("a host");
        assert_eq!((host.group_hosts, host.figures.len(), host.differences.len()), (3, 2, 1));
        let figure = &host.figures[0];
        assert_eq!((figure.value, figure.group_median, figure.previous), (5e9, 10e9, Some(11e9)));
        assert!(fleet_host_summary(&fleet(), "a").expect("a host").differences.is_empty());
        assert!(fleet_host_summary(&fleet(), "x").is_err());
    }
}
