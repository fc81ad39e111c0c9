//! `numaio serve`: a daemon that clients copy to and from without ssh.

use super::copy::ModelPlacer;
use crate::failure::Failure;
use crate::options::Common;
use crate::output;
use clap::Args as ClapArgs;
use numaio_transfer::daemon::{self, count, LoadedConfig, Log};
use std::path::PathBuf;
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
    let log = Log::new(output::stderr_sink(), common.quiet);
    if args.session {
        let is_done = daemon::session::run(&log, &ModelPlacer)?;
        return Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if common.machine.is_some() || common.sysroot.is_some() {
        return Err(Failure::usage("a daemon serves this machine, not a recorded one"));
    }
    let loaded = LoadedConfig::read(&args.config).inspect_err(|error| log.errors_of(error))?;
    output::detail(format_args!("read {}", args.config.display()));
    if args.check {
        let daemon::Config { roots, users, .. } = &loaded.config;
        let (roots, users) = (count(roots.len(), "root"), count(users.len(), "user"));
        output::print(&format!("{}: no faults; {roots}, {users}\n", args.config.display()))?;
    } else {
        daemon::run(&log, &args.config, loaded)?;
    }
    Ok(ExitCode::SUCCESS)
}
