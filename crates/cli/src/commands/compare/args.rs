//! Arguments of `numaio compare`.

use crate::options::{node, percent, seconds};
use clap::Args;
use numaio_machine::ids::NodeId;
use std::path::PathBuf;

/// Value of `--baseline` without a file.
pub const PREVIOUS: &str = "previous";

/// Arguments of `numaio compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Target node; default: the first node that has devices
    #[arg(long, short = 'k', value_name = "K", value_parser = node, conflicts_with = "device")]
    pub node: Option<NodeId>,
    /// Device whose node is the target: eth0, nvme0n1, mlx5_0, 0000:3b:00.0
    #[arg(long, short, value_name = "DEV")]
    pub device: Option<String>,
    /// Compare documents of one machine instead of the saved documents of this machine
    ///
    /// numaio model, stream, latency and topology write them with --json. Of several documents with
    /// the same measurement, the newest is used.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// Add views from these files: documents with schema numaio/view/1, or measurements
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub with: Vec<PathBuf>,
    /// Compare the newest measurements with earlier ones of this host, and show changed classes and
    /// figures: with the previous saved ones, or with those of FILE
    ///
    /// A figure changed if the 95 % intervals do not overlap. Exit status 1 if anything changed.
    #[arg(
        long, value_name = "FILE", num_args = 0..=1, default_missing_value = PREVIOUS,
        conflicts_with_all = ["with", "all", "measure", "node", "device", "level", "all_pairs", "stats"]
    )]
    pub baseline: Option<PathBuf>,
    /// Compare every document, not only the newest of each kind
    #[arg(long)]
    pub all: bool,
    /// Take missing measurements
    #[arg(long, conflicts_with = "from")]
    pub measure: bool,
    /// Time limit of each missing measurement, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub time_limit: f64,
    /// Tolerance of a class: how far a member may be below the best of its class, in percent;
    /// default: 10, and for a view of --with its own
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub level: Option<f64>,
    /// Show all misordered pairs of nodes, not only the worst
    #[arg(long)]
    pub all_pairs: bool,
    /// Show the number of measurements, interval and drift of every value
    #[arg(long, conflicts_with = "json")]
    pub stats: bool,
    /// Print JSON: the saved document, with number, interval and drift of every value
    #[arg(long)]
    pub json: bool,
    /// Do not save the measurements and the comparison
    #[arg(long)]
    pub no_save: bool,
}
