//! Common options and steps of `numaio bench`: placement of streams, limits, and output.

use crate::commands::measuring::{self, MeasuredMachine};
use crate::failure::Failure;
use crate::load_args::LoadArgs;
use crate::machine::Machine;
use crate::options::{node, percent, seconds, seed, Common, Directions};
use crate::output;
use crate::output::json;
use crate::store::Kind;
use clap::Args;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::units::parse_size;
use numaio_measure::engine::{Engine, Several};
use numaio_measure::io::{self, IoSelection, Matrix, Placements};
use numaio_measure::{AggregateOptions, IoOptions, Rule};
use numaio_model::io_ranks;
use numaio_report::{aggregate_text, io_agreement, io_loads_text, TextStyle};
use numaio_schema::{
    AggregateRecord, ClassRepresentative, Document, IoDevice, IoRecord, Load, MmioRecord, Model, PingRecord,
    Provenance,
};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Records of a measurement.
pub enum BenchRecords {
    /// Bandwidth, a record of each engine.
    Io(Vec<IoRecord>),
    /// Bandwidth of several devices at the same time.
    Aggregate(Box<AggregateRecord>),
    /// Latency.
    Ping(Box<PingRecord>),
    /// Reads of a register.
    Mmio(Box<MmioRecord>),
}

/// Options of the placement of streams.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Where streams run")]
pub struct PlacementArgs {
    /// Direction, named from the device
    #[arg(long, value_name = "DIRECTION", default_value = "both")]
    pub direction: Directions,
    /// Measure both directions at the same time, too: both rates and their sum
    #[arg(long, conflicts_with = "direction")]
    pub duplex: bool,
    /// Numbers of streams, each measured separately
    #[arg(long, value_name = "N,...", default_value = "1,2,4,8,16", value_delimiter = ',', value_parser = streams)]
    pub streams: Vec<u32>,
    /// CPU nodes; without --memory-nodes, buffers are local to them
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = node)]
    pub cpu_nodes: Vec<NodeId>,
    /// Buffer nodes, each combined with every node of --cpu-nodes; default: every node with CPUs
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = node)]
    pub memory_nodes: Vec<NodeId>,
    /// Measure every pair of CPU node and buffer node
    #[arg(long, value_name = "MATRIX", value_parser = ["cpu-memory"])]
    pub matrix: Option<String>,
    /// Measure every node, even if a model provides classes of equal nodes
    #[arg(long)]
    pub exhaustive: bool,
}

/// Options of limits and output.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Measuring and output")]
pub struct BoundsArgs {
    /// Time limit in seconds, for each engine
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub seconds: f64,
    /// Maximum bytes to move, for example 10G, for each engine
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub bytes: Option<u64>,
    /// Measure until the 95 % interval of each median is within this percentage
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent)]
    pub precision: f64,
    /// Length of one visit in milliseconds
    #[arg(long, value_name = "MS", default_value = "500", value_parser = window)]
    pub window: u32,
    /// Seed of the order of visits; default: the time
    #[arg(long, value_name = "N", hide = true, value_parser = seed)]
    pub seed: Option<u64>,
    /// Print the saved document as JSON
    #[arg(long)]
    pub json: bool,
    /// Also write the measurement to FILE as JSON; several engines write FILE-ENGINE
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Do not save the measurement
    #[arg(long)]
    pub no_save: bool,
    #[command(flatten)]
    pub load: LoadArgs,
}

impl PlacementArgs {
    /// Returns the nodes of CPUs and buffers.
    pub fn placements(&self) -> Placements {
        placements(&self.cpu_nodes, &self.memory_nodes, self.matrix.is_some())
    }

    /// Returns the placements of the streams of several devices.
    ///
    /// # Errors
    /// Both directions at once are requested.
    pub fn of_several(&self, io: IoOptions) -> Result<AggregateOptions, Failure> {
        if self.duplex {
            return Err(Failure::usage("several devices are measured in one direction at a time")
                .hint("omit --duplex, or specify one device"));
        }
        Ok(AggregateOptions::new(self.placements(), self.direction.list(), self.streams.clone(), io))
    }

