//! Formats counted events as text: a row for each pair of nodes and number of threads, scheduling
//! factors, and what was not counted.

use crate::matrix_text::{write_notes, Matrix};
use crate::number_format::NumberFormat;
use crate::phrases::{count, joined};
use crate::record_header;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::counters::{Counter, CounterSource, CounterUnit};
use numaio_machine::ids::NodeId;
use numaio_machine::units::format_significant;
use numaio_schema::{
    CountedSubject, CounterCell, CounterRecord, CounterValue, FactorBasis, SchedulingFactors, WidthSource,
};
use std::collections::{BTreeMap, BTreeSet};

/// Mark of a value that was counted for less than half of the time.
const DOUBTFUL: &str = "~";

/// Formats the record. With `all_counts`, every count is listed with its source.
pub fn counters_text(record: &CounterRecord, all_counts: bool, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    record_header::write(&mut page, "Counted events on", &record.provenance, &[method_sentence(record)]);
    let is_bound = record.cells.iter().any(|cell| cell.cpu_node.is_some());
    if is_bound {
        write_pairs(&mut page, record);
        write_factors(&mut page, &record.factors);
    }
    if all_counts || !is_bound {
        write_counts(&mut page, record, is_bound);
    }
    write_missing(&mut page, record);
    page.into_text()
}

