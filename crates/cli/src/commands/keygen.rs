//! `numaio keygen`: generate the key of a user or of a daemon.

use crate::failure::Failure;
use crate::options::Common;
use crate::output;
use clap::Args as ClapArgs;
use numaio_transfer::keys;
use std::path::PathBuf;
use std::process::ExitCode;

/// Generate a client or daemon key
///
/// The private key is written to a file that only you can read. The public key is printed: the
/// administrator of a daemon adds it to the user in the daemon's file, and users pass the daemon's
/// key to numaio copy --trust.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub struct KeygenArgs {
    /// File of the private key; default ~/.config/numaio/key, or numaio/key in XDG_CONFIG_HOME if
    /// that is set
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Print the public key of an existing file instead
    #[arg(long)]
    pub public: bool,
}

const AFTER_HELP: &str = "\
Examples:
  numaio keygen                            your own key
  numaio keygen /etc/numaio/key            the key of a daemon
  numaio keygen --public                   the public key to give to others";

/// Runs `numaio keygen`.
pub fn run(common: &Common, args: &KeygenArgs) -> Result<ExitCode, Failure> {
    let path = keys::path(args.file.as_deref())?;
    if path.is_dir() {
        return Err(Failure::file(&path, "it is a directory").hint("name a file for the key"));
    }
    let public = match args.public {
        true => keys::public(&keys::read(&path)?)?,
        false => keys::generate(&path)?,
    };
    output::print(&format!("{public}\n"))?;
    if !args.public {
        let path = path.display();
        output::remark(common, &format!("wrote the private key to {path}; the line above is the public key"));
    }
    Ok(ExitCode::SUCCESS)
}
