//! The `numaio` command: arguments, output, and the only place that picks the machine.

mod args;
mod balancing;
mod commands;
mod config;
mod device_arguments;
mod documents;
mod failure;
mod input;
mod interleave;
mod load_args;
mod locale;
mod machine;
mod options;
mod output;
mod progress;
mod receipts;
mod store;
mod supervised_run;
mod temporary_change;

/// Parsers of the files that users write. The fuzz targets use them, and nothing else imports them.
pub mod text_files {
    pub use crate::commands::plan::parse_problem;
    pub use crate::commands::program_moves::BalanceConfig;
    pub use crate::commands::vm::parse_guests;
    pub use crate::config::parse as parse_settings;
}

use args::{Args, RunOnly};
use options::Invocation;
use std::process::ExitCode;
use std::time::Instant;

/// Runs the command line, and returns the exit status.
pub fn main() -> ExitCode {
    numaio_linux::process::restore_sigchld_default();
    let start = Instant::now();
    match config::apply() {
        // Help states what a file may contain.
        Err(failure) if !args::requests_help() => return output::report_failure(&failure),
        _ => {}
    }
    if let Some(common) = args::nothing_requested() {
        let shown = commands::overview::run(&common);
        return shown.unwrap_or_else(|failure| output::report_failure(&failure));
    }
    let done = match args::run_only() {
        Some(Invocation { common, command: RunOnly::Run(args) }) => {
            output::set_verbose(&common);
            commands::run::run(&common, &args)
        }
        None => {
            let args = Args::from_command_line();
            output::set_verbose(&args.common);
            if let Some(status) = supervised_run::supervise(&args) {
                return status;
            }
            args.run()
        }
    };
    output::detail(format_args!("finished after {:.2} s", start.elapsed().as_secs_f64()));
    done.unwrap_or_else(|failure| output::report_failure(&failure))
}
