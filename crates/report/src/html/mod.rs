//! A page for a browser: one file, no network, light and dark, on paper and for screen readers.

mod bars;
mod comparison;
mod curves;
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

use crate::bundle::{Bundle, MachineDocuments};
use crate::phrases;
use crate::style::clean;
use maud::{html, Markup, PreEscaped, DOCTYPE};
use numaio_machine::units::BandwidthUnit;
use page::HtmlPage;

/// The script of the page, and what the policy says of it: no other script runs, wherever its text came from
/// (Content Security Policy Level 3, 6.7.3). `openssl dgst -sha256 -binary page.js | base64` gives the hash.
const SCRIPT: &str = include_str!("page.js");
const SCRIPT_HASH: &str = "sha256-KKD9TFFgLup0KumSyqIw14ih8DyMmZI4p8nG4f4XHnM=";

/// A report as one HTML file that asks for nothing else. Bandwidths are in `unit`.
///
/// Every chart has its figures in a table; all of them, with interval, n and drift, stand in the page once more
/// as JSON (`script` element `data`), in the unit shown and rounded to six digits.
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
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&title))
            body {
                a.skip href="#main" { "To the report" }
                header.bar {
                    p.brand { "numaio " span { "I/O bandwidth report" } }
                    (color_choice())
                }
                div.page {
                    (page.contents())
                    main id="main" {
                        @if several { h1 { (title) } }
                        (machines)
                    }
                }
                footer {
                    "numaio " (env!("CARGO_PKG_VERSION")) ". Bandwidth counts each byte copied once; 1 GB is 10"
                    sup { "9" } " bytes. Method after Li, Ren, Yu, Jin: Characterization of Input/Output Bandwidth "
                    "Performance Models in NUMA Architecture for Data Intensive Applications, ICPP 2013."
                }
                script id="data" type="application/json" { (page.data()) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    without_marks(&document.into_string())
}

/// No text of a machine may steer how the page is written or read; see [`crate::style::clean`].
fn without_marks(page: &str) -> String {
    page.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

fn head(title: &str) -> Markup {
    let policy = include_str!("policy.txt").trim().replace("SCRIPT", SCRIPT_HASH);
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content={ "numaio " (env!("CARGO_PKG_VERSION")) };
            title { (title) }
            style { (PreEscaped(include_str!("page.css"))) }
        }
    }
}

/// The choice between light and dark; it works by style alone.
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

/// Machines and their names; those of one name with their fingerprints.
fn named(bundle: &Bundle) -> impl Iterator<Item = (&MachineDocuments, String)> {
    let names: Vec<String> = bundle.machines.iter().map(name).collect();
    bundle.machines.iter().enumerate().map(move |(index, machine)| {
        let name = &names[index];
        let alike = names.iter().filter(|other| *other == name).count();
        let named = match alike {
            1 => name.clone(),
            _ => format!("{name}, {}", phrases::short(&machine.fingerprint)),
        };
        (machine, named)
    })
}

fn write_machine(page: &mut HtmlPage, machine: &MachineDocuments, name: &str, listed: bool) -> Markup {
    let id = if listed { page.section_id(0, name) } else { page.id("machine") };
    let mut parts = vec![];
    if machine.models.iter().any(|model| !model.targets.is_empty()) {
        parts.push(summary::write(page, &machine.models));
    }
    if let Some(topology) = &machine.topology {
        parts.push(machine::findings(page, topology));
        parts.push(machine::write(page, topology));
    }
    parts.extend(machine.models.iter().map(|it| model::write(page, it)));
    parts.extend(machine.streams.iter().map(|it| stream::write(page, it)));
    parts.extend(machine.latencies.iter().map(|it| latency::write(page, it)));
    parts.extend(machine.ios.iter().map(|it| io::write(page, it)));
    if !machine.comparisons.is_empty() || !machine.views.is_empty() {
        parts.push(comparison::write(page, &machine.comparisons, &machine.views));
    }
    parts.extend(methods(page, machine));
    html! {
        article.machine aria-labelledby=(id) {
            (page.heading(0, &id, name))
            (machine::lead(machine))
            (method::banners(&machine.provenances(), machine.is_incomplete()))
            @for part in parts { (part) }
        }
    }
}

/// How everything was measured; nothing where nothing was.
fn methods(page: &mut HtmlPage, machine: &MachineDocuments) -> Option<Markup> {
    let provenances = machine.provenances();
    (!provenances.is_empty())
        .then(|| page.section(1, "Method and settings", |page| method_of_each(page, machine)))
}

fn method_of_each(page: &mut HtmlPage, machine: &MachineDocuments) -> Markup {
    html! {
        p.how {
            "A figure is the median of its visits (n), each with fresh buffers, in rounds of random order. Its 95 % "
            "interval is that of the median: by order statistics from six visits on, and below that by Student's t "
            "with the noise of all cells together. Drift is later over earlier visits, less one."
        }
        @for model in &machine.models {
            (method::write(page, "Copy model", (machine, &model.record.provenance), &method::copy_settings(model)))
        }
        @for stream in &machine.streams {
            (method::write(page, "STREAM", (machine, &stream.provenance), &method::stream_settings(stream)))
        }
        @for latency in &machine.latencies {
            (method::write(page, "Latency", (machine, &latency.provenance), &method::latency_settings(latency)))
        }
        @for io in &machine.ios {
            (method::write(page, &format!("I/O of {}", io.device.name), (machine, &io.provenance), &method::io_settings(io)))
        }
    }
}
