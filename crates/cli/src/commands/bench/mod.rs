//! `numaio bench`: measures devices from every node.

pub mod disk;
mod disk_args;
pub mod gpu;
mod mmio;
pub mod net;
pub mod rdma;
mod shared;
mod target;

pub use shared::BenchRecords;
pub use target::{device_near, short};

use crate::commands::measuring;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{Common, Invocation};
use clap::{Args, Parser as _, Subcommand};
use std::process::ExitCode;

/// Arguments of `numaio bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// Subcommands of `numaio bench`.
#[derive(Debug, Clone, Subcommand)]
pub enum BenchCommand {
    /// Measure a disk, or a file on one
    Disk(disk_args::DiskArgs),
    /// Measure TCP between this host and another
    Net(net::NetArgs),
    /// Measure RDMA between this host and another by perftest
    Rdma(rdma::RdmaArgs),
    /// Measure copies between memory and a GPU: download and readback
    Gpu(gpu::GpuArgs),
    /// Measure reads of a device's register (MMIO) from every node
    ///
    /// A CPU of each node reads 4 bytes at a time, and the time of each read is measured. Reads of
    /// some registers have side effects, so numaio reads the version register of an NVMe
    /// controller, or the begin of the first prefetchable memory of another device. It refuses
    /// devices with neither, unless --bar names a register. Requires root.
    Mmio(mmio::MmioArgs),
}

/// Runs `numaio bench`.
pub fn run(common: &Common, args: &BenchArgs) -> Result<ExitCode, Failure> {
    if let BenchCommand::Net(command) = &args.command {
        if command.serve {
            return net::serve(common, command);
        }
    }
    measure(common, &measuring::pick(common)?, &args.command)?;
    measuring::exit(None)
}

/// Measures, shows and saves.
pub fn measure(common: &Common, machine: &Machine, command: &BenchCommand) -> Result<BenchRecords, Failure> {
    match command {
        BenchCommand::Net(command) => net::run(common, machine, command),
        BenchCommand::Rdma(command) => rdma::run(common, machine, command),
        BenchCommand::Disk(command) => disk::run(common, machine, command),
        BenchCommand::Gpu(command) => gpu::run(common, machine, command),
        BenchCommand::Mmio(command) => {
            mmio::run(common, machine, command).map(|record| BenchRecords::Mmio(Box::new(record)))
        }
    }
}

/// `numaio bench` alone.
#[derive(Debug, Subcommand)]
enum BenchOnly {
    Bench(BenchArgs),
}

/// Parses the arguments of `numaio bench`, for example `disk --file /data`.
///
/// # Errors
/// An error of clap, or not a measurement.
pub fn parse_line(text: &str) -> Result<BenchCommand, String> {
    let words = ["numaio", "bench"].into_iter().chain(text.split_whitespace());
    let invocation = Invocation::<BenchOnly>::try_parse_from(words).map_err(|error| error.to_string())?;
    match invocation.command {
        BenchOnly::Bench(BenchArgs { command: BenchCommand::Net(net) }) if net.serve => {
            Err("--serve is not a measurement".to_owned())
        }
        BenchOnly::Bench(bench) => Ok(bench.command),
    }
}
