//! The check of a fleet: structure first, then figures, with the false discovery rate over all
//! hosts.

use super::deviations::Comparison;
use super::discovery::adjusted;
use super::evidence::{evidence, Deviations};
use super::group_figures::GroupFigures;
use super::groups::Grouping;
use super::table::{cells_by_group, tables, Times};
use numaio_schema::{
    CheckOptions, Detectable, FactKind, FleetCheck, FleetData, FleetGroup, GroupMove, HostCheck,
    FLEET_CHECK_SCHEMA,
};

/// Finds hosts that differ from like hosts in structure, settings or figures, or from their own
/// past.
///
/// The p-values of a host's figures are combined to one for the host (module `deviations`), and
/// Benjamini and Hochberg's procedure holds the false discovery rate over all hosts: of the hosts
/// that are reported for their figures, at most that share is expected to be healthy. Combining
/// first keeps that guarantee although figures of a host are correlated; over single figures it
/// would hold as well, but one false host could contribute all of its figures. Within the reported
/// hosts the same procedure selects the figures at the level that Benjamini and Bogomolov (Journal
/// of the Royal Statistical Society B 76, 2014) derive from the share of reported hosts.
///
/// It assumes that healthy hosts of a group scatter about normally. Heavier tails are kept from
/// alarms only by the least deviation.
pub fn check(data: &FleetData, options: &CheckOptions) -> FleetCheck {
    let mut grouping = Grouping::of(data);
    let mut places = vec![(0, 0); data.hosts.len()];
    for (group, members) in (0u32..).zip(&grouping.groups) {
        (0u32..).zip(&members.hosts).for_each(|(column, &host)| places[host] = (group, column));
    }
    let cells = cells_by_group(data, &places, grouping.groups.len());
    let mut not_positive = 0;
    let groups: Vec<GroupFigures> = cells
        .into_iter()
        .zip(&grouping.groups)
        .map(|(cells, group)| {
            let times = Times { since: options.since, baseline: options.baseline };
            let tables = tables(data, &cells, &places, group.hosts.len(), times);
            not_positive += tables.not_positive;
            let is_reference =
                |host: &usize| !grouping.deviations[*host].iter().any(|it| it.fact.kind != FactKind::Setting);
            let references: Vec<bool> = group.hosts.iter().map(is_reference).collect();
            GroupFigures::new(data, tables, &references, options, times)
        })
        .collect();
    let outcomes = outcomes(&groups, &places);
    let mut check = FleetCheck {
        schema: FLEET_CHECK_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        newest: data.figures.iter().map(|figure| figure.measured_at).max(),
        options: *options,
        compared_hosts: outcomes.tested as u32,
        compared_figures: outcomes.compared,
        groups: Vec::new(),
        hosts: Vec::new(),
        undecided: std::mem::take(&mut grouping.undecided),
    };
    limits(data, &grouping, &groups, not_positive, &mut check.undecided);
    for (group, figures) in grouping.groups.iter().zip(&groups) {
        check.groups.push(describe(group.document(data), figures, &outcomes, options));
    }
    check.hosts = hosts(data, &mut grouping, &groups, &places, &outcomes, options);
    check
}

/// Adds to a group what the check could find in it, and how it moved.
fn describe(
    mut group: FleetGroup,
    figures: &GroupFigures,
    outcomes: &Outcomes,
    options: &CheckOptions,
) -> FleetGroup {
    // The p-value at which a single host would be reported.
    let p = options.false_discovery_rate / outcomes.tested.max(1) as f64;
    group.detectable = figures.newest.as_ref().map(|newest| {
        let tests = if figures.moves.is_some() { 2.0 } else { 1.0 };
        let (host, figure) = newest.detectable(p / tests);
        Detectable { figures: figures.keys.len() as u32, host, figure }
    });
    let moved = figures.moves.as_ref().and_then(Comparison::common_move);
    group.moved = moved.map(|(change, hosts)| GroupMove { hosts: hosts as u32, change: change.exp() - 1.0 });
    group
}

/// The p-values of all hosts.
pub(super) struct Outcomes {
    /// Adjusted p-values of being worse, by host; `None` without compared figures.
    worse: Vec<Option<f64>>,
    /// Adjusted p-values of being better, by host.
    better: Vec<Option<f64>>,
    /// Number of hosts with compared figures.
    tested: usize,
    /// Number of compared figures.
    compared: u64,
}

