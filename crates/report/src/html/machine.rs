//! The sections of the machine: nodes, devices, distances and findings.

use super::device_marks::DeviceMarks;
use super::figures::MANY;
use super::matrix::table_style;
use super::page::HtmlPage;
use crate::bundle::MachineDocuments;
use crate::device_matrix::{legend, short_form};
use crate::expectation_text::{self, COLUMNS};
use crate::phrases::{self, count, FindingGroup};
use crate::record_header::date;
use crate::subjects;
use crate::svg::{machine_drawing, narrow_machine_drawing, Drawing};
use crate::verdict::verdict;
use maud::{html, Markup, PreEscaped};
use numaio_machine::devices::{Device, DeviceMatrix};
use numaio_machine::topology::{Distances, Topology};
use numaio_machine::units::format_size;
use numaio_schema::MachineExpectation;

/// The maximum number of devices in the table, which limits the size of the page.
const MOST_DEVICES: usize = 300;
/// The maximum number of findings.
const MOST_FINDINGS: usize = 100;
/// The number of findings shown unfolded.
const MAX_UNFOLDED: usize = 8;
/// Drawings wider than this, in pixels, are not shrunk to the page.
const WIDE: i32 = 1600;
/// Maximum height of a drawing for narrow screens, in pixels. Taller ones are harder to read than
/// the usual drawing, which scrolls.
const TALL: i32 = 6000;

/// Writes fingerprint, kind and size below the machine's name.
pub(super) fn lead(machine: &MachineDocuments) -> Markup {
    html! {
        p.lead { "Fingerprint " code { (phrases::short(&machine.fingerprint)) } }
        @if let Some(identity) = machine.identity() { p.lead { (phrases::machine_kind(identity)) } }
        @if let Some(topology) = &machine.topology {
            p.lead {
                (phrases::machine_size(topology))
                @if let Some(seconds) = machine.observed_at { ", as of " (date(seconds)) }
            }
            @if let Some(verdict) = verdict(topology, &machine.expected) { p.lead { (verdict) } }
        }
    }
}

/// Writes the drawing, the tables of nodes and devices, and the distances.
pub(super) fn write(page: &mut HtmlPage, machine: &MachineDocuments, topology: &Topology) -> Markup {
    let name = phrases::machine_name(&topology.identity);
    let table = page.id("nodes");
    let drawing = machine_drawing(topology);
    let narrow = Some(narrow_machine_drawing(topology)).filter(|narrow| narrow.height <= TALL);
    let class = match (drawing.width > WIDE, narrow.is_some()) {
        (false, false) => "",
        (false, true) => "broad",
        (true, false) => "wide",
        (true, true) => "broad wide",
    };
    let label = format!("NUMA topology of {name}: {}", phrases::machine_size(topology));
    let content = html! {
        figure {
            div.scroll.drawing role="region" aria-label="Drawing of the machine" tabindex="0" {
                (image(drawing, class, &label, &table))
                @if let Some(narrow) = narrow { (image(narrow, "narrow", &label, &table)) }
            }
            details {
                summary { "Nodes and devices as tables" }
                (nodes(topology, &table))
                (devices(page, topology))
            }
        }
        (expected_bandwidth(page, &machine.expected))
        @if let Some(matrix) = DeviceMatrix::new(topology) { (device_matrix(&matrix)) }
        @if let Some(distances) = topology.distances.as_ref().filter(|distances| distances.nodes.len() > 1) {
            (distance_matrix(page, distances))
        }
    };
    page.section(1, "Machine", |_| content)
}

/// Writes a drawing that the style sheet shows at some widths; `table` is the id of its table.
fn image(drawing: Drawing, class: &str, label: &str, table: &str) -> Markup {
    let Drawing { elements, width, height } = drawing;
    html! {
        svg.numaio.(class) width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) }
            style={ "--width:" (width) } role="img" aria-label=(label) aria-describedby=(table) { (PreEscaped(elements)) }
    }
}

fn nodes(topology: &Topology, id: &str) -> Markup {
    html! {
        div.scroll role="region" aria-label="Nodes" tabindex="0" {
            table id=(id) {
                caption { "Nodes" }
                thead { tr {
                    @for title in ["Node", "Package", "CPUs", "Last-level cache", "Memory", "Free", "Devices", "Note"] {
                        th scope="col" { (title) }
                    }
                } }
                tbody {
                    @for node in &topology.nodes {
                        tr {
                            th scope="row" { (node.id) }
                            td { (phrases::joined(node.packages.iter().map(ToString::to_string), ", ")) }
                            td { (node.cpus) }
                            td { (phrases::last_cache(topology, &node.cpus)) }
                            td { @if let Some(memory) = node.memory { (format_size(memory.total_bytes)) } }
                            td { @if let Some(memory) = node.memory { (format_size(memory.free_bytes)) } }
                            td { (phrases::joined(topology.devices_on(node.id).take(24).map(phrases::device_name), ", ")) }
                            td { (phrases::node_notes(node).join(", ")) }
                        }
                    }
                }
            }
        }
    }
}

/// Writes what the devices can transfer, and what nodes cost them.
fn expected_bandwidth(page: &HtmlPage, expected: &MachineExpectation) -> Markup {
    let rows = expectation_text::rows(expected, page.unit);
    html! {
        @if !rows.is_empty() {
            div.scroll role="region" aria-label="Bandwidth of devices" tabindex="0" {
                table {
                    caption { "Devices: bandwidth in " (page.unit) ", and what nodes cost" }
                    thead { tr { @for title in COLUMNS { th scope="col" { (title) } } } }
                    tbody {
                        @for [device, more @ ..] in rows.iter().take(MOST_DEVICES) {
                            tr { th scope="row" { (device) } @for text in more { td { (text) } } }
                        }
                    }
                }
            }
            @for sentence in expectation_text::at_once(expected) { p.how { (sentence) } }
        }
    }
}

