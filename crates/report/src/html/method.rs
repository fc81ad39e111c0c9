//! Sources, conditions, warnings and settings of the measurements.

use super::page::HtmlPage;
use crate::bundle::MachineDocuments;
use crate::io_text;
use crate::phrases::{self, count};
use crate::record_header::{conditions, date, load, loop_name, percent};
use crate::sheets;
use crate::sweep_text;
use maud::{html, Markup};
use numaio_machine::ids::NodeId;
use numaio_machine::units::format_size;
use numaio_machine::workload::Pages;
use numaio_schema::{
    AggregateRecord, IoRecord, LatencyRecord, MachineSource, Method, MmioRecord, Model, PingRecord,
    Provenance, Reading, Rounds, StreamRecord, StreamScope, SweepRecord,
};
use std::collections::BTreeSet;

/// Name and value of a setting.
type Setting = (&'static str, String);

/// Writes the banners above a machine's sections: not measured on a live machine, or incomplete.
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
                    strong { "Simulated. " } "These values are not from a real machine."
                },
            }
        }
        @if incomplete {
            p.banner.incomplete {
                strong { "Incomplete. " }
                "Some requested values are missing or unsettled; they are marked."
            }
        }
    }
}

/// Writes the warnings of a measurement.
pub(super) fn warnings(warnings: &[numaio_schema::Warning]) -> Markup {
    html! {
        @if !warnings.is_empty() {
            ul.warnings {
                @for warning in warnings {
                    li { strong { "Warning: " } (warning.message) " " code { (warning.rule) } }
                }
            }
        }
    }
}

