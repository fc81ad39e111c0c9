//! Formats the groups of a fleet.

use super::names::{host_list, named};
use super::value::{nodes, percent_from, quantity, with_unit};
use crate::phrases::count;
use crate::style::{short, TextStyle};
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_schema::{Fact, FactDifference, FactKind, FleetSummary, GroupFigure, GroupSummary};
use std::collections::BTreeMap;

/// Formats groups: hardware, hosts, differences, classes and median figures; a group with values
/// also as a table of hosts and quantities.
pub fn fleet_summary_text(summary: &FleetSummary, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let (hosts, groups) = (summary.hosts as usize, summary.groups.len());
    page.paragraph(0, 2, &format!("{} in {}.", count(hosts, "host"), count(groups, "group")));
    for group in &summary.groups {
        page.blank();
        write_group(&mut page, group);
    }
    page.into_text()
}

fn write_group(page: &mut TextPage, group: &GroupSummary) {
    let hosts = &group.group.hosts;
    page.heading(&format!("Group {}: {}", group.group.name, count(hosts.len(), "host")));
    page.paragraph(2, 2, &host_list(hosts));
    let hardware = group.group.facts.iter().filter(|fact| fact.kind == FactKind::Hardware);
    for Fact { name, value, .. } in hardware {
        page.paragraph(2, 4, &format!("{}: {}", short(name), short(value)));
    }
    write_differences(page, &group.differences, hosts.len());
    for classes in &group.classes {
        let ranks = classes.classes.iter().map(|nodes| format!("{{{nodes}}}")).collect::<Vec<_>>();
        let text = format!("{} of node {}: {}", short(&classes.quantity), classes.target, ranks.join(" > "));
        page.paragraph(2, 4, &format!("classes of {text}"));
    }
    if group.figures.iter().any(|figure| !figure.values.is_empty()) {
        page.blank();
        host_table(page, group);
    }
    if !group.figures.is_empty() {
        page.blank();
        figure_table(page, &group.figures, hosts.len());
    }
}

/// Writes the facts in which hosts of a group differ.
fn write_differences(page: &mut TextPage, differences: &[FactDifference], hosts: usize) {
    for difference in differences {
        let Fact { name, value, .. } = &difference.fact;
        let others = difference
            .others
            .iter()
            .map(|variant| format!("{} on {}", named(&variant.value), host_list(&variant.hosts)));
        let text = format!(
            "{} differs: {} on {} of {hosts}; {}",
            short(name),
            named(value),
            difference.hosts,
            others.collect::<Vec<_>>().join("; ")
        );
        page.paragraph(2, 4, &text);
    }
}

/// Maximum number of figures of a table; the JSON document has all.
const MOST_FIGURES: usize = 64;

fn figure_table(page: &mut TextPage, figures: &[GroupFigure], hosts: usize) {
    let columns = [
        ("QUANTITY", Align::Left),
        ("NODES", Align::Left),
        ("MEDIAN", Align::Right),
        ("LOWEST %", Align::Right),
        ("HIGHEST %", Align::Right),
        ("HOSTS", Align::Right),
    ];
    let style = *page.style();
    let mut table = Table::new(columns).shrink_first("QUANTITY");
    for figure in figures.iter().take(MOST_FIGURES) {
        table.row([
            quantity(&figure.key).into(),
            nodes(&figure.key).into(),
            with_unit(&figure.key, figure.median, &style).into(),
            percent_from(figure.low, figure.median).into(),
            percent_from(figure.high, figure.median).into(),
            if figure.count as usize == hosts { String::new() } else { figure.count.to_string() }.into(),
        ]);
    }
    page.table(2, &table.without_empty_columns());
    if let Some(more) = figures.len().checked_sub(MOST_FIGURES).filter(|more| *more > 0) {
        page.paragraph(2, 2, &format!("{more} more figures: --json"));
    }
}

/// Maximum number of hosts of a table.
const MOST_HOSTS: usize = 200;

/// Writes a row for each host: for each quantity the worst deviation of its figures from the
/// group's medians, worst host first.
fn host_table(page: &mut TextPage, group: &GroupSummary) {
    let mut quantities: BTreeMap<String, Vec<&GroupFigure>> = BTreeMap::new();
    for figure in &group.figures {
        quantities.entry(quantity(&figure.key)).or_default().push(figure);
    }
    let worst = |figures: &[&GroupFigure], host: usize| -> Option<f64> {
        let badness = |figure: &&GroupFigure| {
            let value = (*figure.values.get(host)?)?;
            let change = value / figure.median - 1.0;
            change.is_finite().then_some(if figure.key.more_is_better { change } else { -change })
        };
        figures.iter().filter_map(badness).min_by(f64::total_cmp)
    };
    let mut rows: Vec<(f64, &String, Vec<Option<f64>>)> = Vec::new();
    for (index, host) in group.group.hosts.iter().enumerate() {
        let each: Vec<Option<f64>> = quantities.values().map(|figures| worst(figures, index)).collect();
        let least = each.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        rows.push((least, host, each));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    page.paragraph(2, 4, "Worst figure of each host, in percent of the group's median (negative is worse):");
    let columns = std::iter::once(("HOST".to_owned(), Align::Left))
        .chain(quantities.keys().map(|quantity| (quantity.to_uppercase(), Align::Right)));
    let mut table = Table::new(columns).shrink_first("HOST");
    for (_, host, each) in rows.iter().take(MOST_HOSTS) {
        let percent = |change: &Option<f64>| change.map_or(String::new(), |by| percent_from(1.0 + by, 1.0));
        let cells = std::iter::once(short(host)).chain(each.iter().map(percent));
        table.row(cells.map(Into::into));
    }
    page.table(2, &table);
    if let Some(more) = rows.len().checked_sub(MOST_HOSTS).filter(|more| *more > 0) {
        page.paragraph(2, 2, &format!("{more} better hosts: --json"));
    }
}
