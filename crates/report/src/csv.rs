//! Formats a report as one CSV table, a row for each figure, in the documents' units.

use crate::bundle::{Bundle, MachineDocuments};
use crate::io_text;
use crate::style::clean;
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::workload::StreamGroup;
use numaio_machine::workload::{Direction, Flow};
use numaio_schema::{
    AggregateRecord, Class, FleetSummary, IoCell, IoMethod, IoRecord, LatencyRecord, MmioCell, MmioRecord,
    Model, PingCell, PingRecord, Provenance, Quantity, Reading, StreamRecord, Summary, SweepRecord, View,
};

/// The column names; cells that do not apply are empty.
const HEAD: [&str; 21] = [
    "machine",
    "host",
    "measured_at",
    "what",
    "series",
    "target",
    "cpu_node",
    "cpus",
    "memory_node",
    "gap_ns",
    "unit",
    "median",
    "low",
    "high",
    "n",
    "min",
    "max",
    "drift",
    "settled",
    "class",
    "failure",
];

/// Formats the figures of a bundle as CSV (RFC 4180), with a header line.
///
/// `what` is `copy`, `stream`, `sweep`, `latency`, `loaded-latency`, `load`, `view`, `io`,
/// `io-aggregate`, `io-part` (a part of a mix, such as one of two directions at once), `ping` or
/// `mmio`.
/// `series` is the direction, operation, view, or name and build of a sweep; for I/O the device,
/// engine, block size and streams; and of measurements under load the load. Bandwidth is in bytes
/// per second, latency in nanoseconds; `low`
/// and `high` are the 95 % interval of the median. The local cell is measured once and listed in
/// both directions.
///
/// Names and failures come from the machine. A text that starts like a spreadsheet formula (`=`,
/// `+`, `-`, `@`) gets a leading apostrophe, which makes it plain text (OWASP, CSV Injection).
///
/// # Errors
/// Returns an error if a row cannot be serialized; writing to memory itself does not fail.
pub fn csv(bundle: &Bundle) -> Result<String, ::csv::Error> {
    // Written explicitly, so that the header of an empty bundle is written too.
    let mut writer = ::csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.write_record(HEAD)?;
    for machine in &bundle.machines {
        for row in rows(machine) {
            writer.serialize(row)?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Formats the groups of a fleet as CSV, a row for each figure of a group, with a header line.
///
/// Values are in `unit`: bytes per second, nanoseconds, or a program's own unit.
///
/// # Errors
/// Returns an error if a row cannot be serialized; writing to memory itself does not fail.
pub fn fleet_csv(summary: &FleetSummary) -> Result<String, ::csv::Error> {
    let mut writer = ::csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.write_record(FLEET_HEAD)?;
    for group in &summary.groups {
        for figure in &group.figures {
            writer.serialize((
                SafeText::new(&group.group.name),
                SafeText::new(&figure.key.quantity),
                SafeText::new(&figure.key.device),
                figure.key.from.map(|node| node.0),
                figure.key.to.map(|node| node.0),
                SafeText::new(&figure.key.unit),
                figure.count,
                (figure.median, figure.low, figure.high),
            ))?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The column names of a fleet.
const FLEET_HEAD: [&str; 10] =
    ["group", "quantity", "device", "from_node", "to_node", "unit", "hosts", "median", "low", "high"];

/// A figure; the fields are the columns.
#[derive(Debug, Clone, Default, serde::Serialize)]
struct CsvRow {
    machine: SafeText,
    host: SafeText,
    measured_at: Option<u64>,
    what: &'static str,
    series: SafeText,
    target: Option<u32>,
    cpu_node: Option<u32>,
    cpus: String,
    memory_node: Option<u32>,
    gap_ns: Option<u32>,
    unit: SafeText,
    median: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    n: Option<u32>,
    min: Option<f64>,
    max: Option<f64>,
    drift: Option<f64>,
    settled: Option<bool>,
    class: Option<u32>,
    failure: SafeText,
}

/// Untrusted text that no spreadsheet interprets as a formula.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[serde(transparent)]
struct SafeText(String);

impl SafeText {
    fn new(text: &str) -> Self {
        let text = clean(text);
        // Full-width forms start a formula too.
        let commands = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
        match text.trim_start().starts_with(commands) {
            true => Self(format!("'{text}")),
            false => Self(text),
        }
    }
}

impl CsvRow {
    fn with(self, summary: Option<&Summary>) -> Self {
        let Some(it) = summary else { return self };
        Self {
            median: Some(it.median),
            low: Some(it.low),
            high: Some(it.high),
            n: Some(it.n),
            min: Some(it.min),
            max: Some(it.max),
            drift: Some(it.drift),
            ..self
        }
    }

    fn reading(self, reading: &Reading) -> Self {
        let failure = SafeText::new(reading.failure.as_deref().unwrap_or_default());
        Self { settled: Some(reading.settled), failure, ..self.with(reading.summary.as_ref()) }
    }
}

fn rows(machine: &MachineDocuments) -> Vec<CsvRow> {
    let host = SafeText::new(&machine.hostname);
    let first = CsvRow { machine: SafeText::new(&machine.fingerprint), host, ..CsvRow::default() };
    let on = |provenance: &Provenance| match machine.other_host(provenance) {
        Some(host) => CsvRow { host: SafeText::new(host), ..first.clone() },
        None => first.clone(),
    };
    let models = machine.models.iter().flat_map(|model| {
        let provenance = &model.record.provenance;
        with_load(copy_rows(model, &on(provenance)), provenance)
    });
    let streams = machine
        .streams
        .iter()
        .flat_map(|record| with_load(stream_rows(record, &on(&record.provenance)), &record.provenance));
    let sweeps = machine.sweeps.iter().flat_map(|record| sweep_rows(record, &on(&record.provenance)));
    let latencies = machine
        .latencies
        .iter()
        .flat_map(|record| with_load(latency_rows(record, &on(&record.provenance)), &record.provenance));
    let views = machine
        .comparisons
        .iter()
        .flat_map(|comparison| comparison.views.iter().map(|view| (Some(comparison.measured_at), view)));
    let views = views.chain(machine.views.iter().map(|view| (None, view)));
    let views =
        views.flat_map(|(measured_at, view)| view_rows(view, &CsvRow { measured_at, ..first.clone() }));
    let ios = machine
        .ios
        .iter()
        .flat_map(|record| with_load(io_rows(record, &on(&record.provenance)), &record.provenance));
    let aggregates = machine
        .aggregates
        .iter()
        .flat_map(|record| with_load(aggregate_rows(record, &on(&record.provenance)), &record.provenance));
    let pings = machine
        .pings
        .iter()
        .flat_map(|record| with_load(ping_rows(record, &on(&record.provenance)), &record.provenance));
    let mmios = machine
        .mmios
        .iter()
        .flat_map(|record| with_load(mmio_rows(record, &on(&record.provenance)), &record.provenance));
    models
        .chain(streams)
        .chain(sweeps)
        .chain(latencies)
        .chain(ios)
        .chain(aggregates)
        .chain(pings)
        .chain(mmios)
        .chain(views)
        .collect()
}

/// Adds the load beside a measurement to the series of its rows.
fn with_load(mut rows: Vec<CsvRow>, provenance: &Provenance) -> Vec<CsvRow> {
    if let Some(label) = provenance.load_label() {
        for row in &mut rows {
            row.series = SafeText::new(&format!("{}, load {label}", row.series.0));
        }
    }
    rows
}

fn copy_rows(model: &Model, first: &CsvRow) -> Vec<CsvRow> {
    let mut lines = Vec::new();
    for target in &model.targets {
        for direction in &target.directions {
            let nodes = direction.nodes.iter().map(|node| node.node).chain(direction.missing.iter());
            for node in nodes {
                let cell =
                    model.record.cell(target.target, Flow::of(direction.direction, target.target, node));
                let Some(cell) = cell else { continue };
                let line = CsvRow {
                    measured_at: Some(model.record.provenance.measured_at),
                    what: "copy",
                    series: SafeText::new(direction_name(direction.direction)),
                    target: Some(target.target.0),
                    cpu_node: Some(target.target.0),
                    cpus: cell.placement.cpus.to_string(),
                    memory_node: Some(node.0),
                    unit: SafeText::new("bytes_copied_per_s"),
                    settled: Some(cell.settled),
                    class: class_of(&direction.classes, node),
                    failure: SafeText::new(cell.failure.as_deref().unwrap_or_default()),
                    ..first.clone()
                };
                lines.push(line.with(cell.bytes_copied_per_s.as_ref()));
            }
        }
    }
    lines
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Write => "write",
        Direction::Read => "read",
    }
}

fn class_of(classes: &[Class], node: NodeId) -> Option<u32> {
    classes.iter().find(|class| class.nodes.contains(node)).map(|class| class.rank)
}

fn stream_rows(record: &StreamRecord, first: &CsvRow) -> Vec<CsvRow> {
    let class = |cell: &numaio_schema::StreamCell| {
        let classes = record.classes.iter().find(|classes| classes.op == cell.op)?;
        let pair = (cell.cpu_node, cell.memory_node);
        classes.classes.iter().find(|class| class.pairs.contains(&pair)).map(|class| class.rank)
    };
    let line = |cell: &numaio_schema::StreamCell| {
        let line = CsvRow {
            measured_at: Some(record.provenance.measured_at),
            what: "stream",
            series: SafeText::new(&cell.op.to_string()),
            cpu_node: Some(cell.cpu_node.0),
            cpus: cell.placement.cpus.to_string(),
            memory_node: Some(cell.memory_node.0),
            unit: SafeText::new("bytes_per_s"),
            class: class(cell),
            ..first.clone()
        };
        line.reading(&cell.bytes_per_s)
    };
    record.cells.iter().map(line).collect()
}

/// Returns a row for each build of each cell; only the best build has a class.
fn sweep_rows(record: &SweepRecord, first: &CsvRow) -> Vec<CsvRow> {
    let method = &record.method;
    let unit = match method.quantity {
        Quantity::BytesPerS => "bytes_per_s",
        _ => method.unit.as_str(),
    };
    let series = |build: u32| match (method.builds.len(), method.builds.get(build as usize)) {
        (2.., Some(command)) => format!("{}: {}", method.name, command.join(" ")),
        _ => method.name.clone(),
    };
    let rows = |(index, cell): (usize, &numaio_schema::SweepCell)| {
        let line = |build: u32, figure: &Reading, class: Option<u32>| {
            let line = CsvRow {
                measured_at: Some(record.provenance.measured_at),
                what: "sweep",
                series: SafeText::new(&series(build)),
                cpu_node: Some(cell.cpu_node.0),
                cpus: cell.placement.cpus.to_string(),
                memory_node: Some(cell.memory_node.0),
                unit: SafeText::new(unit),
                class,
                ..first.clone()
            };
            line.reading(figure)
        };
        let mut lines = vec![line(cell.build, &cell.figure, record.rank(index))];
        lines.extend(cell.other_builds.iter().map(|other| line(other.build, &other.figure, None)));
        lines
    };
    record.cells.iter().enumerate().flat_map(rows).collect()
}

fn latency_rows(record: &LatencyRecord, first: &CsvRow) -> Vec<CsvRow> {
    let first = CsvRow { measured_at: Some(record.provenance.measured_at), ..first.clone() };
    let idle = record.cells.iter().map(|cell| {
        let line = CsvRow {
            what: "latency",
            series: SafeText::new("idle"),
            cpu_node: Some(cell.cpu_node.0),
            cpus: cell.cpu.to_string(),
            memory_node: Some(cell.memory_node.0),
            unit: SafeText::new("ns_per_load"),
            ..first.clone()
        };
        line.reading(&cell.ns_per_load)
    });
    let loaded = record.curves.iter().flat_map(|curve| {
        let first = CsvRow {
            cpu_node: Some(curve.cpu_node.0),
            memory_node: Some(curve.memory_node.0),
            series: SafeText::new("under-load"),
            ..first.clone()
        };
        curve.points.iter().flat_map(move |point| {
            let first = CsvRow { gap_ns: Some(point.gap_ns), ..first.clone() };
            let load = CsvRow {
                what: "load",
                cpus: curve.placement.cpus.to_string(),
                unit: SafeText::new("bytes_read_per_s"),
                ..first.clone()
            };
            let latency = CsvRow {
                what: "loaded-latency",
                cpus: curve.cpu.to_string(),
                unit: SafeText::new("ns_per_load"),
                ..first
            };
            [load.with(point.load_bytes_read_per_s.as_ref()), latency.reading(&point.ns_per_load)]
        })
    });
    idle.chain(loaded).collect()
}

/// Returns the rows of measured I/O. A mix has no single CPU or memory node; its `series` lists
/// them.
fn io_rows(record: &IoRecord, first: &CsvRow) -> Vec<CsvRow> {
    let measured_at = Some(record.provenance.measured_at);
    let target = record.device.node.map(|node| node.0);
    let first = CsvRow { measured_at, what: "io", target, ..first.clone() };
    let device = io_text::device_name(&record.device);
    record.cells.iter().flat_map(|cell| cell_rows(cell, &device, &record.method, &first)).collect()
}

/// Returns the rows of I/O of several devices; `series` has the devices and the placement of each.
fn aggregate_rows(record: &AggregateRecord, first: &CsvRow) -> Vec<CsvRow> {
    let measured_at = Some(record.provenance.measured_at);
    let first = CsvRow { measured_at, what: "io-aggregate", ..first.clone() };
    let of = |group: &StreamGroup| record.devices.get(group.device).map_or("", |device| device.name.as_str());
    let line = |cell: &IoCell| {
        let devices: Vec<&str> = cell.groups.iter().map(of).collect();
        cell_rows(cell, &devices.join(" and "), &record.method, &first)
    };
    record.cells.iter().flat_map(line).collect()
}

/// Returns the row of a cell, and of each part of a mix.
fn cell_rows(cell: &IoCell, devices: &str, method: &IoMethod, first: &CsvRow) -> Vec<CsvRow> {
    let parts = cell.groups.iter().zip(&cell.cpu_nodes).zip(&cell.group_bytes_per_s);
    let part = |((group, cpu_node), bytes_per_s): ((&StreamGroup, &NodeId), &Option<Summary>)| {
        let (groups, cpu_nodes) = (vec![group.clone()], vec![*cpu_node]);
        let summary = bytes_per_s.clone();
        let bytes_per_s = Reading { summary, ..cell.bytes_per_s.clone() };
        let part = IoCell { groups, cpu_nodes, bytes_per_s, ..cell.clone() };
        let row = io_row(&part, devices, method, &CsvRow { what: "io-part", ..first.clone() });
        CsvRow { series: SafeText::new(&format!("{} of {}", row.series.0, io_text::cell_name(cell))), ..row }
    };
    std::iter::once(io_row(cell, devices, method, first)).chain(parts.map(part)).collect()
}

/// Returns the row of a cell; `first` has what the rows of its record share.
fn io_row(cell: &IoCell, devices: &str, method: &IoMethod, first: &CsvRow) -> CsvRow {
    let place = io_text::node_pair(cell);
    let operation = cell.operation.iter().map(|operation| format!("{operation}, "));
    let series = format!(
        "{devices} with {}, {}blocks of {} bytes, {}",
        method.engine.name(),
        operation.collect::<String>(),
        cell.block_bytes,
        io_text::cell_name(cell)
    );
    let cpus = cell.groups.iter().fold(CpuSet::new(), |all, group| all.union(&group.cpus));
    let row = CsvRow {
        series: SafeText::new(&series),
        cpu_node: place.map(|(cpu, _)| cpu.0),
        cpus: cpus.to_string(),
        memory_node: place.map(|(_, memory)| memory.0),
        unit: SafeText::new("bytes_per_s"),
        ..first.clone()
    };
    row.reading(&cell.bytes_per_s)
}

/// Returns the rows of network latency; `series` has the device, engine, size, remote node and
/// striping.
fn ping_rows(record: &PingRecord, first: &CsvRow) -> Vec<CsvRow> {
    let line = |cell: &PingCell| {
        let operation = cell.operation.iter().map(|operation| format!(" {operation}")).collect::<String>();
        let parts: Vec<String> = cell.parts.iter().map(u64::to_string).collect();
        let striped = if parts.is_empty() { String::new() } else { format!(" as {}", parts.join("+")) };
        let series = format!(
            "{} with {}{operation}, {} bytes{striped}, remote node {}",
            io_text::device_name(&record.device),
            record.method.engine.name(),
            cell.message_bytes,
            cell.remote.cpu_nodes
        );
        let line = CsvRow {
            measured_at: Some(record.provenance.measured_at),
            what: "ping",
            series: SafeText::new(&series),
            target: record.device.node.map(|node| node.0),
            cpu_node: Some(cell.cpu_node.0),
            memory_node: Some(cell.memory_node.0),
            unit: SafeText::new("ns"),
            ..first.clone()
        };
        line.reading(&cell.latency_ns)
    };
    record.cells.iter().map(line).collect()
}

/// Returns the rows of reads of a register; `series` has the device and the register.
fn mmio_rows(record: &MmioRecord, first: &CsvRow) -> Vec<CsvRow> {
    let (bar, offset) = (record.bar, record.offset);
    let series = format!("{}, BAR {bar} at {offset:#x}", io_text::device_name(&record.device));
    let line = |cell: &MmioCell| {
        let line = CsvRow {
            measured_at: Some(record.provenance.measured_at),
            what: "mmio",
            series: SafeText::new(&series),
            target: record.device.node.map(|node| node.0),
            cpu_node: Some(cell.cpu_node.0),
            cpus: cell.cpu.to_string(),
            unit: SafeText::new("ns"),
            ..first.clone()
        };
        line.reading(&cell.ns)
    };
    record.cells.iter().map(line).collect()
}

fn view_rows(view: &View, first: &CsvRow) -> Vec<CsvRow> {
    let unit = match view.quantity {
        Quantity::Distance => "distance",
        Quantity::NsPerLoad => "ns_per_load",
        Quantity::Nanoseconds => "ns",
        Quantity::BytesPerS => "bytes_per_s",
        Quantity::Score => "score",
        Quantity::Cost => "cost",
    };
    let line = |node: &numaio_schema::NodeValue| CsvRow {
        what: "view",
        series: SafeText::new(&view.name),
        target: Some(view.target.0),
        memory_node: Some(node.node.0),
        unit: SafeText::new(unit),
        median: Some(node.value),
        low: node.interval.map(|(low, _)| low),
        high: node.interval.map(|(_, high)| high),
        n: Some(node.n),
        drift: Some(node.drift),
        class: view.classes.iter().find(|class| class.nodes.contains(node.node)).map(|class| class.rank),
        ..first.clone()
    };
    view.nodes.iter().map(line).collect()
}
