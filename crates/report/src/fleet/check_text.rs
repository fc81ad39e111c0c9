//! Formats a check of a fleet: the hosts that deviate, structure first.

use super::names::{hardware, listed};
use super::value::{quantity, with_known_unit};
use crate::phrases::count;
use crate::record_header::{date, percent};
use crate::style::{short, TextStyle};
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_machine::findings::Severity;
use numaio_schema::{
    ComparedWith, FactDeviation, FactKind, FigureDeviation, FigureKey, FigureScope, FindingKind, FleetCheck,
    FleetGroup, HostCheck, SummaryDeviation,
};
use std::collections::BTreeMap;

/// Most hosts that are described each.
const MOST_HOSTS: usize = 20;
/// Most hosts that are named for a setting.
const MOST_NAMES: usize = 8;
/// Most lines of a kind: settings, groups, undecided questions.
const MOST_LINES: usize = 20;
/// Most figures of a host in a table.
const MOST_FIGURES: usize = 6;

/// Formats the verdict, the hosts that deviate, settings that differ, the groups, and what could
/// not be decided.
///
/// Long lists are shortened with a count, so that the page of 5,000 hosts has a few hundred lines.
pub fn fleet_check_text(check: &FleetCheck, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    verdict(&mut page, check);
    let described: Vec<&HostCheck> = check.hosts.iter().filter(|host| host.is_unfit()).collect();
    for host in described.iter().take(MOST_HOSTS) {
        write_host(&mut page, host);
    }
    if described.len() > MOST_HOSTS {
        page.blank();
        let more = count(described.len() - MOST_HOSTS, "more host");
        page.paragraph(0, 2, &format!("{more} that differ in structure or are worse (--json shows all):"));
        let rest = described[MOST_HOSTS..].iter().map(|host| short(&host.host));
        page.paragraph(2, 0, &listed(rest, 4 * MOST_NAMES));
    }
    settings(&mut page, check);
    remarks(&mut page, check);
    groups(&mut page, check);
    if !check.undecided.is_empty() {
        page.heading("Not decided");
        lines(&mut page, check.undecided.clone());
    }
    page.into_text()
}

/// Returns the verdict: how many hosts deviate, and in what.
pub(super) fn verdict_line(check: &FleetCheck) -> String {
    let all: usize = check.groups.iter().map(|group| group.hosts.len()).sum();
    let number = |kind| check.hosts.iter().filter(|host| host.gravest() == Some(kind)).count();
    let (structure, slow) = (number(FindingKind::Structure), number(FindingKind::Figures));
    let settings = number(FindingKind::Setting);
    let parts: Vec<String> = [
        (structure, "differs in structure", "differ in structure"),
        (slow, "is worse without a difference in structure", "are worse without a difference in structure"),
        (settings, "differs in a setting only", "differ in a setting only"),
    ]
    .into_iter()
    .filter(|(hosts, ..)| *hosts > 0)
    .map(|(hosts, one, many)| format!("{hosts} {}", if hosts == 1 { one } else { many }))
    .collect();
    let found = structure + slow + settings;
    let outcome = match found {
        0 => "no host deviates".to_owned(),
        found => format!("{} deviate: {}", found, parts.join(", ")),
    };
    format!("Fleet check of {}: {outcome}", count(all, "host"))
}

fn verdict(page: &mut TextPage, check: &FleetCheck) {
    page.paragraph(0, 2, &verdict_line(check));
    let newest = check.newest.map(|time| format!(", newest of {}", date(time))).unwrap_or_default();
    page.paragraph(
        0,
        2,
        &format!(
            "Compared: {} of {}{newest}. Deviations of at least {} % count; of the hosts reported for \
             figures, at most {} % are expected to be healthy.",
            count(check.compared_figures as usize, "figure"),
            count(check.compared_hosts as usize, "host"),
            percent(check.options.least),
            percent(check.options.false_discovery_rate),
        ),
    );
}

fn write_host(page: &mut TextPage, host: &HostCheck) {
    let p = host.p.filter(|_| host.has_slow_figures()).map(|p| format!(", adjusted {}", p_value(p)));
    page.heading(&format!("{} (group {}{})", short(&host.host), short(&host.group), p.unwrap_or_default()));
    for fact in &host.facts {
        let severity =
            if fact.fact.kind == FactKind::Setting { Severity::Warning } else { Severity::Problem };
        page.finding(2, severity, &difference(fact));
        if !fact.explains.is_empty() {
            page.paragraph(4, 2, "explains:");
            figures(page, 6, &fact.explains, fact.explains_more);
        }
    }
    for summary in &host.summaries {
        page.finding(2, Severity::Problem, &sentence(summary));
    }
    figures(page, 4, &host.figures, host.more_figures);
}

