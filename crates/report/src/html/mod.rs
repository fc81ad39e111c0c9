//! Formats a report as one self-contained HTML file: no network access, light and dark, printable,
//! accessible.

mod bars;
mod comparison;
mod curves;
mod device_marks;
mod figures;
mod io;
mod latency;
mod machine;
mod matrix;
mod method;
mod model;
mod page;
mod stream;
mod summary;
mod sweep;
mod targets;

use crate::bundle::{Bundle, MachineDocuments};
use crate::phrases;
use crate::style::clean;
use maud::{html, Markup, PreEscaped, DOCTYPE};
use numaio_machine::units::BandwidthUnit;
use page::HtmlPage;
use serde_json::Value;
use std::collections::BTreeSet;

/// The page's script and its hash in the policy, which blocks any other script (CSP Level 3,
/// 6.7.3).
///
/// Compute the hash with `openssl dgst -sha256 -binary page.js | base64`.
const SCRIPT: &str = include_str!("page.js");
const SCRIPT_HASH: &str = "sha256-yDnlE8O9Q5wjsmy1bCOcgtwzu/SEhzsr7TF6O1QGE8E=";

/// Formats a bundle as one HTML file without external resources. Bandwidths are in `unit`.
///
/// A table accompanies each chart. All values, with interval, n and drift, are also embedded as
/// JSON (`script` element `data`), in the displayed unit and rounded to six digits.
pub fn html(bundle: &Bundle, unit: BandwidthUnit) -> String {
    let several = bundle.machines.len() > 1;
    let mut page = HtmlPage::new(unit, if several { 2 } else { 1 });
    let machines = html! {
        @for (machine, name) in named(bundle) { (write_machine(&mut page, machine, &name, several)) }
    };
    let title = match bundle.machines.as_slice() {
        [one] => format!("{}: I/O bandwidth report", name(one)),
        several => format!("I/O bandwidth report of {}", phrases::count(several.len(), "machine")),
    };
    document(PageParts {
        title: &title,
        kind: "I/O bandwidth report",
        style: include_str!("page.css"),
        script: SCRIPT,
        script_hash: SCRIPT_HASH,
        contents: page.contents(),
        main: html! {
            @if several { h1 { (title) } }
            (machines)
        },
        footer: html! {
            "numaio " (env!("CARGO_PKG_VERSION")) ". Bandwidth counts each copied byte once; 1 GB is 10"
            sup { "9" } " bytes. Method: Li, Ren, Yu, Jin: Characterization of Input/Output Bandwidth "
            "Performance Models in NUMA Architecture for Data Intensive Applications, ICPP 2013."
        },
        data: &page.data(),
    })
}

/// The parts that differ between pages.
pub(crate) struct PageParts<'a> {
    pub(crate) title: &'a str,
    /// The kind of page, beside the name of the program.
    pub(crate) kind: &'a str,
    pub(crate) style: &'a str,
    pub(crate) script: &'a str,
    /// Hash of the script in the policy.
    pub(crate) script_hash: &'a str,
    /// The table of contents.
    pub(crate) contents: Markup,
    pub(crate) main: Markup,
    pub(crate) footer: Markup,
    /// The data of the script.
    pub(crate) data: &'a Value,
}

/// Writes a self-contained page.
pub(crate) fn document(parts: PageParts<'_>) -> String {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&parts))
            body {
                a.skip href="#main" { "Skip to the report" }
                header.bar {
                    p.brand { "numaio " span { (parts.kind) } }
                    (color_choice())
                }
                div.page {
                    (parts.contents)
                    main id="main" { (parts.main) }
                }
                footer { (parts.footer) }
                script id="data" type="application/json" { (embedded(parts.data)) }
                script { (PreEscaped(parts.script)) }
            }
        }
    };
    without_marks(&document.into_string())
}

/// Returns JSON for a script element, escaped so that no `<` can end the element.
///
/// See the HTML Standard, 4.12.1.3.
fn embedded(json: &Value) -> Markup {
    let json = json.to_string();
    PreEscaped(json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"))
}

/// Removes marks that could change how the page is read or displayed; see [`crate::style::clean`].
fn without_marks(page: &str) -> String {
    page.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// Writes the head of a page, with a policy that permits one script and nothing from elsewhere.
fn head(parts: &PageParts<'_>) -> Markup {
    let policy = include_str!("policy.txt").trim().replace("SCRIPT", parts.script_hash);
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content={ "numaio " (env!("CARGO_PKG_VERSION")) };
            title { (parts.title) }
            style { (PreEscaped(parts.style)) }
        }
    }
}

/// Writes the selector of the color scheme, which works with CSS alone.
fn color_choice() -> Markup {
    html! {
        fieldset.colors {
            legend { "Colors" }
            @for (id, name) in [("auto", "Auto"), ("light", "Light"), ("dark", "Dark")] {
                label { input type="radio" name="colors" id={ "colors-" (id) } checked[id == "auto"]; (name) }
            }
        }
    }
}

