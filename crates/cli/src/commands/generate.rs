//! `numaio generate`: writes man pages and shell completions, for packagers.

use crate::args::{Args, GenerateArgs, Generated};
use crate::failure::Failure;
use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::Shell;
use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

/// Runs `numaio generate`.
pub fn run(args: &GenerateArgs) -> Result<ExitCode, Failure> {
    let failed = |error| Failure::file(&args.dir, error);
    fs::create_dir_all(&args.dir).map_err(failed)?;
    let command = Args::command();
    match args.what {
        Generated::Man => clap_mangen::generate_to(command, &args.dir).map_err(failed)?,
        Generated::Completions => {
            let mut command = visible(&command);
            for shell in Shell::value_variants() {
                let path = clap_complete::generate_to(*shell, &mut command, "numaio", &args.dir);
                let path = path.map_err(failed)?;
                if *shell == Shell::Bash {
                    use_bash_file_completion(&path).map_err(|error| Failure::file(&path, error))?;
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Replaces clap's completion of file names, which splits names at blanks and adds a blank after
/// directories.
///
/// Without suggestions, bash completes file names itself (`complete -o default`), with quotes and
/// slashes. `-o filenames` would also apply to commands, and add a slash to `copy` if a directory of
/// that name exists.
fn use_bash_file_completion(path: &Path) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    fs::write(path, text.replace(r#"COMPREPLY=($(compgen -f "${cur}"))"#, "COMPREPLY=()"))
}

/// Copies a command without its hidden arguments and subcommands.
fn visible(command: &Command) -> Command {
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned();
    let below = command.get_subcommands().filter(|command| !command.is_hide_set()).map(visible);
    // clap requires a static name, and the process ends soon.
    let name: &'static str = command.get_name().to_owned().leak();
    let has_own_help = command.is_disable_help_flag_set();
    let visible = Command::new(name).disable_help_flag(has_own_help).args(args).subcommands(below);
    let visible =
        if command.get_version().is_some() { visible.version(env!("CARGO_PKG_VERSION")) } else { visible };
    match command.get_about() {
        Some(about) => visible.about(about.clone()),
        None => visible,
    }
}
