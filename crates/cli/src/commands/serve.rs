//! `numaio serve`: a daemon that clients copy to and from without ssh.
//!
//! The listening process reads only the tickets of data connections ([`pending_connections`]). Each
//! other connection gets its own process ([`session`]), which authenticates the client and confines
//! itself.

pub mod config;
pub mod decode;
mod listener;
mod notify;
mod pending_connections;
mod session;
mod session_ipc;
mod session_table;

use crate::failure::Failure;
use crate::options::Common;
use crate::{input, output};
use clap::Args as ClapArgs;
use config::{Config, ConfigError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run a daemon that serves directories without ssh
///
/// The configuration file names the directories (roots) and the users with read or write access.
/// Users and the daemon prove their keys (numaio keygen) by TLS 1.3. Clients cannot reach anything
/// outside of the roots, whatever names or links they send. Users copy by numaio copy SRC
/// numaio://HOST/ROOT/PATH, or in reverse.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub struct ServeArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/numaio/serve.toml")]
    pub config: PathBuf,
    /// Check the configuration file, print all errors in it and exit
    #[arg(long)]
    pub check: bool,
    /// Run a session; only the daemon uses this
    #[arg(long, hide = true, conflicts_with_all = ["config", "check"])]
    pub session: bool,
}

const AFTER_HELP: &str = "\
A file that lets alice read and write, and bob only read:
  # made by: numaio keygen /etc/numaio/key
  key = \"/etc/numaio/key\"
  [root.data]
  path = \"/srv/data\"
  # every user below
  read = \"*\"
  write = \"alice\"
  [user.alice]
  # what numaio keygen printed for alice
  keys = \"ed25519:...\"
  [user.bob]
  keys = \"ed25519:...\"

SIGHUP reloads the file for new sessions. If the file has errors other than unusable roots, the
previous configuration stays.
SIGTERM stops accepting sessions and waits for the running ones. docs/copy/daemon.md describes the file and
has a unit for systemd.

Exit status: 0 stopped by a signal, or no errors found; 1 failed, or errors found; 2 wrong usage.";

/// Runs `numaio serve`.
pub fn run(common: &Common, args: &ServeArgs) -> Result<ExitCode, Failure> {
    if args.session {
        return session::run(common);
    }
    if common.machine.is_some() || common.sysroot.is_some() {
        return Err(Failure::usage("a daemon serves this machine, not a recorded one"));
    }
    let loaded = LoadedConfig::read(&args.config)?;
    if !args.check {
        return listener::run(common, &args.config, loaded);
    }
    let Config { roots, users, .. } = &loaded.config;
    let (path, roots, users) = (args.config.display(), roots.len(), users.len());
    output::print(&format!("{path}: no faults; {}, {}\n", count(roots, "root"), count(users, "user")))?;
    Ok(ExitCode::SUCCESS)
}

fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A configuration with its text, which the daemon passes on to its sessions.
struct LoadedConfig {
    config: Config,
    text: String,
}

impl LoadedConfig {
    /// Reads a file, checks its roots and its key, and prints all errors to standard error.
    fn read(path: &Path) -> Result<Self, Failure> {
        let (loaded, mut errors) = Self::parse(path)?;
        errors.extend(loaded.config.check_roots());
        errors.extend(loaded.config.check_key());
        errors.sort();
        loaded.ok_without(path, &errors)
    }

    /// Reads a file for a running daemon and checks its key.
    ///
    /// An unusable root does not reject the file: otherwise users who were removed from it would
    /// keep access.
    fn reload(path: &Path) -> Result<Self, Failure> {
        let (loaded, mut errors) = Self::parse(path)?;
        errors.extend(loaded.config.check_key());
        errors.sort();
        loaded.ok_without(path, &errors)
    }

    /// Reports the unusable roots and their number; blocks while a root does not respond.
    fn check_roots(&self, common: &Common, path: &Path) {
        let bad = self.config.check_roots();
        print_errors(path, &bad);
        if !bad.is_empty() {
            let (path, bad) = (path.display(), count(bad.len(), "root"));
            log(common, &format!("{bad} cannot be used as {path} configures"));
        }
    }

    /// Returns the configuration, or prints `errors` and fails if there are any.
    fn ok_without(self, path: &Path, errors: &[ConfigError]) -> Result<Self, Failure> {
        match errors {
            [] => Ok(self),
            errors => Err(invalid_config(path, errors)),
        }
    }

    /// Parses a file as far as possible, and returns the errors of its text.
    fn parse(path: &Path) -> Result<(Self, Vec<ConfigError>), Failure> {
        let text = input::read_bytes(path).map_err(|error| {
            Failure::file(path, error).hint("--config names the file; numaio serve --help shows an example")
        })?;
        let text = String::from_utf8(text).map_err(|_| Failure::file(path, "the file is not UTF-8 text"))?;
        let (config, errors) = Config::parse_recoverable(&text);
        Ok((Self { config, text }, errors))
    }
}

fn print_errors(path: &Path, errors: &[ConfigError]) {
    let shown = path.display();
    let lines: String =
        errors.iter().map(|ConfigError { line, text }| format!("{shown}:{line}: {text}\n")).collect();
    // A failure to write to standard error cannot be reported anywhere.
    let _ = io::stderr().write_all(lines.as_bytes());
}

fn invalid_config(path: &Path, errors: &[ConfigError]) -> Failure {
    print_errors(path, errors);
    Failure::file(path, count(errors.len(), "error")).hint("docs/copy/daemon.md describes the file")
}

/// Writes a line of the log to standard error in one call, because several processes write there.
fn log(common: &Common, text: &str) {
    if !common.quiet {
        // A failure to write to standard error cannot be reported anywhere.
        let _ = io::stderr().write_all(format!("numaio: {text}\n").as_bytes());
    }
}
