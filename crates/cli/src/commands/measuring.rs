//! Common steps of measuring commands: options, campaigns with progress, and saving.

use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::options::{Common, MeasuringArgs, RoundsArgs, StopArgs};
use crate::output;
use crate::output::json;
use crate::progress::Progress;
use crate::store::{self, Kind};
use numaio_linux::interrupt;
use numaio_machine::probe::Probe;
use numaio_machine::sysfs::Sysfs;
use numaio_machine::topology::Topology;
use numaio_machine::units::format_size;
use numaio_machine::workload::Pages;
use numaio_measure::engine::{Engine, RemoteEnd, Several};
use numaio_measure::{
    aggregate, campaign, counters, io, latency, mmio, net, ping, stream, sweep, AggregateOptions,
    CampaignError, CounterOptions, Event, IoOptions, LatencyOptions, MmioOptions, NetOptions, Options,
    PingEngine, PingOptions, Rule, Setting, StreamOptions, SweepOptions, Threads, UnderLoad,
};
use numaio_model::{pair_classes, sweep_classes, ClassOptions};
use numaio_schema::{
    AggregateRecord, CounterRecord, IoDevice, IoRecord, LatencyRecord, Load, MachineSource, MmioRecord,
    PingRecord, Provenance, Record, StreamRecord, SweepRecord, TopologyDocument,
};
use std::path::Path;
use std::process::ExitCode;

/// Returns the options of a campaign of copies; the command adds targets and directions.
pub fn options(measuring: &MeasuringArgs, seed: u64) -> Options {
    let threads = match (measuring.threads, measuring.hyper_threads) {
        (Some(count), _) => Threads::Count(count),
        (None, true) => Threads::HardwareThreads,
        (None, false) => Threads::Cores,
    };
    let Rule { precision, time_limit_s, seed, .. } = rule(&measuring.rounds.stop, seed);
    Options {
        threads,
        copy_loop: measuring.copy_loop,
        buffer_bytes: measuring.buffer,
        pages: pages(&measuring.rounds),
        precision,
        time_limit_s,
        repetitions: measuring.repetitions,
        seed,
        ..Options::default()
    }
}

/// Returns the stopping rule.
pub fn rule(stop: &StopArgs, seed: u64) -> Rule {
    Rule {
        precision: stop.precision,
        time_limit_s: stop.time_limit,
        seed: stop.seed.unwrap_or(seed),
        ..Rule::default()
    }
}

/// Returns the kind of pages of the buffers.
pub fn pages(rounds: &RoundsArgs) -> Pages {
    if rounds.hugepages {
        Pages::Huge
    } else {
        Pages::Transparent
    }
}

/// The measured machine.
#[derive(Clone)]
pub struct MeasuredMachine<'a> {
    /// Its files.
    pub root: &'a dyn Sysfs,
    /// The probe that runs workloads.
    pub probe: &'a dyn Probe,
    /// Its topology.
    pub topology: &'a Topology,
    /// Its source, for documents.
    pub source: MachineSource,
    /// Load beside every visit.
    pub load: &'a [Load],
}

impl<'a> MeasuredMachine<'a> {
    /// Returns a machine to measure without load.
    pub fn idle(machine: &'a Machine, topology: &'a Topology) -> Self {
        Self { root: machine, probe: machine, topology, source: machine.source(), load: &[] }
    }

    /// Returns a machine to measure under a load.
    pub fn under(machine: &'a Machine, topology: &'a Topology, load: &'a [Load]) -> Self {
        Self { load, ..Self::idle(machine, topology) }
    }
}

/// Opens the machine that the options select, if it can be measured.
pub fn pick(common: &Common) -> Result<Machine, Failure> {
    match Machine::pick(common)? {
        Machine::Copied(_) => Err(Failure::usage("a copied file tree cannot be measured")
            .hint("numaio topology --sysroot DIR shows it; numaio record writes a tape with measurements")),
        machine => Ok(machine),
    }
}

/// Measures copies between nodes.
pub fn measure(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    options: &Options,
) -> Result<Record, Failure> {
    run(common, machine, now, |setting, on_event| campaign::run(setting, options, on_event))
}

/// Measures STREAM and classifies its pairs.
pub fn measure_stream(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    options: &StreamOptions,
) -> Result<StreamRecord, Failure> {
    let mut record = run(common, machine, now, |setting, on_event| stream::run(setting, options, on_event))?;
    record.classes = pair_classes(&record, ClassOptions::default());
    Ok(record)
}

/// Measures a program on all pairs of CPUs and memory node, and classifies the pairs.
pub fn measure_sweep(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    options: &SweepOptions,
    classes: ClassOptions,
) -> Result<SweepRecord, Failure> {
    let mut record = run(common, machine, now, |setting, on_event| sweep::run(setting, options, on_event))?;
    record.classes = sweep_classes(&record, classes);
    Ok(record)
}

