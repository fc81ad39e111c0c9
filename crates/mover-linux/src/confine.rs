//! Irrevocable confinement of this process by Landlock
//! (`Documentation/userspace-api/landlock.rst`): access to file systems and network. It requires no
//! privileges.

use crate::accounts;
use crate::files::{Directory, Rights};
use landlock::{
    Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, ABI,
};
use std::io;

/// Newest Landlock ABI used; older kernels confine less.
const MAX_ABI: ABI = ABI::V6;

/// Readable files that describe this machine, for placing threads and buffers and resolving owners.
const READABLE_PATHS: [(&str, &[AccessFs]); 5] = [
    ("/sys", &[AccessFs::ReadFile, AccessFs::ReadDir]),
    ("/proc", &[AccessFs::ReadFile, AccessFs::ReadDir]),
    ("/etc/passwd", &[AccessFs::ReadFile]),
    ("/etc/group", &[AccessFs::ReadFile]),
    ("/etc/nsswitch.conf", &[AccessFs::ReadFile]),
];

/// Achieved confinement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfinementStatus {
    /// Everything requested.
    Full,
    /// An older Landlock: files are confined, other access only in part.
    Partial,
    /// The kernel lacks Landlock or has it disabled.
    Unsupported,
}

/// Confines this thread and the threads it starts to some directories and to files that describe
/// this machine. They cannot open TCP connections, signal other processes or gain privileges. Call
/// it before starting threads.
///
/// # Errors
/// I/O error if Landlock is available but fails.
pub fn confine(directories: &[(&Directory, Rights)]) -> io::Result<ConfinementStatus> {
    // Makes the C library load its name services before they become unreachable.
    drop(accounts::user_name(0));
    accounts::start_name_service();
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
        rules = rules.add_rule(PathBeneath::new(*directory, access(*rights)))?;
    }
    for (path, rights) in READABLE_PATHS {
        // Missing files are not needed.
        let Ok(path) = PathFd::new(path) else { continue };
        rules = rules.add_rule(PathBeneath::new(path, rights.iter().copied().collect::<BitFlags<_>>()))?;
    }
    Ok(rules)
}

/// Returns the access that rights allow.
fn access(rights: Rights) -> BitFlags<AccessFs> {
    match rights {
        Rights::Read => AccessFs::ReadFile | AccessFs::ReadDir,
        // No program may be executed.
        Rights::Write => AccessFs::from_all(MAX_ABI) & !AccessFs::Execute,
    }
}
