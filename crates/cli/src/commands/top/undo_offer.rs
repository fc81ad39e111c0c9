//! The newest change that `numaio undo` would revert, and its reversal.

use crate::failure::Failure;
use crate::options::Common;
use crate::receipts::{self, UndoOutcome};

/// Returns the ID of the newest change that numaio made on this machine, if there is one.
pub fn newest_change() -> Result<Option<String>, Failure> {
    let common = Common::silent();
    let kernel = receipts::live_kernel(&common)?;
    Ok(receipts::all(&common, &kernel)?.pop().map(|stored| stored.id))
}

/// Reverts a change, and returns a message.
pub fn revert(id: &str) -> Result<String, Failure> {
    let common = Common::silent();
    let kernel = receipts::live_kernel(&common)?;
    let _lock = receipts::lock(&common);
    let all = receipts::all(&common, &kernel)?;
    let stored = all.iter().rfind(|stored| stored.id == id);
    let stored = stored.ok_or_else(|| Failure::new(format!("change '{id}' not found")))?;
    Ok(match receipts::undo(&kernel, stored, &all)? {
        UndoOutcome::Done { settings, .. } => format!("reverted {id}: {settings} settings restored"),
        UndoOutcome::Rebooted => format!("{id}: a reboot has already reverted it"),
    })
}