    /// Returns the placements of streams for a device.
    ///
    /// With a saved model of the device's node, one node represents each class, unless options name
    /// nodes or request all, or there is load: it need not slow all nodes of a class.
    pub fn matrix(&self, common: &Common, topology: &Topology, device: &IoDevice, load: &LoadArgs) -> Matrix {
        let places = self.placements();
        let use_classes = places == Placements::Local(NodeSet::new()) && !self.exhaustive && !load.is_given();
        let directions = self.direction.list();
        let represented = match device.node.filter(|_| use_classes) {
            Some(node) => self.represented(common, topology, node),
            None => Vec::new(),
        };
        let (duplex, streams) = (self.duplex, self.streams.clone());
        Matrix { places, directions, duplex, streams, represented }
    }

    fn represented(&self, common: &Common, topology: &Topology, node: NodeId) -> Vec<ClassRepresentative> {
        for path in crate::documents::saved(common, Kind::Model, &topology.identity) {
            let text = crate::input::read_saved(&path).unwrap_or_default();
            let Ok(model) = Model::from_json(&text) else { continue };
            let found = io::one_per_class(&model, node, &io::local_nodes(topology), &self.direction.list());
            if found.iter().any(|class| class.nodes.len() > 1) {
                let message = format!(
                    "measuring one node of each class of the model '{}'; --exhaustive measures all",
                    path.display()
                );
                output::remark(common, &message);
                return found;
            }
        }
        Vec::new()
    }
}

impl BoundsArgs {
    /// Returns the use of a single record.
    pub fn keep(&self) -> KeptRecord<'_> {
        let Self { no_save, output, json, load, .. } = self;
        KeptRecord { no_save: *no_save, output: output.as_deref(), json: *json, load }
    }

    /// Returns the stopping rule of a campaign within these limits.
    pub fn rule(&self, now: u64) -> Rule {
        rule(self.precision, self.seconds, self.seed.unwrap_or(now))
    }

    /// Returns the options of a campaign within these limits.
    pub fn options(&self, matrix: Matrix, now: u64) -> IoOptions {
        IoOptions {
            what: IoSelection::Matrix(matrix),
            window_ms: self.window,
            most_bytes: self.bytes,
            rule: self.rule(now),
            ..IoOptions::default()
        }
    }
}

/// Runs a campaign of each engine with the same options, and shows, writes and saves the records.
///
/// `text` renders the records.
///
/// # Errors
/// An engine measured nothing; the records of the others are saved.
pub fn bench(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    bounds: &BoundsArgs,
    (engines, device, options): (&[Box<dyn Engine>], &IoDevice, &IoOptions),
    text: impl Fn(&[IoRecord]) -> String,
) -> Result<Vec<IoRecord>, Failure> {
    let measure = |engine: &dyn Engine, load: &[Load]| {
        let setting = MeasuredMachine::under(machine, topology, load);
        measuring::measure_io(common, setting, machine.time(), engine, device.clone(), options)
    };
    bench_by(common, machine, topology, bounds, engines, &measure, text)
}

/// Returns the placements of requested nodes; buffers are local unless nodes or all pairs are
/// requested.
pub fn placements(cpu_nodes: &[NodeId], memory_nodes: &[NodeId], all_pairs: bool) -> Placements {
    let set = |nodes: &[NodeId]| nodes.iter().copied().collect::<NodeSet>();
    let (cpu_nodes, memory_nodes) = (set(cpu_nodes), set(memory_nodes));
    match !all_pairs && memory_nodes.is_empty() {
        true => Placements::Local(cpu_nodes),
        false => Placements::Pairs { cpu_nodes, memory_nodes },
    }
}

/// Returns a stopping rule; `precision` in percent.
pub fn rule(precision: f64, seconds: f64, seed: u64) -> Rule {
    Rule { precision, time_limit_s: seconds, seed, ..Rule::default() }
}

/// The use of a single record, and the load beside its measurement.
#[derive(Clone, Copy)]
pub struct KeptRecord<'a> {
    /// Do not save it.
    pub no_save: bool,
    /// File to which it is written, too.
    pub output: Option<&'a Path>,
    /// Print it as JSON.
    pub json: bool,
    /// The load.
    pub load: &'a LoadArgs,
}

