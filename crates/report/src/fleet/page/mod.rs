//! Formats a fleet as one self-contained HTML file: groups, hosts with findings, and a heat map of
//! hosts and figures.
//!
//! Texts and tables need no script. The heat map does: a page of 10,000 hosts has millions of
//! cells, which are one character each in the page's data.

mod cells;
mod contents;
mod findings;
mod history;

use super::check_text::verdict_line;
use super::names::hardware;
use crate::html::{self, PageParts};
use crate::phrases::count;
use crate::record_header::{date, percent};
use crate::style::short;
use cells::MapData;
pub use contents::FleetPage;
use maud::{html, Markup};
use numaio_schema::{FleetCheck, FleetGroup};
use std::collections::HashMap;

/// The page's script and its hash in the policy; see `html::SCRIPT_HASH`.
const SCRIPT: &str = include_str!("page.js");
const SCRIPT_HASH: &str = "sha256-40A+ag4arU7/Yy+wI756ivn6hEqx/+W0RQKcq8v9Dw4=";
/// Most groups in the table.
const MOST_GROUPS: usize = 200;

/// Formats a fleet as one HTML file without external resources.
///
/// With more than 2.8 million cells the heat map omits the figures that deviate least, so that the
/// page stays below 5 MB.
pub fn fleet_html(fleet: &FleetPage<'_>) -> String {
    let hosts: usize = fleet.check.groups.iter().map(|group| group.hosts.len()).sum();
    let title = format!("Fleet of {}", count(hosts, "host"));
    let data = MapData::new(fleet);
    html::document(PageParts {
        title: &title,
        kind: "Fleet report",
        style: concat!(include_str!("../../html/page.css"), include_str!("page.css")),
        script: SCRIPT,
        script_hash: SCRIPT_HASH,
        contents: table_of_contents(fleet),
        main: html! {
            h1 { (title) }
            p.lead { (verdict_line(fleet.check)) }
            (scope(fleet.check))
            article.fleet {
                (groups(fleet.check))
                (findings::section(fleet))
                (heat_map(&data))
                (undecided(fleet.check))
            }
        },
        footer: html! {
            "numaio " (env!("CARGO_PKG_VERSION")) ". Deviations are from the median of like hosts; negative is "
            "worse, whatever the unit."
        },
        data: &data.json(),
    })
}

fn table_of_contents(fleet: &FleetPage<'_>) -> Markup {
    html! {
        nav aria-label="Contents" {
            ol {
                li.t1 { a href="#groups" { "Groups" } }
                li.t1 { a href="#findings" { "Hosts with findings" } }
                @if !fleet.maps.is_empty() { li.t1 { a href="#map" { "Heat map" } } }
                @if !fleet.check.undecided.is_empty() { li.t1 { a href="#undecided" { "Not decided" } } }
            }
        }
    }
}

/// States what was compared, and how reliable it is.
fn scope(check: &FleetCheck) -> Markup {
    html! {
        p.how {
            "Compared: " (count(check.compared_figures as usize, "figure")) " of "
            (count(check.compared_hosts as usize, "host"))
            @if let Some(newest) = check.newest { ", newest of " (date(newest)) }
            ". Deviations of at least " (percent(check.options.least)) " % count. Of the hosts reported for figures, at most "
            (percent(check.options.false_discovery_rate)) " % are expected to be healthy."
        }
    }
}

/// Writes the groups, with the number of hosts that have findings.
fn groups(check: &FleetCheck) -> Markup {
    let mut found: HashMap<&str, usize> = HashMap::new();
    for host in check.hosts.iter().filter(|host| host.has_findings()) {
        *found.entry(host.group.as_str()).or_default() += 1;
    }
    let more = check.groups.len().saturating_sub(MOST_GROUPS);
    html! {
        section aria-labelledby="groups" {
            h2 id="groups" { "Groups of like hosts" }
            p.how {
                "Hosts of one group have the same hardware, and most have the same structure. Smaller deviations than the "
                "stated ones cannot be found in a group of this size and noise."
            }
            div.scroll {
                table.groups {
                    thead {
                        tr {
                            th { "Group" } th.number { "Hosts" } th.number { "With findings" } th { "Hardware" }
                            th.number { "Detectable, host" } th.number { "Detectable, figure" } th.number { "Moved" }
                        }
                    }
                    tbody {
                        @for group in check.groups.iter().take(MOST_GROUPS) {
                            (group_row(group, found.get(group.name.as_str()).copied().unwrap_or(0)))
                        }
                    }
                }
            }
            @if more > 0 { p.how { "And " (count(more, "smaller group")) "." } }
        }
    }
}

fn group_row(group: &FleetGroup, found: usize) -> Markup {
    let share = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{} %", percent(share)));
    html! {
        tr {
            th scope="row" { (short(&group.name)) }
            td.number { (group.hosts.len()) }
            td.number.found[found > 0] { (found) }
            td { (hardware(group)) }
            td.number { (share(group.detectable.and_then(|it| it.host))) }
            td.number { (share(group.detectable.and_then(|it| it.figure))) }
            td.number { (share(group.moved.map(|moved| moved.change))) }
        }
    }
}

/// Writes the controls of the heat map; the script draws it.
fn heat_map(data: &MapData) -> Markup {
    if data.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="map" {
            h2 id="map" { "Heat map of hosts and figures" }
            p.how {
                "A row is a host, a column a figure. Orange is worse than the group's median, blue better, in steps of 1 %. "
                "Marks at the left are hosts with findings. Point at a cell to read it; select a host to compare it with "
                "its group."
            }
            @if data.omitted() > 0 {
                p.how { (count(data.omitted(), "figure")) " that deviate least are omitted." }
            }
            noscript { p.banner.incomplete { "The heat map needs JavaScript. The hosts with findings are listed above." } }
            div.controls hidden {
                label { "Group " select id="map-group" { @for (index, name) in data.groups() { option value=(index) { (name) } } } }
                label { "Order " select id="map-order" {
                    option value="findings" { "findings first" } option value="median" { "median deviation" }
                    option value="name" { "name" }
                } }
                label { "Host " input id="map-host" list="map-hosts" autocomplete="off" spellcheck="false"; }
                datalist id="map-hosts" {}
                span.scale aria-hidden="true" { "worse " canvas id="map-scale" width="170" height="12" {} " better" }
            }
            p.probe id="map-probe" aria-live="polite" {}
            div.map id="map-box" tabindex="0" role="img" aria-label="Heat map; the table of hosts with findings has its values" {
                canvas id="map-canvas" {}
            }
            div id="map-detail" {}
        }
    }
}

fn undecided(check: &FleetCheck) -> Markup {
    if check.undecided.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="undecided" {
            h2 id="undecided" { "Not decided" }
            ul { @for line in &check.undecided { li { (short(line)) } } }
        }
    }
}