/// Counts events of a workload.
pub fn measure_counters(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    options: &CounterOptions,
) -> Result<CounterRecord, Failure> {
    run(common, machine, now, |setting, on_event| counters::run(setting, options, on_event))
}

/// Measures latency.
pub fn measure_latency(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    options: &LatencyOptions,
) -> Result<LatencyRecord, Failure> {
    run(common, machine, now, |setting, on_event| latency::run(setting, options, on_event))
}

/// Measures I/O of a device.
pub fn measure_io(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    engine: &dyn Engine,
    device: IoDevice,
    options: &IoOptions,
) -> Result<IoRecord, Failure> {
    run(common, machine, now, |setting, on_event| io::run(setting, engine, device, options, on_event))
}

/// Measures I/O through a network between the local and the remote device.
pub fn measure_net(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    engine: &dyn Engine,
    far: &RemoteEnd,
    devices: (IoDevice, Option<IoDevice>),
    options: &NetOptions,
) -> Result<IoRecord, Failure> {
    run(common, machine, now, |setting, on_event| net::run(setting, engine, far, devices, options, on_event))
}

/// Measures several devices, each alone and all at the same time.
pub fn measure_aggregate(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    engine: &Several,
    devices: Vec<IoDevice>,
    options: &AggregateOptions,
) -> Result<AggregateRecord, Failure> {
    run(common, machine, now, |setting, on_event| aggregate::run(setting, engine, devices, options, on_event))
}

/// Measures latency of messages through a network between the local and the remote device.
pub fn measure_ping(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    engine: &PingEngine,
    devices: (IoDevice, Option<IoDevice>),
    options: &PingOptions,
) -> Result<PingRecord, Failure> {
    run(common, machine, now, |setting, on_event| ping::run(setting, engine, devices, options, on_event))
}

/// Measures reads of a device's register.
pub fn measure_mmio(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    device: IoDevice,
    options: &MmioOptions,
) -> Result<MmioRecord, Failure> {
    run(common, machine, now, |setting, on_event| mmio::run(setting, device, options, on_event))
}

/// Runs a campaign with a progress line; Ctrl-C ends it early.
fn run<T>(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    campaign: impl FnOnce(&Setting, &mut dyn FnMut(&Event)) -> Result<T, CampaignError>,
) -> Result<T, Failure> {
    interrupt::install().map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))?;
    let MeasuredMachine { root, probe, topology, source, load } = machine;
    let under_load = UnderLoad::new(probe, topology, load)?;
    let load = Some(&under_load);
    let setting =
        Setting { root, probe: &under_load, load, topology, source, now, stop: &interrupt::interrupted };
    let progress = Progress::new(common);
    let record = campaign(&setting, &mut |event| progress.show(event));
    drop(progress);
    match record {
        Err(_) if interrupt::interrupted() => Err(Failure {
            code: failure::INTERRUPTED,
            ..Failure::new("interrupted before anything was measured")
        }),
        record => Ok(record?),
    }
}

/// Returns whether to save the measurement; checks before the measurement that it can be saved.
pub fn should_save(machine: &Machine, no_save: bool, kind: Kind, fingerprint: &str) -> Result<bool, Failure> {
    let is_saved = machine.is_live() && !no_save;
    if is_saved {
        store::check(kind, fingerprint)?;
    }
    Ok(is_saved)
}

/// Saves a measurement, and the topology for later reports.
pub fn save(
    common: &Common,
    kind: Kind,
    provenance: &Provenance,
    document: &impl serde::Serialize,
    topology: &Topology,
) -> Result<(), Failure> {
    let (fingerprint, measured_at) = (&provenance.machine.fingerprint, provenance.measured_at);
    let path = store::save(kind, fingerprint, measured_at, &json(document)?)?;
    let topology = json(&TopologyDocument::with_time(topology.clone(), Some(measured_at)))?;
    store::save(Kind::Topology, fingerprint, measured_at, &topology)?;
    let name = match kind {
        Kind::Model => "model",
        _ => "measurement",
    };
    output::remark(common, &format!("saved the {name} in '{}'", path.display()));
    Ok(())
}

/// Returns the exit status of a completed or interrupted command, after its output was printed.
///
/// # Errors
/// The measurement could not be saved.
pub fn exit(saved: Option<Result<(), Failure>>) -> Result<ExitCode, Failure> {
    saved.transpose()?;
    Ok(if interrupt::interrupted() { ExitCode::from(failure::INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Minimum size of a file whose creation is announced.
const ANNOUNCED_FILL_BYTES: u64 = 256 << 20;

/// Announces that a large file is filled before the measurement.
pub fn announce_fill(common: &Common, file: &Path, bytes: u64) {
    // An existing file is rejected later.
    if bytes >= ANNOUNCED_FILL_BYTES && (file.is_dir() || !file.exists()) {
        let size = format_size(bytes);
        output::remark(common, &format!("filling a file of {size} first: {}", file.display()));
    }
}
