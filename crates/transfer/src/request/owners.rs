//! The owners and modes that a request sets.

use super::transfer_request::TransferRequest;
use crate::entry_options::EntryOptions;
use crate::TransferError;
use numaio_linux::process;
use numaio_mover::mode_changes::ModeChanges;
use numaio_mover::sink::FixedOwner;
use numaio_mover_linux::accounts;

/// The change of modes after which the owner of a directory can create entries in it.
const WRITABLE_DIRECTORIES: &str = "Du+rwx";

impl TransferRequest {
    /// Returns the requested changes of modes. Those of a shard keep directories writable, because
    /// other shards write to them without being root.
    pub(super) fn mode_changes(&self) -> Result<ModeChanges, TransferError> {
        let EntryOptions { chmod, shard, .. } = &self.options.entries;
        let typed = chmod.as_ref().map(|chmod| (chmod.changes.as_str(), chmod.umask));
        let (changes, umask) = match (typed, shard) {
            (None, None) => return Ok(ModeChanges::default()),
            (Some((changes, umask)), None) => (changes.to_owned(), umask),
            (None, Some(_)) => (WRITABLE_DIRECTORIES.to_owned(), 0),
            (Some((changes, umask)), Some(_)) => (format!("{changes},{WRITABLE_DIRECTORIES}"), umask),
        };
        ModeChanges::parse(&changes, umask)
            .map_err(|error| TransferError::InvalidModes { why: error.to_string() })
    }

    /// Returns the requested owners, by the accounts of this machine.
    ///
    /// # Errors
    /// An account is unknown, or this process cannot give files to it.
    pub(super) fn fixed_owner(&self, is_root: bool) -> Result<FixedOwner, TransferError> {
        let Some(chown) = &self.options.entries.chown else { return Ok(FixedOwner::default()) };
        let user = chown.user.as_ref().map(|name| account_id(name, "user", accounts::user_id)).transpose()?;
        let group =
            chown.group.as_ref().map(|name| account_id(name, "group", accounts::group_id)).transpose()?;
        let is_denied = |kind: &'static str, name: &Option<String>| {
            Err(TransferError::OwnerNotPermitted { kind, name: name.clone().unwrap_or_default() })
        };
        if !is_root && user.is_some_and(|user| user != process::user()) {
            return is_denied("user", &chown.user);
        }
        if !is_root && group.is_some_and(|group| !process::groups().contains(&group)) {
            return is_denied("group", &chown.group);
        }
        Ok(FixedOwner { user, group })
    }
}

/// Returns the ID of an account, given by its name or ID.
fn account_id(name: &str, kind: &'static str, find: fn(&[u8]) -> Option<u32>) -> Result<u32, TransferError> {
    // chown(2) reserves the last ID.
    let id = find(name.as_bytes()).or_else(|| name.parse().ok()).filter(|id| *id != u32::MAX);
    id.ok_or_else(|| TransferError::UnknownAccount { kind, name: name.to_owned() })
}
