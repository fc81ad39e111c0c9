//! `numaio copy --restrict`: the remote side for the owner of an ssh key, confined to a directory.

use super::ModelPlacer;
use crate::failure::Failure;
use clap::Args;
use numaio_mover::report::TransferOutcome;
use numaio_mover::wire::Side;
use numaio_transfer::restricted::{self, COMMAND_VARIABLE};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of a forced command of sshd.
#[derive(Debug, Args)]
#[command(next_help_heading = "Forced command of sshd")]
pub struct RestrictArgs {
    /// Serve only the remote side of numaio copy, with all paths below DIR:
    /// command="numaio copy --restrict DIR" in ~/.ssh/authorized_keys
    ///
    /// The owner of the key can run nothing else. Paths are relative to DIR, also those that begin
    /// with a slash.
    #[arg(long, value_name = "DIR", conflicts_with = "paths")]
    pub restrict: Option<PathBuf>,
    /// With --restrict: allow only copies from DIR
    #[arg(long, requires = "restrict", conflicts_with = "paths")]
    pub read_only: bool,
    /// With --restrict: allow only copies to DIR
    #[arg(long, requires = "restrict", conflicts_with_all = ["paths", "read_only"])]
    pub write_only: bool,
}

impl RestrictArgs {
    /// Serves the client of sshd, confined to a directory.
    pub fn serve(&self, directory: &Path) -> Result<ExitCode, Failure> {
        let side = match (self.read_only, self.write_only) {
            (true, _) => Some(Side::Source),
            (false, true) => Some(Side::Sink),
            (false, false) => None,
        };
        let command = std::env::var_os(COMMAND_VARIABLE);
        match restricted::serve(directory, side, command.as_deref(), &ModelPlacer) {
            Ok(served) if served.outcome == TransferOutcome::Done => Ok(ExitCode::SUCCESS),
            Ok(_) => Ok(ExitCode::FAILURE),
            Err(error) => Err(error.into()),
        }
    }
}
