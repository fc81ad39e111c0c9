//! `numaio serve`: a daemon whose roots others copy to and from, without ssh.
//!
//! The process that listens reads nothing of what strangers send but whose data connection one is ([`lobby`]): each other
//! connection gets a process of its own ([`session`]), which finds out whose it is, and confines itself before it does anything for them.

pub mod config;
pub mod decoded;
mod desk;
mod house;
mod listener;
mod lobby;
mod notify;
mod session;

use crate::args::Common;
use crate::failure::Failure;
use crate::{input, output};
use clap::Args as ClapArgs;
use config::{Config, Fault};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run a daemon: named directories that others copy to and from, without ssh.
///
/// Its file says which directories (roots) there are, and which users may read or write in them. A user is known by a key that
/// numaio keygen made, the daemon by its own; both prove it by TLS 1.3. Nothing outside of the roots is reached, whatever
/// names or links the other side sends. Users copy by numaio copy SRC numaio://HOST/ROOT/PATH, or the other way.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub struct ServeArgs {
    /// What the daemon is told
    #[arg(long, value_name = "FILE", default_value = "/etc/numaio/serve.toml")]
    pub config: PathBuf,
    /// Read the file, say all that is wrong with it, and end
    #[arg(long)]
    pub check: bool,
    /// Be a session; the daemon says so
    #[arg(long, hide = true, conflicts_with_all = ["config", "check"])]
    pub session: bool,
}

const AFTER_HELP: &str = "\
A file for alice, who may write, and bob, who may only read:
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

SIGHUP reads the file again, for new sessions; the old one stays if the new one has faults other
than roots that cannot be used.
SIGTERM takes no more sessions, and lets those that run end. docs/copy/daemon.md has all that the file may
say, and a unit for systemd.

Exit status: 0 ended as asked, or the file has no faults; 1 failed, or it has some; 2 wrong usage.";

pub fn run(common: &Common, args: &ServeArgs) -> Result<ExitCode, Failure> {
    if args.session {
        return session::run(common);
    }
    if common.machine.is_some() || common.sysroot.is_some() {
        return Err(Failure::usage("a daemon serves this machine, not a recorded one"));
    }
    let told = Told::read(&args.config)?;
    if !args.check {
        return listener::run(common, &args.config, told);
    }
    let Config { roots, users, .. } = &told.config;
    let (path, roots, users) = (args.config.display(), roots.len(), users.len());
    output::print(&format!("{path}: no faults; {}, {}\n", count(roots, "root"), count(users, "user")))?;
    Ok(ExitCode::SUCCESS)
}

fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// What the daemon was told, and its text, which sessions are told.
struct Told {
    config: Config,
    text: String,
}

impl Told {
    /// Reads a file, and looks at what it names. All faults are told on standard error.
    fn read(path: &Path) -> Result<Self, Failure> {
        let (told, mut faults) = Self::parse(path)?;
        faults.extend(told.config.look_at_roots());
        faults.extend(told.config.look_at_key());
        faults.sort();
        told.unless(path, &faults)
    }

    /// Reads a file for a daemon that runs, and looks at its key. Roots that cannot be used are no reason to go by the old file: whoever
    /// was taken out of it would keep what they had.
    fn read_again(path: &Path) -> Result<Self, Failure> {
        let (told, mut faults) = Self::parse(path)?;
        faults.extend(told.config.look_at_key());
        faults.sort();
        told.unless(path, &faults)
    }

    /// Tells which roots cannot be used, and how many. It waits for each as long as that does not answer.
    fn look_at_roots(&self, common: &Common, path: &Path) {
        let bad = self.config.look_at_roots();
        tell(path, &bad);
        if !bad.is_empty() {
            let (path, bad) = (path.display(), count(bad.len(), "root"));
            log(common, &format!("{bad} cannot be used as {path} says"));
        }
    }

    fn unless(self, path: &Path, faults: &[Fault]) -> Result<Self, Failure> {
        match faults {
            [] => Ok(self),
            faults => Err(refused(path, faults)),
        }
    }

    /// What can be read of a file, and the faults of its text.
    fn parse(path: &Path) -> Result<(Self, Vec<Fault>), Failure> {
        let text = input::bytes(path).map_err(|error| {
            Failure::file(path, error).hint("--config names the file; numaio serve --help shows a short one")
        })?;
        let text = String::from_utf8(text).map_err(|_| Failure::file(path, "it is no text"))?;
        let (config, faults) = Config::parse_in_part(&text);
        Ok((Self { config, text }, faults))
    }
}

fn tell(path: &Path, faults: &[Fault]) {
    let shown = path.display();
    let lines: String =
        faults.iter().map(|Fault { line, text }| format!("{shown}:{line}: {text}\n")).collect();
    // Nobody to tell if this fails.
    let _ = io::stderr().write_all(lines.as_bytes());
}

fn refused(path: &Path, faults: &[Fault]) -> Failure {
    tell(path, faults);
    Failure::file(path, format!("it has {}", count(faults.len(), "fault")))
        .hint("docs/copy/daemon.md has all that it may say")
}

/// A line of the log, on standard error, written at once: several processes write there.
fn log(common: &Common, text: &str) {
    if !common.quiet {
        // Nobody to tell if this fails.
        let _ = io::stderr().write_all(format!("numaio: {text}\n").as_bytes());
    }
}
