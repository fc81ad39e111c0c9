//! The latency section: a matrix of CPU nodes and memory nodes, and charts of latency under load.

use super::curves::{self, Curve};
use super::figures::{plus_minus, signed_percent, Figure, Grid};
use super::matrix;
use super::method;
use super::page::HtmlPage;
use super::stream::AXES;
use crate::number_format::{greatest, NumberFormat};
use crate::phrases::count;
use crate::record_header::date_and_load;
use maud::{html, Markup};
use numaio_machine::ids::NodeId;
use numaio_schema::{LatencyRecord, LoadPoint, LoadedCurve};
use std::collections::BTreeSet;

/// The maximum number of curves in a chart, and of charts.
const MOST_CURVES: usize = 6;
const MOST_CHARTS: usize = 12;

pub(super) fn write(page: &mut HtmlPage, latency: &LatencyRecord) -> Markup {
    page.section(1, "Latency", |page| {
        html! {
            p.how { "Measured " (date_and_load(&latency.provenance, page.unit)) "." }
            (method::warnings(&latency.provenance.warnings))
            @if !latency.cells.is_empty() { (idle(page, latency)) }
            (loaded(page, &latency.curves))
        }
    })
}

fn idle(page: &mut HtmlPage, latency: &LatencyRecord) -> Markup {
    let readings = latency.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node, &cell.ns_per_load));
    let pairs: Vec<_> =
        readings.clone().map(|(cpu, memory, reading)| (cpu, memory, Figure::reading(reading))).collect();
    let grid = Grid::of_pairs(
        page.id("latency"),
        "Idle latency".to_owned(),
        |most| NumberFormat::nanoseconds([most]),
        &pairs,
    );
    let caption =
        "Idle latency, ns per load: one thread on the row's node follows pointers in memory of the column's node";
    html! {
        (matrix::write(page, &grid, &AXES, caption))
        (matrix::missing_notes(readings))
    }
}

fn loaded(page: &mut HtmlPage, curves: &[LoadedCurve]) -> Markup {
    let nodes: BTreeSet<NodeId> = curves.iter().map(|curve| curve.cpu_node).collect();
    let mut charts = Vec::new();
    for node in nodes {
        let of_node: Vec<&LoadedCurve> = curves.iter().filter(|curve| curve.cpu_node == node).collect();
        charts.extend(of_node.chunks(MOST_CURVES).map(<[&LoadedCurve]>::to_vec));
    }
    let left_out: usize = charts.iter().skip(MOST_CHARTS).map(Vec::len).sum();
    html! {
        @if !curves.is_empty() {
            (heading(page))
            div.pair { @for chart in charts.iter().take(MOST_CHARTS) { (chart_of(page, chart)) } }
        }
        @if left_out > 0 { p.how { (count(left_out, "more curve")) " in the documents (use --format json)." } }
    }
}

fn heading(page: &mut HtmlPage) -> Markup {
    let id = page.section_id(2, "Latency under load");
    page.heading(2, &id, "Latency under load")
}

