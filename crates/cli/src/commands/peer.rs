//! `numaio peer`: the remote side of a transfer, which numaio starts by ssh.

use super::copy::ModelPlacer;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use numaio_mover::report::TransferOutcome;
use numaio_mover_linux::port::StreamPair;
use numaio_transfer::peer;
use std::io;
use std::process::ExitCode;

/// Arguments of the internal `numaio peer`.
#[derive(Debug, ClapArgs)]
pub struct PeerArgs {
    /// Run one side of numaio copy
    #[arg(long, required = true)]
    pub copy: bool,
}

/// Runs `numaio peer`.
pub fn run() -> Result<ExitCode, Failure> {
    numaio_linux::interrupt::install().map_err(Failure::new)?;
    let ends = StreamPair { from: Box::new(io::stdin()), to: Box::new(io::stdout()) };
    // The other side has received the failure and reports it.
    Ok(match peer::serve(ends, None, None, &ModelPlacer) {
        Ok(served) if served.outcome == TransferOutcome::Done => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::FAILURE,
    })
}
