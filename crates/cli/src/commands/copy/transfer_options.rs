//! How files are moved, as it is typed.

use crate::args::whole;
use clap::{Args, ValueEnum};
use numaio_machine::units::parse_size;
use numaio_mover::hash::HashKind;
use numaio_mover::compression;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most threads that read or that write: their buffers are within what an end may take of memory.
const MAX_THREADS: u32 = 128;

#[derive(Debug, Args)]
#[command(next_help_heading = "How")]
pub struct TransferArgs {
    /// Hash by which every part of a file is checked; none trusts memory and the way
    #[arg(long, value_name = "HASH", default_value = "xxh3")]
    pub hash: Hash,
    /// When data is made durable: none leaves it to the kernel, file before a file gets its name, end at the end
    #[arg(long, value_name = "WHEN", default_value = "none")]
    pub fsync: Fsync,
    /// Most bytes of data a second, as they go to the other side: 10M, 1GiB; 0 is no limit
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub bwlimit: Option<u64>,
    /// Pack data for its way to another host: auto where that is measured to be faster, zstd wherever it makes data
    /// smaller
    ///
    /// Both sides must know of it; an older numaio there gets data as it is, which is said. --bwlimit counts what goes to the
    /// other side. Within a machine nothing is packed.
    #[arg(long, value_name = "HOW", default_value = "none")]
    compress: Compress,
    /// As --compress auto
    #[arg(short = 'z', overrides_with = "compress")]
    compress_auto: bool,
    /// Where threads and buffers are: local is the node of the storage, model the best node by the saved model, none
    /// leaves it to the kernel
    ///
    /// Threads of data connections are on the node of the network, if it is not none.
    #[arg(long, value_name = "WHERE", default_value = "local")]
    pub placement: Placement,
    /// Threads and buffers as a plan of numaio plan --json has them, on the side that is here; - for standard input
    ///
    /// A plan to send is for the side that reads, one to receive for the side that writes; give both where both are here.
    #[arg(long, value_name = "FILE", conflicts_with = "threads")]
    pub plan: Vec<PathBuf>,
    /// Threads that read, and as many that write; without it one for each CPU, from 4 to 8, and up to four times as
    /// many where they wait for storage; 128 at most, 64 at a daemon
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_THREADS))]
    pub threads: Option<u32>,
    /// How blocks of large files are read and written past the page cache: auto is many at a time by io_uring where it may be used,
    /// threads is one by each thread
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub io: Io,
}

impl TransferArgs {
    /// Whether data is packed for its way, whichever way that was said.
    pub fn compress(&self) -> Compress {
        if self.compress_auto {
            Compress::Auto
        } else {
            self.compress
        }
    }
}

/// How blocks are read and written past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
pub enum Io {
    #[default]
    Auto,
    Threads,
}

/// How data is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Hash {
    Xxh3,
    Blake3,
    None,
}

impl Hash {
    pub fn kind(self) -> HashKind {
        match self {
            Self::Xxh3 => HashKind::Xxh3,
            Self::Blake3 => HashKind::Blake3,
            Self::None => HashKind::None,
        }
    }
}

/// When data is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fsync {
    None,
    File,
    End,
}

/// Whether data is packed for its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
pub enum Compress {
    #[default]
    None,
    Auto,
    Zstd,
}

impl Compress {
    pub fn kind(self) -> compression::CompressMode {
        match self {
            Self::None => compression::CompressMode::None,
            Self::Auto => compression::CompressMode::Auto,
            Self::Zstd => compression::CompressMode::Zstd,
        }
    }
}

/// Where threads and buffers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Placement {
    Local,
    Model,
    None,
}