impl KeptRecord<'_> {
    /// Writes a record to the requested file, and prints it.
    fn show<T: Serialize>(self, record: &T, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if let Some(path) = self.output {
            output::write(path, &json(record)?)?;
        }
        output::print(&match self.json {
            true => json(record)?,
            false => text(),
        })
    }
}

/// Measures one document beside the requested load, and shows, writes and saves it.
pub fn measure_one<T: Serialize>(
    common: &Common,
    (machine, topology, kind): (&Machine, &Topology, Kind),
    keep: KeptRecord,
    measure: impl FnOnce(MeasuredMachine) -> Result<T, Failure>,
    provenance: impl Fn(&T) -> &Provenance,
    text: impl Fn(&T, &TextStyle) -> String,
) -> Result<T, Failure> {
    let is_saved = measuring::should_save(machine, keep.no_save, kind, &topology.identity.fingerprint)?;
    if let Some(path) = keep.output {
        output::check(path)?;
    }
    let load = keep.load.at_once()?;
    let record = measure(MeasuredMachine::under(machine, topology, &load))?;
    let saved = is_saved.then(|| measuring::save(common, kind, provenance(&record), &record, topology));
    keep.show(&record, || text(&record, &output::style(common)))?;
    saved.transpose()?;
    Ok(record)
}

/// Measures, shows, writes and saves several devices, each alone and all at the same time.
pub fn bench_several(
    common: &Common,
    (machine, topology): (&Machine, &Topology),
    bounds: &BoundsArgs,
    (engine, devices, options): (&Several, Vec<IoDevice>, &AggregateOptions),
    complete: impl FnOnce(&mut AggregateRecord),
) -> Result<BenchRecords, Failure> {
    let measure = |setting: MeasuredMachine| {
        let measured =
            measuring::measure_aggregate(common, setting, machine.time(), engine, devices, options);
        let mut record = measured?;
        complete(&mut record);
        Ok(record)
    };
    let of = (machine, topology, Kind::Aggregate);
    let record =
        measure_one(common, of, bounds.keep(), measure, |record| &record.provenance, aggregate_text)?;
    Ok(BenchRecords::Aggregate(Box::new(record)))
}

/// Shows the measurement of these devices on a tape.
pub fn show_aggregate_on_tape(
    common: &Common,
    machine: &Machine,
    bounds: &BoundsArgs,
    names: &[String],
) -> Result<BenchRecords, Failure> {
    let stored = machine.tape().into_iter().flat_map(|tape| &tape.documents);
    let read = |(document, _): &(serde_json::Value, _)| match Document::from_json(&document.to_string()) {
        Ok(Document::Aggregate(record)) => Some(record),
        _ => None,
    };
    let is_requested = |record: &AggregateRecord| {
        let matches = |(device, name): (&IoDevice, &String)| {
            device.name == *name || device.reached_via.as_ref() == Some(name)
        };
        record.devices.len() == names.len() && record.devices.iter().zip(names).all(matches)
    };
    let record = stored.filter_map(read).find(|record| is_requested(record)).ok_or_else(|| {
        Failure::new(format!("not on the tape: I/O of {} at the same time", names.join(" and ")))
            .hint("numaio record --bench \"disk --file A --file B\" records it")
    })?;
    bounds.keep().show(&record, || aggregate_text(&record, &output::style(common)))?;
    Ok(BenchRecords::Aggregate(record))
}

/// Runs the campaign of an engine under a load.
pub type MeasureIo<'a> = dyn Fn(&dyn Engine, &[Load]) -> Result<IoRecord, Failure> + 'a;

