//! How files are moved, as it is typed.

use clap::{Args, ValueEnum};
use numaio_machine::units::parse_size;
use numaio_mover::hash::HashKind;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(next_help_heading = "How")]
pub struct HowArgs {
    /// Hash by which every part of a file is checked; none trusts memory and the way
    #[arg(long, value_name = "HASH", default_value = "xxh3")]
    pub hash: Hash,
    /// When data is made durable: none leaves it to the kernel, file before a file gets its name, end at the end
    #[arg(long, value_name = "WHEN", default_value = "none")]
    pub fsync: Fsync,
    /// Most bytes of data a second: 10M, 1GiB
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub bwlimit: Option<u64>,
    /// Where threads and buffers are: local is the node of the storage, model the best node by the saved model, none
    /// leaves it to the kernel
    #[arg(long, value_name = "WHERE", default_value = "local")]
    pub placement: Placement,
    /// Threads and buffers as a plan of numaio plan --json has them, on the side that is here; - for standard input
    ///
    /// A plan to send is for the side that reads, one to receive for the side that writes; give both where both are here.
    #[arg(long, value_name = "FILE", conflicts_with = "threads")]
    pub plan: Vec<PathBuf>,
    /// Threads that read, and as many that write; without it one for each CPU, from 2 to 8
    #[arg(long, value_name = "N", value_parser = crate::args::count)]
    pub threads: Option<u32>,
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

/// Where threads and buffers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Placement {
    Local,
    Model,
    None,
}