fn name(machine: &MachineDocuments) -> String {
    machine
        .identity()
        .map_or_else(|| format!("Machine {}", phrases::short(&machine.fingerprint)), phrases::machine_name)
}

/// Returns the machines with their names, and with their fingerprints if names are equal.
fn named(bundle: &Bundle) -> impl Iterator<Item = (&MachineDocuments, String)> {
    let names: Vec<String> = bundle.machines.iter().map(name).collect();
    bundle.machines.iter().enumerate().map(move |(index, machine)| {
        let name = &names[index];
        let same_name = names.iter().filter(|other| *other == name).count();
        let named = match same_name {
            1 => name.clone(),
            _ => format!("{name}, {}", phrases::short(&machine.fingerprint)),
        };
        (machine, named)
    })
}

fn write_machine(page: &mut HtmlPage, machine: &MachineDocuments, name: &str, listed: bool) -> Markup {
    let id = if listed { page.section_id(0, name) } else { page.id("machine") };
    page.device_nodes = device_nodes(machine);
    let mut sections = vec![];
    if machine.models.iter().any(|model| !model.targets.is_empty()) {
        sections.push(summary::write(page, &machine.models));
    }
    if let Some(topology) = &machine.topology {
        sections.push(machine::findings(page, topology));
        sections.push(machine::write(page, machine, topology));
    }
    sections.extend(machine.models.iter().map(|it| model::write(page, it)));
    sections.extend(machine.streams.iter().map(|it| stream::write(page, it)));
    sections.extend(machine.sweeps.iter().map(|it| sweep::write(page, it)));
    sections.extend(machine.latencies.iter().map(|it| latency::write(page, it)));
    sections.extend(machine.ios.iter().map(|it| io::write(page, it)));
    sections.extend(machine.aggregates.iter().map(|it| io::write_aggregate(page, it)));
    sections.extend(machine.pings.iter().map(|it| io::write_pings(page, it)));
    sections.extend(machine.mmios.iter().map(|it| io::write_mmio(page, it)));
    if !machine.comparisons.is_empty() || !machine.views.is_empty() {
        sections.push(comparison::write(page, &machine.comparisons, &machine.views));
    }
    sections.extend(methods(page, machine));
    html! {
        article.machine aria-labelledby=(id) {
            (page.heading(0, &id, name))
            (machine::lead(machine))
            (method::banners(&machine.provenances(), machine.is_incomplete()))
            @for section in sections { (section) }
        }
    }
}

/// Returns the nodes with devices that move data, from the topology and the models.
fn device_nodes(machine: &MachineDocuments) -> BTreeSet<u32> {
    let devices = machine.topology.iter().flat_map(|topology| &topology.devices);
    let of_topology = devices.filter(|device| device.moves_data()).filter_map(|device| device.locality.node);
    let targets = machine.models.iter().flat_map(|model| &model.targets);
    let of_models = targets.filter(|target| !target.devices.is_empty()).map(|target| target.target);
    of_topology.chain(of_models).map(|node| node.0).collect()
}

/// Writes the methods of all measurements, if there are any.
fn methods(page: &mut HtmlPage, machine: &MachineDocuments) -> Option<Markup> {
    let provenances = machine.provenances();
    (!provenances.is_empty())
        .then(|| page.section(1, "Method and settings", |page| method_sections(page, machine)))
}

fn method_sections(page: &mut HtmlPage, machine: &MachineDocuments) -> Markup {
    html! {
        p.how {
            "A value is the median of its visits (n), each with fresh buffers, in rounds of random order. The 95 % "
            "interval of the median is from order statistics for six or more visits; for fewer, from Student's t with "
            "the pooled noise of all cells. Drift is the ratio of later to earlier visits, minus one."
        }
        @for model in &machine.models {
            (method::write(page, "Copy model", (machine, &model.record.provenance), &method::copy_settings(model)))
        }
        @for stream in &machine.streams {
            (method::write(page, "STREAM", (machine, &stream.provenance), &method::stream_settings(stream)))
        }
        @for sweep in &machine.sweeps {
            (method::write(page, &sweep.method.name, (machine, &sweep.provenance), &method::sweep_settings(sweep)))
        }
        @for latency in &machine.latencies {
            (method::write(page, "Latency", (machine, &latency.provenance), &method::latency_settings(latency)))
        }
        @for io in &machine.ios {
            (method::write(page, &format!("I/O of {}", io.device.name), (machine, &io.provenance), &method::io_settings(io)))
        }
        @for it in &machine.aggregates {
            (method::write(page, &format!("I/O of {}", it.names()), (machine, &it.provenance), &method::aggregate_settings(it)))
        }
        @for ping in &machine.pings {
            (method::write(page, &format!("Latency of {}", ping.device.name), (machine, &ping.provenance), &method::ping_settings(ping)))
        }
        @for mmio in &machine.mmios {
            (method::write(page, &format!("MMIO reads of {}", mmio.device.name), (machine, &mmio.provenance), &method::mmio_settings(mmio)))
        }
    }
}
