//! The `numaio` command: words for people, and the one place that picks the machine.

mod args;
mod balancing;
mod commands;
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

use clap::Parser;
use std::process::ExitCode;

/// musl's own maps and unmaps memory for much that is small, and keeps threads waiting for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match args::Start::typed() {
        Some(start) => commands::run::run(&start.common, start.run()),
        None => commands::run(&args::Args::parse()),
    };
    match done {
        Ok(code) => code,
        Err(failure) => output::fail(&failure),
    }
}