/// Like [`bench`], with campaigns run by `measure`.
///
/// # Errors
/// See [`bench`].
pub fn bench_by(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    bounds: &BoundsArgs,
    engines: &[Box<dyn Engine>],
    measure: &MeasureIo<'_>,
    text: impl Fn(&[IoRecord]) -> String,
) -> Result<Vec<IoRecord>, Failure> {
    let fingerprint = &topology.identity.fingerprint;
    let is_saved = measuring::should_save(machine, bounds.no_save, Kind::Io, fingerprint)?;
    if let Some(path) = &bounds.output {
        output::check(path)?;
    }
    let mut records = Vec::new();
    let mut failed = None;
    let loads = bounds.load.in_turn();
    let runs: Vec<(&[Load], &dyn Engine)> = loads
        .iter()
        .flat_map(|load| engines.iter().map(move |engine| (load.as_slice(), engine.as_ref())))
        .collect();
    for (load, engine) in &runs {
        match measure(*engine, load) {
            Ok(record) => records.push(record),
            Err(failure) if runs.len() > 1 && failed.is_none() => failed = Some(failure),
            Err(failure) => return Err(failed.unwrap_or(failure)),
        }
        if numaio_linux::interrupt::interrupted() {
            break;
        }
    }
    if let Some(failure) = failed {
        output::remark(common, &failure.message);
        if let Some(hint) = &failure.hint {
            output::remark(common, &format!("hint: {hint}"));
        }
    }
    let saved = is_saved.then(|| {
        let save =
            |record: &IoRecord| measuring::save(common, Kind::Io, &record.provenance, record, topology);
        records.iter().try_for_each(save)
    });
    let records = show(bounds, records, text)?;
    saved.transpose()?;
    Ok(records)
}

/// Prints records, and writes them to the requested file.
pub fn show(
    bounds: &BoundsArgs,
    records: Vec<IoRecord>,
    text: impl Fn(&[IoRecord]) -> String,
) -> Result<Vec<IoRecord>, Failure> {
    if let Some(path) = &bounds.output {
        write_all(path, &records)?;
    }
    output::print(&match (bounds.json, records.as_slice()) {
        (true, [record]) => json(record)?,
        (true, records) => json(&records)?,
        (false, records) => text(records),
    })?;
    Ok(records)
}

/// Renders a page for each engine and their agreement.
pub fn pages(
    common: &Common,
    records: &[IoRecord],
    page: impl Fn(&IoRecord, &[Option<u32>], &TextStyle) -> String,
) -> String {
    let style = output::style(common);
    let page =
        |record: &IoRecord| page(record, &io_ranks(record, numaio_model::ClassOptions::default()), &style);
    let mut pages: Vec<String> = records.iter().map(page).collect();
    pages.extend(compared(common, records));
    pages.join("\n")
}

/// Compares the records of two engines, or of several loads.
pub fn compared(common: &Common, records: &[IoRecord]) -> Option<String> {
    let style = output::style(common);
    let first = records.first()?;
    if records.iter().any(|record| record.provenance.load_label() != first.provenance.load_label()) {
        return Some(io_loads_text(records, &style));
    }
    match records {
        [one, other] => Some(io_agreement(one, other, &style)),
        _ => None,
    }
}

/// Writes a file for each record.
fn write_all(path: &Path, records: &[IoRecord]) -> Result<(), Failure> {
    for record in records {
        let mut name = path.as_os_str().to_owned();
        if path != Path::new("-") {
            name.push(distinction(record, records));
        }
        output::write(Path::new(&name), &json(record)?)?;
    }
    Ok(())
}

/// Returns the end of the file name that distinguishes a record: its engine, and its load.
fn distinction(record: &IoRecord, records: &[IoRecord]) -> String {
    let differ = |key: &dyn Fn(&IoRecord) -> String| records.iter().any(|other| key(other) != key(record));
    let engine = |record: &IoRecord| format!("-{}", record.method.engine.name());
    let load = |record: &IoRecord| {
        let names: Vec<String> = record.provenance.load.iter().map(|load| load.load.stable_name()).collect();
        if names.is_empty() {
            "-idle".to_owned()
        } else {
            format!("-load-{}", names.join("-"))
        }
    };
    let keys: [&dyn Fn(&IoRecord) -> String; 2] = [&engine, &load];
    keys.into_iter().filter(|key| differ(*key)).map(|key| key(record)).collect()
}

/// Parses a size greater than 0.
pub fn size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("expected a size greater than 0".to_owned()),
        bytes => Ok(bytes),
    }
}

fn streams(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| format!("expected an integer from 1 to 1024, got '{text}'"))
}

fn window(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (50..=60_000).contains(number));
    number.ok_or_else(|| format!("expected an integer from 50 to 60000, got '{text}'"))
}
