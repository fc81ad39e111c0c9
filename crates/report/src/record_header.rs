//! The header of a record: machine, source, method, conditions and warnings.

use crate::phrases;
use crate::style::clean;
use crate::text_page::TextPage;
use numaio_machine::calendar::{Day, SECONDS_PER_DAY};
use numaio_machine::conditions::Conditions;
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_machine::workload::{CopyLoop, Pages};
use numaio_schema::{IoEngine, Load, MachineSource, MeasuredLoad, Method, Provenance, Record, Rounds};
use std::collections::BTreeSet;

pub(crate) fn write_model(page: &mut TextPage, record: &Record) {
    let paragraphs = [method(record), bus_traffic(&record.method)];
    write(page, "I/O bandwidth model of", &record.provenance, &paragraphs);
}

/// Writes the header of any record; `what` starts its title line.
pub(crate) fn write(page: &mut TextPage, what: &str, provenance: &Provenance, method: &[String]) {
    let identity = &provenance.machine;
    let machine = phrases::joined([phrases::machine_name(identity), phrases::machine_kind(identity)], ", ");
    page.paragraph(0, 2, &format!("{what} {machine}"));
    page.paragraph(0, 2, &source(provenance));
    for (index, paragraph) in method.iter().enumerate() {
        let title = if index == 0 { "Method: " } else { "" };
        page.paragraph(0, 2, &format!("{title}{paragraph}"));
    }
    if !provenance.load.is_empty() {
        page.paragraph(0, 2, &format!("Load: {}", load(provenance, page.style().unit)));
    }
    let conditions = conditions(&provenance.conditions.0);
    if !conditions.is_empty() {
        page.paragraph(0, 2, &format!("Conditions: {conditions}"));
    }
    if !provenance.complete {
        page.paragraph(0, 2, "INCOMPLETE: some requested values are missing or unsettled.");
    }
    for warning in &provenance.warnings {
        page.paragraph(0, 2, &format!("Warning: {} [{}]", warning.message, warning.rule));
    }
}

/// Describes the load beside a measurement, with the bandwidth that it reached.
pub(crate) fn load(provenance: &Provenance, unit: BandwidthUnit) -> String {
    let describe = |measured: &MeasuredLoad| match &measured.load {
        Load::Stream { cpu_node, threads, memory_node } => {
            let threads = phrases::count(*threads as usize, "STREAM thread");
            let memory = if cpu_node == memory_node {
                String::new()
            } else {
                format!(", memory of node {memory_node}")
            };
            let moved = measured.bytes_per_s.as_ref().map(|moved| phrases::bandwidth(moved.median, unit));
            let moved = moved.map(|moved| format!(" ({moved})")).unwrap_or_default();
            format!("{threads} on node {cpu_node}{memory}{moved}")
        }
        Load::Command { command } => format!("'{}'", clean(command)),
    };
    provenance.load.iter().map(describe).collect::<Vec<String>>().join("; ")
}

/// Returns when a measurement was made, and beside which load.
pub(crate) fn date_and_load(provenance: &Provenance, unit: BandwidthUnit) -> String {
    format!("{}{}", date(provenance.measured_at), beside_load(provenance, unit))
}

/// Returns ` beside` and the load; nothing for an idle machine.
pub(crate) fn beside_load(provenance: &Provenance, unit: BandwidthUnit) -> String {
    if provenance.load.is_empty() {
        return String::new();
    }
    format!(" beside {}", load(provenance, unit))
}

fn source(provenance: &Provenance) -> String {
    let when = date(provenance.measured_at);
    match &provenance.source {
        MachineSource::Live => format!("Measured on this machine, {when}"),
        MachineSource::Tape { name, note } if note.trim().is_empty() => {
            format!("From the tape {name}, recorded {when}")
        }
        MachineSource::Tape { name, note } => format!("From the tape {name}, recorded {when}: {note}"),
        MachineSource::Simulated => "SIMULATED: these values are not from a real machine".to_owned(),
    }
}

/// Describes the method of a copy record.
pub(crate) fn method(record: &Record) -> String {
    let method = &record.method;
    let sampling = match method.repetitions {
        Some(times) => {
            format!(
                "{} of each cell, as printed in Algorithm 1",
                phrases::count(times as usize, "repetition")
            )
        }
        None => rounds_until_precise(method.rounds, method.precision),
    };
    let visits = visits_per_cell(record.cells.iter().map(|cell| cell.visits.len()));
    let ran = method.trials.iter().filter(|trial| trial.bytes_copied_per_s.is_some()).count();
    let trial = loop_trial_note(ran);
    phrases::joined(
        [
            format!("copy loop {}{trial}", loop_name(method, method.copy_loop)),
            threads_and_buffers(record),
            page_kind(method.pages).to_owned(),
            sampling,
            visits,
            format!("{:.0} s in total", method.elapsed_s),
        ],
        "; ",
    )
}

/// Names a copy loop; `memcpy` with its C library.
pub(crate) fn loop_name(method: &Method, copy_loop: CopyLoop) -> String {
    match method.c_library.as_deref().filter(|_| copy_loop == CopyLoop::Memcpy) {
        Some(library) => format!("{copy_loop} of {}", clean(library)),
        None => copy_loop.to_string(),
    }
}

