//! `numaio generate`: man pages and shell completions, for packagers.

use crate::args::{Args, GenerateArgs, Generated};
use crate::failure::Failure;
use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::Shell;
use std::fs;
use std::process::ExitCode;

pub fn run(args: &GenerateArgs) -> Result<ExitCode, Failure> {
    let failed = |error| Failure::file(&args.dir, error);
    fs::create_dir_all(&args.dir).map_err(failed)?;
    let command = Args::command();
    match args.what {
        Generated::Man => clap_mangen::generate_to(command, &args.dir).map_err(failed)?,
        Generated::Completions => {
            let mut command = shown(&command);
            for shell in Shell::value_variants() {
                clap_complete::generate_to(*shell, &mut command, "numaio", &args.dir).map_err(failed)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A command without what is hidden in it, which completions would offer.
fn shown(command: &Command) -> Command {
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned();
    let below = command.get_subcommands().filter(|command| !command.is_hide_set()).map(shown);
    // clap keeps names of programs for ever, and this one ends soon.
    let name: &'static str = command.get_name().to_owned().leak();
    let has_own_help = command.is_disable_help_flag_set();
    let shown = Command::new(name).disable_help_flag(has_own_help).args(args).subcommands(below);
    let shown =
        if command.get_version().is_some() { shown.version(env!("CARGO_PKG_VERSION")) } else { shown };
    match command.get_about() {
        Some(about) => shown.about(about.clone()),
        None => shown,
    }
}
