//! Options of `numaio bench disk`.

use super::shared::{size, BoundsArgs, PlacementArgs};
use crate::options::count;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options of `numaio bench disk`.
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("target").args(["device", "file"]))]
pub struct DiskArgs {
    /// Disk or partition, for example nvme0n1 or /dev/sdb
    ///
    /// Repeat it to measure several disks: each alone, all at the same time, and the sum.
    #[arg(long, short, value_name = "DEV")]
    pub device: Vec<String>,
    /// New file, or a directory for a temporary file; repeatable as --device
    ///
    /// The file is removed at the end, even if numaio is killed. An existing file can only be read,
    /// with
    /// --direction read. First --area bytes of a new file are written, in addition to --seconds and
    /// --bytes.
    #[arg(long, value_name = "PATH")]
    pub file: Vec<PathBuf>,
    /// Confirm writing to --device by naming DEV again, each one: all data on it is lost
    #[arg(long, value_name = "DEV", requires = "device")]
    pub i_know_this_destroys: Vec<String>,
    /// Engine that moves the data; all compares disk and fio
    #[arg(long, value_name = "ENGINE", default_value = "disk")]
    pub engine: EngineArg,
    /// Request size
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = size)]
    pub block: u64,
    /// Requests in flight per stream
    #[arg(long, value_name = "N", default_value = "16", value_parser = count)]
    pub depth: u32,
    /// Size of the accessed part of the disk or file, for example 4G; streams divide it
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub area: u64,
    /// Request method; default: the best that is permitted
    #[arg(long, value_name = "METHOD")]
    pub method: Option<MethodArg>,
    /// Access blocks in random instead of sequential order
    #[arg(long)]
    pub random: bool,
    #[command(flatten)]
    pub placement: PlacementArgs,
    #[command(flatten)]
    pub bounds: BoundsArgs,
}

/// Engines that move the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// numaio's own engine
    Disk,
    /// fio
    Fio,
    /// Moves no data: measures numaio's overhead
    Null,
    /// disk and fio
    All,
}

/// Methods of requests to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodArg {
    /// io_uring, with registered buffers and file
    Uring,
    /// Linux AIO
    Aio,
    /// One thread per request in flight
    Threads,
}