fn devices(page: &HtmlPage, topology: &Topology) -> Markup {
    let devices: Vec<&Device> = topology.devices.iter().filter(|device| device.moves_data()).collect();
    html! {
        @if !devices.is_empty() {
            div.scroll role="region" aria-label="Devices" tabindex="0" {
                table {
                    caption { "Devices that move data" }
                    thead { tr {
                        @for title in ["Device", "Node", "Kind", "PCI", "Driver", "Link (of maximum)", "Model"] {
                            th scope="col" { (title) }
                        }
                    } }
                    tbody { @for device in devices.iter().take(MOST_DEVICES) { (device_row(page, device)) } }
                }
            }
            @if devices.len() > MOST_DEVICES {
                p.how { "and " (count(devices.len() - MOST_DEVICES, "more device")) "." }
            }
        }
    }
}

fn device_row(page: &HtmlPage, device: &Device) -> Markup {
    let node = device.locality.node.map_or("unknown".to_owned(), |node| node.to_string());
    let node = phrases::joined([node.as_str(), phrases::locality_source(device)], "; ");
    html! {
        tr {
            th scope="row" { (phrases::device_name(device)) }
            td { (node) }
            td { (device.kind.name()) }
            td { @if let Some(pci) = device.pci { (pci.to_string()) } }
            td { (device.driver.as_deref().map(phrases::short).unwrap_or_default()) }
            td { @if let Some(link) = &device.link { (phrases::link(link, page.unit)) } }
            td { (phrases::short(&device.model)) }
        }
    }
}

/// Writes what each two devices share, folded.
fn device_matrix(matrix: &DeviceMatrix) -> Markup {
    let names: Vec<String> = matrix.devices.iter().map(|name| phrases::short(name)).collect();
    html! {
        details {
            summary { "What each two devices share" }
            div.scroll role="region" aria-label="Device matrix" tabindex="0" {
                table.small[names.len() > MANY] {
                    caption {
                        @for (index, (short, meaning)) in legend(matrix).enumerate() {
                            @if index > 0 { "; " }
                            (short) ": " (meaning)
                        }
                    }
                    thead { tr { th scope="col" { "Device" } @for name in &names { th scope="col" { (name) } } } }
                    tbody {
                        @for (name, row) in names.iter().zip(&matrix.rows) {
                            tr { th scope="row" { (name) } @for shared in row { td { (short_form(*shared)) } } }
                        }
                    }
                }
            }
        }
    }
}

/// Writes the distances, which are stated, not measured, and have no intervals.
fn distance_matrix(page: &HtmlPage, distances: &Distances) -> Markup {
    let columns: Vec<u32> = distances.nodes.iter().map(|node| node.0).collect();
    let marks = DeviceMarks::new(&columns, &page.device_nodes);
    let farthest = distances.rows.iter().flatten().copied().max().unwrap_or(10).max(11);
    let step = |distance: u32| (distance.saturating_sub(10) * 9).div_ceil(farthest - 10).min(9);
    html! {
        details open[distances.nodes.len() <= 16] {
            summary { "Distances reported by firmware (SLIT)" }
            div.scroll role="region" aria-label="Distances" tabindex="0" {
                table.heat.small[distances.nodes.len() > MANY] style=(table_style(columns.len(), 3.0, &marks)) {
                    caption { "From the row's node to the column's node; 10 is local; no unit. " (marks.legend()) }
                    thead { tr {
                        th.corner scope="col" { "From\u{a0}↓" br; "to\u{a0}→" }
                        @for node in &columns { th class=[marks.class(*node)] scope="col" { (node) } }
                    } }
                    tbody {
                        @for (node, row) in columns.iter().zip(&distances.rows) {
                            tr.m[marks.contains(*node)] {
                                th scope="row" { (node) }
                                @for (column, distance) in columns.iter().zip(row) {
                                    td class=(cell_class(step(*distance), marks.cell_class(*column))) { (distance) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cell_class(step: u32, mark: Option<&str>) -> String {
    mark.map_or_else(|| format!("h{step}"), |mark| format!("h{step} {mark}"))
}

/// Writes the findings with evidence and remedy, most severe first, the rest folded.
pub(super) fn findings(page: &mut HtmlPage, topology: &Topology) -> Markup {
    let findings = phrases::group_findings(&topology.findings);
    let shown = &findings[..findings.len().min(MOST_FINDINGS)];
    let (first, more) = shown.split_at(shown.len().min(MAX_UNFOLDED));
    page.section(1, "Findings", |_| {
        html! {
            @if findings.is_empty() { p { "No problems found." } }
            ul.findings { @for finding in first { (finding_item(finding)) } }
            @if !more.is_empty() {
                details {
                    summary { (count(more.len(), "more finding")) }
                    ul.findings { @for finding in more { (finding_item(finding)) } }
                }
            }
            @if findings.len() > shown.len() {
                p.how { "and " (count(findings.len() - shown.len(), "more finding")) "." }
            }
        }
    })
}

fn finding_item(finding: &FindingGroup) -> Markup {
    let severity = phrases::severity(finding.severity);
    let evidence = phrases::joined(finding.evidence.iter().take(24), "; ");
    html! {
        li.(severity) {
            p {
                span.badge { (severity) } " "
                strong { (subjects::joined(&finding.subjects)) ": " } (finding.what)
                " " code { (finding.rule) }
            }
            dl {
                @if !evidence.is_empty() { dt { "Evidence" } dd { (evidence) } }
                @if !finding.remedy.trim().is_empty() { dt { "Remedy" } dd { (finding.remedy) } }
            }
        }
    }
}
