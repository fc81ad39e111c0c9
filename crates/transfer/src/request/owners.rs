//! The owners and modes that a request sets.

use super::transfer_request::TransferRequest;
use crate::TransferError;
use numaio_linux::process;
use numaio_mover::mode_changes::ModeChanges;
use numaio_mover::sink::FixedOwner;
use numaio_mover_linux::accounts;

impl TransferRequest {
    /// Returns the requested changes of modes.
    pub(super) fn mode_changes(&self) -> Result<ModeChanges, TransferError> {
        let Some(chmod) = &self.options.negotiated.chmod else { return Ok(ModeChanges::default()) };
        let changes = ModeChanges::parse(&chmod.changes, chmod.umask);
        changes.map_err(|error| TransferError::InvalidModes { why: error.to_string() })
    }

    /// Returns the requested owners, by the accounts of this machine.
    ///
    /// # Errors
    /// An account is unknown, or this process cannot give files to it.
    pub(super) fn fixed_owner(&self, is_root: bool) -> Result<FixedOwner, TransferError> {
        let Some(chown) = &self.options.negotiated.chown else { return Ok(FixedOwner::default()) };
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
