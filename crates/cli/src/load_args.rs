//! Options of load beside measurements.

use crate::failure::Failure;
use clap::Args;
use numaio_schema::Load;

/// Options of load beside measurements.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Run N STREAM threads on node K, with memory on node M (default: K), beside every visit; for
    /// example 7:4 or 7:4,6:2
    ///
    /// The threads use CPUs that do not measure, as far as node K has any. K:0 runs none. For
    /// bench, --load can be repeated to measure under one load after the other: --load 7:0 --load
    /// 7:4 --load 7:8. Measurements under load are never used for placement.
    #[arg(long, value_name = "K:N[:M],...", value_parser = list)]
    pub load: Vec<LoadList>,
    /// Run this shell command beside every visit, and stop it afterwards
    ///
    /// It counts as running 0.2 s after its start. A command that exits earlier than the visit
    /// fails the visit.
    #[arg(long, value_name = "CMD")]
    pub load_command: Vec<String>,
}

/// Loads that run at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadList(pub Vec<Load>);

/// Parses loads, separated by commas.
///
/// # Errors
/// A message with the expected form.
pub fn list(text: &str) -> Result<LoadList, String> {
    text.split(',').map(str::parse).collect::<Result<_, String>>().map(LoadList)
}

impl LoadArgs {
    /// Returns whether a load is requested.
    pub fn is_given(&self) -> bool {
        !self.load.is_empty() || !self.load_command.is_empty()
    }

    /// Returns the loads of each measurement in turn: those of each `--load` together with all
    /// commands.
    pub fn in_turn(&self) -> Vec<Vec<Load>> {
        let commands = || self.load_command.iter().map(|command| Load::Command { command: command.clone() });
        let with_commands = |list: &LoadList| list.0.iter().cloned().chain(commands()).collect();
        match self.load.is_empty() {
            true => vec![commands().collect()],
            false => self.load.iter().map(with_commands).collect(),
        }
    }

    /// Returns the loads of the only measurement.
    ///
    /// # Errors
    /// A usage error if `--load` is repeated.
    pub fn at_once(&self) -> Result<Vec<Load>, Failure> {
        match self.load.len() {
            0 | 1 => Ok(self.in_turn().remove(0)),
            _ => Err(Failure::usage("--load is repeated, which only bench measures in turn")
                .hint("separate loads that run at the same time by commas: --load 7:4,6:4")),
        }
    }
}
