//! Arguments of `numaio plan`.

use super::sizes;
use crate::options::{integer, node, seconds};
use clap::{Args, ValueEnum};
use numaio_machine::ids::NodeId;
use numaio_machine::near::Handle;
use numaio_machine::units::parse_size;
use numaio_schema::Objective;
use std::path::PathBuf;

/// Arguments of `numaio plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Storage and its bytes to send or receive, for example nvme0n1=2TB or /data=500G; may be
    /// repeated
    #[arg(long, value_name = "HANDLE=SIZE", value_parser = sizes::data, required_unless_present = "file")]
    pub data: Vec<(Handle, u64)>,
    /// NICs of the transfer: eth0, or host:NAME for the route to a host
    #[arg(long, value_name = "HANDLE", value_delimiter = ',', required_unless_present = "file")]
    pub nic: Vec<Handle>,
    /// Plan the receiving side
    #[arg(long)]
    pub receive: bool,
    /// Plan the sending side (default)
    #[arg(long, conflicts_with = "receive")]
    pub send: bool,
    /// Value to minimize: time of the slowest stage (default), or sum, as in Li's dissertation
    #[arg(long, value_name = "WHAT")]
    pub objective: Option<ObjectiveArg>,
    /// Limit of threads per node, for storage and network together; default: its number of cores
    #[arg(long, value_name = "C", value_parser = integer(0..=u32::MAX))]
    pub threads_per_node: Option<u32>,
    /// Nodes without threads
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = node)]
    pub no_threads_on: Vec<NodeId>,
    /// Cores to keep free on a node, for example for interrupts: NODE:CORES
    #[arg(long, value_name = "K:N", value_delimiter = ',', value_parser = sizes::reserve)]
    pub reserve: Vec<(NodeId, u32)>,
    /// Bytes per second of one thread on devices that were not measured, for example 1.5GB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub thread_bandwidth: Option<u64>,
    /// Bytes per second of a device that reports no or a wrong speed, for example eth0=12.5GB
    #[arg(long, value_name = "DEV=SIZE", value_delimiter = ',', value_parser = sizes::capacity)]
    pub capacity: Vec<(String, u64)>,
    /// Read the problem from FILE as TOML or JSON (docs/internals/planning.md); - for standard
    /// input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["machine", "sysroot", "data", "nic", "receive", "send", "threads_per_node", "no_threads_on", "reserve", "thread_bandwidth", "capacity"])]
    pub file: Option<PathBuf>,
    /// Stop after this time with the best plan so far and its proven gap, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    pub time_limit: f64,
    /// Simulate the plan and its baselines chunk by chunk, and report the simulated times
    #[arg(long)]
    pub simulate: bool,
    /// Print the problem as JSON for numaio plan --file, and do not solve it
    #[arg(long, conflicts_with_all = ["simulate", "svg"])]
    pub problem: bool,
    /// Print JSON: a plan for numaio copy, run and place --plan
    #[arg(long)]
    pub json: bool,
    /// Write a drawing of the flows to FILE as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Value that a plan minimizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ObjectiveArg {
    /// Time of the slowest stage
    Time,
    /// Sum of the times, as in Li's dissertation
    Sum,
}

impl ObjectiveArg {
    /// Returns the objective.
    pub fn objective(self) -> Objective {
        match self {
            Self::Time => Objective::Time,
            Self::Sum => Objective::Sum,
        }
    }
}
