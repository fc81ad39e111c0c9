//! `numaio record`: records the machine and its measurements in one file.

use super::bench::{self, BenchCommand, BenchRecords};
use super::measuring::{self, measure, measure_latency, measure_stream, options, rule, MeasuredMachine};
use super::sweep::{self, SweepArgs};
use crate::balancing::pause;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{Common, MeasuringArgs};
use crate::output;
use clap::Args as ClapArgs;
use numaio_linux::interrupt;
use numaio_machine::discover::discover;
use numaio_machine::inventory::Inventory;
use numaio_machine::near::{self, Handle, ResolveContext};
use numaio_machine::tape::{Recording, TapeHeader, TAPE_SCHEMA};
use numaio_machine::units::format_size;
use numaio_machine::{checkup, conditions};
use numaio_measure::{CounterOptions, LatencyOptions, Options, Rule, StreamOptions};
use std::path::PathBuf;
use std::process::ExitCode;

/// Minimum visits of every cell, so that any part of a campaign settles when it is replayed.
const MIN_VISITS: u32 = 6;

/// Arguments of `numaio record`.
#[derive(Debug, ClapArgs)]
pub struct RecordArgs {
    /// Tape file to write
    #[arg(long, short, value_name = "TAPE")]
    pub output: PathBuf,
    /// Note for users of the tape, such as that the machine is emulated
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub note: String,
    /// Name of the machine [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Record the topology only, without measuring
    #[arg(long)]
    pub no_measure: bool,
    /// Record copies only, without STREAM and latency
    #[arg(long)]
    pub no_baselines: bool,
    /// Also record what `numaio near` needs to resolve this handle; repeatable
    #[arg(long, value_name = "HANDLE")]
    pub near: Vec<Handle>,
    /// Also record the I/O of this bench, such as "disk --file /data", for `numaio bench`, validate
    /// and predict with the tape; repeatable
    #[arg(long, value_name = "BENCH", value_parser = bench::parse_line)]
    pub bench: Vec<BenchCommand>,
    /// Also record this sweep of a program, such as "--cores -- ./stream", for `numaio sweep` with
    /// the tape; repeatable
    #[arg(long, value_name = "SWEEP", allow_hyphen_values = true, value_parser = sweep::parse_line)]
    pub sweep: Vec<SweepArgs>,
    /// Also record counted STREAM copies, for `numaio counters` with the tape
    #[arg(long, conflicts_with = "no_measure")]
    pub counters: bool,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
}

/// Runs `numaio record`.
pub fn run(common: &Common, args: &RecordArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    if let (Machine::Copied(_), false) = (&machine, args.no_measure) {
        return Err(Failure::usage("a copied file tree cannot be measured")
            .hint("add --no-measure to record only the topology"));
    }
    output::check(&args.output)?;
    let (source, now) = (machine.source(), machine.time());
    let header = TapeHeader {
        tape: TAPE_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        name: args.name.clone().unwrap_or_default(),
        note: args.note.clone(),
        recorded_at: now,
    };
    let fingerprint = discover(&machine).identity.fingerprint;
    let machine = Machine::Recording(Box::new(Recording::new(machine, header)));
    // Pause before discovery, so that the tape contains the settings of the measurement.
    let paused = pause(common, args.measuring.rounds.stop.pause_balancing, &machine, &fingerprint)?;
    let topology = discover(&machine);
    // Read the files that numaio doctor needs in addition.
    checkup::check(&machine, &topology, &conditions::read(&machine));
    let context = ResolveContext { root: &machine, locate: &machine, topology: &topology };
    for handle in checkup::stacks(&machine).iter().chain(&args.near) {
        near::resolve(context, handle);
    }
    // Read the files that numaio devices needs in addition.
    Inventory::read(context);
    let mut measured = Ok(());
    if !args.no_measure {
        let machine =
            MeasuredMachine { root: &machine, probe: &machine, topology: &topology, source, load: &[] };
        measured = measure_all(common, args, &machine, now);
    }
    let Machine::Recording(recording) = &machine else {
        return Err(Failure::new("the machine is not being recorded"));
    };
    if measured.is_ok() {
        measured = args.bench.iter().try_for_each(|command| bench(common, &machine, recording, command));
    }
    if measured.is_ok() {
        measured = args.sweep.iter().try_for_each(|args| record_sweep(common, &machine, recording, args));
    }
    if measured.is_ok() && args.counters {
        measured = record_counters(common, &machine, args);
    }
    drop(paused);
    let mut tape = recording.tape();
    if tape.header.name.is_empty() {
        tape.header.name = topology.identity.hostname.clone();
    }
    // Write the tape even if measurements failed or were interrupted.
    let text = tape.to_text();
    let is_file = output::write(&args.output, &text)?;
    measured?;
    let size = format_size(text.len() as u64);
    let name = if is_file { args.output.display().to_string() } else { "the tape".to_owned() };
    output::remark(common, &format!("{name} contains {} runs, {size}", tape.runs.len()));
    measuring::exit(None)
}