/// Describes a difference: `kernel is '6.1.0-9'; 97 hosts of the group have '6.1.0-13'`.
pub(super) fn difference(fact: &FactDeviation) -> String {
    let value = |value: &str| match value {
        "" => "none".to_owned(),
        value => format!("'{}'", short(value)),
    };
    let like = match fact.hosts_with_value {
        0 | 1 => String::new(),
        hosts => format!(", as {} have", count(hosts as usize - 1, "other host")),
    };
    format!(
        "{} is {}{like}; {} of the group {} {}",
        short(&fact.fact.name),
        value(&fact.fact.value),
        count(fact.hosts_with_expected as usize, "host"),
        if fact.hosts_with_expected == 1 { "has" } else { "have" },
        value(&fact.expected),
    )
}

pub(super) fn sentence(summary: &SummaryDeviation) -> String {
    let of = match &summary.scope {
        FigureScope::Host => String::new(),
        FigureScope::Node { node } => format!(" of node {node}"),
        FigureScope::Device { device } => format!(" of {}", short(device)),
    };
    format!(
        "{}{of}: typically {} % worse than {} ({})",
        count(summary.figures as usize, "figure"),
        percent(-summary.deviation),
        reference(summary.against),
        p_value(summary.p),
    )
}

fn reference(against: ComparedWith) -> &'static str {
    match against {
        ComparedWith::Group => "in the group",
        ComparedWith::Past => "in the host's past, after the group's move",
    }
}

fn figures(page: &mut TextPage, indent: usize, figures: &[FigureDeviation], more: u32) {
    if figures.is_empty() {
        return;
    }
    let columns = [
        ("figure", Align::Left),
        ("nodes", Align::Left),
        ("value", Align::Right),
        ("expected", Align::Right),
        ("deviation", Align::Right),
        ("p", Align::Right),
        ("compared with", Align::Left),
    ];
    let mut table = Table::new(columns).shrink_first("figure");
    let style = *page.style();
    for figure in figures.iter().take(MOST_FIGURES) {
        let compared = figure.compared as usize;
        let compared = match figure.against {
            ComparedWith::Group => count(compared, "host"),
            ComparedWith::Past => count(compared, "past value"),
        };
        table.row([
            quantity(&figure.key).into(),
            nodes(&figure.key).into(),
            value(&figure.key, figure.value, &style).into(),
            value(&figure.key, figure.expected, &style).into(),
            format!("{:+.1} %", 100.0 * figure.deviation).into(),
            p_number(figure.p).into(),
            compared.into(),
        ]);
    }
    page.table(indent, &table);
    let more = more as usize + figures.len().saturating_sub(MOST_FIGURES);
    if more > 0 {
        page.paragraph(indent, 2, &format!("and {more} more (--json shows more)"));
    }
}

fn nodes(key: &FigureKey) -> String {
    match (key.from, key.to) {
        (Some(from), Some(to)) => format!("{from} → {to}"),
        (Some(from), None) => format!("from {from}"),
        (None, Some(to)) => format!("to {to}"),
        (None, None) => String::new(),
    }
}

fn value(key: &FigureKey, value: f64, style: &TextStyle) -> String {
    with_known_unit(key, value, style)
        .unwrap_or_else(|| format!("{value:.4} {}", short(&key.unit)).trim_end().to_owned())
}

fn p_value(p: f64) -> String {
    match p {
        p if p < 1e-15 => "p < 1e-15".to_owned(),
        p => format!("p = {}", p_number(p)),
    }
}

fn p_number(p: f64) -> String {
    match p {
        p if p < 1e-15 => "<1e-15".to_owned(),
        p if p < 0.001 => format!("{p:.0e}"),
        p => format!("{p:.3}"),
    }
}

/// Writes each setting that differs once, with its hosts.
fn settings(page: &mut TextPage, check: &FleetCheck) {
    let mut hosts: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for host in check.hosts.iter() {
        for fact in host.facts.iter().filter(|fact| fact.fact.kind == FactKind::Setting) {
            let key =
                (host.group.as_str(), difference(&FactDeviation { hosts_with_value: 1, ..fact.clone() }));
            hosts.entry(key).or_default().push(short(&host.host));
        }
    }
    if hosts.is_empty() {
        return;
    }
    let mut settings: Vec<_> = hosts.into_iter().collect();
    settings.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
    page.heading("Settings that differ");
    let described = settings.into_iter().map(|((group, difference), hosts)| {
        let number = count(hosts.len(), "host");
        format!("group {}, {number}: {difference}: {}", short(group), listed(hosts, MOST_NAMES))
    });
    lines(page, described.collect());
}

