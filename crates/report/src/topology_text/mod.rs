//! Formats a machine as text.

mod devices;
mod distances;
mod nodes;

use crate::phrases;
use crate::style::{Detail, TextStyle};
use crate::text_page::TextPage;
use crate::verdict;
use numaio_machine::findings::Finding;
use numaio_machine::topology::{Confinement, Topology};
use numaio_machine::units::{format_cpus, format_size};
use numaio_schema::MachineExpectation;

/// Number of lines up to which a page is complete without being requested.
const SCREEN: usize = 50;

/// Formats a machine: nodes, distances, devices, limits of this process, and findings; in brief,
/// only the verdict and a line for each finding. The verdict is by what its devices are `expected`
/// to transfer.
///
/// Bandwidths are those of links, in the unit of `style`; see
/// [`PcieLink::bytes_per_s`](numaio_machine::devices::PcieLink::bytes_per_s).
pub fn topology_text(
    topology: &Topology,
    expected: &MachineExpectation,
    detail: Detail,
    style: &TextStyle,
) -> String {
    if detail == Detail::Screen {
        let complete = topology_text(topology, expected, Detail::Complete, style);
        if complete.lines().count() <= SCREEN {
            return complete;
        }
    }
    let mut page = TextPage::new(style);
    head(&mut page, topology);
    if let Some(verdict) = verdict::verdict(topology, expected) {
        page.paragraph(0, 2, &verdict);
    }
    if detail != Detail::Complete {
        headlines(&mut page, &topology.findings);
    }
    if detail == Detail::Brief {
        return page.into_text();
    }
    nodes::write(&mut page, topology);
    nodes::write_core_kinds(&mut page, topology);
    distances::write(&mut page, topology);
    nodes::write_access(&mut page, topology);
    devices::write(&mut page, topology, detail);
    limits(&mut page, topology);
    match detail {
        Detail::Complete => findings(&mut page, &topology.findings),
        _ => page.heading("Each device, and findings with evidence and remedy: numaio topology --all"),
    }
    page.into_text()
}

fn head(page: &mut TextPage, topology: &Topology) {
    let identity = &topology.identity;
    page.paragraph(
        0,
        2,
        &phrases::joined([phrases::machine_name(identity), phrases::machine_kind(identity)], ", "),
    );
    page.paragraph(0, 2, &phrases::machine_size(topology));
    if let Some(place) = phrases::surroundings(&topology.surroundings) {
        page.paragraph(0, 2, &place);
    }
}

/// Writes the resources that this process, or any process, cannot use.
fn limits(page: &mut TextPage, topology: &Topology) {
    page.heading("Available to this process");
    for sentence in confinement(&topology.confinement) {
        page.paragraph(2, 2, &sentence);
    }
    let isolated = topology.isolated_cpus();
    if !isolated.is_empty() {
        page.paragraph(2, 2, &format!("Isolated CPUs: {isolated}"));
    }
    let offline = topology.cpus.iter().filter(|cpu| !cpu.online).map(|cpu| cpu.id);
    let offline: numaio_machine::set::CpuSet = offline.collect();
    if !offline.is_empty() {
        page.paragraph(2, 2, &format!("Offline CPUs: {offline}"));
    }
    if !topology.offline_nodes.is_empty() {
        page.paragraph(2, 2, &format!("Offline nodes: {}", topology.offline_nodes));
    }
}

fn confinement(confinement: &Confinement) -> Vec<String> {
    let Confinement { cpus, nodes, excluded_cpus, excluded_nodes, .. } = confinement;
    let mut sentences = Vec::new();
    let confined = !excluded_cpus.is_empty() || !excluded_nodes.is_empty();
    if confined {
        sentences.push(format!("CPUs {cpus}; memory of nodes {nodes}"));
        let cpus = if excluded_cpus.is_empty() { String::new() } else { format!("CPUs {excluded_cpus}") };
        let nodes = if excluded_nodes.is_empty() {
            String::new()
        } else {
            format!("memory of nodes {excluded_nodes}")
        };
        sentences.push(format!("Excluded: {}", phrases::joined([cpus, nodes], "; ")));
    } else {
        sentences.push("All online CPUs and all memory nodes".to_owned());
    }
    let quota = confinement.cpu_quota.as_ref().filter(|quota| quota.cpus() < cpus.len() as f64);
    if let Some(quota) = quota {
        sentences.push(format!("CPU time of {} (quota)", format_cpus(quota.cpus())));
    }
    if let Some(bytes) = confinement.memory_limit_bytes {
        sentences.push(format!("Memory limit: {}", format_size(bytes)));
    }
    if confined || quota.is_some() || confinement.memory_limit_bytes.is_some() {
        let by = phrases::joined(&confinement.sources, "; ");
        let group = confinement.cgroup.clone().unwrap_or_default();
        match (by.as_str(), group.as_str()) {
            ("", "") => {}
            ("", group) => sentences.push(format!("Control group {group}")),
            (by, _) => sentences.push(format!("Restricted by {by}")),
        }
    }
    sentences
}

/// Writes a line for each finding.
fn headlines(page: &mut TextPage, findings: &[Finding]) {
    let groups = phrases::group_findings(findings);
    let counts = verdict::counts(groups.iter().map(|group| group.severity));
    page.heading(&format!("Findings: {counts}"));
    for finding in groups {
        page.finding(2, finding.severity, &format!("{} [{}]", finding.sentence(), finding.rule));
    }
}

fn findings(page: &mut TextPage, findings: &[Finding]) {
    if findings.is_empty() {
        page.heading("No problems found.");
        return;
    }
    page.heading("Findings");
    for finding in phrases::group_findings(findings) {
        page.finding(2, finding.severity, &format!("{} [{}]", finding.sentence(), finding.rule));
        for (title, text) in [("evidence", evidence(&finding.evidence)), ("remedy", finding.remedy)] {
            if !text.trim().is_empty() {
                page.paragraph(6, 2, &format!("{title}: {text}"));
            }
        }
    }
}

/// Joins the first evidence of a group, with the number of texts left out.
fn evidence(all: &[String]) -> String {
    const MOST: usize = 4;
    let more = all.len().saturating_sub(MOST);
    // A note that one text is left out would take as much space as the text.
    let shown = if more > 1 { MOST } else { all.len() };
    let text = phrases::joined(&all[..shown], "; ");
    match more {
        0 | 1 => text,
        more => format!("{text}; and {more} more (--json shows all)"),
    }
}
