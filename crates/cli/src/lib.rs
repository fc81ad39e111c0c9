//! The `numaio` command: arguments, output, and the only place that picks the machine.
//!
//! It is a library so that fuzz targets can call its parsers of untrusted input: see [`decoders`].

mod args;
mod balancing;
mod commands;
pub mod decoders;
mod documents;
mod failure;
mod input;
mod interleave;
mod jobs;
mod keys;
mod locale;
mod machine;
mod output;
mod progress;
mod receipts;
mod ssh;
mod store;

use std::process::ExitCode;

/// Runs the command line, and returns the exit status.
pub fn main() -> ExitCode {
    numaio_linux::process::restore_sigchld_default();
    let done = match args::RunInvocation::from_command_line() {
        Some(invocation) => commands::run::run(&invocation.common, invocation.run()),
        None => commands::run(&args::Args::from_command_line()),
    };
    match done {
        Ok(code) => code,
        Err(failure) => output::report_failure(&failure),
    }
}
