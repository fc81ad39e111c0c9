//! `numaio bench disk`: measures a disk, or a file on one.

use super::disk_args::{DiskArgs, EngineArg, MethodArg};
use super::shared;
use super::target::{self, Target};
use crate::commands::tape_io;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use numaio_linux::io::{best_method, lockable_bytes};
use numaio_machine::discover::discover;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{DiskMethod, DiskOrder, DiskPath};
use numaio_measure::engine::{Disk, Engine, Fio, Null};
use numaio_measure::IoOptions;
use numaio_report::io_text;
use numaio_schema::{IoEngine, IoRecord};

/// Runs `numaio bench disk`.
pub fn run(common: &Common, machine: &Machine, args: &DiskArgs) -> Result<Vec<IoRecord>, Failure> {
    let topology = discover(machine);
    let show = |records: &[IoRecord]| shared::pages(common, records, io_text);
    let target = match args.engine {
        EngineArg::Null => target::none(),
        _ if !machine.is_live() => {
            let records = from_tape(common, machine, &topology, args)?;
            return shared::show(&args.bounds, records, show);
        }
        _ => target::live(common, machine, &topology, args)?,
    };
    let path = path(common, args, &target);
    let matrix = args.placement.matrix(common, &topology, &target.device, &args.bounds.load);
    let options = IoOptions {
        block_bytes: vec![args.block],
        depth: args.depth,
        ..args.bounds.options(matrix, machine.time())
    };
    let engines = engines(args, &path, &target);
    let campaign = (engines.as_slice(), &target.device, &options);
    shared::bench(common, machine, &topology, &args.bounds, campaign, show)
}

/// Returns the records of the disk or file on a tape by the requested engines.
fn from_tape(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    args: &DiskArgs,
) -> Result<Vec<IoRecord>, Failure> {
    let file = args.file.as_ref().map(|file| file.display().to_string());
    let is_requested = |record: &IoRecord| {
        let device = &record.device;
        let same_device = args
            .device
            .as_deref()
            .is_none_or(|name| target::short(name) == device.name || device.pci.as_deref() == Some(name));
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
        let name = args.device.clone().or(file).unwrap_or_else(|| "a disk".to_owned());
        return Err(Failure::new(format!("not on the tape: I/O of '{name}' by this engine"))
            .hint("numaio record --bench \"disk ...\" records it"));
    }
    Ok(records)
}

/// Returns the part of the disk to access, and the method.
fn path(common: &Common, args: &DiskArgs, target: &Target) -> DiskPath {
    let method = match args.method {
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
    };
    DiskPath {
        path: target.path.clone(),
        at: 0,
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