fn outcomes(groups: &[GroupFigures], places: &[(u32, u32)]) -> Outcomes {
    let mut compared = 0;
    let (mut worse, mut better) = (Vec::new(), Vec::new());
    for &(group, column) in places {
        let comparisons = groups[group as usize].comparisons(column as usize);
        let assessments: Vec<_> = comparisons.map(|(_, comparison, at)| comparison.assess(at)).collect();
        compared += assessments.iter().map(|[worse, _]| worse.compared as u64).max().unwrap_or(0);
        let combined = |direction: usize| {
            let p: Vec<f64> = assessments.iter().filter_map(|both| both[direction].p).collect();
            let tests = p.len() as f64;
            p.into_iter().reduce(f64::min).map(|p| (p * tests).min(1.0))
        };
        worse.push(combined(0));
        better.push(combined(1));
    }
    let tested = worse.iter().flatten().count();
    Outcomes { worse: all_adjusted(&worse), better: all_adjusted(&better), tested, compared }
}

/// Adjusts the p-values of the hosts that have one.
fn all_adjusted(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut adjusted = adjusted(&p.iter().flatten().copied().collect::<Vec<f64>>()).into_iter();
    p.iter().map(|p| p.and_then(|_| adjusted.next())).collect()
}

/// Describes every host with a finding or a remark: structure first, then by significance.
fn hosts(
    data: &FleetData,
    grouping: &mut Grouping,
    groups: &[GroupFigures],
    places: &[(u32, u32)],
    outcomes: &Outcomes,
    options: &CheckOptions,
) -> Vec<HostCheck> {
    let rate = options.false_discovery_rate;
    let level = |adjusted: &[Option<f64>]| {
        let reported = adjusted.iter().flatten().filter(|p| **p <= rate).count();
        rate * reported as f64 / outcomes.tested.max(1) as f64
    };
    let (worse_level, better_level) = (level(&outcomes.worse), level(&outcomes.better));
    let mut hosts: Vec<HostCheck> = Vec::new();
    for (host, &(group, column)) in places.iter().enumerate() {
        let figures = &groups[group as usize];
        let is = |adjusted: &[Option<f64>]| adjusted[host].is_some_and(|p| p <= rate);
        let mut deviations = Deviations::default();
        if is(&outcomes.worse) {
            deviations = evidence(data, figures, host, column as usize, worse_level, false);
        }
        let better = match is(&outcomes.better) {
            true => evidence(data, figures, host, column as usize, better_level, true).figures.len(),
            false => 0,
        };
        let facts = std::mem::take(&mut grouping.deviations[host]);
        let classes = std::mem::take(&mut grouping.classes[host]);
        if facts.is_empty() && deviations.is_empty() && better == 0 {
            continue;
        }
        let name = grouping.groups[group as usize].name.clone();
        let check = deviations.explained(&data.hosts[host], facts, classes);
        let p = outcomes.worse[host];
        hosts.push(HostCheck { group: name, p, better_figures: better as u32, ..check });
    }
    hosts.sort_by(|a, b| {
        let p = |host: &HostCheck| host.p.unwrap_or(1.0);
        b.gravest().cmp(&a.gravest()).then(p(a).total_cmp(&p(b))).then_with(|| a.host.cmp(&b.host))
    });
    hosts
}

/// Reports what could not be compared.
fn limits(
    data: &FleetData,
    grouping: &Grouping,
    groups: &[GroupFigures],
    not_positive: usize,
    undecided: &mut Vec<String>,
) {
    let mut name = |hosts: Vec<&str>, what: &str| {
        if !hosts.is_empty() {
            let shown = hosts[..hosts.len().min(5)].join(", ");
            let more = if hosts.len() > 5 { ", ..." } else { "" };
            let noun = if hosts.len() == 1 { "host" } else { "hosts" };
            undecided.push(format!("{} {noun} {what}: {shown}{more}", hosts.len()));
        }
    };
    let (mut few, mut without) = (Vec::new(), Vec::new());
    for (group, figures) in grouping.groups.iter().zip(groups) {
        for (column, &host) in group.hosts.iter().enumerate() {
            let newest = &figures.figures[figures.cell(0, column)..figures.cell(0, column + 1)];
            match () {
                () if newest.iter().all(|figure| *figure == u32::MAX) => {
                    without.push(&*data.hosts[host].name)
                }
                () if figures.newest.is_none() => few.push(&*data.hosts[host].name),
                () => {}
            }
        }
    }
    name(few, "without two like hosts with figures, compared with its own past only");
    name(without, "without figures in the checked time");
    if not_positive > 0 {
        undecided.push(format!("{not_positive} figures are not positive, and are not compared"));
    }
}
