//! `numaio bench disk`: a disk, or a file on one.

use super::shared::{self, size, BoundsArgs, PlacesArgs};
use super::target::{self, Target};
use crate::args::{count, Common};
use crate::commands::tape_io;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::output;
use clap::{Args, ValueEnum};
use numaio_linux::io::{best_method, lockable_bytes};
use numaio_machine::discover::discover;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{DiskMethod, DiskOrder, DiskPath};
use numaio_measure::engine::{Disk, Engine, Fio, Null};
use numaio_measure::IoOptions;
use numaio_report::io_text;
use numaio_schema::{IoEngine, IoRecord};
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("target").args(["device", "file"]))]
pub struct DiskArgs {
    /// The disk or partition: nvme0n1, /dev/sdb
    #[arg(long, short, value_name = "DEV")]
    pub device: Option<String>,
    /// A file that is not there yet, or a folder for one; it is removed afterwards, however numaio
    /// ends. A file that is there is only read, with --direction read. First the whole --area of it
    /// is filled, which takes its time and bytes beside --seconds and --bytes
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Write to --device DEV, named here again: everything on it is lost
    #[arg(long, value_name = "DEV", requires = "device")]
    pub i_know_this_destroys: Option<String>,
    /// What moves the data; all lets disk and fio check each other
    #[arg(long, value_name = "ENGINE", default_value = "disk")]
    pub engine: EngineArg,
    /// Bytes of one request
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = size)]
    pub block: u64,
    /// Requests of a stream in flight
    #[arg(long, value_name = "N", default_value = "16", value_parser = count)]
    pub depth: u32,
    /// Bytes of the disk or file that are touched, as 4G; streams divide them
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub area: u64,
    /// How requests are made; without it the best that is allowed here
    #[arg(long, value_name = "METHOD")]
    pub method: Option<MethodArg>,
    /// Blocks at random in place of one after the other
    #[arg(long)]
    pub random: bool,
    #[command(flatten)]
    pub places: PlacesArgs,
    #[command(flatten)]
    pub bounds: BoundsArgs,
}

/// What moves the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// Our own
    Disk,
    /// fio
    Fio,
    /// Nothing is moved: our own overhead
    Null,
    /// Our own and fio
    All,
}

/// How requests to a disk are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodArg {
    /// io_uring, with registered buffers and file
    Uring,
    /// Linux AIO
    Aio,
    /// A thread for each request in flight
    Threads,
}

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
    let matrix = args.places.matrix(common, &topology, &target.device);
    let options = IoOptions {
        block_bytes: vec![args.block],
        depth: args.depth,
        ..args.bounds.options(matrix, machine.time())
    };
    let engines = engines(args, &path, &target);
    let asked = (engines.as_slice(), &target.device, &options);
    shared::bench(common, machine, &topology, &args.bounds, asked, show)
}

/// What a tape holds of the disk or file, by the engines that are asked for.
fn from_tape(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    args: &DiskArgs,
) -> Result<Vec<IoRecord>, Failure> {
    let file = args.file.as_ref().map(|file| file.display().to_string());
    let wanted = |record: &IoRecord| {
        let device = &record.device;
        let of_device = args
            .device
            .as_deref()
            .is_none_or(|name| target::short(name) == device.name || device.pci.as_deref() == Some(name));
        let of_file = file.is_none() || file == device.reached_via;
        let by_engine = match args.engine {
            EngineArg::Disk => record.method.engine == IoEngine::Disk,
            EngineArg::Fio => record.method.engine == IoEngine::Fio,
            EngineArg::All => matches!(record.method.engine, IoEngine::Disk | IoEngine::Fio),
            EngineArg::Null => false,
        };
        of_device && of_file && by_engine
    };
    let mut records = tape_io::records(common, machine, topology)?;
    records.retain(wanted);
    if records.is_empty() {
        let name = args.device.clone().or(file).unwrap_or_else(|| "a disk".to_owned());
        return Err(Failure::new(format!("not on the tape: I/O of {name} by this engine"))
            .hint("numaio record --bench \"disk ...\" keeps it"));
    }
    Ok(records)
}

/// Where on the disk, and how.
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
    let streams = args.places.streams.iter().copied().max().unwrap_or(0);
    let buffers = args.block.saturating_mul(args.depth.into()).saturating_mul(streams.into());
    let registered = buffers <= lockable_bytes();
    let disk = || Box::new(Disk { path: path.clone() }) as Box<dyn Engine>;
    let fio = || {
        let path = DiskPath { path: target.for_others(), ..path.clone() };
        Box::new(Fio { path, registered }) as Box<dyn Engine>
    };
    match args.engine {
        EngineArg::Disk => vec![disk()],
        EngineArg::Fio => vec![fio()],
        EngineArg::Null => vec![Box::new(Null)],
        EngineArg::All => vec![disk(), fio()],
    }
}
