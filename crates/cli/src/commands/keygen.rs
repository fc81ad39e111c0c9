//! `numaio keygen`: a key of this user, or of a daemon.

use crate::args::Common;
use crate::failure::Failure;
use crate::{keys, output};
use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Make a key by which daemons know you, or by which a daemon is known.
///
/// The key is a file that only you can read: whoever has it is you. Its public half is printed, for others. Who runs a
/// daemon writes that of each user into its file; users are told that of the daemon, and give it to numaio copy by --trust.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub struct KeygenArgs {
    /// Where the key is kept; without it ~/.config/numaio/key, or numaio/key in XDG_CONFIG_HOME if that is set
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Make none, and print the public half of the one that is there
    #[arg(long)]
    pub public: bool,
}

const AFTER_HELP: &str = "\
Examples:
  numaio keygen                            your own
  numaio keygen /etc/numaio/key            that of a daemon
  numaio keygen --public                   what to tell others";

pub fn run(common: &Common, args: &KeygenArgs) -> Result<ExitCode, Failure> {
    let path = keys::path(args.file.as_deref())?;
    if path.is_dir() {
        return Err(
            Failure::file(&path, "it is a directory").hint("name the file in it that is to have the key")
        );
    }
    let public = match args.public {
        true => keys::public(&keys::read(&path)?)?,
        false => keys::generate(&path)?,
    };
    output::print(&format!("{public}\n"))?;
    if !args.public {
        let path = path.display();
        output::remark(common, &format!("the key is {path}; the line above is its public half, for others"));
    }
    Ok(ExitCode::SUCCESS)
}
