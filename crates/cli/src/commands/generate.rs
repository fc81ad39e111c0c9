//! `numaio generate`: man pages and shell completions, for packagers.

use crate::args::{Args, GenerateArgs, Generated};
use crate::failure::Failure;
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use std::fs;
use std::process::ExitCode;

pub fn run(args: &GenerateArgs) -> Result<ExitCode, Failure> {
    let failed = |error| Failure::file(&args.dir, error);
    fs::create_dir_all(&args.dir).map_err(failed)?;
    let mut command = Args::command();
    match args.what {
        Generated::Man => clap_mangen::generate_to(command, &args.dir).map_err(failed)?,
        Generated::Completions => {
            for shell in Shell::value_variants() {
                clap_complete::generate_to(*shell, &mut command, "numaio", &args.dir).map_err(failed)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