/// Writes the settings and conditions of one measurement.
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
            @if !provenance.load.is_empty() {
                div { dt { "Load" } dd { (load(provenance, page.unit)) } }
            }
            div { dt { "Complete" } dd { (if provenance.complete { "yes" } else { "no" }) } }
            @for (name, value) in settings.iter().filter(|(_, value)| !value.is_empty()) {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// Returns the settings of a copy measurement.
pub(super) fn copy_settings(model: &Model) -> Vec<Setting> {
    let method = &model.record.method;
    let Method { trials, bytes_per_thread, pages, repetitions, .. } = method;
    let trials = trials.iter().map(|trial| match trial.bytes_copied_per_s {
        Some(speed) => {
            let name = loop_name(method, trial.copy_loop);
            format!("{name} {}", phrases::bandwidth(speed, Default::default()))
        }
        None => format!("{} not supported", trial.copy_loop),
    });
    let trials = phrases::joined(trials, ", ");
    let chosen =
        if trials.is_empty() { "set by the user".to_owned() } else { format!("chosen by trial: {trials}") };
    let cells = &model.record.cells;
    let visits = cells.iter().flat_map(|cell| &cell.visits);
    let excluded = visits.clone().filter(|visit| visit.excluded.is_some()).count();
    let threads: BTreeSet<usize> = cells.iter().map(|cell| cell.placement.cpus.len()).collect();
    vec![
        ("Copy loop", format!("{} ({chosen})", loop_name(method, method.copy_loop))),
        ("Threads on the target", range(threads)),
        ("Source and sink buffer per thread", sizes(bytes_per_thread)),
        ("Pages", pages_name(*pages).to_owned()),
        (
            "Bandwidth",
            format!(
                "counts each copied byte once; it causes at most {} bytes of memory traffic",
                method.bus_bytes_per_byte
            ),
        ),
        (
            "Stops",
            match repetitions {
                Some(times) => {
                    format!("after {}, as printed in Algorithm 1", count(*times as usize, "repetition"))
                }
                None => stop_rule(method.precision, method.time_limit_s),
            },
        ),
        ("Rounds", method.rounds.to_string()),
        ("Visits", visits_text(visits.count(), excluded)),
        ("Measurement time", format!("{:.0} s", method.elapsed_s)),
        ("Random seed", method.seed.to_string()),
    ]
}

/// Returns the settings of a STREAM measurement.
pub(super) fn stream_settings(stream: &StreamRecord) -> Vec<Setting> {
    let method = &stream.method;
    let loops = method.loops.iter().map(|(op, stream_loop)| format!("{op} with {stream_loop}"));
    let trials = method.trials.iter().map(|trial| match trial.bytes_per_s {
        Some(speed) => {
            format!("{} {} {}", trial.op, trial.stream_loop, phrases::bandwidth(speed, Default::default()))
        }
        None => format!("{} {} not supported", trial.op, trial.stream_loop),
    });
    let threads = match method.scope {
        StreamScope::Node { threads: None } => "one per core of the CPU node".to_owned(),
        StreamScope::Node { threads: Some(threads) } => threads.to_string(),
        StreamScope::HardwareThreads => "one per hardware thread of the CPU node".to_owned(),
        StreamScope::Core => "one core at a time".to_owned(),
    };
    let mut settings = vec![
        ("Loops", phrases::joined(loops, ", ")),
        ("Loop trial", phrases::joined(trials, ", ")),
        ("Threads", threads),
        ("Array per thread", sizes(&method.bytes_per_array)),
        ("Pages", pages_name(method.pages).to_owned()),
        (
            "Bandwidth",
            "bytes read and written, as STREAM counts them, without write-allocate traffic".to_owned(),
        ),
    ];
    let readings = stream.cells.iter().map(|cell| &cell.bytes_per_s);
    settings.extend(round_settings(&method.rounds, readings));
    settings
}

/// Returns the settings of a sweep.
pub(super) fn sweep_settings(sweep: &SweepRecord) -> Vec<Setting> {
    let method = &sweep.method;
    let builds = method.builds.iter().map(|command| command.join(" "));
    let mut settings = vec![
        (if method.builds.len() > 1 { "Builds" } else { "Command" }, phrases::joined(builds, "; ")),
        ("Figure", sweep_text::figure_phrase(method)),
        ("Binding", sweep_text::binding_phrase(method.scope).to_owned()),
        ("Time limit of a run", format!("{} s", method.run_limit_s)),
    ];
    settings.extend(round_settings(&method.rounds, sweep.cells.iter().map(|cell| &cell.figure)));
    settings
}

/// Returns the settings of a latency measurement.
pub(super) fn latency_settings(latency: &LatencyRecord) -> Vec<Setting> {
    let method = &latency.method;
    let mut settings = vec![
        (
            "Chain",
            format!(
                "one random cycle through the buffer, stride {}",
                format_size(u64::from(method.stride_bytes))
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

/// Returns the settings of measured I/O.
pub(super) fn io_settings(io: &IoRecord) -> Vec<Setting> {
    let mut settings = vec![
        ("Device", io_text::device_sentence(&io.device)),
        ("Engine", io_text::method_sentence(&io.method, &io.cells)),
    ];
    settings.extend(round_settings(&io.method.rounds, io.cells.iter().map(|cell| &cell.bytes_per_s)));
    settings
}

/// Returns the settings of measured I/O of several devices.
pub(super) fn aggregate_settings(record: &AggregateRecord) -> Vec<Setting> {
    let devices = record.devices.iter().map(|device| ("Device", io_text::device_sentence(device)));
    let mut settings: Vec<Setting> = devices.collect();
    settings.push(("Engine", io_text::method_sentence(&record.method, &record.cells)));
    settings.extend(round_settings(&record.method.rounds, record.cells.iter().map(|cell| &cell.bytes_per_s)));
    settings
}

/// Returns the settings of a measurement of network latency.
pub(super) fn ping_settings(ping: &PingRecord) -> Vec<Setting> {
    let mut settings =
        vec![("Device", io_text::device_sentence(&ping.device)), ("Engine", sheets::ping_method(ping))];
    settings.extend(round_settings(&ping.method.rounds, ping.cells.iter().map(|cell| &cell.latency_ns)));
    settings
}

/// Returns the settings of a measurement of reads of a register.
pub(super) fn mmio_settings(mmio: &MmioRecord) -> Vec<Setting> {
    let mut settings = vec![
        ("Device", io_text::device_sentence(&mmio.device)),
        ("Register", sheets::mmio_register(mmio)),
        ("Reads", sheets::mmio_method(mmio)),
    ];
    settings.extend(round_settings(&mmio.method.rounds, mmio.cells.iter().map(|cell| &cell.ns)));
    settings
}

fn round_settings<'r>(rounds: &Rounds, readings: impl Iterator<Item = &'r Reading> + Clone) -> [Setting; 5] {
    let visits = readings.flat_map(|reading| &reading.visits);
    let excluded = visits.clone().filter(|visit| visit.excluded.is_some()).count();
    [
        ("Stops", stop_rule(rounds.precision, rounds.time_limit_s)),
        ("Rounds", rounds.rounds.to_string()),
        ("Visits", visits_text(visits.count(), excluded)),
        ("Measurement time", format!("{:.0} s", rounds.elapsed_s)),
        ("Random seed", rounds.seed.to_string()),
    ]
}

fn stop_rule(precision: f64, time_limit_s: f64) -> String {
    format!(
        "when each median's 95 % interval is within ±{} %, or after {time_limit_s:.0} s",
        percent(precision)
    )
}

fn visits_text(visits: usize, excluded: usize) -> String {
    match excluded {
        0 => format!("{visits}, none discarded"),
        _ => format!("{visits}, {excluded} of them discarded because pages were not on the bound node"),
    }
}

/// Formats a size, or the range of sizes.
fn sizes(bytes: &[(NodeId, u64)]) -> String {
    let sizes: BTreeSet<u64> = bytes.iter().map(|(_, bytes)| *bytes).collect();
    match (sizes.first(), sizes.last()) {
        (Some(least), Some(most)) if least < most => {
            format!("{} to {}", format_size(*least), format_size(*most))
        }
        (Some(one), _) => format_size(*one),
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