fn threads_and_buffers(record: &Record) -> String {
    let threads: BTreeSet<usize> = record.cells.iter().map(|cell| cell.placement.cpus.len()).collect();
    let threads =
        range(&threads, "thread").map(|threads| format!("{threads} on the target")).unwrap_or_default();
    let buffers = size_range(record.method.bytes_per_thread.iter().map(|(_, bytes)| *bytes));
    if buffers.is_empty() {
        return threads;
    }
    phrases::joined([threads, format!("source and sink of {buffers} per thread")], ", ")
}

fn range(numbers: &BTreeSet<usize>, thing: &str) -> Option<String> {
    let (least, most) = (*numbers.first()?, *numbers.last()?);
    let range = phrases::count(most, thing);
    Some(if least == most { range } else { format!("{least} to {range}") })
}

/// States the number of rounds and the precision at which they stop.
pub(crate) fn rounds_until_precise(rounds: u32, precision: f64) -> String {
    format!(
        "{} until each median's 95 % interval is within ±{} %",
        phrases::count(rounds as usize, "round"),
        percent(precision)
    )
}

/// Describes the method of a measurement between two hosts: engine and version, how, and rounds.
pub(crate) fn network_method(
    (engine, version): (IoEngine, &str),
    how: &str,
    rounds: &Rounds,
    of_cells: impl Iterator<Item = usize>,
) -> String {
    phrases::joined(
        [
            format!("{} {version}", engine.title()),
            how.to_owned(),
            rounds_until_precise(rounds.rounds, rounds.precision),
            visits_per_cell(of_cells),
            format!("{:.0} s in total", rounds.elapsed_s),
        ],
        "; ",
    )
}

/// Formats the number of visits: `2 to 5 visits per cell`; empty without cells.
pub(crate) fn visits_per_cell(of_cells: impl Iterator<Item = usize>) -> String {
    range(&of_cells.collect(), "visit").map(|visits| format!("{visits} per cell")).unwrap_or_default()
}

/// Formats the range of buffer sizes; empty without sizes.
pub(crate) fn size_range(bytes: impl Iterator<Item = u64>) -> String {
    let bytes: BTreeSet<u64> = bytes.collect();
    match (bytes.first(), bytes.last()) {
        (Some(least), Some(most)) if least == most => format_size(*least),
        (Some(least), Some(most)) => format!("{} to {}", format_size(*least), format_size(*most)),
        _ => String::new(),
    }
}

/// States how a loop was chosen: ` (chosen by trial of 3 loops)`; empty without a trial.
pub(crate) fn loop_trial_note(loops: usize) -> String {
    if loops == 0 {
        return String::new();
    }
    format!(" (chosen by trial of {})", phrases::count(loops, "loop"))
}

/// Names the kind of pages.
pub(crate) fn page_kind(pages: Pages) -> &'static str {
    match pages {
        Pages::Base => "base pages",
        Pages::Transparent => "transparent huge pages",
        Pages::Huge => "reserved huge pages",
    }
}

fn bus_traffic(method: &Method) -> String {
    format!(
        "Bandwidth counts each copied byte once; it causes at most {} bytes of memory traffic.",
        method.bus_bytes_per_byte
    )
}

/// Describes the state of the machine; empty if nothing is known.
pub(crate) fn conditions(conditions: &Conditions) -> String {
    let on_off = |name: &str, on: Option<bool>| match on {
        Some(on) => format!("{name} {}", if on { "on" } else { "off" }),
        None => String::new(),
    };
    let governors = match conditions.governors.as_slice() {
        [] => String::new(),
        governors => format!("governor {}", governors.join(", ")),
    };
    let huge = conditions.transparent_huge_pages.as_ref();
    phrases::joined(
        [
            if conditions.virtual_machine { "virtual machine".to_owned() } else { String::new() },
            governors,
            on_off("turbo", conditions.turbo),
            on_off("NUMA balancing", conditions.numa_balancing.map(|mode| mode != 0)),
            on_off("irqbalance", conditions.irqbalance),
            huge.map(|mode| format!("transparent huge pages {mode}")).unwrap_or_default(),
        ],
        ", ",
    )
}

/// Formats a share in percent, with a decimal only if needed.
pub(crate) fn percent(share: f64) -> String {
    let percent = (share * 1000.0).round() / 10.0;
    format!("{percent}")
}

/// Days of the last date that is formatted as it is: later ones are damaged values.
const MAX_DAYS: u64 = 1 << 40;

/// Formats seconds since 1970 as `2026-11-21 03:24 UTC` (proleptic Gregorian calendar).
pub(crate) fn date(seconds: u64) -> String {
    let (days, of_day) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    format!("{} {:02}:{:02} UTC", Day(days.min(MAX_DAYS)), of_day / 3600, of_day / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_date_command() {
        // `date -u -d @SECONDS`
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_795_231_479), "2026-11-21 03:24 UTC");
        assert_eq!(date(4_107_542_399), "2100-02-28 23:59 UTC");
        assert_eq!(date(u64::MAX).len(), date(u64::MAX).trim().len());
    }

    #[test]
    fn percentages_have_at_most_one_decimal() {
        assert_eq!([0.1, 0.02, 0.005, 0.123456].map(percent), ["10", "2", "0.5", "12.3"]);
    }
}
