//! What every command that measures does: options as they were meant, campaigns with progress, saving.

use super::json;
use crate::args::{Common, MeasuringArgs, RoundsArgs};
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::output;
use crate::progress::Progress;
use crate::store::{self, Kind};
use numaio_linux::interrupt;
use numaio_machine::probe::Probe;
use numaio_machine::sysfs::Sysfs;
use numaio_machine::topology::Topology;
use numaio_machine::units::format_size;
use numaio_machine::workload::Pages;
use numaio_measure::engine::{Engine, RemoteEnd};
use numaio_measure::{
    campaign, io, latency, net, stream, CampaignError, Event, IoOptions, LatencyOptions, NetOptions, Options,
    Rule, Setting, StreamOptions, Threads,
};
use numaio_model::pair_classes;
use numaio_schema::{
    IoDevice, IoRecord, LatencyRecord, MachineSource, Provenance, Record, StreamRecord, TopologyDocument,
};
use std::path::Path;
use std::process::ExitCode;

/// Options of copies as they were meant; targets and directions are added by the command.
pub fn options(measuring: &MeasuringArgs, seed: u64) -> Options {
    let threads = match (measuring.threads, measuring.hyper_threads) {
        (Some(count), _) => Threads::Count(count),
        (None, true) => Threads::HardwareThreads,
        (None, false) => Threads::Cores,
    };
    let Rule { precision, time_limit_s, seed, .. } = rule(&measuring.rounds, seed);
    Options {
        threads,
        copy_loop: measuring.copy_loop,
        pages: pages(&measuring.rounds),
        precision,
        time_limit_s,
        repetitions: measuring.repetitions,
        seed,
        ..Options::default()
    }
}

/// When to stop.
pub fn rule(rounds: &RoundsArgs, seed: u64) -> Rule {
    Rule {
        precision: rounds.precision,
        time_limit_s: rounds.time_limit,
        seed: rounds.seed.unwrap_or(seed),
        ..Rule::default()
    }
}

/// Pages behind buffers.
pub fn pages(rounds: &RoundsArgs) -> Pages {
    if rounds.hugepages {
        Pages::Huge
    } else {
        Pages::Transparent
    }
}

/// The machine that is measured.
#[derive(Clone)]
pub struct MeasuredMachine<'a> {
    pub root: &'a dyn Sysfs,
    pub probe: &'a dyn Probe,
    pub topology: &'a Topology,
    pub source: MachineSource,
}

/// The machine that the options name, if it can be measured.
pub fn pick(common: &Common) -> Result<Machine, Failure> {
    match Machine::pick(common)? {
        Machine::Copied(_) => Err(Failure::usage("a copied tree of files can be seen and not measured")
            .hint(
                "numaio topology --sysroot DIR shows it; numaio record makes a tape that holds measurements",
            )),
        machine => Ok(machine),
    }
}

/// Copies between nodes.
pub fn measure(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    options: &Options,
) -> Result<Record, Failure> {
    run(common, machine, now, |setting, on_event| campaign::run(setting, options, on_event))
}

/// STREAM, its pairs classed.
pub fn measure_stream(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    options: &StreamOptions,
) -> Result<StreamRecord, Failure> {
    let mut record = run(common, machine, now, |setting, on_event| stream::run(setting, options, on_event))?;
    record.classes = pair_classes(&record, numaio_model::ClassOptions::default());
    Ok(record)
}

/// Latency.
pub fn measure_latency(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    options: &LatencyOptions,
) -> Result<LatencyRecord, Failure> {
    run(common, machine, now, |setting, on_event| latency::run(setting, options, on_event))
}

/// I/O of a device.
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

/// I/O through a network. The devices are the one here and the one there.
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

/// Runs a campaign, with progress; Ctrl-C ends it early.
fn run<T>(
    common: &Common,
    machine: MeasuredMachine,
    now: u64,
    campaign: impl FnOnce(&Setting, &mut dyn FnMut(&Event)) -> Result<T, CampaignError>,
) -> Result<T, Failure> {
    interrupt::install().map_err(|error| Failure::new(format!("cannot watch for Ctrl-C: {error}")))?;
    let MeasuredMachine { root, probe, topology, source } = machine;
    let setting = Setting { root, probe, topology, source, now, stop: &interrupt::interrupted };
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

/// Whether what is measured is to be saved; that it can be is found out before the long work.
pub fn should_save(machine: &Machine, no_save: bool, kind: Kind, fingerprint: &str) -> Result<bool, Failure> {
    let keep = machine.is_live() && !no_save;
    if keep {
        store::check(kind, fingerprint)?;
    }
    Ok(keep)
}

/// Saves what was measured, and the machine as it was seen, for later reports.
pub fn save(
    common: &Common,
    kind: Kind,
    provenance: &Provenance,
    document: &impl serde::Serialize,
    topology: &Topology,
) -> Result<(), Failure> {
    let (fingerprint, measured_at) = (&provenance.machine.fingerprint, provenance.measured_at);
    let path = store::save(kind, fingerprint, measured_at, &json(document)?)?;
    let seen = json(&TopologyDocument::with_time(topology.clone(), Some(measured_at)))?;
    store::save(Kind::Topology, fingerprint, measured_at, &seen)?;
    let what = match kind {
        Kind::Model => "the model",
        _ => "the measurement",
    };
    output::remark(common, &format!("{what} is saved in {}", path.display()));
    Ok(())
}

/// Exit status of a command that did what it was asked for, or was interrupted. What was measured has been
/// shown by now, even if it could not be `saved`.
pub fn exit(saved: Option<Result<(), Failure>>) -> Result<ExitCode, Failure> {
    saved.transpose()?;
    Ok(if interrupt::interrupted() { ExitCode::from(failure::INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Files from this length on are filled for so long that people wonder.
const LONG_TO_FILL: u64 = 256 << 20;

/// Says that a file is filled before anything is measured, if that may take long.
pub fn announce_fill(common: &Common, file: &Path, bytes: u64) {
    // What is there already is refused.
    if bytes >= LONG_TO_FILL && (file.is_dir() || !file.exists()) {
        let size = format_size(bytes);
        output::remark(common, &format!("first a file of {size} is filled: {}", file.display()));
    }
}
