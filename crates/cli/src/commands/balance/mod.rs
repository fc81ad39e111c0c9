//! `numaio balance`: moves running programs with their memory to better nodes.

mod args;
mod control_loop;
mod events;
mod selection;

use crate::commands::program_moves::BalanceConfig;
use crate::failure::Failure;
use crate::options::Common;
use crate::{input, receipts};
pub use args::BalanceArgs;
use std::process::ExitCode;

/// Runs `numaio balance`.
pub fn run(common: &Common, args: &BalanceArgs) -> Result<ExitCode, Failure> {
    if args.pids.is_empty() && !args.all && args.cgroups.is_empty() && args.units.is_empty() {
        return Err(Failure::usage("no program is selected")
            .hint("name process IDs, --cgroup or --service, or use --all; --dry-run moves nothing"));
    }
    let kernel = receipts::live_kernel(common)?;
    let config = match &args.config {
        Some(path) => BalanceConfig::parse(&input::read_text(path)?)
            .map_err(|error| Failure::file(path, error).hint("docs/guide/balance.md lists the fields"))?,
        None => BalanceConfig::default(),
    };
    control_loop::run(common, args, &config, kernel)
}