/// Measures I/O, and records the resulting documents, since runs do not identify their device.
fn bench(
    common: &Common,
    machine: &Machine,
    recording: &Recording<Machine>,
    command: &BenchCommand,
) -> Result<(), Failure> {
    let first = recording.runs();
    let documents: Result<Vec<_>, _> = match bench::measure(common, machine, command)? {
        BenchRecords::Io(records) => records.iter().map(serde_json::to_value).collect(),
        BenchRecords::Aggregate(record) => serde_json::to_value(&record).map(|document| vec![document]),
        BenchRecords::Ping(record) => serde_json::to_value(&record).map(|document| vec![document]),
        BenchRecords::Mmio(record) => serde_json::to_value(&record).map(|document| vec![document]),
    };
    for document in documents.map_err(|error| Failure::new(&error))? {
        recording.record_document(document, first);
    }
    Ok(())
}

/// Measures a program, and records the document with the name and the builds.
fn record_sweep(
    common: &Common,
    machine: &Machine,
    recording: &Recording<Machine>,
    args: &SweepArgs,
) -> Result<(), Failure> {
    let first = recording.runs();
    let topology = discover(machine);
    let mut options = sweep::options(args, &topology, machine.time())?;
    options.rule.least_visits = MIN_VISITS;
    let setting = MeasuredMachine::idle(machine, &topology);
    let classes = sweep::class_options(args);
    let record = measuring::measure_sweep(common, setting, machine.time(), &options, classes)?;
    let document = serde_json::to_value(&record).map_err(|error| Failure::new(&error))?;
    recording.record_document(document, first);
    Ok(())
}

/// Counts STREAM copies on all pairs of nodes.
fn record_counters(common: &Common, machine: &Machine, args: &RecordArgs) -> Result<(), Failure> {
    let topology = discover(machine);
    let setting = MeasuredMachine::idle(machine, &topology);
    let rule = Rule { least_visits: MIN_VISITS, ..rule(&args.measuring.rounds.stop, machine.time()) };
    let options = CounterOptions { rule, ..CounterOptions::default() };
    measuring::measure_counters(common, setting, machine.time(), &options).map(drop)
}

/// Measures copies of all targets, and the complete matrices of STREAM copy and idle latency, so
/// that every command works on the tape.
///
/// The time limit applies to the sum: copies take up to half of it, STREAM up to half of the rest.
fn measure_all(
    common: &Common,
    args: &RecordArgs,
    machine: &MeasuredMachine,
    now: u64,
) -> Result<(), Failure> {
    let rule_for_all = Rule { least_visits: MIN_VISITS, ..rule(&args.measuring.rounds.stop, now) };
    let limited = |time_limit_s: f64| Rule { time_limit_s, ..rule_for_all };
    let share = if args.no_baselines { 1.0 } else { 0.5 };
    let copies = Options {
        targets: machine.topology.cpu_nodes(),
        least_visits: MIN_VISITS,
        time_limit_s: rule_for_all.time_limit_s * share,
        ..options(&args.measuring, now)
    };
    let record = measure(common, machine.clone(), now, &copies)?;
    let mut left_s = rule_for_all.time_limit_s - record.method.elapsed_s;
    if args.no_baselines || interrupt::interrupted() {
        return Ok(());
    }
    let pages = measuring::pages(&args.measuring.rounds);
    let options = StreamOptions { pages, rule: limited(left_s / 2.0), ..StreamOptions::default() };
    match measure_stream(common, machine.clone(), now, &options) {
        Ok(record) => left_s -= record.method.rounds.elapsed_s,
        Err(failure) => {
            output::remark(common, &format!("the tape contains no STREAM measurement: {}", failure.message))
        }
    }
    if interrupt::interrupted() {
        return Ok(());
    }
    let options = LatencyOptions { pages, rule: limited(left_s), ..LatencyOptions::default() };
    if let Err(failure) = measure_latency(common, machine.clone(), now, &options) {
        output::remark(common, &format!("the tape contains no latency measurement: {}", failure.message));
    }
    Ok(())
}
