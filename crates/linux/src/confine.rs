//! Confining this process by Landlock (`Documentation/userspace-api/landlock.rst`): what it may reach of the file systems and
//! of the network, whatever is done in it from then on. No rights are needed for it, and none come back.

use crate::accounts;
use crate::files::Directory;
use landlock::{
    Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, ABI,
};
use std::io;

/// The newest version of Landlock that is made use of; where the kernel has an older one, less is confined.
const MAX_ABI: ABI = ABI::V6;

/// Files that tell about this machine, which decides where threads and buffers are, and who owns what. They may be read.
const READABLE_PATHS: [(&str, &[AccessFs]); 5] = [
    ("/sys", &[AccessFs::ReadFile, AccessFs::ReadDir]),
    ("/proc", &[AccessFs::ReadFile, AccessFs::ReadDir]),
    ("/etc/passwd", &[AccessFs::ReadFile]),
    ("/etc/group", &[AccessFs::ReadFile]),
    ("/etc/nsswitch.conf", &[AccessFs::ReadFile]),
];

/// What may be done below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Files and directories are read.
    Read,
    /// They are also made, changed and removed.
    Write,
}

/// How far this process is confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfinementStatus {
    /// To all that was asked for.
    Full,
    /// The kernel knows an older Landlock: files are confined, and not all of the rest.
    Partial,
    /// The kernel has no Landlock, or it is off.
    Unsupported,
}

/// From now on this thread, and those that it starts, reach below some directories only, each with its rights, and read what
/// tells about this machine. They connect to nobody, signal no process from before, and run no other program with more
/// rights. To be called before there are other threads.
///
/// # Errors
/// Words of the kernel, where it has Landlock and does not do it.
pub fn confine(directories: &[(&Directory, Rights)]) -> io::Result<ConfinementStatus> {
    // What the C library loads to find names of users it loads now.
    drop(accounts::user_name(0));
    let status =
        create_ruleset(directories).and_then(RulesetCreated::restrict_self).map_err(io::Error::other)?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => ConfinementStatus::Full,
        RulesetStatus::PartiallyEnforced => ConfinementStatus::Partial,
        RulesetStatus::NotEnforced => ConfinementStatus::Unsupported,
    })
}

fn create_ruleset(directories: &[(&Directory, Rights)]) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(MAX_ABI))?
        .handle_access(AccessNet::ConnectTcp)?
        .scope(Scope::from_all(MAX_ABI))?
        .create()?;
    for (directory, rights) in directories {
        rules = rules.add_rule(PathBeneath::new(*directory, rights.access()))?;
    }
    for (path, rights) in READABLE_PATHS {
        // What is not there is not needed.
        let Ok(path) = PathFd::new(path) else { continue };
        rules = rules.add_rule(PathBeneath::new(path, rights.iter().copied().collect::<BitFlags<_>>()))?;
    }
    Ok(rules)
}

impl Rights {
    fn access(self) -> BitFlags<AccessFs> {
        match self {
            Self::Read => AccessFs::ReadFile | AccessFs::ReadDir,
            // Programs are not started, whoever owns them.
            Self::Write => AccessFs::from_all(MAX_ABI) & !AccessFs::Execute,
        }
    }
}
