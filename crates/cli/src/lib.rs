//! The `numaio` command: words for people, and the one place that picks the machine.
//!
//! A library, so that what it reads of others can be tried with anything: see [`decoders`].

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
mod machine;
mod output;
mod progress;
mod receipts;
mod ssh;
mod store;

use std::process::ExitCode;

/// Does what was typed, and gives the exit status.
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
