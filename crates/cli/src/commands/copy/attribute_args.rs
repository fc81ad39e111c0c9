//! Options that change attributes on the way.

use clap::Args;
use numaio_mover::mode_changes::ModeChanges;
use numaio_transfer::entry_options::{Chmod, Chown};

/// Options that change attributes on the way.
#[derive(Debug, Args)]
pub struct AttributeArgs {
    /// Change the modes of the source before they are applied: Du=rwx,Dgo=rx,Fu=rw,go-w, D2755,F644
    ///
    /// As for rsync, D limits a change to directories, F to other objects. Without --archive, only
    /// new objects get the modes, less the umask.
    #[arg(long, value_name = "CHANGES", value_parser = mode_changes)]
    chmod: Vec<String>,
    /// Set the owners of all entries, by names or IDs of the destination: USER, USER:GROUP or
    /// :GROUP
    ///
    /// Other users than root can set their own groups only.
    #[arg(long, value_name = "USER:GROUP", value_parser = owners)]
    pub chown: Option<Chown>,
}

impl AttributeArgs {
    /// Returns the changes of modes.
    pub fn chmod(&self) -> Option<Chmod> {
        let umask = numaio_mover_linux::files::umask();
        (!self.chmod.is_empty()).then(|| Chmod { changes: self.chmod.join(","), umask })
    }
}

fn mode_changes(text: &str) -> Result<String, String> {
    ModeChanges::parse(text, 0).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn owners(text: &str) -> Result<Chown, String> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let owner = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    match (owner(user), owner(group)) {
        (None, None) => Err("expected USER, USER:GROUP or :GROUP".to_owned()),
        (user, group) => Ok(Chown { user, group }),
    }
}