fn remarks(page: &mut TextPage, check: &FleetCheck) {
    let better: Vec<String> =
        check.hosts.iter().filter(|host| host.better_figures > 0).map(|host| short(&host.host)).collect();
    if !better.is_empty() {
        page.heading("Much better than like hosts");
        page.paragraph(2, 2, &format!("{}: {}", count(better.len(), "host"), listed(better, MOST_NAMES)));
    }
}

fn groups(page: &mut TextPage, check: &FleetCheck) {
    page.heading("Groups of like hosts");
    lines(page, check.groups.iter().map(group).collect());
}

/// Describes a group, and the smallest deviations that the check could find in it.
fn group(group: &FleetGroup) -> String {
    let machine = hardware(group);
    let share = |share: Option<f64>| share.map_or("none".to_owned(), |share| format!("{} %", percent(share)));
    let limits = match &group.detectable {
        None => "figures not compared".to_owned(),
        Some(limits) => format!(
            "finds deviations of all of {} from {}, of one from {}",
            count(limits.figures as usize, "figure"),
            share(limits.host),
            share(limits.figure),
        ),
    };
    let moved = group.moved.map(|moved| {
        format!(
            "; {} moved by {:+.1} % from their past",
            count(moved.hosts as usize, "host"),
            100.0 * moved.change
        )
    });
    let machine = if machine.is_empty() { "unknown hardware".to_owned() } else { machine };
    let hosts = count(group.hosts.len(), "host");
    format!("{}: {hosts}, {machine}: {limits}{}", short(&group.name), moved.unwrap_or_default())
}

/// Writes lines up to a limit, and the number of the others.
fn lines(page: &mut TextPage, lines: Vec<String>) {
    lines.iter().take(MOST_LINES).for_each(|line| page.paragraph(2, 2, line));
    if lines.len() > MOST_LINES {
        page.paragraph(2, 2, &format!("and {} more (--json shows all)", lines.len() - MOST_LINES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_schema::{CheckOptions, Fact};

    fn fixture() -> FleetCheck {
        let text = include_str!("../../../schema/tests/fixtures/fleet-check-1.json");
        FleetCheck::from_json(text).expect("a check")
    }

    #[test]
    fn structure_is_listed_before_the_figures_that_it_explains() {
        let text = fleet_check_text(&fixture(), &TextStyle { width: 200, ..TextStyle::default() });
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} in {text}"));
        assert!(text.starts_with("Fleet check of 20 hosts: 2 deviate: 1 differs in structure, 1 is worse"));
        assert!(at("link is '8 GT/s x4 of 8 GT/s x8'; 19 hosts") < at("explains:"), "{text}");
        assert!(at("explains:") < at("io-write eth0"), "{text}");
        assert!(at("figures of node ") > at("io-write eth0"), "{text}");
        assert!(at("Groups of like hosts") < at("finds deviations of all of 304 figures from 5 %"), "{text}");
    }

    #[test]
    fn thousands_of_hosts_stay_readable() {
        let mut check = fixture();
        let host = check.hosts[0].clone();
        let fact = Fact { kind: FactKind::Setting, name: "kernel".into(), value: "6.1".into() };
        let setting =
            FactDeviation { fact, expected: "6.12".into(), explains: Vec::new(), ..host.facts[0].clone() };
        check.hosts = (0..5000)
            .map(|number| HostCheck { host: format!("n{number:04}\u{1b}[2J"), ..host.clone() })
            .map(|host| HostCheck { facts: [host.facts.clone(), vec![setting.clone()]].concat(), ..host })
            .collect();
        let text = fleet_check_text(&check, &TextStyle::default());
        assert!(text.lines().count() < 500, "{}", text.lines().count());
        assert!(text.contains("4980 more hosts") && text.contains("and 4992 more"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn a_healthy_fleet_is_one_verdict() {
        let check = FleetCheck { hosts: Vec::new(), options: CheckOptions::default(), ..fixture() };
        let text = fleet_check_text(&check, &TextStyle::default());
        assert!(text.starts_with("Fleet check of 20 hosts: no host deviates\n"), "{text}");
    }
}
