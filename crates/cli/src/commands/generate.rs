//! `numaio generate`: man pages, shell completions and JSON Schemas.

use crate::failure::Failure;
use crate::output;
use clap::{Args as ClapArgs, Command, Subcommand, ValueEnum};
use clap_complete::Shell;
use numaio_linux::user_files;
use numaio_schema::{json_schemas, DocumentSchema};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Print shell completions, man pages or JSON Schemas
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub struct GenerateArgs {
    #[command(subcommand)]
    output: Generated,
}

#[derive(Debug, Subcommand)]
enum Generated {
    /// Print the completions of a shell
    Completions {
        /// Shell to complete for
        #[arg(required_unless_present = "dir")]
        shell: Option<Shell>,
        /// Write the completions of all shells to DIR instead
        #[arg(long, value_name = "DIR", conflicts_with = "shell")]
        dir: Option<PathBuf>,
    },
    /// Print a man page
    Man {
        /// Command to document, such as `bench disk` [default: numaio itself]
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
        /// Write the pages of all commands to DIR instead
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        dir: Option<PathBuf>,
    },
    /// Print the JSON Schema of a stored document
    Schemas {
        /// Document to describe, such as `model` or `prediction/1`; the newest version by default
        #[arg(required_unless_present = "dir")]
        document: Option<String>,
        /// Write the schemas of all documents to DIR instead
        #[arg(long, value_name = "DIR", conflicts_with = "document")]
        dir: Option<PathBuf>,
    },
}

const AFTER_HELP: &str = "\
Examples:
  numaio generate completions bash > ~/.local/share/bash-completion/completions/numaio
  numaio generate completions zsh > ~/.zfunc/_numaio
  numaio generate completions fish > ~/.config/fish/completions/numaio.fish
  numaio generate man copy | man -l -         read one page
  numaio generate man --dir /usr/local/share/man/man1
  numaio generate schemas model > model-1.json
  numaio generate schemas --dir schemas       write one file per document";

/// Runs `numaio generate` for the command line `numaio`.
pub fn run(args: &GenerateArgs, numaio: Command) -> Result<ExitCode, Failure> {
    match &args.output {
        Generated::Completions { dir: Some(dir), .. } => write_completions(dir, &numaio)?,
        Generated::Completions { shell, .. } => {
            output::print(&completions(shell.unwrap_or(Shell::Bash), &numaio))?;
        }
        Generated::Man { dir: Some(dir), .. } => write_man_pages(dir, numaio)?,
        Generated::Man { command, .. } => output::print(&man_page(command, numaio)?)?,
        Generated::Schemas { dir: Some(dir), .. } => write_schemas(dir)?,
        Generated::Schemas { document, .. } => {
            output::print(&schema(document.as_deref().unwrap_or_default())?.to_text())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_completions(dir: &Path, numaio: &Command) -> Result<(), Failure> {
    create_dir(dir)?;
    for shell in Shell::value_variants() {
        let path = dir.join(clap_complete::Generator::file_name(shell, "numaio"));
        output::write(&path, &completions(*shell, numaio))?;
    }
    Ok(())
}

fn write_man_pages(dir: &Path, numaio: Command) -> Result<(), Failure> {
    create_dir(dir)?;
    let mut numaio = numaio.disable_help_subcommand(true);
    numaio.build();
    write_man_page(dir, numaio)
}

/// Writes the pages of a command and those below it, in files as by `clap_mangen::generate_to`.
fn write_man_page(dir: &Path, command: Command) -> Result<(), Failure> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_man_page(dir, below.clone())?;
    }
    let page = clap_mangen::Man::new(command);
    output::write(&dir.join(page.get_filename()), &rendered(&page)?).map(drop)
}

fn rendered(page: &clap_mangen::Man) -> Result<String, Failure> {
    let mut text = Vec::new();
    let rendered: io::Result<()> = page.render(&mut text);
    rendered.map_err(Failure::new)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn write_schemas(dir: &Path) -> Result<(), Failure> {
    create_dir(dir)?;
    for schema in json_schemas() {
        let path = dir.join(schema.file_name());
        output::write(&path, &schema.to_text())?;
    }
    Ok(())
}

/// Returns the schema of a document that the user named; of several versions the newest.
fn schema(name: &str) -> Result<DocumentSchema, Failure> {
    let mut named = json_schemas().into_iter().filter(|schema| schema.is_named(name));
    named.next_back().ok_or_else(|| {
        let ids = json_schemas().into_iter().map(|schema| schema.id).collect::<Vec<_>>().join(", ");
        Failure::usage(format!("no document '{}'", name.escape_debug())).hint(format!("documents: {ids}"))
    })
}

fn create_dir(dir: &Path) -> Result<(), Failure> {
    user_files::create_directory(dir, 0o777).map_err(|error| Failure::file(dir, error))
}

/// Returns the completion script of a shell.
fn completions(shell: Shell, numaio: &Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(numaio), "numaio", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Bash {
        use_bash_file_completion(&script)
    } else {
        script
    }
}

/// Leaves the completion of file names to bash.
///
/// clap splits file names at blanks, and bash appends a blank to a directory. Where the script
/// offers nothing, bash completes file names itself (`complete -o default`), with quotes and
/// slashes. `-o filenames` would apply to all words: with a directory `copy`, bash would append a
/// slash to the command.
fn use_bash_file_completion(script: &str) -> String {
    script.replace(r#"COMPREPLY=($(compgen -f "${cur}"))"#, "COMPREPLY=()")
}

/// Returns the man page of numaio or of a command, given as the names of the command and its
/// subcommands.
fn man_page(names: &[String], mut command: Command) -> Result<String, Failure> {
    command.build();
    for name in names {
        let found = command.find_subcommand(name).cloned();
        command = found.ok_or_else(|| {
            Failure::usage(format!("no command '{}'", names.join(" ")))
                .hint("numaio --help lists the commands")
        })?;
    }
    rendered(&clap_mangen::Man::new(command))
}

/// Copies a command without its hidden options and subcommands, which completions would offer.
fn visible(command: &Command) -> Command {
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned();
    let below = command.get_subcommands().filter(|command| !command.is_hide_set()).map(visible);
    // clap needs static names; the process ends soon.
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
