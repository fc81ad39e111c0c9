//! Options of `numaio balance`.

use crate::commands::program_moves::MovedTogether;
use crate::options::{integer, interval, seconds};
use clap::Args;
use numaio_machine::units::parse_size;
use std::path::PathBuf;
use std::time::Duration;

/// Move running programs with their memory to better nodes for their devices.
///
/// numaio observes threads, memory and I/O of programs. Where the model or measured I/O promises a
/// gain that exceeds the cost of a move, it moves the threads and the private memory of a program
/// together. A receipt is saved before each move: numaio undo reverts it, even after numaio was
/// killed. Affinity, memory policies and cpusets of programs are respected. Programs of other
/// users, real-time threads and pinned memory are left alone.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct BalanceArgs {
    /// Process IDs
    #[arg(value_name = "PID", value_parser = integer(1..=u32::MAX))]
    pub pids: Vec<u32>,
    /// Balance all programs that numaio may move
    #[arg(long, conflicts_with = "pids")]
    pub all: bool,
    /// Balance the programs of this control group and those below it; repeatable
    #[arg(long = "cgroup", value_name = "PATH", conflicts_with_all = ["pids", "all"])]
    pub cgroups: Vec<String>,
    /// Balance the programs of this systemd unit; repeatable
    #[arg(long = "service", value_name = "UNIT", conflicts_with_all = ["pids", "all"])]
    pub units: Vec<String>,
    /// Only programs that use this device; repeatable
    #[arg(long, short, value_name = "DEV")]
    pub device: Vec<String>,
    /// Threads that are moved together: those of a process, or of a control group
    #[arg(long, value_name = "GROUP", default_value = "process")]
    pub together: MovedTogether,
    /// Time between observations, such as 2s or 500ms
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "2s", allow_negative_numbers = true)]
    pub every: Duration,
    /// Observe once, move what gains, report and exit
    #[arg(long)]
    pub once: bool,
    /// Decide and report, but move nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Report every decision and its reason, not only moves
    #[arg(long)]
    pub explain: bool,
    /// Print one JSON object per event and line
    #[arg(long)]
    pub json: bool,
    /// Read limits, and lists of allowed and denied programs, from FILE
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write metrics in the format of node_exporter's textfile collector to FILE after each round
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// Seconds within which a move must pay off [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub horizon: Option<f64>,
    /// Least seconds for which a moved program stays [default: 15]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub cool_down: Option<f64>,
    /// Memory to move per second, on average, for example 256M [default: 244M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub limit: Option<u64>,
    /// Move programs against their own affinity and memory policies, within their cpusets
    #[arg(long = "override")]
    pub override_policies: bool,
    /// Switch automatic NUMA balancing off meanwhile; requires root
    #[arg(long)]
    pub pause_balancing: bool,
}

const AFTER_HELP: &str = "\
Examples:
  numaio balance --all --dry-run --once --explain    show what would be moved, and why
  numaio balance 4711 --once                         move one program now
  numaio balance --service db.service                balance a service until Ctrl-C
  numaio undo                                        revert the newest move

Exit status: 0 ended; 1 failed, or a named process does not exist; 2 wrong usage.";
