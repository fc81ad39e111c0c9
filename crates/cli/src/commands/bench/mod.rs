//! `numaio bench`: real I/O of devices from every node. A file for each kind of device; what they share is in
//! `shared`.

pub mod disk;
pub mod gpu;
pub mod net;
pub mod rdma;
mod shared;
mod target;

use crate::args::Common;
use crate::failure::Failure;
use clap::{Args, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub command: BenchCommand,
}

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure a disk, or a file on one
    Disk(disk::DiskArgs),
    /// Measure TCP between this host and another one
    Net(net::NetArgs),
    /// Measure RDMA between this host and another one, by perftest
    Rdma(rdma::RdmaArgs),
    /// Measure copies between memory and a GPU: download, readback, both at once
    Gpu(gpu::GpuArgs),
}

pub fn run(common: &Common, args: &BenchArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        BenchCommand::Net(command) => net::run(common, command),
        BenchCommand::Rdma(command) => rdma::run(common, command),
        BenchCommand::Disk(command) => disk::run(common, command),
        BenchCommand::Gpu(command) => gpu::run(common, command),
    }
}