fn chart_of(page: &mut HtmlPage, curves: &[&LoadedCurve]) -> Markup {
    let loads = curves.iter().flat_map(|curve| &curve.points);
    let most = greatest(loads.filter_map(|point| Some(point.load_bytes_read_per_s.as_ref()?.median)));
    let bandwidth = NumberFormat::bandwidth(page.unit, [most]);
    let times = curves.iter().flat_map(|curve| &curve.points).filter_map(|point| point.ns_per_load.median());
    let time = NumberFormat::nanoseconds(times);
    let id = page.id("loaded");
    for curve in curves {
        add_curve(page, curve, &bandwidth, &time);
    }
    let drawn: Vec<Curve> = curves.iter().map(|curve| drawn(curve, &bandwidth, &time)).collect();
    let Some(node) = curves.first().map(|curve| curve.cpu_node) else { return html! {} };
    let label = format!(
        "Latency against bandwidth for threads on node {node}, a curve for each memory node. The values are in \
         the table below."
    );
    html! {
        figure {
            figcaption {
                strong { "Threads on node " (node) } " "
                span.dim { "one thread follows pointers while the others read the same memory" }
            }
            (curves::write(&drawn, bandwidth.unit(), &label, &id))
            details {
                summary { "Values" }
                div.scroll role="region" aria-label="Values" tabindex="0" {
                    table id=(id) {
                        caption { "Latency under load, threads on node " (node) }
                        thead { tr {
                            @for title in ["Memory node", "Gap, ns", "Load, GB/s", "Load ±", "Latency, ns", "±", "n", "Drift"] {
                                th scope="col" { (title.replace("GB/s", bandwidth.unit())) }
                            }
                        } }
                        tbody { @for curve in curves { @for point in &curve.points {
                            (row(curve.memory_node, point, &bandwidth, &time))
                        } } }
                    }
                }
            }
        }
    }
}

/// Adds a curve to the page's data as two grids of one row: loads and latencies; the columns are
/// the gaps.
fn add_curve(page: &mut HtmlPage, curve: &LoadedCurve, bandwidth: &NumberFormat, time: &NumberFormat) {
    let path = format!("from node {} to node {}", curve.cpu_node, curve.memory_node);
    let load =
        |point: &LoadPoint| point.load_bytes_read_per_s.as_ref().map(|it| Figure::from_summary(it, true));
    let of = |id: String,
              what: String,
              scale: &NumberFormat,
              figure: &dyn Fn(&LoadPoint) -> Option<Figure>| Grid {
        id,
        what,
        scale: *scale,
        rows: vec![curve.memory_node.0],
        columns: curve.points.iter().map(|point| point.gap_ns).collect(),
        cells: curve.points.iter().map(figure).collect(),
    };
    let (first, second) = (page.id("load"), page.id("load"));
    page.add_grid(&of(first, format!("load {path}"), bandwidth, &load));
    page.add_grid(&of(second, format!("latency {path}"), time, &|point| Figure::reading(&point.ns_per_load)));
}

fn drawn(curve: &LoadedCurve, bandwidth: &NumberFormat, time: &NumberFormat) -> Curve {
    let locality = if curve.cpu_node == curve.memory_node { ", local" } else { "" };
    let point = |point: &LoadPoint| {
        let load = point.load_bytes_read_per_s.as_ref()?.median;
        let figure = Figure::reading(&point.ns_per_load)?;
        let tooltip =
            format!("{} {} at {}", bandwidth.format(load), bandwidth.unit(), figure.description(time));
        Some((bandwidth.number(load), time.number(figure.value), tooltip))
    };
    Curve {
        label: format!("memory {}{locality}", curve.memory_node),
        points: curve.points.iter().filter_map(point).collect(),
    }
}

fn row(node: NodeId, point: &LoadPoint, bandwidth: &NumberFormat, time: &NumberFormat) -> Markup {
    let load = point.load_bytes_read_per_s.as_ref().map(|summary| Figure::from_summary(summary, true));
    let latency = Figure::reading(&point.ns_per_load);
    html! {
        tr {
            th scope="row" { (node) }
            td.number { (point.gap_ns) }
            @match load {
                Some(load) => {
                    td.number { (bandwidth.format(load.value)) }
                    td.number { (plus_minus(load.half_width())) }
                }
                None => { td { "–" } td {} }
            }
            @match latency {
                Some(latency) => {
                    td.number { (time.format(latency.value)) }
                    td.number { (plus_minus(latency.half_width())) }
                    td.number { (latency.n) }
                    td.number { (signed_percent(latency.drift)) }
                }
                None => { td { "–" } td {} td {} td { (point.ns_per_load.failure.as_deref().unwrap_or_default()) } }
            }
        }
    }
}