/// How a column is computed from a cell.
enum Column {
    /// Instructions per cycle.
    InstructionsPerCycle,
    /// Share of the cycles in percent.
    ShareOfCycles(Counter),
    /// Events of the first counted counter per KB that was moved, or in millions per run.
    Traffic(&'static [Counter]),
    /// Events per run.
    PerRun(Counter),
}

/// Columns of events: title, and how they are computed. Titles of traffic get a unit.
const COLUMNS: [(&str, Column); 9] = [
    ("IPC", Column::InstructionsPerCycle),
    ("STALL %", Column::ShareOfCycles(Counter::StallCycles)),
    ("MISS", Column::Traffic(&[Counter::LlcLoadMisses])),
    ("REMOTE", Column::Traffic(&[Counter::NodeLoadMisses, Counter::RemoteDramLoads])),
    ("SNOOP", Column::Traffic(&[Counter::SnoopResponses])),
    ("PREFETCH", Column::Traffic(&[Counter::Prefetches])),
    ("FAULTS", Column::PerRun(Counter::PageFaults)),
    ("MIGR", Column::PerRun(Counter::CpuMigrations)),
    ("SWITCH", Column::PerRun(Counter::ContextSwitches)),
];

fn write_pairs(page: &mut TextPage, record: &CounterRecord) {
    let is_program = matches!(record.method.subject, CountedSubject::Program { .. });
    let medians =
        || record.cells.iter().filter_map(|cell| cell.figure.as_ref().and_then(|figure| figure.median()));
    let unit = page.style().unit;
    let bandwidths = NumberFormat::bandwidth(unit, medians());
    page.heading("Events by node of the threads, node of the memory and number of threads");
    let figure_title = if is_program { "s".to_owned() } else { unit.to_string() };
    let mut titles = vec![
        ("CPU NODE".to_owned(), Align::Right),
        ("MEMORY".to_owned(), Align::Right),
        ("THREADS".to_owned(), Align::Right),
        ("PREFETCHERS".to_owned(), Align::Left),
        (figure_title, Align::Right),
        ("TIME".to_owned(), Align::Right),
    ];
    let per = if is_program { " M" } else { "/KB" };
    titles.extend(COLUMNS.iter().map(|(title, column)| {
        let unit = if matches!(column, Column::Traffic(_)) { per } else { "" };
        (format!("{title}{unit}"), Align::Right)
    }));
    let mut table = Table::new(titles);
    let mut is_any_doubtful = false;
    for cell in &record.cells {
        let figure = cell.figure.as_ref().and_then(|figure| figure.median());
        let mut texts = vec![
            node_text(cell.cpu_node),
            node_text(cell.memory_node),
            cell.threads.to_string(),
            cell.prefetchers.map_or("", |on| if on { "on" } else { "off" }).to_owned(),
            figure.map_or_else(
                || "-".to_owned(),
                |value| if is_program { format!("{value:.3}") } else { bandwidths.format(value) },
            ),
            cell.normalized_time.map_or_else(String::new, |time| format!("{time:.2}")),
        ];
        for (_, column) in &COLUMNS {
            let (text, is_doubtful) = column_text(column, cell, is_program);
            is_any_doubtful |= is_doubtful;
            texts.push(text);
        }
        table.row(texts.into_iter().map(Cell::from));
    }
    page.table(2, &table.without_empty_columns());
    page.blank();
    page.paragraph(2, 2, "TIME is relative to the local memory of the CPU node.");
    if is_any_doubtful {
        let text = format!("{DOUBTFUL} marks values that were counted for less than half of the time.");
        page.paragraph(2, 2, &text);
    }
    let name =
        |cell: &CounterCell| format!("node {} on {}", node_text(cell.cpu_node), node_text(cell.memory_node));
    write_notes(page, record.cells.iter().filter_map(|cell| Some((name(cell), cell.figure.as_ref()?))));
}

fn node_text(node: Option<NodeId>) -> String {
    node.map_or_else(|| "-".to_owned(), |node| node.to_string())
}

/// Returns the text of a cell's value, empty if it was not counted, and whether it is doubtful.
fn column_text(column: &Column, cell: &CounterCell, is_program: bool) -> (String, bool) {
    let ratio = |counter, of| Some(cell.value(counter)? / cell.value(of).filter(|of| *of > 0.0)?);
    let (value, decimals, counters): (Option<f64>, usize, Vec<Counter>) = match column {
        Column::InstructionsPerCycle => {
            (ratio(Counter::Instructions, Counter::Cycles), 2, vec![Counter::Instructions, Counter::Cycles])
        }
        Column::ShareOfCycles(counter) => {
            (ratio(*counter, Counter::Cycles).map(|share| share * 100.0), 0, vec![*counter, Counter::Cycles])
        }
        Column::Traffic(of) => match of.iter().find(|counter| cell.value(**counter).is_some()) {
            Some(counter) => (traffic(cell, *counter, is_program), 2, vec![*counter]),
            None => (None, 0, Vec::new()),
        },
        Column::PerRun(counter) => {
            let per_run = |value: f64| value / f64::from(cell.runs.max(1));
            (cell.value(*counter).map(per_run), 0, vec![*counter])
        }
    };
    let is_doubtful = value.is_some() && counters.iter().any(|counter| cell.is_doubtful(*counter));
    let mark = if is_doubtful { DOUBTFUL } else { "" };
    (value.map(|value| format!("{mark}{value:.decimals$}")).unwrap_or_default(), is_doubtful)
}

/// Returns events per KB that was moved, or millions of events per run of a program.
fn traffic(cell: &CounterCell, counter: Counter, is_program: bool) -> Option<f64> {
    let events = cell.value(counter)?;
    if is_program {
        return Some(events / f64::from(cell.runs.max(1)) / 1e6);
    }
    let kilobytes = cell.figure.as_ref()?.median()? * cell.counted_s / 1e3;
    (kilobytes > 0.0).then(|| events / kilobytes)
}

fn write_factors(page: &mut TextPage, factors: &SchedulingFactors) {
    page.heading("NUMA scheduling factor: coherence traffic x latency / bandwidth; lower is better");
    if let Some(basis) = &factors.basis {
        let rows: BTreeSet<NodeId> = factors.pairs.iter().map(|pair| pair.cpu_node).collect();
        let rows: Vec<NodeId> = rows.into_iter().collect();
        let columns: BTreeSet<NodeId> = factors.pairs.iter().map(|pair| pair.memory_node).collect();
        let factor = |row: usize, column: NodeId| {
            let pair =
                factors.pairs.iter().find(|pair| (pair.cpu_node, pair.memory_node) == (rows[row], column));
            (pair.map_or_else(|| "-".to_owned(), |pair| format_significant(pair.factor)), None)
        };
        let matrix = Matrix {
            rows: rows.iter().map(NodeId::to_string).collect(),
            corner: "CPU NODE",
            columns: columns.into_iter().collect(),
            cell: &factor,
        };
        matrix.write(page, 2);
        page.paragraph(2, 2, &basis_sentence(basis));
    }
    if let Some(missing) = &factors.missing {
        page.paragraph(2, 2, &format!("Missing: {missing}."));
    }
}

fn basis_sentence(basis: &FactorBasis) -> String {
    let per = if basis.per_run { "millions per run" } else { "per KB" };
    let width = match basis.width {
        WidthSource::Counted => "the bandwidth of the counted workload in GB/s",
        WidthSource::Stream { .. } => "the saved bandwidth of STREAM copy in GB/s",
    };
    format!("Traffic: {} {per}. Latency: the saved idle latency in ns. Width: {width}.", basis.traffic)
}

fn write_counts(page: &mut TextPage, record: &CounterRecord, is_bound: bool) {
    let scope = if is_bound { "of all runs together" } else { "of the complete time" };
    page.heading(&format!("Counts {scope}; those with a node are of everything that runs on the machine"));
    let mut titles = vec![("CPU NODE", Align::Right), ("MEMORY", Align::Right), ("THREADS", Align::Right)];
    if !is_bound {
        titles.clear();
    }
    titles.extend([
        ("COUNTER", Align::Left),
        ("NODE", Align::Right),
        ("COUNT", Align::Right),
        ("TIME %", Align::Right),
        ("SOURCE", Align::Left),
        ("EVENT", Align::Left),
    ]);
    let mut table = Table::new(titles).shrink_first("EVENT");
    for cell in &record.cells {
        let place = [node_text(cell.cpu_node), node_text(cell.memory_node), cell.threads.to_string()];
        for value in &cell.counts {
            let place = place.iter().filter(|_| is_bound).cloned();
            table.row(place.chain(count_texts(value)).map(Cell::from));
        }
    }
    page.table(2, &table.without_empty_columns());
}

fn count_texts(value: &CounterValue) -> Vec<String> {
    let CounterValue { count, value, share } = value;
    let is_measured = count.enabled_ns > 0;
    vec![
        count.counter.to_string(),
        count.node.map(|node| node.to_string()).unwrap_or_default(),
        match (value, count.counter.unit()) {
            (None, _) => "-".to_owned(),
            (Some(value), CounterUnit::Bytes) => numaio_machine::units::format_size(*value as u64),
            (Some(value), CounterUnit::Events) => format!("{value:.0}"),
        },
        if is_measured { format!("{:.0}", share * 100.0) } else { String::new() },
        count.source.name().to_owned(),
        count.event.clone(),
    ]
}

fn write_missing(page: &mut TextPage, record: &CounterRecord) {
    let mut reasons: BTreeMap<(CounterSource, &str), Vec<&str>> = BTreeMap::new();
    for missing in &record.missing {
        reasons.entry((missing.source, &missing.reason)).or_default().push(missing.counter.name());
    }
    if reasons.is_empty() {
        return;
    }
    page.heading("Not counted");
    for ((source, reason), counters) in reasons {
        page.paragraph(2, 2, &format!("{} ({}): {reason}", counters.join(", "), source.name()));
    }
}

fn method_sentence(record: &CounterRecord) -> String {
    let method = &record.method;
    let subject = match &method.subject {
        CountedSubject::Stream { op, stream_loop } => format!("{} ({stream_loop} loop)", op.title()),
        CountedSubject::Copy { copy_loop } => {
            format!("copy from the memory node to the CPU node (loop {copy_loop})")
        }
        CountedSubject::Program { command } => command.join(" "),
        CountedSubject::Process { pid, name } => format!("process {pid} ({name})"),
    };
    let sizes = method.bytes_per_thread.iter().map(|(_, _, bytes)| *bytes);
    let buffers = record_header::size_range(sizes);
    let buffers = if buffers.is_empty() { buffers } else { format!("buffers of {buffers} per thread") };
    let is_bound = record.cells.iter().any(|cell| cell.cpu_node.is_some());
    let runs = record.cells.iter().map(|cell| cell.runs as usize);
    let rounds = match is_bound {
        true => record_header::rounds_until_precise(method.rounds.rounds, method.rounds.precision),
        false => count(runs.clone().sum(), "run"),
    };
    let visits = if is_bound { record_header::visits_per_cell(runs) } else { String::new() };
    let ended = match (&method.subject, record.cells.iter().find(|cell| cell.ended_early)) {
        (CountedSubject::Process { .. }, Some(cell)) => {
            format!("the process ended after {:.1} s, which were counted", cell.counted_s)
        }
        _ => String::new(),
    };
    let seconds = format!("{:.1} s in total", method.rounds.elapsed_s);
    let modes = "events of the cores are counted in user mode".to_owned();
    joined([subject, buffers, modes, rounds, visits, ended, seconds], "; ")
}
