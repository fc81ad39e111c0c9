//! The hosts with findings, each with its differences, figures and history.

use super::contents::FleetPage;
use super::history::sparkline;
use crate::fleet::check_text::{difference, sentence};
use crate::fleet::{nodes, quantity, with_unit};
use crate::phrases::count;
use crate::style::{short, TextStyle};
use maud::{html, Markup};
use numaio_schema::{
    ComparedWith, FactDeviation, FactKind, FigureDeviation, FindingKind, HostCheck, HostHistory,
};
use std::collections::HashMap;

/// Most hosts that are described; the heat map marks all.
const MOST_HOSTS: usize = 300;
/// Hosts that are unfolded at first.
const UNFOLDED: usize = 5;
/// Most figures of a host, and of a difference.
const MOST_FIGURES: usize = 12;

/// Writes the hosts with findings.
pub(super) fn section(fleet: &FleetPage<'_>) -> Markup {
    let found: Vec<&HostCheck> = fleet.check.hosts.iter().filter(|host| host.has_findings()).collect();
    let histories: HashMap<&str, &HostHistory> =
        fleet.histories.iter().map(|history| (history.host.as_str(), history)).collect();
    let more = found.len().saturating_sub(MOST_HOSTS);
    html! {
        section aria-labelledby="findings" {
            h2 id="findings" { "Hosts with findings" }
            @if found.is_empty() { p { "No host deviates." } }
            @for (index, host) in found.iter().take(MOST_HOSTS).enumerate() {
                (write_host(fleet, host, histories.get(host.host.as_str()).copied(), index < UNFOLDED))
            }
            @if more > 0 {
                p.how { "And " (count(more, "more host")) ": numaio fleet check --json lists all, and the heat map marks them." }
            }
        }
    }
}

fn write_host(
    fleet: &FleetPage<'_>,
    host: &HostCheck,
    history: Option<&HostHistory>,
    unfolded: bool,
) -> Markup {
    let (structure, settings): (Vec<_>, Vec<_>) =
        host.facts.iter().partition(|fact| fact.fact.kind != FactKind::Setting);
    let (kind, severity) = match host.gravest() {
        Some(FindingKind::Structure) => ("structure", "problem"),
        Some(FindingKind::Figures) => ("figures", "problem"),
        Some(FindingKind::Setting) | None => ("setting", "warning"),
    };
    html! {
        details.host open[unfolded] {
            summary {
                strong { (short(&host.host)) } " "
                span class={ "badge " (severity) } { (kind) }
                span.dim { " group " (short(&host.group)) }
            }
            ul.findings {
                @for fact in structure { (write_fact(fleet, fact, "problem")) }
                @for fact in settings { (write_fact(fleet, fact, "warning")) }
                @for summary in &host.summaries { li.problem { p { (sentence(summary)) } } }
            }
            (figures(fleet, &host.figures, host.more_figures))
            @if let Some(history) = history { (sparkline(history)) }
        }
    }
}

fn write_fact(fleet: &FleetPage<'_>, fact: &FactDeviation, severity: &str) -> Markup {
    html! {
        li class=(severity) {
            p { (difference(fact)) }
            @if !fact.explains.is_empty() {
                p.how { "explains:" }
                (figures(fleet, &fact.explains, fact.explains_more))
            }
        }
    }
}

fn figures(fleet: &FleetPage<'_>, figures: &[FigureDeviation], beyond: u32) -> Markup {
    if figures.is_empty() {
        return html! {};
    }
    let style = TextStyle { unit: fleet.unit, ..TextStyle::default() };
    let more = figures.len().saturating_sub(MOST_FIGURES) + beyond as usize;
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th { "Figure" } th { "Nodes" } th.number { "Value" } th.number { "Expected" }
                        th.number { "Deviation" } th { "Compared with" }
                    }
                }
                tbody {
                    @for figure in figures.iter().take(MOST_FIGURES) {
                        tr {
                            td { (quantity(&figure.key)) } td { (nodes(&figure.key)) }
                            td.number { (with_unit(&figure.key, figure.value, &style)) }
                            td.number { (with_unit(&figure.key, figure.expected, &style)) }
                            td.number { (format!("{:+.1} %", figure.deviation * 100.0).replace('-', "−")) }
                            td { (compared_with(figure)) }
                        }
                    }
                }
            }
        }
        @if more > 0 { p.how { "And " (count(more, "more figure")) "." } }
    }
}

fn compared_with(figure: &FigureDeviation) -> String {
    let number = figure.compared as usize;
    match figure.against {
        ComparedWith::Group => count(number, "like host"),
        ComparedWith::Past => count(number, "past value"),
    }
}
