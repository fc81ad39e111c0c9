//! Options for how files are transferred.

use crate::options::{choice, integer};
use clap::{Args, ValueEnum};
use numaio_machine::units::parse_size;
use numaio_mover::compression::CompressMode;
use numaio_mover::hash::HashKind;
use numaio_mover::port::BlockSize;
use numaio_mover::sink::SyncMode;
use numaio_mover::source::{ReadMode, ReadOrder};
use numaio_mover_linux::files::DirectIo;
use numaio_transfer::options::{Io, Placement};
use std::path::PathBuf;

/// Maximum number of reading or writing threads, limited by the memory of their buffers.
const MAX_THREADS: u32 = 128;

/// Whether threads help other groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkSharing {
    /// They help.
    On,
    /// They serve their own device and node only.
    Off,
}

/// Options of the transfer of data.
#[derive(Debug, Args)]
#[command(next_help_heading = "Transfer")]
pub struct TransferArgs {
    /// Hash that verifies every part of a file; none trusts memory and network
    #[arg(long, value_name = "HASH", default_value = "xxh3", env = "NUMAIO_HASH", value_parser = choice::<HashKind>())]
    pub hash: HashKind,
    /// When to sync data: none leaves it to the kernel, file before a file is renamed, end after
    /// the transfer
    #[arg(long, value_name = "WHEN", default_value = "none", value_parser = choice::<SyncMode>())]
    pub fsync: SyncMode,
    /// Maximum bytes of data per second sent to the other side: 10M, 1GiB; 0 means no limit
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub bwlimit: Option<u64>,
    /// Compress data for another host: auto only if that is measured to be faster, zstd if it makes
    /// data smaller
    ///
    /// --bwlimit counts compressed bytes. Transfers within a machine are not compressed.
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = choice::<CompressMode>())]
    compress: CompressMode,
    /// Same as --compress auto
    #[arg(short = 'z', overrides_with = "compress")]
    compress_auto: bool,
    /// Placement of threads and buffers: local uses the node of the storage, model the best node of
    /// the saved model, none leaves it to the kernel
    ///
    /// Except with none, threads of data connections run on the node of the network interface.
    #[arg(long, value_name = "WHERE", default_value = "local", value_parser = choice::<Placement>())]
    pub placement: Placement,
    /// Placement from a plan of numaio plan --json for a local side; - for standard input
    ///
    /// A plan to send is for the source, one to receive for the destination; pass both if both
    /// sides are local.
    #[arg(long, value_name = "FILE", conflicts_with = "threads")]
    pub plan: Vec<PathBuf>,
    /// Plan for the side on the other host, made there by numaio plan --json
    #[arg(long, value_name = "FILE")]
    pub remote_plan: Option<PathBuf>,
    /// Number of reading threads, and of writing threads; default one per CPU, from 4 to 8, growing
    /// up to fourfold while they wait for storage; maximum 128, at a daemon 64
    #[arg(long, value_name = "N", value_parser = integer(1..=MAX_THREADS))]
    pub threads: Option<u32>,
    /// Whether idle threads help other storage devices and nodes where everything then ends sooner
    #[arg(long, value_name = "WHEN", default_value = "on")]
    pub work_sharing: WorkSharing,
    /// Direct I/O on large files: auto uses io_uring with many blocks in flight if available,
    /// threads uses one block per thread
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = choice::<Io>())]
    pub io: Io,
    /// Blocks past the page cache: auto those of large files, on all that are aligned, off none
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = choice::<DirectIo>())]
    pub direct: DirectIo,
    /// Size of the blocks of large files, which is also that of buffers: a power of two from 64K to
    /// 16M; default 1M, at a daemon at most 4M
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    pub block: Option<BlockSize>,
    /// Order in which the source reads files: auto by inode number, on rotational disks by
    /// position; physical always by position (FIEMAP); none as listed
    #[arg(long, value_name = "ORDER", default_value = "auto", value_parser = choice::<ReadOrder>())]
    pub order: ReadOrder,
    /// How threads share files: stripe reads one file by all threads, pipeline one block of each
    /// file at a time, auto both
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = choice::<ReadMode>())]
    pub mode: ReadMode,
}

/// Parses the size of a block.
fn block_size(text: &str) -> Result<BlockSize, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    BlockSize::new(bytes).map_err(|error| error.to_string())
}

impl TransferArgs {
    /// Returns the compression, given by either option.
    pub fn compress(&self) -> CompressMode {
        if self.compress_auto {
            CompressMode::Auto
        } else {
            self.compress
        }
    }
}
