//! `numaio bench disk`: measures a disk, or a file on one.

use super::disk_args::{DiskArgs, EngineArg, MethodArg};
use super::shared::{self, BenchRecords};
use super::target::{self, Target};
use crate::commands::tape_io;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use numaio_linux::io::{best_method, lockable_bytes};
use numaio_machine::discover::discover;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{DiskMethod, DiskOrder, DiskPath, IoPath};
use numaio_measure::engine::{Disk, Engine, Fio, Null, Several};
use numaio_measure::io::Matrix;
use numaio_measure::IoOptions;
use numaio_report::io_text;
use numaio_schema::{IoEngine, IoRecord};

/// Runs `numaio bench disk`.
pub fn run(common: &Common, machine: &Machine, args: &DiskArgs) -> Result<BenchRecords, Failure> {
    let topology = discover(machine);
    match args.device.len() + args.file.len() {
        0 | 1 => run_one(common, machine, &topology, args).map(BenchRecords::Io),
        _ => run_several(common, machine, &topology, args),
    }
}

fn run_one(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    args: &DiskArgs,
) -> Result<Vec<IoRecord>, Failure> {
    let show = |records: &[IoRecord]| shared::pages(common, records, io_text);
    let targets = match args.engine {
        EngineArg::Null => vec![target::none()],
        _ if !machine.is_live() => {
            let records = from_tape(common, machine, topology, args)?;
            return shared::show(&args.bounds, records, show);
        }
        _ => target::live(common, machine, topology, args)?,
    };
    let [target] = targets.as_slice() else { return Err(Failure::usage("expected one disk")) };
    let path = path(args, method(common, args), target);
    let matrix = args.placement.matrix(common, topology, &target.device, &args.bounds.load);
    let options = IoOptions {
        block_bytes: vec![args.block],
        depth: args.depth,
        ..args.bounds.options(matrix, machine.time())
    };
    let engines = engines(args, &path, target);
    let campaign = (engines.as_slice(), &target.device, &options);
    shared::bench(common, machine, topology, &args.bounds, campaign, show)
}

/// Measures several disks or files, each alone and all at the same time.
fn run_several(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    args: &DiskArgs,
) -> Result<BenchRecords, Failure> {
    if args.engine != EngineArg::Disk {
        return Err(Failure::usage("several disks are measured by the built-in engine only")
            .hint("omit --engine, or specify one --device or --file"));
    }
    if !machine.is_live() {
        let files = args.file.iter().map(|file| file.display().to_string());
        let names: Vec<String> =
            args.device.iter().map(|name| target::short(name).to_owned()).chain(files).collect();
        return shared::show_aggregate_on_tape(common, machine, &args.bounds, &names);
    }
    let io = IoOptions {
        block_bytes: vec![args.block],
        depth: args.depth,
        ..args.bounds.options(Matrix::default(), machine.time())
    };
    let options = args.placement.of_several(io)?;
    let targets = target::live(common, machine, topology, args)?;
    let method = method(common, args);
    let paths = targets.iter().map(|target| IoPath::Disk(path(args, method, target)));
    let engine = Several { engine: IoEngine::Disk, paths: paths.collect() };
    let devices = targets.iter().map(|target| target.device.clone()).collect();
    let campaign = (&engine, devices, &options);
    shared::bench_several(common, (machine, topology), &args.bounds, campaign, |_| ())
}

/// Returns the records of the disk or file on a tape by the requested engines.
fn from_tape(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    args: &DiskArgs,
) -> Result<Vec<IoRecord>, Failure> {
    let file = args.file.first().map(|file| file.display().to_string());
    let requested = args.device.first();
    let is_requested = |record: &IoRecord| {
        let device = &record.device;
        let same_device = requested
            .is_none_or(|name| target::short(name) == device.name || device.pci.as_ref() == Some(name));
        let same_file = file.is_none() || file == device.reached_via;
        let same_engine = match args.engine {
            EngineArg::Disk => record.method.engine == IoEngine::Disk,
            EngineArg::Fio => record.method.engine == IoEngine::Fio,
            EngineArg::All => matches!(record.method.engine, IoEngine::Disk | IoEngine::Fio),
            EngineArg::Null => false,
        };
        same_device && same_file && same_engine
    };
    let mut records = tape_io::records(common, machine, topology)?;
    records.retain(is_requested);
    if records.is_empty() {
        let name = requested.cloned().or(file).unwrap_or_else(|| "a disk".to_owned());
        return Err(Failure::new(format!("not on the tape: I/O of '{name}' by this engine"))
            .hint("numaio record --bench \"disk ...\" records it"));
    }
    Ok(records)
}

/// Returns the requested method, or the best that is permitted.
fn method(common: &Common, args: &DiskArgs) -> DiskMethod {
    match args.method {
        Some(MethodArg::Uring) => DiskMethod::Uring,
        Some(MethodArg::Aio) => DiskMethod::Aio,
        Some(MethodArg::Threads) => DiskMethod::Threads,
        None => {
            let (method, note) = best_method();
            if let Some(note) = note {
                output::remark(common, &note);
            }
            method
        }
    }
}

/// Returns the part of the disk to access.
fn path(args: &DiskArgs, method: DiskMethod, target: &Target) -> DiskPath {
    DiskPath {
        path: target.path.clone(),
        offset: 0,
        bytes: args.area.min(target.bytes) / args.block * args.block,
        method,
        direct: true,
        order: if args.random { DiskOrder::Random } else { DiskOrder::Sequential },
    }
}

fn engines(args: &DiskArgs, path: &DiskPath, target: &Target) -> Vec<Box<dyn Engine>> {
    let streams = args.placement.streams.iter().copied().max().unwrap_or(0);
    let buffers = args.block.saturating_mul(args.depth.into()).saturating_mul(streams.into());
    let registered = buffers <= lockable_bytes();
    let disk = || Box::new(Disk { path: path.clone() }) as Box<dyn Engine>;
    let fio = || {
        let path = DiskPath { path: target.path_for_tools(), ..path.clone() };
        Box::new(Fio { path, registered }) as Box<dyn Engine>
    };
    match args.engine {
        EngineArg::Disk => vec![disk()],
        EngineArg::Fio => vec![fio()],
        EngineArg::Null => vec![Box::new(Null)],
        EngineArg::All => vec![disk(), fio()],
    }
}
