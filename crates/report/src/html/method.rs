//! Where figures come from: source, conditions, doubts, and how it was measured.

use super::page::HtmlPage;
use crate::bundle::MachineDocuments;
use crate::io_text;
use crate::model_text::header::{conditions, date, loop_name, percent};
use crate::phrases::{self, count};
use maud::{html, Markup};
use numaio_machine::ids::NodeId;
use numaio_machine::units::size_for_people;
use numaio_machine::workload::Pages;
use numaio_schema::{
    IoRecord, LatencyRecord, MachineSource, Method, Model, Provenance, Reading, Rounds, StreamRecord,
    StreamScope,
};
use std::collections::BTreeSet;

/// Name and value of a setting.
type Setting = (&'static str, String);

/// What stands above everything else of a machine: that it is no real machine, or not all was measured.
pub(super) fn banners(provenances: &[&Provenance], incomplete: bool) -> Markup {
    let mut sources: Vec<&MachineSource> = Vec::new();
    for provenance in provenances {
        if !sources.contains(&&provenance.source) {
            sources.push(&provenance.source);
        }
    }
    html! {
        @for source in sources {
            @match source {
                MachineSource::Live => {},
                MachineSource::Tape { name, note } => p.banner.tape {
                    strong { "From the tape " (phrases::short(name)) ". " } (note)
                },
                MachineSource::Simulated => p.banner.tape {
                    strong { "Simulated. " } "These figures are of no real machine."
                },
            }
        }
        @if incomplete {
            p.banner.incomplete {
                strong { "Incomplete. " }
                "Not every figure that was asked for is there and settled; figures that are not are marked."
            }
        }
    }
}

/// What a measurement warns of, beside its figures.
pub(super) fn warnings(warnings: &[numaio_schema::Warning]) -> Markup {
    html! {
        @if !warnings.is_empty() {
            ul.warnings {
                @for warning in warnings {
                    li { strong { "Warning: " } (warning.what) " " code { (warning.rule) } }
                }
            }
        }
    }
}

/// How one document's figures were measured, and in what conditions.
pub(super) fn write(
    page: &mut HtmlPage,
    title: &str,
    (machine, provenance): (&MachineDocuments, &Provenance),
    settings: &[Setting],
) -> Markup {
    let (before, after) = &provenance.conditions;
    let (before, after) = (conditions(before), conditions(after));
    let source = match &provenance.source {
        MachineSource::Live => "this machine, live".to_owned(),
        MachineSource::Tape { name, .. } => format!("the tape {name}"),
        MachineSource::Simulated => "a simulation".to_owned(),
    };
    let host = machine.other_host(provenance).map(|host| format!(", as host {}", phrases::short(host)));
    let id = page.id("method");
    html! {
        (page.heading(2, &id, title))
        dl.settings {
            div { dt { "Measured" } dd { (date(provenance.measured_at)) " on " (source) (host.unwrap_or_default()) ", by numaio " (provenance.numaio) } }
            @if before == after && !before.is_empty() {
                div { dt { "Conditions" } dd { (before) } }
            } @else if before != after {
                div { dt { "Conditions before" } dd { (before) } }
                div { dt { "Conditions after" } dd { (after) } }
            }
            div { dt { "Complete" } dd { (if provenance.complete { "yes" } else { "no" }) } }
            @for (name, value) in settings.iter().filter(|(_, value)| !value.is_empty()) {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// Settings of a campaign of copies.
pub(super) fn copy_settings(model: &Model) -> Vec<Setting> {
    let method = &model.record.method;
    let Method { trials, bytes_per_thread, pages, repetitions, .. } = method;
    let trials = trials.iter().map(|trial| match trial.bytes_copied_per_s {
        Some(speed) => {
            let name = loop_name(method, trial.copy_loop);
            format!("{name} {}", phrases::bandwidth(speed, Default::default()))
        }
        None => format!("{} not here", trial.copy_loop),
    });
    let trials = phrases::joined(trials, ", ");
    let chosen = if trials.is_empty() { "chosen by the user".to_owned() } else { format!("trial: {trials}") };
    let cells = &model.record.cells;
    let visits = cells.iter().flat_map(|cell| &cell.visits);
    let set_aside = visits.clone().filter(|visit| visit.set_aside.is_some()).count();
    let threads: BTreeSet<usize> = cells.iter().map(|cell| cell.placement.cpus.len()).collect();
    vec![
        ("Copy loop", format!("{} ({chosen})", loop_name(method, method.copy_loop))),
        ("Threads on the target", range(threads)),
        ("Source, and again sink, of a thread", sizes(bytes_per_thread)),
        ("Pages", pages_name(*pages).to_owned()),
        (
            "Bandwidth",
            format!(
                "counts each byte copied once; the memory bus carries at most {} bytes for it",
                method.bus_bytes_per_byte
            ),
        ),
        (
            "Ends",
            match repetitions {
                Some(times) => {
                    format!("after {}, as Algorithm 1 is printed", count(*times as usize, "repetition"))
                }
                None => ends(method.precision, method.time_limit_s),
            },
        ),
        ("Rounds", method.rounds.to_string()),
        ("Visits", visits_text(visits.count(), set_aside)),
        ("Time on the machine", format!("{:.0} s", method.elapsed_s)),
        ("Seed of the order", method.seed.to_string()),
    ]
}

/// Settings of STREAM.
pub(super) fn stream_settings(stream: &StreamRecord) -> Vec<Setting> {
    let method = &stream.method;
    let loops = method.loops.iter().map(|(op, stream_loop)| format!("{op} by {stream_loop}"));
    let trials = method.trials.iter().map(|trial| match trial.bytes_per_s {
        Some(speed) => {
            format!("{} {} {}", trial.op, trial.stream_loop, phrases::bandwidth(speed, Default::default()))
        }
        None => format!("{} {} not here", trial.op, trial.stream_loop),
    });
    let threads = match method.scope {
        StreamScope::Node { threads: None } => "one on each core of the CPU node".to_owned(),
        StreamScope::Node { threads: Some(threads) } => threads.to_string(),
        StreamScope::HardwareThreads => "one on each hardware thread of the CPU node".to_owned(),
        StreamScope::Core => "each core alone".to_owned(),
    };
    let mut settings = vec![
        ("Loops", phrases::joined(loops, ", ")),
        ("Trial of loops", phrases::joined(trials, ", ")),
        ("Threads", threads),
        ("Array of a thread", sizes(&method.bytes_per_array)),
        ("Pages", pages_name(method.pages).to_owned()),
        (
            "Bandwidth",
            "as STREAM counts: bytes read and written, without what write-allocate adds".to_owned(),
        ),
    ];
    let readings = stream.cells.iter().map(|cell| &cell.bytes_per_s);
    settings.extend(round_settings(&method.rounds, readings));
    settings
}

/// Settings of latency.
pub(super) fn latency_settings(latency: &LatencyRecord) -> Vec<Setting> {
    let method = &latency.method;
    let mut settings = vec![
        (
            "Chain",
            format!(
                "a single random cycle through the buffer, {} from place to place",
                size_for_people(u64::from(method.stride_bytes))
            ),
        ),
        ("Buffer", sizes(&method.bytes)),
        ("Pages", pages_name(method.pages).to_owned()),
    ];
    let idle = latency.cells.iter().map(|cell| &cell.ns_per_load);
    let points = latency.curves.iter().flat_map(|curve| &curve.points);
    let readings = idle.chain(points.map(|point| &point.ns_per_load));
    settings.extend(round_settings(&method.rounds, readings));
    settings
}

/// Settings of measured I/O.
pub(super) fn io_settings(io: &IoRecord) -> Vec<Setting> {
    let mut settings =
        vec![("Device", io_text::device_sentence(&io.device)), ("Engine", io_text::method_sentence(io))];
    settings.extend(round_settings(&io.method.rounds, io.cells.iter().map(|cell| &cell.bytes_per_s)));
    settings
}

fn round_settings<'r>(rounds: &Rounds, readings: impl Iterator<Item = &'r Reading> + Clone) -> [Setting; 5] {
    let visits = readings.flat_map(|reading| &reading.visits);
    let set_aside = visits.clone().filter(|visit| visit.set_aside.is_some()).count();
    [
        ("Ends", ends(rounds.precision, rounds.time_limit_s)),
        ("Rounds", rounds.rounds.to_string()),
        ("Visits", visits_text(visits.count(), set_aside)),
        ("Time on the machine", format!("{:.0} s", rounds.elapsed_s)),
        ("Seed of the order", rounds.seed.to_string()),
    ]
}

fn ends(precision: f64, time_limit_s: f64) -> String {
    format!(
        "when the 95 % interval of each median is within ±{} %, or after {time_limit_s:.0} s",
        percent(precision)
    )
}

fn visits_text(visits: usize, set_aside: usize) -> String {
    match set_aside {
        0 => format!("{visits}, none set aside"),
        _ => format!("{visits}, of which {set_aside} set aside, as pages were not where they were bound"),
    }
}

/// A size, or the least and the greatest.
fn sizes(bytes: &[(NodeId, u64)]) -> String {
    let sizes: BTreeSet<u64> = bytes.iter().map(|(_, bytes)| *bytes).collect();
    match (sizes.first(), sizes.last()) {
        (Some(least), Some(most)) if least < most => {
            format!("{} to {}", size_for_people(*least), size_for_people(*most))
        }
        (Some(one), _) => size_for_people(*one),
        _ => String::new(),
    }
}

fn range(numbers: BTreeSet<usize>) -> String {
    match (numbers.first(), numbers.last()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (Some(one), _) => one.to_string(),
        _ => String::new(),
    }
}

fn pages_name(pages: Pages) -> &'static str {
    match pages {
        Pages::Base => "base pages",
        Pages::Transparent => "transparent huge pages",
        Pages::Huge => "reserved huge pages",
    }
}
